"""More bins than values: the same sums, in the time and the memory of few bins."""

import inspect
import math
import tracemalloc

import numpy as np
import pytest

from sklearn_calib import metrics
from sklearn_calib._numerics.binning import (
    MANY_BINS,
    MOST_SWEPT,
    bin_index,
    interior_edges,
    parting_edges,
    sweep_n_bins,
)
from sklearn_calib._validation.declarations import MOST_BINS

STRATEGIES = ["uniform", "quantile"]
N_SAMPLES = 40
# Functions with a number of bins, and their required arguments.
BINNED = {
    "classwise_calibration_error": {},
    "ece_consistency_bound": {"n_resamples": 5, "random_state": 0},
    "ece_interval": {"n_resamples": 5, "random_state": 0},
    "expected_calibration_error": {},
    "hosmer_lemeshow_test": {"method": "asymptotic"},
    "maximum_calibration_error": {},
    "proper_calibration_error": {"loss": "brier", "recalibration": "bins"},
    "quantile_squared_error": {},
    "refinement_error": {"loss": "brier", "recalibration": "bins"},
    "score_decomposition": {"loss": "brier", "recalibration": "bins"},
}


def partition(values, edges):
    """Return the indices of occupied bins, renumbered without gaps."""
    return np.unique(bin_index(values, edges), return_inverse=True)[1]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_values", [2, 30, 3000])
@pytest.mark.parametrize("n_bins", [2, 31, 100, 2999, 3001, 5000, 100_000])
def test_parting_edges_part_alike(strategy, dtype, weighted, n_values, n_bins):
    """Ties, values on the edges, and both ends."""
    rng = np.random.default_rng(n_bins)
    values = rng.beta(0.3, 0.3, size=n_values)
    values[::3] = np.round(values[::3] * n_bins) / n_bins
    values[::7] = values[0]
    values[-2:] = 0, 1
    values = values.astype(dtype)
    weight = rng.exponential(size=len(values)) ** 3 if weighted else None
    options = {"n_bins": n_bins, "strategy": strategy, "sample_weight": weight}
    edges = parting_edges(values, **options)
    np.testing.assert_array_equal(
        partition(values, edges), partition(values, interior_edges(values, **options))
    )
    assert len(edges) < max(len(values), 3) or n_bins <= MANY_BINS


@pytest.mark.filterwarnings("ignore:hosmer_lemeshow_test may reject")
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("name", BINNED)
@pytest.mark.parametrize("weighted", [False, True])
def test_time_and_memory_do_not_grow_with_bins(name, strategy, weighted):
    rng = np.random.default_rng(0)
    proba = np.round(rng.dirichlet(np.ones(3), size=N_SAMPLES), 3)
    proba /= proba.sum(axis=1, keepdims=True)
    codes = np.arange(N_SAMPLES) % 3
    metric, options = getattr(metrics, name), {**BINNED[name], "strategy": strategy}
    if "strategy" not in inspect.signature(metric).parameters:
        del options["strategy"]
    if weighted and name != "hosmer_lemeshow_test":
        options["sample_weight"] = rng.uniform(size=N_SAMPLES)
    data = (proba,) if name == "ece_consistency_bound" else (codes, proba)

    def measure(n_bins):
        return np.ravel(metric(*data, n_bins=n_bins, **options))

    expected = measure(200_000)
    tracemalloc.start()
    np.testing.assert_allclose(measure(10**9), expected, rtol=1e-9, atol=1e-12)
    assert tracemalloc.get_traced_memory()[1] < 2e7
    tracemalloc.stop()
    with pytest.raises(ValueError, match="The 'n_bins' parameter"):
        measure(10**30)
    assert np.isfinite(measure(MOST_BINS)).all()


@pytest.mark.filterwarnings("ignore:hosmer_lemeshow_test may reject")
@pytest.mark.parametrize("name", sorted(set(BINNED) - {"quantile_squared_error"}))
@pytest.mark.parametrize("n_bins", [1, 15, 2000])
def test_given_edges_of_uniform_bins(name, n_bins):
    """The same bits, also for values on the edges and for more bins than samples."""
    rng = np.random.default_rng(0)
    proba = rng.dirichlet(np.ones(3), size=N_SAMPLES)
    proba[:20] = rng.multinomial(15, np.ones(3) / 3, size=20) / 15
    codes = rng.integers(3, size=N_SAMPLES)
    data = (proba,) if name == "ece_consistency_bound" else (codes, proba)
    options = {**BINNED[name], "strategy": "uniform"}
    given, number = (
        getattr(metrics, name)(*data, n_bins=bins, **options)
        for bins in (np.arange(n_bins + 1) / n_bins, n_bins)
    )
    np.testing.assert_array_equal(given, number)


