"""CORP reliability diagram: the curve, and the decomposition of the Brier score."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_breast_cancer
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import brier_score_loss
from sklearn.naive_bayes import GaussianNB

from sklearn_calib.displays import CorpReliabilityDisplay
from sklearn_calib.metrics import proper_calibration_error

RNG = np.random.default_rng(0)
# Rounded to two decimals, so that there are ties.
Y_PROBA = RNG.random(200).round(2)
Y_TRUE = (RNG.random(200) < 0.2 + 0.5 * Y_PROBA).astype(int)


def draw(y_true, y_proba, **options):
    options = {"n_resamples": 20, "random_state": 0, "labels": [0, 1], **options}
    return CorpReliabilityDisplay.from_predictions(y_true, y_proba, **options)


def parts(display):
    return display.miscalibration, display.discrimination, display.uncertainty


@pytest.mark.usefixtures("undrawn")
def test_curve_is_the_isotonic_regression():
    display = draw(Y_TRUE, Y_PROBA)
    assert_array_equal(display.prob_pred, np.unique(Y_PROBA))
    fitted = IsotonicRegression().fit(Y_PROBA, Y_TRUE).predict(display.prob_pred)
    assert_allclose(display.prob_true, fitted, atol=1e-9)
    assert (np.diff(display.prob_true) >= 0).all()
    assert display.counts.sum() == 200


@pytest.mark.usefixtures("undrawn")
def test_parts_add_up_to_the_brier_score():
    mcb, dsc, unc = parts(draw(Y_TRUE, Y_PROBA))
    assert mcb - dsc + unc == pytest.approx(brier_score_loss(Y_TRUE, Y_PROBA))
    assert unc == pytest.approx(Y_TRUE.mean() * (1 - Y_TRUE.mean()))
    # Of two classes, whose squared errors are the same.
    assert 2 * mcb == pytest.approx(
        proper_calibration_error(
            Y_TRUE, Y_PROBA, loss="brier", recalibration="isotonic"
        )
    )


@pytest.mark.usefixtures("undrawn")
def test_numbers_by_hand():
    """The middle two are pooled."""
    display = draw([0, 1, 0, 1], [0.2, 0.4, 0.6, 0.9])
    assert_allclose(display.prob_true, [0, 0.5, 0.5, 1])
    brier = (0.04 + 0.36 + 0.36 + 0.01) / 4
    assert_allclose(parts(display), [brier - 0.125, 0.25 - 0.125, 0.25])


@pytest.mark.parametrize(
    ("y_proba", "expected"),
    [
        (np.full(10, 0.3), [0, 0, 0.21]),
        (np.ones(10), [0.49, 0, 0.21]),
        (np.repeat([1.0, 0.0], [3, 7]), [0, 0.21, 0.21]),
    ],
    ids=["a constant", "all sure", "perfect"],
)
def test_parts_of_extremes(y_proba, expected):
    y_true = np.repeat([1, 0], [3, 7])
    display = draw(y_true, y_proba, histogram=False)
    assert_allclose(parts(display), expected, atol=1e-12)


def test_what_is_drawn():
    display = draw(Y_TRUE, Y_PROBA, name="a guess")
    assert_array_equal(display.line_.get_xdata(), display.prob_pred)
    assert_array_equal(display.line_.get_ydata(), display.prob_true)
    label = "a guess\nMCB {:.3f}, DSC {:.3f}, UNC {:.3f}".format(*parts(display))
    texts = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert texts == [label, "95 % if calibrated"]
    accuracy, confidence = (line.get_xdata()[0] for line in display.histogram_ax_.lines)
    assert_allclose([accuracy, confidence], [Y_TRUE.mean(), Y_PROBA.mean()])
    steps = np.diff(display.prob_true)
    for place in display.line_.get_markevery()[1:-1]:
        assert steps[place - 1] != 0 or steps[place] != 0


def test_several_share_the_axes():
    first = draw(Y_TRUE, Y_PROBA, name="first")
    second = draw(Y_TRUE, 1 - Y_PROBA, name="second", ax=first.ax_)
    assert second.histogram_ax_ is first.histogram_ax_
    assert second.line_.get_color() != first.line_.get_color()
    texts = [text.get_text() for text in first.ax_.get_legend().get_texts()]
    assert [text.partition("\n")[0] for text in texts] == ["first", "second"]


@pytest.mark.usefixtures("undrawn")
def test_weights_equal_repetition_but_for_the_band():
    weight = np.arange(200) % 4
    one = draw(Y_TRUE, Y_PROBA, sample_weight=weight)
    other = draw(np.repeat(Y_TRUE, weight), np.repeat(Y_PROBA, weight))
    assert_allclose(parts(one), parts(other))
    assert_allclose(one.prob_true, other.prob_true)
    assert_allclose(one.counts, other.counts)


def test_single_confidence_at_an_end_has_a_band():
    display = draw([0, 1, 1, 1], np.full(4, 0.999))
    assert len(display.band_.get_segments()) == 1


def test_from_estimator_and_plot_again():
    X, y = load_breast_cancer(return_X_y=True)
    names = np.array(["malignant", "benign"])[y]
    classifier = GaussianNB().fit(X[:300], names[:300])
    options = {"n_resamples": 20, "histogram": False}
    display = CorpReliabilityDisplay.from_estimator(
        classifier, X[300:], names[300:], pos_label="malignant", **options
    )
    assert display.histogram_ax_ is None
    assert display.ax_.get_ylabel() == "Fraction of positives"
    share = np.mean(names[300:] == "malignant")
    assert display.uncertainty == pytest.approx(share * (1 - share))
    assert display.plot(name="again").line_.get_label().startswith("again\nMCB")
