"""The area under the risk-coverage curve as a loss."""

from torch import Tensor

from sklearn_calib.losses._composed import _ComposedLoss, build_base
from sklearn_calib.losses._regularized_aurc import (
    area_loss,
    check_area,
    regularized_aurc_loss,
)


def aurc_loss(
    logits: Tensor,
    target: Tensor,
    *,
    confidence="msp",
    base="cross_entropy",
    weights="harmonic",
    reduction="mean",
    sample_weight: Tensor | None = None,
    **base_params,
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
    .. [1] H. Zhou, J. Van Landeghem, T. Popordanoska, M. Blaschko (2025). A novel
       characterization of the population area under the risk coverage curve (AURC)
       and rates of finite sample estimators. ICML.
    .. [2] V. Franc, D. Prusa, V. Voracek (2023). Optimal strategies for reject option
       classifiers. JMLR 24.

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


class AURCLoss(_ComposedLoss):
    """Area under the curve of risk over coverage, AURC. The smaller the better.

    The module of :func:`aurc_loss`, which has the details.

    Parameters
    ----------
    confidence : str or callable, default="msp"
        What orders the samples: "msp", "margin", "negative_entropy", "negative_gini",
        "l2_norm", "max_logit", or a function of the logits.
    base : str or CalibrationLoss, default="cross_entropy"
        The loss of each sample.
    weights : {"harmonic", "log", "sele"}, default="harmonic"
        The estimator; the default is the empirical area.
    reduction : {"mean", "sum", "none"}, default="mean"
        What to return: the mean over the batch, the sum, or one loss per sample.
    **base_params : dict
        The parameters of `base`, as in ``base="focal", base__gamma=1.0``.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import AURCLoss
    >>> AURCLoss()(torch.zeros(1, 2), torch.tensor([1]))
    tensor(0.6931)
    """

    needs_values = True

    def __init__(
        self,
        *,
        confidence="msp",
        base="cross_entropy",
        weights="harmonic",
        reduction="mean",
        **base_params,
    ):
        super().__init__(base=base, base_params=base_params, reduction=reduction)
        check_area(confidence, weights)
        self.confidence, self.weights = confidence, weights

    def forward(
        self, logits: Tensor, target: Tensor, sample_weight: Tensor | None = None
    ) -> Tensor:
        """Return the loss of a batch; see :func:`aurc_loss`."""
        return area_loss(
            logits,
            target,
            sample_weight,
            lambd=1.0,
            epsilon=None,
            confidence=self.confidence,
            base=self.base_,
            ranks="hard",
            weights=self.weights,
            reduction=self.reduction,
        )
