"""Confidence dynamics: lines, empty bins and several runs."""

from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sklearn_calib import NeuralClassifier
from sklearn_calib.callbacks import RecordBins
from sklearn_calib.displays import ConfidenceDynamicsDisplay

TRUE, TOP = "train_confidence_true", "train_confidence_top"
# The second epoch fills one bin of two, with three for the training data.
HISTORY = [
    {
        "epoch": 1,
        "bin_edges": [0.0, 0.7, 1.0],
        "bin_confidence": [0.6, 0.9],
        "bin_accuracy": [0.5, 0.8],
        TRUE: [0.4, np.nan],
        TOP: [0.6, np.nan],
    },
    {
        "epoch": 2,
        "bin_edges": [0.0, 1.0],
        "bin_confidence": [0.9],
        "bin_accuracy": [0.7],
        TRUE: [0.4, 0.8, 0.9],
        TOP: [0.6, 0.8, 0.9],
    },
]


@pytest.fixture(scope="module")
def display():
    """Return a display that tests only read."""
    return ConfidenceDynamicsDisplay.from_history(HISTORY, name="Focal")


def legend_texts(display):
    return [t.get_text() for t in display.axes_[0, -1].get_legend().get_texts()]


def test_lines(display):
    assert display.bins_ == [0, 1, 2]
    expected = {
        "bin_confidence": [[0.6, 0.9], [0.9, np.nan], [np.nan, np.nan]],
        "bin_accuracy": [[0.5, 0.7], [0.8, np.nan], [np.nan, np.nan]],
        TRUE: [[0.4, 0.4], [np.nan, 0.8], [np.nan, 0.9]],
    }
    assert display.lines_.keys() == expected.keys()
    for quantity, lines in display.lines_.items():
        for ax, line, values in zip(
            display.axes_[0], lines, expected[quantity], strict=True
        ):
            assert line in ax.lines
            assert_array_equal(line.get_xdata(), [1, 2])
            assert_array_equal(line.get_ydata(), values)


def test_a_value_between_gaps_has_a_marker(display):
    line = display.lines_["bin_confidence"]
    assert (line[0].get_marker(), line[1].get_marker()) == ("", ".")
    assert line[1].get_markevery() == [0]


def test_bounds_of_the_bins():
    display = ConfidenceDynamicsDisplay.from_history(HISTORY, bins=[0])
    (shade,) = display.bounds_
    corners = shade.get_paths()[0].vertices
    assert {tuple(corner) for corner in corners} == {(1, 0), (2, 0), (2, 1), (1, 0.7)}


def test_words(display):
    assert display.axes_[0, 0].get_ylabel() == "Confidence"
    assert [ax.get_xlabel() for ax in display.axes_[0]] == ["Epoch"] * 3
    assert legend_texts(display) == [
        "Focal",
        "Training, true class",
        "Validation, predicted class",
        "Validation accuracy",
        "Bounds of the bin",
    ]


def test_quantities():
    options = {"bins": 0, "quantities": [TRUE, TOP]}
    display = ConfidenceDynamicsDisplay.from_history(HISTORY, **options)
    assert list(display.lines_) == [TRUE, TOP]
    colors = {lines[0].get_color() for lines in display.lines_.values()}
    assert len(colors) == 2


def test_two_runs():
    draw = partial(ConfidenceDynamicsDisplay.from_history, HISTORY, bins=0)
    first = draw(name="one")
    second = draw(name="two", ax=first.axes_)
    lines = [display.lines_[TRUE][0] for display in (first, second)]
    assert [line.get_linestyle() for line in lines] == ["-", "--"]
    assert lines[0].get_color() == lines[1].get_color()
    assert legend_texts(second)[:3] == ["one", "two", "Training, true class"]
    third = draw(linestyle=(0, (5, 1)), ax=first.axes_)
    assert third.lines_[TRUE][0].is_dashed()


@pytest.mark.parametrize("loss", ["adafocal", "focal"])
@pytest.mark.parametrize("binning", ["common", "independent"])
def test_from_estimator(loss, binning):
    X = np.random.default_rng(0).normal(size=(60, 3))
    net = NeuralClassifier(
        loss=loss,
        max_epochs=2,
        validation_fraction=0.5,
        callbacks=[RecordBins(binning=binning)],
    ).fit(X, X[:, 0] > 0)
    display = ConfidenceDynamicsDisplay.from_estimator(net, name="a run")
    for quantity, lines in display.lines_.items():
        expected = np.array(net.history_[:, quantity])[:, display.bins_]
        assert_array_equal(np.transpose([line.get_ydata() for line in lines]), expected)
    assert legend_texts(display)[0] == "a run"


def test_nothing_was_recorded():
    with pytest.raises(
        ValueError, match=r"got \['bin_edges', 'epoch'\] in 1 .*RecordB"
    ):
        ConfidenceDynamicsDisplay.from_history([{"epoch": 1, "bin_edges": [0, 1]}])


def test_unknown_quantity():
    with pytest.raises(
        ValueError, match=r"got 'bin_acuracy'\. Did you mean 'bin_accur"
    ):
        ConfidenceDynamicsDisplay.from_history(HISTORY, quantities=["bin_acuracy"])
    with pytest.raises(ValueError, match=r"For 'cal.*gap', use GammaDynamicsDisplay"):
        ConfidenceDynamicsDisplay.from_history(HISTORY, quantities=["calibration_gap"])
