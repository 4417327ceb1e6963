"""The loss as a parameter of an estimator: a name, a class or an instance."""

import inspect
from copy import deepcopy

from torch import nn

from sklearn_calib._core.validation import did_you_mean
from sklearn_calib.losses import CalibrationLoss, get_loss, get_loss_names


class LossParamsMixin:
    """`loss` and `loss__...` for a skorch net, in place of `criterion`."""

    def get_params(self, deep=True):
        """Get the parameters of this estimator.

        Parameters
        ----------
        deep : bool, default=True
            Include the parameters of the current loss, with its defaults, and those
            of the callbacks.

        Returns
        -------
        params : dict
            Parameter names mapped to their values.
        """
        params = super().get_params(deep=deep)
        if deep:
            params.update(_prefixed(_loss_defaults(self.loss)))
            params.update(_prefixed(self.get_params_for("loss")))
        return params

    def set_params(self, **params):
        """Set parameters of this estimator, its loss, module or callbacks.

        Parameters
        ----------
        **params : dict
            A new `loss` drops the `loss__...` values that were set for another one
            and are not given here.

        Returns
        -------
        self : object
            This estimator.

        Raises
        ------
        ValueError
            If a `loss__...` is no parameter of the loss.
        """
        loss = params.pop("loss", self.loss)
        values = {k: params.pop(k) for k in list(params) if k.startswith("loss__")}
        if _is_known(loss):
            _check_names(loss, [name.removeprefix("loss__") for name in values])
        if loss is not self.loss and not (_are_names(loss, self.loss)):
            for name in self.get_params_for("loss"):
                del vars(self)[f"loss__{name}"]
        changed = loss is not self.loss or values
        self.loss = loss
        vars(self).update(values)
        super().set_params(**params)
        if changed and self.initialized_:
            self._initialize_criterion(reason="Re-initializing criterion.")
        return self

    def initialize_criterion(self):
        """Build the loss, anew for each fit."""
        self.criterion_ = build_loss(self.loss, self.get_params_for("loss"))
        return self


def build_loss(loss, params):
    """Return a new instance of a loss, with `params` in place of its own values."""
    build = get_loss(loss) if isinstance(loss, str) else loss
    if not _is_known(build):
        raise TypeError(
            "loss must be a name, a class or an instance of torch.nn.Module, got "
            f"{loss!r}. The names: {get_loss_names()}."
        )
    _check_names(loss, params)
    if isinstance(build, CalibrationLoss):
        return type(build)(**{**build.get_params(deep=False), **params})
    return build(**params) if isinstance(build, type) else deepcopy(build)


def check_takes_weights(criterion):
    """Raise TypeError unless a loss has a form with sample weights."""
    if "sample_weight" not in inspect.signature(criterion.forward).parameters:
        raise TypeError(
            f"sample_weight must be None for the loss {type(criterion).__name__}, "
            "which has no weighted form. Choose a loss whose forward takes "
            "sample_weight, or repeat the samples."
        )


def _loss_defaults(loss):
    """Return the parameters of a loss with their values; none if it is unknown."""
    if not _is_known(loss):
        return {}
    if isinstance(loss, CalibrationLoss):
        return loss.get_params(deep=False)
    parameters = _signature(loss).values()
    return {p.name: p.default for p in parameters if p.default is not p.empty}


def _signature(loss):
    """Return the constructor's parameters of a known loss; of an instance none."""
    loss = get_loss(loss) if isinstance(loss, str) else loss
    if isinstance(loss, CalibrationLoss):
        loss = type(loss)
    return inspect.signature(loss).parameters if isinstance(loss, type) else {}


def _check_names(loss, names):
    """Raise ValueError for the first name that is no parameter of the loss."""
    valid = _signature(loss)
    if any(each.kind is each.VAR_KEYWORD for each in valid.values()):
        return
    for name in names:
        if name not in valid:
            raise ValueError(
                f"Loss {_loss_name(loss)} has no parameter {name!r}, got "
                f"loss__{name}.{did_you_mean(name, valid)} Its parameters: "
                f"{sorted(valid)}. A search over losses with different parameters is "
                "a list of grids, one for each set of parameters."
            )


def _loss_name(loss):
    """Return what a message calls a loss."""
    if isinstance(loss, str):
        return repr(loss)
    return loss.__name__ if isinstance(loss, type) else type(loss).__name__


def _is_known(loss):
    if isinstance(loss, str):
        return loss in get_loss_names()
    return isinstance(loss, nn.Module) or (
        isinstance(loss, type) and issubclass(loss, nn.Module)
    )


def _are_names(loss, other):
    return isinstance(loss, str) and isinstance(other, str) and loss == other


def _prefixed(params):
    return {f"loss__{name}": value for name, value in params.items()}
