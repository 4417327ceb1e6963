"""States and files of a neural classifier: pickle, skops, parameters, `save`."""

import os
import warnings
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from functools import cache
from typing import IO, Any

import numpy as np
import torch
from sklearn.base import clone
from skorch.callbacks import LRScheduler
from skorch.dataset import Dataset
from skorch.utils import get_map_location

from sklearn_calib._sklearn.nested_params import add_prefix, prefix_of
from sklearn_calib._state.json_values import check_object, refuse
from sklearn_calib._state.schema import (
    Count,
    Labels,
    ListOf,
    Names,
    Spec,
    Tensors,
)
from sklearn_calib._state.whole_file import whole_file
from sklearn_calib._torch.net_state import (
    from_bytes,
    get_states,
    part_names,
    set_states,
    to_bytes,
)
from sklearn_calib._torch.processes import group_of, is_first, unwrapped, wait
from sklearn_calib._validation.arrays import first_line, shown
from sklearn_calib.estimators._neural.batches import iterate_batches
from sklearn_calib.estimators._neural.networks import MLP, ConvNet
from sklearn_calib.estimators._neural.param_checks import check_params
from sklearn_calib.losses import CalibrationLoss, get_loss, get_loss_names

_SAVED = {
    "batch_size",
    "class_weight",
    "dtype",
    "early_stopping",
    "iterator_valid__batch_size",
    "loss",
    "lr",
    "max_epochs",
    "module",
    "n_iter_no_change",
    "posterior",
    "random_state",
    "refit",
    "use_caching",
    "validation_fraction",
    "verbose",
    "warm_start",
}
_SAVED_PREFIXES = {"loss", "module"}

# These change predictions, and cannot be saved.
_DEFAULTS = {"dataset": Dataset, "iterator_valid": iterate_batches}

# Options of DataLoader that do not change predictions.
_OF_MACHINE = {
    f"iterator_valid__{name}"
    for name in (
        "multiprocessing_context",
        "num_workers",
        "persistent_workers",
        "pin_memory",
        "prefetch_factor",
        "timeout",
    )
}
# Larger sizes overflow in torch.
_LARGEST_BATCH = 2**62

_MODULES = {"ConvNet": ConvNet, "MLP": MLP}

File = str | os.PathLike[str] | IO[Any]

IS_PICKLING = ContextVar("is_pickling", default=False)
TEMPORARY = ("_run", "_source")  # exist only during fit
FROM_PICKLE = "_from_pickle"
_WEIGHTS = "_weights"


def _read_inputs(state: dict[str, Any]) -> tuple[tuple[int, ...], list[str] | None]:
    """Return the shape of a sample, or the names of several inputs."""
    of_array = {"n_features_in_", "feature_names_in_", "input_shape"} & state.keys()
    if "input_names" in state:
        if of_array:
            refuse("input_names", "alone, without the keys of an array", of_array)
        return (), state["input_names"].tolist()
    if missing := {"n_features_in_", "input_shape"} - of_array:
        refuse("state", "an object with input_names, or the keys of an array", missing)
    shape = tuple(state["input_shape"])
    if shape[0] != state["n_features_in_"]:
        refuse("input_shape", f"{state['n_features_in_']} at the start", shape)
    return shape, None


def _is_saved(name: str) -> bool:
    return name in _SAVED or (prefix_of(name) in _SAVED_PREFIXES and "__" in name)


def _check_can_be_left_out(name: str, value: Any) -> None:
    """Raise ValueError for a parameter that changes predictions and is not saved."""
    prefix = prefix_of(name)
    if _is_saved(name) or prefix not in _DEFAULTS or name in _OF_MACHINE:
        return
    if name != prefix or value is not _DEFAULTS[prefix]:
        raise ValueError(
            f"{name} must have its default value, because it is not saved and may "
            f"change the predictions, got {shown(value)}. Use joblib or skops instead."
        )


def _name_of_module(module: Any) -> str | None:
    """Return None, the name of a default network, or the full name of a class."""
    for name, default in _MODULES.items():
        if module is default:
            return name
    return None if module is None else _full_name(module)


def _full_name(value: Any) -> str:
    kind = value if isinstance(value, type) else type(value)
    return f"{kind.__module__}.{kind.__qualname__}"


@cache
def _loss_names() -> set[str]:
    return {*get_loss_names(), *get_loss_names(multilabel=True)}


