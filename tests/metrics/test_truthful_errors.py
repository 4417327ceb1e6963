"""Truthful calibration errors: by hand, and exact expectations under the truth."""

from itertools import product

import numpy as np
import pytest
from scipy.integrate import quad
from sklearn import config_context

from sklearn_calib.metrics import (
    averaged_two_bin_error,
    expected_calibration_error,
    quantile_squared_error,
)

TRUTHFUL = [averaged_two_bin_error, quantile_squared_error]


def expectation(metric, truth, report, **options):
    """Return the expected value of a metric, over all outcomes of few samples."""
    outcomes = np.array(list(product([0, 1], repeat=len(truth))))
    likelihood = np.prod(np.where(outcomes == 1, truth, 1 - truth), axis=1)
    with config_context(skip_parameter_validation=True):
        values = [metric(y, report, labels=[0, 1], **options) for y in outcomes]
    return likelihood @ values


def problems(n_problems):
    """Yield true probabilities and reports, some of them rounded or tied."""
    rng = np.random.default_rng(0)
    for _ in range(n_problems):
        truth = rng.beta(*rng.choice([0.3, 1, 3], 2), size=rng.integers(1, 5))
        kind = rng.integers(3)
        report = [rng.uniform(size=len(truth)), truth.round(), truth * 0 + truth.mean()]
        yield truth, report[kind]


def check_truth_is_best(metric, n_problems):
    for truth, report in problems(n_problems):
        honest = expectation(metric, truth, truth)
        assert honest == pytest.approx(truth @ (1 - truth) / len(truth) ** 2)
        assert expectation(metric, truth, report) >= honest - 1e-12


@pytest.mark.parametrize("metric", TRUTHFUL)
def test_true_probabilities_have_the_lowest_expectation(metric):
    check_truth_is_best(metric, 40)


@pytest.mark.slow
@pytest.mark.parametrize("metric", TRUTHFUL)
def test_true_probabilities_have_the_lowest_expectation_in_many_problems(metric):
    check_truth_is_best(metric, 1000)


def test_ece_rewards_other_predictions():
    rewarded = [
        expectation(expected_calibration_error, truth, report)
        < expectation(expected_calibration_error, truth, truth) - 1e-12
        for truth, report in problems(40)
    ]
    assert np.mean(rewarded) > 0.2


def two_bins_at(threshold, residual, proba):
    below = proba < threshold
    sums = residual[below].sum(), residual[~below].sum()
    return np.square(sums).sum() / len(proba) ** 2


def test_averaged_two_bin_error_is_the_integral_over_thresholds():
    rng = np.random.default_rng(1)
    proba, y = rng.uniform(size=12).round(1), rng.integers(2, size=12)
    integral, _ = quad(two_bins_at, 0, 1, (proba - y, proba), points=np.unique(proba))
    assert averaged_two_bin_error(y, proba) == pytest.approx(integral, abs=1e-9)


def test_by_hand():
    """Residuals 0.1, 0.3, -0.4 and -0.1, and their sums divided by four."""
    y_true, y_proba = [0, 0, 1, 1], [0.1, 0.3, 0.6, 0.9]
    lower, upper = [0, 0.025, 0.1, 0, -0.025], [-0.025, -0.05, -0.125, -0.025, 0]
    value = np.dot([0.1, 0.2, 0.3, 0.3, 0.1], np.square([lower, upper]).sum(axis=0))
    assert averaged_two_bin_error(y_true, y_proba) == pytest.approx(value)
    value = quantile_squared_error(y_true, y_proba, n_bins=2)
    assert value == pytest.approx(0.1**2 + 0.125**2)


@pytest.mark.parametrize("metric", TRUTHFUL)
def test_classes_are_added(metric):
    rng = np.random.default_rng(2)
    y_true, y_proba = rng.integers(3, size=50), rng.dirichlet([1, 1, 1], size=50)
    each = [metric(y_true == k, y_proba[:, k]) for k in range(3)]
    assert metric(y_true, y_proba) == pytest.approx(sum(each))


def test_bins_of_equal_size_give_the_l2_error():
    rng = np.random.default_rng(3)
    y_true, y_proba = rng.integers(2, size=60), rng.uniform(size=60)
    l2 = expected_calibration_error(
        y_true, y_proba, norm="l2", strategy="quantile", n_bins=6
    )
    error = quantile_squared_error(y_true, y_proba, n_bins=6)
    assert error == pytest.approx(l2**2 / 6)


@pytest.mark.parametrize("metric", TRUTHFUL)
def test_top_label_rewards_a_change_of_the_predicted_class(metric):
    """A prediction of 1/3 for a class with a probability of 0.2 has less variance."""
    truth = np.array([0.5, 0.3, 0.2])
    values = [
        sum(
            truth[k] * metric([k], [report], labels=[0, 1, 2], mode="top_label")
            for k in range(3)
        )
        for report in (truth, [0.33, 0.33, 0.34])
    ]
    assert values[1] < values[0]
