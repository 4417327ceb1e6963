"""Differentiable soft ranks, for losses that rank the samples of a batch."""

import math
from typing import Any

import numpy as np
import torch
from scipy.optimize import isotonic_regression
from torch import Tensor
from torch.autograd import Function

from sklearn_calib.losses._base.checks import (
    check_finite,
    check_positive,
    check_weight,
    is_traced,
)

ORDINARY_RANKS = "Use a small value, such as 1e-6, for ordinary ranks."

# Replaces a weight of zero. It does not change any mean, and its square does not
# underflow.
TINY = 1e-150


def soft_rank(
    values: Tensor, *, epsilon: float, sample_weight: Tensor | None = None
) -> Tensor:
    r"""Compute differentiable soft ranks by projection onto the permutahedron.

    The soft ranks are the point of the permutahedron, the convex hull of all
    permutations of ``1, ..., n``, that is closest to ``values / epsilon`` [1]_. The
    smallest value has rank 1. Values whose distance to all others is more than
    ``n * epsilon`` have their ordinary rank. The ranks of closer values change smoothly
    with the values, and equal values have equal ranks.

    Parameters
    ----------
    values : Tensor of shape (n,) or (n_rows, n)
        Values to rank, in single or double precision. Each row is ranked separately.
    epsilon : float
        Smoothing, above 0, on the scale of the values. For small epsilon the soft ranks
        approach ordinary ranks, with the mean rank for ties and without a gradient. For
        large epsilon they approach the mean rank ``(n + 1) / 2``. The effect depends on
        n: n values that are evenly spaced on an interval of length ``n * epsilon`` have
        their ordinary ranks.
    sample_weight : Tensor of the shape of `values`, default=None
        Non-negative weights. A value of weight m counts as m equal values, and n is the
        sum of the weights.

    Returns
    -------
    ranks : Tensor of the shape of `values`
        Soft ranks, with the dtype and on the device of the values.

    Raises
    ------
    ValueError
        If `epsilon` is not above 0, or `values` is not finite or has another shape.
    TypeError
        If `epsilon` is not a number, or `values` has another dtype.

    See Also
    --------
    regularized_aurc_loss : Uses soft ranks to weight the samples of a batch.

    Notes
    -----
    The values are sorted and an isotonic regression is fitted, in time O(n log n). Both
    use NumPy and SciPy in double precision. The values of a tensor on an accelerator
    are therefore copied to the CPU.

    The isotonic regression pools values that are close to each other. Within a pool of
    values v, the gradient is that of ``(v_i - mean(v)) / epsilon``, which is 0 for a
    single value.

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
    check_positive("epsilon", epsilon, hint=ORDINARY_RANKS)
    _check_values(values)
    if sample_weight is not None:
        sample_weight = check_weight(sample_weight, values)
    ranks = soft_ranks(values, float(epsilon), sample_weight)
    # If a value is not finite, all ranks are NaN, so that one of them tells.
    if not is_traced() and math.isnan(ranks.detach().flatten()[0].item()):
        check_finite("values", values)
    return ranks


def soft_ranks(
    values: Tensor, epsilon: float | Tensor, sample_weight: Tensor | None
) -> Tensor:
    """Return the soft ranks of checked values; NaN if one is NaN or infinite."""
    if not is_traced():
        return SoftRank.apply(values, float(epsilon), sample_weight)
    epsilon = torch.as_tensor(epsilon, dtype=torch.float64, device=values.device)
    return TracedSoftRank.apply(values, epsilon, sample_weight)[0]


def _check_values(values: Tensor) -> None:
    """Raise an error unless the values have a valid dtype and shape."""
    if getattr(values, "dtype", None) not in (torch.float32, torch.float64):
        raise TypeError(
            "values must be a torch.Tensor of float32 or float64, got "
            f"{getattr(values, 'dtype', type(values).__name__)}. Convert them with "
            "torch.as_tensor and call float()."
        )
    if values.ndim not in (1, 2) or values.numel() == 0:
        raise ValueError(
            "values must be non-empty and have shape (n,) or (n_rows, n), got shape "
            f"{tuple(values.shape)}. Ranks are computed along the last axis."
        )


class SoftRank(Function):
    """Projection onto the permutahedron; NaN if a value is NaN or infinite."""

    @staticmethod
    def forward(
        ctx: Any, values: Tensor, epsilon: float, sample_weight: Tensor | None
    ) -> Tensor:
        rows = to_numpy(values).reshape(-1, values.shape[-1])
        weight = None if sample_weight is None else to_numpy(sample_weight)
        ranks, ctx.pools = project(rows, epsilon, weight)
        return to_tensor(ranks, values)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        # Supporting a second derivative takes as long as the product itself.
        multiply = _PoolGradient.apply if torch.is_grad_enabled() else _multiply
        return multiply(grad, ctx.pools, False), None, None


@torch.library.custom_op("sklearn_calib::soft_rank", mutates_args=())
def soft_rank_op(
    values: Tensor, epsilon: Tensor, sample_weight: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Return the soft ranks, and the index of the pool of each value."""
    rows = to_numpy(values).reshape(-1, values.shape[-1])
    weight = None if sample_weight is None else to_numpy(sample_weight)
    ranks, pools = project(rows, epsilon.item(), weight)
    index = np.zeros(rows.size, dtype=np.int64)
    if pools is not None:
        index = pools.restore(pools.repeat(np.arange(len(pools.starts))))
    pool = torch.from_numpy(index.reshape(values.shape)).to(values.device)
    return to_tensor(ranks, values), pool