def _flat_loss(loss: Any, given: dict[str, Any]) -> dict[str, Any]:
    """Return the name of a loss and its parameters, with those of its base."""
    if any(isinstance(each, CalibrationLoss) for each in (loss, *given.values())):
        given = CalibrationLoss.list_params(loss, given)
    flat = {"loss": loss, **add_prefix("loss__", given)}
    is_loss = {n for n in flat if n == "loss" or n.endswith("__base")}
    return {n: _name_of_loss(v) if n in is_loss else v for n, v in flat.items()}


def _name_of_loss(loss: Any) -> str | None:
    """Return the name of a loss of the package, or the full name of a class."""
    if loss is None or isinstance(loss, str):
        return loss
    kind = loss if isinstance(loss, type) else type(loss)
    names = {get_loss(name): name for name in _loss_names()}
    return names.get(kind) or _full_name(kind)


def _choose(name: Any, passed: dict[str, Any], param: str, known: set[Any]) -> Any:
    """Return a part of the package by name, or the part that was passed."""
    given = passed[param]
    if not isinstance(name, str | None):
        refuse(param, "a name or null", name)
    if name in known:
        if given is not None:
            raise ValueError(
                f"{param} must be None, since the file has {name!r}, got "
                f"{shown(given)}."
            )
        return name
    if given is None:
        raise ValueError(
            f"{param} must be passed to load this file, as in load(path, "
            f"{param}=...), since it was written with {name!r}."
        )
    return given


def _check_agree(module: Any, tensors: dict[str, torch.Tensor]) -> None:
    """Raise ValueError for tensors with names, shapes or dtypes of another module."""
    wanted = {name: _kind(each) for name, each in module.state_dict().items()}
    found = {name: _kind(each) for name, each in tensors.items()}
    if wanted != found:
        differ = sorted({n for n, _ in wanted.items() ^ found.items()})
        name = differ[0]
        raise ValueError(f"{name!r} must be {wanted.get(name)}, got {found.get(name)}")


def _kind(tensor: torch.Tensor) -> tuple[tuple[int, ...], str]:
    return tuple(tensor.shape), str(tensor.dtype)


def blank_net(cls: Any) -> Any:
    """Return an empty net for a state that comes from a pickle."""
    net = cls.__new__(cls)
    vars(net)[FROM_PICKLE] = True
    return net


# States without pickle --------------------------------------------------------------


def get_plain_state(net: Any) -> dict[str, Any]:
    """Return the state of a net in known types, with the weights as bytes.

    Formats that read only known types, such as skops, store it. Loading builds the
    network from the parameters and loads the weights into it, without running code from
    the file.
    """
    built = [*(f"{name}_" for name in part_names(net)), "callbacks_", "virtual_params_"]
    state = without(vars(net), [*TEMPORARY, *built])
    _check_has_no_tensors(state)
    # Fitted callbacks contain training data, and each run creates new ones.
    state["callbacks"] = clone(net.callbacks, safe=False)
    if state.pop("initialized_", False):
        state[_WEIGHTS] = to_bytes(get_states(net))
        _check_comes_back(net, state)
    return state


def set_plain_state(net: Any, state: dict[str, Any]) -> None:
    """Set a state returned by `get_plain_state`."""
    if "__cuda_dependent_attributes__" in state:
        raise ValueError(
            f"The state of {type(net).__name__} must not contain a pickle, which could "
            "run code, got one."
        )
    vars(net).update(without(state, [_WEIGHTS]))
    if state.get(_WEIGHTS) is not None:
        net.device = net._check_device(net.device, get_map_location(net.device))
        _rebuild(net, state[_WEIGHTS])
        net._initialize_callbacks()


def _rebuild(net: Any, weights: bytes) -> None:
    """Build the parts of a net from the parameters, and load their weights."""
    try:
        states = from_bytes(weights)
    except ValueError as error:
        raise ValueError(
            f"The weights in the state of {type(net).__name__} must be in the "
            f"format that it writes, got other bytes: {error}. Save the net again."
        ) from error
    with torch.random.fork_rng(devices=()):
        net._initialize_virtual_params()
        net._initialize_module()
        if "criterion" in states:
            net._initialize_criterion()
        if "optimizer" in states:
            net._initialize_optimizer()
    set_states(net, states)
    for name in set(part_names(net)) - set(states):
        setattr(net, f"{name}_", None)  # trim_for_prediction sets it to None
    net.initialized_ = True


