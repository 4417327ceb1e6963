"""The differentiable rank of a tensor, for losses that order their batch."""

import math
from typing import Any

import numpy as np
import torch
from scipy.optimize import isotonic_regression
from torch import Tensor
from torch.autograd import Function

from sklearn_calib.losses._base import (
    REPETITIONS,
    check_finite,
    check_not_meta,
    check_positive,
    check_weight,
)

# Stands for a weight of zero: it moves no mean, and its square is still a number.
TINY = 1e-150

PLAIN_RANKS = "Use a small value, such as 1e-6, for plain ranks."


def soft_rank(
    values: Tensor, *, epsilon: float, sample_weight: Tensor | None = None
) -> Tensor:
    r"""Ranks from 1 for the smallest value on, with a gradient.

    The ranks are the point of the permutahedron, the convex hull of all orders of
    ``1, ..., n``, that is nearest to ``values / epsilon`` [1]_. Values more than
    ``n * epsilon`` away from all others have their plain rank, closer ones move
    smoothly between the ranks that they share, and equal ones have the mean.

    Parameters
    ----------
    values : Tensor of shape (n,) or (n_rows, n)
        What is ranked, in single or double precision; each row on its own.
    epsilon : float
        How much is smoothed, above 0, in the unit of the values. Towards 0 the ranks
        become plain ranks, with ties averaged and no gradient; towards infinity all
        become the mean rank ``(n + 1) / 2``. What it does depends on n: n values that
        are evenly spread over an interval of length ``n * epsilon`` keep their ranks.
    sample_weight : Tensor of the shape of `values`, default=None
        Non-negative: a value of weight m counts as m equal values, and n is the sum
        of the weights.

    Returns
    -------
    ranks : Tensor of the shape of `values`
        In the precision of the values and on their device.

    Raises
    ------
    ValueError
        If epsilon is not above 0, or the values are not finite or of another shape.
    TypeError
        If epsilon is no number, or the values are in no such precision.

    See Also
    --------
    regularized_aurc_loss : Weights the samples of a batch by such ranks.

    Notes
    -----
    It takes a sort and an isotonic regression, O(n log n), both in NumPy and SciPy and
    in double precision: a tensor on an accelerator sends its n values to the CPU and
    waits for the ranks. The gradient is exact. Within a pool of values that share
    ranks it is that of ``(v_i - mean(v)) / epsilon``, elsewhere zero.

    References
    ----------
    .. [1] M. Blondel, O. Teboul, Q. Berthet and J. Djolonga, "Fast Differentiable
       Sorting and Ranking", ICML 2020, equation 7 and proposition 4, with the quadratic
       regularisation.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import soft_rank
    >>> values = torch.tensor([0.9, 0.1, 0.5, 0.52])
    >>> soft_rank(values, epsilon=0.1)
    tensor([4.0000, 1.0000, 2.4000, 2.6000])
    >>> soft_rank(values, epsilon=1e-6)
    tensor([4., 1., 2., 3.])
    """
    check_positive("epsilon", epsilon, hint=PLAIN_RANKS)
    _check_values(values)
    check_not_meta("values", values)
    check_finite("values", values)
    if sample_weight is not None:
        sample_weight = check_weight(sample_weight, values, within=REPETITIONS)
    return SoftRank.apply(values, float(epsilon), sample_weight)


def _check_values(values: Tensor) -> None:
    """Check the type and the shape of what is to be ranked."""
    if getattr(values, "dtype", None) not in (torch.float32, torch.float64):
        raise TypeError(
            "values must be a torch.Tensor of float32 or float64, got "
            f"{getattr(values, 'dtype', type(values).__name__)}. Convert them with "
            "torch.as_tensor and call float()."
        )
    if values.ndim not in (1, 2) or values.numel() == 0:
        raise ValueError(
            "values must have shape (n,) or (n_rows, n), none of them 0, got "
            f"{tuple(values.shape)}. Rank along the last of two axes."
        )


class SoftRank(Function):
    """The projection on the permutahedron; NaN if a value is NaN or infinite."""

    @staticmethod
    def forward(
        ctx: Any, values: Tensor, epsilon: float, sample_weight: Tensor | None
    ) -> Tensor:
        rows = _to_numpy(values).reshape(-1, values.shape[-1])
        weight = None if sample_weight is None else _to_numpy(sample_weight)
        ranks, ctx.pools = _project(rows, epsilon, weight)
        return _to_tensor(ranks, values)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        # The detour for a second derivative takes as long as the product itself.
        multiply = _PoolGradient.apply if torch.is_grad_enabled() else _multiply
        return multiply(grad, ctx.pools, False), None, None


