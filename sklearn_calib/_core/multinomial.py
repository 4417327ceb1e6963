"""Multinomial logistic regression on the scores of the classes, by Newton's method.

The scores are ``features * slope + intercept`` for a diagonal map, with parameters of
shape (n_classes, 2), or (n_classes, 3) for two features of each class. They are
``features @ weight.T + intercept`` for a full map, with parameters of shape
(n_classes, n_classes + 1). The intercept is the last column.

The objective is the mean negative log-likelihood plus
``(ridge * (parameters - center) ** 2).sum()``, which is convex.
"""

from typing import Any, TypeAlias

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from sklearn_calib._core.multinomial_maps import (
    TINY,
    DiagonalMap,
    FullMap,
    Preconditioner,
)
from sklearn_calib._core.typing import Floats, Ints
from sklearn_calib._core.validation import row_blocks

Kind: TypeAlias = type[DiagonalMap | FullMap]

# Thresholds for the squared Newton decrement, which is about twice the distance of the
# objective to its minimum. Fits end at TOLERANCE, or at LOOSE_TOLERANCE with the
# iterative solver. Below NEAR, convergence should be quadratic, in MAX_NEAR steps.
TOLERANCE = 1e-12
LOOSE_TOLERANCE = 3e-5
NEAR = 1e-4
MAX_NEAR = 8

# Maximum number of steps. Usual fits take 5 to 30.
MAX_STEPS = 200

# How often the term added to the diagonal of a Hessian is multiplied by 100.
MAX_JITTERS = 20

# The last step of a converged fit changes no score by more than this.
MAX_MOVE = 0.5

# After MANY_PRODUCTS products with the Hessian in a step, a closer preconditioner saves
# time. A step has at most MAX_PRODUCTS, a preconditioner at most MAX_BLOCKS numbers.
MANY_PRODUCTS = 15
MAX_PRODUCTS = 100
MAX_BLOCKS = 20_000_000


def fit_multinomial(
    kind: Kind,
    features: Floats,
    codes: Ints,
    weight: Floats,
    *,
    ridge: Floats,
    center: Floats,
    start: Floats,
) -> tuple[Floats, bool]:
    """Return the parameters of a map that minimise the penalised mean NLL.

    Parameters
    ----------
    kind : {DiagonalMap, PairMap, FullMap}
        Class of the map.

    features : ndarray of shape (n_samples, n_classes) or (n_samples, 2 * n_classes)
        Features in float64; a `PairMap` has two for each class.

    codes : ndarray of shape (n_samples,)
        Column index of the true class.

    weight : ndarray of shape (n_samples,)
        Non-negative weights that sum to one.

    ridge, center, start : ndarray, shape of the parameters
        Strength and center of the penalty of each parameter, and initial values.

    Returns
    -------
    parameters : ndarray
        Parameters whose objective is not above that of `start`.

    has_converged : bool
        Whether Newton's method converges. It is False for separable classes without a
        ridge penalty, where the likelihood does not have a maximum.
    """
    problem = _Problem(kind, features, codes, weight, ridge, center)
    is_dense = start.size <= kind.max_dense
    solve = problem.newton_step if is_dense else problem.conjugate_gradients
    tolerance = TOLERANCE if is_dense else LOOSE_TOLERANCE
    parameters, n_near = start, 0
    current = problem.evaluate(parameters)
    for _ in range(MAX_STEPS):
        value, gradient, proba = current
        step = solve(gradient, proba)
        decrement = -(gradient * step).sum()
        length, current = problem.search(parameters, step, value, decrement)
        parameters = parameters + length * step
        if decrement < tolerance or length == 0:
            # A last step of the iterative solver may change the scores of few samples.
            may_move = ridge.any() and not is_dense
            has_converged = decrement < tolerance and not problem.separates(proba)
            return parameters, has_converged and (may_move or not problem.moves(step))
        n_near += decrement < NEAR
        if n_near == MAX_NEAR:
            break
    return parameters, False


def _solve(hessian: Floats, gradient: Floats) -> Floats:
    """Solve a linear system after adding a small term to the diagonal.

    The term is needed for directions that do not change the probabilities, such as a
    constant added to all scores, and for rounding errors where probabilities are so
    close to 0 and 1 that curvatures vanish.
    """
    # Rounding errors can make curvatures and their sum negative.
    positive = np.maximum(hessian.diagonal(), 0)
    jitter = 1e-9 * positive.sum() / len(hessian) + TINY**2
    for _ in range(MAX_JITTERS):
        hessian.flat[:: len(hessian) + 1] += jitter
        try:
            factor = cho_factor(hessian, check_finite=False)
            return cho_solve(factor, gradient, check_finite=False)
        except np.linalg.LinAlgError:
            jitter *= 100
    return gradient / jitter  # the jitter now dominates the Hessian


