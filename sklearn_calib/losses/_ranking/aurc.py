"""AURC loss and regularised AURC loss, with weights from ranks of confidences."""

import math
from typing import Annotated, Any, Literal

import torch
from scipy.special import digamma
from torch import Tensor

from sklearn_calib.losses._base.checks import (
    IgnoredIndex,
    Proportion,
    Reduction,
    above_zero,
    check_batch,
    check_positive,
    check_weight,
    is_choice,
    is_traced,
    reduce_loss,
)
from sklearn_calib.losses._base.composed import Base, _ComposedLoss, build_base
from sklearn_calib.losses._base.decorators import loss_function, parameters_of
from sklearn_calib.losses._base.logit_confidence import LogitConfidence
from sklearn_calib.losses._ranking.soft_rank import ORDINARY_RANKS, soft_ranks

# The epsilon of hard ranks. A network may return slightly different outputs for equal
# samples because of rounding. With this epsilon such confidences count as tied.
TIED = {torch.float32: 1e-6, torch.float64: 1e-12}

# The smallest spread of confidences that epsilon="auto" assumes. The gradient through
# the ranks grows as one over the spread. The confidences of an untrained network are
# nearly equal, so that without this bound the gradient would be much larger than that
# of the base loss and prevent learning.
MIN_SPREAD = 0.2


def _check_epsilon(name: str, value: Any) -> None:
    if not is_choice(value, ("auto",)):
        check_positive(name, value, also=", or 'auto'", hint=ORDINARY_RANKS)


Epsilon = Annotated[float | Literal["auto"], _check_epsilon]
Ranks = Literal["hard", "soft"]
RankWeights = Literal["harmonic", "log", "sele"]


