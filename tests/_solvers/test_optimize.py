"""The fit of a temperature, compared with Brent's method, on difficult problems."""

import math
import warnings

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.optimize import brentq
from scipy.special import softmax

from sklearn_calib._numerics.sample_blocks import array_blocks
from sklearn_calib._solvers.temperature_fit import TRANSPOSE_BELOW, fit_temperature


def expected_gap(logits, temperature):
    """Return the mean distance to the row's largest logit under softmax(z / T)."""
    gaps = logits.max(axis=1, keepdims=True) - logits
    return (softmax(logits / temperature, axis=1) * gaps).sum(axis=1).mean()


def brent(logits, codes):
    """Return the T at which the expected gap is that of the true classes."""
    target = (logits.max(axis=1) - logits[np.arange(len(codes)), codes]).mean()

    def excess(log_temperature):
        return expected_gap(logits, math.exp(log_temperature)) - target

    return math.exp(brentq(excess, -18, 18, xtol=1e-13))


@given(seed=st.integers(0, 2**32 - 1), tail=st.floats(0.1, 4.0))
def test_equals_bisection(seed, tail):
    """With heavy-tailed gaps, Newton steps overshoot and are bisected."""
    rng = np.random.default_rng(seed)
    shape = (rng.integers(2, 60), rng.integers(2, 6))
    logits = rng.normal(size=shape) * np.exp(tail * rng.normal(size=(shape[0], 1)))
    codes = rng.integers(0, shape[1], size=shape[0])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        temperature = fit_temperature(array_blocks(logits, codes))
    if not caught:
        assert temperature == pytest.approx(brent(logits, codes), rel=1e-8)


@pytest.mark.parametrize("n_columns", [TRANSPOSE_BELOW - 1, TRANSPOSE_BELOW])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_blocks_and_layouts_agree(n_columns, dtype):
    """Several blocks, the last one shorter, summed along either axis."""
    rng = np.random.default_rng(0)
    logits = (3 * rng.normal(size=(2000, n_columns))).astype(dtype)
    codes = (logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=1)
    rel = 1e-9 if dtype == np.float64 else 1e-5
    expected = brent(logits.astype(np.float64), codes)
    assert fit_temperature(array_blocks(logits, codes)) == pytest.approx(
        expected, rel=rel
    )
    by_column = np.asfortranarray(logits)
    assert fit_temperature(array_blocks(by_column, codes)) == pytest.approx(
        expected, rel=rel
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_classes", [2, 1000])
def test_one_hot_rows(n_classes, dtype):
    """With a thousand classes, the first guess is poor: all exponentials underflow."""
    rng = np.random.default_rng(0)
    predicted = rng.integers(0, n_classes, size=100)
    codes = predicted.copy()
    codes[:20] = (codes[:20] + 1) % n_classes
    logits = 7 * np.eye(n_classes, dtype=dtype)[predicted]
    # At the optimum the confidence 1 / (1 + (n_classes - 1) exp(-7 / T)) is 0.8.
    expected = 7 / math.log(4 * (n_classes - 1))
    rel = 1e-10 if dtype == np.float64 else 1e-6
    assert fit_temperature(array_blocks(logits, codes)) == pytest.approx(
        expected, rel=rel
    )


def test_float32_stays_float32(monkeypatch):
    """A float64 copy of the matrix would double the time."""
    seen = set()
    plain = np.exp

    def watched(values, *args, **kwargs):
        seen.add(values.dtype)
        return plain(values, *args, **kwargs)

    monkeypatch.setattr(np, "exp", watched)
    logits = np.array([[2.0, 0.0], [1.0, 0.0], [0.0, 3.0]], dtype=np.float32)
    fit_temperature(array_blocks(logits, np.array([0, 1, 1])))
    assert seen == {np.dtype(np.float32)}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_an_infinite_temperature_of_huge_weights_is_finite():
    """n / (n + 1) is rounded to 1, and a row without weight is far from the others."""
    logits = np.array([[1e8, 0.0], [0.0, 1e16], [1e100, 0.0]])
    data = array_blocks(logits, np.array([1, 0, 0]), np.array([1e100, 1e100, 0.0]))
    assert 1e16 < fit_temperature(data) < np.inf
