"""What the parameters of `NeuralClassifier` must be: names, ranges, and together."""

import inspect
import warnings
from numbers import Integral, Real

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
from torch.utils.data import DataLoader

from sklearn_calib._core.validation import Interval, Options, StrOptions, did_you_mean
from sklearn_calib.estimators._batches import iterate_batches
from sklearn_calib.losses import CalibrationLoss

CONSTRAINTS = {
    "module": [callable, None],
    "optimizer": [callable],
    "callbacks": [list, StrOptions({"disable"}), None],
    "lr": [Interval(Real, 0, None, closed="neither")],
    "batch_size": [Interval(Integral, 1, None, closed="left"), Options(int, {-1})],
    "max_epochs": [Interval(Integral, 1, None, closed="left")],
    "validation_fraction": [Interval(Real, 0, 1, closed="neither"), None],
    "early_stopping": ["boolean"],
    "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
    "batch_transform": [callable, None],
    "refit": ["boolean"],
    "posterior": ["boolean"],
    "random_state": ["random_state"],
    "dtype": [StrOptions({"float32", "float64"})],
    "train_split": [callable, None],
    "iterator_train": [callable],
    "iterator_valid": [callable],
    "dataset": [callable],
    "warm_start": ["boolean"],
    "use_caching": ["boolean", StrOptions({"auto"})],
    "verbose": ["verbose"],
}

# Parameters of skorch that have another spelling here, with the way out.
REFUSED = {
    "classes": "partial_fit(X, y, classes=...)",
    "criterion": "loss, and loss__... for its parameters",
    "predict_nonlinearity": "nothing: predict_proba is the softmax of the logits",
}


def check_not_refused(names):
    """Raise TypeError for parameters of skorch that are spelled otherwise here."""
    for name in names:
        prefix = name.split("__")[0]
        if prefix in REFUSED:
            raise TypeError(
                f"{name!r} is not a parameter of NeuralClassifier. Use "
                f"{REFUSED[prefix]}."
            )


def check_known(estimator, names):
    """Raise TypeError for misspelt names, which a constructor with **kwargs takes."""
    classes = [each for each in type(estimator).mro() if "__init__" in vars(each)]
    known = {name for each in classes for name in inspect.signature(each).parameters}
    known -= {*REFUSED, "args", "kwargs"}
    prefixes = {f"{prefix}__" for prefix in estimator.prefixes_}
    for name in names:
        prefix, is_nested, _ = name.partition("__")
        alike = prefixes if is_nested else known
        if f"{prefix}{is_nested}" not in alike:
            raise TypeError(
                f"{name!r} is not a parameter of {type(estimator).__name__}."
                f"{did_you_mean(f'{prefix}{is_nested}', alike)} Its parameters: "
                f"{sorted(known)}, and those that begin with one of {sorted(prefixes)}."
            )


def check_takes(target, names, prefix):
    """Raise ValueError for the first name that is not a parameter of a part."""
    known = accepted_names(target)
    for name in names:
        if known is not None and name.partition("__")[0] not in known:
            raise ValueError(
                f"{_name(target)} has no parameter {name!r}, got {prefix}{name}."
                f"{did_you_mean(name, known)} Its parameters: {sorted(known)}."
            )


def accepted_names(target):
    """Return the names of what a callable or a callback takes, None for any."""
    if isinstance(target, Callback):
        return {*target.get_params(deep=False)}
    try:
        parameters = inspect.signature(target).parameters.values()
    except (TypeError, ValueError):  # written in C
        return None
    names = {each.name for each in parameters if each.kind is not each.VAR_KEYWORD}
    if target is iterate_batches:
        return names | accepted_names(DataLoader)
    if len(names) < len(parameters):
        return None
    is_optimizer = isinstance(target, type) and issubclass(
        target, torch.optim.Optimizer
    )
    return names - {"params"} | {"param_groups"} if is_optimizer else names


def _name(target):
    return getattr(target, "__name__", type(target).__name__)