def _check_comes_back(net: Any, state: dict[str, Any]) -> None:
    """Raise ValueError unless the parameters build a network with these weights."""
    kind: Any = type(net)
    twin = kind.__new__(kind)
    vars(twin).update(without(state, [_WEIGHTS]))
    try:
        _rebuild(twin, state[_WEIGHTS])
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
    else:
        if _frozen(twin) == _frozen(net):
            return
        reason = "other weights are frozen"
    raise ValueError(
        "To be saved without pickle, module_ must be the network that the parameters "
        f"build, got another one: {reason}. Make the change in the constructor of the "
        "module, or use pickle."
    )


# Files of `save_params` -------------------------------------------------------------


@contextmanager
def unwrapped_module(net: Any) -> Iterator[None]:
    """Give the parameters the names that they have in a single process."""
    module = vars(net).get("module_")
    if group_of(module) is None:
        yield
        return
    net.module_ = unwrapped(module)
    try:
        yield
    finally:
        net.module_ = module


def write_params(
    net: Any, save: Callable[..., None], files: dict[str, Any], use_safetensors: bool
) -> None:
    """Write the files of a net atomically with skorch's `save_params`."""
    group = group_of(getattr(net, "module_", None))
    if is_first(group):
        with unwrapped_module(net), ExitStack() as stack:
            for name, file in files.items():
                if isinstance(file, str | os.PathLike):
                    files[name] = str(stack.enter_context(whole_file(file)))
            save(**files, use_safetensors=use_safetensors)
    wait(group)


def get_rates(net: Any) -> list[Any] | None:
    """Return the learning rates of the optimizer, None if there is none."""
    optimizer = getattr(net, "optimizer_", None)
    return optimizer and [group.get("lr") for group in optimizer.param_groups]


def warn_of_loaded_rates(net: Any, before: list[Any] | None) -> None:
    """Warn if a file has replaced the learning rates that the parameters ask for."""
    after = get_rates(net)
    if before in (None, after) or any(
        isinstance(each, LRScheduler) for _, each in net.callbacks_
    ):
        return
    warnings.warn(
        f"The optimizer continues with the learning rate {shown(after)} of the file, "
        f"not with {shown(before)}. To change it, resume with "
        "sklearn_calib.callbacks.Checkpoint, which applies lr, or omit f_optimizer.",
        UserWarning,
    )


# Documents of `sklearn_calib.save` --------------------------------------------------

SCHEMA: dict[str, Spec] = {
    "classes_": Labels(),
    "n_features_in_": Count("n_features_in_", is_optional=True),
    "feature_names_in_": Names("n_features_in_"),
    "input_shape": ListOf(Count("size"), is_optional=True),
    "input_names": Names("n_inputs"),
    "module_": Tensors(),
    "criterion_": Tensors(is_optional=True),
}


def get_saved_params(net: Any) -> dict[str, Any]:
    """Return the parameters of a net that its document contains."""
    params = net.get_params(deep=False)
    for name, value in params.items():
        _check_can_be_left_out(name, value)
    saved = {n: v for n, v in params.items() if _is_saved(n)}
    saved["module"] = _name_of_module(net.module)
    weights = saved["class_weight"]
    if isinstance(weights, dict):
        # The keys of a JSON object are strings.
        saved["class_weight"] = [[label, float(w)] for label, w in weights.items()]
    return {**saved, **_flat_loss(net.loss, net.get_params_for("loss"))}


def get_passed_params(net: Any) -> dict[str, Any]:
    """Return the module and the loss that must be passed to `load`, or None."""
    saved = get_saved_params(net)
    return {
        "module": None if saved["module"] in (None, *_MODULES) else net.module,
        "loss": None if saved["loss"] in _loss_names() else net.loss,
    }


def build_from_params(
    cls: Any, params: dict[str, Any], key: str, passed: dict[str, Any]
) -> Any:
    """Return a net with the parameters of a document and those that were passed."""
    check_object(params, key, {"loss", "module"}, {*filter(_is_saved, params)})
    own = {
        "module": _choose(params["module"], passed, "module", {None, *_MODULES}),
        "loss": _choose(params["loss"], passed, "loss", _loss_names()),
    }
    if isinstance(own["module"], str):
        own["module"] = _MODULES[own["module"]]
    if isinstance(params.get("class_weight"), list):
        own["class_weight"] = _as_weights(params["class_weight"], key)
    for name in ("batch_size", "iterator_valid__batch_size"):
        size = params.get(name, -1)
        if not isinstance(size, int | np.integer) or size > _LARGEST_BATCH:
            refuse(f"{key}.{name}", f"an integer up to {_LARGEST_BATCH}", size)
    try:
        net = cls(**{**params, **own})
        check_params(net)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{key} must be parameters of a net: {error}") from error
    return net


