"""Outputs of networks, and processes that train one network together.

All processes have the same mini-batches. Each computes the logits of its part, and
`gather_rows` gives all of them the logits of the whole batch. The loss, its records and
all scores are then those of a single process.
"""

from collections.abc import Iterable, Mapping
from math import prod
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from skorch import NeuralNet
from skorch.utils import to_numpy
from torch import Tensor
from torch.nn.functional import pad
from torch.nn.parallel import DistributedDataParallel

from sklearn_calib._validation.arrays import row_blocks, shown
from sklearn_calib._validation.types import Floats


def unwrapped(module: Any) -> Any:
    """Return the network inside of `DistributedDataParallel`."""
    return module.module if isinstance(module, DistributedDataParallel) else module


def group_of(module: Any) -> Any:
    """Return the processes that train a network together, None if there is only one.

    They are those of `DistributedDataParallel`, which averages their gradients. A
    network without it belongs to its process, even if there are others.
    """
    # Set by torch.compile. Asking a module for an attribute that it lacks is slow.
    module = getattr(module, "_modules", {}).get("_orig_mod", module)
    if not isinstance(module, DistributedDataParallel):
        return None
    return module.process_group if module.process_group.size() > 1 else None


def is_first(group: Any) -> bool:
    """Return whether this process writes files for the processes of a group."""
    return group is None or group.rank() == 0


def wait(group: Any) -> None:
    """Wait for the other processes of a group."""
    if group is not None:
        dist.barrier(group)


def share_buffers(module: Any) -> None:
    """Give all processes the buffers of the first, such as running means.

    `DistributedDataParallel` does this before a forward pass, but not after the last.
    """
    group = group_of(module)
    if group is not None:
        for buffer in module.buffers():
            dist.broadcast(buffer, dist.get_global_rank(group, 0), group)


def own_part(rows: Any, group: Any) -> Any:
    """Return the rows of a mini-batch that belong to this process."""
    if isinstance(rows, Mapping):
        return {name: own_part(each, group) for name, each in rows.items()}
    if isinstance(rows, tuple | list):
        return type(rows)(own_part(each, group) for each in rows)
    return rows.tensor_split(group.size())[group.rank()]


def gather_rows(output: Any, n_rows: int, group: Any) -> Any:
    """Return the output for a whole mini-batch from those for the parts.

    The gradient of the part of this process flows on into its network.
    """
    if isinstance(output, tuple):
        return tuple(gather_rows(each, n_rows, group) for each in output)
    n_each, n_larger = divmod(n_rows, group.size())
    sizes = [n_each + (rank < n_larger) for rank in range(group.size())]
    if not isinstance(output, Tensor) or output.shape[:1] != (sizes[group.rank()],):
        raise TypeError(
            "module must return a tensor with one row for each sample, or a tuple of "
            "such tensors, to be trained in several processes, got "
            f"{tuple(getattr(output, 'shape', ()))} of type {type(output).__name__} "
            f"for {sizes[group.rank()]} samples. Train it in one process, or return "
            "one value for each sample."
        )
    # gloo gathers tensors of equal shape only.
    n_missing = sizes[0] - len(output)
    own = pad(output.detach(), (0, 0) * (output.ndim - 1) + (0, n_missing))
    padded = [torch.empty_like(own) for _ in sizes]
    dist.all_gather(padded, own.contiguous(), group)
    parts = [rows[:size] for rows, size in zip(padded, sizes, strict=True)]
    if output.requires_grad:
        own = output.view_as(output)
        # DistributedDataParallel divides the sum over the parts by their number.
        own.register_hook(lambda gradient: gradient * group.size())
        parts[group.rank()] = own
    return torch.cat(parts)


def check_same_batch(
    target: Tensor, sample_weight: Tensor | None, device: Any, group: Any
) -> None:
    """Raise ValueError unless all processes of a group have the same mini-batch."""
    weight = target.new_empty(0) if sample_weight is None else sample_weight
    numbers = [len(target), _checksum(target), _checksum(weight)]
    own = torch.tensor(numbers, dtype=torch.float64, device=device)
    found = [torch.empty_like(own) for _ in range(group.size())]
    dist.all_gather(found, own, group)
    others = [rank for rank, each in enumerate(found) if not each.equal(found[0])]
    if others:
        raise ValueError(
            "X, y, sample_weight and random_state must be the same in all processes "
            "that train a network together, got a mini-batch in process 0 that differs "
            f"from those in {shown(others)}. Load the same data in each process, and "
            "let train_split, batch_transform and iterator_train draw from torch's "
            "global generator, or from generators with a fixed seed."
        )


def _checksum(values: Tensor) -> float:
    """Return a number that depends on all values and on their order."""
    values = values.detach().double().flatten()
    places = torch.arange(1, len(values) + 1, dtype=values.dtype, device=values.device)
    return (values @ places).item()


def concatenate_logits(batches: Iterable[Any]) -> Floats:
    """Return the outputs of a network for each batch as one float64 array.

    The memory grows in place, which that of an array does not since numpy 2.5. A list
    of outputs would stay in memory beside the result.
    """
    memory = bytearray()
    shape: tuple[int, ...] = ()
    for batch in batches:
        output = batch[0] if isinstance(batch, tuple) else batch
        # numpy reads single precision, but not bfloat16.
        rows = to_numpy(output if output.element_size() > 2 else output.float())
        shape = rows.shape[1:]
        for part in row_blocks(len(rows), prod(shape)):
            memory.extend(np.ascontiguousarray(rows[part], dtype=np.float64))
    return np.frombuffer(memory).reshape(-1, *shape)


def predict_batch(net: Any, batch: Any, training: bool = False) -> Any:
    """Return the output of a network for a mini-batch, as `evaluation_step` does.

    The `evaluation_step` of skorch's mixin for accelerate gathers the outputs of all
    processes, which `infer` has done already.
    """
    has_group = dist.is_available() and dist.is_initialized()
    is_one_of_many = has_group and dist.get_world_size() > 1
    step = (NeuralNet if is_one_of_many else type(net)).evaluation_step
    return step(net, batch, training=training)
