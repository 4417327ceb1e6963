"""Logistic regression by Newton's method, with bounds and for separable data."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning

from sklearn_calib._solvers import logistic, newton
from sklearn_calib._solvers.logistic import (
    fit_logistic,
    fit_nonnegative,
    newton_logistic,
    smoothed_targets,
)


def make_problem(seed, slopes):
    rng = np.random.default_rng(seed)
    features = np.column_stack([rng.normal(size=(200, 2)), np.ones(200)])
    target = (rng.uniform(size=200) < expit(features @ [*slopes, 0.5])).astype(float)
    return features, target, rng.uniform(size=200)


def total_loss(coef, features, target, weight):
    margin = features @ coef
    return weight @ (np.logaddexp(0, margin) - target * margin)


@pytest.mark.parametrize("slopes", [(1, 1), (-1, 1), (1, -1), (-1, -1), (-2, -0.01)])
@pytest.mark.parametrize("seed", range(3))
def test_nonnegative_is_the_constrained_minimum(slopes, seed):
    problem = make_problem(seed, slopes)
    coef = fit_nonnegative(problem[0], 2, *problem[1:])
    bounds = [(0, None), (0, None), (None, None)]
    best = minimize(total_loss, np.ones(3), args=problem, bounds=bounds, tol=1e-12)
    assert coef[:2].min() >= 0
    assert total_loss(coef, *problem) <= best.fun * (1 + 1e-10)


@pytest.mark.parametrize("scale", [1e-6, 1, 1e6])
def test_slopes_follow_the_scale_of_the_features(scale):
    features, target, weight = make_problem(0, (1, -1))
    factors = np.array([scale, 1, 1])
    expected = fit_logistic(features, target, weight) / factors
    coef = fit_logistic(features * factors, target, weight)
    np.testing.assert_allclose(coef, expected, rtol=1e-8)


def test_features_that_depend_on_each_other():
    features, target, weight = make_problem(0, (1, -1))
    twice = np.column_stack([features[:, 0], features])
    coef = fit_logistic(twice, target, weight)
    expected = fit_logistic(features, target, weight)
    np.testing.assert_allclose(twice @ coef, features @ expected, rtol=1e-6)


@pytest.mark.parametrize("n_ties", [0, 1, 50])
def test_no_minimum(n_ties):
    """Complete and quasi-complete separation."""
    score = np.concatenate([np.linspace(-2, -1, 100), np.linspace(1, 2, 100)])
    target = (score > 0).astype(float)
    score = np.append(score, np.zeros(2 * n_ties))
    target = np.append(target, np.repeat([0.0, 1.0], n_ties))
    features, weight = (
        np.column_stack([score, np.ones(len(score))]),
        np.ones(len(score)),
    )
    assert not newton_logistic(features, target, weight)[1]
    with pytest.warns(ConvergenceWarning, match="are separable"):
        coef = fit_logistic(features, target, weight)
    target = smoothed_targets(target, weight)
    slope = features.T @ (expit(features @ coef) - target)
    np.testing.assert_allclose(slope, 0, atol=1e-4)
    assert 1 < coef[0] < 10


def test_one_error_among_many_is_a_minimum():
    score = np.linspace(-10, 10, 10_000)
    target = (score > 0).astype(float)
    target[6000] = 0
    features = np.column_stack([score, np.ones(len(score))])
    coef, has_converged = newton_logistic(features, target, np.ones(len(score)))
    assert has_converged
    slope = features.T @ (expit(features @ coef) - target)
    np.testing.assert_allclose(slope, 0, atol=1e-4)


@pytest.mark.parametrize("seed", range(4))
def test_weights_of_six_orders_of_magnitude(seed):
    rng = np.random.default_rng(seed)
    features = np.column_stack([rng.normal(size=(40, 2)), np.ones(40)])
    target, weight = rng.integers(0, 2, 40).astype(float), 10 ** rng.uniform(-3, 3, 40)
    coef, has_minimum = newton_logistic(features, target, weight)
    assert has_minimum
    slope = features.T @ (weight * (expit(features @ coef) - target))
    np.testing.assert_allclose(slope, 0, atol=1e-6)


def test_smoothed_targets():
    """Weights of three positives and one negative, plus one pseudo-count each."""
    target = smoothed_targets(np.array([1.0, 1.0, 0.0]), np.array([1.0, 2.0, 1.0]))
    np.testing.assert_allclose(target, [4 / 5, 4 / 5, 1 / 3])


@pytest.mark.parametrize("seed", range(5))
def test_logistic_regression_equals_a_general_optimiser(seed):
    rng = np.random.default_rng(seed)
    features = np.column_stack([rng.normal(size=(50, 2)), np.ones(50)])
    y = (rng.uniform(size=50) < expit(features @ [1.0, -2, 0.5])).astype(float)
    weight = rng.integers(0, 3, size=50)

    def loss(coef):
        margin = features @ coef
        return weight @ (np.logaddexp(0, margin) - y * margin)

    best = minimize(loss, np.zeros(3), method="BFGS", options={"gtol": 1e-9})
    coef = fit_logistic(features, y, weight)
    assert loss(coef) <= best.fun + 1e-9
    np.testing.assert_allclose(coef, best.x, rtol=1e-4)


def test_running_out_of_steps_is_not_convergence(monkeypatch):
    problem = make_problem(0, (1, -1))
    assert newton_logistic(*problem)[1]
    for module in (logistic, newton):
        monkeypatch.setattr(module, "MAX_STEPS", 2)
    assert not newton_logistic(*problem)[1]
