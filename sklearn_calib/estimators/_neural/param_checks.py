"""Checks of the names and values of the parameters of `NeuralClassifier`."""

import inspect
import warnings
from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator
from skorch.callbacks import (
    Callback,
    Checkpoint,
    EarlyStopping,
    LoadInitState,
    LRScheduler,
)
from skorch.callbacks.scoring import ScoringBase

from sklearn_calib._sklearn.nested_params import prefix_of, remove_prefix
from sklearn_calib._torch.processes import group_of
from sklearn_calib._validation.arrays import shown
from sklearn_calib._validation.declarations import (
    ABOVE_0,
    BETWEEN_0_AND_1,
    COUNT,
    Options,
    StrOptions,
    did_you_mean,
)
from sklearn_calib.estimators._neural.net_data import check_class_weight
from sklearn_calib.estimators._neural.params import (
    HINT,
    LOSS,
    check_module_takes,
    check_takes,
    hint_for,
    list_callbacks,
    names_of_parts,
)
from sklearn_calib.estimators._neural.placement import check_device
from sklearn_calib.losses import CalibrationLoss

# What skorch calls of a callback, of any class.
_CALLBACK = [name for name in dir(Callback) if name[0] != "_"]

# Parameters of skorch that are not supported here, with their replacements.
REFUSED = {
    "classes": "Use fit(X, y, classes=...), or initialize(classes=...) to predict with "
    "a trained module",
    "criterion": "Use loss, and loss__... for its parameters",
    "predict_nonlinearity": "Omit it: predict_proba always applies softmax",
}

# Scores for early stopping, which are recorded in the history; True means the first.
STOPPING_SCORES = ("valid_log_loss", "valid_refinement")

CONSTRAINTS = {
    "module": [callable, None],
    "optimizer": [callable],
    "callbacks": [list, StrOptions({"disable"}), None],
    "lr": ABOVE_0,
    "batch_size": [*COUNT, Options(int, {-1})],
    "max_epochs": COUNT,
    "validation_fraction": [*BETWEEN_0_AND_1, None],
    "early_stopping": ["boolean", StrOptions({*STOPPING_SCORES})],
    "n_iter_no_change": COUNT,
    "class_weight": [dict, StrOptions({"balanced"}), None],
    "batch_transform": [callable, None],
    "refit": ["boolean"],
    "posterior": ["boolean"],
    "random_state": ["random_state"],
    "n_threads": [*COUNT, StrOptions({"auto"})],
    "dtype": [StrOptions({"float32", "float64"})],
    "iterator_train": [callable],
    "iterator_valid": [callable],
    "dataset": [callable],
    "warm_start": ["boolean"],
    "use_caching": ["boolean", StrOptions({"auto"})],
    "verbose": ["verbose"],
}

# Options of a DataLoader, with the values that keep all samples in their order.
_IN_ORDER = {
    "batch_sampler": None,
    "drop_last": False,
    "in_order": True,
    "sampler": None,
    "shuffle": False,
}


def check_not_refused(names: Iterable[str]) -> None:
    """Raise TypeError for fitted attributes, and parameters that are not supported."""
    for name in names:
        if name.endswith("_"):
            raise TypeError(
                f"{name!r} is not a parameter of NeuralClassifier. Names of fitted "
                "attributes end in an underscore; remove it from the name."
            )
        prefix = name.split("__")[0]
        if prefix in REFUSED:
            raise TypeError(
                f"{name!r} is not a parameter of NeuralClassifier. {REFUSED[prefix]}."
            )


def check_known(net: Any) -> None:
    """Raise TypeError for unknown names, which a constructor with **kwargs accepts.

    The prefixes of parts that a subclass adds are unknown until these are built.
    """
    own = _names_of_class(net.__class__)
    for name in net._get_param_names():
        prefix, is_nested, _ = name.partition("__")
        # A method that was replaced in this instance is not a parameter either.
        is_own = name in own or hasattr(type(net), name)
        if not (net._is_part(prefix) if is_nested else is_own):
            known = own | names_of_parts(net.module, net.optimizer)
            raise TypeError(
                f"{name!r} is not a parameter of {type(net).__name__}."
                f"{hint_for(name, type(net), known, {*net.prefixes_})}"
            )


