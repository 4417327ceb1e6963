"""The regularised AURC loss: a risk, and the same risk weighted by confidence ranks."""

from typing import Any

import torch
from torch import Tensor

from sklearn_calib.losses._base import (
    REPETITIONS,
    check_batch,
    check_choice,
    check_nonnegative,
    check_positive,
    check_weight,
    is_choice,
    reduce_loss,
)
from sklearn_calib.losses._composed import Base, _ComposedLoss, build_base
from sklearn_calib.losses._confidence import check_confidence
from sklearn_calib.losses._rank_weights import RANKS, WEIGHTS, rank_weights
from sklearn_calib.losses._soft_rank import PLAIN_RANKS
from sklearn_calib.losses._typing import (
    Confidence,
    FloatOrAuto,
    Ranks,
    Reduction,
    Weights,
)


def regularized_aurc_loss(
    logits: Tensor,
    target: Tensor,
    *,
    lambd: float = 0.5,
    epsilon: FloatOrAuto = 0.05,
    confidence: Confidence = "msp",
    base: Base = "cross_entropy",
    ranks: Ranks = "soft",
    weights: Weights = "log",
    reduction: Reduction = "mean",
    sample_weight: Tensor | None = None,
    **base_params: Any,
) -> Tensor:
    r"""Mean loss, mixed with the area under its risk-coverage curve. Small is good.

    With l the loss of a sample and r the rank of its confidence in the batch of n, 1
    for the least confident, the loss is the mean of ``(1 - lambd) * l + lambd * w * l``
    with the weight ``w = -log(1 - r / (n + 1))`` [1]_. A mistake costs the more, the
    surer the network is of it compared with the others. 0 is best.

    Parameters
    ----------
    logits : Tensor of shape (N, C)
        Unnormalised log probabilities.
    target : Tensor of shape (N,)
        Class indices.
    lambd : float, default=0.5
        Share of the area, in [0, 1]. With 0 the loss is that of `base`, with 1 it is
        the area under the risk-coverage curve alone. The authors use 0.3 and 0.5.
    epsilon : float or "auto", default=0.05
        How much the ranks are smoothed, above 0, see :func:`soft_rank`. It acts
        together with the size of the batch and the spread of the confidences, see the
        notes; "auto" is ``2 * spread / n``, where ``spread = sqrt(12) * std`` is the
        length of the interval over which evenly spread confidences have this standard
        deviation, and at least 0.2. It is a constant for the gradient.
    confidence : str or callable, default="msp"
        What is ranked: the largest probability "msp", the "margin" between the two
        largest, "negative_entropy", "negative_gini" (the sum of squares minus 1), the
        "l2_norm" of the probabilities, the "max_logit"; or a function that takes the
        logits and returns one score per sample.
    base : str or CalibrationLoss, default="cross_entropy"
        The loss of each sample: a name as for :func:`get_loss`, or an instance, whose
        reduction is ignored.
    ranks : {"soft", "hard"}, default="soft"
        Soft ranks let the gradient move the confidences past each other. Hard ranks
        are constants for the gradient; confidences that are tied, to within rounding,
        have the mean of their ranks.
    weights : {"log", "harmonic", "sele"}, default="log"
        What a rank r weighs: ``-log(1 - r / (n + 1))``; ``H(n) - H(n - r)`` with the
        harmonic numbers H, continued by the digamma function, with which hard ranks
        give the empirical area exactly [2]_; ``r / n``, of which twice is an upper
        bound of the area [3]_.
    reduction : {"mean", "sum", "none"}, default="mean"
        What to return: the mean over the batch, the sum, or one loss per sample, which
        depends on the others through its rank.
    sample_weight : Tensor of shape (N,), default=None
        Non-negative weights: a sample of weight m counts as m equal samples, among the
        ranks too, and n is their sum. So the scale of the weights matters.
    **base_params : dict
        The parameters of `base`, as in ``base="focal", base__gamma=1.0``.

    Returns
    -------
    loss : Tensor
        A scalar, or of shape (N,) with ``reduction="none"``.

    Raises
    ------
    ValueError
        If a parameter is out of range, the confidence is not finite or the shapes do
        not match.
    TypeError
        If a parameter or the logits are of the wrong type, or a keyword is unknown.

    See Also
    --------
    RegularizedAURCLoss : The same as a module.
    aurc_loss : The area alone, with hard ranks.
    soft_rank : The ranks.

    Notes
    -----
    Soft ranks of a narrow spread are narrow too. With 128 confidences evenly spread
    over [0.1, 1] and an epsilon of 0.05 the ranks reach from 55.5 to 73.5, and the
    weights from 0.56 to 0.84; those of hard ranks from 0.008 to 4.86. The loss is then
    close to a multiple of `base`. With "auto" the ranks of evenly spread confidences
    reach over half of 1 to n, and here the weights from 0.29 to 1.37. That makes the
    term stronger, which need not make the probabilities better: search over epsilon.
    The bound of 0.2 on the spread keeps the gradient through the ranks below that of
    `base` while a network has learned little and its confidences are nearly equal.

    The gradient flows through the weights too (equations 40 to 44), and there it
    lowers the confidence of samples whose loss is large and raises the others'.

    References
    ----------
    .. [1] H. Zhou, S. G. Gruber, T. Popordanoska and M. B. Blaschko, "Revisiting
       Reweighted Risk for Calibration: AURC, Focal Loss, and Inverse Focal Loss",
       arXiv:2505.23463, 2025, algorithm 1 and equation 22.
    .. [2] H. Zhou, J. Van Landeghem, T. Popordanoska and M. B. Blaschko, "A Novel
       Characterization of the Population Area Under the Risk Coverage Curve (AURC) and
       Rates of Finite Sample Estimators", ICML 2025.
    .. [3] V. Franc, D. Prusa and V. Voracek, "Optimal Strategies for Reject Option
       Classifiers", JMLR 24, 2023.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import regularized_aurc_loss
    >>> logits = torch.tensor([[2.0, 0.0], [0.0, 1.0], [0.0, 0.5]])
    >>> target = torch.tensor([0, 0, 1])
    >>> regularized_aurc_loss(logits, target, lambd=0.0)
    tensor(0.6381)
    >>> regularized_aurc_loss(logits, target, lambd=1.0, epsilon="auto")
    tensor(0.4087)
    """
    _check_params(lambd, epsilon, ranks)
    _check_area(confidence, weights)
    base = build_base(base, base_params, regularized_aurc_loss)
    logits, target = check_batch(logits, target)
    values, score = base._values_and_confidence(logits, target, confidence)
    repeats = sample_weight
    if repeats is not None:
        repeats = check_weight(repeats, values, within=REPETITIONS)
    weight = rank_weights(
        score, ranks=ranks, weights=weights, epsilon=epsilon, sample_weight=repeats
    )
    values = torch.lerp(values, weight * values, float(lambd))
    return reduce_loss(values, reduction, sample_weight)


