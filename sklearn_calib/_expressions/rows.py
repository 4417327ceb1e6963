"""Operations on rows: softmax, log-odds, and a new probability of the predicted class.

Both bodies of an operation stand together: in a graph, and for numpy arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sklearn_calib._expressions.symbol import (
    Symbol,
    Values,
    exp,
    expit,
    log,
    log1p,
    maximum,
    minimum,
    softplus,
    where,
)
from sklearn_calib._numerics import (
    class_scores,
    confidence as numeric_confidence,
    posteriors,
    softmax as numeric,
)
from sklearn_calib._validation.types import Floats


def in_order(values: Values, order: Any) -> Values:
    """Return values in C or Fortran order; sums of rows depend on it in numpy."""
    return values if isinstance(values, Symbol) else np.asarray(values, order=order)


def softmax(logits: Values) -> Values:
    """Return the softmax of each row."""
    if not isinstance(logits, Symbol):
        return numeric.softmax(logits)
    proba = exp(logits - _max(logits))
    return proba / _sum(proba)


def log_softmax(logits: Values) -> Values:
    """Return the logarithm of the softmax of each row."""
    if not isinstance(logits, Symbol):
        return numeric.log_softmax(logits)
    shifted = logits - _max(logits)
    return shifted - log(_sum(exp(shifted)))


def is_top(values: Any) -> Any:
    """Return a mask of the first column with the largest value in each row."""
    return values.argmax(axis=1, keepdims=True) == np.arange(values.shape[1])


def lift_zeros(proba: Values, zero: float) -> Values:
    """Raise probabilities to at least `zero`, preserving their order."""
    if not isinstance(proba, Symbol):
        return numeric.lift_zeros(proba, zero)
    return maximum(proba / 2 + zero, proba)


def log_proba_and_rest(logits: Values) -> tuple[Values, Values]:
    """Return log(p) and log(1 - p) of each class from logits, in float64."""
    if not isinstance(logits, Symbol):
        return class_scores.log_proba_and_rest(logits)
    odds = log_odds(logits)
    return -softplus(-odds), -softplus(odds)


def log_odds(logits: Values) -> Values:
    """Return the log-odds log(p / (1 - p)) of each class from logits, in float64."""
    if not isinstance(logits, Symbol):
        return class_scores.LOG_ODDS.of_all(logits).T
    log_proba = log_softmax(logits.astype(np.float64))
    top = is_top(log_proba)
    others = where(top, -np.inf, log_proba)
    largest = _max(others)
    log_rest = largest + log(_sum(exp(others - largest)))
    return log_proba - where(top, log_rest, log1p(-exp(others)))


def top_log_odds(logits: Values) -> Values:
    """Return the log-odds of the predicted class of each row from logits."""
    if not isinstance(logits, Symbol):
        _, log_total, _, log_rest = class_scores.summarise_log_odds(logits)
        return (-log_total - log_rest)[:, None]
    return _sum(where(is_top(logits), log_odds(logits), 0.0))


def log_odds_of_proba(log_proba: Values, zero: float) -> Values:
    """Return the log-odds of each class from log-probabilities, in float64."""
    if not isinstance(log_proba, Symbol):
        return class_scores.log_odds_from_proba(zero).of_all(log_proba).T
    log_proba = log_proba.astype(np.float64)
    proba = exp(log_proba)
    top = is_top(proba)
    others = where(top, 0.0, minimum(proba, maximum(2 * (proba - zero), 0.0)))
    rest = 1 - proba
    cancels = ~(rest > 1e-3)
    rest = where(top & cancels, _sum(others), rest)
    return log_proba - log(lift_zeros(rest, zero))


def negative_entropy(proba: Values) -> Values:
    """Return the sum of p log p of each row."""
    if isinstance(proba, Symbol):
        return _sum(_xlogx(proba))
    return numeric_confidence.negative_entropy(proba)[:, None]


def focal_posterior(proba: Values, gamma: float) -> Values:
    """Return the class probabilities for which `proba` minimises the focal loss."""
    if not isinstance(proba, Symbol):
        return posteriors.focal_posterior(proba, gamma)
    proba = proba / _sum(proba)
    is_large = proba > 0.5
    others = _sum(where(is_large, 0.0, proba))
    rest = where(is_large, others, 1 - proba)
    rest = maximum(rest, np.finfo(rest.dtype).tiny)
    log_large = log1p(-where(is_large, rest, 0.0))
    log_q = where(is_large, log_large, log_of_tiny(proba))
    ratio = -where(is_large, proba * log_large, _xlogx(proba)) / rest
    return softmax(log_q - gamma * log(rest) - log1p(gamma * ratio))


def mixture(weights: Floats, values: Sequence[Any]) -> Any:
    """Return the weighted sum of probabilities and, last, of uniform ones."""
    if not isinstance(values[0], Symbol):
        return np.tensordot(weights, with_uniform(values), 1)
    *others, uniform = weights.tolist()
    terms = [weight * value for weight, value in zip(others, values, strict=True)]
    return sum(terms[1:], terms[0]) + uniform / values[0].shape[1]


def with_uniform(values: Sequence[Floats]) -> Floats:
    """Return numpy arrays of probabilities, and uniform ones, as one array."""
    result = np.empty((len(values) + 1, *values[0].shape))
    for part, value in zip(result, values, strict=False):
        part[...] = value
    result[-1] = 1 / result.shape[2]
    return result


def by_group(
    function: Callable[[Any], Any],
    own: Sequence[Callable[[Any], Any] | None],
    index: Any,
    values: Any,
) -> Any:
    """Return a function of the rows, for some groups of rows that of the group.

    `own` contains the function of each group, or None; `index` is the group of each
    row, of shape (n_samples, 1).
    """
    result, in_graph = function(values), isinstance(values, Symbol)
    for k in range(len(own)) if in_graph else np.unique(index):
        if (each := own[k]) is None:
            continue
        if in_graph:
            result = where(index == k, each(values), result)
        else:
            rows = np.flatnonzero(index == k)
            result[rows] = each(values[rows])
    return result


def log_of_tiny(proba: Values) -> Values:
    """Return the logarithm, finite for p = 0, so that gradients are finite."""
    return log(maximum(proba, np.finfo(proba.dtype).tiny))


def log_of_pool(members: Sequence[Values]) -> Values:
    """Return the logarithm of the squared mean of the square roots of arrays."""
    total: Any = sum(member**0.5 for member in members)
    return 2 * log_of_tiny(total / len(members))


def pool(members: Sequence[Values], temperature: Any, offset: Any) -> Values:
    """Return the average of probabilities, calibrated unless the temperature is one.

    The logarithms of `log_of_pool`, or log-odds for an array of temperatures of labels,
    are divided by the temperature, and the offset is added.
    """
    if np.all(temperature == 1) and not np.any(offset):
        total: Any = sum(members)
        return total / len(members)
    logs = log_of_pool(members)
    if np.ndim(temperature) > 0:
        log_odds = logs - log_of_pool([1 - member for member in members])
        return expit(log_odds / temperature + offset)
    tiny = np.finfo(logs.dtype).tiny
    return maximum(softmax(logs / temperature + offset), tiny)


def _xlogx(proba: Symbol) -> Symbol:
    """Return p log p, which is 0 for p = 0."""
    return proba * log_of_tiny(proba)


def _max(values: Symbol) -> Symbol:
    return values.max(axis=1, keepdims=True)


def _sum(values: Symbol) -> Symbol:
    return values.sum(axis=1, keepdims=True)
