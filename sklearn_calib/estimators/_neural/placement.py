"""Devices, threads, processes and seeds of a network."""

import math
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from sklearn.utils import check_random_state
from skorch.dataset import get_len, unpack_data
from skorch.utils import to_tensor
from torch.nn.parameter import is_lazy

from sklearn_calib._torch.processes import (
    check_same_batch,
    gather_rows,
    group_of,
    own_part,
)
from sklearn_calib._validation.arrays import first_line, shown
from sklearn_calib._validation.types import Seed

AUTO = "auto"

# Multiply-adds of a forward pass that are worth a thread: about a millisecond. With
# less work the threads wait for each other, on a busy machine for most of the time, and
# a forked process hangs with more than one if its parent has used torch's threads.
PER_THREAD = 25_000_000
# Dimensions of the weights of a layer that is not a convolution.
MATRIX = 2

# Dropout uses torch's global generator, so two seeded fits in two threads would disturb
# each other.
_SEED_LOCK = threading.RLock()


def find_device(device: Any) -> Any:
    """Return the device that "auto" means here; return any other device unchanged."""
    if not (isinstance(device, str) and device == AUTO):
        return device
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def check_device(device: Any) -> None:
    """Raise an error unless torch can compute on the device."""
    if not isinstance(device, str | torch.device | None):
        raise TypeError(
            f"`device` must be a str, a torch.device or None, got {shown(device)}. "
            "Write 'cpu', 'cuda', 'cuda:0' or 'auto'."
        )
    try:
        torch.zeros(1, device=find_device(device)).item()
    except (AssertionError, RuntimeError) as error:
        raise ValueError(
            f"`device` must name a device of this machine, got {shown(device)}: "
            f"{first_line(error)}. Write 'cpu', 'cuda', 'cuda:0' or 'auto'."
        ) from error


def device_of(net: Any) -> Any:
    """Return the device of a net, which accelerate chooses if `device` is None."""
    device = net.device
    return next(net.module_.parameters()).device if device is None else device


class _Allowed(threading.local):
    """Number of torch's threads in this thread outside of the contexts."""

    n_threads: int | None = None


_ALLOWED = _Allowed()


@contextmanager
def restored_threads() -> Iterator[None]:
    """Let `choose_threads` change the number of threads in the context."""
    outer, before = _ALLOWED.n_threads, torch.get_num_threads()
    _ALLOWED.n_threads = before if outer is None else outer
    try:
        yield
    finally:
        _set_threads(before)
        _ALLOWED.n_threads = outer


def choose_threads(net: Any, x: Any) -> None:
    """Set the number of threads for a mini-batch, within `restored_threads`.

    "auto" is one thread and one more for each `PER_THREAD` multiply-adds, but never
    more than outside of the context. They are estimated: each weight counts once for a
    sample, and a weight of a convolution once for a pixel.
    """
    allowed = _ALLOWED.n_threads
    if allowed is None or not str(device_of(net)).startswith("cpu"):
        return
    n_threads = net.n_threads
    if allowed == 1:
        n_threads = 1
    elif n_threads == "auto":
        n_pixels = math.prod(getattr(x, "shape", ())[2:])
        weights = [w for w in net.module_.parameters() if not is_lazy(w)]
        work = sum(w.numel() * (n_pixels if w.ndim > MATRIX else 1) for w in weights)
        n_threads = 1 + get_len(x) * work // PER_THREAD
    _set_threads(min(int(n_threads), allowed))


def _set_threads(n_threads: int) -> None:
    if n_threads == torch.get_num_threads():
        return
    torch.set_num_threads(n_threads)
    allowed = _ALLOWED.n_threads
    if n_threads != allowed:
        # It is also the number for threads that start later, until another thread sets
        # its own.
        other = threading.Thread(target=torch.set_num_threads, args=(allowed,))
        other.start()
        other.join()


def _unlock_in_child() -> None:
    """Replace a lock that a thread of the parent process may hold."""
    global _SEED_LOCK
    _SEED_LOCK = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_unlock_in_child)


def infer_in_parts(net: Any, infer: Callable[..., Any], x: Any) -> Any:
    """Return the output of a net for a mini-batch, computed by its processes in parts.

    The processes that train a network wrapped by `DistributedDataParallel` have the
    same mini-batches. Each computes the outputs of its rows, and gets those of all. So
    the loss, its records, callbacks and scores are those of a single process.
    """
    group = group_of(net.module_)
    if group is None and net.device is not None:  # skorch converts x
        return infer(x)
    x = to_tensor(x, device=device_of(net))
    # Batch normalisation cannot train on a part with one row.
    if group is None or (n_rows := get_len(x)) < 2 * group.size():
        return infer(x)
    # Dropout differs between the parts, and afterwards all processes have the same
    # random numbers again, for example for batch_transform.
    seed = epoch_seed(int(torch.randint(2**31 - 1, ())), group.rank())
    with seeded_torch(seed, device_of(net)):
        output = infer(own_part(x, group))
    return gather_rows(output, n_rows, group)


def check_same(net: Any, batch: Any) -> None:
    """Raise ValueError unless all processes of a net have the same mini-batch."""
    group = group_of(net.module_)
    if group is not None:
        weight = getattr(batch, "sample_weight", None)
        check_same_batch(unpack_data(batch)[1], weight, device_of(net), group)


def draw_seed(random_state: Seed) -> int | None:
    """Return the seed of a fit: the same for the same int, None for None."""
    if random_state is None:
        return None
    return int(check_random_state(random_state).randint(2**31 - 1))


def seed_torch(seed: int, device: Any = None) -> None:
    """Seed torch's generators, only that of the CPU for a network on the CPU.

    Seeding those of devices that are not used yet takes a hundred times as long.
    """
    if str(device).startswith("cpu") and not torch.cuda.is_initialized():
        torch.default_generator.manual_seed(seed)
    else:
        torch.manual_seed(seed)


@contextmanager
def seeded_torch(seed: int | None, device: Any = None) -> Iterator[None]:
    """Seed torch in the context and restore its generators; do nothing for None."""
    if seed is None:
        yield
        return
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    with _SEED_LOCK, torch.random.fork_rng(devices):
        seed_torch(seed, device)
        yield


def epoch_seed(seed: int, epoch: int) -> int:
    """Return the seed of one epoch, which is independent of earlier epochs."""
    return int(np.random.SeedSequence((seed, epoch)).generate_state(1)[0])
