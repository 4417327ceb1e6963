"""Logistic regression on natural cubic splines of the scores of classes.

For one class, the log-odds of the outcome are x + l(x) + s(x), where l is linear and s
is a natural cubic spline without a linear part. Both have a normal prior around zero,
so that the curve is shrunk towards the identity. The precisions of the priors are
estimated from the same data (empirical Bayes).

If the log loss of the predictions exceeds that of equal probabilities, x is divided by
the temperature first, as the identity may then be too far from the optimum: with
log-odds of 1e4, no precision would be small enough.

For all classes together, the score of a class is x + l(x) + s(x), where x is the
logarithm of its predicted probability. The calibrated probabilities are the softmax of
the scores. The priors are the same.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy.interpolate import PPoly
from scipy.linalg import cholesky, solve_triangular
from scipy.linalg.lapack import dgtsv, dpotrf, dtrtrs
from scipy.optimize import nnls
from scipy.special import expit

from sklearn_calib._numerics.binning import sums_by_value
from sklearn_calib._numerics.sample_blocks import (
    KEPT_SIZE,
    Blocks,
    Restartable,
    array_blocks,
    joined,
)
from sklearn_calib._numerics.softmax import log_softmax, softmax
from sklearn_calib._solvers.logistic import log_loss
from sklearn_calib._solvers.newton import newton_steps
from sklearn_calib._solvers.temperature_fit import bounded_temperature
from sklearn_calib._validation.arrays import row_blocks
from sklearn_calib._validation.types import Array, Floats, Ints

# Knots, and the values and slopes of the curve there.
Curve = tuple[Floats, Floats, Floats]

# More distinct values are averaged in as many groups of neighbours. The precisions are
# estimated from fewer groups.
MAX_VALUES, FEW_VALUES = 8192, 1024
# Knots are rounded to this number of decimals, as parts of the range.
DECIMALS = 6
# Relative size of rounding errors of sums.
ROUNDING = 1e-12

# Smallest precisions of the two priors. That of the linear part then has the
# information of one sample with this predicted probability, or more.
LEAST = np.array([1.0, 0.0])
START = np.array([1.0, 1.0])
LARGEST = 1e8
TINY, EPSILON = np.finfo(np.float64).tiny, np.finfo(np.float64).eps
# The search for the precisions ends when the effective number of parameters changes by
# less, and a fit when the next step would gain less (in nats).
FEW, LITTLE = 0.01, 1e-4
MAX_STEPS, MAX_UPDATES, MAX_HALVINGS = 50, 4, 50


def fit_curve(
    x: Floats,
    target: Array,
    weight: Floats,
    *,
    n_knots: int,
    is_monotone: bool,
    precision: Floats | None = None,
) -> tuple[Curve, Floats]:
    """Return the curve from the predicted log-odds to those of the outcome.

    Parameters
    ----------
    x : ndarray of shape (n_samples,)
        Predicted log-odds.

    target : ndarray of shape (n_samples,)
        Binary outcomes, 0 or 1.

    weight : ndarray of shape (n_samples,)
        Non-negative weights.

    n_knots : int
        Largest number of knots.

    is_monotone : bool
        Whether the curve must not decrease.

    precision : ndarray of shape (2,), default=None
        Precisions of the priors of the linear part and of the rest, estimated by
        default.

    Returns
    -------
    curve : tuple of ndarray of shape (n_points,)
        Two knots or more, with the values and slopes there, for `evaluate_curve`.

    precision : ndarray of shape (2,)
        The precisions.
    """
    center = 1.0
    if log_loss(x, target, weight)[0] > np.log(2) * weight.sum():
        logits, codes = np.column_stack([np.zeros_like(x), x]), target.astype(np.int64)
        center = bounded_temperature(array_blocks(logits, codes, weight))[0]
    curve, precision = _fit_curve(
        x / center, target, weight, n_knots, is_monotone, precision
    )
    return in_scale(curve, center), precision


def in_scale(curve: Curve, scale: float) -> Curve:
    """Return a curve as a function of x, given a function of x / scale."""
    knots, values, slopes = curve
    return knots * scale, values, slopes / scale


def _fit_curve(
    x: Floats,
    target: Array,
    weight: Floats,
    n_knots: int,
    is_monotone: bool,
    precision: Floats | None,
) -> tuple[Curve, Floats]:
    """Return the curve with priors that are centred on the identity."""
    values = sums_by_value(x, target, weight)
    x, mass, positives = _average(*values, MAX_VALUES)
    knots = choose_knots(x, mass, n_knots)
    at_knots = make_functions(knots, x, mass, expit(x))
    spline = natural_spline(knots, at_knots)
    data = few = _Data(spline(x).T, x, positives / mass, mass)
    if len(x) > FEW_VALUES:
        x, mass, positives = _average(*values, FEW_VALUES)
        few = _Data(spline(x).T, x, positives / mass, mass)
    # The first two functions are linear.
    part = np.minimum(np.arange(at_knots.shape[1]) // 2, 1)
    slopes, limits = spline(knots, 1), None
    if is_monotone:
        limits = slopes_between(knots, at_knots, slopes)
    coef, precision = _fit_coefficients(few, data, part, precision, limits)
    curve = knots, knots + at_knots @ coef, 1 + slopes @ coef
    return without_decreases(curve) if is_monotone else curve, precision


def evaluate_curve(curve: Curve, x: Floats) -> Floats:
    """Return the values of the curve, which is linear beyond the knots."""
    knots, values, slopes = curve
    inside = np.clip(x, knots[0], knots[-1])
    beyond = np.where(x < inside, slopes[0], slopes[-1]) * (x - inside)
    return _hermite_spline(knots, values, slopes)(inside) + beyond


def natural_spline(knots: Floats, values: Floats) -> PPoly:
    """Return scipy's natural `CubicSpline` of each column of the values.

    The checks of scipy take much longer than the solution for few knots.
    """
    width, change = np.diff(knots), np.diff(values, axis=0)
    first, last, step = width[:1], width[-1:], width[:, None]
    rise = change / step
    inner = step[1:] * rise[:-1] + step[:-1] * rise[1:]
    *_, slopes, _ = dgtsv(
        np.append(width[1:], last),
        2 * np.concatenate([first, width[:-1] + width[1:], last]),
        np.append(first, width[:-1]),
        3 * np.concatenate([change[:1], inner, change[-1:]]),
    )
    return _hermite_spline(knots, values, slopes)


def _hermite_spline(knots: Floats, values: Floats, slopes: Floats) -> PPoly:
    """Return scipy's `CubicHermiteSpline`, whose checks take longer than its use."""
    width = np.diff(knots).reshape(-1, *[1] * (values.ndim - 1))
    rise = np.diff(values, axis=0) / width
    bend = (slopes[:-1] + slopes[1:] - 2 * rise) / width
    square = (rise - slopes[:-1]) / width - bend
    coef = np.stack([bend / width, square, slopes[:-1], values[:-1]])
    return PPoly.construct_fast(coef, knots)


