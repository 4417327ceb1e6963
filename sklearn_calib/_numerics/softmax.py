"""Softmax and its logarithm."""

import numpy as np

from sklearn_calib._validation.types import Floats

# Smaller sums of exponentials may contain subnormal numbers, which are not precise.
UNDERFLOW = 1e-280

# For fewer columns, maxima and sums of rows are faster in a transposed copy.
TRANSPOSE_BELOW = 64

# Makes subnormal numbers normal.
SCALE = 2.0**60


def row_max(values: Floats) -> Floats:
    """Return the largest value of each row, as a column."""
    if values.shape[1] < TRANSPOSE_BELOW:
        return np.asarray(values.T, order="C").max(axis=0)[:, None]
    return values.max(axis=1, keepdims=True)


def softmax(logits: Floats) -> Floats:
    """Return the softmax of each row, in the dtype of the logits."""
    proba = logits - row_max(logits)
    np.exp(proba, out=proba)
    proba /= proba.sum(axis=1, keepdims=True)
    return proba


def log_softmax(logits: Floats) -> Floats:
    """Return the logarithm of the softmax of each row, in the dtype of the logits."""
    shifted = logits - row_max(logits)
    shifted -= np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return shifted


def lift_zeros(proba: Floats, zero: float) -> Floats:
    """Raise probabilities to at least `zero`, preserving their order.

    Probabilities from `2 * zero` are not changed.
    """
    lifted = proba / 2
    lifted += zero
    return np.maximum(proba, lifted, out=lifted)
