"""The fit of a gamma, and of a temperature with it, to focal probabilities."""

import math
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from scipy.optimize import brentq
from sklearn.exceptions import ConvergenceWarning

from sklearn_calib._core.links import focal_terms, log_softmax, softmax
from sklearn_calib._core.optimize import fit_temperature
from sklearn_calib._core.typing import Array, Floats, Ints, Weights
from sklearn_calib._core.validation import row_blocks

# Where gamma is looked for; the first of these at which the likelihood falls ends it.
GAMMAS = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0)

MAX_STEPS = 100


def fit_gamma(logits: Floats, codes: Ints, sample_weight: Weights = None) -> float:
    """Return the gamma with the smallest NLL of `focal_posterior(softmax(logits))`.

    It is in [0, 20], and the first minimum if there are several.

    Parameters
    ----------
    logits : ndarray of shape (n_samples, n_classes)
        Finite.

    codes : ndarray of shape (n_samples,)
        The column of the true class.

    sample_weight : ndarray of shape (n_samples,), default=None
        Non-negative weights. A weight of 2 counts as two samples.

    Returns
    -------
    gamma : float

    Warns
    -----
    ConvergenceWarning
        If it is 20.
    """
    weight = np.ones(len(logits)) if sample_weight is None else sample_weight
    return _find_gamma(lambda gamma: _moments(logits, codes, weight, 0.0, gamma)[1][1])


def fit_focal_temperature(
    logits: Floats,
    codes: Ints,
    sample_weight: Weights = None,
    *,
    gamma: float | None = None,
) -> tuple[float, float]:
    """Return the T and the gamma with the smallest NLL.

    That is of `focal_posterior(softmax(logits / T), gamma)`.

    Parameters
    ----------
    logits, codes, sample_weight
        As in :func:`fit_gamma`.

    gamma : float, default=None
        If given, it is not searched.

    Returns
    -------
    temperature, gamma : float

    Warns
    -----
    ConvergenceWarning
        If gamma is 20, or the T for a gamma of 0 is a bound and no optimum.

    Notes
    -----
    The best T is found for each gamma, and the likelihood that is left looked at as a
    function of gamma. Searched together, T and gamma are hard to tell from each other,
    above all for two classes.

    Where the T for a gamma of 0 is a bound, its probabilities stand in for the true
    classes, which would drive T beyond it.
    """
    weight = np.ones(len(logits)) if sample_weight is None else sample_weight
    start = fit_temperature(logits, codes, sample_weight)
    _, slope, curvature = _moments(logits, codes, weight, math.log(start), 0.0)
    is_optimum = abs(slope[0]) <= 1e-3 * curvature[0, 0]
    target = codes if is_optimum else softmax(logits / start)
    log_temperature = math.log(start)

    def profile(gamma: float, tolerance: float = 1e-5) -> float:
        """Return the slope in gamma along the best temperatures."""
        nonlocal log_temperature
        log_temperature, slope, curvature = _best_temperature(
            logits, target, weight, log_temperature, gamma, tolerance
        )
        # What is left of the slope in T is worth a step, to first order.
        ratio = curvature[0, 1] / curvature[0, 0] if curvature[0, 0] > 0 else 0.0
        return slope[1] - ratio * slope[0]

    if gamma is None:
        # The stand-in is what a gamma of 0 gives.
        gamma = _find_gamma(profile) if is_optimum else 0.0
    profile(gamma, tolerance=1e-12)
    return math.exp(log_temperature), gamma


def _find_gamma(slope: Callable[[float], float]) -> float:
    """Return the first zero of the slope, or 0 if it rises from there on."""
    # Asked again it may have another sign at a zero: it starts from the last answer.
    slope = cache(slope)
    if slope(0.0) >= 0:
        return 0.0
    low = 0.0
    for high in GAMMAS:
        if slope(high) >= 0:
            return brentq(slope, low, high, xtol=1e-13, rtol=1e-13)
        low = high
    warnings.warn(
        f"The likelihood is largest for a gamma above {GAMMAS[-1]:g}, which was taken. "
        "Calibrate on more samples, on others than the training's, and with the "
        "columns in the order of the classes.",
        ConvergenceWarning,
    )
    return GAMMAS[-1]


