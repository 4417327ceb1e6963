"""The link functions of `_numerics/softmax.py` for the arrays of a graph."""

from __future__ import annotations

import numpy as np

from sklearn_calib._expressions.tensor import (
    Tensor,
    exp,
    log,
    log1p,
    maximum,
    node,
    where,
)


def softmax(logits: Tensor) -> Tensor:
    proba = exp(logits - logits.max())
    return proba / proba.sum()


def log_softmax(logits: Tensor) -> Tensor:
    shifted = logits - logits.max()
    return shifted - log(exp(shifted).sum())


def logsumexp(values: Tensor) -> Tensor:
    largest = values.max()
    return largest + log(exp(values - largest).sum())


def is_top(values: Tensor, n_columns: int) -> Tensor:
    """Return a mask of the first column with the largest value in each row."""
    columns = np.arange(n_columns)
    return node("Equal", values.argmax(), columns, dtype=bool)


def lift_zeros(proba: Tensor, zero: float) -> Tensor:
    return maximum(proba / 2 + zero, proba)


def log_odds(logits: Tensor, n_classes: int) -> Tensor:
    """Return the log-odds of each class from logits, in float64."""
    log_proba = log_softmax(logits.astype(np.float64))
    top = is_top(log_proba, n_classes)
    others = where(top, -np.inf, log_proba)
    return log_proba - where(top, logsumexp(others), log1p(-exp(others)))


def log_odds_of_proba(log_proba: Tensor, zero: float, n_classes: int) -> Tensor:
    """Return the log-odds of each class from log-probabilities, in float64."""
    log_proba = log_proba.astype(np.float64)
    proba = exp(log_proba)
    top = is_top(proba, n_classes)
    small = maximum(2 * (proba - zero), 0.0)
    others = where(top, 0.0, node("Min", proba, small))
    rest = 1 - proba
    cancels = node("Not", rest > 1e-3)
    rest = where(top & cancels, others.sum(), rest)
    return log_proba - log(lift_zeros(rest, zero))


def log_of_tiny(proba: Tensor) -> Tensor:
    """Return the logarithm, finite for p = 0, so that gradients are finite."""
    return log(maximum(proba, np.finfo(proba.dtype).tiny))


def xlogx(proba: Tensor) -> Tensor:
    """Return p log p, which is 0 for p = 0."""
    return proba * log_of_tiny(proba)


def focal_posterior(proba: Tensor, gamma: float) -> Tensor:
    proba = proba / proba.sum()
    is_large = proba > 0.5
    others = where(is_large, 0.0, proba).sum()
    rest = where(is_large, others, 1 - proba)
    rest = maximum(rest, np.finfo(rest.dtype).tiny)
    log_large = log1p(-where(is_large, rest, 0.0))
    log_q = where(is_large, log_large, log_of_tiny(proba))
    ratio = -where(is_large, proba * log_large, xlogx(proba)) / rest
    return softmax(log_q - gamma * log(rest) - log1p(gamma * ratio))
