"""Distributions with a new probability of the predicted class."""

import numpy as np

from sklearn_calib._expressions.rows import is_top, softmax
from sklearn_calib._expressions.symbol import (
    Symbol,
    Values,
    exp,
    log,
    maximum,
    minimum,
    where,
)
from sklearn_calib._validation.types import Floats

# Newton's method takes five to ten steps. In a graph, it takes a fixed number.
MAX_STEPS, STEPS = 50, 20


def replace_top(logits: Values, confidence: Values, rest: Values) -> Values:
    """Return softmax probabilities in which the confidence of each row is replaced.

    A smaller confidence is obtained by a temperature for the row. For a larger
    confidence, the other classes keep their proportions, as the temperature would tend
    to zero if two classes are nearly tied.

    Parameters
    ----------
    logits : array of shape (n_samples, n_classes)
        Logits in float64.

    confidence : array of shape (n_samples, 1)
        New probabilities of the predicted classes, at least 1 / n_classes.

    rest : array of shape (n_samples, 1)
        One minus the confidence, passed separately because the difference would be
        inaccurate if it is very small.

    Returns
    -------
    proba : array of shape (n_samples, n_classes)
    """
    if isinstance(logits, Symbol):
        return _replace_top(logits, confidence, rest)
    confidence, rest = confidence[:, 0], rest[:, 0]
    rows, top = np.arange(len(logits)), logits.argmax(axis=1)
    is_less = confidence < softmax(logits)[rows, top]
    inverse = np.ones(len(logits))
    inverse[is_less] = _row_inverse(logits[is_less], confidence[is_less], rest[is_less])
    # Products of logits far from zero would not keep their differences.
    others = (logits - logits.max(axis=1, keepdims=True)) * inverse[:, None]
    others[rows, top] = -np.inf
    proba = softmax(others) * rest[:, None]
    proba[rows, top] = confidence
    return proba


def keep_top(proba: Values, logits: Values) -> Values:
    """Return `proba` in the dtype of the logits; rounding does not create a tie."""
    proba = proba.astype(logits.dtype, copy=False)
    if isinstance(logits, Symbol):
        if logits.dtype == np.float64:
            return proba
        more = 1 + float(np.finfo(logits.dtype).eps)  # one ulp
        return where(is_top(logits), minimum(proba * more, 1.0), proba)
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
    distance = logits[rows, top][:, None] - logits
    target = np.log(rest) - np.log(confidence)
    inverse = np.zeros(len(logits))
    for _ in range(MAX_STEPS):
        others = np.exp(-inverse[:, None] * distance)
        others[rows, top] = 0
        total = others.sum(axis=1)
        slope = (others * distance).sum(axis=1) / total
        step = (np.log(total) - target) / slope
        inverse += np.maximum(step, 0)
        if (step * slope < 1e-12).all():
            break
    return inverse


def _replace_top(logits: Symbol, confidence: Symbol, rest: Symbol) -> Symbol:
    top = is_top(logits)
    distance = logits.max(axis=1, keepdims=True) - logits
    target = log(rest) - log(confidence)
    is_less = confidence < softmax(logits).max(axis=1, keepdims=True)
    inverse = 0 * confidence
    for _ in range(STEPS):
        others = where(top, 0.0, exp(-inverse * distance))
        total = others.sum(axis=1, keepdims=True)
        # Not divided by 0 for tied logits, so that gradients are finite.
        slope = where(is_less, (others * distance).sum(axis=1, keepdims=True), 1.0)
        step = total * (log(total) - target) / slope
        inverse = inverse + where(is_less, maximum(step, 0.0), 0.0)
    others = where(top, -np.inf, -distance * where(is_less, inverse, 1.0))
    return where(top, confidence, softmax(others) * rest)
