"""What `sklearn_calib.save` writes of a `NeuralClassifier`, and how it is read."""

from typing import Any, Self

import numpy as np
import torch
from skorch.dataset import Dataset

from sklearn_calib._sklearn.nested_params import add_prefix, prefix_of
from sklearn_calib._state.json_values import check_object, refuse
from sklearn_calib._state.schema import (
    Count,
    Labels,
    ListOf,
    Names,
    Spec,
    StateMixin,
    Tensors,
)
from sklearn_calib._torch.net_state import first_line, get_states, set_states
from sklearn_calib._validation.arrays import shown
from sklearn_calib._validation.types import Floats
from sklearn_calib.estimators._neural.batches import iterate_batches
from sklearn_calib.estimators._neural.networks import MLP, ConvNet
from sklearn_calib.estimators._neural.param_checks import check_params
from sklearn_calib.estimators._neural.param_files import NetWithFiles
from sklearn_calib.losses import CalibrationLoss, get_loss, get_loss_names

_SAVED = {
    "batch_size",
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


class SavableNet(StateMixin, NetWithFiles):
    """skorch's classifier with a state that `sklearn_calib.save` can write."""

    _input_shape: tuple[int, ...] | None
    _data_dtype: str | None
    _data_ndim: int | None
    _data_names: list[str] | None
    _trainer: Any
    _is_loaded = False

    @property
    def _state_schema(self) -> dict[str, Spec]:
        return {
            "classes_": Labels(),
            "n_features_in_": Count("n_features_in_", is_optional=True),
            "feature_names_in_": Names("n_features_in_"),
            "input_shape": ListOf(Count("size"), is_optional=True),
            "input_names": Names("n_inputs"),
            "module_": Tensors(),
            "criterion_": Tensors(is_optional=True),
        }

    def _get_saved_params(self) -> dict[str, Any]:
        params = self.get_params(deep=False)
        for name, value in params.items():
            _check_can_be_left_out(name, value)
        saved = {n: v for n, v in params.items() if _is_saved(n)}
        saved["module"] = _name_of_module(self.module)
        return {**saved, **_flat_loss(self.loss, self.get_params_for("loss"))}

    def _get_passed_params(self) -> dict[str, Any]:
        saved = self._get_saved_params()
        return {
            "module": None if saved["module"] in (None, *_MODULES) else self.module,
            "loss": None if saved["loss"] in _loss_names() else self.loss,
        }

    @classmethod
    def _from_saved_params(
        cls, params: dict[str, Any], key: str, passed: dict[str, Any]
    ) -> Self:
        check_object(params, key, {"loss", "module"}, {*filter(_is_saved, params)})
        own = {
            "module": _choose(params["module"], passed, "module", {None, *_MODULES}),
            "loss": _choose(params["loss"], passed, "loss", _loss_names()),
        }
        if isinstance(own["module"], str):
            own["module"] = _MODULES[own["module"]]
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

    def _get_state(self) -> dict[str, Any]:
        states = get_states(self)
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
        if self._data_names is None and self._input_shape is None:
            raise ValueError(
                "The network must have been fitted to data to be saved, got one that "
                "was initialized with a trained module. Store the module with torch, "
                "and save the calibrator."
            )
        if self._data_names is None:
            inputs: dict[str, Any] = {"input_shape": self._input_shape}
        else:
            inputs = {"input_names": np.array(self._data_names)}
        return {
            **{n: v for n, v in vars(self).items() if n in names},
            "classes_": self.classes_,
            **inputs,
            **tensors,
        }

    def _set_state(self, state: dict[str, Any]) -> None:
        shape, names = _read_inputs(state)
        self.classes_inferred_ = state["classes_"]
        for name in ("n_features_in_", "feature_names_in_"):
            if name in state:
                setattr(self, name, state[name])
        self._input_shape, self._data_ndim = shape, 1 + len(shape) if shape else None
        self._data_names = names
        self._data_dtype, self.interrupted_ = self.dtype, False
        self._is_loaded = True
        parts = [part for part in ("module", "criterion") if f"{part}_" in state]
        try:
            states = {
                part: {n: torch.tensor(each) for n, each in state[f"{part}_"].items()}
                for part in parts
            }
            self._check_sizes(states["module"])
            with torch.random.fork_rng(devices=()):
                self.initialize()
            _check_agree(self.module_, states["module"])
            set_states(self, states)
        except Exception as error:
            raise ValueError(
                "module_ must contain the weights of the network that the parameters "
                f"build, got others: {type(error).__name__}: {first_line(error)}."
            ) from error

    def _check_outputs(self, logits: Floats) -> Floats:
        """Return logits, and check that those of a loaded network have a softmax.

        The training warns if it diverges. The weights in a file, or of a module that
        was trained elsewhere, may lead to overflow, or have another number of classes.
        """
        if not self._is_loaded or self._trainer is not None:
            return logits
        shape = len(logits), len(self.classes_)
        if logits.shape != shape or not np.isfinite(logits.max(axis=1)).all():
            raise ValueError(
                f"module_ must return finite logits of shape {shape}, got shape "
                f"{logits.shape} or NaN from the network that was loaded. Check X and "
                "the classes, or train the network again."
            )
        return logits

    def _check_sizes(self, tensors: dict[str, torch.Tensor]) -> None:
        """Compare sizes before memory for a default network is allocated."""
        if self.module not in (None, *_MODULES.values()):
            return  # it may need values to be built
        with torch.device("meta"):
            self.initialize_module()
            module = self.__dict__.pop("module_").eval()
            _check_agree(module, tensors)
            shape = 2, *(self._input_shape or ())
            data = torch.empty(shape, dtype=getattr(torch, self.dtype))
            found = tuple(module(data).shape)
        if found != (2, len(self.classes_)):
            refuse("module_", f"a network with {len(self.classes_)} outputs", found)


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
            f"{name} must have its default to be saved, since it may change the "
            f"predictions, got {shown(value)}. Use joblib or skops instead."
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
