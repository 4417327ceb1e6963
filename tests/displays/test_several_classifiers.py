"""Several classifiers on the same axes, histograms on a log scale, and confidences."""

from functools import cache

import matplotlib.pyplot as plt
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sklearn_calib.displays import (
    ClasswiseReliabilityDisplay,
    CorpReliabilityDisplay,
    ReliabilityDisplay,
    RiskCoverageDisplay,
    SmoothReliabilityDisplay,
)
from sklearn_calib.metrics import aurc_loss

RNG = np.random.default_rng(0)
PROBA = RNG.dirichlet([0.5] * 3, 200)
Y = (RNG.random((200, 1)) > PROBA.cumsum(axis=1)).sum(axis=1).clip(0, 2)
FEW = Y[:40], PROBA[:40]
OF_ONE_PROBABILITY = [
    ReliabilityDisplay,
    SmoothReliabilityDisplay,
    CorpReliabilityDisplay,
]
FAST = {"n_resamples": 10, "random_state": 0}
FEW_BINS = {ReliabilityDisplay: {"n_bins": 4}}


@pytest.mark.parametrize("interval", ["clopper-pearson", "consistency"])
def test_three_classifiers_have_no_error_bars(interval):
    options, bars = {"interval": interval, "histogram": False}, []
    options |= FAST | FEW_BINS[ReliabilityDisplay]
    for n_displays in (1, 2, 3, 4, 5):
        display = ReliabilityDisplay.from_predictions(*FEW, **options)
        options["ax"] = display.ax_
        bars.append(display.band_)
        assert {bar.get_visible() for bar in bars} == {n_displays < 3}


@pytest.mark.parametrize("cls", OF_ONE_PROBABILITY)
@pytest.mark.parametrize("n_displays", [2, 3, 5])
def test_legend_is_outside_of_the_axes(cls, n_displays, arrange):
    names = [f"a classifier with the number {k}" for k in range(1, n_displays + 1)]
    options = {"interval": None, "name": names[0], **FEW_BINS.get(cls, {})}
    display = cls.from_predictions(*FEW, **options)
    for name in names[1:]:
        display.plot(display.ax_, name=name)
    arrange(display.figure_)
    legend = display.ax_.get_legend()
    assert len(legend.get_texts()) == n_displays
    box = legend.get_window_extent()
    assert box.y0 >= display.ax_.get_window_extent().y1 - 1
    assert display.figure_.bbox.y1 >= box.y1
    # The diagram still has most of the figure.
    assert display.ax_.get_position().height > 0.3


@pytest.mark.parametrize("cls", OF_ONE_PROBABILITY)
def test_logarithmic_histogram(cls):
    """The least count is above the bottom of the axes."""
    display = cls.from_predictions(Y, PROBA, histogram="log", **FAST)
    below = display.histogram_ax_
    assert below.get_yscale() == "log"
    counts = display.histogram
    assert (counts == 0).any()
    assert_array_equal(below.patches[0].get_data().values, counts)
    bottom, top = below.get_ylim()
    assert 0 < bottom < counts[counts > 0].min() <= counts.max() < top
    # The second display on the axes does not change the scale.
    second = cls.from_predictions(Y[:20], PROBA[:20], ax=display.ax_, **FAST)
    assert second.histogram_ax_.get_yscale() == "log"
    assert 0 < below.get_ylim()[0] < 1 < top <= below.get_ylim()[1]


def test_unknown_histogram():
    for cls in (ReliabilityDisplay, ClasswiseReliabilityDisplay):
        with pytest.raises(ValueError, match=r"histogram must be True, .*got 'log10'"):
            cls.from_predictions(Y, PROBA, histogram="log10")
        assert not plt.get_fignums()


@cache
def draw_probabilities(cls):
    return cls.from_predictions(*FEW, **FAST, **FEW_BINS.get(cls, {}))


