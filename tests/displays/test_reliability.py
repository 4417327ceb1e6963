"""Reliability diagram: values, labels and shared axes."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits
from sklearn.naive_bayes import GaussianNB

from sklearn_calib.displays import (
    ClasswiseReliabilityDisplay,
    GroupReliabilityDisplay,
    ReliabilityDisplay,
)
from sklearn_calib.metrics import CalibrationAccumulator, expected_calibration_error

# Confidences .4 and .6 lie in the second of three bins over [0, 1], .7, .9 and 1 in the
# third; the prediction is right for .6, .7 and .9.
Y_TRUE = ["b", "a", "c", "a", "b"]
Y_PROBA = np.array(
    [
        [0.40, 0.35, 0.25],
        [0.60, 0.40, 0.00],
        [0.10, 0.20, 0.70],
        [0.90, 0.05, 0.05],
        [0.00, 0.00, 1.00],
    ]
)


@pytest.fixture
def display():
    return draw_first()


@pytest.fixture(scope="module")
def drawn():
    """Return a display that tests only read."""
    return draw_first()


def draw_first():
    return ReliabilityDisplay.from_predictions(Y_TRUE, Y_PROBA, n_bins=3, name="first")


def add_second(display, **options):
    """Draw a second classifier on the axes of the first."""
    options = {"ax": display.ax_, "name": "second", **options}
    return ReliabilityDisplay.from_predictions(Y_TRUE, Y_PROBA[::-1], **options)


def legend_texts(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_given_edges():
    """The bars have the given edges; those of the histogram have equal width."""
    bins = {"n_bins": [0, 0.4, 0.65, 0.9, 1]}
    accumulator = CalibrationAccumulator(labels=["a", "b", "c"], **bins)
    for display in (
        ReliabilityDisplay.from_predictions(Y_TRUE, Y_PROBA, **bins),
        ReliabilityDisplay.from_accumulator(accumulator.update(Y_TRUE, Y_PROBA)),
    ):
        assert_array_equal(display.bin_edges, bins["n_bins"])
        assert_array_equal(display.counts, [1, 1, 2, 1])
        assert_allclose(display.prob_true, [0, 1, 1, 0], atol=1e-12)
        assert_allclose(display.prob_pred, [0.4, 0.6, 0.8, 1], rtol=1e-12)
        assert_array_equal(display.histogram, [0, 1, 2, 2])
        low = [bar.get_x() for bar in display.bars_]
        assert_allclose(low, bins["n_bins"][:-1])


def test_numbers(drawn):
    assert_allclose(drawn.bin_edges, [0, 1 / 3, 2 / 3, 1])
    assert_array_equal(drawn.counts, [0, 2, 3])
    assert_allclose(drawn.prob_true, [np.nan, 1 / 2, 2 / 3])
    assert_allclose(drawn.prob_pred, [np.nan, 0.5, 2.6 / 3])
    # |.5 - .5| in the first bin with samples, (2.6 - 2) / 5 in the other.
    assert drawn.ece == pytest.approx(0.12)


def test_bars_reach_the_accuracy_and_gaps_the_confidence(drawn):
    for bar, gap, left, accuracy, confidence in zip(
        drawn.bars_,
        drawn.gaps_,
        [1 / 3, 2 / 3],
        [1 / 2, 2 / 3],
        [0.5, 2.6 / 3],
        strict=True,
    ):
        assert bar.get_x() == pytest.approx(left)
        assert bar.get_width() == pytest.approx(1 / 3)
        assert bar.get_height() == pytest.approx(accuracy)
        assert gap.get_y() == pytest.approx(accuracy)
        assert gap.get_y() + gap.get_height() == pytest.approx(confidence)


def test_histogram_shows_the_counts_and_marks_the_means(drawn):
    ax = drawn.histogram_ax_
    assert_array_equal(ax.patches[0].get_data().values, [0, 2, 3])
    accuracy, confidence = (line.get_xdata()[0] for line in ax.lines)
    assert accuracy == pytest.approx(3 / 5)
    assert confidence == pytest.approx(3.6 / 5)
    assert legend_texts(ax) == ["Accuracy", "Mean confidence"]


def test_histogram_has_bins_of_equal_width_whatever_the_others_have():
    display = ReliabilityDisplay.from_predictions(
        Y_TRUE, Y_PROBA, n_bins=3, strategy="quantile"
    )
    assert_array_equal(display.counts, [2, 2, 1])
    values, edges, _ = display.histogram_ax_.patches[0].get_data()
    assert_array_equal(values, [0, 2, 3])
    assert_allclose(edges, [0, 1 / 3, 2 / 3, 1])
    assert display.histogram_ax_.lines[0].get_xdata()[0] == pytest.approx(3 / 5)


def test_quantile_bars_end_at_the_data():
    """Probabilities from .02 to .3; one of .9 has the weight 0."""
    y_proba, weight = np.array([0.02, 0.1, 0.2, 0.3, 0.9]), [1, 1, 1, 1, 0]
    y_true = np.array([0, 1, 0, 1, 1])
    options = {"strategy": "quantile", "n_bins": 2}
    ways = {"labels": [0, 1], "sample_weight": weight}
    single = ReliabilityDisplay.from_predictions(y_true, y_proba, **ways, **options)
    groups = GroupReliabilityDisplay.from_predictions(
        y_true, y_proba, groups=np.zeros(5), random_state=0, **ways, **options
    )
    classes = ClasswiseReliabilityDisplay.from_predictions(
        y_true, y_proba, classes=[1], **ways, **options
    )
    for display in (single, *groups.displays, *classes.displays):
        first, last = (bar.get_bbox() for bar in display.bars_)
        assert_allclose([first.x0, first.x1, last.x0, last.x1], [0.02, 0.1, 0.1, 0.3])
    accumulator = CalibrationAccumulator(labels=[0, 1], mode="positive", **options)
    curve = accumulator.update(y_true, y_proba, weight).reliability_curve()
    assert_allclose(curve["bin_edges"], single.bin_edges, atol=1e-3)


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("n_bins", [1, 2])
def test_quantile_bin_of_one_value_has_a_width(n_bins):
    display = ReliabilityDisplay.from_predictions(
        [0, 1, 1], [0.2, 0.2, 0.2], strategy="quantile", n_bins=n_bins
    )
    assert_allclose(display.bin_edges[[0, 1, -1]], [0, 0.2, 0.2])


def test_words(drawn):
    assert legend_texts(drawn.ax_) == [
        "first (ECE 0.120)",
        "95 % interval",
        "Gap",
    ]
    assert drawn.ax_.get_ylabel() == "Accuracy"
    assert drawn.ax_.get_xlabel() == ""
    assert drawn.histogram_ax_.get_xlabel() == "Confidence"
    assert drawn.histogram_ax_.get_ylabel() == "Samples"


def test_one_classifier_is_bars_and_two_are_lines(display):
    def shown(one):
        patches = [*one.bars_, *one.gaps_]
        return {p.get_visible() for p in patches}, one.line_.get_visible()

    assert shown(display) == ({True}, False)
    second = add_second(display)
    assert shown(display) == shown(second) == ({False}, True)


def test_second_classifier_does_not_double_the_decorations(display):
    second = add_second(display)
    assert second.ax_ is display.ax_
    assert second.histogram_ax_ is display.histogram_ax_
    assert display.figure_.axes == [display.ax_, display.histogram_ax_]
    assert len(display.ax_.lines) == 3, "the diagonal and one line for each classifier"
    assert legend_texts(display.ax_) == [
        "first (ECE 0.120)",
        f"second (ECE {second.ece:.3f})",
    ]
    histograms = display.histogram_ax_.patches
    assert len(histograms) == 2
    assert not any(histogram.get_fill() for histogram in histograms)


def test_classifiers_on_one_axes_differ_in_color_and_marker(display):
    lines = [display.line_] + [add_second(display).line_ for _ in range(6)]
    assert len({line.get_color() for line in lines}) == 7
    assert len({line.get_marker() for line in lines}) == 7


def test_color_and_name_can_be_chosen(display):
    second = add_second(display, color="black").plot(display.ax_, name="third")
    assert second.bars_[0].get_facecolor() != display.bars_[0].get_facecolor()
    assert "third" in legend_texts(display.ax_)[-1]
    assert add_second(display, color="black").line_.get_color() == "black"


def test_axes_of_the_user_shrink_and_their_neighbours_stay():
    figure, axes = plt.subplots(1, 2)
    before = [ax.get_position().bounds for ax in axes]
    display = ReliabilityDisplay.from_predictions(Y_TRUE, Y_PROBA, ax=axes[0])
    figure.draw_without_rendering()
    assert display.figure_ is figure
    assert axes[1].get_position().bounds == before[1]
    upper, lower = axes[0].get_position(), display.histogram_ax_.get_position()
    assert_allclose(
        [lower.x0, lower.y0, upper.x1], [before[0][0], before[0][1], upper.x1]
    )
    assert lower.y1 < upper.y0
    assert upper.y1 == pytest.approx(before[0][1] + before[0][3])


def test_axes_that_were_cleared():
    """The histogram is drawn anew, with the numbers and the label of the x-axis."""
    figure, ax = plt.subplots()
    for _ in range(2):
        ax.clear()
        display = ReliabilityDisplay.from_predictions(Y_TRUE, Y_PROBA, ax=ax)
    assert figure.axes == [ax, display.histogram_ax_]
    assert display.histogram_ax_.xaxis.get_tick_params()["labelbottom"]
    assert display.histogram_ax_.get_xlabel()


def test_axes_without_a_grid():
    ax = Figure().add_axes([0.2, 0.1, 0.6, 0.8])
    display = ReliabilityDisplay.from_predictions(Y_TRUE, Y_PROBA, ax=ax)
    display.figure_.draw_without_rendering()
    lower = display.histogram_ax_.get_position()
    assert_allclose([lower.x0, lower.y0, lower.width], [0.2, 0.1, 0.6])


def test_small_axes_in_a_grid(arrange):
    """A histogram takes 0.3 of the height of its diagram, and twice the font size."""
    figure, axes = plt.subplots(5, 4, figsize=(7, 9), layout="constrained")
    for ax in axes.flat:
        display = ReliabilityDisplay.from_predictions(Y_TRUE, Y_PROBA, n_bins=3, ax=ax)
    for ax in figure.axes:
        ax.get_legend().remove()
        ax.label_outer()
    labelled = [[bool(ax.get_xlabel()), bool(ax.get_ylabel())] for ax in figure.axes]
    # Four histograms, and five diagrams with their histograms.
    assert np.sum(labelled, axis=0).tolist() == [4, 10]
    arrange(figure)
    figure.draw_without_rendering()
    upper, lower = display.ax_.get_position(), display.histogram_ax_.get_position()
    assert lower.height == pytest.approx(0.3 * upper.height)
    space = 2 * plt.rcParams["font.size"] / 72
    assert 9 * (upper.y0 - lower.y1) == pytest.approx(space)
    # Four fifths of the figure for diagrams, histograms and the space between them.
    assert 5 * (upper.y1 - lower.y0) > 0.8
    assert 4 * upper.width > 0.8


@pytest.mark.parametrize("is_first", [False, True])
def test_logarithmic_scale(is_first):
    """It begins at the smallest positive value, and nothing is drawn outside."""
    y_true, y_proba = [0, 0, 1, 0], [0.001, 0.002, 0.05, 0.1]
    figure, ax = plt.subplots(layout="constrained")
    if is_first:
        ax.set(xscale="log", yscale="log")
    options = {"strategy": "quantile", "n_bins": 2, "histogram": False, "ax": ax}
    ReliabilityDisplay.from_predictions(y_true, y_proba, **options)
    ax.set(xscale="log", yscale="log")
    ReliabilityDisplay.from_predictions(y_true, y_proba, **options)
    # The first bin begins at the data, and its gap ends at their mean.
    expected = [0.001, 1, 0.0015, 1]
    assert_allclose([*ax.get_xlim(), *ax.get_ylim()], expected)
    # The diagonal is right also if only one scale is logarithmic.
    x, y = next(line for line in ax.lines if line.get_linestyle() == ":").get_data()
    assert np.interp(-2, np.log10(x[1:]), y[1:]) == pytest.approx(0.01, rel=0.02)
    ax.set(xlim=(0.01, 0.1), ylim=(0.1, 0.5))
    figure.draw_without_rendering()
    box = ax.get_tightbbox()
    assert figure.bbox.contains(*box.p0)
    assert figure.bbox.contains(*box.p1)


def test_without_histogram():
    figure, ax = plt.subplots()
    display = ReliabilityDisplay.from_predictions(
        Y_TRUE, Y_PROBA, ax=ax, histogram=False
    )
    assert add_second(display).histogram_ax_ is None
    assert figure.axes == [ax]
    assert ax.get_xlabel() == "Confidence"


@pytest.mark.parametrize("size", [(4.8, 5.6), (3.2, 3.6)])
def test_nothing_overlaps(display, size):
    """The legend of the histogram fits between the axes, even in a small figure."""
    display.figure_.set_size_inches(size)
    display.figure_.draw_without_rendering()
    legend = display.histogram_ax_.get_legend().get_window_extent()
    assert not legend.overlaps(display.ax_.get_window_extent())
    below = display.histogram_ax_.get_window_extent()
    assert below.x0 <= legend.x0
    assert legend.y0 >= below.y1 - 1
    texts = [display.ax_.yaxis.label, display.histogram_ax_.yaxis.label]
    for text in [*texts, display.histogram_ax_.xaxis.label]:
        box = text.get_window_extent()
        assert display.figure_.bbox.contains(box.x0, box.y0)
        assert display.figure_.bbox.contains(box.x1, box.y1)


def test_from_estimator_takes_the_columns_of_the_estimator():
    """A class without test data, and labels that are strings."""
    X, y = load_digits(n_class=4, return_X_y=True)
    y = np.array(["zero", "one", "two", "three"])[y]
    classifier = GaussianNB().fit(X[:400], y[:400])
    X, y = X[400:][y[400:] != "one"], y[400:][y[400:] != "one"]
    display = ReliabilityDisplay.from_estimator(classifier, X, y, strategy="quantile")
    assert display.ece == pytest.approx(
        expected_calibration_error(
            y,
            classifier.predict_proba(X),
            labels=classifier.classes_,
            strategy="quantile",
        )
    )
    assert legend_texts(display.ax_)[0] == f"GaussianNB (ECE {display.ece:.3f})"


@pytest.mark.parametrize(
    ("y_proba", "mode"),
    [([0.1, 0.8, 0.6], None), ([[0.9, 0.1], [0.2, 0.8], [0.4, 0.6]], "positive")],
)
def test_positive_class(y_proba, mode):
    display = ReliabilityDisplay.from_predictions([0, 1, 0], y_proba, mode=mode)
    assert_allclose(display.line_.get_xdata(), [0.1, 0.6, 0.8])
    assert_array_equal(display.line_.get_ydata(), [0, 0, 1])
    assert display.ax_.get_ylabel() == "Fraction of positives"
    assert legend_texts(display.ax_)[0] == f"ECE {display.ece:.3f}"


@pytest.mark.parametrize(
    ("y_proba", "pos_label", "expected"),
    [
        ([0.1, 0.8, 0.6], "a", [1, 1, 0]),
        ([0.1, 0.8, 0.6], "b", [0, 0, 1]),
        ([[0.9, 0.1], [0.2, 0.8], [0.4, 0.6]], "b", [0, 0, 1]),
        ([[0.9, 0.1], [0.2, 0.8], [0.4, 0.6]], "a", [0, 1, 1]),
    ],
)
def test_label_of_the_positive_class(y_proba, pos_label, expected):
    display = ReliabilityDisplay.from_predictions(
        ["a", "b", "a"], y_proba, pos_label=pos_label, histogram=False
    )
    assert_array_equal(display.line_.get_ydata(), expected)
    assert display.mode == "positive"


def test_intervals_stand_at_the_mean_confidences(drawn):
    places = [segment[0, 0] for segment in drawn.band_.get_segments()]
    assert_allclose(places, [0.5, 2.6 / 3])
    ends = np.array([segment[:, 1] for segment in drawn.band_.get_segments()])
    assert_allclose(ends, drawn.band[:, 1:].T)
    assert (ends[:, 0] < [1 / 2, 2 / 3]).all()
    assert (ends[:, 1] > [1 / 2, 2 / 3]).all()


@pytest.mark.usefixtures("undrawn")
def test_weights_equal_repetition():
    weights = [2, 1, 0, 3, 1]
    weighted = ReliabilityDisplay.from_predictions(
        Y_TRUE, Y_PROBA, sample_weight=weights, labels=["a", "b", "c"]
    )
    repeated = ReliabilityDisplay.from_predictions(
        np.repeat(Y_TRUE, weights), np.repeat(Y_PROBA, weights, 0), labels=list("abc")
    )
    for name in ("counts", "prob_true", "prob_pred", "ece"):
        assert_allclose(getattr(weighted, name), getattr(repeated, name))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_bins": 0}, "'n_bins' parameter of ReliabilityDisplay.from_predictions"),
        ({"mode": "classwise"}, "'mode' parameter"),
        ({"strategy": "kmeans"}, "'strategy' parameter"),
        ({"labels": ["a", "b"]}, "labels must contain 3 distinct labels"),
        ({"pos_label": "a"}, "pos_label must be None.*got 'a'.*3 classes. Use mode"),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(ValueError, match=message):
        ReliabilityDisplay.from_predictions(Y_TRUE, Y_PROBA, **options)


@pytest.mark.parametrize("pos_label", [10**30, -(2**64), 2, "1"])
def test_unknown_positive_class_of_numbers(pos_label):
    """Arrays of integers cannot be compared with integers of more than 64 bits."""
    with pytest.raises(ValueError, match=r"pos_label must be one of \[0, 1\], got "):
        ReliabilityDisplay.from_predictions([0, 1], [0.2, 0.9], pos_label=pos_label)


@pytest.mark.parametrize("pos_label", ["c", [], ["a", "b"], np.array([]), {}])
def test_unknown_positive_class(pos_label):
    with pytest.raises(ValueError, match=r"pos_label must be one of .*, got "):
        ReliabilityDisplay.from_predictions(["a", "b"], [0.2, 0.9], pos_label=pos_label)


@pytest.mark.usefixtures("undrawn")
def test_labels_in_a_tensor_that_learns():
    y_true = torch.tensor([0.0, 1.0, 1.0], requires_grad=True)
    y_proba = [0.2, 0.9, 0.4]
    ClasswiseReliabilityDisplay.from_predictions(y_true, y_proba)
    shown = ReliabilityDisplay.from_predictions(y_true, y_proba, pos_label=1)
    expected = ReliabilityDisplay.from_predictions([0, 1, 1], y_proba, pos_label=1)
    assert shown.ece == expected.ece
