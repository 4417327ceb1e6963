"""Multinomial maps with normal priors, whose precisions are estimated from the data.

The parameters of a group have independent normal priors around their centers, with the
same precision. The precisions maximise the marginal likelihood (in Laplace's
approximation), so the fit needs no other samples: groups that the data do not support
stay at their centers.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, TypeAlias

import numpy as np

from sklearn_calib._numerics.sample_blocks import Block, Blocks
from sklearn_calib._numerics.softmax import softmax
from sklearn_calib._solvers.newton import line_search
from sklearn_calib._validation.types import Floats, Ints
from sklearn_calib.calibrators._linear.multinomial_fit import (
    ROUGH,
    Kind,
    Objective,
    fit_multinomial,
    fit_without,
)
from sklearn_calib.calibrators._linear.multinomial_maps import FullMap

Term: TypeAlias = tuple[Floats, Floats, Ints]

# Smallest and largest precision. The smallest one prevents that separable classes make
# parameters infinite.
LEAST, LARGEST = 1.0, 1e8
# Initial precision of large full maps.
STRONG = 1e4
# Ratios of larger numbers do not overflow.
TINY = 1e-150

# Relative size of rounding errors of sums.
ROUNDING = 1e-12

# Searches end when no effective number of parameters changes by more than this part of
# the number plus one.
FEW = 0.01
# Largest numbers of steps of a fit, and of updates of the precisions in each of them.
MAX_STEPS, MAX_UPDATES = 20, 20
# Longest step of the logarithm of a precision.
LONGEST = 4.0


def fit_empirical_bayes(
    kind: Kind,
    data: Sequence[Blocks],
    *,
    center: Floats,
    group: Ints,
    precision: Any = None,
    start: Floats | None = None,
) -> tuple[list[Floats], Floats]:
    """Return the parameters with the largest posterior, and the precisions.

    Each step of Newton's method approximates the likelihood by that of a linear model,
    for which the precisions are estimated. The prior of an intercept is that of the
    score where the features have their mean, weighted by the information on the class.

    Parameters
    ----------
    kind : DiagonalMap or FullMap
        Kind of the map.

    data : sequence of Blocks
        Data sets with a map for each. The maps have the same priors. Each contains
        features and weights, see :func:`fit_multinomial`. The weights sum to one.

    center : ndarray, shape of the parameters
        Means of the priors, and initial values.

    group : ndarray of int, shape of the parameters
        Group of each parameter: 0, 1, ...

    precision : float or ndarray of shape (n_groups,), default=None
        Precision of all groups, or of each. It is not estimated then.

    start : ndarray, shape of the parameters, default=None
        Initial values that are close to the result, which is then less precise. They
        need a precision.

    Returns
    -------
    parameters : list of ndarray
        For each data set, parameters for the features as they are.

    precision : ndarray of shape (n_groups,)
        Precision of the prior of each group.
    """
    maps = [_Map(kind, samples, center) for samples in data]
    n_groups = int(group.max()) + 1
    if precision is None:
        precisions = _fit_precisions(kind, maps, group, n_groups)
    else:
        precisions = np.broadcast_to(precision, n_groups).astype(np.float64)
    return [fit.finish(precisions[group], start) for fit in maps], precisions


def fit_empirical_bayes_without(
    kind: Kind,
    parts: Sequence[Blocks],
    *,
    center: Floats,
    prior: Floats,
    fitted: Floats,
    scale_is_free: bool,
) -> Iterator[Floats]:
    """Yield the parameters of a map fitted without each part, see :func:`fit_without`.

    `prior` are the precisions of the parameters.
    """
    origin = _origin(kind, chain.from_iterable(parts), center)
    for parameters in fit_without(
        kind,
        [part.transform(lambda features: features - origin) for part in parts],
        ridge=prior / 2,
        center=_moved(kind, center, origin),
        fitted=_moved(kind, fitted, origin),
        scale_is_free=scale_is_free,
    ):
        yield _moved(kind, parameters, -origin)


def _fit_precisions(
    kind: Kind, maps: Sequence["_Map"], group: Ints, n_groups: int
) -> Floats:
    """Return the precisions after moving the parameters of the maps close to theirs."""
    is_exact = group.size <= kind.max_dense
    # The parts of a large full map do not contain the relations between its elements,
    # so that only their change in a step is reliable.
    is_close = is_exact or not isinstance(kind, FullMap)
    n_updates = MAX_UPDATES if is_close else 1
    precision: Floats = np.full(n_groups, LEAST if is_close else STRONG)
    used: Floats = np.zeros_like(precision)
    for _ in range(MAX_STEPS):
        # The terms of all maps have the same shapes.
        parts = zip(*(fit.terms(group, is_exact) for fit in maps), strict=True)
        terms = [_concatenate(same) for same in parts]
        previous = used
        precision, means, used = estimate_precisions(terms, precision, n_updates)
        for i, fit in enumerate(maps):
            fit.move(precision[group], means[0][i] if is_exact else None)
        if not _changes(used, previous):
            break
    return precision


class _Map:
    """The map of a data set, whose intercepts are the scores at the origin."""

    def __init__(self, kind: Kind, data: Blocks, center: Floats) -> None:
        origin = _origin(kind, data, center)
        self.origin = origin
        self.data = data.transform(lambda features: features - origin).kept()
        self.center = self.parameters = _moved(kind, center, origin)
        self.problem = Objective(kind, self.data, np.zeros_like(center), self.center)

    def terms(self, group: Ints, is_exact: bool) -> Sequence[Term]:
        """Return the terms of the linear model that approximates the likelihood."""
        kind, parameters = self.problem.kind, self.parameters
        distance = parameters - self.center
        self.problem.ridge = np.zeros_like(distance)
        slope = self.problem.evaluate(parameters)[1]
        if is_exact:
            every: Ints = np.arange(distance.size)[None]
            parts = [(every, self.problem.hessian(parameters)[None])]
        else:
            parts = kind.parts(self.problem.predictions(parameters))
        terms, n_samples = [], self.data.weight_sum
        for index, curvature in parts:
            target = _products(curvature, distance.flat[index]) - slope.flat[index]
            terms.append((n_samples * curvature, n_samples * target, group.flat[index]))
        return terms

    def move(self, precision: Floats, mean: Floats | None) -> None:
        """Move the parameters towards those with the largest posterior.

        `mean` is their distance from the center in the linear model, None if unknown.
        """
        problem, parameters = self.problem, self.parameters
        problem.ridge = precision / (2 * self.data.weight_sum)
        value, gradient = problem.evaluate(parameters)
        step: Floats
        if mean is None:
            step = problem.conjugate_gradients(parameters, gradient)
        else:
            step = mean.reshape(parameters.shape) - (parameters - self.center)
        gain = -float(np.vdot(gradient, step))
        length, *_ = line_search(problem.evaluate, parameters, step, value, gain)
        self.parameters = parameters + length * step

    def finish(self, precision: Floats, start: Floats | None) -> Floats:
        """Return the parameters with the largest posterior, for the features."""
        kind, tolerance = self.problem.kind, None
        if start is not None:
            self.parameters = _moved(kind, start, self.origin)
            tolerance = ROUGH
        parameters, _ = fit_multinomial(
            kind,
            self.data,
            ridge=precision / (2 * self.data.weight_sum),
            center=self.center,
            start=self.parameters,
            tolerance=tolerance,
        )
        return _moved(kind, parameters, -self.origin)


def _concatenate(terms: Sequence[Term]) -> Term:
    curvatures, targets, groups = zip(*terms, strict=True)
    return np.concatenate(curvatures), np.concatenate(targets), np.concatenate(groups)


def _origin(kind: Kind, data: Iterable[Block], center: Floats) -> Floats:
    """Return the mean of each feature, weighted by the information on its class.

    With this origin, intercepts hardly depend on slopes. At the mean over all samples,
    most classes have a probability close to zero.
    """
    sums: Any = 0.0
    for features, _, weight, *_ in data:
        proba = softmax(kind.scores(features, center))
        information = weight[:, None] * (proba * (1 - proba) + ROUNDING)
        information = np.tile(information, features.shape[1] // len(center))
        sums = sums + np.stack([(information * features).sum(0), information.sum(0)])
    return sums[0] / sums[1]


def _moved(kind: Kind, parameters: Floats, origin: Floats) -> Floats:
    """Return the parameters of the same map for features minus `origin`."""
    moved = parameters.copy()
    moved[:, -1] = kind.scores(origin[None], parameters)[0]
    return moved


def estimate_precisions(
    terms: Sequence[Term], precision: Floats, n_updates: int = MAX_UPDATES
) -> tuple[Floats, list[Floats], Floats]:
    """Estimate the precisions of the priors of a linear model.

    At the maximum of the marginal likelihood, a precision is the effective number of
    its coefficients divided by the sum of their squares [1]_. Newton's method solves
    this equation for each precision, with the others fixed.

    Parameters
    ----------
    terms : sequence of (curvature, target, group)
        Terms of the log-likelihood ``target @ x - x @ curvature @ x / 2`` of
        coefficients x: for n_blocks of the same size, arrays of shape (n_blocks, size,
        size), (n_blocks, size), and the group of each coefficient, (n_blocks, size).

    precision : ndarray of shape (n_groups,)
        Initial values.

    n_updates : int, default=20
        Largest number of updates of the precisions.

    Returns
    -------
    precision : ndarray of shape (n_groups,)
        The estimates. They are at least `LEAST`.

    means : list of ndarray of shape (n_blocks, size)
        For each term, the coefficients with the largest posterior.

    used : ndarray of shape (n_groups,)
        Effective number of coefficients of each group.

    References
    ----------
    .. [1] D. J. C. MacKay, "Bayesian Interpolation", Neural Computation 4, 1992,
       equation 4.8.
    """
    n_groups = len(precision)
    used: Floats = np.zeros(n_groups)
    for _ in range(n_updates):
        previous = used
        means, sums = [], []
        for curvature, target, group in terms:
            prior = precision[group]
            variance = _inverse(curvature, prior)
            mean = _products(variance, target)
            means.append(mean)
            shrunk = prior * np.diagonal(variance, axis1=1, axis2=2)
            # Their derivatives with respect to the logarithm of the precision.
            variance *= group[:, :, None] == group[:, None]
            less_used = shrunk - prior**2 * (variance**2).sum(axis=2)
            smaller = 2 * prior * mean * _products(variance, mean)
            values = np.maximum(1 - shrunk, 0), mean**2, less_used, smaller
            sums.append([np.bincount(group.flat, v.flat, n_groups) for v in values])
        used, squares, less_used, smaller = np.sum(sums, axis=0)
        if not _changes(used, previous):
            break
        # Newton's method for log(used / squares) - log(precision), in short steps.
        used_, squares = np.maximum(used, TINY), np.maximum(squares, TINY)
        excess = np.log(used_) - np.log(squares) - np.log(precision)
        steepness = 1 + less_used / used_ - smaller / squares
        step = np.clip(excess / np.maximum(steepness, 1 / LONGEST), -LONGEST, LONGEST)
        precision = np.clip(precision * np.exp(step), LEAST, LARGEST)
    return precision, means, used


def _inverse(curvature: Floats, prior: Floats) -> Floats:
    """Return the inverse of each block after adding to its diagonal."""
    diagonal = np.diagonal(curvature, axis1=1, axis2=2)
    # Otherwise, rounding errors may make it singular.
    sums = curvature + np.eye(prior.shape[1]) * (ROUNDING * diagonal + prior)[:, None]
    return 1 / sums if prior.shape[1] == 1 else np.linalg.inv(sums)


def _products(matrices: Floats, vectors: Floats) -> Floats:
    return np.matmul(matrices, vectors[:, :, None])[:, :, 0]


def _changes(used: Floats, previous: Floats) -> bool:
    return bool((np.abs(used - previous) > FEW * (1 + used)).any())


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
