"""Net benefit: values of dcurves, and limits by hand."""

from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sklearn_calib.metrics import (
    bootstrap_interval,
    net_benefit_curve,
    net_benefit_score,
)

Y_TRUE, PROBA = np.array([0, 0, 1, 1, 0]), np.array([0.1, 0.3, 0.3, 0.9, 0.7])


@pytest.fixture(scope="module")
def recorded(reference):
    """Return what dcurves returns for its data, with the data as arrays."""
    table = reference("metric_decisions")
    y_true = np.array([int(digit) for digit in table["inputs"]["y"]])
    return table, y_true, np.array(table["inputs"]["p"])


def test_values_of_dcurves(recorded):
    table, y_true, y_proba = recorded
    at = table["inputs"]["thresholds"]
    curve = net_benefit_curve(y_true, y_proba, thresholds=at)
    assert_allclose(curve.net_benefit, table["net_benefit"]["p"], rtol=1e-12)
    assert_allclose(curve.treat_all, table["net_benefit"]["all"], rtol=1e-12)
    values = [net_benefit_score(y_true, y_proba, threshold=t) for t in at]
    assert_allclose(values, curve.net_benefit, rtol=1e-12)


def test_published_values_of_the_r_package(recorded):
    table, y_true, y_proba = recorded
    published = table["published"]
    curve = net_benefit_curve(y_true, y_proba, thresholds=published["thresholds"])
    # The vignette prints three significant digits.
    assert_allclose(curve.treat_all, published["all"], rtol=4e-3)
    at = published["thresholds"].index(0.25)
    assert curve.net_benefit[at] == pytest.approx(published["p_at_0.25"], abs=1e-5)


def test_both_columns_are_of_the_positive_class():
    columns = np.column_stack([1 - PROBA, PROBA])
    for proba in (columns, PROBA[:, None]):
        value = net_benefit_score(Y_TRUE, proba, threshold=0.3)
        assert value == pytest.approx(2 / 5 - 2 / 5 * 0.3 / 0.7)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_probability_equal_to_the_threshold_is_treated(dtype):
    proba = PROBA.astype(dtype)
    curve = net_benefit_curve(Y_TRUE, proba)
    assert_allclose(curve.thresholds, np.linspace(0.01, 0.99, 99))
    # In percent, the comparison is of integers.
    is_treated = np.rint(100 * PROBA) >= np.arange(1, 100)[:, None]
    n_true, n_treated = is_treated @ Y_TRUE, is_treated.sum(axis=1)
    odds = curve.thresholds / (1 - curve.thresholds)
    expected = (n_true - (n_treated - n_true) * odds) / 5
    assert_allclose(curve.net_benefit, expected, atol=1e-12)


def test_several_classes_are_decided_by_the_predicted_class():
    """Three of four predictions have a confidence of at least 0.6, and one is wrong."""
    proba = [[0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [0.1, 0.1, 0.8], [0.3, 0.5, 0.2]]
    value = net_benefit_score([0, 1, 0, 2], proba, threshold=0.6)
    assert value == pytest.approx(2 / 4 - 1 / 4 * 0.6 / 0.4)


def test_thresholds_are_sorted():
    curve = net_benefit_curve(Y_TRUE, PROBA, thresholds=[0.5, 0.2, 0.5])
    assert curve.thresholds.tolist() == [0.2, 0.5]
    expected = [net_benefit_score(Y_TRUE, PROBA, threshold=t) for t in (0.2, 0.5)]
    assert curve.net_benefit.tolist() == expected


@pytest.mark.parametrize(
    ("thresholds", "message"),
    [
        ([0.2, 1.0], r"thresholds must lie in \(0, 1\), got 1\. Pass"),
        ([0.0], r"thresholds must lie in \(0, 1\), got 0\."),
        ([np.nan], "thresholds must .*nan|NaN"),
        ([], r"thresholds must be a non-empty 1-d array, got .* \(0,\)"),
        ([[0.2]], r"thresholds must be a non-empty 1-d array, got .* \(1, 1\)"),
    ],
)
def test_bad_thresholds(thresholds, message):
    with pytest.raises(ValueError, match=message):
        net_benefit_curve(Y_TRUE, PROBA, thresholds=thresholds)


@pytest.mark.parametrize("threshold", [0, 1, 1.5])
def test_bad_threshold(threshold):
    with pytest.raises(ValueError, match="'threshold' parameter"):
        net_benefit_score(Y_TRUE, PROBA, threshold=threshold)


def test_bootstrap_interval(recorded):
    """The net benefit is a mean, so the limits are near those of the normal one."""
    _, y_true, y_proba = recorded
    metric = partial(net_benefit_score, threshold=0.2)
    options = {"n_resamples": 400, "random_state": 0}
    low, high = bootstrap_interval(metric, y_true, y_proba, **options)
    each = (y_proba >= 0.2) * np.where(y_true, 1, -0.25)
    half = 1.96 * each.std() / np.sqrt(len(each))
    assert_allclose([low, high], each.mean() + np.array([-half, half]), atol=0.003)
