"""Checkpoints to resume an interrupted training run."""

import json
import os
from pathlib import Path
from typing import Any, Self

from skorch import NeuralNet
from skorch.callbacks import (
    BatchScoring,
    Callback,
    EarlyStopping,
    EpochScoring,
    LRScheduler,
    PassthroughScoring,
)
from skorch.history import History

from sklearn_calib._state.whole_file import whole_file
from sklearn_calib._torch.net_state import from_bytes, get_states, set_states, to_bytes
from sklearn_calib._torch.processes import group_of, is_first, wait
from sklearn_calib._validation.arrays import shown
from sklearn_calib._validation.declarations import is_count

# Attributes that contain the state of skorch's callbacks.
_STATE_ATTRIBUTES = {
    BatchScoring: ["best_score_"],
    EarlyStopping: [
        "best_epoch_",
        "best_model_weights_",
        "dynamic_threshold_",
        "misses_",
    ],
    EpochScoring: ["best_score_"],
    LRScheduler: ["batch_idx_"],
    PassthroughScoring: ["best_score_"],
}


class Checkpoint(Callback):
    """Checkpoint: save the training state in one file, and resume from it if it exists.

    If the process is killed, run the same script again to continue from the checkpoint.
    The final weights, predictions and history (except for durations) are the same as
    without interruption. The file is replaced atomically, so a killed process never
    leaves an incomplete checkpoint. If it is killed while it writes, a file whose name
    ends in ``.part`` may remain in the folder, which can be removed.

    Parameters
    ----------
    file : str or path-like
        Path of the checkpoint. Its folder is created if it does not exist. Remove
        the file to train from the start.

    every : int, default=1
        Number of epochs between checkpoints. The last epoch is always saved.

    See Also
    --------
    skorch.callbacks.Checkpoint : Saves the best weights, in several files.

    Notes
    -----
    The file contains the weights, the state of the optimizer and of the loss, the
    history, and the state of early stopping, of learning rate schedulers and of all
    callbacks with `state_dict` and `load_state_dict`. They are stored as tensors,
    numbers and strings, so reading the file does not execute code.

    `random_state` must be an integer; otherwise, the resumed run would use a different
    validation set. `fit` raises a ValueError if the file was written with different
    data, classes or parameters. Only two may be changed: `max_epochs`, to train for
    more epochs, and, without a schedule, `lr`, which applies to the remaining epochs.
    The samples of a `Dataset` are not compared. As data may not change, the folds of a
    cross-validation cannot share a file. If several processes train the network
    together, the first of them writes the file, and all of them must be able to read
    it.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn.datasets import load_iris
    >>> from sklearn_calib import NeuralClassifier
    >>> from sklearn_calib.callbacks import Checkpoint
    >>> X, y = load_iris(return_X_y=True)
    >>> file = Path(tempfile.mkdtemp(), "iris.ckpt")
    >>> net = NeuralClassifier(
    ...     max_epochs=5, random_state=0, callbacks=[Checkpoint(file)]
    ... )
    >>> _ = net.fit(X, y)
    >>> len(net.set_params(max_epochs=8).fit(X, y).history_)  # three more epochs
    8
    """

    def __init__(self, file: str | os.PathLike[str], every: int = 1) -> None:
        self.file = file
        self.every = every

    def initialize(self) -> Self:
        """Reset the state of an earlier run."""
        self.loaded_: dict[str, Any] | None = None
        self.key_: str | None = None
        self.has_new_lr_ = False
        return self

    def begin(self, net: NeuralNet, key: str) -> None:
        """Load history and weights if the file exists; called before the training."""
        if not isinstance(self.file, str | os.PathLike):
            raise TypeError(f"file must be a str or path-like, got {shown(self.file)}.")
        every = self.every
        if not is_count(every):
            raise ValueError(f"every must be a positive integer, got {shown(every)}.")
        self.loaded_, self.key_, self.has_new_lr_ = None, key, False
        path = Path(self.file)
        if path.is_dir():
            raise ValueError(f"file must be the path of a file, got a folder: {path}")
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            return
        loaded = self._read(path)
        if loaded["key"] != key:
            raise ValueError(
                f"The checkpoint {str(path)!r} must be from a training run with the "
                "same data and parameters, except for lr and max_epochs, got one from "
                "a different run. Remove it, or choose another file."
            )
        if loaded["lr"] != net.lr:
            self.has_new_lr_ = True
            _renew_lr(net, loaded)
        net.history_ = History(json.loads(loaded["history"]))
        set_states(net, loaded["states"])
        self.loaded_ = loaded

    def _read(self, path: Path) -> dict[str, Any]:
        """Return the content of a checkpoint."""
        try:
            loaded = from_bytes(path.read_bytes())
            if not isinstance(loaded, dict) or loaded.keys() != _KEYS:
                raise ValueError("unexpected content")
        except ValueError as error:
            raise ValueError(
                f"The checkpoint {str(path)!r} must be a file written by Checkpoint, "
                f"got a different or damaged file: {error}. Remove it to train from "
                "the start, or choose another file."
            ) from error
        return loaded

    def resume(self, net: NeuralNet) -> int:
        """Load the other callbacks' states; return the number of completed epochs."""
        if self.loaded_ is None:
            return 0
        set_states(net, self.loaded_["states"])
        states = self.loaded_["callbacks"]
        for name, callback in net.callbacks_:
            if name in states:
                _set_state(callback, states[name])
        self.loaded_ = None
        return len(net.history)

    def on_train_begin(self, net: NeuralNet, **kwargs: Any) -> None:
        """Check that the net supports this callback."""
        if self.key_ is None:
            raise TypeError(
                "Checkpoint must be a callback of NeuralClassifier, got "
                f"{type(net).__name__}. Use skorch.callbacks.Checkpoint."
            )

    def on_epoch_begin(self, net: NeuralNet, **kwargs: Any) -> None:
        """Save the previous epoch, after all callbacks have processed its end."""
        n_done = len(net.history) - 1
        if n_done and n_done % self.every == 0:
            self.save(net, n_done)

    def save(self, net: NeuralNet, n_epochs: int) -> None:
        """Write a checkpoint of the state after `n_epochs` epochs."""
        group = group_of(net.module_)
        if is_first(group):
            self._write(net, n_epochs)
        wait(group)

    def _write(self, net: NeuralNet, n_epochs: int) -> None:
        content = {
            "key": self.key_,
            "lr": net.lr,
            # Numpy scalars become Python scalars.
            "history": json.dumps(net.history[:n_epochs], default=lambda x: x.item()),
            "states": get_states(net),
            "callbacks": {name: _get_state(each) for name, each in net.callbacks_},
        }
        data = to_bytes(content)
        with whole_file(self.file) as part:
            part.write_bytes(data)