class Data(Protocol):
    """Log loss as a function of coefficients."""

    def loss(self, coef: Floats) -> tuple[Any, Any]:
        """Return the sum of the log losses, and an argument for `derivatives`."""

    def derivatives(self, state: Any) -> tuple[Floats, Floats]:
        """Return the gradient and the Hessian."""


class _Data(NamedTuple):
    """Functions that are added to the offset, and the outcomes, at distinct values."""

    functions: Floats  # one row for each function
    offset: Floats
    target: Floats
    mass: Floats

    def loss(self, coef: Floats) -> tuple[Any, Floats]:
        """Return the sum of the log losses, and the probabilities."""
        return log_loss(self.offset + coef @ self.functions, self.target, self.mass)

    def derivatives(self, proba: Floats) -> tuple[Floats, Floats]:
        """Return the gradient and the Hessian at these probabilities."""
        weighted = self.functions * (self.mass * proba * (1 - proba))
        slope = self.functions @ (self.mass * (proba - self.target))
        return slope, weighted @ self.functions.T


def _average(
    value: Floats, mass: Floats, positives: Floats, most: int
) -> tuple[Floats, Floats, Floats]:
    """Average neighbouring values if there are more than `most`."""
    if len(value) <= most:
        return value, mass, positives
    middle = (mass.cumsum() - mass / 2) / mass.sum()
    group = np.floor(middle * most)
    first = np.flatnonzero(np.diff(group, prepend=-1))
    total = np.add.reduceat(mass, first)
    return (
        np.add.reduceat(mass * value, first) / total,
        total,
        np.add.reduceat(positives, first),
    )


