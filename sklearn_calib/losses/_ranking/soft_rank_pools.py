"""Projection onto the permutahedron, with NumPy and SciPy."""

import math

import numpy as np
import torch
from scipy.optimize import isotonic_regression
from torch import Tensor

# Replaces a weight of zero. It does not change any mean, and its square does not
# underflow.
TINY = 1e-150


class Pools:
    """Pools of sorted values, with the rows concatenated."""

    def __init__(
        self,
        order: np.ndarray,
        blocks: np.ndarray,
        weight: np.ndarray | None,
        epsilon: float,
    ) -> None:
        self.order, self.weight, self.epsilon = order, weight, epsilon
        self.starts, self.counts = blocks[:-1], blocks[1:] - blocks[:-1]
        self.totals = self.counts if weight is None else self._sums(weight)

    def _sums(self, array: np.ndarray) -> np.ndarray:
        return np.add.reduceat(array, self.starts)

    def repeat(self, per_pool: np.ndarray) -> np.ndarray:
        """Return for each value the entry of its pool."""
        return per_pool.repeat(self.counts)

    def mean(self, array: np.ndarray) -> np.ndarray:
        """Return for each value the weighted mean of its pool."""
        array = array if self.weight is None else self.weight * array
        return self.repeat(self._sums(array) / self.totals)

    def multiply(self, grad: np.ndarray, transposed: bool) -> np.ndarray:
        """Return the product of the transposed Jacobian, or the Jacobian, with `grad`.

        The Jacobian is that of (v - mean(v)) / epsilon within each pool.
        """
        grad = grad[self.order]
        if transposed or self.weight is None:
            mean = self.mean(grad)
        else:
            mean = self.weight * self.repeat(self._sums(grad) / self.totals)
        return self.restore((grad - mean) / self.epsilon)

    def restore(self, array: np.ndarray) -> np.ndarray:
        """Return an array of sorted values in the original order."""
        restored = np.empty_like(array)
        restored[self.order] = array
        return restored


def project(
    rows: np.ndarray, epsilon: float, weight: np.ndarray | None
) -> tuple[np.ndarray, Pools | None]:
    """Return the ranks of the values, with the rows concatenated, and the pools.

    If a value is not finite, all ranks are NaN and the pools are None.
    """
    order = rows.argsort(axis=1)
    if len(rows) > 1:
        order += rows.shape[1] * np.arange(len(rows))[:, None]
    order = order.ravel()
    ordered = rows.ravel()[order]
    by_row = ordered.reshape(rows.shape)
    # With lists, because NumPy takes ten times as long for a few numbers. NaN is last
    # after sorting.
    if not all(map(math.isfinite, by_row[:, 0].tolist() + by_row[:, -1].tolist())):
        return np.full(rows.size, np.nan), None
    if weight is not None:
        # The isotonic regression needs positive weights.
        weight = np.maximum(weight, TINY).ravel()[order]
    ordinary, far = _ordinary_ranks(weight, rows.shape)
    # A gap of `far` times epsilon always separates pools, so larger gaps are reduced to
    # it. Otherwise the ranks would be lost to rounding next to large values / epsilon.
    gaps = np.full(rows.shape, far)
    gaps[:, 1:] = np.minimum(by_row[:, 1:] - by_row[:, :-1], far * epsilon) / epsilon
    fit = isotonic_regression(gaps.cumsum() - ordinary, weights=weight)
    pools = Pools(order, fit.blocks, weight, epsilon)
    # Differences within a pool are exact even if the values are large.
    offset = (ordered - pools.repeat(ordered[pools.starts])) / epsilon
    return pools.restore(offset + pools.mean(ordinary - offset)), pools


def _ordinary_ranks(
    weight: np.ndarray | None, shape: tuple[int, ...]
) -> tuple[np.ndarray, float]:
    """Return the ordinary ranks of sorted values and a number above all of them.

    The rank of a value of weight m is the mean of m consecutive ranks.
    """
    n_rows, n = shape
    if weight is None:
        ordinary = np.arange(1.0, n + 1)
        return (ordinary if n_rows == 1 else np.tile(ordinary, n_rows)), n + 1.0
    weight = weight.reshape(shape)
    ordinary = (weight.cumsum(axis=1) - (weight - 1) / 2).ravel()
    return ordinary, float(ordinary.max()) + 1


def to_numpy(tensor: Tensor) -> np.ndarray:
    return tensor.numpy(force=True).astype(np.float64)


def to_tensor(array: np.ndarray, like: Tensor) -> Tensor:
    """Return an array as a tensor with the shape, dtype and device of another."""
    return torch.from_numpy(array.reshape(like.shape)).to(like)