@soft_rank_op.register_fake
def _shapes(
    values: Tensor,
    epsilon: Tensor,
    sample_weight: Tensor | None,
) -> tuple[Tensor, Tensor]:
    shape = values.shape
    return values.new_empty(shape), values.new_empty(shape, dtype=torch.int64)


def _pool_sums(values: Tensor, pool: Tensor) -> Tensor:
    """Return for each value the sum over its pool."""
    pool = pool.reshape(-1)
    sums = values.new_zeros(pool.shape).index_add(0, pool, values.reshape(-1))
    return sums[pool].reshape(values.shape)


def _each(
    info: Any, in_dims: tuple[int | None, ...], *inputs: Tensor | None
) -> tuple[tuple[Tensor, ...], tuple[int, int]]:
    """Apply the operator to each element of a batch."""
    batches = [
        [each] * info.batch_size if dim is None else each.unbind(dim)  # type: ignore[union-attr]
        for each, dim in zip(inputs, in_dims, strict=True)
    ]
    results = [soft_rank_op(*one) for one in zip(*batches, strict=True)]
    ranks, pools = (torch.stack(parts) for parts in zip(*results, strict=True))
    return (ranks, pools), (0, 0)


class TracedSoftRank(Function):
    """Soft ranks for torch.compile and the transforms of torch.func."""

    generate_vmap_rule = True

    @staticmethod
    def forward(
        values: Tensor, epsilon: Tensor, sample_weight: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        return soft_rank_op(values, epsilon, sample_weight)

    @staticmethod
    def setup_context(
        ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]
    ) -> None:
        _, epsilon, sample_weight = inputs
        ctx.save_for_backward(*output, epsilon, sample_weight)
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> Any:
        """Multiply by the Jacobian of (v - mean(v)) / epsilon within each pool."""
        ranks, pool, epsilon, weight = ctx.saved_tensors
        wide = grad.to(epsilon.dtype)
        weight = torch.ones_like(wide) if weight is None else weight.to(wide)
        weight = weight.clamp_min(TINY)
        mean = weight * _pool_sums(wide, pool) / _pool_sums(weight, pool)
        # The ranks are NaN if a value is NaN or infinite, and so is the gradient.
        return ((wide - mean) / epsilon).to(grad.dtype) + 0 * ranks, None, None


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


class _PoolGradient(Function):
    """Gradient of the soft ranks, whose gradient is the transposed product."""

    @staticmethod
    def forward(
        ctx: Any, grad: Tensor, pools: Pools | None, transposed: bool
    ) -> Tensor:
        ctx.pools, ctx.transposed = pools, transposed
        return _multiply(grad, pools, transposed)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return _PoolGradient.apply(grad, ctx.pools, not ctx.transposed), None, None


def _multiply(grad: Tensor, pools: Pools | None, transposed: bool) -> Tensor:
    """Return the product of the transposed Jacobian, or the Jacobian, with a tensor."""
    if pools is None:
        return torch.full_like(grad, torch.nan)
    return to_tensor(pools.multiply(to_numpy(grad).ravel(), transposed), grad)


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
    # A spacing of `far` times epsilon always separates pools, so it is the largest one.
    # Otherwise the ranks would be lost to rounding next to large values / epsilon.
    spacing = np.full(rows.shape, far)
    spacing[:, 1:] = np.minimum(by_row[:, 1:] - by_row[:, :-1], far * epsilon) / epsilon
    fit = isotonic_regression(spacing.cumsum() - ordinary, weights=weight)
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


# New in torch 2.5.
if hasattr(torch.library, "register_vmap"):
    torch.library.register_vmap(soft_rank_op, _each)
