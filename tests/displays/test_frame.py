"""Tables of what displays draw."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sklearn_calib import displays
from sklearn_calib.displays import (
    ClasswiseReliabilityDisplay,
    ConfidenceDynamicsDisplay,
    CorpReliabilityDisplay,
    GammaDynamicsDisplay,
    ReliabilityDisplay,
    RiskCoverageDisplay,
    SmoothReliabilityDisplay,
)

RNG = np.random.default_rng(0)
PROBA = RNG.dirichlet([0.5] * 3, 60)
NAMES = np.array(["fig", "pear", "plum"])
Y = NAMES[(RNG.random((60, 1)) > PROBA.cumsum(axis=1)).sum(axis=1).clip(0, 2)]
FAST = {"n_resamples": 10, "random_state": 0}
# Two epochs of three bins; the second epoch has only two.
HISTORY = [
    {"epoch": 1, "gamma": [1.0, 1.2, 1.4], "calibration_gap": [0.0, 0.2, 0.4]},
    {"epoch": 3, "gamma": [0.9, 1.3], "calibration_gap": [-0.1, 0.1]},
]


def test_every_display_has_a_frame():
    for name in displays.__all__:
        assert callable(getattr(displays, name).frame)


def test_bins():
    display = ReliabilityDisplay.from_predictions(Y, PROBA)
    table = display.frame()
    columns = ["bin_low", "bin_high", "prob_pred", "prob_true", "counts", "low", "high"]
    assert list(table.columns) == columns
    filled = display.counts > 0
    assert not filled.all()
    assert_array_equal(table["counts"], display.counts[filled])
    assert_array_equal(table["bin_low"], display.bin_edges[:-1][filled])
    assert_array_equal(table["bin_high"], display.bin_edges[1:][filled])
    points, few = table[["prob_pred", "prob_true"]], table["counts"] < 5
    assert 0 < few.sum() < len(few)
    assert_array_equal(points[~few], display.line_.get_xydata())
    pale = next(each for each in display.ax_.collections if each.get_alpha() == 0.3)
    assert_array_equal(points[few], pale.get_offsets())
    ends = [segment[:, 1] for segment in display.band_.get_segments()]
    assert_allclose(table[["low", "high"]], ends)
    gap = table["counts"] * (table["prob_true"] - table["prob_pred"])
    assert gap.abs().sum() / len(Y) == pytest.approx(display.ece)


def test_curves():
    corp = CorpReliabilityDisplay.from_predictions(Y, PROBA, **FAST)
    assert_array_equal(corp.frame()["prob_true"], corp.line_.get_ydata())
    smooth = SmoothReliabilityDisplay.from_predictions(Y, PROBA, interval=None)
    table = smooth.frame()
    assert list(table.columns) == ["prob_pred", "prob_true", "density"]
    drawn = smooth.line_.get_ydata()
    assert_array_equal(table["prob_true"], drawn[~np.isnan(drawn)])
    risk = RiskCoverageDisplay.from_predictions(Y, PROBA)
    assert_array_equal(risk.frame()["risk"], risk.line_.get_ydata())
    assert_array_equal(risk.frame()["oracle_risk"], risk.oracle_line_.get_ydata())


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("kind", ["bins", "corp", "smooth"])
def test_panels_of_classes(kind):
    display = ClasswiseReliabilityDisplay.from_predictions(
        Y, PROBA, kind=kind, **FAST, classes=["plum", "fig"]
    )
    table = display.frame()
    assert list(table["class"].unique()) == ["plum", "fig"]
    for name, one in zip(display.classes, display.displays, strict=True):
        part = table[table["class"] == name].drop(columns="class")
        pd.testing.assert_frame_equal(part.reset_index(drop=True), one.frame())


@pytest.mark.usefixtures("undrawn")
def test_epochs():
    table = GammaDynamicsDisplay.from_history(HISTORY).frame()
    expected = {
        "epoch": [1, 1, 1, 3, 3],
        "bin": [0, 1, 2, 0, 1],
        "calibration_gap": [0.0, 0.2, 0.4, -0.1, 0.1],
        "gamma": [1.0, 1.2, 1.4, 0.9, 1.3],
    }
    pd.testing.assert_frame_equal(table, pd.DataFrame(expected), check_dtype=False)
    fixed = [{k: row[k] for k in row if k != "gamma"} for row in HISTORY]
    table = GammaDynamicsDisplay.from_history(fixed).frame()
    del expected["gamma"]
    pd.testing.assert_frame_equal(table, pd.DataFrame(expected), check_dtype=False)


@pytest.mark.usefixtures("undrawn")
def test_epochs_of_confidences():
    quantities = {
        "train_confidence_true": [0.1, np.nan],
        "bin_confidence": [0.5, 0.6],
        "bin_accuracy": [0.7, 0.8],
        "train_confidence_top": [0.3, np.nan],
    }
    row = {"epoch": 1, "bin_edges": [0, 0.55, 1], **quantities}
    table = ConfidenceDynamicsDisplay.from_history([row]).frame()
    bounds = {"bin_low": [0, 0.55], "bin_high": [0.55, 1]}
    expected = pd.DataFrame({"epoch": 1, "bin": [0, 1], **bounds, **quantities})
    pd.testing.assert_frame_equal(table, expected, check_dtype=False)
