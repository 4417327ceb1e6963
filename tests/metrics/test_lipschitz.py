"""The interior point method, compared with general solvers of scipy."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.optimize import linprog, minimize
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning

from sklearn_calib.metrics._calibration_errors.lipschitz_error import minimize_lipschitz


def draw_problem(seed):
    """Return weights that sum to one, gaps of very different sizes, and targets."""
    rng = np.random.default_rng(seed)
    size = rng.integers(2, 8)
    share = rng.dirichlet(np.ones(size))
    return share, 10 ** rng.uniform(-3, 0.5, size - 1), rng.normal(size=size)


def differences(size):
    """Return the matrix that takes x to both signs of its differences."""
    matrix = np.diff(np.eye(size), axis=0)
    return np.vstack([matrix, -matrix])


def assert_within_limits(x, gaps, bound):
    assert (np.abs(np.diff(x)) <= gaps + 1e-12).all()
    assert (np.abs(x) <= bound + 1e-12).all()


@given(seed=st.integers(0, 2**32 - 1))
def test_squares(seed):
    share, gaps, goal = draw_problem(seed)

    def value(x):
        return share @ (x - goal) ** 2

    x = minimize_lipschitz(
        lambda x: 2 * share * (x - goal), lambda _: 2 * share, gaps, 1.0
    )
    assert_within_limits(x, gaps, 1.0)
    limits = {
        "type": "ineq",
        "fun": lambda x: np.tile(gaps, 2) - differences(len(x)) @ x,
        "jac": lambda x: -differences(len(x)),
    }
    brute = minimize(
        value,
        np.zeros(len(goal)),
        jac=lambda x: 2 * share * (x - goal),
        bounds=[(-1, 1)] * len(goal),
        constraints=limits,
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 1000},
    )
    assert value(x) == pytest.approx(brute.fun, abs=1e-8)
    assert value(x) <= brute.fun + 1e-12


@given(seed=st.integers(0, 2**32 - 1))
def test_bounds_of_each_value_and_a_start(seed):
    share, gaps, goal = draw_problem(seed)
    bound = np.random.default_rng(seed).uniform(0.1, 1, size=(2, len(goal)))
    gaps[0] = 1e-16
    start = np.clip(-np.append(0, gaps.cumsum()) / 2, -bound.min() / 2, 0)
    x = minimize_lipschitz(
        lambda _: share * goal, np.zeros_like, gaps, bound=bound, start=start
    )
    assert_within_limits(x, gaps, bound.max())
    sides = np.transpose([-bound[1], bound[0]])
    limits = differences(len(goal)), np.tile(gaps, 2)
    brute = linprog(share * goal, *limits, bounds=sides, method="highs")
    assert share * goal @ x == pytest.approx(brute.fun, abs=1e-12)


@given(seed=st.integers(0, 2**32 - 1))
def test_linear_functions(seed):
    """The objective is linear, as for the smooth calibration error."""
    share, gaps, goal = draw_problem(seed)
    slope = share * goal
    x = minimize_lipschitz(lambda _: slope, np.zeros_like, gaps, 1.0)
    assert_within_limits(x, gaps, 1.0)
    brute = linprog(
        slope, differences(len(goal)), np.tile(gaps, 2), bounds=(-1, 1), method="highs"
    )
    assert slope @ x == pytest.approx(brute.fun, abs=1e-12)


@pytest.mark.parametrize("smallest", [1e-300, 1e-17, 1e-3])
def test_gaps_of_any_size(smallest):
    """Values with a tiny gap are equal, those with an infinite gap independent."""
    share = np.full(4, 0.25)
    goal = np.array([-0.5, 0.25, 0.75, -3.0])
    gaps = np.array([np.inf, smallest, np.inf])
    x = minimize_lipschitz(
        lambda x: 2 * share * (x - goal), lambda _: 2 * share, gaps, 1.0
    )
    half = smallest / 2
    np.testing.assert_allclose(x, [-0.5, 0.5 - half, 0.5 + half, -1.0], atol=1e-6)


def test_one_value():
    x = minimize_lipschitz(lambda x: x - 0.3, np.ones_like, np.empty(0), 1.0)
    np.testing.assert_allclose(x, [0.3], atol=1e-10)


def test_optimum_in_a_large_problem():
    """Optimality conditions: forces have the right sign at active constraints."""
    rng = np.random.default_rng(0)
    score = np.sort(rng.normal(size=5000))
    target = rng.uniform(size=score.size) < expit(2 * score)
    gaps, share = np.diff(score), 1 / score.size

    def slope(x):
        return share * (expit(score + x) - target)

    x = minimize_lipschitz(
        slope, lambda x: share * expit(score + x) * expit(-score - x), gaps, 4.0
    )
    assert_within_limits(x, gaps, 4.0)
    assert np.abs(x).max() < 3.9
    force = np.cumsum(slope(x))
    assert abs(force[-1]) < 1e-12
    # A force holds up only those differences that are at their limit.
    idle = np.abs(force[:-1]) * gaps - force[:-1] * np.diff(x)
    assert (idle > -1e-15).all()
    assert idle.sum() < 1e-12


def test_too_few_steps():
    with pytest.warns(
        ConvergenceWarning, match="did not converge in 2 steps: .* above its minimum"
    ):
        minimize_lipschitz(lambda x: x - 1, np.ones_like, np.ones(3), 4.0, max_iter=2)


def test_a_singular_system_raises():
    """The curvature of a convex function is not negative."""
    with pytest.raises(np.linalg.LinAlgError, match="finite and positive"):
        minimize_lipschitz(np.ones_like, lambda x: x - 0.02, np.zeros(0), 1.0)
