"""Random seeds of a fit and of its epochs."""

import os
import threading
from contextlib import contextmanager

import numpy as np
import torch
from sklearn.utils import check_random_state

# Dropout uses torch's global generator, so two seeded fits in two threads would disturb
# each other.
_SEED_LOCK = threading.RLock()


def _unlock_in_child():
    """Replace a lock that a thread of the parent process may hold."""
    global _SEED_LOCK
    _SEED_LOCK = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_unlock_in_child)


def draw_seed(random_state):
    """Return the seed of a fit: the same for the same int, None for None."""
    if random_state is None:
        return None
    return int(check_random_state(random_state).randint(2**31 - 1))


def seed_torch(seed, device=None):
    """Seed torch's generators, only that of the CPU for a network on the CPU.

    Seeding those of devices that are not used yet takes a hundred times as long.
    """
    if str(device).startswith("cpu") and not torch.cuda.is_initialized():
        torch.default_generator.manual_seed(seed)
    else:
        torch.manual_seed(seed)


@contextmanager
def seeded_torch(seed, device=None):
    """Seed torch in the context and restore its generators; do nothing for None."""
    if seed is None:
        yield
        return
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    with _SEED_LOCK, torch.random.fork_rng(devices):
        seed_torch(seed, device)
        yield


def epoch_seed(seed, epoch):
    """Return the seed of one epoch, which is independent of earlier epochs."""
    return int(np.random.SeedSequence((seed, epoch)).generate_state(1)[0])
