"""The loss as a parameter of an estimator: a name, a class or an instance."""

import inspect
import warnings
from collections import defaultdict

from skorch.callbacks import Callback

from sklearn_calib._core.nested_params import (
    add_prefix,
    prefix_of,
    remove_prefix,
    replace_params,
)
from sklearn_calib.losses import CalibrationLoss

PREFIX = "loss__"
HINT = (
    " A search over losses with different parameters is a list of grids, one for each "
    "set of parameters."
)


class LossParamsMixin:
    """`loss` and `loss__...` for a skorch net, in place of `criterion`."""

    def get_params(self, deep=True):
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
        params = super().get_params(deep=deep)
        if not deep:
            return params
        # Of an instance scikit-learn lists what it was made with, changed or not.
        others = {k: v for k, v in params.items() if not k.startswith(PREFIX)}
        return {**others, **self._get_loss_params()}

    def _get_loss_params(self):
        """Return the loss and its parameters, with its defaults."""
        params = CalibrationLoss.list_params(self.loss, self.get_params_for("loss"))
        return {"loss": self.loss, **add_prefix(PREFIX, params)}

    def set_params(self, **params):
        """Set parameters of this estimator, its loss, module or callbacks.

        Parameters
        ----------
        **params : dict
            A new `loss` drops the `loss__...` values that were set for another one
            and are not given here, and a new `loss__base` the `loss__base__...`.

        Returns
        -------
        self : object
            This estimator.

        Raises
        ------
        ValueError
            If a `loss__...` is no parameter of the loss.
        """
        new = {k: params.pop(k) for k in list(params) if prefix_of(k) == "loss"}
        new = leave_out_known(new, self._get_loss_params())
        dropped = self._check_loss_params(new) if new else ()
        super().set_params(**params)
        for name in dropped:
            del vars(self)[name]
        vars(self).update(new)
        return self

    def _check_loss_params(self, new):
        """Check new values of the loss and its parameters; return what they end."""
        after = replace_params(self._get_loss_params(), new)
        stored = add_prefix(PREFIX, self.get_params_for("loss"))
        given = {k: v for k, v in after.items() if k in stored or k in new}
        given = remove_prefix(PREFIX, given)
        CalibrationLoss.check_params(after["loss"], given, prefix=PREFIX, hint=HINT)
        return stored.keys() - after.keys()

    def initialize_criterion(self):
        """Build the loss, anew for each fit."""
        params = self.get_params_for("loss")
        self.criterion_ = CalibrationLoss.build(
            self.loss, params, prefix=PREFIX, hint=HINT
        )
        return self


def check_takes_weights(criterion):
    """Raise TypeError unless a loss has a form with sample weights."""
    if "sample_weight" not in inspect.signature(criterion.forward).parameters:
        raise TypeError(
            f"sample_weight must be None for the loss {type(criterion).__name__}, "
            "which has no weighted form. Choose a loss whose forward takes "
            "sample_weight, or repeat the samples."
        )


def warn_of_plain_update(loss):
    """Warn of a loss that looks as if it learned, and does not say so."""
    kind = loss if isinstance(loss, type) else type(loss)
    if issubclass(kind, CalibrationLoss):
        is_silent = kind.update is not CalibrationLoss.update
        # A class with a base declares it by a property, which asks the base.
        is_silent &= not (kind.learns_from_validation or loss.learns_from_validation)
    else:
        is_silent = hasattr(kind, "update") and not issubclass(kind, str)
    if is_silent:
        warnings.warn(
            f"The method update of the loss {kind.__name__} is not called. To learn "
            "from a validation set, inherit from sklearn_calib.losses.CalibrationLoss "
            "and set learns_from_validation = True.",
            UserWarning,
        )


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
