"""What the losses share that learn from bins of the validation confidences."""

import warnings
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from sklearn_calib._core.binning import bin_sums, interior_edges, occupied_bins
from sklearn_calib._core.confidence import top_label_hits
from sklearn_calib._core.validation import (
    as_proba_array,
    check_sample_weight,
    encode_labels,
)
from sklearn_calib.losses._base import check_device, check_n_bins, check_tensor
from sklearn_calib.losses._calibration_loss import CalibrationLoss
from sklearn_calib.losses._focal import focal_values
from sklearn_calib.losses._typing import Reduction

# (1 - p) ** gamma is 0 or 1 in double precision from here on, and gamma times a loss,
# which the gradient needs, is still far from the overflow of single precision.
LARGEST_GAMMA = 1e18
# The weight of the inverse focal loss reaches 2 ** 100, which is still far from it too.
LOWEST_GAMMA = -100.0


def signed_focal_values(margin: Tensor, log_rest: Tensor, gamma: Tensor) -> Tensor:
    """Return focal losses, and inverse focal losses where gamma is negative.

    With u = 1 - exp(log_rest), which is p_t in the focal loss, the weight is
    ``(1 - u) ** gamma`` or ``(1 + u) ** abs(gamma)``.
    """
    log_inverse = -torch.log1p(-torch.expm1(log_rest))
    log_base = torch.where(gamma >= 0, log_rest, log_inverse)
    return focal_values(margin, gamma, log_base)


def bin_of(values: Tensor, edges: Tensor) -> Tensor:
    """Return the index of each value's bin, closed on the right as everywhere."""
    return torch.bucketize(values, edges.to(values.dtype))


def check_bins(logits: Tensor, edges: Tensor, **per_bin: Tensor) -> None:
    """Check the edges between bins and what has a value per bin."""
    for name, value in {"edges": edges, **per_bin}.items():
        check_tensor(name, value)
        check_device(name, value, logits)
        n_values = edges.numel() + (name != "edges")
        if value.shape != (n_values,):
            raise ValueError(
                f"{name} must have shape ({n_values},), for there is one edge between "
                f"two bins, got {tuple(value.shape)}. The edges 0 and 1 are left out."
            )


class _ValidationBinsLoss(CalibrationLoss):
    """A loss whose state is made from equal-mass bins of validation confidences."""

    learns_from_validation = True

    edges: Tensor

    def __init__(self, *, n_bins: int, reduction: Reduction) -> None:
        super().__init__(reduction=reduction)
        self.n_bins = check_n_bins(n_bins)
        edges = interior_edges(np.empty(0), n_bins=n_bins, strategy="uniform")
        self.register_buffer("edges", torch.tensor(edges, dtype=torch.float32))

    def update(
        self,
        y_true: ArrayLike,
        y_proba: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
    ) -> dict[str, Any]:
        """Learn from predictions for the validation data.

        The samples are put into bins of equal mass by the probability of their
        predicted class, and each bin's mean confidence is compared with its accuracy.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            Class indices. A class may be absent.
        y_proba : array-like of shape (n_samples, n_classes)
            Predicted probabilities.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights, which count as repetitions.

        Returns
        -------
        record : dict of str to list of float
            For each bin in use "calibration_gap", the mean confidence minus the
            accuracy, "bin_confidence", "bin_accuracy" and "bin_weight", the number of
            samples or their weight; "bin_edges", one more, from 0 to 1; and "gamma"
            from now on, where the loss has one per bin.

        Raises
        ------
        ValueError
            If the probabilities are not finite, not in [0, 1] or do not sum to one, or
            the labels are no class indices, or the numbers of samples differ.

        Warns
        -----
        UserWarning
            If there are not enough different confidences for all bins, and fewer are
            used. No bin is ever empty.
        """
        sums = self._bin(y_true, y_proba, sample_weight)
        confidence, accuracy = sums.confidence / sums.weight, sums.hit / sums.weight
        # The bins that are not in use have no width: nothing is above infinity.
        edges = np.full(self.n_bins - 1, np.inf)
        edges[: len(sums.weight) - 1] = sums.edges[1:-1]
        self.edges.copy_(torch.from_numpy(edges))
        record = {
            **self._learn(confidence, accuracy),
            "calibration_gap": confidence - accuracy,
            "bin_edges": sums.edges,
            "bin_confidence": confidence,
            "bin_accuracy": accuracy,
            "bin_weight": sums.weight,
        }
        return {name: values.tolist() for name, values in record.items()}

    def _learn(self, confidence: np.ndarray, accuracy: np.ndarray) -> dict[str, Any]:
        """Change the buffers by the bins in use; return what the record gets."""
        raise NotImplementedError

    def _bin(
        self, y_true: ArrayLike, y_proba: ArrayLike, sample_weight: ArrayLike | None
    ) -> Any:
        """Return the sums of the bins in use."""
        proba, codes = _check_targets(y_true, y_proba)
        weight = check_sample_weight(sample_weight, proba)
        confidence, hit = top_label_hits(proba, codes)
        # Confidences that are the same number in single precision, in which networks
        # are trained, must share a bin, or no sample would ever be in one of them.
        confidence = confidence.astype(np.float32)
        sums = bin_sums(
            confidence,
            hit,
            n_bins=self.n_bins,
            strategy="quantile",
            sample_weight=weight,
        )
        sums = occupied_bins(sums)
        if len(sums.weight) < self.n_bins:
            self._warn_of_fewer_bins(len(sums.weight), len(confidence))
        return sums

    def _warn_of_fewer_bins(self, n_used: int, n_samples: int) -> None:
        """Say that not all bins are in use."""
        warnings.warn(
            "n_bins must be small enough for the validation data to fill all bins, got "
            f"{n_samples} samples, which fill {n_used} of {self.n_bins} by their "
            "different confidences. Hold out more samples, or lower n_bins.",
            UserWarning,
            stacklevel=4,
        )


def _check_targets(y_true: Any, y_proba: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Return probabilities, whose sums are not yet checked, and class indices."""
    proba = as_proba_array(y_proba)
    if len(y_true) != len(proba):
        raise ValueError(
            f"y_true must hold one class index for each row of y_proba, got "
            f"{len(y_true)} and {len(proba)} rows. Pass both of the same samples."
        )
    n_classes = proba.shape[1]
    return proba, encode_labels(y_true, labels=range(n_classes), n_classes=n_classes)