@pytest.mark.parametrize(
    ("n_bins", "strategy", "message"),
    [
        ([0, 0.5], "uniform", r"n_bins must be .* from 0 to 1, got \[0, 0.5\]"),
        ([0.1, 1], "uniform", "n_bins must be .* from 0 to 1"),
        ([0, 0.5, 0.5, 1], "uniform", "n_bins must be .* edges that increase"),
        ([0, np.nan, 1], "uniform", "n_bins must be .* edges that increase"),
        ([[0, 1]], "uniform", "n_bins must be an integer or edges"),
        ([], "uniform", "n_bins must be an integer or edges"),
        (["low", "high"], "uniform", "n_bins must contain numbers"),
        ([0, 0.5, 1], "quantile", 'strategy must be "uniform" .* got "quantile"'),
        ([0, 0.5, 1], "isotonic", 'strategy must be "uniform" .* got "isotonic"'),
    ],
)
def test_bad_edges(n_bins, strategy, message):
    options = {"n_bins": n_bins, "strategy": strategy}
    with pytest.raises(ValueError, match=message):
        metrics.expected_calibration_error([0, 1], [0.2, 0.7], **options)
    if strategy != "isotonic":
        accumulator = metrics.CalibrationAccumulator(labels=[0, 1], **options)
        with pytest.raises(ValueError, match=message):
            accumulator.update([0, 1], [[0.8, 0.2], [0.3, 0.7]])


def test_names_of_all_that_take_bins():
    """New functions must be in the table, or declare other bounds."""
    takes = {
        name
        for name in metrics.__all__
        if "n_bins" in inspect.signature(getattr(metrics, name)).parameters
    }
    assert takes - {"CalibrationAccumulator"} == set(BINNED)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_bins": 10**9}, r"n_bins must be at most 16777216 .* got 10{9}\."),
        ({"n_bins": 10**9, "strategy": "quantile"}, "n_bins must be at most 4096"),
        ({"mode": "classwise", "n_bins": 10**6}, "n_bins must be at most 838860 "),
        (
            {"mode": "classwise", "strategy": "quantile"},
            'strategy must be "uniform" for more than 4096 classes',
        ),
    ],
)
def test_accumulators_hold_no_more_than_fits(options, message):
    n_classes = 5000 if "strategy" in options and "mode" in options else 20
    accumulator = metrics.CalibrationAccumulator(labels=range(n_classes), **options)
    with pytest.raises(ValueError, match=message):
        accumulator.update([0], np.full((1, n_classes), 1 / n_classes))


@pytest.mark.parametrize("weight", [None, 1e25])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_sweeps_end(weight, strategy):
    """Accuracies are monotonic for few bins, but not for all confidences."""
    n_samples = 5000
    confidence = np.linspace(0.1, 0.9, n_samples)
    correct = np.arange(n_samples) >= n_samples // 2
    middle = slice(n_samples // 2 - 1, n_samples // 2 + 1)
    correct[middle] = correct[middle][::-1]
    if weight is not None:
        weight = np.full(n_samples, weight)
    options = {"strategy": strategy, "sample_weight": weight}
    assert sweep_n_bins(confidence, correct, **options) == MOST_SWEPT
    rising = sweep_n_bins(confidence, np.sort(correct), **options)
    assert rising == (n_samples - 1 if weight is None else MOST_BINS)


def test_a_bin_for_each_of_many_values():
    """The time does not grow with the square of the number of bins."""
    values = np.random.default_rng(0).uniform(size=200_000)
    for n_bins in (200_000, 199_999):
        edges = interior_edges(values, n_bins=n_bins, strategy="quantile")
        assert len(edges) == n_bins - 1
        assert (np.diff(edges) >= 0).all()
    assert math.isclose(edges[-1], np.sort(values)[-2])
