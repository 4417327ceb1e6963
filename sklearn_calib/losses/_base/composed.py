"""Losses with a base loss, whose parameters have the prefix ``base__``."""

import inspect
from collections.abc import Callable, Iterable
from copy import copy, deepcopy
from typing import Any

from numpy.typing import ArrayLike

from sklearn_calib._sklearn.nested_params import remove_prefix
from sklearn_calib._validation.arrays import shown
from sklearn_calib._validation.declarations import did_you_mean
from sklearn_calib.losses._base.loss import BASE, CalibrationLoss, find_loss
from sklearn_calib.losses._base.typing import Reduction

Base = str | CalibrationLoss


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


def build_base(base: Base, params: dict[str, Any], owner: Callable) -> CalibrationLoss:
    """Return the base loss of `owner` with its ``base__...`` parameters set.

    The result returns one loss per sample. An instance that does so already is
    returned unchanged.
    """
    loss = _find_base(base)
    is_instance = isinstance(loss, CalibrationLoss)
    if is_instance and not params and loss.reduction == "none":
        return loss
    _check_prefix(params, owner)
    if params or not is_instance:
        params = remove_prefix(BASE, params)
        loss = CalibrationLoss.build(base, params, prefix=BASE)
    # A shallow copy shares the state, so that an instance keeps what it has learned.
    loss = copy(loss)
    loss.reduction = "none"
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


def _check_prefix(params: Iterable[str], owner: Callable) -> None:
    """Raise a TypeError for a keyword that does not start with ``base__``."""
    for name in params:
        if not name.startswith(BASE):
            raise TypeError(
                f"{owner.__name__} got an unexpected keyword argument {name!r}."
                f"{did_you_mean(name, inspect.signature(owner).parameters)} "
                f"Parameters of the base start with {BASE}."
            )
