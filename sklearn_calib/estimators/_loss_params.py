"""The loss as a parameter of an estimator: a name, a class or an instance."""

import inspect

from sklearn_calib.losses._parameters import (
    add_prefix,
    all_params,
    build_loss,
    check_params,
    remove_prefix,
    replace_params,
)

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
        params = all_params(self.loss, self.get_params_for("loss"))
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
        new = {k: params.pop(k) for k in list(params) if k.partition("__")[0] == "loss"}
        if new:
            self._set_loss_params(new)
        super().set_params(**params)
        if self.initialized_ and new:
            self._initialize_criterion(reason="Re-initializing criterion.")
        return self

    def _set_loss_params(self, new):
        """Set the loss and its parameters, all or none of them."""
        after = replace_params(self._get_loss_params(), new)
        stored = add_prefix(PREFIX, self.get_params_for("loss"))
        given = {k: v for k, v in after.items() if k in stored or k in new}
        given = remove_prefix(PREFIX, given)
        check_params(after["loss"], given, prefix=PREFIX, hint=HINT)
        for name in stored.keys() - after.keys():
            del vars(self)[name]
        vars(self).update(new)

    def initialize_criterion(self):
        """Build the loss, anew for each fit."""
        params = self.get_params_for("loss")
        self.criterion_ = build_loss(self.loss, params, prefix=PREFIX, hint=HINT)
        return self


def check_takes_weights(criterion):
    """Raise TypeError unless a loss has a form with sample weights."""
    if "sample_weight" not in inspect.signature(criterion.forward).parameters:
        raise TypeError(
            f"sample_weight must be None for the loss {type(criterion).__name__}, "
            "which has no weighted form. Choose a loss whose forward takes "
            "sample_weight, or repeat the samples."
        )
