"""The fit of gamma and temperature, compared with a general optimiser."""

import math

import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize
from scipy.special import softmax
from sklearn.exceptions import ConvergenceWarning

from sklearn_calib._numerics.posteriors import focal_posterior
from sklearn_calib._numerics.sample_blocks import array_blocks
from sklearn_calib._solvers.temperature_fit import fit_temperature
from sklearn_calib.calibrators._temperature.focal_temperature import (
    _moments,
    fit_focal_temperature,
    fit_gamma,
)


def make_underconfident(n_samples, n_classes=4):
    """Return logits of the minimisers of the focal loss with gamma 2, and labels."""
    rng = np.random.default_rng(0)
    said = softmax(1.2 * rng.normal(size=(n_samples, n_classes)), axis=1)
    true = focal_posterior(said, 2.0)
    codes = (rng.uniform(size=(n_samples, 1)) > true.cumsum(axis=1)).sum(axis=1)
    return np.log(said), np.minimum(codes, n_classes - 1)


def nll(logits, codes, temperature, gamma):
    proba = focal_posterior(softmax(logits / temperature, axis=1), gamma)
    return -np.log(proba[np.arange(len(codes)), codes]).mean()


@pytest.mark.parametrize("gamma", [0.0, 0.5, 3.0, 15.0])
@pytest.mark.parametrize("temperature", [0.01, 0.5, 3.0])
def test_slopes(temperature, gamma):
    """This includes saturated probabilities."""
    logits, codes = make_underconfident(100)
    weight = np.linspace(0, 2, len(codes))
    point = np.array([math.log(temperature), gamma])
    data = array_blocks(logits, codes, weight)
    value, slope, curvature = _moments(data, *point)
    numeric = approx_fprime(point, lambda p: _moments(data, *p)[0], 1e-7)
    np.testing.assert_allclose(slope, numeric, rtol=1e-4, atol=1e-6)
    assert (np.linalg.eigvalsh(curvature) >= -1e-12).all()
    one_hot = data.map(lambda block: block._replace(codes=np.eye(4)[block.codes]))
    for new, old in zip(
        _moments(one_hot, *point),
        (value, slope, curvature),
        strict=True,
    ):
        np.testing.assert_allclose(new, old, rtol=1e-9)


def test_gamma_is_found():
    logits, codes = make_underconfident(20_000)
    gamma = fit_gamma(array_blocks(logits, codes))
    assert gamma == pytest.approx(2, abs=0.1)
    for step in (-1e-3, 1e-3):
        assert nll(logits, codes, 1, gamma) < nll(logits, codes, 1, gamma + step)


@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_equals_a_general_optimiser(n_classes):
    logits, codes = make_underconfident(500, n_classes)
    temperature, gamma = fit_focal_temperature(array_blocks(2 * logits, codes))
    best = minimize(
        lambda p: nll(2 * logits, codes, math.exp(p[0]), p[1]),
        [math.log(2), 1.0],
        bounds=[(-3, 3), (0, 20)],
        method="Nelder-Mead",
        options={"xatol": 1e-6, "fatol": 1e-12, "maxiter": 2000},
    )
    assert nll(2 * logits, codes, temperature, gamma) <= best.fun + 1e-9


@pytest.mark.parametrize("gamma", [0.0, 0.5, 3.0])
def test_gamma_that_is_given(gamma):
    logits, codes = make_underconfident(500)
    temperature, kept = fit_focal_temperature(array_blocks(logits, codes), gamma=gamma)
    assert kept == gamma
    for factor in (0.999, 1.001):
        assert nll(logits, codes, temperature, gamma) < nll(
            logits, codes, factor * temperature, gamma
        )
    if gamma == 0:
        expected = fit_temperature(array_blocks(logits, codes))
        assert temperature == pytest.approx(expected, rel=1e-9)


@pytest.mark.filterwarnings("ignore:The temperature")
def test_steps_that_are_too_long_are_halved():
    """One prediction is much more confident than the others, which are wrong."""
    logits, codes = np.array([[0, 0.1], [0, 0.1], [0, 10]]), np.array([0, 0, 1])
    temperature, _ = fit_focal_temperature(array_blocks(logits, codes), gamma=3)
    best = nll(logits, codes, temperature, 3)
    for factor in (0.99, 1.01):
        assert best < nll(logits, codes, factor * temperature, 3)


def test_temperature_follows_the_scale():
    logits, codes = make_underconfident(500)
    temperature, gamma = fit_focal_temperature(array_blocks(logits, codes))
    for scale in (1e-20, 1e20):
        scaled = fit_focal_temperature(array_blocks(scale * logits, codes))
        assert scaled == pytest.approx((scale * temperature, gamma), rel=1e-6)


@pytest.mark.filterwarnings("ignore:The temperature")
@pytest.mark.parametrize("find_true_class", [np.argmax, np.argmin])
def test_bounds_of_temperature_scaling_are_kept(find_true_class):
    """All predictions are correct, or all are wrong."""
    logits, _ = make_underconfident(200)
    codes = find_true_class(logits, axis=1)
    bound = fit_temperature(array_blocks(logits, codes))
    assert fit_focal_temperature(array_blocks(logits, codes)) == pytest.approx(
        (bound, 0.0)
    )
    temperature, _ = fit_focal_temperature(array_blocks(logits, codes), gamma=3)
    plain = softmax(logits / bound, axis=1)
    focal = focal_posterior(softmax(logits / temperature, axis=1), 3)
    assert np.abs(focal - plain).mean() < 0.005


def test_no_error_has_no_best_gamma():
    logits, _ = make_underconfident(200)
    with pytest.warns(ConvergenceWarning, match="is above 20; gamma was set to 20"):
        assert fit_gamma(array_blocks(logits, logits.argmax(axis=1))) == 20


def test_nothing_to_scale():
    with pytest.warns(ConvergenceWarning, match="all logits of each row are equal"):
        assert fit_focal_temperature(array_blocks(np.ones((3, 3)), np.arange(3))) == (
            1.0,
            0.0,
        )


def test_probabilities_that_underflow():
    """The true class may have a probability of 0 in double precision."""
    logits = np.array([[0.0, 2000.0, 0.0], [3.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    codes = np.array([0, 0, 2])
    assert fit_gamma(array_blocks(logits, codes)) == 0
    with pytest.warns(ConvergenceWarning, match="infinite"):
        assert np.isfinite(
            fit_focal_temperature(array_blocks(logits, codes), gamma=2)
        ).all()
