"""Confidence histograms: counts, densities, the AUROC and the words."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sklearn_calib._numerics.confidence import CONFIDENCES, FROM_LOGITS
from sklearn_calib.displays import ConfidenceHistogramDisplay
from sklearn_calib.displays._curves.histogram_display import SCORE_NAMES

draw = ConfidenceHistogramDisplay.from_predictions

# Confidences 0.9, 0.7, 0.6, 0.9 and 0.6, of which the last two are of the wrong class.
Y = ["a", "a", "b", "b", "a"]
PROBA = np.array([[0.9, 0.1], [0.7, 0.3], [0.4, 0.6], [0.9, 0.1], [0.4, 0.6]])
WEIGHT = [1, 2, 3, 4, 0.5]
# By hand: the weights in the bins between 0.5, 0.625, 0.75, 0.875 and 1.
WEIGHTS = [[3, 2, 0, 1], [0.5, 0, 0, 4]]
# Of the pairs of a correct and a wrong prediction, those with the higher confidence for
# the correct one; ties count half. 3 correct against 2 wrong, and with the weights.
AUROC = (0.5 + 0 + 0 + 1 + 1 + 0.5) / 6
WEIGHTED = (1 * 4 / 2 + 0.5 * (1 + 2 + 3 / 2)) / (6 * 4.5)


def legend_texts(display):
    return [text.get_text() for text in display.ax_.get_legend().get_texts()]


@pytest.fixture(scope="module")
def weighted():
    """Return a display that tests only read."""
    return draw(Y, PROBA, n_bins=4, sample_weight=WEIGHT, name="one")


def test_numbers(weighted):
    assert_allclose(weighted.bin_edges, [0.5, 0.625, 0.75, 0.875, 1])
    assert_array_equal([weighted.correct, weighted.incorrect], WEIGHTS)
    assert weighted.auroc == pytest.approx(WEIGHTED)
    assert draw(Y, PROBA).auroc == pytest.approx(AUROC)


def test_each_histogram_is_a_density(weighted):
    drawn = [each.get_data() for each in weighted.histograms_]
    for (values, edges, _), counts in zip(drawn, WEIGHTS, strict=True):
        assert_array_equal(edges, weighted.bin_edges)
        assert_allclose(values, np.array(counts) / sum(counts) / 0.125)


def test_words(weighted):
    assert legend_texts(weighted) == [
        "Correct, one (n = 6)",
        f"Incorrect, one (n = 4.5, AUROC {WEIGHTED:.3f})",
    ]
    labels = weighted.ax_.get_xlabel(), weighted.ax_.get_ylabel()
    assert labels == ("Largest probability", "Density")
    assert legend_texts(draw(Y, PROBA))[0] == "Correct (n = 3)"


def test_frame(weighted):
    table = weighted.frame()
    assert list(table.columns) == ["bin_low", "bin_high", "correct", "incorrect"]
    assert_array_equal(table[["correct", "incorrect"]].T, WEIGHTS)
    assert_array_equal(table["bin_high"], weighted.bin_edges[1:])


def test_all_predictions(weighted):
    first = draw(Y, PROBA, n_bins=4, sample_weight=WEIGHT, split=False)
    weighted.plot(first.ax_, split=False)
    assert legend_texts(first) == ["All predictions (n = 10.5)", "one (n = 10.5)"]
    (histogram,) = first.histograms_
    assert_allclose(histogram.get_data().values * 0.125 * 10.5, [3.5, 2, 0, 5])
    colors = {patch.get_edgecolor() for patch in first.ax_.patches}
    assert len(colors) == 2


def test_range_of_a_score_with_a_name():
    """It is that of the score for three classes, whatever the samples."""
    y, proba = [0, 1, 2], np.tile([0.5, 0.3, 0.2], (3, 1))
    expected = {
        "l2_norm": (1 / np.sqrt(3), 1),
        "margin": (0, 1),
        "msp": (1 / 3, 1),
        "negative_entropy": (-np.log(3), 0),
        "negative_gini": (1 / 3 - 1, 0),
    }
    assert set(expected) == set(SCORE_NAMES) == set(CONFIDENCES) - set(FROM_LOGITS)
    _, ax = plt.subplots()
    for name, limits in expected.items():
        display = draw(y, proba, confidence=name, ax=ax)
        ends = display.bin_edges[[0, -1]]
        assert_allclose(ends, limits, atol=1e-15, err_msg=name)
        assert ax.get_xlabel() == SCORE_NAMES[name]


def test_range_of_scores_of_the_user():
    scores = [5.0, -2, 3, 1, 40]
    display = draw(Y, PROBA, confidence=scores, sample_weight=[1, 1, 1, 1, 0])
    assert_array_equal(display.bin_edges[[0, -1]], [-2, 5])
    assert display.ax_.get_xlabel() == "Confidence score"
    assert display.correct[[0, -1]].tolist() == [1, 1]


def test_rounding_loses_no_sample():
    """The entropy of probabilities with a sum above 1 may exceed its limit.

    Scores that differ by rounding are in one bin, like equal ones.
    """
    scores = 0.3 + np.spacing(0.3) * np.arange(len(Y))
    display = draw(Y, PROBA, confidence=scores)
    assert np.count_nonzero(display.correct + display.incorrect) == 1
    assert_array_equal(display.bin_edges[[0, -1]], [-0.2, 0.8])
    proba = np.tile([0.333334] * 3, (5, 1))
    display = draw([0, 1, 2, 0, 1], proba, confidence="negative_entropy")
    assert display.correct[0] + display.incorrect[0] == 5


def test_all_predictions_are_correct(draw_all):
    display = draw(Y[:3], PROBA[:3])
    assert np.isnan(display.auroc)
    assert legend_texts(display) == ["Correct (n = 3)", "Incorrect (n = 0)"]
    assert_array_equal(display.histograms_[1].get_data().values, 0)
    draw_all(display.figure_)


def test_infinite_scores():
    scores = [1, 2, -np.inf, np.inf, 3]
    with pytest.raises(ValueError, match=r"confidence must be finite .*got 2 infinite"):
        draw(Y, PROBA, confidence=scores)
