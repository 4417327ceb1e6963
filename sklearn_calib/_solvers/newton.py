"""Newton's method with step halving, for smooth convex functions."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy.linalg.lapack import dposv

from sklearn_calib._validation.types import Floats

# Returns the value of the function at a point, and what its derivatives are computed
# from.
Evaluate: TypeAlias = Callable[[Any], tuple[Any, Any]]
# Returns the step from a point and the gradient there, given the point and this.
Solve: TypeAlias = Callable[[Any, Any], tuple[Any, Any]]

# Maximum number of steps. Usual fits take 5 to 30.
MAX_STEPS = 200
# Shortest step, relative to the full one, and relative rounding errors of a function.
SHORTEST, ROUNDING = 1e-6, 1e-13

# Added to curvatures, which are zero where all probabilities are 0 or 1.
TINY = 1e-12
# How often the term added to the diagonal of a Hessian is multiplied by 100.
MAX_JITTERS = 20


class Step(NamedTuple):
    """A point, the function there, and the step from it.

    `gain` is the squared Newton decrement, about twice the distance of the function to
    its minimum.
    """

    point: Any
    value: Any
    state: Any
    step: Any
    gain: Any


def newton_steps(evaluate: Evaluate, solve: Solve, point: Any) -> Iterator[Step]:
    """Yield the points of Newton's method, each before its step is taken.

    They end where no step decreases the function by more than rounding errors. The
    caller decides when the last step is short enough, and whether to take it.
    """
    value, state = evaluate(point)
    for _ in range(MAX_STEPS):
        step, gradient = solve(point, state)
        gain = -float(np.vdot(gradient, step))
        yield Step(point, value, state, step, gain)
        length, value, state = line_search(evaluate, point, step, value, gain)
        if length == 0:
            break
        point = point + length * step


def line_search(
    evaluate: Evaluate, point: Any, step: Any, value: Any, gain: float
) -> tuple[float, Any, Any]:
    """Return the part of a step that decreases the function, and what is at its end.

    `value` and `gain` are those of the full step, see `Step`.
    """
    length = 1.0
    while length > SHORTEST:
        result, state = evaluate(point + length * step)
        if result <= value + ROUNDING * abs(value) - 1e-4 * length * gain:
            return length, result, state
        length /= 2
    return 0.0, value, None


def solve_jittered(hessian: Floats, gradient: Floats) -> Floats:
    """Solve a linear system after adding a small term to the diagonal.

    The term is needed for directions that do not change the probabilities, such as a
    constant added to all scores, and for rounding errors where probabilities are so
    close to 0 and 1 that curvatures vanish.
    """
    # Rounding errors can make curvatures and their sum negative.
    positive = np.maximum(hessian.diagonal(), 0)
    jitter = 1e-9 * positive.sum() / len(hessian) + TINY**2
    for _ in range(MAX_JITTERS):
        hessian.flat[:: len(hessian) + 1] += jitter
        # The checks of `scipy.linalg` take longer than to solve a small system.
        _, solution, failure = dposv(hessian, gradient)
        if not failure:
            return solution
        jitter *= 100
    return gradient / jitter  # the jitter now dominates the Hessian
