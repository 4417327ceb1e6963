"""Logistic regression on few features, in full precision."""

from typing import Any

import numpy as np
from scipy.linalg.lapack import dgelsd, dgelsd_lwork
from sklearn.exceptions import ConvergenceWarning

from sklearn_calib._solvers.newton import MAX_STEPS, newton_steps
from sklearn_calib._validation.fit_warnings import warn
from sklearn_calib._validation.types import Array, Floats

# A smaller mean log loss is 0 up to rounding errors: the data are separable.
SMALLEST_LOSS = 1e-13


def fit_logistic(features: Floats, target: Array, weight: Floats) -> Floats:
    """Return the coefficients that minimise the log loss.

    Parameters
    ----------
    features : ndarray of shape (n_samples, n_features)
        Features; a column of ones gives an intercept.

    target : ndarray of shape (n_samples,)
        Binary outcomes, 0 or 1.

    weight : ndarray of shape (n_samples,)
        Non-negative weights.

    Returns
    -------
    coef : ndarray of shape (n_features,)

    Warns
    -----
    ConvergenceWarning
        If the data are separable, so that the minimum does not exist. Platt's targets
        are then used instead of 0 and 1.
    """
    coef, has_converged = newton_logistic(features, target, weight, is_binary=True)
    if has_converged:
        return coef
    warn(
        "The log loss has no minimum, as the calibration data are separable. The "
        "targets 0 and 1 were replaced by Platt's smoothed targets. Calibrate with "
        "more samples, and use held-out data instead of the training data.",
        ConvergenceWarning,
    )
    return newton_logistic(features, smoothed_targets(target, weight), weight)[0]


def fit_nonnegative(
    features: Floats, n_nonnegative: int, target: Array, weight: Floats
) -> Floats:
    """Return the coefficients that minimise the log loss, the first ones non-negative.

    If some of these are negative at the unconstrained minimum, at least one of them is
    0 at the constrained minimum.
    """
    if features.shape[1] == 0:
        return np.zeros(0)
    coef = fit_logistic(features, target, weight)
    fits = []
    for k in np.flatnonzero(coef[:n_nonnegative] < 0):
        others = np.delete(features, k, axis=1)
        fit = fit_nonnegative(others, n_nonnegative - 1, target, weight)
        fits.append(np.insert(fit, k, 0.0))

    def value(coef: Floats) -> Any:
        return log_loss(features @ coef, target, weight)[0]

    return min(fits, key=value, default=coef)


def smoothed_targets(target: Array, weight: Floats) -> Floats:
    """Return Platt's smoothed targets: one pseudo-count is added to each class."""
    n_positive, n_negative = weight @ target, weight @ (1 - target)
    return np.where(
        target > 0, (n_positive + 1) / (n_positive + 2), 1 / (n_negative + 2)
    )


def newton_logistic(
    features: Floats, target: Array, weight: Floats, *, is_binary: bool = False
) -> tuple[Floats, Any]:
    """Return the coefficients that minimise the log loss, and whether it has a minimum.

    Newton's method with step halving. If the minimum is at infinity, each step reduces
    the excess loss by a constant factor; otherwise, convergence is quadratic, which
    distinguishes the two cases. If all targets are 0 or 1, the search ends at the first
    coefficients that separate them.
    """
    rows = np.ascontiguousarray(features.T)
    moments = rows * weight

    def evaluate(coef: Floats) -> tuple[Any, Floats]:
        return log_loss(coef @ rows, target, weight)

    def solve(_: Floats, proba: Floats) -> tuple[Floats, Floats]:
        slope = moments @ (proba - target)
        curvature = (moments * (proba * (1 - proba))) @ rows.T
        return -_solve(curvature, slope), slope

    previous: Any = np.inf
    steps = newton_steps(evaluate, solve, _start(rows, target, weight))
    for n_steps, at in enumerate(steps, 1):  # noqa: B007 - read after the loop
        is_fast = at.gain <= 0.05 * previous
        is_positive = at.value > SMALLEST_LOSS * weight.sum()
        if at.gain <= 1e-10 * at.value:
            return at.point + at.step, is_positive and is_fast
        if is_binary and not is_fast and np.abs(at.state - target).max() < 0.5:
            return at.point, False
        previous = at.gain
    # Fewer steps end where only rounding errors are left.
    return at.point, is_positive and n_steps < MAX_STEPS


def _start(rows: Floats, target: Array, weight: Floats) -> Floats:
    """Return zeros, except for the log-odds of the targets as the intercept, if any."""
    coef = np.zeros(len(rows))
    if (rows[-1] == 1).all():
        n_positive = weight @ target
        coef[-1] = np.log((n_positive + 1) / (weight.sum() - n_positive + 1))
    return coef


def log_loss(margin: Floats, target: Array, weight: Floats) -> tuple[Any, Floats]:
    """Return the weighted sum of the log losses, and the probabilities."""
    small = np.exp(-np.abs(margin))
    total = 1 + small
    losses = np.log(total)
    losses += np.maximum(margin, 0)
    losses -= target * margin
    return weight @ losses, np.where(margin < 0, small, 1) / total


def _solve(curvature: Floats, slope: Floats) -> Floats:
    """Return the Newton step; the shortest one if features are linearly dependent."""
    scale = np.sqrt(curvature.diagonal())
    scale[scale == 0] = 1
    scaled = curvature / (scale[:, None] * scale)
    # As `numpy.linalg.lstsq`, whose checks take longer than this for few features.
    n_numbers, n_integers, _ = dgelsd_lwork(*scaled.shape, 1)
    solution, *_ = dgelsd(scaled, slope / scale, n_numbers, n_integers, 1e-13)
    return solution / scale
