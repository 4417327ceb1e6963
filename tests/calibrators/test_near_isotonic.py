"""Near-isotonic regression, compared with a general optimiser."""

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.isotonic import isotonic_regression

from sklearn_calib.calibrators._one_vs_rest.enir import near_isotonic_path


def draw_problem(seed):
    """Return a few targets; in half of the problems they are zeros and ones."""
    rng = np.random.default_rng(seed)
    n_values = rng.integers(2, 8)
    weight = rng.integers(1, 4, size=n_values).astype(float)
    if seed % 2:
        return rng.integers(0, 2, size=n_values).astype(float), weight
    return rng.normal(size=n_values), weight


def expand(first, value, n_values):
    return np.repeat(value, np.diff(first, append=n_values))


@pytest.mark.parametrize("seed", range(40))
def test_solutions_are_the_best(seed):
    """Solve a quadratic programme, with decreases as additional variables."""
    target, weight = draw_problem(seed)
    n = len(target)
    rises = np.hstack([np.diff(np.eye(n), axis=0), np.eye(n - 1)])
    for penalty, *groups in near_isotonic_path(target, weight, 99):
        x = expand(*groups, n)

        def loss(z, penalty=penalty):
            return weight @ (target - z[:n]) ** 2 / 2 + penalty * z[n:].sum()

        def slope(z, penalty=penalty):
            return np.append(weight * (z[:n] - target), np.full(n - 1, penalty))

        best = minimize(
            loss,
            np.append(target, np.maximum(-np.diff(target), 0)),
            bounds=[(None, None)] * n + [(0, None)] * (n - 1),
            jac=slope,
            constraints={
                "type": "ineq",
                "fun": lambda z: z[n:] + np.diff(z[:n]),
                "jac": lambda _: rises,
            },
            method="SLSQP",
            options={"ftol": 1e-14, "maxiter": 500},
        )
        ours = loss(np.append(x, np.maximum(-np.diff(x), 0)))
        assert ours <= best.fun + 1e-9


@pytest.mark.parametrize("n_values", [1, 2, 100, 2000])
def test_path_ends_at_isotonic_regression(n_values):
    rng = np.random.default_rng(0)
    target = (rng.uniform(size=n_values) < np.linspace(0, 1, n_values)).astype(float)
    weight = rng.integers(1, 3, size=n_values).astype(float)
    path = list(near_isotonic_path(target, weight, 30))
    expected = isotonic_regression(target, sample_weight=weight)
    np.testing.assert_allclose(expand(*path[-1][1:], n_values), expected, atol=1e-9)
    penalties = [penalty for penalty, *_ in path]
    assert penalties == sorted(set(penalties))
    sizes = [len(value) for *_, value in path]
    assert sizes == sorted(sizes, reverse=True)
    assert max(sizes) <= 30


def test_path_by_hand():
    """1 and 0 move towards each other by the penalty, and meet at one half."""
    ((penalty, first, value),) = near_isotonic_path(np.array([1.0, 0]), np.ones(2), 9)
    assert (penalty, first.tolist(), value.tolist()) == (0.5, [0], [0.5])
