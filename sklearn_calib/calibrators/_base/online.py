"""Online Newton: fit parameters to new samples and to an expansion of past losses.

The log loss of past samples is replaced by its quadratic expansion around the
parameters that were fitted when they were new. The next batch adds its exact log loss
to the sum of these expansions, and is then expanded itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np

from sklearn_calib._solvers.logistic import solve_jittered
from sklearn_calib._validation.types import Floats

# Returns the summed log loss for parameters of shape (n_parameters,), its gradient and
# its Hessian.
Loss: TypeAlias = Callable[[Floats], tuple[float, Floats, Floats]]

MAX_STEPS = 100
# Newton's method ends when a step would gain less (in nats).
LITTLE = 1e-12
SHORTEST = 1e-10


class Quadratic(NamedTuple):
    """The function `x @ curvature @ x / 2 - target @ x` of the parameters x."""

    curvature: Floats
    target: Floats

    def plus(self, other: Quadratic, factor: float = 1.0) -> Quadratic:
        """Return the sum, after multiplying this function by a factor."""
        return Quadratic(*(factor * x + y for x, y in zip(self, other, strict=True)))


def expand(loss: Loss, parameters: Floats) -> Quadratic:
    """Return the expansion of a loss around parameters, without its constant."""
    _, gradient, curvature = loss(parameters)
    return Quadratic(curvature, curvature @ parameters - gradient)


def minimise(loss: Loss, past: Quadratic, start: Floats, lowest: Floats) -> Floats:
    """Return the parameters that minimise a loss plus the expansion of past ones.

    Newton's method with an active set: a parameter at its lower bound stays there while
    the objective would increase with it.

    Parameters
    ----------
    loss : callable
        A convex function, see `Loss`.

    past : Quadratic
        The expansion.

    start, lowest : ndarray of shape (n_parameters,)
        Initial values, and lower bounds.
    """

    def evaluate(point: Floats) -> tuple[float, Floats, Floats]:
        value, gradient, curvature = loss(point)
        # Relative to the start, as large constants would add rounding errors.
        moved = point - start
        past_slope = past.curvature @ moved
        value += float(moved @ (past_slope / 2 + slope))
        return value, gradient + past_slope + slope, curvature + past.curvature

    slope = past.curvature @ start - past.target
    point = np.maximum(start, lowest)
    current = evaluate(point)
    for _ in range(MAX_STEPS):
        value, gradient, curvature = current
        step = _feasible_step(point - lowest, gradient, curvature)
        decrement = -gradient @ step
        if decrement <= LITTLE:
            return np.maximum(point + step, lowest)
        falls = step < 0
        length = ((lowest - point)[falls] / step[falls]).min(initial=1.0)
        while True:
            trial = np.maximum(point + length * step, lowest)
            current = evaluate(trial)
            # Relative differences below 1e-14 are rounding errors.
            if current[0] <= value + 1e-14 * abs(value) - 1e-4 * length * decrement:
                break
            length /= 2
            if not length > SHORTEST:
                return point
        point = trial
    return point


def _feasible_step(distance: Floats, gradient: Floats, curvature: Floats) -> Floats:
    """Return the Newton step of the parameters that do not stay at their bound.

    `distance` contains their distances to the bounds.
    """
    is_free = (distance > 0) | (gradient < 0)
    while True:
        step = np.zeros_like(distance)
        free = curvature[np.ix_(is_free, is_free)]
        step[is_free] = _newton_step(free, gradient[is_free])
        is_blocked = (distance <= 0) & (step < 0)
        if not is_blocked.any():
            return step
        is_free &= ~is_blocked


def _newton_step(curvature: Floats, gradient: Floats) -> Floats:
    """Return the Newton step, after scaling the curvatures to one."""
    scale = np.sqrt(np.maximum(np.diag(curvature), 0))
    scale[scale == 0] = 1
    return -solve_jittered(curvature / np.outer(scale, scale), gradient / scale) / scale
