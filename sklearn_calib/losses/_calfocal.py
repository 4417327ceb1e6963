"""The calibration-aware focal loss: gamma is made anew from the calibration error."""

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sklearn_calib.losses._base import (
    check_batch,
    check_nonnegative,
    reduce_loss,
)
from sklearn_calib.losses._focal import focal_values
from sklearn_calib.losses._margin import true_class_margin
from sklearn_calib.losses._soft_targets import averages_over_labels
from sklearn_calib.losses._typing import Reduction
from sklearn_calib.losses._validation_bins import (
    LARGEST_GAMMA,
    _ValidationBinsLoss,
    bin_of,
    check_bins,
)


@averages_over_labels
def calfocal_loss(
    logits: Tensor,
    target: Tensor,
    *,
    edges: Tensor,
    bin_confidence: Tensor,
    bin_accuracy: Tensor,
    lambd: float = 1.0,
    per_sample: bool = False,
    reduction: Reduction = "mean",
    sample_weight: Tensor | None = None,
) -> Tensor:
    r"""Focal loss whose gamma grows with the overconfidence in the bin of p_t.

    The surprise at the true class is multiplied by ``(1 - p_t) ** gamma``, where gamma
    is ``exp(lambd * (confidence - accuracy))`` with the mean confidence and the
    accuracy of the validation samples in the bin of p_t, or with p_t itself in place of
    the confidence [1]_. The smaller the better, 0 is best.

    Parameters
    ----------
    logits : Tensor of shape (N, C)
        Unnormalised log probabilities.
    target : Tensor of shape (N,) or (N, C)
        Class indices, or probabilities, over which the loss is averaged.
    edges : Tensor of shape (n_bins - 1,)
        The probabilities between the bins, not decreasing. A sample on an edge is in
        the bin below it.
    bin_confidence : Tensor of shape (n_bins,)
        The mean confidence of each bin. With ``per_sample=True`` it has no influence.
    bin_accuracy : Tensor of shape (n_bins,)
        The accuracy of each bin.
    lambd : float, default=1.0
        How much gamma depends on the calibration error, at least 0. With 0 gamma is 1.
        The paper tries 1, 10 and 100.
    per_sample : bool, default=False
        Whether each sample has a gamma of its own, from p_t minus the accuracy, rather
        than all of a bin the same.
    reduction : {"mean", "sum", "none"}, default="mean"
        What to return: the mean over the batch, the sum, or one loss per sample.
    sample_weight : Tensor of shape (N,), default=None
        Non-negative weights: the mean becomes ``sum(w * l) / sum(w)``.

    Returns
    -------
    loss : Tensor
        A scalar, or of shape (N,) with ``reduction="none"``.

    Raises
    ------
    ValueError
        If lambd is negative or not finite, or the shapes do not match.
    TypeError
        If lambd is no number, per_sample no bool, what belongs to the bins no tensor,
        or the logits no floating point tensor.

    See Also
    --------
    CalFocalLoss : Learns the bins from validation data.
    adafocal_loss : Goes on from the previous gamma.

    Notes
    -----
    Gamma is a constant for the gradient, also with ``per_sample=True``; the paper does
    not say so, but goes on to a gamma per bin, which is one.

    References
    ----------
    .. [1] A. Ghosh, T. Schaaf and M. Gormley, "AdaFocal: Calibration-aware Adaptive
       Focal Loss", NeurIPS 2022, equations 2 (per sample) and 3 (per bin).

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import calfocal_loss
    >>> logits = torch.tensor([[2.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    >>> calfocal_loss(
    ...     logits,
    ...     torch.tensor([0, 2]),
    ...     edges=torch.tensor([0.5]),
    ...     bin_confidence=torch.tensor([0.4, 0.9]),
    ...     bin_accuracy=torch.tensor([0.4, 0.7]),
    ...     reduction="none",
    ... )
    tensor([0.0362, 1.2226])
    """
    lambd = float(check_nonnegative("lambd", lambd))
    _check_per_sample(per_sample)
    logits, target = check_batch(logits, target)
    check_bins(logits, edges, bin_confidence=bin_confidence, bin_accuracy=bin_accuracy)
    margin = true_class_margin(logits, target)
    proba = torch.sigmoid(margin.detach())
    index = bin_of(proba, edges)
    confidence = proba if per_sample else bin_confidence.to(proba)[index]
    gamma = _gamma(confidence - bin_accuracy.to(proba)[index], lambd)
    return reduce_loss(focal_values(margin, gamma), reduction, sample_weight)


