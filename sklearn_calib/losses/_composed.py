"""Losses made of another one, their base, whose parameters are theirs: base__gamma."""

import inspect
from collections.abc import Callable, Iterable
from copy import copy, deepcopy
from typing import Any

from numpy.typing import ArrayLike

from sklearn_calib._core.nested_params import remove_prefix
from sklearn_calib._core.validation import did_you_mean
from sklearn_calib.losses._calibration_loss import BASE, CalibrationLoss, find_loss
from sklearn_calib.losses._typing import Reduction

Base = str | CalibrationLoss


class _ComposedLoss(CalibrationLoss):
    """A loss with a base, the loss of each sample: a name or an instance.

    ``base__gamma=3.0`` sets a parameter of the base. A subclass takes such keywords as
    ``**base_params`` and hands ``base_`` to its function: a copy of the base that
    returns one loss per sample. It is a submodule, so that its buffers are part of
    ``state_dict``, and where it learns from validation data, so does the loss.
    """

    is_per_sample = False

    def __init__(
        self, *, base: Base, base_params: dict[str, Any], reduction: Reduction = "mean"
    ) -> None:
        super().__init__(reduction=reduction)
        # Set as usual, an instance would become a submodule beside its copy.
        vars(self)["base"] = base
        self._base_params = base_params
        self.base_ = deepcopy(build_base(base, base_params, type(self)))

    def _arguments(self) -> dict[str, Any]:
        """Return the keywords that the function is called with."""
        return {**super()._arguments(), "base": self.base_}

    @property
    def learns_from_validation(self) -> bool:  # type: ignore[override]
        """Whether the base does."""
        return self.base_.learns_from_validation

    @property
    def min_updates(self) -> int:  # type: ignore[override]
        """How many updates the base needs."""
        return self.base_.min_updates

    def update(
        self,
        y_true: ArrayLike,
        y_proba: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
    ) -> dict[str, Any]:
        """Let the base learn; see :meth:`CalibrationLoss.update`."""
        return self.base_.update(y_true, y_proba, sample_weight=sample_weight)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the arguments of the constructor and their values.

        Parameters
        ----------
        deep : bool, default=True
            Whether to list all parameters of the base, as ``base__...``, or only those
            that were given.

        Returns
        -------
        params : dict
            Values by name.
        """
        params = {**super().get_params(), **self._base_params}
        return self.list_params(type(self), params) if deep else params


def build_base(base: Base, params: dict[str, Any], owner: Callable) -> CalibrationLoss:
    """Return the loss of each sample, given the base and ``base__...`` of `owner`.

    An instance that returns one loss per sample already is returned as it is.
    """
    loss = _find_base(base)
    is_instance = isinstance(loss, CalibrationLoss)
    if is_instance and not params and loss.reduction == "none":
        return loss
    _check_prefix(params, owner)
    if params or not is_instance:
        params = remove_prefix(BASE, params)
        loss = CalibrationLoss.build(base, params, prefix=BASE)
    # A shallow copy shares the state: an instance goes on with what it has learned.
    loss = copy(loss)
    loss.reduction = "none"
    return loss


def _find_base(base: Base) -> Any:
    """Return the class of a name, or an instance as it is."""
    loss = find_loss(base)
    is_loss = isinstance(base, str | CalibrationLoss)
    if is_loss and loss.is_per_sample and not loss.is_multilabel:
        return loss
    raise ValueError(
        "base must be the name or an instance of a loss of single samples, got "
        f"{base!r}. Choose a loss that looks at no other samples, such as 'focal'."
    )


def _check_prefix(params: Iterable[str], owner: Callable) -> None:
    """Refuse keywords that neither `owner` nor a base of it could know."""
    for name in params:
        if not name.startswith(BASE):
            raise TypeError(
                f"{owner.__name__} got an unexpected keyword argument {name!r}."
                f"{did_you_mean(name, inspect.signature(owner).parameters)} A "
                f"parameter of the base begins with {BASE}."
            )
