"""Add a penalty on the batch to a base loss."""

from collections.abc import Callable

import torch
from torch import Tensor

from sklearn_calib.losses._base.checks import (
    PROPORTIONS,
    above_zero,
    check_batch,
    check_nonnegative,
    check_weight,
    reduce_loss,
)
from sklearn_calib.losses._base.loss import CalibrationLoss
from sklearn_calib.losses._base.margin import true_class_margin
from sklearn_calib.losses._base.typing import Reduction

# Smaller squares are divided by the root of this number instead of their own root,
# because the gradient of a root is infinite at 0.
SMALLEST_SQUARE = 1e-10


def add_penalty(
    penalty: Callable[..., Tensor],
    logits: Tensor,
    target: Tensor,
    *,
    lambd: float,
    base: CalibrationLoss,
    reduction: Reduction,
    sample_weight: Tensor | None,
    soft: bool = False,
) -> Tensor:
    """Return the base loss of each sample plus lambd * penalty, reduced.

    `base` returns one loss per sample. `penalty` takes the logits, the target and the
    normalised sample weights, and returns one number for the batch, which is added to
    the loss of each sample, or one number per sample. `soft` is whether it accepts soft
    targets.
    """
    lambd = float(check_nonnegative("lambd", lambd))
    logits, checked = check_batch(logits, target, soft=soft)
    # The tolerance of `base` for soft targets depends on their dtype.
    values = base(logits, target)
    weight = _normalised_weight(values, sample_weight)
    values = values + lambd * penalty(logits, checked, weight)
    return reduce_loss(values, reduction, sample_weight)


def _normalised_weight(values: Tensor, weight: Tensor | None) -> Tensor:
    """Return sample weights that sum to one."""
    if weight is None:
        return torch.full_like(values, 1 / len(values), requires_grad=False)
    weight = check_weight(weight, values, within=PROPORTIONS)
    return weight / above_zero(weight.sum())


def top_label(logits: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Return 1 minus the confidence, and 1 for wrong and 0 for correct predictions.

    No gradient flows through the second result. If classes are tied, the first one is
    predicted, as by argmax.
    """
    predicted = logits.argmax(1)
    uncertainty = torch.sigmoid(-true_class_margin(logits, predicted))
    return uncertainty, (predicted != target).to(logits.dtype)


def root(square: Tensor) -> Tensor:
    """Return the square root with a gradient that is finite at 0."""
    return square / square.clamp_min(SMALLEST_SQUARE).sqrt()
