"""The axis label names the positive class, or the legend if there are several."""

from inspect import signature

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from sklearn_calib import displays
from sklearn_calib.displays import (
    CalibrationBeltDisplay,
    ClasswiseReliabilityDisplay,
    ConfidenceHistogramDisplay,
    CorpReliabilityDisplay,
    DecisionCurveDisplay,
    GroupReliabilityDisplay,
    ReliabilityDisplay,
    RiskCoverageDisplay,
    SmoothReliabilityDisplay,
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(80, 1))
Y = np.array(["leave", "stay"])[(X[:, 0] + RNG.normal(size=80) > 0).astype(int)]
MODEL = LogisticRegression().fit(X, Y)
WORDS = {
    CalibrationBeltDisplay: "Predicted probability",
    CorpReliabilityDisplay: "Predicted probability",
    DecisionCurveDisplay: "Threshold probability",
    ReliabilityDisplay: "Predicted probability",
    SmoothReliabilityDisplay: "Predicted probability",
}
FAST = {
    CalibrationBeltDisplay: {"confidence_levels": [0.8]},
    CorpReliabilityDisplay: {"interval": None},
    DecisionCurveDisplay: {"interval": None},
    ReliabilityDisplay: {"n_bins": 4},
    SmoothReliabilityDisplay: {"interval": None},
}
of_one_class = pytest.mark.parametrize("cls", WORDS)


def draw(cls, pos_label="stay", name="net", **options):
    options = FAST.get(cls, {}) | options
    return cls.from_estimator(MODEL, X, Y, pos_label=pos_label, name=name, **options)


def axis_label(display):
    """Return the label of the horizontal axis, which may be below the histogram."""
    below = [ax for ax in display.figure_.axes if ax is not display.ax_]
    return "".join(ax.get_xlabel() for ax in [display.ax_, *below])


def entries(display):
    return [text.get_text() for text in display.ax_.get_legend().get_texts()]


def test_no_display_is_left_out():
    with_label = {
        each
        for each in vars(displays).values()
        if "pos_label" in getattr(each, "from_predictions", str).__doc__
    }
    of_no_class = {ConfidenceHistogramDisplay, RiskCoverageDisplay}
    others = {GroupReliabilityDisplay, ClasswiseReliabilityDisplay, *of_no_class}
    assert with_label == {*WORDS, *others}


@of_one_class
@pytest.mark.parametrize("pos_label", ["leave", "stay"])
def test_axis_names_the_class_of_all_curves(cls, pos_label):
    ax = None
    for name in ("net", "other"):
        display = draw(cls, pos_label, name=name, ax=ax)
        assert display.pos_label == pos_label
        assert axis_label(display) == f"{WORDS[cls]} of class {pos_label}"
        assert not any("class" in text for text in entries(display))
        ax = display.ax_


@of_one_class
def test_second_label_is_named_by_default(cls):
    options = FAST.get(cls, {}) | {"name": "net"}
    proba = MODEL.predict_proba(X)[:, 1]
    with pytest.warns(UserWarning, match="The class is taken to be 'stay'") as told:
        display = cls.from_predictions(Y, proba, **options)
    assert len(told) == 1
    assert axis_label(display) == f"{WORDS[cls]} of class stay"
    numbers = cls.from_predictions((Y == "stay").astype(int), proba, **options)
    assert axis_label(numbers) == f"{WORDS[cls]} of class 1"


@of_one_class
@pytest.mark.parametrize("histogram", [True, False])
def test_legend_names_different_classes(cls, histogram):
    has_histogram = "histogram" in signature(cls.plot).parameters
    options = {"histogram": histogram} if has_histogram else {}
    first = draw(cls, **options)
    second = draw(cls, "leave", name="other", ax=first.ax_, **options)
    third = draw(cls, name=None, ax=first.ax_, **options)
    assert axis_label(third) == WORDS[cls]
    named = [text for text in entries(third) if ", class " in text]
    expected = [("net", "stay"), ("other", "leave"), ("", "stay")]
    for text, (name, label) in zip(named, expected, strict=True):
        assert text.startswith(name)
        assert text.split("\n")[0].endswith(f", class {label}")
    assert "class" not in second.line_.get_label()


@of_one_class
def test_top_label_names_no_class(cls):
    display = draw(cls, None, mode="top_label")
    assert display.pos_label is None
    assert "class" not in axis_label(display)
    draw(cls, ax=display.ax_)
    assert "class" not in axis_label(display)
    assert sum(", class stay" in text for text in entries(display)) == 1


@pytest.mark.parametrize("kind", ["bins", "corp", "smooth"])
def test_groups(kind):
    options = {"groups": np.zeros(80), "kind": kind, "n_resamples": 5}
    first = draw(GroupReliabilityDisplay, **options)
    below = [each.histogram_ax_.get_xlabel() for each in first.displays]
    assert {*below} == {"Probability of class stay"}
    assert first.axes_[0].get_ylabel() == "Frequency"
    assert [each.pos_label for each in first.displays] == ["stay"] * 2
    second = draw(GroupReliabilityDisplay, "leave", "", ax=first.axes_, **options)
    below = [each.histogram_ax_.get_xlabel() for each in second.displays]
    assert {*below} == {"Probability"}
    legend = first.axes_[1].get_legend().get_texts()
    assert [text.get_text() for text in legend] == ["net,\nclass stay", "class leave"]


@pytest.mark.usefixtures("undrawn")
def test_panels_of_classes_know_their_class():
    display = ClasswiseReliabilityDisplay.from_estimator(MODEL, X, Y)
    assert [each.pos_label for each in display.displays] == ["leave", "stay"]


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(
    ("cls", "options"),
    [
        (ClasswiseReliabilityDisplay, {}),
        (GroupReliabilityDisplay, {"groups": Y, "n_resamples": 5}),
        (RiskCoverageDisplay, {}),
    ],
)
def test_class_of_one_column_in_other_displays(cls, options):
    proba = MODEL.predict_proba(X)[:, 1]
    with pytest.warns(UserWarning, match="The class is taken to be 'stay'") as told:
        cls.from_predictions(Y, proba, **options)
    assert len(told) == 1


@pytest.mark.usefixtures("undrawn")
def test_risk_of_the_first_label():
    proba = MODEL.predict_proba(X)[:, 0]
    first = RiskCoverageDisplay.from_predictions(Y, proba, pos_label="leave")
    assert first.aurc == RiskCoverageDisplay.from_predictions(Y == "leave", proba).aurc
