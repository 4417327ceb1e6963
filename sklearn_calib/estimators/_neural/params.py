"""Nested parameters, such as `loss__gamma`, and effects of new parameters on a net.

New parameters take effect in the next fit, and do not change predictions before it. A
fit that continues the training rebuilds the components whose parameters have changed.
New options of an optimizer take effect immediately, as in skorch. The error for an
unknown parameter suggests another one.
"""

from collections import defaultdict
from collections.abc import Iterable
from difflib import get_close_matches
from inspect import signature
from typing import Any, Self

from sklearn.base import BaseEstimator
from skorch.callbacks import Callback
from torch import nn
from torch.optim import Adam, Optimizer
from torch.utils.data import DataLoader

from sklearn_calib._sklearn.doc_links import DocumentedEstimator
from sklearn_calib._sklearn.nested_params import (
    add_prefix,
    prefix_of,
    remove_prefix,
    replace_params,
)
from sklearn_calib._validation.arrays import shown
from sklearn_calib._validation.declarations import did_you_mean
from sklearn_calib.estimators._neural.batches import iterate_batches
from sklearn_calib.estimators._neural.networks import MLP, ConvNet
from sklearn_calib.losses import CalibrationLoss, get_loss, get_loss_names

LOSS = "loss__"
HINT = (
    " To search over losses with different parameters, pass a list of grids, one for "
    "each set of parameters."
)

_BOTH_STAGES = {"batch_size", "callbacks", "compile", "iterator_train"}
_BOTH_STAGES |= {"iterator_valid", "lr", "max_epochs", "n_threads", "optimizer"}
_HEAD_ONLY = {"batch_transform", "class_weight", "early_stopping", "n_iter_no_change"}
_HEAD_ONLY |= {
    "posterior",
    "refit",
    "train_split",
    "use_caching",
    "validation_fraction",
}

# Names that may follow each prefix of RefCalClassifier; None allows any name.
STAGES = {
    "encoder": None,
    "head": _BOTH_STAGES | _HEAD_ONLY,
    "loss": None,
    "refine": _BOTH_STAGES,
}