@loss_function
def regularized_aurc_loss(
    logits: Tensor,
    target: Tensor,
    *,
    lambd: Proportion = 0.5,
    epsilon: Epsilon = 0.05,
    confidence: LogitConfidence = "msp",
    base: Base = "cross_entropy",
    ranks: Ranks = "soft",
    weights: RankWeights = "log",
    ignore_index: IgnoredIndex = -100,
    reduction: Reduction = "mean",
    sample_weight: Tensor | None = None,
    **base_params: Any,
) -> Tensor:
    r"""Regularised AURC: base loss mixed with its area under the risk-coverage curve.

    Let l be the base loss of a sample and r the rank of its confidence in the batch of
    n samples, with rank 1 for the least confident one. The loss is the mean of
    ``(1 - lambd) * l + lambd * w * l`` with the weight ``w = -log(1 - r / (n + 1))``
    [1]_. Wrong predictions therefore cost more if they are among the most confident
    ones.

    Parameters
    ----------
    logits : Tensor of shape (N, C, ...)
        Unnormalised log probabilities.
    target : Tensor of shape (N, ...)
        Class indices.
    lambd : float, default=0.5
        Weight of the area, in [0, 1]. With 0, the loss is that of `base`, with 1 it is
        the area under the risk-coverage curve. The authors use 0.3 and 0.5.
    epsilon : float or "auto", default=0.05
        Smoothing of the ranks, above 0; see :func:`soft_rank`. The effect depends on
        the batch size and on the spread of the confidences; see the notes of
        :func:`regularized_aurc_loss`. "auto" is ``2 * spread / n`` for a batch of n
        samples, where the spread is ``sqrt(12)`` times the standard deviation of the
        confidences, but at least 0.2. For uniformly distributed confidences, this is
        the length of their interval. The gradient treats the value of "auto" as a
        constant. The default is the authors' value for batches of 128.
    confidence : str or callable, default="msp"
        Confidence score to rank: the largest probability ("msp"), the difference
        between the two largest ("margin"), "negative_entropy", the sum of squared
        probabilities minus 1 ("negative_gini"), their L2 norm ("l2_norm"), the largest
        logit ("max_logit"), the largest logit minus their mean, divided by the 4-norm
        of the logits minus their mean ("p_norm", for three classes or more), or a
        callable that takes logits and returns one score per sample.
    base : str or CalibrationLoss, default="cross_entropy"
        Per-sample loss: a name accepted by :func:`get_loss`, or an instance, whose
        `reduction` and `ignore_index` are ignored.
    ranks : {"soft", "hard"}, default="soft"
        Soft ranks are differentiable, so that training can change the order of the
        confidences. Hard ranks are treated as constants in the gradient. Confidences
        that are tied, up to rounding, have the mean of their ranks.
    weights : {"log", "harmonic", "sele"}, default="log"
        Weight of the sample of rank r among n samples, with rank 1 for the least
        confident one:

        - "log": ``-log(1 - r / (n + 1))``;
        - "harmonic": ``H(n) - H(n - r)`` with the harmonic numbers H, extended to soft
          ranks by the digamma function. With hard ranks the weighted mean is the
          empirical area [2]_;
        - "sele": ``r / n``. Twice the weighted mean is an upper bound of the area [3]_.
    ignore_index : int, default=-100
        Class index of samples that are left out, as in PyTorch's `cross_entropy`.
    reduction : {"mean", "sum", "none"}, default="mean"
        Whether to return the mean over the batch, the sum, or the loss of each sample,
        which depends on the other samples through its rank.
    sample_weight : Tensor of shape (N, ...), default=None
        Non-negative sample weights. A sample of weight m counts as m identical samples,
        also for the ranks, and n is the sum of the weights. The scale of the weights
        therefore matters.
    **base_params : dict
        Parameters of `base`, as in ``base="focal", base__gamma=1.0``.

    Returns
    -------
    loss : Tensor
        A scalar, or of shape (N, ...) with ``reduction="none"``.

    Raises
    ------
    ValueError
        If a parameter is out of range, the confidence is not finite or the shapes do
        not match.
    TypeError
        If a parameter or `logits` has the wrong type, or a keyword is unknown.

    See Also
    --------
    RegularizedAURCLoss : Module version of this function.
    aurc_loss : The area only, with hard ranks.
    soft_rank : Computes the soft ranks.

    Notes
    -----
    With the default, the authors' value, the loss is cross-entropy in effect: all soft
    ranks in a batch are nearly equal. With "auto" they cover half of the range from 1
    to n if the confidences are evenly spaced, and the effect is small. A smaller value
    makes the network less confident. This lowers the calibration error if the network
    fits its training data. Otherwise it lowers the accuracy, and training may stay at
    chance level. The guide on losses has measurements.

    The spread is at least 0.2 so that the gradient through the ranks is smaller than
    that of the base loss while the confidences are nearly equal, early in training.

    The negative entropy is that of the probabilities. Table 3 of [1]_ prints it with
    the logits, whose logarithm is not defined if they are negative.

    The gradient also flows through the weights (equations 40 to 44 of [1]_). This part
    lowers the confidence of samples with a large loss and raises that of the others.

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
    base = build_base(base, base_params, regularized_aurc_loss)
    logits, target = check_batch(logits, target)
    values, score = base._values_and_confidence(logits, target, confidence)
    repeats = sample_weight
    if repeats is not None:
        repeats = check_weight(repeats, values)
    weight = rank_weights(
        score, ranks=ranks, weights=weights, epsilon=epsilon, sample_weight=repeats
    )
    values = torch.lerp(values, weight * values, float(lambd))
    return reduce_loss(values, reduction, sample_weight)


@loss_function
def aurc_loss(
    logits: Tensor,
    target: Tensor,
    *,
    confidence: LogitConfidence = "msp",
    base: Base = "cross_entropy",
    weights: RankWeights = "harmonic",
    ignore_index: IgnoredIndex = -100,
    reduction: Reduction = "mean",
    sample_weight: Tensor | None = None,
    **base_params: Any,
) -> Tensor:
    """AURC loss: area under the risk-coverage curve of the base loss in the batch.

    It is the mean over k of the mean base loss of the k most confident samples in the
    batch [1]_. Wrong predictions therefore cost more if they are among the most
    confident ones.

    Parameters
    ----------
    logits : Tensor of shape (N, C, ...)
        Unnormalised log probabilities.
    target : Tensor of shape (N, ...)
        Class indices.
    confidence : str or callable, default="msp"
        Confidence score to rank: "msp", "margin", "negative_entropy", "negative_gini",
        "l2_norm", "max_logit", "p_norm", or a callable, as in
        :func:`regularized_aurc_loss`.
    base : str or CalibrationLoss, default="cross_entropy"
        Per-sample loss: a name accepted by :func:`get_loss`, or an instance, whose
        `reduction` and `ignore_index` are ignored.
    weights : {"harmonic", "log", "sele"}, default="harmonic"
        Estimator of the area, by the weight of the sample of rank r among n samples,
        with rank 1 for the least confident one:

        - "harmonic": ``H(n) - H(n - r)`` with the harmonic numbers H. The weighted mean
          is the empirical area;
        - "log": ``-log(1 - r / (n + 1))``, the limit of these weights for large n;
        - "sele": ``r / n``. Twice the weighted mean is an upper bound of the area [2]_.
    ignore_index : int, default=-100
        Class index of samples that are left out, as in PyTorch's `cross_entropy`.
    reduction : {"mean", "sum", "none"}, default="mean"
        Whether to return the mean over the batch, the sum, or the loss of each sample,
        which depends on the other samples through its rank.
    sample_weight : Tensor of shape (N, ...), default=None
        Non-negative sample weights. A sample of weight m counts as m identical samples,
        also for the ranks. The scale of the weights therefore matters.
    **base_params : dict
        Parameters of `base`, as in ``base="focal", base__gamma=1.0``.

    Returns
    -------
    loss : Tensor
        A scalar, or of shape (N, ...) with ``reduction="none"``.

    Raises
    ------
    ValueError
        If a parameter is invalid, the confidence is not finite or the shapes do not
        match.
    TypeError
        If `logits` is not a floating point tensor, or a keyword is unknown.

    See Also
    --------
    AURCLoss : Module version of this function.
    regularized_aurc_loss : Adds the base loss, and a gradient through the ranks.
    sklearn_calib.metrics.aurc_loss : The metric, in which the estimator "log" is named
        "population".

    Notes
    -----
    The loss is :func:`regularized_aurc_loss` with ``lambd=1`` and hard ranks. The ranks
    are treated as constants in the gradient. Confidences that are tied, up to rounding,
    have the mean of their ranks.

    The least confident samples have weights near 0. Use :func:`regularized_aurc_loss`
    with ``lambd`` below 1 to give them more weight.

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


