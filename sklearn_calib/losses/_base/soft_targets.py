"""Soft targets for losses that are written for class indices."""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

from sklearn_calib.losses._base.checks import (
    Reduction,
    check_batch,
    is_traced,
    reduce_loss,
)

_Loss = TypeVar("_Loss", bound=Callable[..., Tensor])


def averages_over_labels(loss: _Loss) -> _Loss:
    """Make a loss accept soft targets, by averaging it over the labels.

    The loss is computed only for labels of positive probability. With Mixup a sample
    has at most two of them.
    """

    @wraps(loss)
    def wrapper(logits: Tensor, target: Tensor, *args: Any, **params: Any) -> Tensor:
        if getattr(target, "ndim", 1) != 2:
            return loss(logits, target, *args, **params)
        return _mean_over_labels(loss, logits, target, *args, **params)

    return cast("_Loss", wrapper)


def _mean_over_labels(
    loss: Callable[..., Tensor],
    logits: Tensor,
    target: Tensor,
    *,
    reduction: Reduction = "mean",
    sample_weight: Tensor | None = None,
    **params: Any,
) -> Tensor:
    """Return the mean loss over the labels of each sample, reduced over the samples."""
    logits, target = check_batch(logits, target, soft=True)
    rows, labels = _label_pairs(target)
    each = loss(logits[rows], labels, reduction="none", **params)
    values = each.new_zeros(len(logits))
    values = values.index_add(0, rows, target[rows, labels] * each)
    return reduce_loss(values, reduction, sample_weight)


def _label_pairs(target: Tensor) -> tuple[Tensor, ...]:
    """Return the samples and labels of positive probability, or all if traced."""
    if not (is_traced() or target.is_meta):
        return target.nonzero(as_tuple=True)
    samples, labels = (torch.arange(n, device=target.device) for n in target.shape)
    return samples.repeat_interleave(len(labels)), labels.repeat(len(samples))
