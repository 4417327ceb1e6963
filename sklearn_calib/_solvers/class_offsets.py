"""Offsets of logarithms of probabilities that correct the class frequencies."""

from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from sklearn_calib._numerics.sample_blocks import Blocks
from sklearn_calib._numerics.softmax import log_softmax
from sklearn_calib._solvers.spline_logistic import LARGEST, TINY, minimize
from sklearn_calib._validation.types import Floats

# Largest change of the offsets in the last step.
TOLERANCE = 1e-6
MAX_STEPS = 50


def fit_offsets(proba: Blocks) -> Floats:
    """Return the offset of each class, with priors around zero.

    Without a prior, the mean of the corrected probabilities would be the class
    frequencies of the samples. The precision of the normal prior maximises the marginal
    likelihood, where the log loss is approximated by a parabola at the offsets, so that
    offsets without evidence are close to zero.

    Parameters
    ----------
    proba : Blocks
        Probabilities, instead of logits.

    Returns
    -------
    offset : ndarray of shape (n_classes,)
        To be added to the logarithms of the probabilities.
    """
    logits = proba.transform(lambda values: np.log(np.maximum(values, TINY))).kept()
    data = _Offsets(logits, proba.counts)
    mean: Floats = np.zeros(len(proba.sizes))
    precision = 1.0
    for _ in range(MAX_STEPS):
        offset = minimize(data, np.full(len(mean), precision), mean)
        mean, precision = _step(data, offset)
        if np.abs(mean - offset).max() < TOLERANCE:
            break
    return mean


def _step(data: "_Offsets", offset: Floats) -> tuple[Floats, float]:
    """Return the posterior mean and the precision, given a parabola at the offsets."""
    slope, curvature = data.derivatives(offset)
    size, directions = np.linalg.eigh(curvature)
    size = np.maximum(size, 0)
    target = directions.T @ (curvature @ offset - slope)

    def minus_evidence(log_precision: float) -> Any:
        sizes = size + np.exp(log_precision)
        return (np.log(sizes) - log_precision - target**2 / sizes).sum()

    ends = 0.0, np.log(LARGEST)
    found = minimize_scalar(
        minus_evidence, bounds=ends, method="bounded", options={"xatol": TOLERANCE}
    )
    precision = float(np.exp(found.x))
    return directions @ (target / (size + precision)), precision


class _Offsets:
    """Log losses as a function of the offsets."""

    def __init__(self, logits: Blocks, counts: Floats) -> None:
        self.logits, self.counts = logits, counts

    def loss(self, offset: Floats) -> tuple[Any, Floats]:
        """Return the sum of the log losses, and the offsets."""
        total: Any = 0.0
        for x, codes, weight in self.logits:
            total -= weight @ log_softmax(x + offset)[np.arange(len(x)), codes]
        return total, offset

    def derivatives(self, offset: Floats) -> tuple[Floats, Floats]:
        """Return the gradient and the Hessian."""
        slope, curvature = -self.counts, np.zeros((len(offset),) * 2)
        for x, _, weight in self.logits:
            proba = np.exp(log_softmax(x + offset))
            slope = slope + weight @ proba
            curvature -= proba.T @ (weight[:, None] * proba)
        # The rows sum to zero. Differences of sums would not if a weight is large.
        np.fill_diagonal(curvature, 0.0)
        np.fill_diagonal(curvature, -curvature.sum(axis=1))
        return slope, curvature
