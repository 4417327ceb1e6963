"""What holds during one call of fit: seeds, weights and the validation share."""

import os
import threading
import warnings
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from skorch.dataset import ValidSplit

# Dropout draws from torch's global generator, so two seeded fits in two threads would
# draw from each other's seeds.
_SEED_LOCK = threading.RLock()


def _unlock_in_child():
    """Forget a lock that a thread of the parent holds, which the child has not."""
    global _SEED_LOCK
    _SEED_LOCK = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_unlock_in_child)


@dataclass(frozen=True)
class Training:
    """The state of one call of fit."""

    seed: int | None
    hold_out: bool
    sample_weight: np.ndarray | None
    # The states in which the loss starts the epochs: of a run that holds out data they
    # are kept, and the run on all of the data returns to them.
    loss_states: list


def draw_seed(random_state):
    """Return the seed of a fit: the same for the same int, None for None."""
    if random_state is None:
        return None
    return int(check_random_state(random_state).randint(2**31 - 1))


@contextmanager
def seeded_torch(seed):
    """Seed torch for a while and put its generators back; None leaves them alone."""
    if seed is None:
        yield
        return
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    with _SEED_LOCK, torch.random.fork_rng(devices):
        torch.manual_seed(seed)
        yield


def epoch_seed(seed, epoch):
    """Return the seed of one epoch, which does not depend on the epochs before it."""
    return int(np.random.SeedSequence((seed, epoch)).generate_state(1)[0])


def validation_split(fraction, y, seed):
    """Return the splitter that holds out a stratified share of encoded labels."""
    n_classes, smallest = len(np.unique(y)), np.bincount(y)[np.unique(y)].min()
    n_valid = int(np.ceil(fraction * len(y)))
    if smallest < 2 or not n_classes <= n_valid <= len(y) - n_classes:
        raise ValueError(
            f"validation_fraction={fraction} must leave every class a sample to train "
            f"on and one to validate on, got {len(y)} samples of {n_classes} classes, "
            f"{smallest} of the smallest. Pass more samples, another fraction, or a "
            "train_split of your own."
        )
    return ValidSplit(float(fraction), stratified=True, random_state=seed)


def check_representable(sample_weight, dtype):
    """Raise ValueError for weights that the network's precision turns to 0 or inf."""
    limits = np.finfo(dtype)
    positive = sample_weight[sample_weight > 0]
    if positive.min() < limits.tiny or sample_weight.sum() > limits.max:
        raise ValueError(
            f"sample_weight must stay positive and have a finite sum in {dtype}, got "
            f"weights in [{positive.min():.3g}, {positive.max():.3g}]. Divide them by "
            "their mean, and leave out samples of negligible ones."
        )


def drop_zeros(X, codes, sample_weight):
    """Leave out samples of weight zero, which would still take places in batches."""
    kept = sample_weight > 0
    if kept.all():
        return X, codes, sample_weight
    return X[kept], codes[kept], sample_weight[kept]


def check_two_classes(classes):
    """Raise ValueError if a single class is left to learn."""
    if len(classes) < 2:
        raise ValueError(
            "y must hold at least 2 classes with a positive sample_weight, got "
            f"{len(classes)} class: {classes}. Pass samples of another class."
        )


def warn_if_diverged(history, predicts_numbers):
    """Warn if the last epoch, or its last step, left something that is no number."""
    loss = history[-1].get("train_loss", 0.0) if len(history) else 0.0
    if np.isfinite(loss) and predicts_numbers:
        return
    found = f"The training loss is {loss} after epoch {len(history)}"
    if np.isfinite(loss):
        found = f"The network has diverged in the last step of epoch {len(history)}"
    if not predicts_numbers:
        found += ", and the probabilities are not finite"
    warnings.warn(
        f"{found}. Lower lr, or scale the features.", ConvergenceWarning, stacklevel=2
    )


def warn_of_no_best_epoch(history):
    """Warn that early stopping chose no epoch, so that there is none to repeat."""
    warnings.warn(
        "refit was left out, as valid_log_loss was not finite in any of the "
        f"{len(history)} epochs. The network is that of the last epoch. Lower lr, or "
        "scale the features.",
        ConvergenceWarning,
    )
