"""Multinomial logistic recalibration with a slope for each class."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import log_softmax, logsumexp

from sklearn_calib._numerics.softmax import lift_zeros
from sklearn_calib._solvers.logistic import SMALLEST_LOSS
from sklearn_calib._validation.arrays import shown
from sklearn_calib._validation.labels import code_of_label
from sklearn_calib._validation.types import Array, Floats, Ints

MAX_STEPS = 50
# Smallest eigenvalue of the information with a diagonal of ones.
SINGULAR = 1e-13


class Ratios(NamedTuple):
    """Log-ratios (n_samples, n_classes - 1) to the reference class, and outcomes.

    `log_factor` (n_samples, n_classes) is added to the logarithms of the probabilities,
    that of the reference class first: 0, or minus infinity for impossible classes.
    """

    x: Floats
    log_factor: Floats
    outcome: Floats
    weight: Floats


class Fit(NamedTuple):
    """Estimates and standard errors (n_terms, n_classes - 1), and the log loss."""

    coef: Floats
    errors: Floats
    loss: float


def reference_code(reference: Any, classes: Array) -> int:
    """Return the column of the reference class; by default, the first."""
    if reference is None:
        return 0
    code = code_of_label(reference, classes)
    if code is None:
        raise ValueError(
            f"reference must be one of {shown(classes.tolist())}, got "
            f"{shown(reference)}. Pass the label of the class with which to compare "
            "the others."
        )
    return code


def log_ratios(
    proba: Floats,
    codes: Ints,
    weight: Floats,
    reference: int,
    *,
    zeros_remain: bool = False,
) -> Ratios:
    """Return the samples with positive weight, relative to the reference class."""
    kept = weight > 0
    proba = proba[kept].astype(np.float64)
    zero = np.finfo(np.float64).eps
    if proba.min() == 0:
        zero = max(proba.min(where=proba > 0, initial=1) / 2, zero)
    log_proba = np.log(lift_zeros(proba, zero))
    others = np.arange(proba.shape[1]) != reference
    outcome = codes[kept, None] == np.flatnonzero(others)
    x = log_proba[:, others] - log_proba[:, [reference]]
    order = [reference, *np.flatnonzero(others)]
    is_impossible = (proba[:, order] == 0) & zeros_remain
    log_factor = np.where(is_impossible, -np.inf, 0)
    return Ratios(x, log_factor, outcome.astype(np.float64), weight[kept])


def fit_recalibration(data: Ratios, *, slopes: bool) -> Fit | None:
    """Return the estimates that maximise the likelihood, or None if there are none.

    The terms are the intercept and the slope, or the intercept alone with the slope 1.
    """
    terms = np.ones_like(data.x)[None]
    if slopes:
        terms = np.stack([terms[0], data.x])
    # Slopes start at 0, where the information is not degenerate.
    offset = np.zeros_like(data.x) if slopes else data.x
    coef = np.zeros((len(terms), data.x.shape[1]))
    coef[0] = _start(offset, data)
    previous: Any = np.inf
    loss, proba = _log_loss(coef, terms, offset, data)
    for _ in range(MAX_STEPS):
        slope = np.einsum(
            "snk,nk->sk", terms, data.weight[:, None] * (data.outcome - proba[:, 1:])
        )
        information = _information(terms, proba, data.weight)
        unit = np.sqrt(information.diagonal())
        if not unit.all():
            return None
        scaled = information / np.outer(unit, unit)
        if np.linalg.eigvalsh(scaled)[0] < SINGULAR:
            return None
        inverse = np.linalg.inv(scaled) / np.outer(unit, unit)
        step = (inverse @ slope.ravel()).reshape(coef.shape)
        gain = (slope * step).sum()
        if gain <= 1e-10 * loss:
            # Newton's method converges quadratically unless the estimate is infinite.
            is_zero = loss <= SMALLEST_LOSS * data.weight.sum()
            if slopes and (is_zero or gain > 0.05 * previous):
                return None
            variance = _information(terms, proba, data.weight**2)
            covariance = inverse @ variance @ inverse
            errors = np.sqrt(covariance.diagonal()).reshape(coef.shape)
            return Fit(coef + step, errors, loss - gain / 2)
        previous, length = gain, 1.0
        while (trial := _log_loss(coef + length * step, terms, offset, data))[0] > loss:
            length /= 2
            if length < 1e-6:
                break
        coef = coef + length * step
        loss, proba = trial
    return None


def _start(offset: Floats, data: Ratios) -> Floats:
    """Return intercepts for which the mean probabilities are about right."""
    log_proba = log_softmax(np.pad(offset, [(0, 0), (1, 0)]), axis=1)
    mean = logsumexp(log_proba, b=data.weight[:, None], axis=0)
    n_others = data.weight @ data.outcome
    n_reference = data.weight @ (1 - data.outcome.sum(axis=1))
    return np.log(n_others / n_reference) - (mean[1:] - mean[0])


def log_loss_of_predictions(data: Ratios) -> float:
    """Return the weighted sum of the log losses of the predictions."""
    return _log_loss(np.ones((1, data.x.shape[1])), data.x[None], 0, data)[0]


def _log_loss(
    coef: Floats, terms: Floats, offset: Any, data: Ratios
) -> tuple[float, Floats]:
    """Return the weighted sum of the log losses, and the probabilities."""
    scores = offset + np.einsum("sk,snk->nk", coef, terms)
    scores = np.column_stack([np.zeros(len(scores)), scores]) + data.log_factor
    log_proba = log_softmax(scores, axis=1)
    outcome = np.column_stack([1 - data.outcome.sum(axis=1), data.outcome])
    loss = -data.weight @ log_proba.sum(axis=1, where=outcome > 0)
    return float(loss), np.exp(log_proba)


def _complement(proba: Floats) -> Floats:
    """Return 1 - p in full precision, as the sum of the others where p is large."""
    is_large = proba > 0.5
    others = np.where(is_large, 0, proba).sum(axis=1, keepdims=True)
    return np.where(is_large, others, 1 - proba)


def _information(terms: Floats, proba: Floats, weight: Floats) -> Floats:
    """Return the Fisher information of the coefficients, in the order of `ravel`."""
    proba, rest = proba[:, 1:], _complement(proba)[:, 1:]
    rows = np.concatenate(list(terms * proba), axis=1)
    information = -(rows.T * weight) @ rows
    n_terms, _, n_classes = terms.shape
    blocks = information.reshape(n_terms, n_classes, n_terms, n_classes)
    each = np.arange(n_classes)
    # Not the difference of p and p squared, which cancel where p is close to 1.
    blocks[:, each, :, each] = np.einsum(
        "n,nk,snk,tnk->kst", weight, proba * rest, terms, terms, optimize=True
    )
    return information
