"""Number of torch's threads, chosen by the size of a mini-batch's work."""

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from skorch.dataset import get_len
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

# Multiply-adds of a forward pass that are worth a thread: about a millisecond. With
# less work the threads wait for each other, on a busy machine for most of the time.
PER_THREAD = 25_000_000


class _Allowed(threading.local):
    """Number of torch's threads in this thread outside of the contexts."""

    n_threads: int | None = None


_ALLOWED = _Allowed()


class WorkCounter(TorchDispatchMode):
    """Count the multiply-adds of matrix products and convolutions in the context."""

    def __init__(self) -> None:
        super().__init__()
        self.n_multiply_adds = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        output = func(*args, **kwargs)
        count = flop_registry.get(func._overloadpacket)
        if count is not None:
            self.n_multiply_adds += count(*args, **kwargs, out_val=output) // 2
        return output


@contextmanager
def restored_threads() -> Iterator[None]:
    """Let `use_threads` change the number of threads in the context."""
    outer, before = _ALLOWED.n_threads, torch.get_num_threads()
    _ALLOWED.n_threads = before if outer is None else outer
    try:
        yield
    finally:
        _set_threads(before)
        _ALLOWED.n_threads = outer


def use_threads(n_threads: int | str, n_multiply_adds: float) -> None:
    """Set the number of threads for the work of a mini-batch, within a context.

    "auto" is one thread and one more for each `PER_THREAD` multiply-adds. It is never
    more than outside of the context.
    """
    if _ALLOWED.n_threads is None:
        return
    if n_threads == "auto":
        # The work of a compiled network is infinite.
        n_threads = 1 + int(min(n_multiply_adds / PER_THREAD, _ALLOWED.n_threads))
    _set_threads(min(int(n_threads), _ALLOWED.n_threads))


class NetWithThreads:
    """skorch's net that chooses torch's threads by the work of each mini-batch."""

    n_threads: int | str = "auto"  # missing in older pickles
    compile: bool
    _placement: Any
    module_: torch.nn.Module
    # Multiply-adds of a forward pass for one sample, None before the first pass.
    _work: float | None = None

    def infer(self, x: Any, **fit_params: Any) -> Any:
        """Return the output of the network; the first pass counts its work."""
        infer = partial(super().infer, x, **fit_params)  # type: ignore[misc]
        n_samples = len(x) if isinstance(x, torch.Tensor) else get_len(x)
        self._use_threads(n_samples)
        if self._work is not None:
            return infer()
        output, self._work = self._count(infer, n_samples)
        self._use_threads(n_samples)  # the backward pass of the same mini-batch
        return output

    def _count(self, infer: Callable[[], Any], n_samples: int) -> tuple[Any, float]:
        """Return the output, and the number of multiply-adds for one sample."""
        if self.compile:  # its products and convolutions may be fused
            return infer(), math.inf
        with WorkCounter() as counter:
            output = infer()
        # Recurrent layers are not counted; each of their weights is used at least once.
        n_weights = sum(p.numel() for p in self.module_.parameters())
        return output, max(counter.n_multiply_adds / n_samples, n_weights)

    def _use_threads(self, n_samples: int) -> None:
        """Set the number of threads; "auto" is one until the work is known.

        A forked process hangs with more if its parent has used torch's threads.
        """
        if str(self._placement).startswith("cpu"):
            use_threads(self.n_threads, n_samples * (self._work or 0))


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
