"""Newton's method with step halving."""

import numpy as np
import pytest

from sklearn_calib._solvers.newton import MAX_STEPS, newton_steps, solve_jittered


@pytest.mark.parametrize("start", [0.3, np.array([2.0, -5.0, 0.1])])
def test_steps_that_are_too_long_are_halved(start):
    """From starts above one, full steps for sqrt(1 + x^2) diverge."""

    def evaluate(x):
        roots = np.sqrt(1 + x**2)
        return roots.sum(), roots

    def solve(x, roots):
        return -x * roots**2, x / roots

    steps = [*newton_steps(evaluate, solve, start)]
    values = [at.value for at in steps]
    np.testing.assert_allclose(steps[-1].point, 0, atol=1e-6)
    assert values == sorted(values, reverse=True)
    assert steps[-1].gain == pytest.approx(0, abs=1e-12)


def test_steps_are_bounded():
    """The minimum of exp(-x) is at infinity, and all steps are one."""
    exponential = newton_steps(
        lambda x: (np.exp(-x), None), lambda x, _: (1.0, -np.exp(-x)), 0.0
    )
    points = [at.point for at in exponential]
    np.testing.assert_allclose(points, np.arange(MAX_STEPS))


def test_points_end_where_no_step_decreases_the_function():
    steps = newton_steps(lambda x: (x, None), lambda *_: (1.0, -1.0), 0.0)
    assert [at.point for at in steps] == [0]


def test_hessian_whose_trace_is_negative_by_rounding():
    step = solve_jittered(-1e-30 * np.ones((3, 3)), np.ones(3))
    assert np.isfinite(step).all()


def test_hessian_that_is_not_finite_ends():
    solve_jittered(np.full((3, 3), np.nan), np.ones(3))