def _check_params(lambd: float, epsilon: FloatOrAuto, ranks: Ranks) -> None:
    """Check what the area alone does not depend on."""
    check_nonnegative("lambd", lambd, most=1)
    if not is_choice(epsilon, ("auto",)):
        check_positive("epsilon", epsilon, also=", or 'auto'", hint=PLAIN_RANKS)
    check_choice("ranks", ranks, RANKS)


def _check_area(confidence: Confidence, weights: Weights) -> None:
    """Check what the area alone depends on."""
    check_confidence(confidence)
    check_choice("weights", weights, WEIGHTS)


def aurc_loss(
    logits: Tensor,
    target: Tensor,
    *,
    confidence: Confidence = "msp",
    base: Base = "cross_entropy",
    weights: Weights = "harmonic",
    reduction: Reduction = "mean",
    sample_weight: Tensor | None = None,
    **base_params: Any,
) -> Tensor:
    """Area under the curve of risk over coverage, AURC. The smaller the better.

    The mean, over k, of the mean loss among the k samples of the batch that the
    network is surest of [1]_. A mistake costs the more, the surer the network is of it
    compared with the others. 0 is best.

    Parameters
    ----------
    logits : Tensor of shape (N, C)
        Unnormalised log probabilities.
    target : Tensor of shape (N,)
        Class indices.
    confidence : str or callable, default="msp"
        What orders the samples: "msp", "margin", "negative_entropy", "negative_gini",
        "l2_norm", "max_logit", or a function of the logits, as for
        :func:`regularized_aurc_loss`.
    base : str or CalibrationLoss, default="cross_entropy"
        The loss of each sample: a name as for :func:`get_loss`, or an instance.
    weights : {"harmonic", "log", "sele"}, default="harmonic"
        The estimator. With r the rank of a sample, 1 for the least confident, its loss
        has the weight ``H(n) - H(n - r)`` with the harmonic numbers H, which makes the
        mean the empirical area; ``-log(1 - r / (n + 1))``, its limit; or ``r / n``, of
        which twice is an upper bound [2]_.
    reduction : {"mean", "sum", "none"}, default="mean"
        What to return: the mean over the batch, the sum, or one loss per sample, which
        depends on the others through its rank.
    sample_weight : Tensor of shape (N,), default=None
        Non-negative weights: a sample of weight m counts as m equal samples, among the
        ranks too. So the scale of the weights matters.
    **base_params : dict
        The parameters of `base`, as in ``base="focal", base__gamma=1.0``.

    Returns
    -------
    loss : Tensor
        A scalar, or of shape (N,) with ``reduction="none"``.

    Raises
    ------
    ValueError
        If a parameter is unknown, the confidence is not finite or the shapes do not
        match.
    TypeError
        If the logits are no floating point tensor, or a keyword is unknown.

    See Also
    --------
    AURCLoss : The same as a module.
    regularized_aurc_loss : Adds the plain risk, and a gradient through the ranks.
    sklearn_calib.metrics.aurc_loss : Calls the estimator "log" by its limit,
        "population".

    Notes
    -----
    It is :func:`regularized_aurc_loss` with ``lambd=1`` and hard ranks: the ranks are
    constants for the gradient, and confidences that are tied, to within rounding, have
    the mean of their ranks. The least confident samples have nearly no weight; a plain
    risk beside it keeps them.

    References
    ----------
    .. [1] H. Zhou, J. Van Landeghem, T. Popordanoska and M. B. Blaschko, "A Novel
       Characterization of the Population Area Under the Risk Coverage Curve (AURC) and
       Rates of Finite Sample Estimators", ICML 2025.
    .. [2] V. Franc, D. Prusa and V. Voracek, "Optimal Strategies for Reject Option
       Classifiers", JMLR 24, 2023.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import aurc_loss
    >>> logits = torch.tensor([[2.0, 0.0], [0.0, 1.0], [0.0, 0.5]])
    >>> aurc_loss(logits, torch.tensor([0, 0, 1]))
    tensor(0.4950)
    """
    return regularized_aurc_loss(
        logits,
        target,
        lambd=1.0,
        confidence=confidence,
        base=build_base(base, base_params, aurc_loss),
        ranks="hard",
        weights=weights,
        reduction=reduction,
        sample_weight=sample_weight,
    )