class _Problem:
    """The objective and its derivatives, computed in blocks of rows."""

    def __init__(
        self,
        kind: Kind,
        features: Floats,
        codes: Ints,
        weight: Floats,
        ridge: Floats,
        center: Floats,
    ) -> None:
        self.kind, self.features, self.codes = kind, features, codes
        self.weight, self.ridge, self.center = weight, ridge, center
        self.n_products = 0
        self.close_solver: Preconditioner | None = None

    def evaluate(self, parameters: Floats) -> tuple[Any, Floats, Floats]:
        """Return the objective, its gradient and the probabilities."""
        proba = np.empty((len(self.features), len(parameters)))
        distance = parameters - self.center
        value = (self.ridge * distance**2).sum()
        gradient = 2 * self.ridge * distance
        for rows in row_blocks(*proba.shape):
            features, weight = self.features[rows], self.weight[rows]
            index = np.arange(len(features)), self.codes[rows]
            scores = self.kind.scores(features, parameters)
            scores -= scores.max(axis=1, keepdims=True)
            true = scores[index]
            np.exp(scores, out=scores)
            total = scores.sum(axis=1)
            value += weight @ (np.log(total) - true)
            scores /= total[:, None]
            proba[rows] = scores
            scores[index] -= 1
            scores *= weight[:, None]
            gradient += self.kind.gradient(features, scores)
        return value, gradient, proba

    def search(
        self, parameters: Floats, step: Floats, value: float, decrement: float
    ) -> tuple[float, Any]:
        """Return the step length of a line search, and the evaluation at its end."""
        length = 1.0
        while length > 1e-6:
            result = self.evaluate(parameters + length * step)
            # Relative differences below 1e-14 are rounding errors.
            if result[0] <= value * (1 + 1e-14) - 1e-4 * length * decrement:
                return length, result
            length /= 2
        return 0.0, None

    def separates(self, proba: Floats) -> bool:
        """Return whether the map separates the classes, without a ridge."""
        if self.ridge.any():
            return False
        true = proba[np.arange(len(proba)), self.codes]
        return true[self.weight > 0].min() > 0.5

    def moves(self, step: Floats) -> bool:
        """Return whether a step changes a score by more than `MAX_MOVE`.

        This happens if the classes are separable: the likelihood increases less and
        less, by steps that do not get smaller.
        """
        return any(
            np.ptp(self.kind.scores(self.features[rows], step), axis=1).max() > MAX_MOVE
            for rows in row_blocks(*self.features.shape)
        )

    def newton_step(self, gradient: Floats, proba: Floats) -> Floats:
        """Return minus the inverse Hessian times the gradient."""
        shape, size = gradient.shape, gradient.size
        hessian = np.diag(2 * self.ridge.ravel())
        blocks: Any = 0.0
        for rows in row_blocks(len(proba), size):
            features, p = self.features[rows], proba[rows]
            root = np.sqrt(self.weight[rows])[:, None]
            outer = self.kind.outer(features, p * root)
            hessian -= outer.T @ outer
            blocks = blocks + self.kind.curvature(features, p * root**2)
        for k, block in enumerate(blocks):
            own = slice(k * shape[1], (k + 1) * shape[1])
            hessian[own, own] += block
        return -_solve(hessian, gradient.ravel()).reshape(shape)

    def conjugate_gradients(self, gradient: Floats, proba: Floats) -> Floats:
        """Return an approximate Newton step, from Hessian products in float32."""
        precondition = self._preconditioner(proba)
        features, p = (a.astype(np.float32) for a in (self.features, proba))
        step, residual = np.zeros_like(gradient), -gradient
        scaled = precondition(residual)
        direction, norm = scaled, (residual * scaled).sum()
        goal = norm * min(0.1, norm**0.5)
        for self.n_products in range(1, MAX_PRODUCTS + 1):
            product = self._multiply(features, p, direction)
            length = norm / (direction * product).sum()
            step = step + length * direction
            residual = residual - length * product
            scaled = precondition(residual)
            norm, last = (residual * scaled).sum(), norm
            if norm <= goal:
                break
            direction = scaled + norm / last * direction
        return step

    def _preconditioner(self, proba: Floats) -> Preconditioner:
        """Return the fast preconditioner, or the close one after many products."""
        known = self.features, proba, self.weight, self.ridge
        form = self.kind.close_preconditioner
        is_small = self.ridge.size * self.ridge.shape[1] <= MAX_BLOCKS
        if form and self.n_products > MANY_PRODUCTS and is_small:
            self.close_solver = form(*known)
        return self.close_solver or self.kind.preconditioner(*known)

    def _multiply(self, features: Floats, p: Floats, direction: Floats) -> Floats:
        """Return the product of the Hessian with a direction."""
        product = 2 * self.ridge * direction
        direction = direction.astype(np.float32)
        for rows in row_blocks(*p.shape):
            change = self.kind.scores(features[rows], direction)
            change -= np.einsum("ij,ij->i", p[rows], change)[:, None]
            change *= p[rows]
            change *= self.weight[rows, None].astype(np.float32)
            product += self.kind.gradient(features[rows], change)
        return product
