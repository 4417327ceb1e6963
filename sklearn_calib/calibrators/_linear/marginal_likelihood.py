"""Marginal likelihood of effects with a normal prior, as a function of its variance."""

import numpy as np

from sklearn_calib._validation.types import Floats


def likelihood_ratios(
    variance: Floats, curvature: Floats, pull: Floats, share: float = 1.0
) -> Floats:
    """Return twice the log-likelihood ratio of prior variances to a variance of zero.

    The log loss is a parabola in each effect, with its minimum at pull / curvature.
    `share` is the number of independent effects divided by their number.
    """
    total = 1 + np.multiply.outer(variance, curvature)
    terms = pull**2 * (variance[..., None] / total) - share * np.log(total)
    return terms.sum(axis=-1)
