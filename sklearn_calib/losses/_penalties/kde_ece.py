"""Kernel density estimate of the calibration error (KDE-ECE) as a penalty."""

from typing import Any, get_args

from torch import Tensor

from sklearn_calib.losses._base.checks import (
    REPETITIONS,
    check_batch,
    check_choice,
    check_nonnegative,
    check_positive,
    check_weight,
    in_full_precision,
    is_choice,
    reduce_loss,
)
from sklearn_calib.losses._base.composed import Base, _ComposedLoss, build_base
from sklearn_calib.losses._base.typing import FloatOrAuto, Norm, Reduction
from sklearn_calib.losses._penalties.kernel import MODES, Mode, calibration_errors

NORMS = get_args(Norm)


def kde_ece_loss(
    logits: Tensor,
    target: Tensor,
    *,
    lambd: float = 0.5,
    mode: Mode = "canonical",
    norm: Norm = "l1",
    bandwidth: FloatOrAuto = 0.1,
    base: Base = "cross_entropy",
    reduction: Reduction = "mean",
    sample_weight: Tensor | None = None,
    **base_params: Any,
) -> Tensor:
    r"""Kernel estimate of the calibration error (KDE-ECE) added to a base loss.

    The loss is ``base + lambd * penalty``. The penalty is the calibration error of the
    batch, the mean over the samples of ``sum_k |r_k - p_k|`` [1]_. Here p is the
    prediction for a sample, and r is the mean one-hot label of the other samples,
    weighted by a Dirichlet kernel. The kernel is large for predictions close to p. With
    cross-entropy as the base, the loss is known as KDE-XE.

    Parameters
    ----------
    logits : Tensor of shape (N, C)
        Unnormalised log probabilities.
    target : Tensor of shape (N,)
        Class indices.
    lambd : float, default=0.5
        Weight of the calibration error, at least 0. With 0, the loss is that of `base`.
    mode : {"canonical", "classwise", "top_label"}, default="canonical"
        Notion of calibration: of the whole probability vector; of the probability of
        each class separately, with the errors summed; or of the probability of the
        predicted class.
    norm : {"l1", "l2"}, default="l1"
        Whether to sum absolute values or squares, without a square root.
    bandwidth : float or "auto", default=0.1
        Bandwidth of the kernels, above 0. A kernel at the probability p has a width of
        about ``sqrt(p * (1 - p) * bandwidth)``. "auto" selects the one of seven values
        from 0.001 to 1 that maximises the leave-one-out likelihood of the predictions
        in the batch. This bandwidth is treated as a constant in the gradient.
    base : str or CalibrationLoss, default="cross_entropy"
        Per-sample loss: a name accepted by :func:`get_loss`, or an instance, whose
        `reduction` is ignored.
    reduction : {"mean", "sum", "none"}, default="mean"
        Whether to return the mean over the batch, the sum, or the loss of each sample,
        which depends on the other samples through r.
    sample_weight : Tensor of shape (N,), default=None
        Non-negative sample weights. A sample of weight m counts as m identical samples,
        each of which is compared with the m - 1 others. The scale of the weights
        therefore matters.
    **base_params : dict
        Parameters of `base`, as in ``base="focal", base__gamma=1.0``.

    Returns
    -------
    loss : Tensor
        A scalar, or of shape (N,) with ``reduction="none"``.

    Raises
    ------
    ValueError
        If a parameter is out of range or the shapes do not match.
    TypeError
        If a parameter or `logits` has the wrong type, or a keyword is unknown.

    See Also
    --------
    KDEECELoss : Module version of this function.

    Notes
    -----
    Kernels are computed in log space, without clipping probabilities. The loss and its
    gradient are therefore finite for predictions of any confidence. The error of a
    batch of one sample is 0. If classes are tied, the first one is predicted, as by
    argmax.

    Time and memory are O(N^2), or O(C N^2) with ``mode="classwise"``. Use large
    batches: for a few samples the leave-one-out estimate is far from 0 even if the
    network is perfectly calibrated, in particular with many classes.

    References
    ----------
    .. [1] T. Popordanoska, R. Sayer and M. B. Blaschko, "A Consistent and
       Differentiable Lp Canonical Calibration Error Estimator", NeurIPS 2022, equation
       9.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import kde_ece_loss
    >>> logits = torch.tensor([[2.0, 0.0], [0.0, 2.0], [2.0, 0.0], [0.0, 2.0]])
    >>> kde_ece_loss(logits, torch.tensor([0, 1, 0, 1]), lambd=0.0)
    tensor(0.1269)
    >>> kde_ece_loss(logits, torch.tensor([0, 1, 0, 1]), lambd=1.0)
    tensor(0.3653)
    """
    _check_params(lambd, mode, norm, bandwidth)
    base = build_base(base, base_params, kde_ece_loss)
    logits, target = check_batch(logits, target)
    values = base(logits, target)
    weight = sample_weight
    if weight is not None:
        weight = check_weight(weight, values, within=REPETITIONS)
    power = NORMS.index(norm) + 1
    with in_full_precision(logits):
        error = calibration_errors(logits, target, mode, power, bandwidth, weight)
    return reduce_loss(values + float(lambd) * error, reduction, sample_weight)


def _check_params(lambd: float, mode: Mode, norm: Norm, bandwidth: FloatOrAuto) -> None:
    """Check the parameters of the calibration error."""
    check_nonnegative("lambd", lambd)
    check_choice("mode", mode, MODES)
    check_choice("norm", norm, NORMS)
    if not is_choice(bandwidth, ("auto",)):
        hint = "Use a small value, such as 0.01, to compare only close predictions."
        check_positive("bandwidth", bandwidth, also=", or 'auto'", hint=hint)


class KDEECELoss(_ComposedLoss, function=kde_ece_loss):
    """Module version of :func:`kde_ece_loss`. See there for details.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import KDEECELoss
    >>> loss = KDEECELoss(lambd=0.3, base="focal", base__gamma=1.0)
    >>> loss(torch.zeros(2, 2), torch.tensor([0, 1]))
    tensor(0.6466)
    """

    formula = (
        r"mean of $\sum_k \lvert E[y_k \mid p] - p_k \rvert$, $E$ by a Dirichlet kernel"
    )

    def __init__(
        self,
        *,
        lambd: float = 0.5,
        mode: Mode = "canonical",
        norm: Norm = "l1",
        bandwidth: FloatOrAuto = 0.1,
        base: Base = "cross_entropy",
        reduction: Reduction = "mean",
        **base_params: Any,
    ) -> None:
        super().__init__(base=base, base_params=base_params, reduction=reduction)
        _check_params(lambd, mode, norm, bandwidth)
        self.lambd, self.mode, self.norm = lambd, mode, norm
        self.bandwidth = bandwidth
        self.needs_values = bandwidth == "auto"