@cache
def _names_of_class(kind: type) -> set[str]:
    """Return the parameters of the constructors of a class and of its bases."""
    classes = [each for each in kind.mro() if "__init__" in vars(each)]
    own = {name for each in classes for name in inspect.signature(each).parameters}
    return own - {*REFUSED, "args", "kwargs", "self"}


def check_parts_take(net: Any, params: dict[str, Any]) -> None:
    """Raise ValueError for a name among new parameters that a component lacks."""
    of_module = remove_prefix("module__", params)
    module = params.get("module", net.module)
    check_module_takes(module, of_module, net._module_prefix)
    for part in ("optimizer", "iterator_train", "iterator_valid", "dataset"):
        target = params.get(part, getattr(net, part))
        if callable(target):
            check_takes(target, remove_prefix(f"{part}__", params), f"{part}__")
    check_takes(torch.compile, remove_prefix("compile__", params), "compile__")
    of_callbacks = remove_prefix("callbacks__", params)
    if of_callbacks and not isinstance(params.get("callbacks", net.callbacks), str):
        kind: Any = type(net)
        twin = kind.__new__(kind)
        vars(twin).update({**vars(net), **params})
        check_callback_names(twin, of_callbacks)


def check_params(net: Any) -> None:
    """Raise an error for a parameter of a net with an invalid name or value."""
    check_known(net)
    _check_train_split(net.train_split)
    BaseEstimator._validate_params(net)
    check_class_weight(net.class_weight)
    check_device(vars(net)["device"])
    check_parts_take(net, net.get_params(deep=False))
    _check_keeps_order(net.get_params_for("iterator_valid"))
    CalibrationLoss.check_params(
        net.loss, net.get_params_for("loss"), prefix=LOSS, hint=HINT
    )
    if net.callbacks != "disable":
        check_callbacks(net)
    if net.refit and net.warm_start:
        raise ValueError(
            "refit must be False with warm_start, got True: warm_start would continue "
            "from weights that refit trained on the validation data. Set only one of "
            "the two."
        )
    _warn_of_plain_update(net.loss)


def _check_keeps_order(options: dict[str, Any]) -> None:
    """Raise ValueError for an option with which predictions do not match the rows."""
    for name, wanted in _IN_ORDER.items():
        value = options.get(name)
        if value is not None and value is not wanted:
            raise ValueError(
                f"iterator_valid__{name} must be {wanted}, got {shown(value)}, since "
                "predictions have one row for each row of X, in its order. Remove it, "
                f"or set iterator_train__{name}."
            )


def _check_train_split(train_split: Any) -> None:
    """Raise TypeError for a validation set in place of a function that returns it."""
    if not (train_split is None or train_split is False or callable(train_split)):
        raise TypeError(
            "`train_split` must be a function or None, got "
            f"{type(train_split).__name__}. For a validation set, pass "
            "skorch.helper.predefined_split(skorch.dataset.Dataset(X_valid, y_valid))."
        )


def _warn_of_plain_update(loss: Any) -> None:
    """Warn of a loss with a method `update` that does not declare to learn."""
    kind = loss if isinstance(loss, type) else type(loss)
    if issubclass(kind, CalibrationLoss):
        is_silent = kind.update is not CalibrationLoss.update
        # Losses with a base loss declare it in a property that asks the base.
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


def check_takes_weights(criterion: torch.nn.Module) -> None:
    """Raise TypeError unless the loss supports `sample_weight`."""
    if "sample_weight" not in inspect.signature(criterion.forward).parameters:
        raise TypeError(
            f"sample_weight must be None for the loss {type(criterion).__name__}, "
            "which does not support it. Choose a loss whose forward accepts "
            "sample_weight, or repeat the samples."
        )


def check_shared(net: Any, seed: int | None) -> None:
    """Raise ValueError if several processes train the net together without a seed."""
    if seed is None and group_of(net.module_) is not None:
        raise ValueError(
            "random_state must be an integer if several processes train a network "
            "together, got None. Set it to the same integer in all processes."
        )


def check_posterior(net: Any) -> None:
    """Raise ValueError if `posterior` is True and the loss does not support it."""
    if not net.posterior:
        return
    n_classes = len(net.classes_inferred_)
    try:
        net._loss.posterior(np.full((1, n_classes), 1 / n_classes))
    except NotImplementedError:
        raise ValueError(
            f"posterior must be False for the loss {type(net.criterion_).__name__}"
            ", for which no map to the class posterior is known, got True. Choose "
            "another loss, such as 'focal', or fit a calibrator."
        ) from None


