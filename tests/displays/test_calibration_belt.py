"""Calibration belt: curve, nested belts, labels and what cannot be drawn."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression

from sklearn_calib.displays import CalibrationBeltDisplay
from sklearn_calib.metrics import calibration_belt_test


@pytest.fixture(scope="module")
def problem():
    """Return labels and overconfident predictions."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=400)
    ill = rng.random(400) < expit(x)
    return np.where(ill, "ill", "healthy"), expit(2 * x)


def draw(problem, **options):
    options = {"labels": ["healthy", "ill"], **options}
    return CalibrationBeltDisplay.from_predictions(*problem, **options)


def legend_texts(display):
    return [text.get_text() for text in display.ax_.get_legend().get_texts()]


def test_curve_is_a_logistic_regression(problem):
    display = draw(problem)
    assert display.degree == 1
    x = logit(problem[1])[:, None]
    fit = LogisticRegression(C=np.inf, tol=1e-10).fit(x, problem[0])
    expected = fit.predict_proba(logit(display.prob_pred)[:, None])[:, 1]
    assert_allclose(display.prob_true, expected, rtol=1e-4)
    assert_array_equal(display.line_.get_ydata(), display.prob_true)
    ends = display.prob_pred[[0, -1]]
    assert_allclose(ends, [problem[1].min(), problem[1].max()], rtol=1e-12)


@pytest.mark.usefixtures("undrawn")
def test_belts_are_nested(problem):
    display = draw(problem, confidence_levels=[0.95, 0.5, 0.8])
    assert_array_equal(display.confidence_levels, [0.5, 0.8, 0.95])
    low, high = display.belts[:, 0], display.belts[:, 1]
    assert (np.diff(low, axis=0) < 0).all()
    assert (low[0] < display.prob_true).all()
    assert (display.prob_true < high[0]).all()
    assert (np.diff(high, axis=0) > 0).all()
    columns = ["prob_pred", "prob_true", "low_0.5", "high_0.5", "low_0.8", "high_0.8"]
    assert display.frame().columns.tolist()[:6] == columns


def test_legend(problem):
    y_true, y_proba = problem
    pvalue = calibration_belt_test(*problem, labels=["healthy", "ill"]).pvalue
    display = draw(problem, name="first")
    assert display.pvalue == pvalue < 0.001
    expected = ["first (p < 0.001)", "80 % belt", "95 % belt", "Calibrated"]
    assert legend_texts(display) == expected
    second = draw((y_true, expit(logit(y_proba) / 2)), ax=display.ax_)
    assert legend_texts(second)[1].startswith("p = 0.")
    assert len(legend_texts(second)) == 5


@pytest.mark.usefixtures("undrawn")
def test_positive_label(problem):
    """The curve of the other class is reflected."""
    y_true, proba = problem
    columns = np.column_stack([1 - proba, proba])
    options = {"confidence_levels": [0.8]}
    display = draw((y_true, columns), pos_label="healthy", **options)
    expected = draw(problem, **options)
    assert_allclose(display.prob_true[::-1], 1 - expected.prob_true, rtol=1e-6)
    assert_allclose(display.belts[:, 0, ::-1], 1 - expected.belts[:, 1], atol=1e-6)


@pytest.mark.usefixtures("undrawn")
def test_internal_validation(problem):
    assert draw(problem, validation="internal", confidence_levels=[0.8]).degree == 2


def test_separable_outcomes_are_an_error():
    with pytest.raises(ValueError, match="must contain both outcomes at overlapping"):
        draw((["healthy", "ill"], [0.2, 0.7]))
    assert not plt.get_fignums()


@pytest.mark.parametrize("levels", [[], [1.0], [np.nan], [[0.5]], 0.9])
def test_bad_levels(problem, levels):
    with pytest.raises((TypeError, ValueError), match=r"confidence_levels.* must be"):
        draw(problem, confidence_levels=levels)
