"""Resuming a training from a checkpoint."""

import joblib
from skorch.helper import SliceDataset
from skorch.utils import is_dataset, to_numpy
from torch import nn

from sklearn_calib.callbacks import Checkpoint

# Parameters that may differ between a run and its continuation.
_FREE = (
    *("callbacks", "device", "max_epochs", "verbose"),
    # Those of skorch's mixin for accelerate.
    *("accelerator", "callbacks__print_log__sink", "unwrap_after_train"),
)


def find_checkpoint(net):
    """Return the checkpoint among the callbacks of a net, or None."""
    found = [each for _, each in net.callbacks_ if isinstance(each, Checkpoint)]
    if len(found) > 1:
        raise ValueError(
            "callbacks must hold one sklearn_calib.callbacks.Checkpoint, got "
            f"{len(found)}. Remove the others."
        )
    return found[0] if found else None


def check_can_resume(net, *, hold_out, seed):
    """Raise ValueError for a training that cannot be resumed."""
    for name, is_set, way_out in [
        ("warm_start", net.warm_start, "Set max_epochs to the sum of all epochs"),
        ("refit", net.refit, "Use early_stopping without refit"),
        ("partial_fit", not hold_out, "Call fit"),
    ]:
        if is_set:
            raise ValueError(
                f"{name} must not be used with a Checkpoint, which resumes one "
                f"call of fit. {way_out}, or remove the Checkpoint."
            )
    if seed is None:
        raise ValueError(
            "random_state must be an integer with a Checkpoint, got None, since the "
            "results of a resumed training would differ. Set it to an integer."
        )


def resume(net, checkpoint, n_epochs):
    """Load a checkpoint, and return the number of remaining epochs."""
    n_epochs = net.max_epochs if n_epochs is None else n_epochs
    n_done = checkpoint.resume(net)
    if n_done > n_epochs:
        raise ValueError(
            f"max_epochs must be at least {n_done}, the epochs of the "
            f"checkpoint {str(checkpoint.file)!r}, got {n_epochs}. Remove the "
            "file to train from the start."
        )
    return n_epochs - n_done


def training_key(net, X, y, sample_weight):
    """Return a hash of the data and the parameters of a training."""
    params = fingerprint(net)
    params = {name: params[name] for name in params if name not in _FREE}
    # Datasets may be too large to hash, or change while they are read.
    is_lazy = is_dataset(X) or isinstance(X, SliceDataset)
    data = type(X).__qualname__ if is_lazy else X
    return joblib.hash([params, net.classes_inferred_, data, y, sample_weight])


def fingerprint(net):
    """Return the parameters of a net in a form with a reproducible hash.

    joblib hashes a module and its copy differently although their weights are equal, so
    modules are replaced by their type, representation and weights.
    """
    params = net.get_params(deep=False)
    del params["verbose"]
    return {name: _fingerprint(value) for name, value in params.items()}


def _fingerprint(value):
    if not isinstance(value, nn.Module):
        return value
    state = {name: to_numpy(tensor) for name, tensor in value.state_dict().items()}
    return type(value), repr(value), state
