"""Smoothing with a reflected Gaussian kernel on [0, 1], by cosine transforms."""

from functools import cache

import numpy as np
from scipy.fft import dct
from scipy.optimize import brentq

from sklearn_calib._validation.types import Array, Floats

# Number of cells of the grid on [0, 1], a power of two.
N_CELLS = 2**14
# The grid does not resolve bandwidths below two cells. Calibration errors that are
# smaller can only be detected with about 10^9 samples.
SMALLEST_BANDWIDTH = 2 / N_CELLS


def cosine_coefficients(place: Floats, mass: Floats) -> Floats:
    """Return the sums of ``mass * cos(pi * k * place)`` for k = 0, ..., N_CELLS.

    Each mass is divided between the two nearest grid points. This is a convolution with
    a triangular kernel, which is inverted after the transform.

    Parameters
    ----------
    place, mass : ndarray of shape (n_samples,)
        `place` is in [0, 1].

    Returns
    -------
    coefficients : ndarray of shape (N_CELLS + 1,)
    """
    # The product is exact in float32 too, as N_CELLS is a power of two.
    position = place * N_CELLS
    cell = np.minimum(position.astype(np.intp), N_CELLS - 1)
    right = mass * (position - cell)
    grid: Array = np.bincount(cell, mass - right, minlength=N_CELLS + 1)
    grid[1:] += np.bincount(cell, right, minlength=N_CELLS)
    # The transform counts all points but the ends twice.
    grid[1:-1] /= 2
    return dct(grid, type=1) / _triangle()


@cache
def _triangle() -> Floats:
    """Return the transform of the triangular kernel."""
    return np.sinc(np.arange(N_CELLS + 1) / (2 * N_CELLS)) ** 2


def smoothed_norm(coefficients: Floats, bandwidth: float) -> float:
    """Return the integral over [0, 1] of the absolute value of the smoothed masses."""
    damped = np.zeros_like(coefficients)
    # Those of higher order vanish.
    seen = int(min(len(coefficients), 9 / (np.pi * bandwidth) + 1))
    damping = np.exp(-0.5 * (np.pi * bandwidth * np.arange(seen)) ** 2)
    damped[:seen] = coefficients[:seen] * damping
    value = np.abs(dct(damped, type=1))
    return float(value.sum() - (value[0] + value[-1]) / 2) / N_CELLS


def self_consistent_bandwidth(coefficients: Floats) -> float:
    """Return the bandwidth that is equal to the norm smoothed with it.

    The norm decreases in the bandwidth, so the solution is unique. If it is below the
    smallest bandwidth, the smallest bandwidth is returned.
    """

    @cache
    def excess(bandwidth: float) -> float:
        return bandwidth - smoothed_norm(coefficients, bandwidth)

    if excess(SMALLEST_BANDWIDTH) >= 0:
        return SMALLEST_BANDWIDTH
    return brentq(excess, SMALLEST_BANDWIDTH, 1.0 + 1e-9, xtol=1e-10, rtol=1e-10)
