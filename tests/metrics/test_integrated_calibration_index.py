"""Integrated calibration index: the calibrator's curve, and known distances."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import expit
from scipy.stats import norm
from sklearn.base import BaseEstimator, ClassifierMixin

from sklearn_calib.calibrators import LogOddsSplineCalibration
from sklearn_calib.metrics import get_scorer, integrated_calibration_index


def problem(n_samples, distort):
    """Return outcomes and predictions whose log-odds are a function of the true ones.

    The true log-odds are standard normal.
    """
    rng = np.random.default_rng(0)
    log_odds = rng.normal(size=n_samples)
    return rng.random(n_samples) < expit(log_odds), expit(distort(log_odds))


def twice(log_odds):
    return 2 * log_odds


@pytest.mark.parametrize("monotone", [False, True])
def test_distances_from_the_curve_of_the_calibrator(monotone):
    y_true, y_proba = problem(500, lambda x: 2 * np.sin(x) - x)
    weight = np.random.default_rng(1).integers(1, 4, size=500)
    calibrator = LogOddsSplineCalibration(monotone=monotone)
    calibrator.fit(y_proba, y_true, sample_weight=weight)
    gap = np.abs(calibrator.predict_proba(y_proba)[:, 1] - y_proba).repeat(weight)
    for statistic, expected in {
        "mean": gap.mean(),
        "max": gap.max(),
        0.5: np.quantile(gap, 0.5, method="inverted_cdf"),
        0.9: np.quantile(gap, 0.9, method="inverted_cdf"),
    }.items():
        value = integrated_calibration_index(
            y_true,
            y_proba,
            statistic=statistic,
            monotone=monotone,
            sample_weight=weight,
        )
        assert value == pytest.approx(expected, rel=1e-9)


def test_known_distances():
    """The distance of expit(2x) and expit(x) for a standard normal x."""
    y_true, y_proba = problem(50_000, twice)
    x = np.linspace(-8, 8, 10_001)
    gap, density = np.abs(expit(2 * x) - expit(x)), norm.pdf(x)
    order = np.argsort(gap)
    share = density[order].cumsum() / density.sum()
    expected = {"mean": density @ gap / density.sum()}
    for level in (0.5, 0.9):
        expected[level] = gap[order[np.searchsorted(share, level)]]
    for statistic, value in expected.items():
        index = integrated_calibration_index(y_true, y_proba, statistic=statistic)
        assert index == pytest.approx(value, abs=0.003)
    index = integrated_calibration_index(y_true, y_proba, statistic="max")
    assert index == pytest.approx(gap.max(), abs=0.01)


def test_calibrated_predictions_are_close_to_zero():
    data = problem(2000, lambda x: x)
    assert integrated_calibration_index(*data, statistic="max") < 0.03


def test_decreasing_curve_unless_monotone():
    y_true, y_proba = problem(2000, lambda x: -x)
    index = integrated_calibration_index(y_true, y_proba)
    assert integrated_calibration_index(y_true, y_proba, monotone=True) < index - 0.01


def test_scorers_evaluate_the_positive_class():
    class Fixed(ClassifierMixin, BaseEstimator):
        classes_ = np.array([0, 1])

        def predict_proba(self, X):
            return np.column_stack([1 - X, X])

    y_true, y_proba = problem(300, twice)
    statistics = {"ici": "mean", "e50": 0.5, "e90": 0.9, "emax": "max"}
    for name, statistic in statistics.items():
        value = get_scorer(f"neg_{name}")(Fixed(), y_proba, y_true)
        expected = integrated_calibration_index(y_true, y_proba, statistic=statistic)
        assert value == pytest.approx(-expected, rel=1e-12)


def test_several_classes_are_evaluated_by_the_predicted_class():
    rng = np.random.default_rng(0)
    y_proba = rng.dirichlet(np.ones(3), size=300)
    y_true = rng.integers(3, size=300)
    expected = integrated_calibration_index(
        y_proba.argmax(axis=1) == y_true, y_proba.max(axis=1)
    )
    assert integrated_calibration_index(y_true, y_proba) == expected


@pytest.mark.parametrize("statistic", [0, 1, 1.5, "median", True])
def test_bad_statistic(statistic):
    with pytest.raises(ValueError, match="'statistic' parameter"):
        integrated_calibration_index([0, 1], [0.2, 0.8], statistic=statistic)


@pytest.mark.parametrize("y_proba", [[0.5, 0.5], [0.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
@pytest.mark.parametrize("y_true", [[0, 0], [0, 1], [1, 0]])
def test_few_samples(y_true, y_proba):
    value = integrated_calibration_index(y_true, y_proba, labels=[0, 1])
    assert_allclose(value, 0.5, atol=0.5)
