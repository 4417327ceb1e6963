"""Joint log-odds spline calibration: parameters of classes, and its benefit."""

import numpy as np
import pytest
from scipy.special import log_softmax
from sklearn.metrics import log_loss

from sklearn_calib.calibrators import (
    JointLogOddsSplineCalibration,
    LogOddsSplineCalibration,
    StructuredMatrixScaling,
    TemperatureScaling,
)


def bent(x):
    """True scores of log-probabilities: a floor for small ones."""
    return x + np.logaddexp(0, -x - 4)


def draw(n_samples, seed=0, n_classes=5, curve=bent):
    """Return predicted log-probabilities, labels, and true probabilities."""
    rng = np.random.default_rng(seed)
    x = log_softmax(3 * rng.normal(size=(n_samples, n_classes)), axis=1)
    scores = curve(x)
    y = (scores + rng.gumbel(size=x.shape)).argmax(axis=1)
    return x, y, np.exp(log_softmax(scores, axis=1))


def excess(calibrator, n_samples, **options):
    """Return the mean divergence of calibrated from true probabilities."""
    x_test, _, true = draw(5000, 99, **options)
    divergences = []
    for seed in range(5):
        x, y, _ = draw(n_samples, seed, **options)
        proba = calibrator.fit(x, y).predict_proba(x_test)
        divergences.append(np.mean((true * np.log(true / proba)).sum(axis=1)))
    return np.mean(divergences)


def test_calibrated_predictions_change_little():
    _, y, true = draw(2000, curve=lambda x: x)
    proba = JointLogOddsSplineCalibration().fit(true, y).predict_proba(true)
    assert np.abs(proba - true).max() < 0.05


def test_slopes_and_intercepts_of_classes_are_fitted():
    shift = np.array([2, 0, 0, 0, -2])
    x, y, _ = draw(3000, curve=lambda x: bent(x) + shift)
    calibrator = JointLogOddsSplineCalibration(from_logits=True).fit(x, y)
    intercept = calibrator.intercept_ - calibrator.intercept_[1:4].mean()
    assert intercept == pytest.approx(shift, abs=0.5)
    assert calibrator.log_loss_after_ < calibrator.log_loss_before_ - 0.1


@pytest.mark.slow
def test_a_shared_curve_is_better_than_one_for_each_class():
    joint = excess(JointLogOddsSplineCalibration(from_logits=True), 500)
    for other in (LogOddsSplineCalibration, StructuredMatrixScaling):
        assert joint < excess(other(from_logits=True), 500) / 2


@pytest.mark.slow
def test_it_costs_little_where_the_truth_is_a_temperature():
    options = {"n_samples": 500, "curve": lambda x: x / 2}
    joint = excess(JointLogOddsSplineCalibration(from_logits=True), **options)
    temperature = excess(TemperatureScaling(from_logits=True), **options)
    assert joint < temperature + 0.01


@pytest.mark.slow
def test_public_data(shared_data):
    """At 300 samples of CIFAR-10, clearly better than one-vs-rest."""
    data = shared_data("logits/cifar10_resnet50_mukhoti_ce.npz")
    X, X_test = (data[f"{part}_logits"].astype(float) for part in ("val", "test"))
    X, y = X[:300], data["val_labels"][:300]
    losses = [
        log_loss(
            data["test_labels"],
            kind(from_logits=True).fit(X, y).predict_proba(X_test),
        )
        for kind in (JointLogOddsSplineCalibration, LogOddsSplineCalibration)
    ]
    assert losses[0] < losses[1] - 0.01