class RegularizedAURCLoss(_ComposedLoss):
    """Module version of :func:`regularized_aurc_loss`. See there for details.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import RegularizedAURCLoss
    >>> loss = RegularizedAURCLoss(lambd=0.3, base="focal", base__gamma=1.0)
    >>> loss(torch.zeros(1, 2), torch.tensor([1]))
    tensor(0.3147)
    """

    formula = (
        r"mean of $(1 - \lambda + \lambda\, w(\text{soft rank of } r)) (-\log p_t)$"
    )
    needs_values = True

    @parameters_of(regularized_aurc_loss)
    def __init__(self) -> None: ...


class AURCLoss(_ComposedLoss):
    """Module version of :func:`aurc_loss`. See there for details.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import AURCLoss
    >>> AURCLoss()(torch.zeros(1, 2), torch.tensor([1]))
    tensor(0.6931)
    """

    formula = r"mean of $w(\text{rank of } r) (-\log p_t)$, $w(k) = H_n - H_{n - k}$"
    needs_values = True

    @parameters_of(aurc_loss)
    def __init__(self) -> None: ...


def rank_weights(
    score: Tensor,
    *,
    ranks: Ranks,
    weights: RankWeights,
    epsilon: Any,
    sample_weight: Tensor | None = None,
) -> Tensor:
    """Return the weight of each sample given its confidence score."""
    if ranks == "hard":
        score, epsilon = score.detach(), TIED[score.dtype]
    elif epsilon == "auto":
        epsilon = auto_epsilon(score.detach(), sample_weight)
    rank = soft_ranks(score, epsilon, sample_weight)
    n: Any = len(rank)
    if sample_weight is not None:
        total = _total(sample_weight)
        n = total if is_traced() else total.item()
    return WEIGHTS[weights](rank, n)


def auto_epsilon(score: Tensor, sample_weight: Tensor | None = None) -> Any:
    """Return the epsilon that halves the range of the ranks of uniform confidences.

    It is a float, or a tensor if the code is traced.
    """
    weight = torch.ones_like(score) if sample_weight is None else sample_weight
    n = _total(weight)
    mean = (weight * score).sum() / n
    variance = (weight * (score - mean).square()).sum() / n
    if is_traced():
        return 2 * (12 * variance).sqrt().clamp_min(MIN_SPREAD) / n
    spread = max(math.sqrt(12 * variance.item()), MIN_SPREAD)
    return 2 * spread / n.item()


def _digamma(value: Any) -> Any:
    """Return the digamma function of a number, as a float, or of a tensor."""
    if is_traced():
        return torch.digamma(torch.as_tensor(value, dtype=torch.float64))
    return float(digamma(value))


# The weight of a sample given its rank among n samples, 1 for the least confident.
WEIGHTS = {
    "harmonic": lambda rank, n: _digamma(n + 1) - torch.digamma(n + 1 - rank),
    "log": lambda rank, n: -torch.log1p(rank * (-1 / (n + 1))),
    "sele": lambda rank, n: rank / n,
}


def _total(weight: Tensor) -> Tensor:
    """Return the sum of the weights, or a tiny number if all weights are 0."""
    return above_zero(weight.sum())
