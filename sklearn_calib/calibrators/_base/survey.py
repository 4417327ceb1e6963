"""What a calibrator must know about all samples before it is fitted."""

import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np

from sklearn_calib._numerics.sample_blocks import Block
from sklearn_calib._validation.limits import are_proba
from sklearn_calib._validation.types import Floats

# Smaller values are lost by rounding when they are added to a probability of one.
RESOLUTION = float(np.finfo(np.float64).eps)


class Survey:
    """Errors, zeros and form of the samples, from one pass over validated blocks.

    Attributes
    ----------
    n_errors : float
        Sum of the weights of misclassified samples.

    n_rows : ndarray of shape (2,)
        Numbers of samples with positive weight, and of those that are misclassified.

    zero_replacement : float
        Value that replaces zeros, see :class:`Calibrator`.

    has_zeros : bool
        Whether there are probabilities of zero.

    looks_like_proba : bool
        Whether logits look like probabilities.
    """

    def __init__(self, calibrator: Any, data: Iterable[Block]) -> None:
        self.n_errors, self.looks_like_proba = 0.0, calibrator.from_logits
        self.n_rows, self._weight_sum = np.zeros(2), 0.0
        self.has_zeros, self._smallest = False, np.inf
        for X, codes, weight in data:
            if calibrator.from_logits:
                _check_range(X)
                # If a single column was passed, it is the last of two here.
                own = X[:, -calibrator.n_features_in_ :]
                self.looks_like_proba = self.looks_like_proba and are_proba(own)
            else:
                self._find_smallest(X if weight.min() > 0 else X[weight > 0])
            is_wrong = X.argmax(axis=1) != codes
            self.n_errors += float(weight @ is_wrong)
            self._weight_sum += float(weight.sum())
            has_weight = weight > 0
            self.n_rows += has_weight.sum(), (has_weight & is_wrong).sum()
            self._n_classes = X.shape[1]

    def _find_smallest(self, proba: Floats) -> None:
        """Update the smallest positive probability, and whether there are zeros."""
        smallest = proba.min(initial=np.inf)
        if smallest == 0:
            self.has_zeros = True
            smallest = proba[proba > 0].min()
        self._smallest = min(self._smallest, float(smallest))

    @property
    def n_errors_counted(self) -> float:
        return count_errors(self.n_errors, self._weight_sum, self.n_rows)

    @property
    def zero_replacement(self) -> float:
        if not self.has_zeros:
            return RESOLUTION
        # Below 1 / n_classes, so that a zero does not become the largest of its row.
        return max(min(self._smallest, 1 / self._n_classes) / 2, RESOLUTION)


def count_errors(n_errors: float, weight_sum: float, n_rows: Floats) -> float:
    """Return the misclassified samples that count, of whatever scale the weights are.

    Small weights are scaled to a mean of one, and no sample counts more than once.
    """
    n_samples, n_wrong = n_rows.tolist()
    if weight_sum < n_samples:
        # Rounded, since ten samples of weight 0.1 are to be ten samples.
        n_errors = round(n_errors / weight_sum * n_samples, 6)
    return min(n_errors, n_wrong)


def _check_range(logits: Floats) -> None:
    """Raise ValueError for logits whose differences or row sums would overflow."""
    limit = np.finfo(logits.dtype).max / (4 * logits.shape[1])
    largest = max(logits.max(), -logits.min())
    if largest > limit:
        raise ValueError(
            f"X must contain logits of at most {limit:.2g} in absolute value, got "
            f"{largest:.3g}. Divide all logits by the same number."
        )


def warn_that_logits_look_like_proba() -> None:
    warnings.warn(
        "X should contain logits, since from_logits=True, got values that look like "
        "probabilities. Pass logits, such as those of decision_function, or fit with "
        "from_logits=False.",
        UserWarning,
    )
