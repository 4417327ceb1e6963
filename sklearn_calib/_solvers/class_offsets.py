"""Offsets of logarithms of probabilities that correct the class frequencies."""

from typing import Any

import numpy as np

from sklearn_calib._numerics.sample_blocks import Blocks
from sklearn_calib._numerics.softmax import log_softmax
from sklearn_calib._solvers.spline_logistic import ROUNDING, TINY, estimate, minimize
from sklearn_calib._validation.types import Floats


def fit_offsets(proba: Blocks) -> Floats:
    """Return the offset of each class, with priors around zero.

    Without a prior, the mean of the corrected probabilities would be the class
    frequencies of the samples. The precision of the normal prior is estimated from the
    samples (empirical Bayes), so that offsets without evidence are close to zero.

    Parameters
    ----------
    proba : Blocks
        Probabilities, instead of logits.

    Returns
    -------
    offset : ndarray of shape (n_classes,)
        To be added to the logarithms of the probabilities.
    """
    # More samples than this are only rounding errors apart.
    scale = min(1.0, 1 / ROUNDING / proba.weight_sum)
    data = _Offsets(
        proba.map(
            lambda block: block._replace(
                logits=np.log(np.maximum(block.logits, TINY)),
                weight=scale * block.weight,
            )
        ).kept(),
        scale * proba.counts,
    )
    part = np.zeros(len(proba.sizes), dtype=np.int64)
    offset, precision = estimate(data, part)
    return minimize(data, precision[part], offset)[0]


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