def choose_knots(value: Floats, mass: Floats, n_knots: int) -> Floats:
    """Return at most `n_knots` quantiles of sorted values, and at least two knots."""
    share = mass.cumsum() / mass.sum()
    levels = np.linspace(0, 1, n_knots)
    # The mean of the lower and the upper quantile does not depend on the direction.
    low = np.searchsorted(share, levels - ROUNDING)
    high = np.searchsorted(share[:-1], levels + ROUNDING, "right")
    width = (value[-1] - value[0]) or 1.0
    part = ((value[low] + value[high]) / 2 - value[0]) / width
    # Knots that are very close would make the curve ill-conditioned.
    return value[0] + width * np.unique([0, *part.round(DECIMALS)[1:-1], 1])


def make_functions(knots: Floats, value: Floats, mass: Floats, proba: Floats) -> Floats:
    """Return the values at the knots of two linear functions and of the rest.

    The linear functions are scaled such that the prior with precision one has the mean
    information of a sample. All others are orthogonal with respect to the integral of
    the product of second derivatives, which is one for each of them.
    """
    n_samples = mass.sum()
    center = mass @ value / n_samples
    scale = np.sqrt(mass @ (value - center) ** 2 / n_samples) or 1.0
    lines = np.column_stack([np.ones_like(value), (value - center) / scale])
    information = (lines.T * (mass * proba * (1 - proba))) @ lines
    # Of one sample with probability one half, and enough to be regular.
    information += (1 / 4 + ROUNDING * information.max()) * np.eye(2)
    z = (knots - center) / scale
    root = cholesky(information / n_samples, lower=True)
    linear = solve_triangular(root, [np.ones_like(z), z], lower=True).T
    second = natural_spline(z, np.eye(len(z)))(z, 2)
    # They are linear between the knots.
    width, left, right = np.diff(z)[:, None], second[:-1], second[1:]
    both = left + right
    roughness = left.T @ (width * left) + right.T @ (width * right)
    roughness = (roughness + both.T @ (width * both)) / 6
    size, direction = np.linalg.eigh(roughness)
    # Rounding errors may make the roughness of a function negative if knots are close.
    size = np.maximum(size, EPSILON * size[-1])
    return np.hstack([linear, direction[:, 2:] / np.sqrt(size[2:])])


def _fit_coefficients(
    few: Data,
    data: Data,
    part: Ints,
    precision: Floats | None,
    limits: Floats | None,
    coef: Floats | None = None,
) -> tuple[Floats, Floats]:
    """Return the coefficients, and the precisions that fit a part of the data best."""
    if precision is None:
        coef, precision = estimate(few, part)
    elif coef is None:
        coef = minimize(few, precision[part], np.zeros(len(part)))
    if limits is not None:
        # Closer to the identity, the curve does not decrease.
        coef = coef / max(1.0, -(limits @ coef).min())
    coef = minimize(data, precision[part], coef, limits)
    return coef, precision


