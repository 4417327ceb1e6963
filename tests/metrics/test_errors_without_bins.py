"""smCE, KS and the root Brier score: recorded values, by hand, and their relations."""

import math

import numpy as np
import pytest
from scipy.optimize import linprog
from sklearn.metrics import brier_score_loss

from sklearn_calib.metrics import (
    classwise_calibration_error,
    cutoff_calibration_error,
    expected_calibration_error,
    ks_calibration_error,
    root_brier_score_loss,
    smooth_calibration_error,
    smooth_expected_calibration_error,
)


def values(recorded, name, metric):
    """Yield the recorded value and our value of each case."""
    for case in recorded["expected"]:
        inputs = recorded["inputs"][case["input"]]
        proba, labels = np.array(inputs["probs"]), np.array(inputs["labels"])
        n_classes = proba.shape[1]
        if case["id"].endswith("positive"):
            proba = proba[:, 1]
        if name in case["values"]:
            yield case["values"][name], metric(labels, proba, labels=range(n_classes))


@pytest.mark.parametrize(
    ("file", "name", "metric"),
    [
        ("metric_smce", "smce", smooth_calibration_error),
        ("metric_scores", "ks", ks_calibration_error),
        ("metric_scores", "root_brier", root_brier_score_loss),
    ],
)
def test_recorded(reference, file, name, metric):
    for expected, value in values(reference(file), name, metric):
        assert value == pytest.approx(expected, abs=1e-12)


def random_problem(seed, n_samples=300):
    """Return outcomes, and probabilities that are too low."""
    rng = np.random.default_rng(seed)
    y_proba = rng.uniform(size=n_samples)
    return rng.uniform(size=n_samples) < y_proba**0.5, y_proba


@pytest.mark.parametrize("seed", range(5))
def test_smooth_errors_are_within_a_factor(seed):
    """smCE and smECE agree up to a constant factor."""
    data = random_problem(seed)
    weights, kernels = (
        smooth_calibration_error(*data),
        smooth_expected_calibration_error(*data),
    )
    assert weights / 2 <= kernels <= 4 * math.sqrt(weights)


def test_smooth_weights_by_hand():
    """The weights of two samples at a distance of 0.1 can differ by at most 0.1."""
    y_true, y_proba = [1, 0], [0.45, 0.55]
    # Weights w and w - 0.1 and residuals 0.55 and -0.55, for half of the samples each.
    assert smooth_calibration_error(y_true, y_proba) == pytest.approx(0.0275)


def test_smooth_weights_of_several_classes():
    """By linear programming: one function of each probability, and the joint error.

    The latter is the sum over classes for 1-Lipschitz functions of all probabilities.
    """
    rng = np.random.default_rng(0)
    proba, y_true = rng.dirichlet(np.ones(3), size=25), np.arange(25) % 3
    rows, columns = np.triu_indices(25, k=1)
    matrix = np.eye(25)[rows] - np.eye(25)[columns]
    distance = np.abs(proba[rows] - proba[columns])

    def largest(residual, limit):
        limits = np.vstack([matrix, -matrix]), np.tile(limit, 2)
        return -linprog(-residual / 25, *limits, bounds=(-1, 1)).fun

    residuals = (np.eye(3)[y_true] - proba).T
    own = [largest(*pair) for pair in zip(residuals, distance.T, strict=True)]
    joint = sum(largest(residual, distance.max(axis=1)) for residual in residuals)
    value = smooth_calibration_error(y_true, proba, mode="classwise")
    assert value == pytest.approx(np.mean(own), rel=1e-9)
    assert 3 * value < joint


@pytest.mark.parametrize("seed", range(5))
def test_gap_of_all_is_below_each_error(seed):
    y_true, y_proba = random_problem(seed)
    gap = abs(np.mean(y_true - y_proba))
    for metric in (ks_calibration_error, smooth_calibration_error):
        assert gap <= metric(y_true, y_proba) + 1e-9


@pytest.mark.parametrize("seed", range(5))
def test_cutoff_error_is_the_largest_of_all_intervals(seed):
    y_true, y_proba = random_problem(seed, n_samples=40)
    y_proba = y_proba.round(1)
    gaps = [
        abs(np.sum((y_proba - y_true)[(low <= y_proba) & (y_proba <= high)])) / 40
        for low in y_proba
        for high in y_proba
    ]
    error = cutoff_calibration_error(y_true, y_proba)
    assert error == pytest.approx(max(gaps))
    ks = ks_calibration_error(y_true, y_proba)
    assert ks <= error + 1e-12 <= 2 * ks + 2e-12


@pytest.mark.parametrize("seed", range(20))
def test_moving_a_cutoff_saves_at_most_the_cutoff_error(seed):
    """The costs are those of a false positive, t, and of a false negative, 1 - t."""
    y_true, y_proba = random_problem(seed, n_samples=15)
    y_proba = y_proba.round(1)

    def mean_cost(cutoff, t):
        is_positive = y_proba >= cutoff
        return np.mean(np.where(is_positive, t * (1 - y_true), (1 - t) * y_true))

    error = cutoff_calibration_error(y_true, y_proba)
    saved = [
        mean_cost(t, t) - mean_cost(cutoff, t)
        for t in (0.1, 0.25, 0.5, 0.8)
        for cutoff in (*y_proba, 1.1)
    ]
    assert 0 < max(saved) <= error + 1e-12


def test_ks_adds_ties_at_once():
    """Added one by one, the sum would reach 0.25 for one order of the samples."""
    assert ks_calibration_error([1, 1, 0, 0], [0.5] * 4) == 0
    assert ks_calibration_error([0, 0, 1, 1], [0.0, 0.5, 0.5, 1.0]) == 0


def test_root_brier_is_that_of_scikit_learn():
    y_true, y_proba = random_problem(0)
    weight = np.arange(len(y_true)) % 3
    expected = brier_score_loss(y_true, y_proba, sample_weight=weight)
    value = root_brier_score_loss(y_true, y_proba, sample_weight=weight)
    assert value == pytest.approx(math.sqrt(2 * expected))


@pytest.mark.parametrize("n_bins", [1, 5, 100])
def test_root_brier_bounds_l2_errors(n_bins):
    rng = np.random.default_rng(0)
    proba, y_true = rng.dirichlet(np.ones(3), size=200), rng.integers(0, 3, size=200)
    bound = root_brier_score_loss(y_true, proba)
    options = {"n_bins": n_bins, "norm": "l2"}
    assert expected_calibration_error(y_true, proba, **options) <= bound
    assert classwise_calibration_error(y_true, proba, **options) <= bound


@pytest.mark.parametrize(
    ("metric", "mode", "message"),
    [
        (ks_calibration_error, "classwise", "The 'mode' parameter.*Got 'classwise'"),
        (ks_calibration_error, "positive", "requires two classes"),
        (smooth_calibration_error, "positive", "requires two classes"),
    ],
)
def test_bad_mode(metric, mode, message):
    with pytest.raises(ValueError, match=message):
        metric([0, 1, 2], np.eye(3), mode=mode)
