"""Log-odds spline calibration: the ends of the curve, and its benefit."""

import numpy as np
import pytest
from scipy.special import expit

from sklearn_calib._solvers.spline_logistic import evaluate_curve
from sklearn_calib.calibrators import (
    IsotonicCalibration,
    JointLogOddsSplineCalibration,
    LogOddsSplineCalibration,
    PlattScaling,
    TemperatureScaling,
    VennAbers,
)


def wavy(x):
    """True log-odds, which increase with x in waves."""
    return x + np.sin(2 * x) / 2


def draw(n_samples, seed=0, curve=wavy):
    rng = np.random.default_rng(seed)
    x = rng.normal(scale=2, size=n_samples)
    return x, (rng.random(n_samples) < expit(curve(x))).astype(float)


def excess(calibrator, curve=wavy, n_samples=1000, n_draws=10):
    """Return the mean excess of the log loss over that of the true probabilities."""
    x_test = np.random.default_rng(99).normal(scale=2, size=20_000)
    true = expit(curve(x_test))
    total = 0.0
    for seed in range(n_draws):
        proba = calibrator.fit(*draw(n_samples, seed, curve)).predict_proba(x_test)
        divergence = true * np.log(true / proba[:, 1])
        total += np.mean(divergence + (1 - true) * np.log((1 - true) / proba[:, 0]))
    return total / n_draws


@pytest.mark.parametrize("monotone", [True, False])
def test_beyond_the_data_the_curve_is_linear(monotone):
    calibrator = LogOddsSplineCalibration(monotone=monotone, from_logits=True)
    (curve,) = calibrator.fit(*draw(1000)).maps_
    for points in (curve[0][0] - np.arange(3), curve[0][-1] + np.arange(3)):
        assert np.diff(evaluate_curve(curve, points), n=2) == pytest.approx(
            0, abs=1e-12
        )


@pytest.mark.parametrize("scale", [10, 1e3])
@pytest.mark.parametrize(
    "kind", [LogOddsSplineCalibration, JointLogOddsSplineCalibration]
)
def test_very_overconfident_predictions_are_as_good_as_others(kind, scale):
    """Its prior would otherwise keep the curve too close to the identity."""
    rng = np.random.default_rng(0)
    x, noise = rng.normal(size=2000), rng.random(2000)
    y = (x > 0) ^ (noise < 0.1)
    losses = []
    for calibrator in (kind(from_logits=True), PlattScaling(from_logits=True)):
        calibrator.fit(scale * x[:300], y[:300])
        proba = calibrator.predict_proba(scale * x[300:])[:, 1]
        losses.append(-np.log(np.where(y[300:], proba, 1 - proba)).mean())
    assert losses[0] < losses[1]


@pytest.mark.slow
def test_it_follows_waves_better_than_the_others():
    """Half of the excess of isotonic regression, at 1000 samples."""
    spline = excess(LogOddsSplineCalibration(from_logits=True))
    assert spline < excess(VennAbers(from_logits=True))
    assert spline < excess(PlattScaling(from_logits=True)) / 2
    assert spline < excess(IsotonicCalibration(from_logits=True)) / 2


@pytest.mark.slow
def test_it_costs_little_where_the_truth_is_a_temperature():
    def sharpened(x):
        return x / 2

    spline = excess(LogOddsSplineCalibration(from_logits=True), sharpened)
    assert spline < excess(TemperatureScaling(from_logits=True), sharpened) + 0.002