def estimate(data: Data, part: Ints) -> tuple[Floats, Floats]:
    """Return the coefficients and the precisions of the two priors.

    `part` is 0 for coefficients of linear functions, and 1 for others. At the maximum
    of the marginal likelihood (in Laplace's approximation), a precision is the
    effective number of its parameters divided by the sum of their squares [1]_. Each
    step of Newton's method for the coefficients is followed by updates of the
    precisions.

    References
    ----------
    .. [1] D. J. C. MacKay, "Bayesian Interpolation", Neural Computation 4, 1992,
       equation 4.8.
    """
    is_in = np.eye(2)[part]
    precision: Floats = START
    used: Floats = np.zeros(2)
    # Far from the maximum, the precisions would be those of another local maximum.
    coef = minimize(data, precision[part], np.zeros(len(part)))
    loss, state = data.loss(coef)
    mean = coef
    for _ in range(MAX_STEPS):
        slope, curvature = data.derivatives(state)
        target = curvature @ coef - slope
        # The best precisions if the log loss were this parabola.
        for update in range(MAX_UPDATES):
            if update > 0:
                squares = mean**2 @ is_in
                precision = used / np.maximum(squares, (used + TINY) / LARGEST)
                precision = np.maximum(precision, LEAST)
            prior = precision[part]
            variance = np.linalg.inv(curvature + np.diag(prior + ROUNDING))
            mean = variance @ target
            previous = used
            used = np.maximum(1 - prior * variance.diagonal(), 0) @ is_in
            if update > 0 and np.abs(used - previous).max() < FEW:
                break
        # A step to the middle of the parabola.
        value, step = loss + prior @ coef**2 / 2, mean - coef
        for _ in range(MAX_HALVINGS):
            loss, state = data.loss(coef + step)
            if loss + prior @ (coef + step) ** 2 / 2 <= value * (1 + ROUNDING):
                break
            step /= 2
        coef = coef + step
        if update == 1:
            break
    return coef, precision


def minimize(
    data: Data, precision: Floats, coef: Floats, limits: Floats | None = None
) -> Floats:
    """Return the coefficients with the largest posterior.

    `limits @ coef` must be at least -1, if given.
    """

    def evaluate(coef: Floats) -> tuple[Any, Any]:
        loss, state = data.loss(coef)
        return loss + precision @ coef**2 / 2, state

    def solve(coef: Floats, state: Any) -> tuple[Floats, Floats]:
        slope, curvature = data.derivatives(state)
        slope = slope + precision * coef
        diagonal = np.einsum("ii->i", curvature)  # a view
        diagonal += precision
        # Otherwise, rounding errors may make it singular.
        diagonal *= 1 + ROUNDING
        return _step(curvature, slope, coef, limits), slope

    for at in newton_steps(evaluate, solve, coef):
        if at.gain < LITTLE + ROUNDING * at.value:
            break
    return at.point


def _step(
    curvature: Floats, slope: Floats, coef: Floats, limits: Floats | None
) -> Floats:
    """Return the step to the minimum of a parabola, within the limits.

    Limits make it the problem of least distance, which has the form of non-negative
    least squares [1]_. LAPACK is called directly: the checks of `scipy.linalg` take
    longer than the solutions of such small systems.

    References
    ----------
    .. [1] C. L. Lawson and R. J. Hanson, "Solving Least Squares Problems",
       Prentice-Hall, 1974, section 23.4.
    """
    size = curvature.diagonal().max()
    root, failure = dpotrf(curvature / size, lower=True)
    if failure:
        raise np.linalg.LinAlgError("The curvature must be positive.")
    free = -dtrtrs(root, slope / size, lower=True)[0]
    if limits is not None:
        sides = dtrtrs(root, limits.T, lower=True)[0]
        norm = np.abs(sides).max(axis=0)
        sides /= norm
        # By how much the free step exceeds each limit.
        excess = (-1 - limits @ coef) / norm - free @ sides
        largest = excess.max()
        if largest > 0:
            problem = np.vstack([sides, excess / largest])
            wanted = np.zeros(len(problem))
            wanted[-1] = 1
            residual = problem @ nnls(problem, wanted)[0] - wanted
            free -= largest * residual[:-1] / residual[-1]
    return dtrtrs(root, free, lower=True, trans=True)[0]


