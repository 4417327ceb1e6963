"""Convex minimisation over Lipschitz functions of a sorted score."""

import math
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy.linalg import solve_banded
from sklearn.exceptions import ConvergenceWarning

from sklearn_calib._validation.types import Floats

# Each value has an upper and a lower limit: two rows of slacks and of dual variables.
SIDES = np.array([[1.0], [-1.0]])
# A step goes at most this fraction of the way to the nearest limit.
STEP_FRACTION = 0.995
# Smallest allowed ratio of a product of slack and dual variable to the mean product.
# Steps that leave this neighbourhood of the central path are rejected, as the method
# may cycle there.
CENTRAL = 1e-3
# For smaller gaps, the ratio of dual variable and slack would overflow.
SMALLEST_GAP = 1e-100


def minimize_lipschitz(
    slope: Callable[[Floats], Floats],
    curvature: Callable[[Floats], Floats],
    gaps: Floats,
    bound: float,
    *,
    tolerance: float = 1e-13,
    max_iter: int = 500,
) -> Floats:
    """Minimise a sum of convex functions f_i(x_i) under Lipschitz constraints.

    The constraints are ``abs(x[i + 1] - x[i]) <= gaps[i]`` and ``abs(x[i]) <= bound``.

    Parameters
    ----------
    slope, curvature : callable
        Functions of x that return the first and second derivatives of all f_i. Slopes
        should be of the order of 1 / n_values, and third derivatives not larger than
        second derivatives.

    gaps : ndarray of shape (n_values - 1,)
        Positive, may be infinite.

    bound : float
        Positive.

    tolerance : float, default=1e-13
        Tolerance of the sum above its minimum.

    max_iter : int, default=500
        Maximum number of steps. For up to 100,000 values, 10 to 50 steps are usual.

    Returns
    -------
    x : ndarray of shape (n_values,)
        The minimiser; it satisfies the constraints up to rounding.

    Warns
    -----
    ConvergenceWarning
        If the method does not converge in `max_iter` steps.

    Notes
    -----
    Mehrotra's primal-dual interior point method [1]_. As the constraints only
    involve neighbours, each step solves a tridiagonal system.

    References
    ----------
    .. [1] S. Mehrotra, "On the Implementation of a Primal-Dual Interior Point Method",
       SIAM Journal on Optimization 2, 1992.
    """
    x = np.zeros(len(gaps) + 1)
    # Gaps between values within the bounds are at most twice the bound.
    limits = np.append(np.clip(gaps, SMALLEST_GAP, 4 * bound), np.full(len(x), bound))
    slack = limits + np.zeros((2, 1))
    dual = 0.01 / len(x) / slack
    for _ in range(max_iter):
        residual = slope(x) + _adjoint(dual[0] - dual[1])
        total = np.vdot(dual, slack)
        if max(total, np.abs(residual).sum()) < tolerance:
            return np.clip(x, -bound, bound)  # for rounding errors
        step = _newton_step(residual, curvature(x), slack, dual)
        for products in _products(step, slack, dual):
            dx, *change = step(products)
            # With this bound on the third derivative, a damped step decreases f.
            # Undamped steps may oscillate forever, for example for the log loss.
            largest = np.abs(dx).max()
            damped = math.log1p(largest) / largest if largest > 1e-8 else 1.0
            length = min(damped, STEP_FRACTION * _longest(slack, dual, *change))
            new = slack + length * change[0], dual + length * change[1]
            if (new[0] * new[1]).min() > CENTRAL * np.mean(new[0] * new[1]):
                break
        x = x + length * dx
        slack, dual = new
    warnings.warn(
        f"The minimisation did not converge in {max_iter} steps: the sum may be "
        f"{total:.2g} above its minimum.",
        ConvergenceWarning,
    )
    return x


def _adjoint(forces: Floats) -> Floats:
    """Return the total force on each x, from constraints on differences and on x."""
    n_gaps = len(forces) // 2
    return forces[n_gaps:] - np.diff(forces[:n_gaps], prepend=0.0, append=0.0)


def _newton_step(
    residual: Floats, curvature: Floats, slack: Floats, dual: Floats
) -> Callable[[Any], tuple[Floats, Floats, Floats]]:
    """Return a function that maps target products of slack and dual to a step.

    The unknowns are x_1, force_1, x_2, force_2, ... in this order; the forces belong to
    the constraints on differences. They are not eliminated, as the large stiffness of
    an almost active constraint would absorb the curvature by rounding.
    """
    n_gaps = len(residual) - 1
    stiffness = (dual / slack).sum(axis=0)
    system = np.zeros((3, 2 * n_gaps + 1))
    system[1, ::2] = curvature + stiffness[n_gaps:]
    system[1, 1::2] = -1 / stiffness[:n_gaps]
    system[0, 1::2], system[0, 2::2] = -1.0, 1.0
    system[2, :-1] = system[0, 1:]

    def step(products: Any) -> tuple[Floats, Floats, Floats]:
        wanted = products / slack - dual
        force = wanted[0] - wanted[1]
        right = np.empty(2 * n_gaps + 1)
        right[::2] = -residual - force[n_gaps:]
        right[1::2] = -force[:n_gaps] / stiffness[:n_gaps]
        solution = solve_banded((1, 1), system, right)
        dx = solution[::2]
        # More precise than the difference of dx, which has the rounding errors of x.
        difference = (solution[1::2] - force[:n_gaps]) / stiffness[:n_gaps]
        change = -SIDES * np.append(difference, dx)
        return dx, change, wanted - dual / slack * change

    return step


def _products(
    step: Callable[[Any], tuple[Floats, Floats, Floats]], slack: Floats, dual: Floats
) -> Iterator[Any]:
    """Yield target products of slack and dual, for a long step and for a safe one."""
    _, *change = step(0.0)
    length = _longest(slack, dual, *change)
    mean = np.mean(slack * dual)
    ahead = np.mean((slack + length * change[0]) * (dual + length * change[1]))
    # The correction is scaled by the squared length of the step that it corrects.
    yield (ahead / mean) ** 3 * mean - length**2 * change[0] * change[1]
    yield mean / 2


def _longest(
    slack: Floats, dual: Floats, slack_change: Floats, dual_change: Floats
) -> float:
    """Return the longest step up to 1 that keeps slacks and duals non-negative."""
    ratio = max((-slack_change / slack).max(), (-dual_change / dual).max())
    return min(1.0, 1 / ratio) if ratio > 0 else 1.0
