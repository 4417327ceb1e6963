"""Isotonic calibration: recorded values, the centred variant, and order."""

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.metrics import log_loss, roc_auc_score

from sklearn_calib.calibrators import (
    ENIR,
    IsotonicCalibration,
    JointIsotonicCalibration,
)


def arrays(reference):
    recorded = reference("cal_mixnmatch")
    inputs = recorded["inputs"]["multiclass"]
    names = "fit_logits", "fit_labels", "test_logits"
    values = {case["id"]: case["values"] for case in recorded["expected"]}
    return *(np.array(inputs[name]) for name in names), values


def test_recorded_one_vs_rest(reference):
    """Compare the map before normalisation, without the tie breaker."""
    fit, y, test, values = arrays(reference)
    fitted = IsotonicCalibration(from_logits=True).fit(fit, y)
    raw = fitted._apply_maps(softmax(test, axis=1))
    expected = np.array(values["irova"]["test_probs"])
    np.testing.assert_allclose(raw + 1e-9 * softmax(test, axis=1), expected, atol=1e-12)


def test_recorded_joint(reference):
    fit, y, test, values = arrays(reference)
    fitted = JointIsotonicCalibration(from_logits=True).fit(fit, y)
    raw = np.interp(softmax(test, axis=1), *fitted.map_) + 1e-9 * softmax(test, axis=1)
    np.testing.assert_allclose(raw, values["irm"]["test_probs"], atol=1e-12)
    expected = raw / raw.sum(axis=1, keepdims=True)
    expected = (len(y) * expected + 1 / raw.shape[1]) / (len(y) + 1)
    np.testing.assert_allclose(fitted.predict_proba(test), expected)


@pytest.mark.parametrize("kind", [ENIR, IsotonicCalibration, JointIsotonicCalibration])
def test_subnormal_probabilities(kind):
    """The slope between two of them overflows."""
    logits, y = np.array([-745, -735, -709, 0, 3.0, 4.0]), np.array([0, 1, 1, 0, 1, 1])
    new = np.linspace(-750, 0, 500)
    proba = kind(from_logits=True).fit(logits, y).predict_proba(new)
    np.testing.assert_allclose(proba.sum(axis=1), 1)


def binary_problem(n_samples=500):
    rng = np.random.default_rng(0)
    proba = rng.uniform(size=n_samples)
    return proba, rng.uniform(size=n_samples) < proba**2


def test_centered_map_has_no_steps():
    proba, y = binary_problem()
    plain, centered = (
        IsotonicCalibration(centered=centered).fit(proba, y)
        for centered in (False, True)
    )
    inside = np.linspace(*centered.maps_[0][0][[0, -1]], 200)
    assert (np.diff(plain.predict_proba(inside)[:, 1]) == 0).any()
    assert (np.diff(centered.predict_proba(inside)[:, 1]) > 0).all()
    # The weighted mean of the map is the frequency, as without centring.
    auc = roc_auc_score(y, proba)
    assert roc_auc_score(y, plain.predict_proba(proba)[:, 1]) != pytest.approx(auc)
    assert roc_auc_score(y, centered.predict_proba(proba)[:, 1]) == pytest.approx(
        auc, abs=0.002
    )


def test_centers_by_hand():
    """0.2 and 0.4 are pooled at their mean probability; the ends are not."""
    fitted = IsotonicCalibration(centered=True).fit([0.1, 0.2, 0.4, 0.9], [0, 1, 0, 1])
    before, after = fitted.maps_[0]
    np.testing.assert_allclose(before, [0.1, 0.3, 0.9])
    np.testing.assert_allclose(after, [0, 0.5, 1])


def test_joint_map_keeps_the_order_of_classes():
    rng = np.random.default_rng(0)
    logits = 3 * rng.normal(size=(300, 5))
    y = rng.integers(0, 5, size=300)
    fitted = JointIsotonicCalibration(from_logits=True).fit(logits, y)
    proba = fitted.predict_proba(logits)
    order = logits.argsort(axis=1)
    assert (np.diff(np.take_along_axis(proba, order, axis=1), axis=1) > 0).all()


def test_joint_map_needs_fewer_samples():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(5000, 20))
    y = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    losses = [
        log_loss(
            y[300:],
            kind(from_logits=True)
            .fit(3 * logits[:300], y[:300], labels=np.arange(20))
            .predict_proba(3 * logits[300:]),
            labels=np.arange(20),
        )
        for kind in (JointIsotonicCalibration, IsotonicCalibration)
    ]
    assert losses[0] < losses[1] - 0.1
