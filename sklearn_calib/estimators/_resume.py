"""How a net resumes from a checkpoint of its training."""

import joblib
from skorch.utils import to_numpy
from torch import nn

from sklearn_calib.callbacks import Checkpoint

# What may differ between a run and its continuation.
_FREE = ("callbacks", "device", "max_epochs", "verbose")


class ResumeMixin:
    """Training of a skorch net that goes on where a `Checkpoint` was written."""

    def on_train_begin(self, net, X=None, y=None, **kwargs):
        """Let a checkpoint load history and weights before callbacks look at them."""
        for checkpoint in self._checkpoints():
            self._check_can_resume()
            checkpoint.begin(net, self._key(X, y))
        super().on_train_begin(net, X=X, y=y, **kwargs)

    def fit_loop(self, X, y=None, epochs=None, **kwargs):
        """Train for the epochs that no checkpoint has."""
        epochs = self.max_epochs if epochs is None else epochs
        checkpoints = self._checkpoints()
        for checkpoint in checkpoints:
            n_done = checkpoint.resume(self)
            if n_done > epochs:
                raise ValueError(
                    f"max_epochs must be at least {n_done}, the epochs of the "
                    f"checkpoint {str(checkpoint.file)!r}, got {epochs}. Remove the "
                    "file to train from the start."
                )
            epochs -= n_done
        super().fit_loop(X, y, epochs=epochs, **kwargs)
        for checkpoint in checkpoints:
            checkpoint.save(self, len(self.history))
        return self

    def _checkpoints(self):
        """Return the checkpoint among the callbacks, in a list, or an empty one."""
        found = [each for _, each in self.callbacks_ if isinstance(each, Checkpoint)]
        if len(found) > 1:
            raise ValueError(
                "callbacks must hold one sklearn_calib.callbacks.Checkpoint, got "
                f"{len(found)}. Leave the others out."
            )
        return found

    def _check_can_resume(self):
        """Raise ValueError for a training that cannot be cut into two."""
        for name, is_set, way_out in [
            ("warm_start", self.warm_start, "Set max_epochs to the sum of all epochs"),
            ("refit", self.refit, "Use early_stopping without refit"),
            ("partial_fit", not self._training.hold_out, "Call fit"),
        ]:
            if is_set:
                raise ValueError(
                    f"{name} must not be used beside a Checkpoint, which continues "
                    f"one call of fit. {way_out}, or leave the Checkpoint out."
                )
        if self._training.seed is None:
            raise ValueError(
                "random_state must be an integer beside a Checkpoint, got None: what "
                "is drawn after a resumption would differ. Set it."
            )

    def _key(self, X, y):
        """Return a hash of the data and the parameters of this training."""
        params = fingerprint(self)
        params = {name: params[name] for name in params if name not in _FREE}
        return joblib.hash([params, X, y, self._training.sample_weight])


def fingerprint(net):
    """Return what the training of a net depends on, in a form that hashes alike.

    A copy of a module is another object to a hash, though it has the same weights.
    """
    params = net.get_params(deep=False)
    del params["verbose"]
    return {name: _fingerprint(value) for name, value in params.items()}


def _fingerprint(value):
    if not isinstance(value, nn.Module):
        return value
    state = {name: to_numpy(tensor) for name, tensor in value.state_dict().items()}
    return type(value), repr(value), state
