"""Input validation, pairs and reduction shared by the losses on embeddings."""

import torch
from torch import Tensor

from sklearn_calib.losses._base.checks import (
    Reduction,
    check_same_device,
    check_tensor,
    in_full_precision,
    is_integer,
)


def flatten_views(embeddings: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Return all views as rows, in at least single precision, and their labels."""
    check_tensor("embeddings", embeddings)
    check_tensor("target", target)
    if not embeddings.is_floating_point():
        raise TypeError(
            f"embeddings must be floating point, got {embeddings.dtype}. "
            "Pass the normalised outputs of the encoder."
        )
    if embeddings.ndim not in (2, 3) or embeddings.numel() == 0:
        raise ValueError(
            "embeddings must be non-empty and have shape (N, d) or (N, views, d), got "
            f"shape {tuple(embeddings.shape)}. Stack the views along dimension 1."
        )
    check_same_device("target", target, embeddings, like_name="embeddings")
    _check_labels(target, len(embeddings))
    n_views = embeddings.shape[1] if embeddings.ndim == 3 else 1
    if embeddings.dtype.itemsize < 4:
        embeddings = embeddings.float()
    rows = embeddings.reshape(-1, embeddings.shape[-1])
    return rows, target.repeat_interleave(n_views)


def _check_labels(target: Tensor, n_samples: int) -> None:
    """Raise an error unless the target has one integer label per sample."""
    if target.shape != (n_samples,):
        raise ValueError(
            f"target must have shape ({n_samples},), got {tuple(target.shape)}. Pass "
            "one label per sample: all views of a sample have the same label."
        )
    if not is_integer(target):
        raise TypeError(
            f"target must contain integers, got {target.dtype}. Call target.long()."
        )


def same_label(labels: Tensor) -> Tensor:
    """Return whether each pair of different rows has the same label."""
    return (labels.unsqueeze(1) == labels).fill_diagonal_(False)


def similarities(rows: Tensor) -> Tensor:
    """Return all inner products, in full precision even under autocast."""
    with in_full_precision(rows):
        return rows @ rows.T


def reduce_anchors(
    values: Tensor, anchors: Tensor, shape: torch.Size, reduction: Reduction
) -> Tensor:
    """Reduce the losses of the anchors; with "none" the other rows have a loss of 0."""
    if reduction == "none":
        rows = values.new_zeros(anchors.shape).masked_scatter(anchors, values)
        return rows.view(shape)
    # Without anchors the mean is an empty sum, whose gradient is 0.
    return values.sum() / (max(1, len(values)) if reduction == "mean" else 1)
