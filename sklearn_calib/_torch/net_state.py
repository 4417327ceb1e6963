"""Serialization of a net's state without pickle, so loading cannot execute code."""

import io
import json
import math
import zipfile
from collections import OrderedDict

import numpy as np
import torch

from sklearn_calib._torch.processes import unwrapped
from sklearn_calib._validation.arrays import first_line

_STRUCTURE = "structure"


def part_names(net):
    """Return the names of a net's modules, losses and optimizers."""
    return [*net._modules, *net._criteria, *net._optimizers]


def get_states(net):
    """Return the state dicts of a net's parts, except for parts that were removed."""
    parts = {name: _part(net, name) for name in part_names(net)}
    return {name: p.state_dict() for name, p in parts.items() if p is not None}


def set_states(net, states):
    """Load states returned by `get_states` into a net with the same parameters."""
    for name, state in states.items():
        _part(net, name).load_state_dict(state)


def _part(net, name):
    return unwrapped(getattr(net, f"{name}_", None))


def to_bytes(content):
    """Return tensors, numbers and strings in plain containers as bytes.

    An npz archive contains the bytes of each tensor, and the structure in JSON.
    `torch.save` is not used, as `torch.load` reads pickles, and its option
    `weights_only` has been bypassed (CVE-2025-32434, CVE-2026-24747).
    """
    tensors = []
    structure = json.dumps(_pack(content, tensors)).encode()
    file = io.BytesIO()
    arrays = {str(i): tensor for i, tensor in enumerate(tensors)}
    np.savez(file, **{_STRUCTURE: np.frombuffer(structure, np.uint8)}, **arrays)
    return file.getvalue()


def from_bytes(content):
    """Return content stored by `to_bytes`, with tensors on the CPU."""
    try:
        _check_is_stored(content)
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            structure = json.loads(archive[_STRUCTURE].tobytes())
            names = {*archive.files} - {_STRUCTURE}
            return _unpack(structure, {name: archive[name] for name in names})
    except Exception as error:
        raise ValueError(f"{type(error).__name__}: {first_line(error)}") from error


def _check_is_stored(content):
    """Raise ValueError for an archive that is larger when it is unpacked.

    `to_bytes` does not compress. A compressed archive may fill the memory.
    """
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        size = sum(entry.file_size for entry in archive.infolist())
    if size > len(content):
        raise ValueError(f"its {len(content)} bytes would become {size} bytes")


def _pack(value, tensors):
    """Return a value as scalars and nested lists that start with the kind of value."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, torch.Tensor):
        flat = value.detach().cpu().contiguous()
        # The stride of an empty tensor, or of one with a single element, may be 0.
        flat = flat.as_strided((flat.numel(),), (1,))
        tensors.append(flat.view(torch.uint8).numpy())
        dtype = str(value.dtype).removeprefix("torch.")
        return ["tensor", len(tensors) - 1, dtype, list(value.shape)]
    if isinstance(value, dict):
        items = [[_pack(part, tensors) for part in item] for item in value.items()]
        # `_metadata` contains the versions of the modules in a state dict.
        return ["dict", items, _pack(getattr(value, "_metadata", None), tensors)]
    if isinstance(value, list | tuple):
        kind = "list" if isinstance(value, list) else "tuple"
        return [kind, [_pack(each, tensors) for each in value]]
    raise TypeError(
        "The state of a net and of its callbacks must consist of tensors, numbers, "
        "strings, lists, tuples and dicts to be read without pickle, got "
        f"{type(value).__name__}. Convert it in state_dict."
    )


def _unpack(value, arrays):
    """Return a value packed by `_pack`."""
    if not isinstance(value, list):
        return value
    kind, content, *more = value
    if kind == "tensor":
        dtype = getattr(torch, more[0])
        if not isinstance(dtype, torch.dtype):
            raise ValueError(f"{more[0]!r} is not a dtype")
        # Each array belongs to one tensor, which has as many bytes.
        data = torch.from_numpy(arrays.pop(str(content)))
        if math.prod(more[1]) * dtype.itemsize != data.numel():
            raise ValueError(f"{data.numel()} bytes are not {dtype} of shape {more[1]}")
        tensor = torch.empty(more[1], dtype=dtype)
        tensor.view(-1).view(torch.uint8).copy_(data)
        return tensor
    if kind == "dict":
        unpacked = OrderedDict(
            [_unpack(part, arrays) for part in item] for item in content
        )
        metadata = _unpack(more[0], arrays)
        if metadata is None:
            return dict(unpacked)
        unpacked._metadata = metadata
        return unpacked
    return {"list": list, "tuple": tuple}[kind](_unpack(v, arrays) for v in content)
