"""Stacking: the weights of calibrators, and the folds."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import softmax

from sklearn_calib._numerics.sample_blocks import array_blocks
from sklearn_calib._solvers.stacking import random_folds, stacking_weights


@pytest.mark.parametrize("counts", [[0.5, 0.5, 0.5], [3.0, 1.0, 0.25]])
def test_stacking_weights_maximise_the_likelihood(counts):
    """Compared with a general optimiser of SciPy."""
    rng = np.random.default_rng(0)
    likelihood, weight = rng.uniform(size=(200, 3)) ** 2, rng.uniform(size=200)

    def loss(angles):
        w = softmax(angles[None], axis=1)[0]
        return -weight @ np.log(likelihood @ w) - counts @ np.log(w)

    best = minimize(loss, np.zeros(3), tol=1e-12, method="BFGS")
    found = stacking_weights(likelihood, np.array(counts), weight)
    np.testing.assert_allclose(found, softmax(best.x[None], axis=1)[0], atol=1e-4)


@pytest.mark.parametrize("weight", [1e-6, 1.0, 1e6])
def test_stacking_weights_for_members_that_are_never_right(weight):
    likelihood = np.column_stack([np.full(50, 0.9), np.full(50, 1e-300)])
    found = stacking_weights(likelihood, np.array([0.5, 0.5]), np.full(50, weight))
    # Solved by hand: all likelihood is of the first, and half a count of the second.
    np.testing.assert_allclose(found[1], 0.5 / (1 + 50 * weight), rtol=1e-6)


def test_folds_are_stratified_and_do_not_depend_on_the_order():
    rng = np.random.default_rng(0)
    logits, y = rng.normal(size=(203, 3)), rng.choice(3, size=203, p=[0.1, 0.3, 0.6])
    fold = random_folds(array_blocks(logits, y), 5)
    for k in range(3):
        assert np.ptp(np.bincount(fold[y == k], minlength=5)) <= 1
    assert np.ptp(np.bincount(fold)) <= 1
    order = rng.permutation(203)
    mixed = random_folds(array_blocks(logits[order], y[order]), 5)
    np.testing.assert_array_equal(mixed, fold[order])
    # They are not related to the confidence, which would make the folds too similar.
    assert abs(np.corrcoef(fold, logits.max(axis=1))[0, 1]) < 0.2
