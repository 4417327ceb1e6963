"""Serialised state of a net: complete for pickle, without code for other formats."""

from contextvars import ContextVar

import torch
from sklearn.base import clone
from skorch.utils import get_map_location

from sklearn_calib._torch.net_state import (
    from_bytes,
    get_states,
    part_names,
    set_states,
    to_bytes,
)
from sklearn_calib.estimators._neural.placement import SharedNet

_IS_PICKLING = ContextVar("is_pickling", default=False)
_TEMPORARY = ("_trainer", "_source")  # exist only during fit
_FROM_PICKLE = "_from_pickle"
_WEIGHTS = "_weights"


def _blank(cls):
    """Return an empty net for a state that comes from a pickle."""
    net = cls.__new__(cls)
    vars(net)[_FROM_PICKLE] = True
    return net


class NetWithState(SharedNet):
    """skorch's classifier with a state that does not need pickle.

    A pickle contains the network itself, as skorch writes it. Formats that read only
    known types, such as skops, call `__getstate__` and `__setstate__`, which store and
    read the parameters, and the weights as bytes. Loading builds the network from the
    parameters and loads the weights into it, without running code from the file.
    """

    def __reduce_ex__(self, protocol):
        token = _IS_PICKLING.set(True)
        try:
            _, _, state, *rest = super().__reduce_ex__(protocol)
        finally:
            _IS_PICKLING.reset(token)
        return _blank, (type(self),), state, *rest

    def __getstate__(self):
        if _IS_PICKLING.get():
            return _without(super().__getstate__(), _TEMPORARY)
        parts = [f"{name}_" for name in part_names(self)]
        built = [*parts, "callbacks_", "virtual_params_"]
        state = _without(vars(self), [*_TEMPORARY, *built])
        _check_has_no_tensors(state)
        # Fitted callbacks contain training data, and each run creates new ones.
        state["callbacks"] = clone(self.callbacks, safe=False)
        if state.pop("initialized_", False):
            state[_WEIGHTS] = to_bytes(get_states(self))
            self._check_comes_back(state)
        return state

    def __setstate__(self, state):
        # Only unpickling sets this, never a file of another format.
        if vars(self).pop(_FROM_PICKLE, False):
            self.device = state["device"]
            super().__setstate__({**state, "device": self.device})
            return
        state = dict(state)
        if "__cuda_dependent_attributes__" in state:
            raise ValueError(
                f"The state of {type(self).__name__} must not contain a pickle, got "
                "one. It was written by an earlier version, or by someone who wants "
                "to run code. If you trust it, load and save it with that version."
            )
        weights = state.pop(_WEIGHTS, None)
        vars(self).update(state)
        if weights is not None:
            self.device = self._check_device(self.device, get_map_location(self.device))
            self._rebuild(weights)
            self._initialize_callbacks()

    def _rebuild(self, weights):
        """Build the parts from the parameters, and load their weights."""
        try:
            states = from_bytes(weights)
        except ValueError as error:
            raise ValueError(
                f"The weights in the state of {type(self).__name__} must be in the "
                f"format that it writes, got other bytes: {error}. Save the net again."
            ) from error
        with torch.random.fork_rng(devices=()):
            self._initialize_virtual_params()
            self._initialize_module()
            if "criterion" in states:
                self._initialize_criterion()
            if "optimizer" in states:
                self._initialize_optimizer()
        set_states(self, states)
        for name in set(part_names(self)) - set(states):
            setattr(self, f"{name}_", None)  # trim_for_prediction sets it to None
        self.initialized_ = True

    def _check_comes_back(self, state):
        """Raise ValueError unless the parameters build a network with these weights."""
        twin = type(self).__new__(type(self))
        state = dict(state)
        weights = state.pop(_WEIGHTS)
        vars(twin).update(state)
        try:
            twin._rebuild(weights)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
        else:
            if _frozen(twin) == _frozen(self):
                return
            reason = "other weights are frozen"
        raise ValueError(
            "module_ must be what the parameters build to be saved without pickle, got "
            f"another module: {reason}. Change it in the constructor of the module, or "
            "use pickle."
        )


def _check_has_no_tensors(state):
    """Raise ValueError for a parameter that is a network instance, not a class."""
    for name, value in state.items():
        if isinstance(value, torch.nn.Module) and value.state_dict():
            raise ValueError(
                f"{name} must be a class to be saved without pickle, got an instance "
                f"of {type(value).__name__} with tensors. Pass the class and "
                f"its parameters as {name}__..., or use pickle."
            )


def _without(state, names):
    return {name: value for name, value in state.items() if name not in names}


def _frozen(net):
    """Return which weights are frozen."""
    return [not p.requires_grad for p in net.module_.parameters()]
