"""Focal posterior and focal temperature scaling, with known class posteriors."""

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import softmax
from sklearn.metrics import log_loss

from sklearn_calib.calibrators import (
    FocalPosterior,
    FocalTemperatureScaling,
    TemperatureScaling,
)
from sklearn_calib.losses import FocalLoss
from sklearn_calib.metrics import overconfidence, underconfidence


def what_focal_says(posterior, gamma):
    """Return the minimiser of the expected focal loss for two classes, by bisection."""

    def excess(q, eta):
        slope = [  # of (1 - q)^gamma log q
            (1 - p) ** gamma / p - gamma * (1 - p) ** (gamma - 1) * np.log(p)
            for p in (q, 1 - q)
        ]
        return (1 - eta) * slope[1] - eta * slope[0]

    return np.array([brentq(excess, 1e-9, 1 - 1e-9, args=(eta,)) for eta in posterior])


@pytest.mark.parametrize("gamma", [0.5, 2, 5])
@pytest.mark.parametrize("from_logits", [False, True])
def test_posterior_is_recovered(gamma, from_logits):
    posterior = np.linspace(0.01, 0.99, 99)
    said = what_focal_says(posterior, gamma)
    X = np.log(said / (1 - said)) if from_logits else said
    calibrator = FocalPosterior(gamma=gamma, from_logits=from_logits)
    proba = calibrator.fit(X, np.arange(99) % 2).predict_proba(X)
    np.testing.assert_allclose(proba[:, 1], posterior, rtol=1e-9)
    assert calibrator.gamma_ == gamma
    assert underconfidence(posterior, said) > 0.02
    assert underconfidence(posterior, proba) < 1e-9


def make_problem(gamma, n_samples=20_000, n_classes=5):
    """Return a posterior, the minimiser of the focal loss for it, and labels."""
    rng = np.random.default_rng(0)
    said = softmax(1.5 * rng.normal(size=(n_samples, n_classes)), axis=1)
    posterior = FocalLoss(gamma=gamma).posterior(said)
    drawn = rng.uniform(size=(n_samples, 1)) > posterior.cumsum(axis=1)
    return posterior, said, np.minimum(drawn.sum(axis=1), n_classes - 1)


def test_gamma_is_found_and_the_posterior_with_it():
    posterior, said, y = make_problem(gamma=2)
    calibrator = FocalPosterior().fit(said, y)
    assert calibrator.gamma_ == pytest.approx(2, abs=0.1)
    proba = calibrator.predict_proba(said)
    assert np.abs(proba - posterior).max() < 0.02
    assert overconfidence(posterior, proba) + underconfidence(posterior, proba) < 0.005
    assert underconfidence(posterior, said) > 0.1


def test_temperature_and_gamma_are_found():
    posterior, said, y = make_problem(gamma=2, n_samples=6000)
    calibrator = FocalTemperatureScaling(from_logits=True)
    calibrator.fit(3 * np.log(said), y)
    assert calibrator.temperature_ == pytest.approx(3, rel=0.1)
    assert calibrator.gamma_ == pytest.approx(2, abs=0.4)
    proba = calibrator.predict_proba(3 * np.log(said))
    plain = TemperatureScaling(from_logits=True).fit(3 * np.log(said), y)
    worse = np.abs(plain.predict_proba(3 * np.log(said)) - posterior).mean()
    assert np.abs(proba - posterior).mean() < worse / 3


def test_gamma_zero_is_temperature_scaling():
    _, said, y = make_problem(gamma=1, n_samples=2000)
    focal = FocalTemperatureScaling(gamma=0).fit(said, y)
    plain = TemperatureScaling().fit(said, y)
    np.testing.assert_allclose(focal.predict_proba(said), plain.predict_proba(said))
    untouched = FocalPosterior(gamma=0).fit(said, y).predict_proba(said)
    np.testing.assert_allclose(untouched, said)


def test_never_above_temperature_scaling_on_its_own_data(shared_data):
    data = shared_data("logits/cifar10_resnet110_kull.npz")
    logits, y = data["val_logits"].astype(np.float64), data["val_labels"]
    losses = [
        log_loss(y, calibrator.fit(logits, y).predict_proba(logits))
        for calibrator in (
            FocalTemperatureScaling(from_logits=True),
            TemperatureScaling(from_logits=True),
        )
    ]
    assert losses[0] <= losses[1] + 1e-12


@pytest.mark.parametrize("calibrator", [FocalPosterior, FocalTemperatureScaling])
@pytest.mark.parametrize("gamma", [-1, "best", None])
def test_bad_gamma(calibrator, gamma):
    with pytest.raises(ValueError, match=f"'gamma' parameter.*Got {gamma!r}"):
        calibrator(gamma=gamma).fit(np.eye(3), [0, 1, 2])
