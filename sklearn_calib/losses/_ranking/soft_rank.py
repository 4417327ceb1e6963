"""Differentiable soft ranks, for losses that rank the samples of a batch."""

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from sklearn_calib.losses._base.checks import (
    REPETITIONS,
    check_finite,
    check_not_meta,
    check_positive,
    check_weight,
    is_traced,
)
from sklearn_calib.losses._ranking.soft_rank_op import TracedSoftRank
from sklearn_calib.losses._ranking.soft_rank_pools import (
    Pools,
    project,
    to_numpy,
    to_tensor,
)

ORDINARY_RANKS = "Use a small value, such as 1e-6, for ordinary ranks."


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
        Smoothing, above 0, in the unit of the values. For small epsilon the soft ranks
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
    check_positive("epsilon", epsilon, hint=ORDINARY_RANKS, within=(0, math.inf))
    _check_values(values)
    check_not_meta("values", values)
    if sample_weight is not None:
        sample_weight = check_weight(sample_weight, values, within=REPETITIONS)
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
