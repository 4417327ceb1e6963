"""Nested parameters: `loss__...`, and `module__...`, `encoder__...`, `head__...`."""

import inspect
from collections import defaultdict
from typing import Any, Self

from sklearn.base import BaseEstimator
from skorch.callbacks import Callback

from sklearn_calib._core.nested_params import (
    add_prefix,
    prefix_of,
    remove_prefix,
    replace_params,
)
from sklearn_calib._core.validation import did_you_mean
from sklearn_calib.losses import CalibrationLoss

LOSS = "loss__"
HINT = (
    " A search over losses with different parameters is a list of grids, one for each "
    "set of parameters."
)

_BOTH = {"batch_size", "callbacks", "compile", "iterator_train", "iterator_valid"}
_BOTH |= {"lr", "max_epochs", "optimizer"}
_OF_THE_HEAD = {"batch_transform", "early_stopping", "n_iter_no_change", "posterior"}
_OF_THE_HEAD |= {"refit", "train_split", "use_caching", "validation_fraction"}

# For each prefix of RefCalClassifier the names that may follow, None if any may.
STAGES = {
    "encoder": None,
    "head": _BOTH | _OF_THE_HEAD,
    "loss": None,
    "refine": _BOTH,
}


class NestedParams(BaseEstimator):
    """`get_params` and `set_params` of an estimator with a loss and other parts.

    Each parameter is an attribute, those of parts under their names with the prefix.
    A subclass has the prefixes in `_prefixes`.
    """

    def _get_param_names(self):
        return [name for name in vars(self) if name[0] != "_" and name[-1] != "_"]

    def get_params_for(self, prefix: str) -> dict[str, Any]:
        """Return the parameters with a prefix, by their names without it."""
        return remove_prefix(f"{prefix}__", vars(self))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Get the parameters of this estimator.

        Parameters
        ----------
        deep : bool, default=True
            Include the parameters of the current loss and of its base, with their
            defaults, and those of the callbacks.

        Returns
        -------
        params : dict
            Parameter names mapped to their values.
        """
        # Not skorch's, which lists the callbacks of the fit before.
        params = BaseEstimator.get_params(self, deep=deep)
        if not deep:
            return params
        # Of an instance scikit-learn lists what it was made with, changed or not.
        others = {k: v for k, v in params.items() if not k.startswith(LOSS)}
        return {**others, **self._get_callback_params(), **self._get_loss_params()}

    def _get_callback_params(self):
        """Return the callbacks and their parameters, if there are any."""
        return {}

    def _get_loss_params(self):
        """Return the loss and its parameters, with its defaults."""
        given = self.get_params_for("loss")
        params = CalibrationLoss.list_params(self.loss, given)
        return {"loss": self.loss, **add_prefix(LOSS, params)}

    def set_params(self, **params: Any) -> Self:
        """Set parameters of this estimator and of what it consists of.

        They act in the next `fit`. `partial_fit`, and `fit` with `warm_start`, go on
        from what is trained: there `optimizer__...` and `lr` act on the optimizer as
        it is, and a new module, loss or optimizer replaces the one in use.

        Parameters
        ----------
        **params : dict
            Parameter names mapped to their values. A new `loss` drops the `loss__...`
            values that were set for another one and are not given here, and a new
            `loss__base` the `loss__base__...`.

        Returns
        -------
        self : object
            This estimator.

        Raises
        ------
        TypeError
            If a stage of two has no parameter of a name, or a name is one of skorch
            that has another spelling here.

        ValueError
            If another name is not a parameter. No parameter is set then.
        """
        params = leave_out_known(params, self.get_params())
        self._check_names(params)
        self._replace(self._check_loss_params(params), params)
        return self

    def _check_loss_params(self, params):
        """Check new values of the loss and its parameters; return what they end."""
        new = {name: v for name, v in params.items() if prefix_of(name) == "loss"}
        if not new:
            return ()
        after = replace_params(self._get_loss_params(), new)
        stored = add_prefix(LOSS, self.get_params_for("loss"))
        given = {k: v for k, v in after.items() if k in stored or k in new}
        given = remove_prefix(LOSS, given)
        CalibrationLoss.check_params(after["loss"], given, prefix=LOSS, hint=HINT)
        return stored.keys() - after.keys()

    def _replace(self, dropped, params):
        """Set parameters of known names, and forget those that are dropped."""
        nested = self._of_parts(params)
        own = {name: value for name, value in params.items() if name not in nested}
        BaseEstimator.set_params(self, **own)
        for name in dropped:
            del vars(self)[name]
        vars(self).update(nested)

    def _of_parts(self, params):
        """Return the parameters whose names begin with the prefix of a part."""
        return {
            name: value
            for name, value in params.items()
            if "__" in name and prefix_of(name) in self._prefixes
        }


def leave_out_known(params, current):
    """Return parameters without the prefixes all of whose values are set already.

    `get_params` lists the defaults of losses and callbacks too. Setting them would pin
    them, such as the patience of early stopping to an earlier `n_iter_no_change`.
    """
    groups = defaultdict(dict)
    for name, value in params.items():
        groups[prefix_of(name)][name] = value
    return {
        name: value
        for group in groups.values()
        if not all(n in current and _is_same(v, current[n]) for n, v in group.items())
        for name, value in group.items()
    }


def _is_same(value, other):
    """Tell whether a value is the other, or a default callback made like it."""
    if (
        value is other
        or not isinstance(value, Callback)
        or type(value) is not type(other)
    ):
        return value is other
    params, others = value.get_params(), other.get_params()
    return params.keys() == others.keys() and all(
        _is_same(params[name], others[name]) for name in params
    )


# Of nets ----------------------------------------------------------------------------


def callback_params(net):
    """Return the callbacks that the next fit of a net uses, and their parameters."""
    stored = {k: v for k, v in vars(net).items() if k.startswith("callbacks__")}
    params = {}
    for name, callback in _listed_callbacks(net):
        callback = stored.get(f"callbacks__{name}", callback)
        params[f"callbacks__{name}"] = callback
        if isinstance(callback, Callback):
            of_callback = add_prefix(f"callbacks__{name}__", callback.get_params())
            params.update(of_callback)
    return {**params, **stored}


def _listed_callbacks(net):
    """Return the callbacks by name, none if fit would refuse them."""
    try:
        return list(net._uniquely_named_callbacks())
    except (TypeError, ValueError):
        return []


def check_names_of_net(names, net):
    """Raise ValueError for a name that is not a parameter of a net."""
    own = net._get_param_names()
    prefixes = {*net.prefixes_, *(n for n in own if _is_nested(getattr(net, n)))}
    for name in names:
        prefix, is_nested, _ = name.partition("__")
        if prefix in prefixes or (name in own and not is_nested):
            continue
        known = [f"{each}__" for each in prefixes] if is_nested else own
        close = did_you_mean(f"{prefix}__" if is_nested else name, known)
        raise ValueError(
            f"Invalid parameter {name!r} for estimator {type(net).__name__}."
            f"{close} Valid parameters are: {sorted(own)}, and those that begin "
            f"with one of {sorted(f'{each}__' for each in prefixes)}."
        )


def _is_nested(value):
    """Tell whether a value has parameters of its own, as scikit-learn tells it."""
    return hasattr(value, "set_params") and not isinstance(value, type)


# Of stages --------------------------------------------------------------------------


def check_names_of_stages(names, estimator):
    """Raise TypeError for a name that is not a parameter of an estimator or a stage."""
    own = {*inspect.signature(estimator).parameters} - {"kwargs"}
    for name in names:
        stage, _, rest = name.partition("__")
        if rest and stage in STAGES:
            _check_name_in_stage(name, stage, prefix_of(rest))
        elif name not in own:
            raise TypeError(
                f"{name!r} is not a parameter of {estimator.__name__}."
                f"{did_you_mean(name, own)} Its parameters: {sorted(own)}, and those "
                f"that begin with one of {[f'{stage}__' for stage in STAGES]}."
            )


def _check_name_in_stage(name, stage, first):
    """Raise TypeError for a parameter that the net of a stage does not have."""
    known = STAGES[stage]
    if known is None or first in known:
        return
    raise TypeError(
        f"{name!r} is not a parameter: {stage}__... must begin with one of "
        f"{sorted(known)}, got {first!r}.{did_you_mean(first, known)} What both stages "
        "share, such as random_state, dtype and device, has no prefix."
    )