def check_callbacks(net: Any) -> None:
    """Raise an error for an invalid callback, or for a parameter of an unknown one."""
    for item in net.callbacks or []:
        _check_callback(item)
    given = net.get_params_for("callbacks")
    check_callback_names(net, given)
    callbacks = dict(net._uniquely_named_callbacks())
    for param, value in given.items():
        name, is_nested, _ = param.partition("__")
        if not is_nested:
            _check_callback((name, value))
            callbacks[name] = value
    for name, callback in callbacks.items():
        if callback is not None:
            prefix = f"{name}__"
            check_takes(callback, remove_prefix(prefix, given), f"callbacks__{prefix}")


def check_callback_names(net: Any, given: dict[str, Any]) -> None:
    """Raise ValueError for a parameter of a callback that a net does not have."""
    if not given:
        return
    # Whether the first two exist depends on verbose and early_stopping.
    names = {"early_stopping", "print_log", *(name for name, _ in list_callbacks(net))}
    for param in given:
        name = prefix_of(param)
        if name not in names:
            raise ValueError(
                f"callbacks__{param} does not name a callback, got {name!r}."
                f"{did_you_mean(name, names)} Valid callbacks are: {sorted(names)}."
            )


def _check_callback(item: Any) -> None:
    """Raise TypeError unless an item is a callback, or a pair of a name and one."""
    is_pair = isinstance(item, tuple | list) and len(item) == 2
    callback = item[1] if is_pair and isinstance(item[0], str) else item
    if not (callback is None or all(hasattr(callback, name) for name in _CALLBACK)):
        raise TypeError(
            "`callbacks` must hold skorch callbacks (classes or instances), or pairs "
            f"of a name and a callback, got {shown(item)}. Write "
            "callbacks=[('stop', skorch.callbacks.EarlyStopping())]."
        )


def check_can_refit(callbacks: list[tuple[str, Callback]]) -> None:
    """Raise ValueError if a callback cannot take part in a second run on all data."""
    scores = [each for _, each in callbacks if isinstance(each, ScoringBase)]
    of_validation = {each.name_ for each in scores if not each.on_train}
    for name, callback in callbacks:
        if name != "early_stopping" and _belongs_to_one_run(callback, of_validation):
            raise ValueError(
                f"refit must be False with the callback {name!r}, which loads a state "
                "or monitors validation data: the second run on all data has no "
                "validation data. Remove the callback, or use early_stopping=True."
            )


def _belongs_to_one_run(callback: Callback, of_validation: set[str]) -> bool:
    """Return whether a skorch callback would fail, or load a state, in a second run.

    `of_validation` are names of scores that are computed on validation data.
    """
    if isinstance(callback, LoadInitState):
        return True
    monitor = getattr(callback, "monitor", None)
    if not isinstance(monitor, str):
        return False
    is_score = monitor.removesuffix("_best") in of_validation
    kinds = Checkpoint | EarlyStopping | LRScheduler
    return isinstance(callback, kinds) and (is_score or monitor.startswith("valid"))


def stopping_score(net: Any) -> str:
    """Return the score that the early stopping of a net monitors."""
    score = net.early_stopping
    return score if isinstance(score, str) else STOPPING_SCORES[0]


def warn_of_calibration_error(callbacks: Iterable[tuple[str, Callback]]) -> None:
    """Warn of a callback that selects the epoch with the lowest calibration error."""
    for name, callback in callbacks:
        monitor = getattr(callback, "monitor", None)
        selects = isinstance(callback, Checkpoint | EarlyStopping)
        if not (selects and isinstance(monitor, str)):
            continue
        words = monitor.removesuffix("_best").split("_")
        if any(word.endswith(("ece", "mce")) for word in words):
            warnings.warn(
                f"{name!r} in callbacks should not monitor {monitor!r}: an untrained "
                "network with a low accuracy and a low confidence is well calibrated, "
                "so the first epoch may be the best. Monitor 'valid_log_loss', or "
                "'valid_refinement' if you calibrate the network afterwards.",
                UserWarning,
            )
