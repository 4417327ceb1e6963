"""Soft-binned expected calibration error (SB-ECE) penalty."""

import math
from functools import partial
from typing import Annotated, Any, Literal

import torch
from torch import Tensor

from sklearn_calib.losses._base.checks import (
    IgnoredIndex,
    NonNegative,
    Reduction,
    check_n_bins,
    check_positive,
    check_real,
    checking,
)
from sklearn_calib.losses._base.composed import (
    Base,
    _ComposedLoss,
    add_penalty,
    build_base,
    root,
    uncertainty_and_error,
)
from sklearn_calib.losses._base.decorators import loss_function, parameters_of

# The fraction of a sample's membership that is distributed uniformly over the bins if
# binning="label", as in the authors' code, so that every bin has an accuracy.
SPREAD = 1e-5

Binning = Literal["bin", "label"]


def _check_decay(name: str, value: Any) -> None:
    rule = "finite and > 1, or None"
    check_real(name, value, lambda x: 1 < x < math.inf, rule, "The authors use 80.")


Temperature = Annotated[
    float,
    checking(
        check_positive,
        hint="Use a small value, such as 0.001, for bins with sharp edges.",
    ),
]
Decay = Annotated[float, _check_decay]


@loss_function
def soft_binned_ece_loss(
    logits: Tensor,
    target: Tensor,
    *,
    lambd: NonNegative = 1.0,
    n_bins: Annotated[int, check_n_bins] = 15,
    temperature: Temperature = 0.01,
    decay: Decay | None = None,
    binning: Binning = "label",
    squared: bool = True,
    base: Base = "cross_entropy",
    ignore_index: IgnoredIndex = -100,
    reduction: Reduction = "mean",
    sample_weight: Tensor | None = None,
    **base_params: Any,
) -> Tensor:
    r"""Soft-binned expected calibration error (SB-ECE) added to a base loss.

    The loss is ``base + lambd * penalty``. The penalty is the calibration error of the
    batch, estimated with soft bins [1]_. A sample with confidence r belongs to all
    bins. Its membership in the bin with centre b is the softmax of ``-(r - b)**2 /
    temperature`` over the bins. The calibration error is therefore differentiable.

    Parameters
    ----------
    logits : Tensor of shape (N, C, ...)
        Unnormalised log probabilities.
    target : Tensor of shape (N, ...)
        Class indices.
    lambd : float, default=1.0
        Weight of the penalty, at least 0. With 0, the loss is that of `base`.
    n_bins : int, default=15
        Number of bins, at least 1.
    temperature : float, default=0.01
        Softness of the bins, above 0, in units of squared confidence.
    decay : float, default=None
        A number above 1, or None. If given, ``1 / (log(decay) * n_bins**2)`` replaces
        `temperature`. The authors use 80.
    binning : {"label", "bin"}, default="label"
        With "label" (equation 12 of [1]_), the confidence of each sample is compared
        with the accuracies of its bins, which divide [1 / C, 1] for C classes. With
        "bin" (equation 11), the mean confidence of each bin is compared with the
        accuracy of this bin, and the bins divide [0, 1].
    squared : bool, default=True
        Whether to add the mean squared difference or its square root.
    base : str or CalibrationLoss, default="cross_entropy"
        Per-sample loss: a name accepted by :func:`get_loss`, or an instance, whose
        `reduction` and `ignore_index` are ignored.
    ignore_index : int, default=-100
        Class index of samples that are left out, as in PyTorch's `cross_entropy`.
    reduction : {"mean", "sum", "none"}, default="mean"
        Whether to return the mean over the batch, the sum, or the loss of each sample,
        which includes the penalty of the batch.
    sample_weight : Tensor of shape (N, ...), default=None
        Non-negative sample weights. A sample of weight m counts as m identical samples.
    **base_params : dict
        Parameters of `base`, as in ``base="focal", base__gamma=3.0``.

    Returns
    -------
    loss : Tensor
        A scalar, or of shape (N, ...) with ``reduction="none"``.

    Raises
    ------
    ValueError
        If a parameter is out of range or the shapes do not match.
    TypeError
        If a parameter or `logits` has the wrong type, or a keyword is unknown.

    See Also
    --------
    SoftBinnedECELoss : Module version of this function.
    mmce_loss : Calibration error without bins.
    avuc_loss : AvUC, of which the same paper proposes a soft version.

    Notes
    -----
    The authors' code takes the square root with "bin" only. Here `squared` determines
    whether it is taken. A root below 1e-5 is replaced by 1e5 times the square, to keep
    the gradient finite.

    The gradient flows through the confidence and the memberships. Whether a prediction
    is correct is treated as a constant.

    References
    ----------
    .. [1] A. Karandikar, N. Cain, D. Tran, B. Lakshminarayanan, J. Shlens, M. C. Mozer
       and R. Roelofs, "Soft Calibration Objectives for Neural Networks", NeurIPS 2021,
       equations 11 and 12.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import soft_binned_ece_loss
    >>> logits = torch.tensor([[2.0, 0.0], [0.0, 1.0], [0.0, 0.5]])
    >>> soft_binned_ece_loss(logits, torch.tensor([0, 0, 1]), lambd=0.0)
    tensor(0.6381)
    >>> soft_binned_ece_loss(logits, torch.tensor([0, 0, 1]), binning="bin")
    tensor(0.7030)
    """
    if decay is not None:
        temperature = 1 / (math.log(decay) * n_bins**2)
    error = _ERRORS[binning]
    error = partial(
        error, n_bins=n_bins, temperature=float(temperature), squared=squared
    )
    return add_penalty(
        error,
        logits,
        target,
        lambd=lambd,
        base=build_base(base, base_params, soft_binned_ece_loss),
        reduction=reduction,
        sample_weight=sample_weight,
    )


