"""Train a network until an interrupt, in a process of its own.

It sends the number of each epoch, and what it has after the interrupt. Python raises no
KeyboardInterrupt if SIGINT was ignored when it started.
"""

import signal

from sklearn.datasets import load_iris
from skorch.callbacks import Callback

from sklearn_calib import NeuralClassifier


class Tell(Callback):
    """Send the number of each epoch."""

    def on_epoch_end(self, net, **kwargs):
        SENDER.send(len(net.history))  # noqa: F821 - given by the test


if "SENDER" in globals():
    signal.signal(signal.SIGINT, signal.default_int_handler)
    X, y = load_iris(return_X_y=True)
    net = NeuralClassifier(max_epochs=10**6, random_state=0, callbacks=[Tell()])
    try:
        net.fit(X, y)
    except KeyboardInterrupt:
        SENDER.send((net.interrupted_, net.predict_proba(X).shape))  # noqa: F821 - as above