def slopes_between(knots: Floats, values: Floats, slopes: Floats) -> Floats:
    """Return the slopes of functions that bound their slopes everywhere.

    The slope of a cubic between two knots is a parabola. It is not negative if its
    values at the knots and its middle control point are not.
    """
    rise = np.diff(values, axis=0) / np.diff(knots)[:, None]
    return np.vstack([slopes, 3 * rise - slopes[:-1] - slopes[1:]])


def without_decreases(curve: Curve) -> Curve:
    """Return a curve that does not decrease, given one that does by rounding errors."""
    knots, values, slopes = curve
    values = np.maximum.accumulate(values)
    slopes = np.maximum(slopes, 0.0)
    both = slopes[:-1] + slopes[1:]
    most = 3 * np.diff(values) / np.diff(knots)
    part = np.minimum(most / np.where(both > 0, both, 1.0), 1.0)
    slopes *= np.minimum(np.append(part, 1.0), np.insert(part, 0, 1.0))
    return knots, values, slopes


def fit_joint_curve(
    log_proba: Blocks,
    n_knots: int,
    precision: Floats | None = None,
    start: Curve | None = None,
) -> tuple[Curve, Floats]:
    """Return the curve from log-probabilities to scores, which does not decrease.

    Parameters
    ----------
    log_proba : Blocks
        Log-probabilities of the classes, in float64.

    n_knots : int
        Largest number of knots, which are quantiles weighted with the probabilities.

    precision : ndarray of shape (2,), default=None
        Precisions of the priors of the linear part and of the rest, estimated by
        default.

    start : tuple of ndarray, default=None
        Curve that is close to the result. It needs a precision.

    Returns
    -------
    curve : tuple of ndarray of shape (n_points,)
        Two knots or more, with the values and slopes there, for `evaluate_curve`.

    precision : ndarray of shape (2,)
        The precisions.
    """
    center = _center(log_proba)
    data, part, limits = _joint_problem(log_proba, center, n_knots)
    coef = None if start is None else data.coefficients(in_scale(start, 1 / center))
    coef, precision = _fit_coefficients(data, data, part, precision, limits, coef)
    return in_scale(without_decreases(data.curve(coef)), center), precision


def fit_joint_curves_without(
    parts: Sequence[Blocks], n_knots: int, precision: Floats, fitted: Curve
) -> Iterator[Curve]:
    """Yield the curve without each part of the samples.

    It is that after a step of Newton's method from `fitted`, the curve of all parts,
    with the same precisions and knots.
    """
    whole = joined(parts).kept()
    center = _center(whole)
    data, part, limits = _joint_problem(whole, center, n_knots)
    coef = data.coefficients(in_scale(fitted, 1 / center))
    own = [data.of(each, center).derivatives(coef) for each in parts]
    slopes, curvatures = zip(*own, strict=True)
    prior = precision[part]
    slope = sum(slopes) + prior * coef
    curvature = sum(curvatures) + np.diag(prior)
    rounding = ROUNDING * np.diag(curvature.diagonal())
    for own_slope, own_curvature in own:
        rest = curvature - own_curvature + rounding
        step = _step(rest, slope - own_slope, coef, limits)
        yield in_scale(without_decreases(data.curve(coef + step)), center)


def _center(log_proba: Blocks) -> float:
    """Return the temperature if equal probabilities have a lower log loss, else one."""
    losses = (-w @ x[np.arange(len(x)), codes] for x, codes, w in log_proba)
    if sum(losses) <= np.log(len(log_proba.sizes)) * log_proba.weight_sum:
        return 1.0
    return bounded_temperature(log_proba)[0]


def _divided(log_proba: Blocks, center: float) -> Blocks:
    if center == 1:
        return log_proba
    return log_proba.transform(lambda values: values / center).kept()


