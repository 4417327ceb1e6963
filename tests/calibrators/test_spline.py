"""Spline calibration: recorded values, and the probabilities of other classes."""

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.metrics import log_loss

from sklearn_calib._expressions.replace_top import replace_top
from sklearn_calib.calibrators import SplineCalibration, TemperatureScaling


def test_recorded_predictions(reference):
    """The other three classes keep their relative proportions."""
    recorded = reference("cal_spline")
    inputs = recorded["inputs"]["multiclass"]
    values = recorded["expected"][0]["values"]
    fitted = SplineCalibration(from_logits=True)
    fitted.fit(inputs["fit_logits"], inputs["fit_labels"])
    test = np.array(inputs["test_logits"])
    proba = fitted.predict_proba(test)
    np.testing.assert_allclose(
        proba[np.arange(60), test.argmax(axis=1)],
        np.maximum(values["test_correct_interpolation"], 1 / 4),
        atol=5e-4,
    )


def replaced(logits, confidence):
    return replace_top(logits, confidence[:, None], 1 - confidence[:, None])


def test_other_classes_share_the_rest():
    logits = np.log([[0.5, 0.3, 0.2], [0.5, 0.49, 0.01], [0.4, 0.4, 0.2]])
    proba = replaced(logits, np.array([0.6, 0.4, 1 / 3]))
    np.testing.assert_allclose(proba[0], [0.6, 0.24, 0.16])
    # A temperature preserves ratios of logarithms; the first two remain nearly tied.
    np.testing.assert_allclose(proba[1, 0], 0.4)
    ratios = np.diff(np.log(proba[1])) / np.diff(logits[1])
    assert ratios[0] == pytest.approx(ratios[1])
    assert 0 < ratios[0] < 1
    np.testing.assert_allclose(proba[2], 1 / 3)


def test_rows_without_a_gap():
    """The confidence of a uniform row cannot be lower, and must not increase."""
    proba = replaced(np.zeros((2, 4)), np.array([0.25, 0.4]))
    np.testing.assert_allclose(proba, [[0.25] * 4, [0.4, 0.2, 0.2, 0.2]])


def test_rest_below_the_precision():
    proba = replaced(np.array([[900.0, 0.0, 0.0]]), np.array([0.9]))
    np.testing.assert_allclose(proba, [[0.9, 0.05, 0.05]])


def test_two_classes_may_change_sides():
    rng = np.random.default_rng(0)
    score = 2 * rng.normal(size=4000)
    y = rng.uniform(size=4000) < 1 / (1 + np.exp(1 - score))
    fitted = SplineCalibration(from_logits=True).fit(score, y)
    proba = fitted.predict_proba([0.5])[0, 1]
    assert 0.3 < proba < 0.45


@pytest.mark.parametrize("n_classes", [2, 5])
def test_never_certain(n_classes):
    logits = np.random.default_rng(0).normal(size=(98, n_classes))
    y = logits.argmax(axis=1)
    fitted = SplineCalibration(from_logits=True).fit(logits, y)
    proba = fitted.predict_proba(10 * logits)
    assert proba.max() == pytest.approx(0.99)
    before = log_loss(y, softmax(logits, axis=1))
    assert log_loss(y, fitted.predict_proba(logits)) < before


@pytest.mark.parametrize("tie", [0.0, 1.0])
def test_most_confidences_are_equal(tie):
    """The votes of neighbours or trees may all agree."""
    votes = np.repeat([tie, 0.2, 0.4, 0.6, 0.8], [600, 50, 50, 50, 50])
    y = (np.arange(800) % 10 < 10 * votes).astype(int)
    y[:600:20] = 1 - tie
    proba = SplineCalibration().fit(votes, y).predict_proba([tie])[0, int(tie)]
    assert proba == pytest.approx(0.95, abs=0.01)


def test_confidences_that_are_equal_up_to_rounding():
    """The sum of a row may depend on which class is the most probable one."""
    rng = np.random.default_rng(0)
    logits = 1.5 * rng.normal(size=(300, 4))
    y = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    X = softmax(3 * logits, axis=1)
    X = np.where(X < 0.1, 0, X)
    X[:50] = np.eye(4)[y[:50]]
    fitted = SplineCalibration().fit(X / X.sum(axis=1, keepdims=True), y)
    for row in (np.eye(4), [[0.7, 0.1, 0.1, 0.1], [0.1, 0.1, 0.7, 0.1]]):
        top = fitted.predict_proba(row).max(axis=1)
        np.testing.assert_allclose(top, top[0], rtol=1e-12)
    assert (np.diff(fitted.maps_[0][0]) > 1e-11).all()


def test_few_and_one_confidence():
    """There are at most as many knots as points."""
    X = np.array([[0.8, 0.1, 0.1]] * 4)
    fitted = SplineCalibration().fit(X, [0, 0, 1, 2])
    np.testing.assert_allclose(fitted.predict_proba(X)[:, 0], 0.5)
    X = np.vstack([X, [[0.1, 0.6, 0.3]] * 4])
    proba = SplineCalibration().fit(X, [0, 0, 1, 2] * 2).predict_proba(X)
    assert np.isfinite(proba).all()


def test_close_to_temperature_scaling_on_a_network(shared_data):
    """For ten classes, only the confidence is fitted, without a parametric form."""
    data = shared_data("logits/cifar10_resnet110_kull.npz")
    nll = {}
    for calibrator in (TemperatureScaling(), SplineCalibration()):
        calibrator.set_params(from_logits=True)
        calibrator.fit(data["val_logits"], data["val_labels"])
        proba = calibrator.predict_proba(data["test_logits"]).astype(np.float64)
        true = proba[np.arange(len(proba)), data["test_labels"]]
        nll[type(calibrator)] = -np.log(true).mean()
    assert nll[SplineCalibration] < nll[TemperatureScaling] + 0.015


@pytest.mark.parametrize("n_knots", [1, 2.5])
def test_bad_parameters(n_knots):
    with pytest.raises(ValueError, match=f"'n_knots' parameter.*Got {n_knots}"):
        SplineCalibration(n_knots=n_knots).fit([[0.5, 0.5], [0.2, 0.8]], [0, 1])
