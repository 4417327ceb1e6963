"""Kernel regression of the calibration residuals on the confidence, and its band."""

import numpy as np

from sklearn_calib._validation.types import Array, Floats, Seed, Weights
from sklearn_calib.displays._base.bands import (
    Groups,
    draw_bootstrap,
    draw_calibrated,
    group_samples,
    pointwise_band,
)

# Number of points of the curve.
N_POINTS = 401
# The curve is not drawn where the kernel weights of the samples sum to less than this.
LEAST_SEEN = 0.5


def kernel_regression(
    samples: tuple[Floats, Array, Weights],
    bandwidth: float,
    interval: str | None,
    *,
    confidence_level: float,
    n_resamples: int,
    random_state: Seed,
) -> tuple[Floats, Floats, Floats | None]:
    """Return density and curve (N_POINTS,) and the band (2, N_POINTS) or None.

    `samples` are confidences, correctness and weights.
    """
    groups = group_samples(*samples)
    points = np.linspace(0, 1, N_POINTS)
    kernel = _reflected_kernel(points, groups.place, bandwidth)
    density = kernel @ groups.mass / groups.mass.sum()
    seen = kernel @ groups.n_samples * np.sqrt(2 * np.pi) * bandwidth >= LEAST_SEEN
    shown = points[seen], groups.place, kernel[seen].T
    curve, band = np.full(N_POINTS, np.nan), None
    curve[seen] = _curve(groups.mass, groups.n_correct, *shown)
    if interval is not None:
        curves = _curve(*_draw(interval, groups, n_resamples, random_state), *shown)
        band = np.full((2, N_POINTS), np.nan)
        band[:, seen] = pointwise_band(curves, confidence_level)
    return density, curve, band


def _reflected_kernel(points: Floats, places: Floats, bandwidth: float) -> Floats:
    """Return the Gaussian kernel (n_points, n_places), reflected at 0 and 1."""
    kernel = np.zeros((len(points), len(places)))
    for image in range(-5, 6):
        for sign in (1, -1):
            distance = points[:, None] - (sign * places + 2 * image)
            if np.abs(distance).min() < 10 * bandwidth:
                kernel += np.exp(-0.5 * (distance / bandwidth) ** 2)
    return kernel / (np.sqrt(2 * np.pi) * bandwidth)


def _curve(
    mass: Array, n_correct: Array, points: Floats, places: Floats, kernel: Floats
) -> Floats:
    """Return the curve at `points`, given `mass` and `n_correct` (..., n_groups)."""
    seen = mass @ kernel
    gap = (n_correct - mass * places) @ kernel
    # A draw may contain no sample near a point.
    gap = np.divide(gap, seen, out=np.full(gap.shape, np.nan), where=seen > 0)
    return points + gap


def _draw(
    interval: str, groups: Groups, n_draws: int, random_state: Seed
) -> tuple[Array, Array]:
    """Return `mass` and `n_correct` of random draws."""
    if interval == "bootstrap":
        return draw_bootstrap(groups, n_draws, random_state)
    return groups.mass, draw_calibrated(groups, n_draws, random_state)
