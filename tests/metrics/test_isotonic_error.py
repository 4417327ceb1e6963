"""Calibration errors against the isotonic regression instead of bins."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from sklearn.isotonic import IsotonicRegression

from sklearn_calib.metrics import (
    classwise_calibration_error,
    expected_calibration_error,
    maximum_calibration_error,
    proper_calibration_error,
)

samples = st.lists(
    st.tuples(st.integers(0, 8), st.booleans(), st.integers(1, 3)), min_size=1
).map(lambda rows: map(np.array, zip((4, True, 1), *rows, strict=True)))
CORP = {"strategy": "isotonic", "labels": [0, 1]}


def test_by_hand():
    """The middle three are pooled at 1 / 3, and the last three at 2 / 3."""
    y_true = [0, 1, 0, 0, 1, 1, 0]
    y_proba = [0.1, 0.3, 0.4, 0.5, 0.8, 0.9, 0.9]
    gaps = np.array([0.1, 0.3 - 1 / 3, 0.4 - 1 / 3, 0.5 - 1 / 3, *[0.9 - 2 / 3] * 2])
    gaps = np.append(gaps, 0.8 - 2 / 3)
    value = expected_calibration_error(y_true, y_proba, **CORP)
    assert value == pytest.approx(abs(gaps).mean(), rel=1e-12)
    value = expected_calibration_error(y_true, y_proba, norm="l2", **CORP)
    assert value == pytest.approx(np.sqrt((gaps**2).mean()), rel=1e-12)
    value = maximum_calibration_error(y_true, y_proba, **CORP)
    assert value == pytest.approx(0.9 - 2 / 3, rel=1e-12)


@given(samples)
def test_is_the_distance_to_scikit_learns_fit(drawn):
    level, label, weight = drawn
    proba = level / 8
    pooled = IsotonicRegression().fit_transform(proba, label, sample_weight=weight)
    value = expected_calibration_error(label, proba, sample_weight=weight, **CORP)
    expected = np.average(abs(proba - pooled), weights=weight)
    assert value == pytest.approx(expected, abs=1e-9)


def test_an_uninformative_classifier():
    """The error is 1 / 4, although nearly all samples have the same fitted value."""
    rng = np.random.default_rng(0)
    y_true, y_proba = rng.integers(2, size=20_000), rng.uniform(size=20_000)
    value = expected_calibration_error(y_true, y_proba, **CORP)
    assert value == pytest.approx(0.25, abs=0.01)


def test_every_class_has_its_own_fit():
    rng = np.random.default_rng(0)
    proba, codes = rng.dirichlet([0.2, 1, 5], 300), rng.integers(3, size=300)
    for norm, combine in (
        ("l1", np.mean),
        ("l2", lambda errors: np.sqrt(np.mean(np.square(errors)))),
        ("max", np.max),
    ):
        options = {"strategy": "isotonic", "norm": norm}
        errors = [
            expected_calibration_error(codes == code, column, **options)
            for code, column in enumerate(proba.T)
        ]
        value = classwise_calibration_error(codes, proba, **options)
        assert value == pytest.approx(combine(errors), rel=1e-12)


def test_what_it_costs_in_brier_score():
    """The miscalibration is at least the squared error, and equal without pooling."""
    rng = np.random.default_rng(0)
    options = {"loss": "brier", "recalibration": "isotonic"}
    for levels, ratio in ((10, 1), (1000, 1.05)):
        y_proba = rng.integers(1, levels, 20_000) / levels
        y_true = rng.uniform(size=20_000) < y_proba**2
        error = expected_calibration_error(y_true, y_proba, norm="l2", **CORP)
        cost = proper_calibration_error(y_true, y_proba, **options)
        assert 1 - 1e-9 <= cost / (2 * error**2) <= ratio + 1e-9


def test_recalibrated_has_none():
    rng = np.random.default_rng(0)
    y_proba = rng.uniform(size=5000)
    y_true = rng.uniform(size=5000) < y_proba**2
    pooled = IsotonicRegression().fit_transform(y_proba, y_true)
    assert expected_calibration_error(y_true, pooled, **CORP) < 1e-12


@pytest.mark.parametrize("n_bins", [1, 100, "cube_root", "sweep"])
def test_number_of_bins_is_not_used(n_bins):
    rng = np.random.default_rng(0)
    y_true, y_proba = rng.integers(2, size=100), rng.uniform(size=100)
    value = expected_calibration_error(y_true, y_proba, n_bins=n_bins, **CORP)
    assert value == expected_calibration_error(y_true, y_proba, **CORP)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_nearly_equal_probabilities(dtype):
    """Sorting them together with the labels does not lose precision."""
    low, high = np.finfo(dtype).smallest_subnormal, np.nextafter(dtype(1), dtype(0))
    y_proba = np.array([0, -0.0, low, low, high, high, 1, 1], dtype=dtype)
    y_true, weight = np.array([0, 1, 1, 1, 1, 0, 0, 1]), np.ones(8)
    for norm in ("l1", "l2", "max"):
        options = {"norm": norm, **CORP}
        value = expected_calibration_error(y_true, y_proba, **options)
        assert value == expected_calibration_error(
            y_true, y_proba, sample_weight=weight, **options
        )
    y_proba = np.array([0, low, high, 1], dtype=dtype)
    assert expected_calibration_error([0, 1, 1, 1], y_proba, norm="max", **CORP) == 1