class NestedParams(DocumentedEstimator):
    """`get_params` and `set_params` of an estimator with a loss and other components.

    Each parameter is an attribute; parameters of components have a prefix. Subclasses
    list the prefixes in `_prefixes`.
    """

    def _get_param_names(self):
        return [name for name in vars(self) if name[0] != "_" and name[-1] != "_"]

    def get_params_for(self, prefix: str) -> dict[str, Any]:
        """Return the parameters that have a prefix, with the prefix removed."""
        return remove_prefix(f"{prefix}__", vars(self))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Get the parameters of this estimator.

        Parameters
        ----------
        deep : bool, default=True
            Include the parameters of the loss and of its base loss, with their
            defaults, and those of the callbacks.

        Returns
        -------
        params : dict
            Parameter names mapped to their values.
        """
        # As they were set: the attribute `device` is not "auto".
        own = {name: vars(self)[name] for name in self._get_param_names()}
        if not deep:
            return own
        # skorch's `get_params` would list the callbacks of the previous fit.
        params = {**BaseEstimator.get_params(self), **own}
        # For a loss instance, scikit-learn lists its constructor parameters even if
        # other values are set here.
        others = {k: v for k, v in params.items() if not k.startswith(LOSS)}
        return {**others, **self._get_callback_params(), **self._get_loss_params()}

    def _get_callback_params(self):
        """Return the callbacks and their parameters."""
        return {}

    def _get_loss_params(self):
        """Return the loss and its parameters, including defaults."""
        given = self.get_params_for("loss")
        params = CalibrationLoss.list_params(self.loss, given)
        return {"loss": self.loss, **add_prefix(LOSS, params)}

    def set_params(self, **params: Any) -> Self:
        """Set parameters of this estimator and of its components.

        New values take effect in the next `fit`. `partial_fit`, and `fit` with
        `warm_start`, continue the training: `optimizer__...` and `lr` change the
        current optimizer, and a new module, loss or optimizer replaces the current one.

        Parameters
        ----------
        **params : dict
            Parameter names mapped to their values. A new `loss` drops the `loss__...`
            values that were set for the previous one and are not given here. A new
            `loss__base` drops the `loss__base__...` values in the same way.

        Returns
        -------
        self : object
            This estimator.

        Raises
        ------
        TypeError
            If a name is not a parameter of a stage, or is a parameter of skorch that is
            not supported here.

        ValueError
            If any other name is not a parameter. The message suggests similar names.
            No parameter is set then.
        """
        params = leave_out_known(params, self.get_params())
        self._check_names(params)
        self._replace(self._check_loss_params(params), params)
        return self

    def _check_loss_params(self, params):
        """Check new values of the loss and its parameters; return the names to drop."""
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
        """Set checked parameters, and delete those that are dropped."""
        nested = self._of_parts(params)
        own = {name: value for name, value in params.items() if name not in nested}
        BaseEstimator.set_params(self, **own)
        for name in dropped:
            del vars(self)[name]
        vars(self).update(nested)

    def _is_part(self, prefix):
        """Return whether a prefix belongs to a component of the estimator."""
        return prefix in self._prefixes

    def _of_parts(self, params):
        """Return the parameters whose names begin with the prefix of a component."""
        return {
            name: value
            for name, value in params.items()
            if "__" in name and self._is_part(prefix_of(name))
        }


def leave_out_known(params, current):
    """Return the parameters without groups whose values are all set already.

    A group has a common prefix. `get_params` also lists the defaults of losses and
    callbacks. Setting these would freeze them, for example the patience of early
    stopping at the previous value of `n_iter_no_change`.
    """
    groups = defaultdict(dict)
    for name, value in params.items():
        groups[prefix_of(name)][name] = value
    return {
        name: value
        for group in groups.values()
        if not all(
            n in current and _is_same_callback(v, current[n]) for n, v in group.items()
        )
        for name, value in group.items()
    }


def _is_same_callback(value, other):
    """Return whether two values are identical, or callbacks with equal parameters."""
    if (
        value is other
        or not isinstance(value, Callback)
        or type(value) is not type(other)
    ):
        return value is other
    params, others = value.get_params(), other.get_params()
    return params.keys() == others.keys() and all(
        _is_same_callback(params[name], others[name]) for name in params
    )


# Nets -------------------------------------------------------------------------------


def callback_params(net):
    """Return the callbacks of the next fit of a net, and their parameters."""
    stored = {k: v for k, v in vars(net).items() if k.startswith("callbacks__")}
    params = {}
    for name, callback in list_callbacks(net):
        callback = stored.get(f"callbacks__{name}", callback)
        params[f"callbacks__{name}"] = callback
        if isinstance(callback, Callback):
            of_callback = add_prefix(f"callbacks__{name}__", callback.get_params())
            params.update(of_callback)
    return {**params, **stored}


def list_callbacks(net):
    """Return the callbacks with their names, none if they are invalid."""
    try:
        return list(net._uniquely_named_callbacks())
    except (TypeError, ValueError):
        return []


def check_names_of_net(names, net):
    """Raise ValueError for a name that is not a parameter of a net."""
    own = {*net._get_param_names()}
    prefixes = {*net.prefixes_, *(n for n in own if is_nested(getattr(net, n)))}
    for name in names:
        prefix, dunder, _ = name.partition("__")
        if prefix in prefixes or (net._is_part(prefix) if dunder else name in own):
            continue
        known = own | names_of_parts(net.module, net.optimizer)
        raise ValueError(
            f"Invalid parameter {name!r} for estimator {type(net).__name__}."
            f"{hint_for(name, type(net), known, prefixes)}"
        )


def is_nested(value):
    """Return whether scikit-learn treats a value as an object with parameters."""
    return hasattr(value, "set_params") and not isinstance(value, type)


# Stages -----------------------------------------------------------------------------


def check_names_of_stages(names, estimator):
    """Raise TypeError for a name that is not a parameter of the estimator or stage."""
    own = {*signature(type(estimator)).parameters} - {"kwargs"}
    for name in names:
        stage, _, rest = name.partition("__")
        if rest and stage in STAGES:
            _check_name_in_stage(name, stage, prefix_of(rest))
        elif name not in own:
            raise TypeError(
                f"{name!r} is not a parameter of {type(estimator).__name__}."
                f"{_hint_for_stages(name, estimator)}"
            )


def check_names_without_stage(names, estimator):
    """Raise ValueError for a name without a prefix that is not a parameter."""
    for name in names:
        if "__" not in name and name not in estimator._get_param_names():
            raise ValueError(
                f"Invalid parameter {name!r} for estimator {type(estimator).__name__}."
                f"{_hint_for_stages(name, estimator)}"
            )


def _hint_for_stages(name, estimator):
    """Return the hint for an unknown parameter of an estimator with stages."""
    known = names_of_parts(estimator.encoder, Adam, prefix="encoder")
    known = {each for each in known if prefix_of(each) in STAGES}
    known |= {
        f"{stage}__{rest}" for stage, names in STAGES.items() for rest in names or ()
    }
    known |= {*signature(type(estimator)).parameters}
    return hint_for(name, type(estimator), known, {*STAGES})


def _check_name_in_stage(name, stage, first):
    """Raise TypeError for a name that is not a parameter of the net of a stage."""
    known = STAGES[stage]
    if known is None or first in known:
        return
    raise TypeError(
        f"{name!r} is not a parameter: {stage}__... must begin with one of "
        f"{sorted(known)}, got {first!r}.{hint(first, known)} Parameters of "
        "both stages, such as random_state, dtype and device, have no prefix."
    )


def find_live(net, params):
    """Return the optimizer options that can be set without building a new optimizer."""
    live = {}
    for part in net._optimizers if net.initialized_ else ():
        if part in {*params, *net._stale}:
            continue
        given = remove_prefix(f"{part}__", params)
        check_takes(type(getattr(net, f"{part}_")), given, f"{part}__")
        has_own_lr = f"{part}__lr" in {*params, *vars(net)}
        if part == "optimizer" and "lr" in params and not has_own_lr:
            given["lr"] = params["lr"]
        for name in given.keys() - {"param_groups"}:
            groups, option = _find_groups(getattr(net, f"{part}_"), name)
            value, was_set = given[name], all(group.get(option) for group in groups)
            # An option that is switched on may need a state of the optimizer.
            if was_set or not (value is True or (option == "momentum" and value)):
                live[name if name in params else f"{part}__{name}"] = groups, option
    return live


def take_effect(net, params, live):
    """Set the options of the current optimizer, and note which parts to rebuild."""
    for name, (groups, option) in live.items():
        for group in groups:
            group[option] = params[name]
            if option == "lr":
                group["initial_lr"] = params[name]  # the base value of schedules
    kinds = {
        "compile": {"compile"},
        "loss": {"loss", *net._criteria},
        "module": {*net._modules},
        "optimizer": {*net._optimizers},
    }
    changed = {prefix_of(name) for name in params if name not in live}
    stale = {kind for kind, names in kinds.items() if names & changed}
    if stale:
        net._stale |= stale
    if not net.history_:
        renew(net)


def renew(net):
    """Rebuild the parts with changed parameters, and the parts that depend on them."""
    stale = net._stale
    vars(net).pop("_stale", None)
    if "module" in stale:
        net._initialize_module()
    if stale & {"loss", "module"}:
        net._initialize_criterion()
    if "compile" in stale:
        _compile_again(net)
    learns = next(net.criterion_.parameters(), None) is not None
    if stale & {"module", "optimizer"} or (learns and "loss" in stale):
        net._initialize_optimizer()
    for group in net.optimizer_.param_groups:
        if "lr" in group:  # required by a schedule that starts now
            group.setdefault("initial_lr", group["lr"])


def _compile_again(net):
    """Compile the current parts with the new options, or undo the compilation."""
    for name in (*net._modules, *net._criteria):
        part = getattr(net, f"{name}_")
        part = net.torch_compile(getattr(part, "_orig_mod", part), name)
        setattr(net, f"{name}_", part)


def set_group_options(net):
    """Set the options of single parameter groups in a new optimizer."""
    for name, value in net.get_params_for("optimizer").items():
        if name.startswith("param_groups__"):
            groups, option = _find_groups(net.optimizer_, name)
            groups[0][option] = value


def _find_groups(optimizer, name):
    """Return the parameter groups that a parameter sets, and the name of the option."""
    groups = optimizer.param_groups
    if not name.startswith("param_groups__"):
        return groups, name
    _, index, option = [*name.split("__", 2), ""][:3]
    if not (index.isdecimal() and int(index) < len(groups)):
        raise ValueError(
            f"optimizer__{name} must name one of the {len(groups)} parameter groups, "
            f"counted from 0, got {shown(index)}. Write optimizer__param_groups__0__lr."
        )
    if option not in groups[int(index)]:
        raise ValueError(
            f"optimizer__{name} must name an option of the optimizer, got "
            f"{shown(option)}.{did_you_mean(option, groups[0])}"
        )
    return [groups[int(index)]], option


# Hints for unknown names ------------------------------------------------------------

# Names that other libraries use, and the names of the parameters here.
SYNONYMS = {
    "alpha": "weight_decay",
    "augment": "batch_transform",
    "early_stopping_rounds": "n_iter_no_change",
    "epochs": "max_epochs",
    "eta": "lr",
    "eval_set": "train_split",
    "hidden": "hidden_sizes",
    "hidden_dim": "hidden_sizes",
    "hidden_layer_sizes": "hidden_sizes",
    "hidden_units": "hidden_sizes",
    "learning_rate": "lr",
    "learning_rate_init": "lr",
    "loss_fn": "loss",
    "max_iter": "max_epochs",
    "model": "module",
    "n_epochs": "max_epochs",
    "network": "module",
    "num_epochs": "max_epochs",
    "objective": "loss",
    "patience": "n_iter_no_change",
    "seed": "random_state",
    "smoothing": "label_smoothing",
    "solver": "optimizer",
    "test_size": "validation_fraction",
    "valid_set": "train_split",
    "validation": "train_split",
    "validation_data": "train_split",
    "validation_set": "train_split",
    "validation_split": "validation_fraction",
}
_VALIDATION = ["X_val", "y_val"]  # arguments of fit
# The shape of the data decides which of the default networks is built.
_NAMES_OF_DEFAULTS = {*signature(MLP).parameters, *signature(ConvNet).parameters}


def find_near(name: str, known: Iterable[str]) -> list[str]:
    """Return at most three known names that the user may have meant by another name.

    These are its synonym or else the parameters of components with this name, such as
    ``loss__gamma`` for ``gamma``, or else names that are spelt similarly.
    """
    known, wanted = sorted(known), SYNONYMS.get(name, name)
    if wanted in known:
        return [wanted]
    of_parts = [each for each in known if each.endswith(f"__{wanted}")]
    close = get_close_matches(name, known, cutoff=0.8)  # a typing error
    return of_parts[:3] or close or get_close_matches(name, known)


def hint(name: str, known: Iterable[str], *, otherwise: str = "") -> str:
    """Return " Did you mean 'x' or 'y'?" for the nearest names, or another text."""
    return _suggest(find_near(name, known), otherwise)


def hint_for(name: str, owner: type, own: Iterable[str], prefixes: set[str]) -> str:
    """Return the hint for an unknown parameter of an estimator.

    `own` are its parameters and those of its components, which have the `prefixes`.
    """
    prefix, is_nested, _ = name.partition("__")
    near = find_near(prefix, prefixes) if is_nested else find_near(name, own)
    otherwise = (
        f" The documentation of {owner.__name__} lists the parameters, and those with "
        f"a prefix in {sorted(f'{each}__' for each in prefixes)}."
    )
    return _suggest([f"{each}__" for each in near] if is_nested else near, otherwise)


def hint_for_fit(name: str, known: set[str], net: Any, method: str) -> str:
    """Return the hint for an unknown keyword of fit, perhaps a parameter of the net."""
    if SYNONYMS.get(name) == "train_split":
        return _suggest(["validation"] if method == "partial_fit" else _VALIDATION, "")
    own = net.get_params(deep=False)
    keywords = {*known, "sample_weight", "classes", *_VALIDATION}
    is_own = SYNONYMS.get(name, name) in own
    near = [] if is_own else find_near(name, keywords)
    if near or not (params := find_near(name, own)):
        return _suggest(near, "")
    return f" Set the parameter {params[0]!r} of {type(net).__name__} instead."


def _suggest(near: list[str], otherwise: str) -> str:
    if not near:
        return otherwise
    names = [repr(each) for each in near]
    return f" Did you mean {', '.join([*names[:-2], ' or '.join(names[-2:])])}?"


def names_of_parts(module: Any, optimizer: Any, *, prefix: str = "module") -> set[str]:
    """Return the prefixed parameters of a module, an optimizer and of all losses."""
    parts = [(prefix, module_names(module)), ("optimizer", accepted_names(optimizer))]
    parts += [("loss", accepted_names(get_loss(name))) for name in get_loss_names()]
    parts += [("iterator_train", accepted_names(iterate_batches))]
    return {f"{part}__{name}" for part, names in parts for name in names or ()}


def module_names(module: Any) -> set[str] | None:
    """Return the constructor parameters of a module, None if it accepts any name."""
    if module is None:
        return _NAMES_OF_DEFAULTS
    return accepted_names(type(module) if isinstance(module, nn.Module) else module)


def accepted_names(target: Any) -> set[str] | None:
    """Return the parameter names of a callable or callback, None if it accepts any."""
    if isinstance(target, Callback):
        return {*target.get_params(deep=False)}
    try:
        parameters = signature(target).parameters.values()
    except (TypeError, ValueError):  # implemented in C
        return None
    names = {each.name for each in parameters if each.kind is not each.VAR_KEYWORD}
    if target is iterate_batches:
        return names | {*signature(DataLoader).parameters}
    if len(names) < len(parameters):
        return None
    is_optimizer = isinstance(target, type) and issubclass(target, Optimizer)
    return names - {"params"} | {"param_groups"} if is_optimizer else names


def check_takes(target: Any, names: Iterable[str], prefix: str) -> None:
    """Raise ValueError for the first name that is not a parameter of the target."""
    if names:  # reading a signature takes longer than all the rest
        _check_among(accepted_names(target), names, prefix, _name(target))


def check_module_takes(module: Any, names: Iterable[str], prefix: str) -> None:
    """Raise ValueError for the first name that the constructor of a module lacks."""
    if not names:
        return
    own = type(module) if isinstance(module, nn.Module) else module
    owner = "The default ConvNet or MLP" if own is None else _name(own)
    _check_among(module_names(own), names, prefix, owner)


def _check_among(
    known: set[str] | None, names: Iterable[str], prefix: str, owner: str
) -> None:
    """Raise ValueError for the first name not among the known ones, None is all."""
    for name in names:
        if known is not None and name.partition("__")[0] not in known:
            raise ValueError(
                f"{owner} has no parameter {name!r}, got {prefix}{name}."
                f"{hint(name, known, otherwise=' See its documentation.')}"
            )


def _name(target: Any) -> str:
    return getattr(target, "__name__", type(target).__name__)
