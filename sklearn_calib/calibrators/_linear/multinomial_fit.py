"""Multinomial logistic regression on the scores of the classes, by Newton's method.

The scores are ``features * slope + intercept`` for a diagonal map, with parameters of
shape (n_classes, 2), or (n_classes, 3) for two features of each class. They are
``features @ weight.T + intercept`` for a full map, with parameters of shape
(n_classes, n_classes + 1). The intercept is the last column.

The objective is the mean negative log-likelihood plus
``(ridge * (parameters - center) ** 2).sum()``, which is convex.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from sklearn_calib._numerics.sample_blocks import Block, Blocks, Restartable
from sklearn_calib._numerics.softmax import row_max
from sklearn_calib._solvers.newton import (
    TINY,
    line_search,
    newton_steps,
    solve_jittered,
)
from sklearn_calib._validation.arrays import row_blocks
from sklearn_calib._validation.types import Floats
from sklearn_calib.calibrators._linear.multinomial_maps import (
    DiagonalMap,
    FullMap,
    Preconditioner,
    Prediction,
)

Kind: TypeAlias = DiagonalMap | FullMap

# Thresholds for the squared Newton decrement, which is about twice the distance of the
# objective to its minimum. Fits end at TOLERANCE, or at LOOSE_TOLERANCE with the
# iterative solver. Below NEAR, convergence should be quadratic, in MAX_NEAR steps.
TOLERANCE = 1e-12
# For fits that only compare maps: the last step changes the objective by much less.
ROUGH = 1e-3
LOOSE_TOLERANCE = 3e-5
NEAR = 1e-4
MAX_NEAR = 8

# The last step of a converged fit changes no score by more than this.
MAX_MOVE = 0.5

# After MANY_PRODUCTS products with the Hessian in a step, a closer preconditioner saves
# time. A step has at most MAX_PRODUCTS, a preconditioner at most MAX_BLOCKS numbers.
MANY_PRODUCTS = 15
MAX_PRODUCTS = 100
MAX_BLOCKS = 20_000_000


def fit_multinomial(
    kind: Kind,
    data: Blocks,
    *,
    ridge: Floats,
    center: Floats,
    start: Floats,
    tolerance: float | None = None,
) -> tuple[Floats, bool]:
    """Return the parameters of a map that minimise the penalised mean NLL.

    Parameters
    ----------
    kind : DiagonalMap or FullMap
        Kind of the map.

    data : Blocks
        Features in float64, of shape (n_rows, n_classes) or, for a map with several
        inputs, (n_rows, n_inputs * n_classes), and weights that sum to one. They are
        read once for each evaluation of the objective, and for each product with the
        Hessian.

    ridge, center, start : ndarray, shape of the parameters
        Strength and center of the penalty of each parameter, and initial values.

    tolerance : float, default=None
        The fit ends when the squared Newton decrement is below it. By default, the
        result has full precision.

    Returns
    -------
    parameters : ndarray
        Parameters whose objective is not above that of `start`.

    has_converged : bool
        Whether Newton's method converges. It is False for separable classes without a
        ridge penalty, where the likelihood does not have a maximum.
    """
    problem = Objective(kind, data, ridge, center)
    is_dense = start.size <= kind.max_dense
    find_step = problem.newton_step if is_dense else problem.conjugate_gradients
    tolerance = tolerance or (TOLERANCE if is_dense else LOOSE_TOLERANCE)

    def solve(parameters: Floats, gradient: Floats) -> tuple[Floats, Floats]:
        return find_step(parameters, gradient), gradient

    n_near = 0
    for at in newton_steps(problem.evaluate, solve, start):
        n_near += at.gain < NEAR
        if at.gain < tolerance or n_near == MAX_NEAR:
            break
    has_converged = at.gain < tolerance and not problem.separates(at.point)
    # A last step of the iterative solver may change the scores of few samples.
    if is_dense or not ridge.any():
        has_converged = has_converged and not problem.moves(at.step)
    length, *_ = line_search(problem.evaluate, at.point, at.step, at.value, at.gain)
    return at.point + length * at.step, has_converged


def fit_without(
    kind: Kind,
    parts: Sequence[Blocks],
    *,
    ridge: Floats,
    center: Floats,
    fitted: Floats,
    scale_is_free: bool,
) -> Iterator[Floats]:
    """Yield the parameters of a map fitted without each part of the samples.

    They are those after a step of Newton's method from `fitted`, the minimum for all
    parts. The objective is the sum of the log losses plus the penalty, instead of the
    mean. With `scale_is_free`, the step may multiply the center by a number without
    penalty, as another temperature would.
    """
    none = np.zeros_like(ridge)
    problems = [Objective(kind, part, none, center) for part in parts]
    slopes = [each.evaluate(fitted)[1] for each in problems]
    curvatures = [each.hessian(fitted) for each in problems]
    slope = sum(slopes) + 2 * ridge * (fitted - center)
    penalty = np.diag(2 * ridge.ravel())
    if scale_is_free:
        pull = penalty @ center.ravel()
        size: Any = pull @ center.ravel()
        penalty -= np.outer(pull, pull / max(size, TINY))
    curvature = sum(curvatures) + penalty
    for own_slope, own_curvature in zip(slopes, curvatures, strict=True):
        gradient = (slope - own_slope).ravel()
        step = solve_jittered(curvature - own_curvature, gradient)
        yield fitted - step.reshape(fitted.shape)


class Objective:
    """The objective and its derivatives, computed in blocks of rows."""

    def __init__(self, kind: Kind, data: Blocks, ridge: Floats, center: Floats) -> None:
        self.kind, self.data = kind, data
        self.ridge, self.center = ridge, center
        self.n_products = 0
        self.close_solver: Preconditioner | None = None
        self._last: tuple[Any, Iterable[Prediction]] = (None, [])

    def predictions(self, parameters: Floats) -> Iterable[Prediction]:
        """Return each block with its probabilities and log-likelihoods.

        The gradient and then the Hessian are computed from the same ones.
        """
        if not self.data.are_small:
            return Restartable(lambda: self._predict(parameters))
        if not np.array_equal(self._last[0], parameters):
            self._last = parameters, list(self._predict(parameters))
        return self._last[1]

    def _predict(self, parameters: Floats) -> Iterator[Prediction]:
        """Yield the predictions."""
        for features, codes, weight in self.data:
            scores = self.kind.scores(features, parameters)
            scores -= row_max(scores)
            true = scores[np.arange(len(codes)), codes]
            np.exp(scores, out=scores)
            total = scores.sum(axis=1)
            scores /= total[:, None]
            yield Prediction(features, codes, weight, scores, true - np.log(total))

    def evaluate(self, parameters: Floats) -> tuple[Any, Floats]:
        """Return the objective and its gradient."""
        distance = parameters - self.center
        value = (self.ridge * distance**2).sum()
        gradient = 2 * self.ridge * distance
        for features, codes, weight, proba, true in self.predictions(parameters):
            value -= weight @ true
            residual = proba * weight[:, None]
            residual[np.arange(len(codes)), codes] -= weight
            gradient += self.kind.gradient(features, residual)
        return value, gradient

    def separates(self, parameters: Floats) -> bool:
        """Return whether the map separates the classes, without a ridge."""
        if self.ridge.any():
            return False
        return all(
            (proba[np.arange(len(codes)), codes][weight > 0] > 0.5).all()
            for _, codes, weight, proba, _ in self.predictions(parameters)
        )

    def moves(self, step: Floats) -> bool:
        """Return whether a step changes a score by more than `MAX_MOVE`.

        This happens if the classes are separable: the likelihood increases less and
        less, by steps that do not get smaller.
        """
        return any(
            np.ptp(self.kind.scores(block.logits, step), axis=1).max() > MAX_MOVE
            for block in self.data
        )

    def newton_step(self, parameters: Floats, gradient: Floats) -> Floats:
        """Return minus the inverse Hessian times the gradient."""
        hessian = self.hessian(parameters)
        hessian.flat[:: len(hessian) + 1] += 2 * self.ridge.ravel()
        return -solve_jittered(hessian, gradient.ravel()).reshape(gradient.shape)

    def hessian(self, parameters: Floats) -> Floats:
        """Return the Hessian of the mean NLL, without the penalty."""
        shape, size = parameters.shape, parameters.size
        hessian = np.zeros((size, size))
        blocks: Any = 0.0
        for features, _, weight, proba, _ in self.predictions(parameters):
            for rows in row_blocks(len(proba), size):
                few, p = features[rows], proba[rows]
                root = np.sqrt(weight[rows])[:, None]
                outer = self.kind.outer(few, p * root)
                hessian -= outer.T @ outer
                blocks = blocks + self.kind.curvature(few, p * root**2)
        for k, block in enumerate(blocks):
            own = slice(k * shape[1], (k + 1) * shape[1])
            hessian[own, own] += block
        return hessian

    def conjugate_gradients(self, parameters: Floats, gradient: Floats) -> Floats:
        """Return an approximate Newton step, from Hessian products in float32."""
        precondition = self._preconditioner(parameters)
        known = self.curved(parameters)
        step, residual = np.zeros_like(gradient), -gradient
        scaled = precondition(residual)
        direction, norm = scaled, (residual * scaled).sum()
        goal = norm * min(0.1, norm**0.5)
        for self.n_products in range(1, MAX_PRODUCTS + 1):
            product = self._multiply(known, direction)
            length = norm / (direction * product).sum()
            step = step + length * direction
            residual = residual - length * product
            scaled = precondition(residual)
            norm, last = (residual * scaled).sum(), norm
            if norm <= goal:
                break
            direction = scaled + norm / last * direction
        return step

    def curved(self, parameters: Floats) -> Blocks:
        """Return features, probabilities and weights in float32."""

        def read() -> Iterator[Block]:
            for features, _, weight, proba, _ in self.predictions(parameters):
                yield Block(*(a.astype(np.float32) for a in (features, proba, weight)))

        return Blocks(read, self.data.sizes, self.data.counts).kept()

    def _preconditioner(self, parameters: Floats) -> Preconditioner:
        """Return the fast preconditioner, or the close one after many products."""
        form = self.kind.close_preconditioner
        is_small = self.ridge.size * self.ridge.shape[1] <= MAX_BLOCKS
        if form and self.n_products > MANY_PRODUCTS and is_small:
            self.close_solver = form(self.predictions(parameters), self.ridge)
        if self.close_solver:
            return self.close_solver
        return self.kind.preconditioner(self.predictions(parameters), self.ridge)

    def _multiply(self, known: Blocks, direction: Floats) -> Floats:
        """Return the product of the Hessian with a direction."""
        product = 2 * self.ridge * direction
        direction = direction.astype(np.float32)
        for features, p, weight in known:
            change = self.kind.scores(features, direction)
            change -= np.einsum("ij,ij->i", p, change)[:, None]
            change *= p
            change *= weight[:, None]
            product += self.kind.gradient(features, change)
        return product
