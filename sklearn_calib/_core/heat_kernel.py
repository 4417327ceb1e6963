"""The Gaussian kernel reflected at 0 and 1, by cosine transforms on a grid."""

import numpy as np
from scipy.fft import dct
from scipy.optimize import brentq

from sklearn_calib._core.typing import Array, Floats

# The unit interval is cut into so many cells, a power of two.
N_CELLS = 2**14
# Bandwidths below two cells are not resolved. Smaller errors of calibration than that
# take about 10^9 samples to be seen.
SMALLEST_BANDWIDTH = 2 / N_CELLS


def cosine_coefficients(place: Floats, mass: Floats) -> Floats:
    """Return the sum of ``mass * cos(pi * k * place)``, for k up to the grid's limit.

    Each mass is shared between the two points of the grid that are next to it. That is
    a convolution, which is then undone.

    Parameters
    ----------
    place, mass : ndarray of shape (n_samples,)
        Places are in [0, 1].

    Returns
    -------
    coefficients : ndarray of shape (N_CELLS + 1,)
    """
    # float32 holds the product exactly, as N_CELLS is a power of two.
    position = place * N_CELLS
    cell = np.minimum(position.astype(np.intp), N_CELLS - 1)
    right = mass * (position - cell)
    grid: Array = np.bincount(cell, mass - right, minlength=N_CELLS + 1)
    grid[1:] += np.bincount(cell, right, minlength=N_CELLS)
    # The transform counts all but the ends twice.
    grid[1:-1] /= 2
    sharing = np.sinc(np.arange(N_CELLS + 1) / (2 * N_CELLS)) ** 2
    return dct(grid, type=1) / sharing


def smoothed_norm(coefficients: Floats, bandwidth: float) -> float:
    """Return the integral over [0, 1] of the smoothed masses' absolute value."""
    order = np.arange(len(coefficients))
    damping = np.exp(-0.5 * (np.pi * bandwidth * order) ** 2)
    value = np.abs(dct(coefficients * damping, type=1))
    return float(value.sum() - (value[0] + value[-1]) / 2) / N_CELLS


def self_consistent_bandwidth(coefficients: Floats) -> float:
    """Return the bandwidth that equals the smoothed norm with it.

    The norm falls as the bandwidth grows, hence there is one, unless the norm is always
    below the smallest bandwidth, which then is returned.
    """

    def excess(bandwidth: float) -> float:
        return bandwidth - smoothed_norm(coefficients, bandwidth)

    if excess(SMALLEST_BANDWIDTH) >= 0:
        return SMALLEST_BANDWIDTH
    return brentq(excess, SMALLEST_BANDWIDTH, 1.0 + 1e-9, xtol=1e-10, rtol=1e-10)