class _PoolGradient(Function):
    """The gradient through the ranks. Its own gradient is the transposed product."""

    @staticmethod
    def forward(
        ctx: Any, grad: Tensor, pools: "_Pools | None", transposed: bool
    ) -> Tensor:
        ctx.pools, ctx.transposed = pools, transposed
        return _multiply(grad, pools, transposed)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return _PoolGradient.apply(grad, ctx.pools, not ctx.transposed), None, None


def _multiply(grad: Tensor, pools: "_Pools | None", transposed: bool) -> Tensor:
    """Return the product of the transposed Jacobian, or of itself, with a tensor."""
    if pools is None:
        return torch.full_like(grad, torch.nan)
    return _to_tensor(pools.multiply(_to_numpy(grad).ravel(), transposed), grad)


class _Pools:
    """Which of the sorted values share their ranks. The rows stand end to end."""

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
        """Return for each value what holds for its pool."""
        return per_pool.repeat(self.counts)

    def mean(self, array: np.ndarray) -> np.ndarray:
        """Return for each value the mean over its pool."""
        array = array if self.weight is None else self.weight * array
        return self.repeat(self._sums(array) / self.totals)

    def multiply(self, grad: np.ndarray, transposed: bool) -> np.ndarray:
        """Return the product of the transposed Jacobian, or of itself, with `grad`.

        The Jacobian is that of (v - mean(v)) / epsilon.
        """
        grad = grad[self.order]
        if transposed or self.weight is None:
            mean = self.mean(grad)
        else:
            mean = self.weight * self.repeat(self._sums(grad) / self.totals)
        return self.restore((grad - mean) / self.epsilon)

    def restore(self, array: np.ndarray) -> np.ndarray:
        """Return an array of sorted values in the order in which they came."""
        restored = np.empty_like(array)
        restored[self.order] = array
        return restored


def _project(
    rows: np.ndarray, epsilon: float, weight: np.ndarray | None
) -> "tuple[np.ndarray, _Pools | None]":
    """Return the ranks of the values, rows end to end, and the pools behind them.

    Where a value is not finite, all ranks are NaN, and there are no pools.
    """
    order = rows.argsort(axis=1)
    if len(rows) > 1:
        order += rows.shape[1] * np.arange(len(rows))[:, None]
    order = order.ravel()
    ordered = rows.ravel()[order]
    by_row = ordered.reshape(rows.shape)
    # On lists, for a few numbers cost NumPy ten times as long. NaN is sorted last.
    if not all(map(math.isfinite, by_row[:, 0].tolist() + by_row[:, -1].tolist())):
        return np.full(rows.size, np.nan), None
    if weight is not None:
        # The isotonic regression needs weights above zero.
        weight = np.maximum(weight, TINY).ravel()[order]
    plain, far = _plain_ranks(weight, rows.shape)
    # Gaps of so many epsilon end a pool, and larger ones change nothing. Unbounded, the
    # values over epsilon would swamp the ranks that are taken from them.
    gaps = np.full(rows.shape, far)
    gaps[:, 1:] = np.minimum(by_row[:, 1:] - by_row[:, :-1], far * epsilon) / epsilon
    fit = isotonic_regression(gaps.cumsum() - plain, weights=weight)
    pools = _Pools(order, fit.blocks, weight, epsilon)
    # Within a pool the differences are exact where the values themselves are large.
    offset = (ordered - pools.repeat(ordered[pools.starts])) / epsilon
    return pools.restore(offset + pools.mean(plain - offset)), pools


def _plain_ranks(
    weight: np.ndarray | None, shape: tuple[int, ...]
) -> tuple[np.ndarray, float]:
    """Return the ranks of sorted values and a number above all of them.

    A value of weight m has the mean of m ranks.
    """
    n_rows, n = shape
    if weight is None:
        plain = np.arange(1.0, n + 1)
        return (plain if n_rows == 1 else np.tile(plain, n_rows)), n + 1.0
    weight = weight.reshape(shape)
    plain = (weight.cumsum(axis=1) - (weight - 1) / 2).ravel()
    return plain, float(plain.max()) + 1


def _to_numpy(tensor: Tensor) -> np.ndarray:
    return tensor.numpy(force=True).astype(np.float64)


def _to_tensor(array: np.ndarray, like: Tensor) -> Tensor:
    """Return an array with the shape, precision and device of a tensor."""
    return torch.from_numpy(array.reshape(like.shape)).to(like)
