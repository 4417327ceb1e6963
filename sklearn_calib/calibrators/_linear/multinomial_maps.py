"""Diagonal and full maps from features to class scores, linear in their parameters."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy.linalg import eigh

from sklearn_calib._expressions.symbol import Values
from sklearn_calib._solvers.newton import TINY
from sklearn_calib._validation.types import Floats, Ints

Preconditioner: TypeAlias = Callable[[Floats], Floats]

# Positions of parameters in the flattened array, (n_blocks, size), and the blocks of
# the Hessian of these, (n_blocks, size, size).
Part: TypeAlias = tuple[Ints, Floats]


class Prediction(NamedTuple):
    """Features, true classes, weights, probabilities and log-likelihoods of a block."""

    features: Floats
    codes: Ints
    weight: Floats
    proba: Floats
    log_likelihood: Floats


class DiagonalMap:
    """Map whose score of a class depends only on the inputs of this class."""

    # Up to this number of parameters, the Hessian is faster than products with it.
    max_dense = 100
    close_preconditioner = None

    def __init__(self, n_inputs: int = 1) -> None:
        self.n_inputs = n_inputs

    @property
    def coef_shape(self) -> tuple[int | str, ...]:
        return ("n_classes",) if self.n_inputs == 1 else ("n_classes", self.n_inputs)

    def identity(self, n_classes: int) -> Floats:
        return np.eye(1, self.n_inputs + 1).repeat(n_classes, axis=0)

    def groups(self, n_classes: int) -> Ints:
        """Return the group of each parameter: the slopes of an input, or intercepts."""
        return np.tile(np.arange(self.n_inputs + 1), (n_classes, 1))

    def mean_squares(self, features: Floats, weight: Floats) -> Floats:
        """Return the mean square of the inputs of each slope.

        With several inputs, it is the mean of the largest square over the classes, as
        that of a single class would be close to 0 if the class is unlikely.
        """
        if self.n_inputs == 1:
            return (weight @ features**2)[:, None]
        squares = features.reshape(len(features), self.n_inputs, -1) ** 2
        return weight @ squares.max(axis=2)

    @staticmethod
    def scores(features: Values, parameters: Floats) -> Values:
        *slopes, constant = parameters.T
        size = len(constant)
        scores = features[:, :size] * slopes[0] + constant
        for k, slope in enumerate(slopes[1:], 1):
            scores += features[:, k * size : (k + 1) * size] * slope
        return scores

    @staticmethod
    def gradient(features: Floats, residual: Floats) -> Floats:
        inputs = _inputs(features, residual)
        slopes = [np.einsum("ij,ij->j", residual, values) for values in inputs]
        return np.array([*slopes, residual.sum(axis=0)]).T

    @staticmethod
    def outer(features: Floats, class_weight: Floats) -> Floats:
        """Return a row for each sample: the weight of each class times its inputs."""
        products = [class_weight * values for values in _inputs(features, class_weight)]
        return np.stack([*products, class_weight], axis=2).reshape(len(features), -1)

    @staticmethod
    def curvature(features: Floats, class_weight: Floats) -> Floats:
        """Return the second moments of the inputs and 1, for each class."""
        inputs = _inputs(features, class_weight)
        products = [*(class_weight * values for values in inputs), class_weight]
        square = np.empty((class_weight.shape[1], *[len(products)] * 2))
        for k, product in enumerate(products):
            square[:, k, -1] = square[:, -1, k] = product.sum(axis=0)
            for j, values in enumerate(inputs[: k + 1]):
                square[:, k, j] = np.einsum("ij,ij->j", product, values)
                square[:, j, k] = square[:, k, j]
        return square

    @classmethod
    def preconditioner(
        cls, predictions: Iterable[Prediction], ridge: Floats
    ) -> Preconditioner:
        """Return a function that solves with the diagonal block of each class."""
        blocks = cls.blocks(predictions)
        blocks += np.eye(ridge.shape[1]) * (2 * ridge + TINY)[:, None]
        return _block_solver(blocks)

    @classmethod
    def blocks(cls, predictions: Iterable[Prediction]) -> Floats:
        """Return the diagonal block of the Hessian of each class."""
        blocks: Any = 0.0
        for features, _, weight, proba, _ in predictions:
            class_weight = proba * (1 - proba) * weight[:, None]
            blocks = blocks + cls.curvature(features, class_weight)
        return blocks

    @classmethod
    def parts(cls, predictions: Iterable[Prediction]) -> list[Part]:
        """Return an approximation of the Hessian: the diagonal block of each class."""
        blocks = cls.blocks(predictions)
        return [(np.arange(blocks[:, 0].size).reshape(blocks.shape[:2]), blocks)]


class FullMap:
    """Map whose scores depend on the features of all classes."""

    max_dense = 600
    coef_shape = ("n_classes", "n_classes")
    # At this size, arrays take 200 MB, and the eigenvalues of a step take minutes.
    max_classes = 5000

    @classmethod
    def identity(cls, n_classes: int) -> Floats:
        if n_classes > cls.max_classes:
            raise ValueError(
                f"X must have at most {cls.max_classes} classes for a full matrix, got "
                f"{n_classes}. Use VectorScaling or StructuredVectorScaling."
            )
        return np.eye(n_classes, n_classes + 1)

    @staticmethod
    def groups(n_classes: int) -> Ints:
        """Return 0 for parameters off the diagonal, 1 on it, and 2 for intercepts."""
        groups = np.eye(n_classes, n_classes + 1, dtype=np.int64)
        groups[:, -1] = 2
        return groups

    @staticmethod
    def scores(features: Values, parameters: Floats) -> Values:
        return features @ parameters[:, :-1].T + parameters[:, -1]

    @staticmethod
    def gradient(features: Floats, residual: Floats) -> Floats:
        return np.column_stack([residual.T @ features, residual.sum(axis=0)])

    @staticmethod
    def outer(features: Floats, class_weight: Floats) -> Floats:
        """Return a row for each sample: the weight of each class times its inputs."""
        product = class_weight[:, :, None] * _with_one(features)[:, None]
        return product.reshape(len(features), -1)

    @staticmethod
    def mean_squares(features: Floats, weight: Floats) -> Floats:
        """Return the mean square of each feature, (n_classes,)."""
        return weight @ features**2

    @staticmethod
    def curvature(features: Floats, class_weight: Floats) -> Floats:
        """Return the second moments of the inputs and 1, for each class."""
        extended = _with_one(features)
        square = FullMap.outer(features, class_weight).T @ extended
        return square.reshape(class_weight.shape[1], *[extended.shape[1]] * 2)

    @staticmethod
    def preconditioner(
        predictions: Iterable[Prediction], ridge: Floats
    ) -> Preconditioner:
        """Return a function that solves with a Kronecker product of two matrices.

        They are the mean over the samples of diag(p) - p p', and the second moments of
        the features, weighted by the uncertainty of the sample. The diagonal element
        and the intercept of each class usually have other penalties, and are solved for
        separately.
        """
        n_classes, n_inputs = ridge.shape
        classes, moments = np.zeros((n_classes,) * 2), np.zeros((n_inputs,) * 2)
        total = 0.0
        for features, _, weight, p, _ in predictions:
            classes += np.diag(weight @ p) - p.T @ (p * weight[:, None])
            uncertainty = weight * (1 - np.einsum("ij,ij->i", p, p)) + TINY * weight
            extended = _with_one(features)
            moments += (extended * uncertainty[:, None]).T @ extended
            total += uncertainty.sum()
        scale, left = eigh(classes, driver="evd")
        size, right = eigh(moments / total, driver="evd")
        scale, size = np.maximum(scale, TINY), np.maximum(size, TINY)
        divisor = scale[:, None] * size + 2 * np.median(ridge)
        index = _diagonal_index(n_classes)
        solve_diagonal = DiagonalMap.preconditioner(predictions, ridge.flat[index])

        def solve(gradient: Floats) -> Floats:
            others = gradient.copy()
            others.flat[index] = 0
            solution = left @ ((left.T @ others @ right) / divisor) @ right.T
            solution.flat[index] = solve_diagonal(gradient.flat[index])
            return solution

        return solve

    @staticmethod
    def parts(predictions: Iterable[Prediction]) -> list[Part]:
        """Return an approximation of the Hessian.

        It consists of a block for the diagonal element and the intercept of each class,
        and the curvatures of all other elements.
        """
        curvature: Any = 0.0
        for features, _, weight, p, _ in predictions:
            curvature = curvature + (p * (1 - p) * weight[:, None]).T @ features**2
        n_classes = len(curvature)
        row, column = np.nonzero(~np.eye(n_classes, dtype=bool))
        others = (row * (n_classes + 1) + column)[:, None]
        return [
            (_diagonal_index(n_classes), DiagonalMap.blocks(predictions)),
            (others, curvature[row, column][:, None, None]),
        ]

    @staticmethod
    def close_preconditioner(
        predictions: Iterable[Prediction], ridge: Floats
    ) -> Preconditioner:
        """Return a function that solves with the diagonal block of each class.

        It takes much longer to compute, but is much closer if some samples are
        uncertain between other classes than the rest.
        """
        largest = np.max([_roots(p).max(axis=0) for p in predictions], axis=0)
        blocks = np.zeros((*ridge.shape, ridge.shape[1]))
        for prediction in predictions:
            extended = _with_one(prediction.features).astype(np.float32)
            for root, least, block in zip(
                _roots(prediction).T, 0.01 * largest, blocks, strict=True
            ):
                matters = root > least
                inputs = extended[matters] * root[matters, None].astype(np.float32)
                block += inputs.T @ inputs
        for block, class_ridge in zip(blocks, ridge, strict=True):
            rounding = 1e-7 * np.trace(block) / len(block)
            block.flat[:: len(block) + 1] += 2 * class_ridge + rounding + TINY
        return _block_solver(blocks)


def _diagonal_index(n_classes: int) -> Ints:
    """Return the positions of the diagonal element and the intercept of each class."""
    first = np.arange(n_classes) * (n_classes + 1)
    return np.stack([first + np.arange(n_classes), first + n_classes], axis=1)


def _roots(prediction: Prediction) -> Floats:
    """Return the square root of each class's curvature, (n_rows, n_classes)."""
    _, _, weight, proba, _ = prediction
    return np.sqrt(weight[:, None] * proba * (1 - proba))


def _inputs(features: Floats, class_weight: Floats) -> list[Floats]:
    """Return the parts of the features, each with one input for each class."""
    size = class_weight.shape[1]
    return [features[:, k : k + size] for k in range(0, features.shape[1], size)]


def _block_solver(blocks: Floats) -> Preconditioner:
    inverse = np.linalg.inv(blocks)
    return lambda gradient: np.matmul(inverse, gradient[:, :, None])[:, :, 0]


def _with_one(features: Floats) -> Floats:
    return np.column_stack([features, np.ones(len(features), features.dtype)])