def _label_binned(
    logits: Tensor,
    target: Tensor,
    weight: Tensor,
    *,
    n_bins: int,
    temperature: float,
    squared: bool,
) -> Tensor:
    """Return the error between confidences and the accuracies of their bins."""
    uncertainty, wrong = uncertainty_and_error(logits, target)
    member = _memberships(1 - uncertainty, 1 / logits.shape[1], n_bins, temperature)
    member = weight.unsqueeze(1) * ((1 - SPREAD) * member + SPREAD / n_bins)
    error_rate = _mean_by_bin(member, wrong)
    square = (member * (error_rate - uncertainty.unsqueeze(1)).square()).sum()
    return square if squared else root(square)


def _bin_binned(
    logits: Tensor,
    target: Tensor,
    weight: Tensor,
    *,
    n_bins: int,
    temperature: float,
    squared: bool,
) -> Tensor:
    """Return the error between the mean confidences and the accuracies of bins."""
    uncertainty, wrong = uncertainty_and_error(logits, target)
    member = _memberships(1 - uncertainty, 0.0, n_bins, temperature)
    member = weight.unsqueeze(1) * member
    gap = _mean_by_bin(member, uncertainty - wrong)
    square = (member.sum(0) * gap.square()).sum()
    return square if squared else root(square)


_ERRORS = {"bin": _bin_binned, "label": _label_binned}


def _memberships(
    confidence: Tensor, lowest: float, n_bins: int, temperature: float
) -> Tensor:
    """Return the membership of each sample (row) in each bin of [lowest, 1]."""
    position = torch.arange(n_bins, dtype=confidence.dtype, device=confidence.device)
    centre = lowest + (1 - lowest) * (position + 0.5) / n_bins
    return ((confidence.unsqueeze(1) - centre).square() / -temperature).softmax(1)


def _mean_by_bin(member: Tensor, values: Tensor) -> Tensor:
    """Return the mean of the values in each bin, 0 for an empty bin."""
    # The third power of this sum, in the second derivative, must not underflow.
    smallest = torch.finfo(member.dtype).tiny ** (1 / 3)
    return (member * values.unsqueeze(1)).sum(0) / member.sum(0).clamp_min(smallest)


class SoftBinnedECELoss(_ComposedLoss):
    """Module version of :func:`soft_binned_ece_loss`. See there for details.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import SoftBinnedECELoss
    >>> loss = SoftBinnedECELoss(squared=False, base="focal", base__gamma=1.0)
    >>> loss(torch.zeros(1, 2), torch.tensor([0]))
    tensor(0.8466)
    """

    formula = r"mean of $(\text{accuracy of the soft bin} - r)^2$"

    @parameters_of(soft_binned_ece_loss)
    def __init__(self) -> None: ...
