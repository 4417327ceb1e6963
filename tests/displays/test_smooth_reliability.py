"""Smooth reliability diagram: the curve is that of smECE."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import trapezoid
from sklearn.datasets import load_iris
from sklearn.naive_bayes import GaussianNB

from sklearn_calib.displays import ReliabilityDisplay, SmoothReliabilityDisplay
from sklearn_calib.metrics import smooth_expected_calibration_error

RNG = np.random.default_rng(0)
CASES = {
    "overconfident": RNG.random(300),
    "saturated": np.repeat([0.0, 0.3, 1.0], 100),
    "all sure": np.ones(300),
    "tiny": np.array([0.1, 0.6, 0.7]),
}
all_cases = pytest.mark.parametrize("y_proba", CASES.values(), ids=CASES)


def draw(y_true, y_proba, **options):
    options = {"n_resamples": 20, "random_state": 0, "labels": [0, 1], **options}
    return SmoothReliabilityDisplay.from_predictions(y_true, y_proba, **options)


def labels_of(y_proba):
    return (np.arange(len(y_proba)) % 10 < 10 * (0.3 + 0.4 * y_proba)).astype(int)


@all_cases
def test_mean_distance_to_the_diagonal_is_the_error(y_proba):
    display = draw(labels_of(y_proba), y_proba, histogram=False)
    error = smooth_expected_calibration_error(
        labels_of(y_proba), y_proba, labels=[0, 1]
    )
    assert display.smece == pytest.approx(error)
    distance = np.nan_to_num(np.abs(display.prob_true - display.prob_pred))
    mean = trapezoid(display.density * distance, display.prob_pred)
    assert mean == pytest.approx(error, rel=0.02)
    assert trapezoid(display.density, display.prob_pred) == pytest.approx(1, rel=1e-3)


@pytest.mark.usefixtures("undrawn")
def test_curve_is_the_kernel_regression():
    """Compare with the definition, with explicit mirror images of the kernel."""
    y_proba = np.array([0.02, 0.3, 0.35, 0.9, 1.0])
    y_true = np.array([0, 1, 0, 1, 0])
    display = draw(y_true, y_proba)
    t = display.prob_pred[:, None]
    kernel = sum(
        np.exp(-0.5 * ((t - mirrored) / display.smece) ** 2)
        for mirrored in (y_proba, -y_proba, 2 - y_proba, 2 + y_proba, y_proba - 2)
    )
    expected = t[:, 0] + kernel @ (y_true - y_proba) / kernel.sum(axis=1)
    drawn = ~np.isnan(display.prob_true)
    assert drawn.mean() > 0.5
    assert_allclose(display.prob_true[drawn], expected[drawn], atol=1e-6)


@pytest.mark.usefixtures("undrawn")
def test_a_calibrated_classifier_is_on_the_diagonal_at_the_ends_too():
    y_proba = np.repeat([0.0, 0.5, 1.0], [10, 2, 10])
    display = draw(np.repeat([0, 1, 1], [11, 1, 10]), y_proba)
    drawn = ~np.isnan(display.prob_true)
    assert_allclose(display.prob_true[drawn], display.prob_pred[drawn], atol=1e-9)


@pytest.mark.usefixtures("undrawn")
def test_no_curve_without_samples():
    y_proba = np.repeat([0.1, 0.9], 500)
    y_true = np.concatenate([np.arange(500) % 8 < 1, np.arange(500) % 8 < 7])
    display = draw(y_true, y_proba)
    assert np.isnan(display.prob_true[np.abs(display.prob_pred - 0.5) < 0.2]).all()
    drawn = display.prob_true[np.isin(display.prob_pred.round(4), [0.1, 0.9])]
    assert not np.isnan(drawn).any()


def test_what_is_drawn():
    display = draw([0, 1, 1], CASES["tiny"], name="a guess")
    assert_array_equal(display.line_.get_ydata(), display.prob_true)
    assert display.line_.get_visible()
    widths = display.density_.get_linewidths()
    assert np.argmax(widths) == pytest.approx(np.argmax(display.density), abs=1)
    texts = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert texts == [f"a guess (smECE {display.smece:.3f})", "95 % if calibrated"]
    accuracy, confidence = (line.get_xdata()[0] for line in display.histogram_ax_.lines)
    assert_allclose([accuracy, confidence], [2 / 3, 1.4 / 3])
    assert display.histogram_ax_.patches[0].get_data().values.sum() == 3


def test_with_bins_on_one_axes_both_are_lines():
    y_true, y_proba = labels_of(CASES["saturated"]), CASES["saturated"]
    bins = ReliabilityDisplay.from_predictions(y_true, y_proba)
    smooth = draw(y_true, y_proba, ax=bins.ax_)
    assert bins.line_.get_visible()
    assert smooth.line_.get_visible()
    assert not bins.bars_[0].get_visible()
    assert smooth.histogram_ax_ is bins.histogram_ax_
    assert smooth.line_.get_color() != bins.line_.get_color()


@pytest.mark.usefixtures("undrawn")
def test_weights_equal_repetition_but_for_the_band():
    y_true, y_proba = labels_of(CASES["overconfident"]), CASES["overconfident"]
    weight = np.arange(300) % 4
    one = draw(y_true, y_proba, sample_weight=weight)
    other = draw(np.repeat(y_true, weight), np.repeat(y_proba, weight))
    assert one.smece == pytest.approx(other.smece)
    assert_allclose(one.density, other.density)
    drawn = ~np.isnan(one.prob_true)
    assert_allclose(one.prob_true[drawn], other.prob_true[drawn])


def test_from_estimator_and_plot_again():
    X, y = load_iris(return_X_y=True)
    names = np.array(["a", "b", "c"])[y]
    classifier = GaussianNB().fit(X[::2], names[::2])
    # A class is absent from the test data.
    display = SmoothReliabilityDisplay.from_estimator(
        classifier, X[1:100:2], names[1:100:2], n_resamples=20
    )
    assert display.ax_.get_ylabel() == "Accuracy"
    assert "GaussianNB" in display.line_.get_label()
    again = display.plot(name="again", color="black", histogram=False)
    assert again.histogram_ax_ is None
    assert again.line_.get_color() == "black"
    assert again.line_.get_label().startswith("again (smECE")
