"""Reliability diagrams of several epochs on the same axes."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.datasets import make_classification
from skorch.callbacks import Callback

from sklearn_calib import NeuralClassifier
from sklearn_calib.callbacks import RecordBins
from sklearn_calib.displays import ReliabilityDisplay
from sklearn_calib.metrics import expected_calibration_error

HISTORY = [
    {
        "epoch": epoch,
        "bin_edges": [0.0, 0.7, 1.0],
        "bin_confidence": [0.5, 0.8],
        "bin_accuracy": [0.5 + epoch / 100, 0.8],
        "bin_weight": [50.0, 150.0],
    }
    for epoch in range(1, 11)
]


def test_lines():
    displays = ReliabilityDisplay.from_history(HISTORY, epochs=[2, 10])
    ax = displays[0].ax_
    for display, epoch in zip(displays, [2, 10], strict=True):
        assert display.ax_ is ax
        assert display.histogram_ax_ is None
        assert display.line_.get_visible()
        assert_array_equal(display.line_.get_xdata(), [0.5, 0.8])
        assert_array_equal(display.line_.get_ydata(), [0.5 + epoch / 100, 0.8])
        # A quarter of the samples is off.
        label = f"Epoch {epoch} (ECE {epoch / 400:.3f})"
        assert display.line_.get_label() == label


@pytest.mark.parametrize(
    ("epochs", "shown"), [(None, [1, 3, 5, 8, 10]), ([3, 2], [3, 2]), (7, [7])]
)
def test_epochs(epochs, shown):
    displays = ReliabilityDisplay.from_history(HISTORY, epochs=epochs)
    labels = [display.line_.get_label().partition(" (")[0] for display in displays]
    assert labels == [f"Epoch {epoch}" for epoch in shown]


def test_two_epochs_are_all_there_are():
    assert len(ReliabilityDisplay.from_history(HISTORY[:2])) == 2


def test_lines_get_lighter():
    displays = ReliabilityDisplay.from_history(HISTORY)
    luminance = [
        np.dot(display.line_.get_color()[:3], [0.2126, 0.7152, 0.0722])
        for display in displays
    ]
    assert (np.diff(luminance) > 0).all()


def test_one_epoch_is_drawn_as_bars_and_gets_no_histogram_when_drawn_again():
    (display,) = ReliabilityDisplay.from_history(HISTORY, epochs=4)
    assert not display.line_.get_visible()
    assert display.plot().histogram_ax_ is None


def test_axes_shared_with_a_display_with_a_histogram():
    first = ReliabilityDisplay.from_predictions([0, 1], [0.2, 0.9])
    (second,) = ReliabilityDisplay.from_history(HISTORY, epochs=4, ax=first.ax_)
    assert second.ax_ is first.ax_
    assert len(first.histogram_ax_.patches) == 1


class Predict(Callback):
    """Evaluate the validation set after each epoch."""

    def on_train_begin(self, *args, **kwargs):
        self.errors = []

    def on_epoch_end(self, net, dataset_valid=None, **kwargs):
        y = dataset_valid.dataset.y[dataset_valid.indices]
        proba = net.predict_proba(dataset_valid)
        self.errors.append(
            expected_calibration_error(y, proba, n_bins=5, strategy="quantile")
        )


def test_errors_are_those_of_the_validation_set():
    X, y = make_classification(n_samples=300, random_state=0)
    predict = Predict()
    net = NeuralClassifier(max_epochs=3, callbacks=[RecordBins(n_bins=5), predict])
    displays = ReliabilityDisplay.from_history(net.fit(X, y).history_)
    errors = [display.ece for display in displays]
    np.testing.assert_allclose(errors, predict.errors, rtol=1e-5)


@pytest.mark.parametrize("epochs", [0, 11, [1, 12], [], [1.5]])
def test_unknown_epochs(epochs):
    with pytest.raises(ValueError, match=r"epochs must be numbers.*epochs \[1, 2, 3"):
        ReliabilityDisplay.from_history(HISTORY, epochs=epochs)


def test_nothing_was_recorded():
    with pytest.raises(
        ValueError, match=r"history must contain bin_edges.*RecordBins\(\)"
    ):
        ReliabilityDisplay.from_history([{"epoch": 1, "train_loss": 0.5}])
