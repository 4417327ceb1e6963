"""Train with a checkpoint, in a process that a test kills.

Its arguments are LOSS CHECKPOINT RESULT DIE.

DIE names a moment: "never", "training" or "writing", the latter two in epoch 4.
"""

import json
import os
from pathlib import Path

import numpy as np
from sklearn.datasets import make_classification
from skorch.callbacks import Callback

from sklearn_calib import NeuralClassifier
from sklearn_calib.callbacks import Checkpoint

X, y = make_classification(
    n_samples=100, n_informative=6, n_classes=3, flip_y=0.2, random_state=0
)
PARAMS = {
    "cross_entropy": {},
    "adafocal": {
        "loss__n_bins": 5,
        "validation_fraction": 0.25,
        # "auto" would depend on the number of epochs.
        "callbacks__update_loss__update_every": 3,
    },
    "crl": {"loss__base": "focal"},
}
# Epochs of a training that is killed at a random moment.
LONG = 30


class Die(Callback):
    """Exit the process in the middle of an epoch, without clean-up."""

    def on_batch_end(self, net, training=False, **kwargs):
        is_inside = len(net.history[-1, "batches"]) == 1
        if training and len(net.history) == 4 and is_inside:
            os._exit(9)


def die_while_writing():
    replace = Path.replace

    def die_at_fourth(path, target, n_written=[]):  # noqa: B006 - a counter
        n_written.append(path)
        if len(n_written) == 4:
            path.write_bytes(path.read_bytes()[:1000])
            os._exit(9)
        return replace(path, target)

    Path.replace = die_at_fourth


def build(loss, file, max_epochs=5):
    """Return a net that draws random numbers in every epoch."""
    return NeuralClassifier(
        loss=loss,
        module__hidden_sizes=(16,),
        module__dropout=0.4,
        batch_size=50,
        max_epochs=max_epochs,
        random_state=3,
        callbacks=[] if file is None else [Checkpoint(file)],
        **PARAMS[loss],
    )


def describe(net):
    """Return all results that must be equal for two equal training runs, as arrays."""
    rows = [
        {name: value for name, value in row.items() if name not in ("dur", "batches")}
        for row in net.history_
    ]
    batches = [row["batches"] for row in net.history_]
    state = net.optimizer_.state_dict()["state"]
    return {
        "proba": net.predict_proba(X),
        "history": json.dumps([rows, batches]),
        **{f"module {k}": v.numpy() for k, v in net.module_.state_dict().items()},
        **{f"loss {k}": v.numpy() for k, v in net.criterion_.state_dict().items()},
        **{
            f"optimizer {i} {k}": v.numpy()
            for i, values in state.items()
            for k, v in values.items()
        },
    }


def main(loss, file, result, die):
    net = build(loss, file, LONG)
    if die == "training":
        net.callbacks.append(Die())
    if die == "writing":
        die_while_writing()
    np.savez(result, **describe(net.fit(X, y)))


if "ARGUMENTS" in globals():
    main(*ARGUMENTS)  # noqa: F821 - given by the test
