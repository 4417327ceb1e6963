"""Serialization of a net's state without pickle, so loading cannot execute code."""

import json
from typing import Any, TypeAlias

import numpy as np
import torch
from safetensors.torch import load, save

from sklearn_calib._torch.processes import unwrapped
from sklearn_calib._validation.arrays import first_line

_STRUCTURE = "structure"

States: TypeAlias = dict[str, dict[str, Any]]
StateDict: TypeAlias = dict[str, torch.Tensor]


def part_names(net: Any) -> list[str]:
    """Return the names of a net's modules, losses and optimizers."""
    return [*net._modules, *net._criteria, *net._optimizers]


def get_states(net: Any) -> States:
    """Return the state dicts of a net's parts, except for parts that were removed."""
    parts = {name: _part(net, name) for name in part_names(net)}
    return {name: p.state_dict() for name, p in parts.items() if p is not None}


def set_states(net: Any, states: States) -> None:
    """Load states returned by `get_states` into a net with the same parameters."""
    for name, state in states.items():
        _part(net, name).load_state_dict(state)


def _part(net: Any, name: str) -> Any:
    return unwrapped(getattr(net, f"{name}_", None))


def to_bytes(content: Any) -> bytes:
    """Return tensors, numbers and strings in plain containers as bytes.

    They are those of a safetensors file. One of its tensors contains the structure in
    JSON, which may be longer than the metadata of such a file.
    """
    tensors: StateDict = {}
    structure = json.dumps(_pack(content, tensors)).encode()
    owners: dict[int, str] = {}
    for name, tensor in tensors.items():  # safetensors stores no views of shared memory
        if owners.setdefault(tensor.untyped_storage().data_ptr(), name) != name:
            tensors[name] = tensor.clone()
    tensors[_STRUCTURE] = torch.frombuffer(bytearray(structure), dtype=torch.uint8)
    return save(tensors)


def from_bytes(content: bytes) -> Any:
    """Return content stored by `to_bytes`, with tensors on the CPU."""
    try:
        tensors = load(content)
        structure = tensors.pop(_STRUCTURE).numpy().tobytes()
        return _unpack(json.loads(structure), tensors)
    except Exception as error:
        raise ValueError(f"{type(error).__name__}: {first_line(error)}") from error


def _pack(value: Any, tensors: StateDict) -> Any:
    """Return a value as scalars and nested lists that start with the kind of value."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, torch.Tensor):
        name = str(len(tensors))
        tensors[name] = value.detach().cpu().contiguous()
        return ["tensor", name]
    if isinstance(value, dict):
        return ["dict", [[_pack(v, tensors) for v in item] for item in value.items()]]
    if isinstance(value, list | tuple):
        kind = "list" if isinstance(value, list) else "tuple"
        return [kind, [_pack(v, tensors) for v in value]]
    raise TypeError(
        "The state of a net and of its callbacks must consist of tensors, numbers, "
        "strings, lists, tuples and dicts to be read without pickle, got "
        f"{type(value).__name__}. Convert it in state_dict."
    )


def _unpack(value: Any, tensors: StateDict) -> Any:
    """Return a value packed by `_pack`."""
    if not isinstance(value, list):
        return value
    kind, content = value
    if kind == "tensor":
        return tensors.pop(content)
    if kind == "dict":
        return {_unpack(k, tensors): _unpack(v, tensors) for k, v in content}
    return {"list": list, "tuple": tuple}[kind](_unpack(v, tensors) for v in content)