class RegularizedAURCLoss(_ComposedLoss, function=regularized_aurc_loss):
    """The module of :func:`regularized_aurc_loss`, which has the details.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import RegularizedAURCLoss
    >>> loss = RegularizedAURCLoss(lambd=0.3, base="focal", base__gamma=1.0)
    >>> loss(torch.zeros(1, 2), torch.tensor([1]))
    tensor(0.3147)
    """

    formula = "mean of (1 - lambd + lambd w(soft rank of r)) (-log p_t)"
    needs_values = True

    def __init__(
        self,
        *,
        lambd: float = 0.5,
        epsilon: FloatOrAuto = 0.05,
        confidence: Confidence = "msp",
        base: Base = "cross_entropy",
        ranks: Ranks = "soft",
        weights: Weights = "log",
        reduction: Reduction = "mean",
        **base_params: Any,
    ) -> None:
        super().__init__(base=base, base_params=base_params, reduction=reduction)
        _check_params(lambd, epsilon, ranks)
        _check_area(confidence, weights)
        self.lambd, self.epsilon, self.ranks = lambd, epsilon, ranks
        self.confidence, self.weights = confidence, weights


class AURCLoss(_ComposedLoss, function=aurc_loss):
    """The module of :func:`aurc_loss`, which has the details.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import AURCLoss
    >>> AURCLoss()(torch.zeros(1, 2), torch.tensor([1]))
    tensor(0.6931)
    """

    formula = "mean of w(rank of r) (-log p_t), w = H(n) - H(n - rank)"
    needs_values = True

    def __init__(
        self,
        *,
        confidence: Confidence = "msp",
        base: Base = "cross_entropy",
        weights: Weights = "harmonic",
        reduction: Reduction = "mean",
        **base_params: Any,
    ) -> None:
        super().__init__(base=base, base_params=base_params, reduction=reduction)
        _check_area(confidence, weights)
        self.confidence, self.weights = confidence, weights