def _joint_problem(
    log_proba: Blocks, center: float, n_knots: int
) -> tuple["_JointData", Ints, Floats]:
    """Return the data in units of the center, the priors of functions, and limits."""
    logits = _divided(log_proba, center)
    x, proba, mass = _sample(logits)
    knots = choose_knots(x, mass, n_knots)
    # The first of the two linear functions is constant, and changes no probability.
    at_knots = make_functions(knots, x, mass, proba)[:, 1:]
    data = _JointData(logits, knots, at_knots)
    part = np.minimum(np.arange(at_knots.shape[1]), 1)
    return data, part, slopes_between(knots, at_knots, data.slopes)


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


class _JointData:
    """Log losses of blocks of samples, as a function of coefficients."""

    def __init__(self, logits: Blocks, knots: Floats, at_knots: Floats) -> None:
        self.logits, self.knots, self.at_knots = logits, knots, at_knots
        self.spline = natural_spline(knots, at_knots)
        self.slopes = self.spline(knots, 1)

    @cached_property
    def parts(self) -> Iterable["_Part"]:
        logits, parts = self.logits, Restartable(self._read)
        size = logits.n_samples * len(logits.sizes) * len(self.slopes.T)
        return list(parts) if size <= KEPT_SIZE else parts

    def _read(self) -> Iterator["_Part"]:
        for every, codes, weight in self.logits:
            for rows in row_blocks(len(every), every.shape[1] * len(self.slopes.T)):
                x = every[rows]
                yield _Part(x, codes[rows], weight[rows], self.functions(x))

    def of(self, part: Blocks, center: float) -> "_JointData":
        """Return the same functions of a part of the samples."""
        return _JointData(_divided(part, center), self.knots, self.at_knots)

    def coefficients(self, curve: Curve) -> Floats:
        """Return those of the closest curve, up to a constant."""
        change = evaluate_curve(curve, self.knots) - self.knots
        functions = np.column_stack([self.at_knots, np.ones_like(change)])
        return np.linalg.lstsq(functions, change)[0][:-1]

    def curve(self, coef: Floats) -> Curve:
        values = self.knots + self.at_knots @ coef
        return self.knots, values, 1 + self.slopes @ coef

    def loss(self, coef: Floats) -> tuple[Any, Floats]:
        """Return the sum of the log losses, and the coefficients."""
        total: Any = 0.0
        for part in self.parts:
            likelihood = log_softmax(part.scores(coef))
            total -= part.weight @ likelihood[np.arange(len(likelihood)), part.codes]
        return total, coef

    def derivatives(self, coef: Floats) -> tuple[Floats, Floats]:
        """Return the gradient and the Hessian."""
        slope, curvature = np.zeros(len(coef)), np.zeros((len(coef),) * 2)
        for part in self.parts:
            w, functions = part.weight, part.functions
            proba = softmax(part.scores(coef))
            mean = np.matmul(proba[:, None], functions)[:, 0]
            slope += w @ (mean - functions[np.arange(len(w)), part.codes])
            # A difference of sums would not be positive if a weight is very large.
            flat = (functions - mean[:, None]).reshape(-1, len(coef))
            curvature += flat.T @ (flat * (w[:, None] * proba).reshape(-1, 1))
        return slope, curvature

    def functions(self, x: Floats) -> Floats:
        """Return the functions, which are linear beyond the knots."""
        inside = np.clip(x, self.knots[0], self.knots[-1])
        ends = np.where((x < inside)[..., None], self.slopes[0], self.slopes[-1])
        return self.spline(inside) + ends * (x - inside)[..., None]


class _Part(NamedTuple):
    """Logits, classes and weights of samples, and functions of the logits."""

    logits: Floats
    codes: Ints
    weight: Floats
    functions: Floats

    def scores(self, coef: Floats) -> Floats:
        return self.logits + self.functions @ coef
