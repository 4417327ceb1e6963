"""Base class of the losses that learn from bins of the validation confidences."""

import warnings
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from sklearn_calib._numerics.binning import bin_sums, interior_edges, occupied_bins
from sklearn_calib._validation.labels import as_labels, encode_labels, one_column
from sklearn_calib._validation.probabilities import as_proba_array, check_sample_weight
from sklearn_calib._validation.samples import check_columns, top_label_correct
from sklearn_calib.losses._base.checks import (
    Reduction,
    check_index,
    check_n_bins,
    check_same_device,
    check_tensor,
)
from sklearn_calib.losses._base.loss import CalibrationLoss

# With this gamma (1 - p) ** gamma is 0 or 1 in double precision, while gamma times a
# loss, which the gradient contains, is still far from overflow in single precision.
LARGEST_GAMMA = 1e18


def bin_of(values: Tensor, edges: Tensor) -> Tensor:
    """Return the bin index of each value; bins are closed on the right."""
    return torch.bucketize(values, edges.to(values.dtype))


def check_bins(logits: Tensor, edges: Tensor, **per_bin: Tensor) -> None:
    """Check the interior edges of the bins and the tensors with one value per bin."""
    for name, value in {"edges": edges, **per_bin}.items():
        check_tensor(name, value)
        check_same_device(name, value, logits)
        n_values = edges.numel() + (name != "edges")
        if value.shape != (n_values,):
            raise ValueError(
                f"{name} must have shape ({n_values},), with one edge between "
                f"adjacent bins, got {tuple(value.shape)}. Leave out the edges 0 and 1."
            )


class _ValidationBinsLoss(CalibrationLoss):
    """Loss whose state is computed from equal-mass bins of validation confidences."""

    learns_from_validation = True

    edges: Tensor

    def __init__(self, n_bins: int, ignore_index: int, reduction: Reduction) -> None:
        super().__init__(reduction=reduction)
        self.ignore_index = check_index("ignore_index", ignore_index)
        self.n_bins = check_n_bins("n_bins", n_bins)
        edges = interior_edges(np.empty(0), n_bins=n_bins, strategy="uniform")
        self.register_buffer("edges", torch.tensor(edges, dtype=torch.float32))

    def update(
        self,
        y_true: ArrayLike,
        y_proba: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
    ) -> dict[str, Any]:
        """Learn from predictions on the validation set.

        The samples are sorted by confidence, the probability of the predicted class,
        and divided into bins of equal mass. The mean confidence of each bin is compared
        with its accuracy.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            Class indices. A class may be absent. Samples with the class index
            `ignore_index` are left out.
        y_proba : array-like of shape (n_samples, n_classes)
            Predicted probabilities.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative sample weights, which count as repetitions.

        Returns
        -------
        record : dict of str to list of float
            For each occupied bin: "bin_confidence", the mean confidence;
            "bin_accuracy"; "calibration_gap", their difference; and "bin_weight", the
            number of samples or the sum of their weights. Also "bin_edges", which
            include 0 and 1, and the new "gamma" if the loss has one gamma per bin.

        Raises
        ------
        ValueError
            If the probabilities are not finite, not in [0, 1] or do not sum to one, if
            the labels are not class indices, or if the numbers of samples differ.

        Warns
        -----
        UserWarning
            If there are too few distinct confidences to fill all bins. Fewer bins are
            then used, none of which is empty.
        """
        sums = self._bin(y_true, y_proba, sample_weight)
        confidence, accuracy = sums.confidence / sums.weight, sums.correct / sums.weight
        # Unused bins lie between infinite edges, so that they contain no value.
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
        """Update the buffers from the occupied bins; return items for the record."""
        raise NotImplementedError

    def _bin(
        self, y_true: ArrayLike, y_proba: ArrayLike, sample_weight: ArrayLike | None
    ) -> Any:
        """Return the sums over the occupied bins."""
        proba = as_proba_array(y_proba)
        codes, counted = _check_targets(y_true, proba, y_proba, self.ignore_index)
        weight = check_sample_weight(sample_weight, proba)
        proba = proba[counted]
        if weight is not None:  # those that are left must not all be zero
            weight = check_sample_weight(weight[counted], proba)
        confidence, correct = top_label_correct(proba, codes)
        # Networks are trained in single precision. Confidences that are equal in single
        # precision must share a bin, or no training sample could be in one of the bins.
        confidence = confidence.astype(np.float32)
        sums = bin_sums(
            confidence,
            correct,
            n_bins=self.n_bins,
            strategy="quantile",
            sample_weight=weight,
        )
        sums = occupied_bins(sums)
        if len(sums.weight) < self.n_bins:
            self._warn_of_fewer_bins(len(sums.weight), len(confidence))
        return sums

    def _warn_of_fewer_bins(self, n_used: int, n_samples: int) -> None:
        """Warn that some bins are empty and not used."""
        warnings.warn(
            "n_bins must be small enough for the validation data to fill all bins, got "
            f"{n_samples} samples, whose distinct confidences fill {n_used} of "
            f"{self.n_bins} bins. Hold out more samples, or lower n_bins.",
            UserWarning,
            stacklevel=4,
        )


def _check_targets(
    y_true: Any, proba: np.ndarray, y_proba: Any, ignore_index: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the class indices that are not ignored, and which samples these are."""
    if len(y_true) != len(proba):
        raise ValueError(
            f"y_true must contain one class index for each row of y_proba, got "
            f"{len(y_true)} class indices and {len(proba)} rows. Pass both for the "
            "same samples."
        )
    n_classes = proba.shape[1]
    check_columns(y_proba, y_true, range(n_classes))
    y_true = one_column(as_labels(y_true, "y_true"))
    counted = y_true != ignore_index
    if not counted.any():
        raise ValueError(
            "y_true must contain a class index other than ignore_index, got only "
            f"{ignore_index}. Pass samples that are not left out."
        )
    labels = range(n_classes)
    codes = encode_labels(y_true[counted], labels=labels, n_classes=n_classes)
    return codes, counted