def check_params(net):
    """Raise an error for a parameter of a net with a wrong name or value."""
    check_known(net, net._get_param_names())
    BaseEstimator._validate_params(net)
    check_device(net.device)
    for part in ("optimizer", "iterator_train", "iterator_valid", "dataset"):
        check_takes(getattr(net, part), net.get_params_for(part), f"{part}__")
    check_takes(torch.compile, net.get_params_for("compile"), "compile__")
    if net.callbacks != "disable":
        check_callbacks(net)
    if net.refit and net.warm_start:
        raise ValueError(
            "refit must be False with warm_start, which goes on from weights that "
            "have seen the data, got True. Pass one of the two."
        )
    _warn_of_plain_update(net.loss)


def _warn_of_plain_update(loss):
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


def check_takes_weights(criterion):
    """Raise TypeError unless a loss has a form with sample weights."""
    if "sample_weight" not in inspect.signature(criterion.forward).parameters:
        raise TypeError(
            f"sample_weight must be None for the loss {type(criterion).__name__}, "
            "which has no weighted form. Choose a loss whose forward takes "
            "sample_weight, or repeat the samples."
        )


def check_posterior(net):
    """Raise ValueError if a net is to return a posterior, and its loss knows none."""
    if not net.posterior:
        return
    n_classes = len(net.classes_inferred_)
    try:
        net._loss.posterior(np.full((1, n_classes), 1 / n_classes))
    except NotImplementedError:
        raise ValueError(
            f"posterior must be False for the loss {type(net.criterion_).__name__}"
            ", which is not known to determine it, got True. Choose another loss, "
            "such as 'focal', or calibrate afterwards."
        ) from None


def check_device(device):
    """Raise ValueError unless torch can put numbers on a device, and get them back."""
    if not isinstance(device, str | torch.device | None):
        raise TypeError(
            f"`device` must be a str, a torch.device or None, got {device!r}. Write "
            "'cpu', 'cuda' or 'cuda:0'."
        )
    try:
        torch.zeros(1, device=device).item()
    except (AssertionError, RuntimeError) as error:
        reason = str(error).partition("\n")[0]
        raise ValueError(
            f"`device` must name a device of this machine, got {device!r}: {reason}. "
            "Write 'cpu', 'cuda' or 'cuda:0'."
        ) from error


def check_callbacks(net):
    """Raise an error for what is no callback, and for parameters of none."""
    for item in net.callbacks or []:
        _check_callback(item)
    callbacks = dict(net._uniquely_named_callbacks())
    # These two come and go with verbose and early_stopping.
    names = {"early_stopping", "print_log", *callbacks}
    for param, value in net.get_params_for("callbacks").items():
        name, is_nested, _ = param.partition("__")
        if name not in names:
            raise ValueError(
                f"callbacks__{param} must name a callback that there is, got "
                f"{name!r}.{did_you_mean(name, names)} The callbacks: "
                f"{sorted(names)}."
            )
        if not is_nested:
            _check_callback((name, value))
            callbacks[name] = value
    for name, callback in callbacks.items():
        given = net.get_params_for(f"callbacks__{name}")
        if callback is not None:
            check_takes(callback, given, f"callbacks__{name}__")


def _check_callback(item):
    """Raise TypeError unless an item of `callbacks` is one, or a name and one."""
    is_pair = isinstance(item, tuple | list) and len(item) == 2
    callback = item[1] if is_pair and isinstance(item[0], str) else item
    kind = callback if isinstance(callback, type) else type(callback)
    if not (callback is None or issubclass(kind, Callback)):
        raise TypeError(
            "`callbacks` must hold callbacks of skorch, classes or instances, or pairs "
            f"of a name and one, got {item!r}. Write "
            "callbacks=[('stop', skorch.callbacks.EarlyStopping())]."
        )


def check_can_refit(callbacks):
    """Raise ValueError if a callback cannot go through a second run on all data."""
    for name, callback in callbacks:
        if name != "early_stopping" and _belongs_to_one_run(callback):
            raise ValueError(
                "refit must be False beside a callback that loads a state or "
                "watches validation data, which the run on all data has not, got "
                f"True and {name!r}. Leave it out, or use early_stopping=True."
            )


def _belongs_to_one_run(callback):
    """Tell whether a callback of skorch would fail, or begin elsewhere, in a second."""
    if isinstance(callback, LoadInitState):
        return True
    monitor = getattr(callback, "monitor", None)
    watches = isinstance(monitor, str) and monitor.startswith("valid")
    return watches and isinstance(callback, Checkpoint | EarlyStopping | LRScheduler)