_KEYS = {"key", "lr", "history", "states", "callbacks"}


def _renew_lr(net: NeuralNet, loaded: dict[str, Any]) -> None:
    """Give the optimizers of a checkpoint the learning rates of the parameters."""
    for name, callback in net.callbacks_:
        if isinstance(callback, LRScheduler):
            raise ValueError(
                f"lr must be {loaded['lr']}, as in the checkpoint, with the callback "
                f"{name!r}, which continues its schedule, got {net.lr}. Remove the "
                "callback to train the remaining epochs with the new lr."
            )
    for name in net._optimizers:
        built = getattr(net, f"{name}_").param_groups
        saved = loaded["states"][name]["param_groups"]
        for group, new in zip(saved, built, strict=True):
            group.update(lr=new["lr"], initial_lr=new["lr"])  # the latter for schedules


def _get_state(callback: Any) -> Any:
    """Return the state of a callback, which may be empty."""
    if hasattr(callback, "state_dict"):
        return callback.state_dict()
    state = {name: getattr(callback, name) for name in _state_attributes(callback)}
    if isinstance(callback, LRScheduler):
        state["lr_scheduler_"] = callback.lr_scheduler_.state_dict()
    return state


def _set_state(callback: Any, state: Any) -> None:
    """Set the state of a callback to a value returned by `_get_state`."""
    if hasattr(callback, "load_state_dict"):
        callback.load_state_dict(state)
        return
    for name in _state_attributes(callback):
        setattr(callback, name, state[name])
    if isinstance(callback, LRScheduler):
        callback.lr_scheduler_.load_state_dict(state["lr_scheduler_"])


def _state_attributes(callback: Callback) -> list[str]:
    """Return the names of the attributes that contain a callback's state."""
    return [
        n
        for kind, names in _STATE_ATTRIBUTES.items()
        if isinstance(callback, kind)
        for n in names
    ]
