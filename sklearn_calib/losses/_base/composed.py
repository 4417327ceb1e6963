"""Losses with a base loss and a penalty; parameters of the base have a prefix."""

import inspect
from collections.abc import Callable, Iterable
from copy import copy, deepcopy
from typing import Any

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from sklearn_calib._sklearn.nested_params import remove_prefix
from sklearn_calib._validation.arrays import shown
from sklearn_calib._validation.declarations import did_you_mean
from sklearn_calib.losses._base.checks import (
    Reduction,
    above_zero,
    check_batch,
    check_weight,
    reduce_loss,
)
from sklearn_calib.losses._base.loss import BASE, CalibrationLoss, find_loss
from sklearn_calib.losses._base.stable_gradients import true_class_log_odds

Base = str | CalibrationLoss

# The `ignore_index` of a base. Its owner has replaced the ignored targets before.
_NOTHING = -100

# Smaller squares are divided by the root of this number instead of their own root,
# because the gradient of a root is infinite at 0.
SMALLEST_SQUARE = 1e-10


class _ComposedLoss(CalibrationLoss):
    """Base class of losses with a per-sample base loss, given by name or instance.

    A keyword such as ``base__gamma=3.0`` sets a parameter of the base. A subclass
    collects these keywords in ``**base_params``. Its function is called with ``base_``,
    a copy of the base that returns one loss per sample. The copy is a submodule, so
    that its buffers are part of ``state_dict``. If the base learns from validation
    data, so does the loss.
    """

    is_per_sample = False

    def __init__(
        self, *, base: Base, base_params: dict[str, Any], reduction: Reduction = "mean"
    ) -> None:
        super().__init__(reduction=reduction)
        # The usual assignment would register an instance as a second submodule.
        vars(self)["base"] = base
        self._base_params = base_params
        self.base_ = deepcopy(build_base(base, base_params, type(self)))

    def _store(self, params: dict[str, Any], base_params: dict[str, Any]) -> None:
        """Store checked parameters in a new object, and build the base."""
        reduction = params["reduction"]
        _ComposedLoss.__init__(
            self, base=params["base"], base_params=base_params, reduction=reduction
        )
        vars(self).update(params)

    def _arguments(self) -> dict[str, Any]:
        """Return the keyword arguments for the function."""
        return {**super()._arguments(), "base": self.base_}

    @property
    def learns_from_validation(self) -> bool:  # type: ignore[override]
        """Whether the base learns from validation data."""
        return self.base_.learns_from_validation

    @property
    def min_updates(self) -> int:  # type: ignore[override]
        """Number of updates that the base needs."""
        return self.base_.min_updates

    def update(
        self,
        y_true: ArrayLike,
        y_proba: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
    ) -> dict[str, Any]:
        """Update the base; see :meth:`CalibrationLoss.update`."""
        return self.base_.update(y_true, y_proba, sample_weight=sample_weight)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Get the parameters of this loss and of its base.

        Parameters
        ----------
        deep : bool, default=True
            Whether to return all parameters of the base, as ``base__...``, or only
            those that were passed to the constructor.

        Returns
        -------
        params : dict
            Parameter names mapped to their values.
        """
        params = {**super().get_params(), **self._base_params}
        return self.list_params(type(self), params) if deep else params


def build_base(
    base: Base, params: dict[str, Any], owner: Callable[..., Any]
) -> CalibrationLoss:
    """Return the base loss of `owner` with its ``base__...`` parameters set.

    The result returns one loss per sample. An instance that does so already is
    returned unchanged.
    """
    loss = _find_base(base)
    is_instance = isinstance(loss, CalibrationLoss)
    is_built = is_instance and vars(loss).get("ignore_index") == _NOTHING
    if is_built and not params and loss.reduction == "none":
        return loss
    _check_prefix(params, owner)
    if params or not is_instance:
        params = remove_prefix(BASE, params)
        loss = CalibrationLoss.build(base, params, prefix=BASE)
    # A shallow copy shares the state, so that an instance keeps what it has learned.
    loss = copy(loss)
    loss.reduction = "none"
    loss.ignore_index = _NOTHING
    return loss


def _find_base(base: Base) -> Any:
    """Return the class with a given name, or an instance unchanged."""
    loss = find_loss(base)
    is_loss = isinstance(base, str | CalibrationLoss)
    if is_loss and loss.is_per_sample and not loss.is_multilabel:
        return loss
    raise ValueError(
        "base must be the name or an instance of a per-sample loss, got "
        f"{shown(base)}. Choose a loss that does not depend on the other samples of "
        "the batch, such as 'focal'."
    )


def _check_prefix(params: Iterable[str], owner: Callable[..., Any]) -> None:
    """Raise a TypeError for a keyword that does not start with ``base__``."""
    for name in params:
        if not name.startswith(BASE):
            raise TypeError(
                f"{owner.__name__} got an unexpected keyword argument {name!r}."
                f"{did_you_mean(name, inspect.signature(owner).parameters)} "
                f"Parameters of the base start with {BASE}."
            )


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
    logits, checked = check_batch(logits, target, soft=soft)
    # The tolerance of `base` for soft targets depends on their dtype.
    values = base(logits, target)
    weight = _normalised_weight(values, sample_weight)
    values = values + float(lambd) * penalty(logits, checked, weight)
    return reduce_loss(values, reduction, sample_weight)


def _normalised_weight(values: Tensor, weight: Tensor | None) -> Tensor:
    """Return sample weights that sum to one."""
    if weight is None:
        return torch.full_like(values, 1 / len(values), requires_grad=False)
    weight = check_weight(weight, values)
    return weight / above_zero(weight.sum())


def uncertainty_and_error(logits: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Return 1 minus the confidence, and 1 for wrong and 0 for correct predictions.

    No gradient flows through the second result. If classes are tied, the first one is
    predicted, as by argmax.
    """
    predicted = logits.argmax(1)
    uncertainty = torch.sigmoid(-true_class_log_odds(logits, predicted))
    return uncertainty, (predicted != target).to(logits.dtype)


def root(square: Tensor) -> Tensor:
    """Return the square root with a gradient that is finite at 0."""
    return square / square.clamp_min(SMALLEST_SQUARE).sqrt()
