"""Distributions with a new probability of the predicted class."""

import numpy as np

from sklearn_calib._numerics.softmax import softmax
from sklearn_calib._validation.types import Floats

# Newton's method takes five to ten steps.
MAX_STEPS = 50


def replace_top(logits: Floats, confidence: Floats, rest: Floats) -> Floats:
    """Return softmax probabilities in which the confidence of each row is replaced.

    A smaller confidence is obtained by a temperature for the row. For a larger
    confidence, the other classes keep their proportions, as the temperature would tend
    to zero if two classes are nearly tied.

    Parameters
    ----------
    logits : ndarray of shape (n_samples, n_classes)
        Logits in float64.

    confidence : ndarray of shape (n_samples,)
        New probabilities of the predicted classes, at least 1 / n_classes.

    rest : ndarray of shape (n_samples,)
        One minus the confidence, passed separately because the difference would be
        inaccurate if it is very small.

    Returns
    -------
    proba : ndarray of shape (n_samples, n_classes)
    """
    rows, top = np.arange(len(logits)), logits.argmax(axis=1)
    is_less = confidence < softmax(logits)[rows, top]
    inverse = np.ones(len(logits))
    inverse[is_less] = _row_inverse(logits[is_less], confidence[is_less], rest[is_less])
    others = logits * inverse[:, None]
    others[rows, top] = -np.inf
    proba = softmax(others) * rest[:, None]
    proba[rows, top] = confidence
    return proba


def keep_top(proba: Floats, logits: Floats) -> Floats:
    """Restore the predicted class where rounding to float32 has created a tie."""
    top = logits.argmax(axis=1)
    rows = np.flatnonzero(proba.argmax(axis=1) != top)
    largest = proba[rows].max(axis=1)
    proba[rows, top[rows]] = np.nextafter(largest, 1, dtype=proba.dtype)
    return proba


def _row_inverse(logits: Floats, confidence: Floats, rest: Floats) -> Floats:
    """Return the 1 / T of each row that gives the largest probability `confidence`.

    The logarithm of the sum of the other probabilities, relative to the largest, is
    convex and decreasing in 1 / T, so Newton's method from 0 converges monotonically.
    """
    rows, top = np.arange(len(logits)), logits.argmax(axis=1)
    gap = logits[rows, top][:, None] - logits
    target = np.log(rest) - np.log(confidence)
    inverse = np.zeros(len(logits))
    for _ in range(MAX_STEPS):
        others = np.exp(-inverse[:, None] * gap)
        others[rows, top] = 0
        total = others.sum(axis=1)
        slope = (others * gap).sum(axis=1) / total
        step = (np.log(total) - target) / slope
        inverse += np.maximum(step, 0)
        if (step * slope < 1e-12).all():
            break
    return inverse
