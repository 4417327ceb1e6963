"""Calibration belt test: its statistic, and its level."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from scipy.special import expit
from scipy.stats import chi2
from sklearn.exceptions import UndefinedMetricWarning

from sklearn_calib.metrics import calibration_belt_test


def problem(n_samples, square=0.0, cube=0.0):
    """Return outcomes and predictions; the true log-odds are a polynomial in theirs."""
    rng = np.random.default_rng(0)
    x = rng.normal(scale=1.5, size=n_samples)
    true = expit(x + square * x**2 + cube * x**3)
    return rng.random(n_samples) < true, expit(x)


@pytest.mark.parametrize(
    ("degree", "square", "cube"), [(1, 0, 0), (2, 0.3, 0), (3, 0.3, -0.1)]
)
def test_statistic_is_that_of_a_general_optimiser(degree, square, cube):
    y_true, y_proba = problem(1500, square, cube)
    result = calibration_belt_test(y_true, y_proba)
    assert result.degree == degree
    powers = np.log(y_proba / (1 - y_proba))[:, None] ** np.arange(degree + 1)

    def loss(beta):
        return np.logaddexp(0, powers @ beta).sum() - (powers[y_true] @ beta).sum()

    def gradient(beta):
        return powers.T @ (expit(powers @ beta) - y_true)

    start = np.zeros(degree + 1)
    options = {"method": "BFGS", "options": {"gtol": 1e-7}}
    least = minimize(loss, start, jac=gradient, **options).fun
    null = -np.log(np.where(y_true, y_proba, 1 - y_proba)).sum()
    assert_allclose(result.statistic, 2 * (null - least), rtol=1e-6)


def test_internal_validation_starts_with_degree_two():
    y_true, y_proba = problem(400)
    external = calibration_belt_test(y_true, y_proba)
    internal = calibration_belt_test(y_true, y_proba, validation="internal")
    assert (external.degree, internal.degree) == (1, 2)
    assert_allclose(internal.pvalue, chi2.sf(internal.statistic, 1))


def test_options_of_the_selection():
    y_true, y_proba = problem(1500, 0.3, -0.1)
    assert calibration_belt_test(y_true, y_proba).degree == 3
    assert calibration_belt_test(y_true, y_proba, max_degree=2).degree <= 2
    strict = calibration_belt_test(y_true, y_proba, significance_level=1e-300)
    assert strict.degree == 1


def test_unequal_weights_are_worth_fewer_samples():
    y_true, y_proba = problem(500, square=0.2)
    some = np.arange(500) % 2 > 0
    result = calibration_belt_test(y_true, y_proba, sample_weight=3 * some)
    expected = calibration_belt_test(y_true[some], y_proba[some])
    assert_allclose(result, expected, rtol=1e-9)
    weight = np.random.default_rng(1).exponential(size=500)
    weighted = calibration_belt_test(y_true, y_proba, sample_weight=weight)
    assert weighted.statistic < calibration_belt_test(y_true, y_proba).statistic


@pytest.mark.parametrize(
    ("y_true", "y_proba"),
    [
        ([0, 0, 1, 1], [0.1, 0.3, 0.4, 0.9]),
        ([0, 1, 1, 1], [0.2, 0.2, 0.2, 0.2]),
        ([0], [0.2]),
        ([1, 1], [0.2, 0.6]),
        ([0, 0, 0, 0, 0], [0.1, 0.2, 0.5, 0.6, 0.95]),
    ],
)
def test_no_estimate(y_true, y_proba):
    with pytest.warns(UndefinedMetricWarning, match="belt test is not defined because"):
        result = calibration_belt_test(y_true, y_proba, labels=[0, 1])
    assert np.isnan(result).all()


def test_an_impossible_outcome_is_certain_evidence():
    y_true, y_proba = np.array([0, 1, 0, 1, 1]), np.array([0.2, 0.3, 0.7, 0.8, 0])
    result = calibration_belt_test(y_true, y_proba)
    assert result[:2] == (np.inf, 0)
    # So are outcomes for which the polynomial has no estimate.
    result = calibration_belt_test([0, 1, 0, 1], [1, 0, 1, 0])
    assert result == pytest.approx((np.inf, 0, 1))
    # Possible outcomes with the probabilities 0 and 1 are not.
    assert calibration_belt_test([0, 1, 0, 1, 0], y_proba).pvalue > 0.05


@pytest.mark.parametrize("validation", ["external", "internal"])
def test_correct_certainty_is_no_evidence(validation):
    """Samples with the probability 0 or 1 that are as predicted are ignored."""
    y_true, y_proba = problem(200, square=0.2)
    result = calibration_belt_test(y_true, y_proba, validation=validation)
    certain = np.arange(100) % 2
    data = np.append(y_true, certain), np.append(y_proba, certain)
    again = calibration_belt_test(*data, validation=validation)
    assert_allclose(again, result, rtol=1e-9)


def test_degree_is_limited_by_the_number_of_probabilities():
    rng = np.random.default_rng(0)
    y_proba = rng.choice([0.2, 0.5, 0.8], size=2000)
    y_true = rng.random(2000) < np.where(y_proba == 0.5, 0.9, 0.5)
    assert calibration_belt_test(y_true, y_proba).degree == 2


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True])
def test_level(weighted):
    """Calibrated predictions are rejected at 5 % as often as that."""
    rng = np.random.default_rng(0)
    rejected, n_draws = 0, 2000
    for _ in range(n_draws):
        y_proba = expit(rng.normal(scale=1.5, size=600))
        y_true = rng.random(600) < y_proba
        weight = rng.exponential(size=600) if weighted else None
        result = calibration_belt_test(y_true, y_proba, sample_weight=weight)
        rejected += result.pvalue < 0.05
    assert 0.04 < rejected / n_draws < 0.065
