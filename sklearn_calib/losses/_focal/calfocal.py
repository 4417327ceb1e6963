"""CalFocal loss: focal loss with gamma set by the calibration error of each bin."""

import math
from typing import Annotated, Any

import numpy as np
import torch
from torch import Tensor

from sklearn_calib._validation.arrays import shown
from sklearn_calib.losses._base.checks import (
    IgnoredIndex,
    NonNegative,
    Reduction,
    check_batch,
    check_nonnegative,
    reduce_loss,
)
from sklearn_calib.losses._base.decorators import averages_over_labels, loss_function
from sklearn_calib.losses._base.stable_gradients import true_class_log_odds
from sklearn_calib.losses._focal.focal import focal_values
from sklearn_calib.losses._focal.validation_bins import (
    LARGEST_GAMMA,
    _ValidationBinsLoss,
    bin_of,
    check_bins,
)


def _check_per_sample(name: str, value: Any) -> None:
    """Raise a TypeError unless `per_sample` is a bool."""
    if not isinstance(value, bool):
        raise TypeError(
            f"{name} must be True or False, got {shown(value)}. With False, "
            "gamma depends only on the bin."
        )


@loss_function
@averages_over_labels
def calfocal_loss(
    logits: Tensor,
    target: Tensor,
    *,
    edges: Tensor,
    bin_confidence: Tensor,
    bin_accuracy: Tensor,
    lambd: NonNegative = 1.0,
    per_sample: Annotated[bool, _check_per_sample] = False,
    ignore_index: IgnoredIndex = -100,
    reduction: Reduction = "mean",
    sample_weight: Tensor | None = None,
) -> Tensor:
    r"""CalFocal loss: focal loss with gamma set by the calibration error of each bin.

    The cross-entropy ``-log(p_t)``, with p_t the predicted probability of the true
    class, is multiplied by ``(1 - p_t) ** gamma``. Here gamma is ``exp(lambd *
    (confidence - accuracy))``, with the mean confidence and the accuracy of the
    validation samples in the bin that contains p_t [1]_.

    Parameters
    ----------
    logits : Tensor of shape (N, C, ...)
        Unnormalised log probabilities.
    target : Tensor of shape (N, ...) or (N, C, ...)
        Class indices, or soft targets (class probabilities), over which the loss is
        averaged.
    edges : Tensor of shape (n_bins - 1,)
        Interior edges of the bins, non-decreasing. A value of p_t equal to an edge
        belongs to the bin below it.
    bin_confidence : Tensor of shape (n_bins,)
        Mean confidence of each bin. Ignored with ``per_sample=True``.
    bin_accuracy : Tensor of shape (n_bins,)
        Accuracy of each bin.
    lambd : float, default=1.0
        Strength of the dependence of gamma on the calibration error, at least 0. With
        0, gamma is 1. The paper compares 1, 10 and 100.
    per_sample : bool, default=False
        Whether gamma is computed for each sample, with the probability of the true
        class in place of the mean confidence of its bin.
    ignore_index : int, default=-100
        Class index of samples that are left out, as in PyTorch's `cross_entropy`.
    reduction : {"mean", "sum", "none"}, default="mean"
        Whether to return the mean over the batch, the sum, or the loss of each sample.
    sample_weight : Tensor of shape (N, ...), default=None
        Non-negative sample weights. The mean becomes ``sum(w * l) / sum(w)``.

    Returns
    -------
    loss : Tensor
        A scalar, or of shape (N, ...) with ``reduction="none"``.

    Raises
    ------
    ValueError
        If `lambd` is negative or not finite, or the shapes do not match.
    TypeError
        If `lambd` is not a number, `per_sample` is not a bool, an argument that
        describes the bins is not a tensor, or `logits` is not a floating point tensor.

    See Also
    --------
    CalFocalLoss : Module that learns the bins from validation data.
    adafocal_loss : Focal loss with one gamma per bin, positive or negative.

    Notes
    -----
    Gamma is treated as a constant in the gradient. The paper does not specify this for
    ``per_sample=True``.

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
    logits, target = check_batch(logits, target)
    check_bins(logits, edges, bin_confidence=bin_confidence, bin_accuracy=bin_accuracy)
    log_odds = true_class_log_odds(logits, target)
    proba = torch.sigmoid(log_odds.detach())
    index = bin_of(proba, edges)
    confidence = proba if per_sample else bin_confidence.to(proba)[index]
    gamma = _gamma(confidence - bin_accuracy.to(proba)[index], float(lambd))
    return reduce_loss(focal_values(log_odds, gamma), reduction, sample_weight)


def _gamma(gap: Tensor, lambd: float) -> Tensor:
    """Return gamma for each calibration gap."""
    # exp(100) overflows in single precision, and infinity times log(1 - p_t) = 0 is
    # NaN.
    return torch.exp((lambd * gap).clamp(max=math.log(LARGEST_GAMMA)))


class CalFocalLoss(_ValidationBinsLoss, function=calfocal_loss):
    """CalFocal loss: focal loss with gamma set by the calibration error of each bin.

    Module version of :func:`calfocal_loss`. See there for details. Its state is the
    mean confidence and the accuracy of each equal-mass bin of the validation set, which
    :meth:`update` recomputes.

    Parameters
    ----------
    n_bins : int, default=15
        Number of bins, at least 1.
    lambd : float, default=1.0
        Strength of the dependence of gamma on the calibration error, at least 0. With
        0, gamma is 1.
    per_sample : bool, default=False
        Whether gamma is computed for each sample, with the probability of the true
        class in place of the mean confidence of its bin.
    ignore_index : int, default=-100
        Class index of samples that are left out, as in PyTorch's `cross_entropy`.
    reduction : {"mean", "sum", "none"}, default="mean"
        Whether to return the mean over the batch, the sum, or the loss of each sample.

    Attributes
    ----------
    edges : Tensor of shape (n_bins - 1,)
        Interior edges of the bins, a buffer, which is part of ``state_dict``. If the
        last update had too few distinct confidences to fill all bins, the last edges
        are infinite.
    bin_confidence, bin_accuracy : Tensor of shape (n_bins,)
        Mean confidence and accuracy of each bin, buffers. Before the first update the
        bins have equal width, and both are equal to the centre of the bin.

    See Also
    --------
    AdaFocalLoss : Adapts gamma over several updates.
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

    formula = (
        r"`focal` with $\gamma = \exp(\lambda (\bar r - \bar c))$ in the bin of $p_t$"
    )
    takes_probabilities = True

    bin_confidence: Tensor
    bin_accuracy: Tensor

    def __init__(
        self,
        *,
        n_bins: int = 15,
        lambd: float = 1.0,
        per_sample: bool = False,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(n_bins, ignore_index, reduction)
        self.lambd = check_nonnegative("lambd", lambd)
        _check_per_sample("per_sample", per_sample)
        self.per_sample = per_sample
        middle = (torch.arange(n_bins) + 0.5) / n_bins
        self.register_buffer("bin_confidence", middle)
        self.register_buffer("bin_accuracy", middle.clone())

    def _learn(self, confidence: np.ndarray, accuracy: np.ndarray) -> dict[str, Any]:
        """Store the mean confidence and the accuracy of the occupied bins."""
        n_used = len(confidence)
        self.bin_confidence[:n_used].copy_(torch.from_numpy(confidence))
        self.bin_accuracy[:n_used].copy_(torch.from_numpy(accuracy))
        if self.per_sample:
            return {}
        return {
            "gamma": _gamma(torch.from_numpy(confidence - accuracy), float(self.lambd))
        }
