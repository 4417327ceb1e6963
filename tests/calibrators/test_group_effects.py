"""Effects of groups on logits: derivatives, steps and estimated variances."""

import tracemalloc

import numpy as np
import pytest
from scipy.special import softmax
from scipy.stats import multivariate_normal

from sklearn_calib.calibrators._groups.multicalibration_boosting import (
    Scales,
    Shifts,
    fit_effects,
)
from sklearn_calib.calibrators._linear.empirical_bayes import likelihood_ratios

ONE_BIN = np.zeros((1, 2), int)


def test_one_step_is_that_of_a_calculation_by_hand():
    # Four samples of group 0, three of them of class 1, and two of group 1, both of
    # class 0, all with probability 1/2. The residuals of class 1 sum to 1 and -1. The
    # curvatures are 2 * 4 / 4 = 2 and 2 * 2 / 4 = 1. With a prior of variance 1, the
    # shifts of class 1 are 1 / (1 + 2) = 1/3 and -1 / (1 + 1) = -1/2.
    group, codes = np.array([0, 0, 0, 0, 1, 1]), np.array([1, 1, 1, 0, 0, 0])
    shifts = Shifts(group, 2, ONE_BIN, 1, variance=1.0)
    n_iter = fit_effects(
        [shifts], np.zeros((6, 2)), codes, np.ones(6), max_iter=1, tol=0.01
    )
    assert n_iter == 1
    expected = [[-1 / 3, 1 / 3], [1 / 2, -1 / 2]]
    np.testing.assert_allclose(shifts.table()[:, 0], expected, rtol=1e-12)


def test_one_step_of_scales_is_that_of_a_calculation_by_hand():
    # Logits 0, but scores (-1, 1): all samples are of class 1, so that the residuals
    # times the scores sum to 1/2 + 1/2 = 1 for each sample. The variance of the scores
    # is 1. With a prior of variance 1/2, the scale is 3 / (2 + 3) for three samples.
    scales = Scales(np.zeros(3, int), 1, np.tile([-1.0, 1.0], (3, 1)), variance=0.5)
    fit_effects(
        [scales], np.zeros((3, 2)), np.ones(3, int), np.ones(3), max_iter=1, tol=0.01
    )
    np.testing.assert_allclose(scales.value, [3 / 5], rtol=1e-12)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_derivatives_agree_with_finite_differences(n_classes):
    rng = np.random.default_rng(0)
    logits, codes = rng.normal(size=(50, n_classes)), rng.integers(n_classes, size=50)
    weight, group = rng.uniform(0.5, 2, size=50), rng.integers(3, size=50)
    bins = (logits > 0).astype(int)
    target = np.eye(n_classes)[codes]

    def likelihood(effects, step):
        proba = softmax(logits + effects.changes(step), axis=1)
        return (weight * np.log(proba[np.arange(50), codes])).sum()

    for effects in (Shifts(group, 3, bins, 2), Scales(group, 3, logits)):
        proba = softmax(logits, axis=1)
        residual = weight[:, None] * (target - proba)
        gradient, curvature = effects.derivatives(proba, residual, weight)
        steps = 1e-4 * np.eye(len(gradient))
        up, down = ([likelihood(effects, sign * s) for s in steps] for sign in (1, -1))
        middle = likelihood(effects, 0 * steps[0])
        np.testing.assert_allclose(
            gradient, np.subtract(up, down) / 2e-4, rtol=1e-5, atol=1e-6
        )
        second = -(np.add(up, down) - 2 * middle) / 1e-8
        # The curvature of shifts is an upper bound: twice the diagonal.
        bound = 2 if isinstance(effects, Shifts) else 1
        np.testing.assert_allclose(curvature, bound * second, rtol=1e-3, atol=1e-3)


def test_likelihood_ratio_is_that_of_a_normal_distribution():
    # An effect with normal noise of variance 1 / curvature has pull / curvature as its
    # estimate, with variance v + 1 / curvature.
    curvature, pull = np.array([2.0, 5.0]), np.array([3.0, -1.0])
    for variance in (0.3, 2.0):
        with_, without = (
            multivariate_normal.logpdf(
                pull / curvature, None, np.diag(v + 1 / curvature)
            )
            for v in (variance, 0.0)
        )
        found = likelihood_ratios(np.array(variance), curvature, pull)
        np.testing.assert_allclose(found, 2 * (with_ - without), rtol=1e-12)


def test_variance_is_estimated():
    rng = np.random.default_rng(0)
    group = rng.integers(200, size=40_000)
    # The log-odds are the difference of two logits, whose variances add up.
    shift = rng.normal(scale=0.6, size=200)
    codes = (shift[group] + rng.logistic(size=40_000) > 0).astype(int)
    shifts = Shifts(group, 200, ONE_BIN, 1)
    fit_effects(
        [shifts], np.zeros((40_000, 2)), codes, np.ones(40_000), max_iter=20, tol=0.01
    )
    # Levels are a factor of 1.6 apart.
    assert 0.18 / 1.7 < shifts.variance < 0.18 * 1.7


def test_memory_of_an_estimate_does_not_grow_with_the_number_of_variances():
    shifts = Shifts(np.zeros(1, int), 100_000, ONE_BIN, 1)
    curvature = np.ones(len(shifts.value))
    tracemalloc.start()
    shifts.estimate(curvature, curvature)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10 * curvature.nbytes


def test_variance_of_noise_is_zero():
    rng = np.random.default_rng(0)
    group, codes = rng.integers(100, size=5000), rng.integers(2, size=5000)
    shifts = Shifts(group, 100, ONE_BIN, 1)
    fit_effects(
        [shifts], np.zeros((5000, 2)), codes, np.ones(5000), max_iter=20, tol=0.01
    )
    assert shifts.variance == 0
    assert not shifts.value.any()
