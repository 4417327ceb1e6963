"""One-vs-rest calibration, and its maps that use logistic regression."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, logit
from sklearn.exceptions import ConvergenceWarning

from sklearn_calib.calibrators import (
    BetaCalibration,
    IsotonicCalibration,
    PlattScaling,
    QuadraticLogisticCalibration,
    ScalingBinning,
)


def binary_problem(recorded):
    """Return log-odds for fit and test, and labels, of recorded scores."""
    inputs = recorded["inputs"]["binary"]
    eps = np.finfo(float).eps
    fit, test = (
        logit(np.clip(inputs[name], eps, 1 - eps))
        for name in ("fit_scores", "test_scores")
    )
    return fit, np.array(inputs["fit_labels"]), test


def cases(recorded):
    return {case["id"]: case["values"] for case in recorded["expected"]}


@pytest.mark.parametrize("parameters", ["abm", "am", "ab"])
def test_recorded_beta(reference, parameters):
    """The optimum; the optimiser of the authors stops earlier."""
    recorded = reference("cal_beta")
    fit, y, test = binary_problem(recorded)
    optimum = cases(recorded)[f"optimum-{parameters}"]
    fitted = BetaCalibration(parameters=parameters, from_logits=True).fit(fit, y)
    a, b, c = fitted.maps_[0]
    ours = {"abm": [a, b, c], "am": [a, c], "ab": [a, b]}[parameters]
    np.testing.assert_allclose(ours, optimum["coefficients"], rtol=1e-6)
    proba = fitted.predict_proba(test)[:, 1]
    np.testing.assert_allclose(proba, optimum["test_probs"], rtol=1e-6, atol=1e-12)
    early = cases(recorded)[f"betacal-{parameters}"]
    np.testing.assert_allclose(proba, early["test_probs"], atol=0.01)

    def nll(proba):
        return -np.log(np.where(y, proba, 1 - proba)).mean()

    ours = nll(fitted.predict_proba(fit)[:, 1])
    assert ours <= optimum["fit_nll"] + 1e-12
    a, b, m = early["map"]
    c = b * np.log(1 - m) - a * np.log(m)
    assert ours < nll(expit(-a * np.logaddexp(0, -fit) + b * np.logaddexp(0, fit) + c))


def test_beta_exponents_are_not_negative():
    """Without constraints, both exponents, one or none would be negative."""
    rng = np.random.default_rng(0)
    score = rng.normal(size=2000)
    y = rng.uniform(size=2000) < expit(-score)
    a, b, _ = BetaCalibration(from_logits=True).fit(score, y).maps_[0]
    assert (a, b) == (0, 0)
    y = rng.uniform(size=2000) < expit(np.where(score < 0, -0.5, 2) * score)
    a, b, _ = BetaCalibration(from_logits=True).fit(score, y).maps_[0]
    assert a == 0 < b


def test_recorded_platt(reference):
    recorded = reference("cal_platt_isotonic")
    scores = np.clip(recorded["inputs"]["binary"]["fit_scores"], 1e-12, 1 - 1e-12)
    y = recorded["inputs"]["binary"]["fit_labels"]
    expected = cases(recorded)["verified-platt"]
    platt = PlattScaling(smooth_targets=False, from_logits=True).fit(logit(scores), y)
    slope, intercept = platt.maps_[0]
    # The recorded optimiser stopped early.
    assert slope == pytest.approx(expected["coef"][0], rel=1e-3)
    assert intercept == pytest.approx(expected["intercept"][0], rel=1e-3)
    smooth = PlattScaling(from_logits=True).fit(logit(scores), y).maps_[0][0]
    assert 0.9 * slope < smooth < slope


def test_recorded_quadratic(reference):
    recorded = reference("cal_platt_isotonic")
    fit, y, test = binary_problem(recorded)
    expected = cases(recorded)["probmetrics-quadratic"]
    fitted = QuadraticLogisticCalibration(from_logits=True).fit(fit, y)
    # Recorded in single precision.
    np.testing.assert_allclose(fitted.maps_[0][0][::-1], expected["coef"], rtol=2e-3)
    inside = np.abs(test) < 4.5
    proba = fitted.predict_proba(test)[inside, 1]
    np.testing.assert_allclose(
        proba, np.array(expected["test_probs"])[inside], atol=1e-4
    )
    # The authors' parabola decreases: confident predictions get probability zero.
    assert expected["test_probs"][np.argmax(test)] < 1e-6
    assert fitted.predict_proba(test)[np.argmax(test), 1] > 0.97


def test_quadratic_is_the_best_that_rises():
    """The optimal vertex is within the data; the constraint moves it to the end."""
    rng = np.random.default_rng(0)
    score = rng.normal(size=2000)
    y = rng.uniform(size=2000) < expit(1 - score**2 + score)
    fitted = QuadraticLogisticCalibration(from_logits=True).fit(score, y)
    coef, low, high = fitted.maps_[0]
    assert (low, high) == pytest.approx((score.min(), score.max()), abs=1e-12)
    assert coef[0] < 0
    assert coef[1] == pytest.approx(-2 * coef[0] * high)

    def loss(params):
        """Return the loss of a parabola with its vertex at the end."""
        margin = params[0] * (score - high) ** 2 + params[1]
        return np.logaddexp(0, margin).sum() - margin[y].sum()

    best = minimize(loss, np.zeros(2), method="BFGS")
    assert best.x[0] == pytest.approx(coef[0], rel=1e-3)
    beyond = fitted.predict_proba([low, low - 5, high, high + 5])[:, 1]
    assert beyond[0] == beyond[1] < beyond[2] == beyond[3]


@pytest.mark.parametrize(
    "calibrator",
    [
        BetaCalibration(),
        PlattScaling(smooth_targets=False),
        QuadraticLogisticCalibration(),
        ScalingBinning(),
    ],
    ids=repr,
)
def test_data_that_can_be_separated(calibrator):
    X, y = [0.1, 0.2, 0.3, 0.7, 0.8, 0.9], [0, 0, 0, 1, 1, 1]
    with pytest.warns(ConvergenceWarning, match="are separable.*more samples"):
        proba = calibrator.fit(X, y).predict_proba(X)[:, 1]
    assert (np.diff(proba) >= 0).all()
    assert 0.5 < proba[-1] < 0.999


def test_missing_class_is_named():
    X = np.full((4, 3), 1 / 3)
    with pytest.warns(UserWarning, match=r"no samples of \['c'\].*TemperatureScaling"):
        fitted = IsotonicCalibration().fit(X, list("aabb"), labels=list("abc"))
    proba = fitted.predict_proba(X)
    # A frequency of 0, and a prior of 1 in 7, which counts as one sample of five.
    assert proba[0, 2] == pytest.approx(1 / 7 / 5)


def test_rows_of_zeros_get_the_prior():
    """Each class gets probability zero."""
    X = np.array([[0.6, 0.3, 0.1], [0.1, 0.6, 0.3], [0.3, 0.1, 0.6]] * 5)
    y = np.tile([0, 1, 2], 5)
    fitted = IsotonicCalibration().fit(X, y)
    proba = fitted.predict_proba([[0.3, 0.3, 0.4 - 0.0]])
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    zero = fitted.predict_proba([[1 / 3, 1 / 3, 1 / 3]])
    assert (zero > 0).all()