def _best_temperature(
    logits: Floats,
    target: Array,
    weight: Floats,
    log_temperature: float,
    gamma: float,
    tolerance: float,
) -> tuple[float, Floats, Floats]:
    """Return the best log(T) for a gamma, and slope and curvature close to it.

    By Fisher's scoring: Newton's method with the second derivative that the model
    expects, which is never negative. A step that is too long is halved.
    """

    def moments(log_temperature: float) -> tuple[Any, ...]:
        return _moments(logits, target, weight, log_temperature, gamma)

    value, slope, curvature = moments(log_temperature)
    for _ in range(MAX_STEPS):
        if curvature[0, 0] == 0:
            break
        step = np.clip(-slope[0] / curvature[0, 0], -1.0, 1.0)
        ahead = moments(log_temperature + step)
        while ahead[0] > value * (1 + 1e-13) and abs(step) > tolerance:
            step /= 2
            ahead = moments(log_temperature + step)
        log_temperature += step
        value, slope, curvature = ahead
        if abs(step) <= tolerance:
            break
    return log_temperature, slope, curvature


def _moments(
    logits: Floats, target: Array, weight: Floats, log_temperature: float, gamma: float
) -> tuple[Any, ...]:
    """Return the mean NLL, its slope, and the curvature that the model expects.

    The target is a column for each sample, or probabilities of all columns.
    """
    value: Any = 0.0
    slope, curvature = np.zeros(2), np.zeros((2, 2))
    for rows in row_blocks(*logits.shape):
        # In this order, for sums not to depend on the layout that the logits came in.
        block = np.array(logits[rows], dtype=np.float64, order="C")
        log_eta, scores = _scores(block, log_temperature, gamma)
        eta = np.exp(log_eta)
        scores -= np.einsum("pij,ij->pi", scores, eta)[:, :, None]
        share = weight[rows]
        if target.ndim == 1:
            seen: Any = np.arange(len(block)), target[rows]
            value -= share @ log_eta[seen]
            slope -= scores[:, *seen] @ share
        else:
            seen = target[rows] * share[:, None]
            value -= np.vdot(seen, log_eta)
            slope -= np.einsum("pij,ij->p", scores, seen)
        weighted = scores * (eta * share[:, None])
        curvature += weighted.reshape(2, -1) @ scores.reshape(2, -1).T
    return tuple(each / weight.sum() for each in (value, slope, curvature))


def _scores(
    logits: Floats, log_temperature: float, gamma: float
) -> tuple[Floats, Floats]:
    """Return the logarithms of the probabilities, and derivatives but for a shift.

    Derivatives are with respect to log(T) and gamma, in this order.
    """
    scaled = logits - logits.max(axis=1, keepdims=True)
    scaled *= math.exp(-log_temperature)
    log_q = log_softmax(scaled)
    q = np.exp(log_q)
    _, log_rest, ratio = focal_terms(q)
    log_eta = log_softmax(log_q - gamma * log_rest - np.log1p(gamma * ratio))
    by_log_q = np.einsum("ij,ij->i", q, scaled)[:, None] - scaled
    by_q, rest = q * by_log_q, np.exp(log_rest)
    # Of the ratio by q; the first terms of its series where the difference vanishes.
    is_near_one = rest < 1e-3
    by_ratio = np.where(
        is_near_one,
        0.5 + rest / 3 + rest**2 / 4,
        -(log_q + rest) / np.where(is_near_one, 1.0, rest) ** 2,
    )
    pull = by_q / rest - by_ratio * by_q / (1 + gamma * ratio)
    by_gamma = -log_rest - ratio / (1 + gamma * ratio)
    return log_eta, np.stack([by_log_q + gamma * pull, by_gamma])
