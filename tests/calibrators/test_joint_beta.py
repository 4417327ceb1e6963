"""Joint beta calibration."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax

from sklearn_calib.calibrators import (
    BetaCalibration,
    DirichletCalibrator,
    JointBetaCalibration,
)


@pytest.fixture(scope="module")
def skewed():
    """Return distorted logits of four classes, and labels."""
    rng = np.random.default_rng(0)
    logits = 2 * rng.normal(size=(1000, 4))
    true = logits * [0.3, 0.5, 0.7, 0.4] + [0.5, 0, -0.5, 0]
    return logits, (true + rng.gumbel(size=true.shape)).argmax(axis=1)


def test_of_two_classes_it_is_beta_calibration(skewed):
    logits, y = skewed[0][:, :2], skewed[1] % 2
    joint = JointBetaCalibration(penalty="none", from_logits=True).fit(logits, y)
    beta = BetaCalibration(from_logits=True).fit(logits, y)
    assert (beta.maps_[0][:2] > 0).all()  # so that the bounds are not active
    np.testing.assert_allclose(
        joint.predict_proba(logits), beta.predict_proba(logits), atol=1e-5
    )


def test_no_other_map_has_a_smaller_log_loss(skewed):
    logits, y = skewed
    log_proba = log_softmax(logits, axis=1)
    log_rest = np.log1p(-np.exp(log_proba))

    def log_loss(parameters):
        a, b, c = parameters.reshape(3, 4)
        scores = log_softmax(a * log_proba - b * log_rest + c, axis=1)
        return -scores[np.arange(len(y)), y].mean()

    start = np.repeat([1.0, 0.0, 0.0], 4)
    calibrator = JointBetaCalibration(penalty="none", from_logits=True)
    calibrator.fit(logits, y)
    assert calibrator.log_loss_after_ == pytest.approx(
        minimize(log_loss, start, options={"gtol": 1e-8}).fun, rel=1e-8
    )
    vector = DirichletCalibrator(diagonal=True, from_logits=True).fit(logits, y)
    assert calibrator.log_loss_after_ < vector.log_loss_after_


def test_few_samples_of_many_classes_leave_it_near_temperature_scaling():
    """Most classes are unlikely, so their second feature is almost zero."""
    rng = np.random.default_rng(0)
    logits = 2.5 * rng.normal(size=(2060, 50))
    y = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    fit, new = slice(0, 60), slice(60, None)
    calibrator = JointBetaCalibration(penalty="none", from_logits=True)
    with pytest.warns(match="fewer than|less than|no sample"):
        calibrator.fit(2 * logits[fit], y[fit], labels=np.arange(50))
    proba = calibrator.predict_proba(2 * logits[new])
    log_loss = -np.log(proba[np.arange(2000), y[new]]).mean()
    assert log_loss < -log_softmax(2 * logits[new], axis=1)[range(2000), y[new]].mean()
