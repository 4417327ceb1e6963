"""Soft ranks as an operator that torch.compile and torch.func do not look into."""

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function

from sklearn_calib.losses._ranking.soft_rank_pools import (
    TINY,
    project,
    to_numpy,
    to_tensor,
)


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
    epsilon: Tensor,  # noqa: ARG001 - as the operator
    sample_weight: Tensor | None,  # noqa: ARG001
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
    ranks, pools = (torch.stack(each) for each in zip(*results, strict=True))
    return (ranks, pools), (0, 0)


# New in torch 2.5.
if hasattr(torch.library, "register_vmap"):
    torch.library.register_vmap(soft_rank_op, _each)


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
