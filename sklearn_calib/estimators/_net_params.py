"""Parameters of a net by prefix: listed, set, and acting on what is built already."""

from skorch.callbacks import Callback

from sklearn_calib._core.nested_params import prefix_of, remove_prefix
from sklearn_calib._core.validation import did_you_mean
from sklearn_calib.estimators._loss_params import leave_out_known
from sklearn_calib.estimators._parameters import check_callbacks, check_takes


class NetParamsMixin:
    """`get_params` and `set_params` for a skorch net.

    A parameter is an attribute, and acts in the next fit. One that goes on from a
    trained network renews what the parameters concern, no sooner: until then the net
    predicts as it did. Values of an optimizer act at once, as in skorch.
    """

    # The parts that were built by other parameters than those that are set.
    _stale: frozenset[str] = frozenset()

    def _get_params_callbacks(self, deep=True):
        """Return the callbacks that the next fit uses, and their parameters."""
        stored = {k: v for k, v in vars(self).items() if k.startswith("callbacks__")}
        if not deep:
            return stored
        params = {}
        for name, callback in self._listed_callbacks():
            callback = stored.get(f"callbacks__{name}", callback)
            params[f"callbacks__{name}"] = callback
            if isinstance(callback, Callback):
                for key, value in callback.get_params().items():
                    params[f"callbacks__{name}__{key}"] = value
        return {**params, **stored}

    def _listed_callbacks(self):
        """Return the callbacks by name, none if fit would refuse them."""
        try:
            return list(self._uniquely_named_callbacks())
        except (TypeError, ValueError):
            return []

    def set_params(self, **params):
        """Set parameters of this estimator and of what it consists of.

        They act in the next `fit`. In `partial_fit`, and in `fit` with `warm_start`,
        those of `optimizer__...` and `lr` act on the optimizer as it is, and a new
        module, loss or optimizer replaces the one in use.

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
        ValueError
            If a name is not a parameter; then no parameter is set.
        """
        params = leave_out_known(params, self.get_params())
        self._check_names(params)
        live = self._find_live(params)
        of_loss = {k: v for k, v in params.items() if prefix_of(k) == "loss"}
        super().set_params(**of_loss)
        for name, value in params.items():
            if name not in of_loss:
                self._store(name, value)
        if self.initialized_:
            self._act(params, live)
        return self

    def _check_names(self, names):
        """Raise ValueError for a name that is no parameter."""
        own = self._get_param_names()
        nested = {name for name in own if _is_nested(getattr(self, name))}
        prefixes = {*self.prefixes_, *nested}
        for name in names:
            prefix, is_nested, _ = name.partition("__")
            if prefix in prefixes or (name in own and not is_nested):
                continue
            known = [f"{each}__" for each in prefixes] if is_nested else own
            close = did_you_mean(f"{prefix}__" if is_nested else name, known)
            raise ValueError(
                f"Invalid parameter {name!r} for estimator {type(self).__name__}."
                f"{close} Valid parameters are: {sorted(own)}, and those that begin "
                f"with one of {sorted(f'{each}__' for each in prefixes)}."
            )

    def _store(self, name, value):
        prefix, is_nested, rest = name.partition("__")
        if is_nested and prefix not in self.prefixes_:
            getattr(self, prefix).set_params(**{rest: value})
            return
        setattr(self, name, value)
        if is_nested:
            self._params_to_validate = {*self._params_to_validate, name}

    # What is built already -------------------------------------------------------

    def _find_live(self, params):
        """Return where each value goes that can act on an optimizer as it is."""
        live = {}
        for part in self._optimizers if self.initialized_ else ():
            if part in {*params, *self._stale}:
                continue
            given = remove_prefix(f"{part}__", params)
            check_takes(getattr(self, part), given, f"{part}__")
            has_own_lr = f"{part}__lr" in {*params, *vars(self)}
            if part == "optimizer" and "lr" in params and not has_own_lr:
                given["lr"] = params["lr"]
            for name in given.keys() - {"param_groups"}:
                groups, option = _find_groups(getattr(self, f"{part}_"), name)
                if not _needs_new_state(groups, option, given[name]):
                    live[name if name in params else f"{part}__{name}"] = groups, option
        return live

    def _act(self, params, live):
        """Let the optimizer take what it can, and note what is to be renewed."""
        for name, (groups, option) in live.items():
            for group in groups:
                group[option] = params[name]
                if option == "lr":
                    group["initial_lr"] = params[name]  # from which schedules go on
        kinds = {
            "compile": {"compile"},
            "loss": {"loss", *self._criteria},
            "module": {*self._modules},
            "optimizer": {*self._optimizers},
        }
        changed = {prefix_of(name) for name in params if name not in live}
        stale = {kind for kind, names in kinds.items() if names & changed}
        if stale:
            self._stale |= stale
        if not self.history_:
            self._renew()

    def _renew(self):
        """Build anew what was built by other parameters, and what depends on it."""
        stale = self._stale
        vars(self).pop("_stale", None)
        if "module" in stale:
            self._initialize_module()
        if stale & {"loss", "module"}:
            self._initialize_criterion()
        if "compile" in stale:
            self._compile_again()
        learns = next(self.criterion_.parameters(), None) is not None
        if stale & {"module", "optimizer"} or (learns and "loss" in stale):
            self._initialize_optimizer()
        for group in self.optimizer_.param_groups:
            if "lr" in group:  # a schedule that begins now asks for it
                group.setdefault("initial_lr", group["lr"])

    def _compile_again(self):
        """Compile the parts as they are, or stop doing so."""
        for name in (*self._modules, *self._criteria):
            part = getattr(self, f"{name}_")
            part = self.torch_compile(getattr(part, "_orig_mod", part), name)
            setattr(self, f"{name}_", part)

    def initialize(self):
        """Build all parts by the parameters that are set."""
        vars(self).pop("_stale", None)
        return super().initialize()

    def initialize_callbacks(self):
        """Build the callbacks, and refuse parameters of one that is not there."""
        check_callbacks(self)
        return super().initialize_callbacks()

    def initialize_optimizer(self):
        """Build the optimizer, and set what was set for one of its groups."""
        super().initialize_optimizer()
        params = remove_prefix("optimizer__", vars(self))
        for name, value in params.items():
            if name.startswith("param_groups__"):
                groups, option = _find_groups(self.optimizer_, name)
                groups[0][option] = value
        return self


def _find_groups(optimizer, name):
    """Return the groups of an optimizer that a parameter is for, and the option."""
    groups = optimizer.param_groups
    if not name.startswith("param_groups__"):
        return groups, name
    _, index, option = [*name.split("__", 2), ""][:3]
    if not (index.isdecimal() and int(index) < len(groups)):
        raise ValueError(
            f"optimizer__{name} must name one of the {len(groups)} parameter groups, "
            f"counted from 0, got {index!r}. Write optimizer__param_groups__0__lr."
        )
    if option not in groups[int(index)]:
        raise ValueError(
            f"optimizer__{name} must name an option of the optimizer, got {option!r}."
            f"{did_you_mean(option, groups[0])}"
        )
    return [groups[int(index)]], option


def _needs_new_state(groups, option, value):
    """Tell whether an option is switched on that an optimizer keeps state for."""
    is_off = not all(group.get(option) for group in groups)
    return is_off and (value is True or (option == "momentum" and value))


def _is_nested(value):
    """Tell whether a value has parameters of its own, as scikit-learn tells it."""
    return hasattr(value, "set_params") and not isinstance(value, type)