def _as_weights(pairs: list[Any], key: str) -> dict[Any, Any]:
    """Return pairs of a label and its weight as a dict."""
    for pair in pairs:
        is_pair = isinstance(pair, list) and len(pair) == 2
        if not is_pair or not isinstance(pair[0], str | int | float | np.generic):
            refuse(f"{key}.class_weight", "pairs of a label and its weight", pair)
    return dict(pairs)


def get_document_state(net: Any) -> dict[str, Any]:
    """Return what the document of a net contains beside the parameters."""
    states = get_states(net)
    tensors = {
        f"{part}_": {
            # torch.compile adds the prefix.
            name.removeprefix("_orig_mod."): each.detach().cpu().numpy()
            for name, each in states[part].items()
        }
        for part in ("module", "criterion")
        if part in states
    }
    names = ("n_features_in_", "feature_names_in_")
    if net._data_names is None and net._input_shape is None:
        raise ValueError(
            "A network that was initialized with a trained module cannot be saved. "
            "Save the module with torch, and the calibrator with sklearn_calib.save."
        )
    if net._data_names is None:
        inputs: dict[str, Any] = {"input_shape": net._input_shape}
    else:
        inputs = {"input_names": np.array(net._data_names)}
    return {
        **{n: v for n, v in vars(net).items() if n in names},
        "classes_": net.classes_,
        **inputs,
        **tensors,
    }


def set_document_state(net: Any, state: dict[str, Any]) -> None:
    """Set a state returned by `get_document_state`, and build the network."""
    shape, names = _read_inputs(state)
    net.classes_inferred_ = state["classes_"]
    for name in ("n_features_in_", "feature_names_in_"):
        if name in state:
            setattr(net, name, state[name])
    net._input_shape, net._data_ndim = shape, 1 + len(shape) if shape else None
    net._data_names = names
    net._data_dtype, net.interrupted_ = net.dtype, False
    net._is_loaded = True
    parts = [part for part in ("module", "criterion") if f"{part}_" in state]
    try:
        states = {
            part: {n: torch.tensor(each) for n, each in state[f"{part}_"].items()}
            for part in parts
        }
        _check_sizes(net, states["module"])
        with torch.random.fork_rng(devices=()):
            net.initialize()
        _check_agree(net.module_, states["module"])
        set_states(net, states)
    except Exception as error:
        raise ValueError(
            "module_ must contain the weights of the network that the parameters "
            f"build, got others: {type(error).__name__}: {first_line(error)}."
        ) from error


def _check_sizes(net: Any, tensors: dict[str, torch.Tensor]) -> None:
    """Compare sizes before memory for a default network is allocated."""
    if net.module not in (None, *_MODULES.values()):
        return  # it may need values to be built
    layers = net.get_params_for("module").get("hidden_sizes", ())
    if np.size(layers) > len(tensors):  # it would take long to build them
        refuse("module__hidden_sizes", f"sizes of {len(tensors)} tensors", [*layers])
    with torch.device("meta"):
        net.initialize_module()
        module = vars(net).pop("module_").eval()
        _check_agree(module, tensors)
        shape = 2, *(net._input_shape or ())
        data = torch.empty(shape, dtype=getattr(torch, net.dtype))
        found = tuple(module(data).shape)
    if found != (2, len(net.classes_)):
        refuse("module_", f"a network with {len(net.classes_)} outputs", found)


def _check_has_no_tensors(state: dict[str, Any]) -> None:
    """Raise ValueError for a parameter that is a network instance, not a class."""
    for name, value in state.items():
        if isinstance(value, torch.nn.Module) and value.state_dict():
            raise ValueError(
                f"{name} must be a class to be saved without pickle, got an instance "
                f"of {type(value).__name__} with tensors. Pass the class and "
                f"its parameters as {name}__..., or use pickle."
            )


def without(state: dict[str, Any], names: Collection[str]) -> dict[str, Any]:
    return {name: value for name, value in state.items() if name not in names}


def _frozen(net: Any) -> list[bool]:
    """Return which weights are frozen."""
    return [not p.requires_grad for p in net.module_.parameters()]
