"""A loss of samples plus a penalty on the batch, and what such penalties look at."""

from collections.abc import Callable

import torch
from torch import Tensor

from sklearn_calib.losses._base import (
    PROPORTIONS,
    above_zero,
    check_batch,
    check_nonnegative,
    check_weight,
    reduce_loss,
)
from sklearn_calib.losses._calibration_loss import CalibrationLoss
from sklearn_calib.losses._margin import true_class_margin
from sklearn_calib.losses._typing import Reduction

# Below this a square is divided by the root of this, not by its own: the gradient of a
# root is infinite at 0, where all predictions are right or their errors cancel.
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
    """Return base + lambd * penalty, reduced: each sample bears the whole penalty.

    `base` returns one loss per sample. `penalty` takes the logits, the target and the
    share of each sample in the batch, and returns one number, or one per sample. `soft`
    tells whether it takes probabilities as target.
    """
    lambd = float(check_nonnegative("lambd", lambd))
    logits, target = check_batch(logits, target, soft=soft)
    values = base(logits, target)
    share = _sample_shares(values, sample_weight)
    values = values + lambd * penalty(logits, target, share)
    return reduce_loss(values, reduction, sample_weight)


def _sample_shares(values: Tensor, weight: Tensor | None) -> Tensor:
    """Return weights that sum to one."""
    if weight is None:
        return torch.full_like(values, 1 / len(values), requires_grad=False)
    weight = check_weight(weight, values, within=PROPORTIONS)
    return weight / above_zero(weight.sum())


def top_label(logits: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Return 1 minus the confidence of each prediction, and 1 where it is wrong or 0.

    Of tied classes the first is predicted, as by argmax. That a prediction is right is
    a constant for the gradient.
    """
    predicted = logits.argmax(1)
    doubt = torch.sigmoid(-true_class_margin(logits, predicted))
    return doubt, (predicted != target).to(logits.dtype)


def root(square: Tensor) -> Tensor:
    """Return the root with a gradient that is finite at 0."""
    return square / square.clamp_min(SMALLEST_SQUARE).sqrt()
