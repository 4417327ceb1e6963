"""Calibration slope: values of statsmodels, and what has no estimate."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit, logit
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.linear_model import LogisticRegression

from sklearn_calib.metrics import calibration_slope


def problem(n_samples, n_classes=3):
    rng = np.random.default_rng(0)
    y_proba = rng.dirichlet(np.ones(n_classes), size=n_samples)
    y_true = (rng.random((n_samples, 1)) < y_proba.cumsum(axis=1)).argmax(axis=1)
    return y_true, y_proba


@pytest.mark.parametrize("number", [0, 1])
def test_values_of_statsmodels(number, reference):
    table = reference("metric_decisions")
    y_true = [int(digit) for digit in table["inputs"]["y"]]
    expected = table["slopes"][number]
    log_odds = expected["shift"] + expected["factor"] * logit(table["inputs"]["p"])
    result = calibration_slope(y_true, expit(log_odds))
    for name in result._fields:
        assert_allclose(getattr(result, name), expected[name], rtol=1e-5, atol=1e-6)


def test_weights_of_the_fit():
    """The estimates are those of the weighted likelihood."""
    y_true, y_proba = problem(200, n_classes=2)
    weight = np.random.default_rng(1).uniform(size=200)
    result = calibration_slope(y_true, y_proba, sample_weight=weight)
    fit = LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-12)
    fit.fit(logit(y_proba[:, 1:]), y_true, sample_weight=weight)
    expected = [fit.coef_[0, 0], fit.intercept_[0]]
    assert_allclose([result.slope, result.intercept], expected, rtol=1e-6)
    proba = expit(logit(y_proba[:, 1]) + result.in_the_large)
    assert weight @ (proba - y_true) == pytest.approx(0, abs=1e-10)


def test_intervals_of_equal_weights_of_some_are_those_of_some():
    y_true, y_proba = problem(300)
    some = np.arange(300) % 3 > 0
    result = calibration_slope(y_true, y_proba, sample_weight=7 * some)
    expected = calibration_slope(y_true[some], y_proba[some])
    for value, other in zip(result, expected, strict=True):
        assert_allclose(value, other, rtol=1e-10)


def test_each_class():
    y_true, y_proba = problem(300)
    result = calibration_slope(y_true, y_proba, mode="classwise")
    for k in range(3):
        one = calibration_slope(y_true == k, y_proba[:, k])
        for values, value in zip(result, one, strict=True):
            assert_allclose(values[k], value, rtol=1e-12)
    assert result.slope.shape == (3,)
    assert result.slope_interval.shape == (3, 2)


def test_mode_by_the_number_of_classes():
    y_true, y_proba = problem(200, n_classes=2)
    expected = calibration_slope(y_true, y_proba[:, 1])
    assert_array_equal(calibration_slope(y_true, y_proba).slope, expected.slope)
    y_true, y_proba = problem(200)
    is_correct = y_proba.argmax(axis=1) == y_true
    expected = calibration_slope(is_correct, y_proba.max(axis=1))
    assert calibration_slope(y_true, y_proba).slope == expected.slope


@pytest.mark.parametrize(
    ("y_true", "y_proba", "message"),
    [
        ([0, 0, 1, 1], [0.1, 0.3, 0.4, 0.9], "slope and intercept .* separate the out"),
        ([0, 0, 1, 1], [0.9, 0.4, 0.4, 0.1], "slope and intercept .* separate the out"),
        ([0, 1, 1, 1], [0.2, 0.2, 0.2, 0.2], "slope and intercept .* are equal"),
    ],
)
def test_slope_does_not_exist(y_true, y_proba, message):
    with pytest.warns(UndefinedMetricWarning, match=message):
        result = calibration_slope(y_true, y_proba)
    assert np.isnan([result.slope, *result.slope_interval]).all()
    assert np.isnan([result.intercept, *result.intercept_interval]).all()
    assert np.isfinite([result.in_the_large, *result.in_the_large_interval]).all()


def test_the_large_of_equal_predictions_by_hand():
    """Three of four occur, predicted as 0.2; the information is n p (1 - p)."""
    with pytest.warns(UndefinedMetricWarning, match="are equal"):
        result = calibration_slope([0, 1, 1, 1], np.full(4, 0.2))
    value = np.log(3) - np.log(0.25)
    half = 1.959964 / np.sqrt(4 * 0.75 * 0.25)
    assert result.in_the_large == pytest.approx(value)
    expected = [value - half, value + half]
    assert_allclose(result.in_the_large_interval, expected, rtol=1e-6)


def test_one_outcome_only():
    with pytest.warns(
        UndefinedMetricWarning, match="in-the-large are not .* one outcome"
    ):
        result = calibration_slope([0, 0], [0.2, 0.4], labels=[0, 1])
    assert all(np.isnan(value).all() for value in result)


@pytest.mark.parametrize("factor", [1e2, 1e5])
@pytest.mark.parametrize("heavy", [[0], [1], [3], [0, 3], [1, 3], [1, 2]])
def test_two_probabilities_and_weights_of_any_range(heavy, factor):
    """The line passes through the log-odds of the outcomes at both probabilities."""
    weight = np.array([1.0, 2.0, 4.0, 3.0])
    weight[heavy] *= factor
    low, high = np.log(weight[1] / weight[0]), np.log(weight[3] / weight[2])
    y_true, y_proba = np.array([0, 1, 0, 1]), np.array([0.2, 0.2, 0.9, 0.9])
    x = logit(y_proba[[0, 2]])
    slope = (high - low) / (x[1] - x[0])
    result = calibration_slope(y_true, y_proba, sample_weight=weight)
    assert_allclose(result[:2], [slope, low - slope * x[0]], rtol=1e-6)
    assert np.isfinite(np.concatenate(result[3:])).all()
    mirrored = calibration_slope(1 - y_true, 1 - y_proba, sample_weight=weight)
    assert_allclose(mirrored.in_the_large, -result.in_the_large, rtol=1e-6)
    # The shifted probabilities have the mean of the outcomes.
    p = expit(logit(y_proba) + result.in_the_large)
    q = expit(-logit(y_proba) - result.in_the_large)
    assert_allclose(weight @ (p * (1 - y_true)), weight @ (q * y_true), rtol=1e-6)


def test_a_slope_that_negligible_weights_determine_is_undefined():
    y_true, y_proba = np.array([0, 1, 0, 1]), np.array([0.2, 0.2, 0.9, 0.9])
    with pytest.warns(UndefinedMetricWarning, match="samples of negligible weight"):
        result = calibration_slope(y_true, y_proba, sample_weight=[1e-20, 2, 4, 3])
    assert np.isnan(result[:2]).all()
    assert np.isfinite(result.in_the_large)


def test_probabilities_of_zero_and_one_are_replaced():
    """Half of the smallest other distance is 0.05, so the odds are 1 to 20."""
    y_true, y_proba = [0, 1, 0, 1, 0, 1], np.array([0, 0.1, 0.2, 0.8, 0.7, 1])
    result = calibration_slope(y_true, y_proba)
    expected = calibration_slope(y_true, y_proba.clip(1 / 21, 20 / 21))
    for value, other in zip(result, expected, strict=True):
        assert_allclose(value, other, rtol=1e-9)


@pytest.mark.slow
def test_coverage_of_intervals():
    """Labels are drawn with slope 0.7 and intercept 0.3."""
    rng = np.random.default_rng(0)
    n_draws, inside = 1000, 0
    for _ in range(n_draws):
        log_odds = rng.normal(scale=1.5, size=300)
        y_true = rng.random(300) < expit(0.3 + 0.7 * log_odds)
        result = calibration_slope(y_true, expit(log_odds), confidence_level=0.9)
        low, high = np.array([result.slope_interval, result.intercept_interval]).T
        inside += (low < [0.7, 0.3]) & (high > [0.7, 0.3])
    assert_allclose(inside / n_draws, 0.9, atol=0.03)
