"""Smoothing by cosine transforms, compared with a sum of reflected Gaussians."""

import numpy as np
import pytest
from scipy.integrate import trapezoid
from scipy.stats import norm

from sklearn_calib._numerics.heat_kernel import (
    SMALLEST_BANDWIDTH,
    cosine_coefficients,
    self_consistent_bandwidth,
    smoothed_norm,
)


def draw_masses(seed, n_samples=20):
    """Return places, including 0 and 1, and masses of both signs."""
    rng = np.random.default_rng(seed)
    place = rng.uniform(size=n_samples)
    place[:4] = 0.0, 1.0, 1.0, 0.5
    return place, rng.normal(size=n_samples) / n_samples


def mirrored_norm(place, mass, bandwidth, n_points=10_001):
    """Integrate the absolute value of the sum over samples and mirror images."""
    t, shift = np.linspace(0, 1, n_points), np.arange(-8, 10, 2)[:, None]
    center = np.concatenate([place + shift, shift - place]).ravel()
    near = np.abs(center - 0.5) < 0.5 + 8 * bandwidth
    images = norm.pdf(t[:, None], center[near], bandwidth)
    density = images @ np.resize(mass, center.shape)[near]
    return trapezoid(np.abs(density), t)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bandwidth", "rel"), [(0.001, 2e-5), (0.01, 1e-6), (0.1, 1e-6), (1.0, 1e-6)]
)
def test_equals_mirrored_gaussians(bandwidth, rel):
    place, mass = draw_masses(0)
    norm_ = smoothed_norm(cosine_coefficients(place, mass), bandwidth)
    assert norm_ == pytest.approx(mirrored_norm(place, mass, bandwidth), rel=rel)


@pytest.mark.parametrize("place", [0.0, 0.3, 1.0])
def test_no_mass_is_lost(place):
    coefficients = cosine_coefficients(np.array([place]), np.array([0.7]))
    for bandwidth in (SMALLEST_BANDWIDTH, 0.05, 1.0):
        assert smoothed_norm(coefficients, bandwidth) == pytest.approx(0.7, rel=1e-8)


def test_norm_falls_as_the_bandwidth_grows():
    coefficients = cosine_coefficients(*draw_masses(1))
    norms = [smoothed_norm(coefficients, s) for s in np.geomspace(0.001, 1, 30)]
    assert (np.diff(norms) < 1e-15).all()


@pytest.mark.parametrize("seed", range(5))
def test_bandwidth_equals_the_norm(seed):
    coefficients = cosine_coefficients(*draw_masses(seed))
    bandwidth = self_consistent_bandwidth(coefficients)
    assert smoothed_norm(coefficients, bandwidth) == pytest.approx(bandwidth, rel=1e-8)


def test_no_mass_and_all_of_it():
    nothing = cosine_coefficients(np.array([0.3, 0.3]), np.array([0.5, -0.5]))
    assert self_consistent_bandwidth(nothing) == SMALLEST_BANDWIDTH
    assert smoothed_norm(nothing, SMALLEST_BANDWIDTH) == 0
    everything = cosine_coefficients(np.ones(1), np.ones(1))
    assert self_consistent_bandwidth(everything) == pytest.approx(1)
