"""A loss plus the calibration error of the batch, estimated with kernels (KDE-XE)."""

from typing import Any, get_args

from torch import Tensor

from sklearn_calib.losses._base import (
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
from sklearn_calib.losses._composed import Base, _ComposedLoss, build_base
from sklearn_calib.losses._kernel import MODES, Mode, calibration_errors
from sklearn_calib.losses._typing import FloatOrAuto, Norm, Reduction

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
    r"""Mean loss plus lambd times the calibration error of the batch. Small is good.

    The error is the mean over the samples of ``sum_k |r_k - p_k|``, where r is the
    share of the labels among the other samples of the batch, each weighted by a
    Dirichlet kernel that looks at how close its prediction is to p [1]_. With
    cross-entropy as the base it is known as KDE-XE. 0 is best.

    Parameters
    ----------
    logits : Tensor of shape (N, C)
        Unnormalised log probabilities.
    target : Tensor of shape (N,)
        Class indices.
    lambd : float, default=0.5
        Weight of the calibration error, at least 0. With 0 the loss is that of `base`.
    mode : {"canonical", "classwise", "top_label"}, default="canonical"
        What is to be calibrated: all probabilities together; those of each class by
        itself, the errors added up; or that of the predicted class, against whether
        the prediction is right.
    norm : {"l1", "l2"}, default="l1"
        Whether absolute values are added up or squares, of which no root is taken.
    bandwidth : float or "auto", default=0.1
        Width of the kernels, above 0: a sample of probability p looks at others within
        about ``sqrt(p * (1 - p) * bandwidth)``. "auto" takes the one of seven from
        0.001 to 1 under which the predictions of the batch are the most likely, each
        left out in turn; it is a constant for the gradient.
    base : str or CalibrationLoss, default="cross_entropy"
        The loss of each sample: a name as for :func:`get_loss`, or an instance, whose
        reduction is ignored.
    reduction : {"mean", "sum", "none"}, default="mean"
        What to return: the mean over the batch, the sum, or one loss per sample, which
        depends on the others through r.
    sample_weight : Tensor of shape (N,), default=None
        Non-negative weights: a sample of weight m counts as m equal samples, each of
        which sees the m - 1 others. So the scale of the weights matters.
    **base_params : dict
        The parameters of `base`, as in ``base="focal", base__gamma=1.0``.

    Returns
    -------
    loss : Tensor
        A scalar, or of shape (N,) with ``reduction="none"``.

    Raises
    ------
    ValueError
        If a parameter is out of range or the shapes do not match.
    TypeError
        If a parameter or the logits are of the wrong type, or a keyword is unknown.

    See Also
    --------
    KDEECELoss : The same as a module.

    Notes
    -----
    Kernels are compared as logarithms, and no probability is clipped: the value and
    the gradient are finite however sure the network is. A sample without any other has
    an error of 0. Of tied classes the first is predicted, as by argmax.

    Time and memory grow as N squared, and with ``mode="classwise"`` as C times that.
    A batch must be large enough to show what is to be calibrated: leaving one out, the
    estimate is far from 0 for few samples even of a perfect network, and the more so
    with many classes.

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
        hint = "A small one, such as 0.01, looks at close predictions only."
        check_positive("bandwidth", bandwidth, also=", or 'auto'", hint=hint)


class KDEECELoss(_ComposedLoss, function=kde_ece_loss):
    """The module of :func:`kde_ece_loss`, which has the details.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import KDEECELoss
    >>> loss = KDEECELoss(lambd=0.3, base="focal", base__gamma=1.0)
    >>> loss(torch.zeros(2, 2), torch.tensor([0, 1]))
    tensor(0.6466)
    """

    formula = "mean of sum_k abs(E[y_k given p] - p_k), E by a Dirichlet kernel"

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
