"""Calibration error in bins without edges: the soft-binned ECE as a penalty."""

import math
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor

from sklearn_calib.losses._base import (
    above_zero,
    check_choice,
    check_n_bins,
    check_nonnegative,
    check_positive,
)
from sklearn_calib.losses._composed import Base, _ComposedLoss, build_base
from sklearn_calib.losses._penalty import add_penalty, root, top_label
from sklearn_calib.losses._typing import Reduction

# Of a sample's membership in label-binned bins this part is spread over all of them, as
# in the authors' code, so that each bin has an accuracy.
SPREAD = 1e-5

Binning = Literal["bin", "label"]


def soft_binned_ece_loss(
    logits: Tensor,
    target: Tensor,
    *,
    lambd: float = 1.0,
    n_bins: int = 15,
    temperature: float = 0.01,
    decay: float | None = None,
    binning: Binning = "label",
    squared: bool = True,
    base: Base = "cross_entropy",
    reduction: Reduction = "mean",
    sample_weight: Tensor | None = None,
    **base_params: Any,
) -> Tensor:
    r"""Mean loss plus lambd times the soft-binned calibration error. Small is good.

    A sample of confidence r belongs to the bin with centre b to the share
    ``softmax(-(r - b)**2 / temperature)`` over the bins, so that the error of the batch
    has a gradient everywhere [1]_. 0 is best.

    Parameters
    ----------
    logits : Tensor of shape (N, C)
        Unnormalised log probabilities.
    target : Tensor of shape (N,)
        Class indices.
    lambd : float, default=1.0
        Weight of the error, at least 0. With 0 the loss is that of `base`.
    n_bins : int, default=15
        Number of bins, at least 1.
    temperature : float, default=0.01
        How soft the bins are, above 0, as the square of a difference of confidences.
    decay : float, default=None
        If given, above 1, it takes the place of `temperature`, which becomes
        ``1 / (log(decay) * n_bins**2)``. The authors use 80.
    binning : {"label", "bin"}, default="label"
        What is compared with the accuracy of a bin: the confidence of each sample in
        it, where the bins divide [1 / C, 1] ("label-binned", equation 12), or the mean
        confidence in the bin, where they divide [0, 1] (equation 11).
    squared : bool, default=True
        Whether to add the mean square of the differences or its root.
    base : str or CalibrationLoss, default="cross_entropy"
        The loss of each sample: a name as for :func:`get_loss`, or an instance, whose
        reduction is ignored.
    reduction : {"mean", "sum", "none"}, default="mean"
        What to return: the mean over the batch, the sum, or one loss per sample, to
        each of which the penalty of the batch is added.
    sample_weight : Tensor of shape (N,), default=None
        Non-negative weights: a sample of weight m counts as m equal samples.
    **base_params : dict
        The parameters of `base`, as in ``base="focal", base__gamma=3.0``.

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
    SoftBinnedECELoss : The same as a module.
    mmce_loss : Compares confidences without bins.
    avuc_loss : The other penalty of the paper.

    Notes
    -----
    The authors' code takes no root with "label" and takes it with "bin"; here `squared`
    decides. A root below 1e-5 is replaced by ``1e5 * square``, which keeps its gradient
    finite. Whether a prediction is right is a constant for the gradient, which flows
    through the confidence and the memberships.

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
    _check_params(n_bins, temperature, decay, binning, squared)
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
    share: Tensor,
    *,
    n_bins: int,
    temperature: float,
    squared: bool,
) -> Tensor:
    """Return the error of confidences against the accuracy of their bins."""
    doubt, miss = top_label(logits, target)
    member = _memberships(1 - doubt, 1 / logits.shape[1], n_bins, temperature)
    member = share.unsqueeze(1) * ((1 - SPREAD) * member + SPREAD / n_bins)
    error_rate = _mean_by_bin(member, miss)
    square = (member * (error_rate - doubt.unsqueeze(1)).square()).sum()
    return square if squared else root(square)


def _bin_binned(
    logits: Tensor,
    target: Tensor,
    share: Tensor,
    *,
    n_bins: int,
    temperature: float,
    squared: bool,
) -> Tensor:
    """Return the error of the mean confidence of bins against their accuracy."""
    doubt, miss = top_label(logits, target)
    member = _memberships(1 - doubt, 0.0, n_bins, temperature)
    member = share.unsqueeze(1) * member
    square = (member.sum(0) * _mean_by_bin(member, doubt - miss).square()).sum()
    return square if squared else root(square)


_ERRORS = {"bin": _bin_binned, "label": _label_binned}


def _memberships(
    confidence: Tensor, lowest: float, n_bins: int, temperature: float
) -> Tensor:
    """Return the share of each sample (row) in each bin that divides [lowest, 1]."""
    position = torch.arange(n_bins, dtype=confidence.dtype, device=confidence.device)
    centre = lowest + (1 - lowest) * (position + 0.5) / n_bins
    return ((confidence.unsqueeze(1) - centre).square() / -temperature).softmax(1)


def _mean_by_bin(member: Tensor, values: Tensor) -> Tensor:
    """Return the mean of values in each bin, 0 where nothing belongs to it."""
    return (member * values.unsqueeze(1)).sum(0) / above_zero(member.sum(0))


def _check_params(
    n_bins: int,
    temperature: float,
    decay: float | None,
    binning: Binning,
    squared: bool,
) -> None:
    """Check the parameters of the error."""
    check_n_bins(n_bins)
    hint = "A small one, such as 0.001, gives bins with sharp edges."
    check_positive("temperature", temperature, hint=hint)
    if decay is not None:
        _check_decay(decay)
    check_choice("binning", binning, _ERRORS)
    check_choice("squared", squared, (True, False))


def _check_decay(decay: float) -> None:
    """Check that a membership falls from a bin to the next."""
    check_positive("decay", decay, also=", or None", hint="The authors use 80.")
    if decay <= 1:
        raise ValueError(f"decay must be > 1, got {decay!r}. The authors use 80.")


class SoftBinnedECELoss(_ComposedLoss, function=soft_binned_ece_loss):
    """The module of :func:`soft_binned_ece_loss`, which has the details.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import SoftBinnedECELoss
    >>> loss = SoftBinnedECELoss(squared=False, base="focal", base__gamma=1.0)
    >>> loss(torch.zeros(1, 2), torch.tensor([0]))
    tensor(0.8466)
    """

    formula = "mean of (accuracy of the soft bin - r)^2"

    def __init__(
        self,
        *,
        lambd: float = 1.0,
        n_bins: int = 15,
        temperature: float = 0.01,
        decay: float | None = None,
        binning: Binning = "label",
        squared: bool = True,
        base: Base = "cross_entropy",
        reduction: Reduction = "mean",
        **base_params: Any,
    ) -> None:
        super().__init__(base=base, base_params=base_params, reduction=reduction)
        _check_params(n_bins, temperature, decay, binning, squared)
        self.lambd = check_nonnegative("lambd", lambd)
        self.n_bins, self.temperature, self.decay = n_bins, temperature, decay
        self.binning, self.squared = binning, squared
