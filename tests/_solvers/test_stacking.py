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


def shares(logits, y, weight=None, n_folds=5):
    """Return the part of each sample in each fold."""
    found = random_folds(array_blocks(logits, y, weight), n_folds)
    table = np.zeros((len(y), n_folds))
    table[found.sample, found.fold] = found.share
    assert table.sum(axis=1) == pytest.approx(1)
    return table


def draw(n_samples=203):
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(n_samples, 3))
    return logits, rng.choice(3, size=n_samples, p=[0.1, 0.3, 0.6])


def test_folds_are_stratified_and_do_not_depend_on_the_order():
    logits, y = draw()
    table = shares(logits, y)
    assert (np.sort(table, axis=1) == [0, 0, 0, 0, 1]).all()
    for k in range(3):
        assert np.ptp(table[y == k].sum(axis=0)) <= 1
    assert np.ptp(table.sum(axis=0)) <= 1
    order = np.random.default_rng(1).permutation(203)
    np.testing.assert_array_equal(shares(logits[order], y[order]), table[order])
    # They are not related to the confidence, which would make the folds too similar.
    fold = table.argmax(axis=1)
    assert abs(np.corrcoef(fold, logits.max(axis=1))[0, 1]) < 0.2


@pytest.mark.parametrize("is_rough", [False, True])
def test_folds_do_not_depend_on_the_classes_the_unit_and_the_origin(is_rough):
    logits, y = draw()
    logits = logits.round(1) if is_rough else logits
    table = shares(logits, y)
    columns = np.array([2, 0, 1])
    noise = 1e-12 * np.random.default_rng(1).normal(size=logits.shape)
    for other in (logits + 7.123, 3.3 * logits, logits + noise):
        np.testing.assert_allclose(shares(other, y), table)
    if not is_rough:  # ties
        other = shares(logits[:, columns], np.argsort(columns)[y])
        np.testing.assert_allclose(other, table)


@pytest.mark.parametrize("most", [2, 40])
@pytest.mark.parametrize("is_rough", [False, True])
def test_a_sample_of_weight_two_is_in_the_folds_of_two_samples(is_rough, most):
    logits, y = draw()
    logits = logits.round() if is_rough else logits
    counts = np.random.default_rng(1).integers(1, most, endpoint=True, size=203)
    row = np.repeat(np.arange(203), counts)
    table = shares(logits, y, counts.astype(float))
    np.testing.assert_allclose(shares(logits[row], y[row]), table[row], atol=1e-12)
    assert np.ptp(counts @ table) < 1.01


@pytest.mark.parametrize("unit", [1e-6, 0.3, 1e12, 1e307])
def test_weights_of_all_sizes_have_folds(unit):
    logits, y = draw()
    for weight in (np.ones(203), np.random.default_rng(1).lognormal(size=203)):
        table = shares(logits, y, unit * weight)
        part = (weight / weight.sum()) @ table
        assert part == pytest.approx(0.2, abs=0.06)
