"""Softmax of an affine map of features, one for each class: Newton's method.

The scores of the classes are ``features * slope + intercept`` (a diagonal map, with
parameters of shape (n_classes, 2), or one more for a second feature of each class) or
``features @ weight.T + intercept`` (a full one, (n_classes, n_classes + 1)); the
intercept is the last column. What is minimised is the
mean negative log-likelihood plus ``(ridge * (parameters - center) ** 2).sum()``, which
is convex.
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

# Newton's decrement squared, about twice what the objective is above its minimum, at
# which the last step is taken, and where convergence should have become quadratic.
TOLERANCE = 1e-12
LOOSE_TOLERANCE = 3e-5
NEAR = 1e-4
MAX_NEAR = 8

# Steps in all. Ordinary fits take 5 to 30.
MAX_STEPS = 200

# How often what is added to the diagonal of a Hessian is multiplied by 100.
MAX_JITTERS = 20

# The last step of a fit that has converged moves no score by more than this.
MAX_MOVE = 0.5

# Products with the Hessian in a step after which a closer preconditioner is worth it,
# at most in all, and the largest preconditioner that is formed, in numbers.
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
    """Return the parameters of a map with the smallest penalised mean NLL.

    Parameters
    ----------
    kind : {DiagonalMap, PairMap, FullMap}
        What the parameters are.

    features : ndarray of shape (n_samples, n_classes), of a `PairMap` twice as wide
        float64.

    codes : ndarray of shape (n_samples,)
        The column of the true class.

    weight : ndarray of shape (n_samples,)
        Non-negative weights that sum to one.

    ridge, center, start : ndarray, shape of the parameters
        How strongly each parameter is pulled, to where, and where to begin.

    Returns
    -------
    parameters : ndarray
        No worse than `start`.

    has_converged : bool
        False if Newton's steps do not get shorter, or without a ridge all classes are
        told apart: then the likelihood has no largest value.
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
            # The last of loose steps may move the scores of few samples.
            may_move = ridge.any() and not is_dense
            has_converged = decrement < tolerance and not problem.separates(proba)
            return parameters, has_converged and (may_move or not problem.moves(step))
        n_near += decrement < NEAR
        if n_near == MAX_NEAR:
            break
    return parameters, False


def _solve(hessian: Floats, gradient: Floats) -> Floats:
    """Solve, with a little added to the diagonal.

    For directions that change no probability, such as the same added to all scores, and
    for rounding, where probabilities are so close to 0 and 1 that curvatures vanish.
    """
    # Rounding can make curvatures negative, and their sum too.
    positive = np.maximum(hessian.diagonal(), 0)
    jitter = 1e-9 * positive.sum() / len(hessian) + TINY**2
    for _ in range(MAX_JITTERS):
        hessian.flat[:: len(hessian) + 1] += jitter
        try:
            factor = cho_factor(hessian, check_finite=False)
            return cho_solve(factor, gradient, check_finite=False)
        except np.linalg.LinAlgError:
            jitter *= 100
    return gradient / jitter  # beside which all else is nothing by now


class _Problem:
    """The objective with its derivatives, in blocks of rows that stay in cache."""

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
        """Return the objective, its gradient, and the probabilities."""
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
        """Return how far to go along a step, and what is there."""
        length = 1.0
        while length > 1e-6:
            result = self.evaluate(parameters + length * step)
            # Rounding hides differences below 1e-14 of the objective.
            if result[0] <= value * (1 + 1e-14) - 1e-4 * length * decrement:
                return length, result
            length /= 2
        return 0.0, None

    def separates(self, proba: Floats) -> bool:
        """Return whether larger parameters of the same map were better still."""
        if self.ridge.any():
            return False
        true = proba[np.arange(len(proba)), self.codes]
        return true[self.weight > 0].min() > 0.5

    def moves(self, step: Floats) -> bool:
        """Return whether a step changes a score, as where classes are being separated.

        Then the likelihood gains ever less by steps that stay the same.
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
            features, share = self.features[rows], proba[rows]
            root = np.sqrt(self.weight[rows])[:, None]
            outer = self.kind.outer(features, share * root)
            hessian -= outer.T @ outer
            blocks = blocks + self.kind.curvature(features, share * root**2)
        for k, block in enumerate(blocks):
            own = slice(k * shape[1], (k + 1) * shape[1])
            hessian[own, own] += block
        return -_solve(hessian, gradient.ravel()).reshape(shape)

    def conjugate_gradients(self, gradient: Floats, proba: Floats) -> Floats:
        """Return about the same, from products with the Hessian in single precision."""
        precondition = self._preconditioner(proba)
        features, share = (a.astype(np.float32) for a in (self.features, proba))
        step, residual = np.zeros_like(gradient), -gradient
        scaled = precondition(residual)
        direction, norm = scaled, (residual * scaled).sum()
        goal = norm * min(0.1, norm**0.5)
        for self.n_products in range(1, MAX_PRODUCTS + 1):
            product = self._multiply(features, share, direction)
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
        """Return the quick one, or once that has been too far off, the close one."""
        known = self.features, proba, self.weight, self.ridge
        form = self.kind.close_preconditioner
        is_small = self.ridge.size * self.ridge.shape[1] <= MAX_BLOCKS
        if form and self.n_products > MANY_PRODUCTS and is_small:
            self.close_solver = form(*known)
        return self.close_solver or self.kind.preconditioner(*known)

    def _multiply(self, features: Floats, share: Floats, direction: Floats) -> Floats:
        """Return the product of the Hessian with a direction."""
        product = 2 * self.ridge * direction
        direction = direction.astype(np.float32)
        for rows in row_blocks(*share.shape):
            change = self.kind.scores(features[rows], direction)
            change -= np.einsum("ij,ij->i", share[rows], change)[:, None]
            change *= share[rows]
            change *= self.weight[rows, None].astype(np.float32)
            product += self.kind.gradient(features[rows], change)
        return product
