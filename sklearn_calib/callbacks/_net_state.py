"""What a net has learned, as tensors in plain containers, which run no code."""

import io

import torch
from skorch.utils import get_map_location

ZIP = b"PK\x03\x04"


def part_names(net):
    """Return the names of a net's modules, losses and optimizers."""
    return [*net._modules, *net._criteria, *net._optimizers]


def get_states(net):
    """Return the state dicts of a net's parts; one that was trimmed has none."""
    parts = {name: getattr(net, f"{name}_", None) for name in part_names(net)}
    return {name: p.state_dict() for name, p in parts.items() if p is not None}


def set_states(net, states):
    """Give a net of the same parameters what `get_states` has returned."""
    for name, state in states.items():
        getattr(net, f"{name}_").load_state_dict(state)


def to_bytes(content):
    """Return tensors, numbers and strings in plain containers as bytes."""
    file = io.BytesIO()
    torch.save(content, file)
    return file.getvalue()


def from_bytes(content, device):
    """Return what `to_bytes` was given, on a device; other bytes are a ValueError."""
    try:
        # The formats before this one run code in torch 2.5, in spite of weights_only.
        if not content.startswith(ZIP):
            raise ValueError("it is not a zip archive of torch.save")
        location = get_map_location(device)
        file = io.BytesIO(content)
        return torch.load(file, map_location=location, weights_only=True)
    except Exception as error:
        raise ValueError(f"{type(error).__name__}: {first_line(error)}") from error


def first_line(error):
    """Return what an error says first; those of torch go on with advice on pickles."""
    return str(error).strip().partition("\n")[0].rstrip(".:")
