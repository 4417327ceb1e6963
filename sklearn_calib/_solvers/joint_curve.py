"""A smooth curve of the log-probabilities that all classes share.

The score of a class is x + l(x) + s(x), where x is the logarithm of its predicted
probability, l is linear, and s is a natural cubic spline. The calibrated probabilities
are the softmax of the scores. The priors are those of `smooth_logistic`.
"""

from typing import Any

import numpy as np
from scipy.interpolate import CubicSpline

from sklearn_calib._numerics.sample_blocks import KEPT_SIZE, Blocks
from sklearn_calib._numerics.softmax import log_softmax, softmax
from sklearn_calib._solvers.spline_logistic import (
    ROUNDING,
    Curve,
    choose_knots,
    estimate,
    evaluate,
    in_units,
    make_functions,
    minimize,
    slopes_between,
    without_decreases,
)
from sklearn_calib._solvers.temperature_fit import bounded_temperature, magnitude
from sklearn_calib._validation.arrays import row_blocks
from sklearn_calib._validation.types import Floats


def fit_joint_curve(log_proba: Blocks, n_knots: int) -> Curve:
    """Return the curve from log-probabilities to scores, which does not decrease.

    Parameters
    ----------
    log_proba : Blocks
        Log-probabilities of the classes, in float64.

    n_knots : int
        Largest number of knots, which are quantiles weighted with the probabilities.

    Returns
    -------
    knots, values, slopes : ndarray of shape (n_points,)
        The curve, for `evaluate`. There are at least two knots.
    """
    # More samples than this are only rounding errors apart.
    scale = min(1.0, 1 / ROUNDING / log_proba.weight_sum)
    log_proba = log_proba.map(lambda each: each._replace(weight=scale * each.weight))
    losses = (-w @ x[np.arange(len(x)), codes] for x, codes, w in log_proba)
    if sum(losses) <= np.log(len(log_proba.sizes)) * log_proba.weight_sum:
        return _fit_curve(log_proba, n_knots)
    center = bounded_temperature(log_proba)[0]
    scaled = log_proba.transform(lambda values: values / center)
    return in_units(_fit_curve(scaled.kept(), n_knots), center)


def joint_scores(curve: Curve, log_proba: Floats) -> Floats:
    """Return the scores of the classes."""
    return evaluate(curve, log_proba.ravel()).reshape(log_proba.shape)


def _fit_curve(logits: Blocks, n_knots: int) -> Curve:
    """Return the curve with priors that are centred on the identity."""
    x, proba, mass = _sample(logits)
    unit = magnitude(x)
    knots = choose_knots(x / unit, mass, n_knots)
    # The first of the two linear functions is constant, and changes no probability.
    at_knots = make_functions(knots, x / unit, mass, proba)[:, 1:]
    data = _Data(logits, unit, knots, at_knots)
    part = np.minimum(np.arange(at_knots.shape[1]), 1)
    coef, precision = estimate(data, part)
    limits = slopes_between(knots * unit, at_knots, data.slopes)
    coef, _ = minimize(data, precision, np.zeros_like(coef), limits)
    return without_decreases(data.curve(coef))


def _sample(logits: Blocks) -> tuple[Floats, Floats, Floats]:
    """Return sorted logits of all classes, of at most `KEPT_SIZE` / 8.

    The others are their probabilities, and these times the weights.
    """
    stride = 8 * logits.n_samples * len(logits.sizes) // KEPT_SIZE + 1
    rows = [(x[w > 0][::stride], w[w > 0][::stride]) for x, _, w in logits]
    x = np.concatenate([each for each, _ in rows])
    proba = softmax(x)
    mass = proba * np.concatenate([each for _, each in rows])[:, None]
    order = x.argsort(axis=None)
    return x.ravel()[order], proba.ravel()[order], mass.ravel()[order]


class _Data:
    """Log losses of blocks of samples, as a function of coefficients."""

    def __init__(
        self, logits: Blocks, unit: float, knots: Floats, at_knots: Floats
    ) -> None:
        self.logits, self.unit = logits, unit
        self.knots, self.at_knots = knots * unit, at_knots
        self.spline = CubicSpline(knots, at_knots, bc_type="natural")
        self.slopes = self.spline(knots, 1) / unit

    def curve(self, coef: Floats) -> Curve:
        values = self.knots + self.at_knots @ coef
        return self.knots, values, 1 + self.slopes @ coef

    def loss(self, coef: Floats) -> tuple[Any, Floats]:
        """Return the sum of the log losses, and the coefficients."""
        curve = self.curve(coef)
        total: Any = 0.0
        for x, codes, weight in self.logits:
            likelihood = log_softmax(joint_scores(curve, x))
            total -= weight @ likelihood[np.arange(len(codes)), codes]
        return total, coef

    def derivatives(self, coef: Floats) -> tuple[Floats, Floats]:
        """Return the gradient and the Hessian."""
        slope, curvature = np.zeros(len(coef)), np.zeros((len(coef),) * 2)
        curve = self.curve(coef)
        for every, codes, weight in self.logits:
            for rows in row_blocks(len(every), every.shape[1] * len(coef)):
                x, w = every[rows], weight[rows]
                functions = self.functions(x)
                proba = np.exp(log_softmax(joint_scores(curve, x)))
                mean = np.einsum("ij,ijk->ik", proba, functions)
                slope += w @ (mean - functions[np.arange(len(x)), codes[rows]])
                functions -= mean[:, None]
                flat = functions.reshape(-1, len(coef))
                curvature += (flat.T * (w[:, None] * proba).ravel()) @ flat
        return slope, curvature

    def functions(self, x: Floats) -> Floats:
        """Return the functions, which are linear beyond the knots."""
        inside = np.clip(x, self.knots[0], self.knots[-1])
        ends = np.where((x < inside)[..., None], self.slopes[0], self.slopes[-1])
        return self.spline(inside / self.unit) + ends * (x - inside)[..., None]