def _gamma(gap: Tensor, lambd: float) -> Tensor:
    """Return gamma for each gap between confidence and accuracy."""
    # exp(100) overflows in single precision, and meets log(1 - p_t) = 0 as inf * 0.
    return torch.exp((lambd * gap).clamp(max=math.log(LARGEST_GAMMA)))


def _check_per_sample(per_sample: bool) -> None:
    """Raise TypeError unless `per_sample` is a bool."""
    if not isinstance(per_sample, bool):
        raise TypeError(
            f"per_sample must be True or False, got {per_sample!r}. False has one "
            "gamma per bin."
        )


class CalFocalLoss(_ValidationBinsLoss, function=calfocal_loss):
    """Focal loss whose gamma grows with the overconfidence in validation data.

    The module of :func:`calfocal_loss`, which has the details. Its state is the mean
    confidence and the accuracy of equal-mass bins of the validation confidences, which
    each :meth:`update` makes anew. Small is good.

    Parameters
    ----------
    n_bins : int, default=15
        Number of bins, at least 1.
    lambd : float, default=1.0
        How much gamma depends on the calibration error, at least 0. With 0 gamma is 1.
    per_sample : bool, default=False
        Whether gamma depends on each sample's p_t rather than on the mean confidence of
        its bin.
    reduction : {"mean", "sum", "none"}, default="mean"
        What to return: the mean over the batch, the sum, or one loss per sample.

    Attributes
    ----------
    edges : Tensor of shape (n_bins - 1,)
        The probabilities between the bins, a buffer: it is part of ``state_dict``. If
        an update had not enough different confidences for all bins, the last edges are
        infinite.
    bin_confidence, bin_accuracy : Tensor of shape (n_bins,)
        The mean confidence and the accuracy of each bin, buffers. Before the first
        update the bins have equal width, and both are the middle of the bin.

    See Also
    --------
    AdaFocalLoss : Goes on from the previous gamma, and so finds the one that it takes.
    sklearn_calib.callbacks.UpdateLoss : Calls :meth:`update` during training.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import CalFocalLoss
    >>> loss = CalFocalLoss(n_bins=2, lambd=10.0)
    >>> record = loss.update([0, 1, 0], [[0.6, 0.4], [0.8, 0.2], [0.9, 0.1]])
    >>> [round(gamma, 4) for gamma in record["gamma"]]
    [7.3891, 0.3679]
    """

    formula = "`focal` with gamma = exp(lambd (mean r - mean c)) of the bin of p_t"
    takes_probabilities = True

    bin_confidence: Tensor
    bin_accuracy: Tensor

    def __init__(
        self,
        *,
        n_bins: int = 15,
        lambd: float = 1.0,
        per_sample: bool = False,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(n_bins=n_bins, reduction=reduction)
        self.lambd = check_nonnegative("lambd", lambd)
        _check_per_sample(per_sample)
        self.per_sample = per_sample
        middle = (torch.arange(n_bins) + 0.5) / n_bins
        self.register_buffer("bin_confidence", middle)
        self.register_buffer("bin_accuracy", middle.clone())

    def _learn(self, confidence: np.ndarray, accuracy: np.ndarray) -> dict[str, Any]:
        """Remember the bins that are in use."""
        n_used = len(confidence)
        self.bin_confidence[:n_used].copy_(torch.from_numpy(confidence))
        self.bin_accuracy[:n_used].copy_(torch.from_numpy(accuracy))
        if self.per_sample:
            return {}
        return {
            "gamma": _gamma(torch.from_numpy(confidence - accuracy), float(self.lambd))
        }