@pytest.mark.parametrize("cls", OF_ONE_PROBABILITY)
@pytest.mark.parametrize("kind", [bool, int, float])
def test_confidence_and_correctness(cls, kind):
    """They are drawn as the probabilities that they come from."""
    y_true, proba = FEW
    confidence, correct = proba.max(axis=1), proba.argmax(axis=1) == y_true
    options = FAST | FEW_BINS.get(cls, {}) | {"mode": "confidence"}
    given = correct.astype(kind), confidence
    shown = cls.from_predictions(*given, **options)
    expected = draw_probabilities(cls)
    for name in ("prob_pred", "prob_true", "band"):
        assert_allclose(getattr(shown, name), getattr(expected, name))
    assert shown.ax_.get_ylabel() == "Accuracy"
    assert shown.line_.get_label() == expected.line_.get_label()
    # It is known which value means correct, even if no prediction is.
    never = given[0][~correct], confidence[~correct]
    before = len(shown.histogram_ax_.lines)
    again = cls.from_predictions(*never, ax=shown.ax_, **options)
    assert again.histogram_ax_.lines[before].get_xdata()[0] == pytest.approx(0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y_proba": PROBA}, "y_proba must be a 1-d array of confidences"),
        ({"pos_label": 1}, "pos_label must be None with mode='confidence', got 1"),
        ({"labels": [1, 0]}, "labels must be None with mode='confidence', got .1, 0"),
        ({"y_true": ["a", "b"] * 100}, "y_true must contain only the labels"),
        ({"y_proba": PROBA.max(axis=1) + 1}, "y_proba must lie in"),
    ],
)
def test_bad_confidences(change, message):
    data = {"y_true": PROBA.argmax(axis=1) == Y, "y_proba": PROBA.max(axis=1)}
    with pytest.raises(ValueError, match=message):
        ReliabilityDisplay.from_predictions(**data | change, mode="confidence")


@pytest.mark.usefixtures("undrawn")
def test_risk_coverage_of_confidences():
    """As the guide says: predict "correct", and rank by the confidence."""
    confidence, correct = PROBA.max(axis=1), PROBA.argmax(axis=1) == Y
    ones = np.ones(len(Y))
    options = {"confidence": confidence, "labels": [False, True]}
    assert aurc_loss(correct, ones, **options) == aurc_loss(Y, PROBA)
    shown = RiskCoverageDisplay.from_predictions(correct, ones, **options)
    assert_allclose(shown.risk, RiskCoverageDisplay.from_predictions(Y, PROBA).risk)


def test_bins_of_few_samples_are_pale_markers():
    """Their accuracies of 0 and 1 are no part of the line, and their bars are pale."""
    proba = np.r_[0.35, np.full(4, 0.15), np.full(5, 0.55), np.full(9, 0.75)]
    y_true = np.r_[0, np.ones(4), np.arange(5) < 2, np.arange(9) < 6].astype(int)
    first = ReliabilityDisplay.from_predictions(y_true, proba, n_bins=5)
    bars = [bar.get_facecolor()[3] for bar in first.bars_]
    gaps = [gap.get_edgecolor()[3] for gap in first.gaps_]
    assert_allclose([bars, gaps], [[0.225, 0.225, 0.75, 0.75], [0.3, 0.3, 1, 1]])
    handles = first.ax_.get_legend().legend_handles
    assert [handles[0].get_facecolor()[3], handles[2].get_edgecolor()[3]] == [0.75, 1]
    pale = next(each for each in first.ax_.collections if each.get_alpha() == 0.3)
    assert not pale.get_visible()  # there are bars
    again = ReliabilityDisplay.from_predictions(y_true, proba, n_bins=5, ax=first.ax_)
    assert pale.get_visible()
    assert again.line_.get_visible()
    assert_allclose(again.line_.get_xydata(), [[0.55, 2 / 5], [0.75, 6 / 9]])
    assert_allclose(pale.get_offsets(), [[0.15, 1], [0.35, 0]])


@pytest.mark.parametrize("scale", [0.3, 1])
def test_lines_are_whole_if_no_bin_is_known_to_have_more_samples(scale):
    weight = np.full(4, scale)
    data = [0, 1, 0, 1], [0.1, 0.3, 0.3, 0.7]
    display = ReliabilityDisplay.from_predictions(*data, sample_weight=weight, n_bins=4)
    assert len(display.line_.get_xdata()) == 3


def test_shared_axes_show_all_curves():
    """The second risk is smaller, and its limits would cut the first curve."""
    _, axes = plt.subplots(1, 2, sharey=True)
    for ax, y_true in zip(axes, [[0, 0, 0, 0], [1, 1, 1, 1]], strict=True):
        display = RiskCoverageDisplay.from_predictions(
            y_true, [0.6, 0.7, 0.8, 0.9], labels=[0, 1], ax=ax
        )
        if ax is axes[0]:
            before = ax.get_ylim()
    assert display.ax_.get_ylim() == axes[0].get_ylim() == before
