"""The parameters of a loss by name, with those of its base as ``base__gamma``."""

import inspect
from copy import deepcopy

from torch import nn

from sklearn_calib._core.validation import did_you_mean
from sklearn_calib.losses._calibration_loss import CalibrationLoss
from sklearn_calib.losses._registry import LOSSES, get_loss_names

PREFIX = "base__"


def is_known(loss):
    """Tell whether something is the name, the class or an instance of a loss."""
    if isinstance(loss, str):
        return loss in LOSSES
    return isinstance(loss, nn.Module) or (
        isinstance(loss, type) and issubclass(loss, nn.Module)
    )


def find_loss(loss):
    """Return the class of a name, and a class or an instance as it is."""
    return LOSSES.get(loss) if isinstance(loss, str) else loss


def build_loss(loss, params, *, prefix, hint=""):
    """Return a new instance of a loss, with `params` in place of its own values."""
    if not is_known(found := find_loss(loss)):
        raise TypeError(
            "loss must be a name, a class or an instance of torch.nn.Module, got "
            f"{loss!r}. The names: {get_loss_names()}."
        )
    check_params(loss, params, prefix=prefix, hint=hint)
    if isinstance(found, CalibrationLoss):
        return type(found)(**replace_params(found.get_params(deep=False), params))
    return found(**params) if isinstance(found, type) else deepcopy(found)


def replace_params(params, new):
    """Return `params` with `new` in place, without what was set under an old value.

    A new ``base`` ends what ``base__...`` said of another one, unless it is in `new`.
    """
    changed = tuple(
        f"{name}__"
        for name, value in new.items()
        if name in params and not _is_same(value, params[name])
    )
    kept = {n: value for n, value in params.items() if not n.startswith(changed)}
    return {**kept, **new}


def _is_same(value, other):
    return value is other or (isinstance(value, str) and value == other)


def all_params(loss, given):
    """Return the parameters of a loss and of its base, with `given` in place."""
    if not is_known(loss):
        return dict(given)
    params = replace_params(_own_params(loss), given)
    if not _has_base(loss):
        return params
    of_base = all_params(params["base"], remove_prefix(PREFIX, params))
    of_base.pop("reduction", None)
    return {**params, **add_prefix(PREFIX, of_base)}


def check_params(loss, given, *, prefix, hint=""):
    """Raise ValueError for the first of `given` that is no parameter of the loss.

    `prefix` is what stood before the names. A base has no reduction.
    """
    names = _own_names(loss)
    if names is None:
        return
    of_base = remove_prefix(PREFIX, given) if _has_base(loss) else {}
    names -= {"reduction"} if prefix.endswith(PREFIX) else set()
    for name in given:
        if not (name in names or name.removeprefix(PREFIX) in of_base):
            raise ValueError(
                f"Loss {_loss_name(loss)} has no parameter {name!r}, got "
                f"{prefix}{name}.{did_you_mean(name, names)} Its parameters: "
                f"{sorted(names)}.{hint}"
            )
    if of_base:
        base = {**_own_params(loss), **given}["base"]
        check_params(base, of_base, prefix=prefix + PREFIX, hint=hint)


def _own_names(loss):
    """Return the names of a loss's own parameters, None if any name may be one."""
    signature = _signature(loss)
    is_open = any(each.kind is each.VAR_KEYWORD for each in signature.values())
    if not is_known(loss) or (is_open and not _has_base(loss)):
        return None
    return set(signature) - {"base_params"}


def _own_params(loss):
    """Return the parameters of a loss with the values it has, or else its defaults."""
    if isinstance(loss, CalibrationLoss):
        return loss.get_params(deep=False)
    parameters = _signature(loss).values()
    return {p.name: p.default for p in parameters if p.default is not p.empty}


def add_prefix(prefix, params):
    """Return parameters under the names that they have one level above."""
    return {f"{prefix}{name}": value for name, value in params.items()}


def remove_prefix(prefix, params):
    """Return the parameters whose names have a prefix, by their names without it."""
    return {
        name.removeprefix(prefix): value
        for name, value in params.items()
        if name.startswith(prefix)
    }


def _has_base(loss):
    return "base_params" in _signature(loss)


def _signature(loss):
    """Return the constructor's parameters of a loss; of an instance of torch none."""
    loss = find_loss(loss) if is_known(loss) else None
    loss = type(loss) if isinstance(loss, CalibrationLoss) else loss
    return inspect.signature(loss).parameters if isinstance(loss, type) else {}


def _loss_name(loss):
    """Return what a message calls a loss."""
    if isinstance(loss, str):
        return repr(loss)
    return loss.__name__ if isinstance(loss, type) else type(loss).__name__
