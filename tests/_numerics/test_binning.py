"""Bin edges, sums over bins, and errors computed from them."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp

from sklearn_calib._numerics.binning import (
    bin_index,
    bin_sums,
    class_bin_sums,
    class_gap_norm,
    gap_norm,
    interior_edges,
    occupied_bins,
    sums_by_value,
)
from sklearn_calib.metrics import expected_calibration_error

# Multiples of 1/20 are often tied, and are edges for many numbers of bins.
VALUES = hnp.arrays(
    float, st.integers(1, 40), elements=st.integers(0, 20).map(lambda k: k / 20)
)
N_BINS = st.integers(1, 30)
STRATEGIES = st.sampled_from(["uniform", "quantile"])


@pytest.mark.parametrize("n_bins", [1, 2, 10, 15, 101, 102, 500])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_uniform_bins_are_closed_on_the_right(n_bins, dtype):
    """An edge belongs to the bin below it; larger values are in the next bin."""
    edges = interior_edges(np.zeros(1, dtype), n_bins=n_bins, strategy="uniform")
    below = np.arange(n_bins - 1)
    assert edges.dtype == dtype
    np.testing.assert_array_equal(bin_index(edges, edges), below)
    np.testing.assert_array_equal(bin_index(np.nextafter(edges, 2), edges), below + 1)
    np.testing.assert_array_equal(
        bin_index(np.array([0.0, 1.0]), edges), [0, n_bins - 1]
    )


@pytest.mark.parametrize("decimal", [0.1, 0.2, 0.3, 0.6, 0.7, 0.9])
def test_decimals_are_edges(decimal):
    """arange / n_bins is rounded correctly, unlike 0.1 * 3 and linspace."""
    edges = interior_edges(np.zeros(1), n_bins=10, strategy="uniform")
    assert decimal in edges


def test_quantile_bins_have_equal_numbers():
    values = np.random.default_rng(0).permutation(np.arange(60)) / 60
    edges = interior_edges(values, n_bins=15, strategy="quantile")
    np.testing.assert_array_equal(np.bincount(bin_index(values, edges)), [4] * 15)
    edges = interior_edges(values, n_bins=16, strategy="quantile")
    counts = np.bincount(bin_index(values, edges))
    assert len(counts) == 16
    assert set(counts) == {3, 4}


@given(VALUES, N_BINS, STRATEGIES, st.data())
def test_occupied_bins(values, n_bins, strategy, data):
    """The bins contain the same samples, and each sample is between the edges."""
    weights = st.lists(st.integers(0, 2), min_size=len(values), max_size=len(values))
    weight = np.array(data.draw(weights.filter(any)), float)
    every = bin_sums(
        values, values > 0.5, n_bins=n_bins, strategy=strategy, sample_weight=weight
    )
    sums = occupied_bins(every)
    assert (sums.weight > 0).all()
    assert (np.diff(sums.edges)[1:] > 0).all()  # the first bin may hold 0 only
    assert sums.edges[0] == 0
    assert sums.edges[-1] == 1
    for name in ("weight", "confidence", "correct"):
        whole = getattr(every, name)
        np.testing.assert_array_equal(getattr(sums, name), whole[every.weight > 0])
    index = bin_index(values, sums.edges[1:-1])
    np.testing.assert_array_equal(np.bincount(index, weight), sums.weight)


@given(VALUES, N_BINS)
def test_quantile_edges_are_inverse_frequencies(values, n_bins):
    """An edge is the smallest value with at least k / n_bins of the weight up to it."""
    edges = interior_edges(values, n_bins=n_bins, strategy="quantile")
    for k, edge in enumerate(edges, start=1):
        assert np.sum(values <= edge) * n_bins >= k * len(values)
        assert np.sum(values < edge) * n_bins < k * len(values)


@given(st.data(), VALUES, N_BINS, STRATEGIES)
def test_order_and_repetition(data, values, n_bins, strategy):
    """The order of rows, and weights instead of repeated rows, do not change bins."""
    size = len(values)
    weight = data.draw(hnp.arrays(int, size, elements=st.integers(1, 4)))
    order = data.draw(st.permutations(range(size)))
    correct = data.draw(hnp.arrays(bool, size))
    options = {"n_bins": n_bins, "strategy": strategy}
    expected = bin_sums(values.repeat(weight), correct.repeat(weight), **options)
    for scale in (1, 0.1):
        sums = bin_sums(
            values[order],
            correct[order],
            sample_weight=scale * weight[order].astype(float),
            **options,
        )
        np.testing.assert_array_equal(sums.edges, expected.edges)
        for ours, repeated in zip(sums[1:], expected[1:], strict=True):
            np.testing.assert_allclose(ours, scale * repeated, rtol=1e-9)


@given(VALUES, N_BINS, STRATEGIES)
def test_ties_are_never_split(values, n_bins, strategy):
    edges = interior_edges(values, n_bins=n_bins, strategy=strategy)
    index = bin_index(values, edges)
    for value in set(values):
        assert len(set(index[values == value])) == 1


def test_bin_sums_by_hand():
    sums = bin_sums(
        np.array([0.0, 0.25, 0.5, 1.0]),
        np.array([False, True, True, True]),
        n_bins=2,
        sample_weight=np.array([1.0, 2.0, 1.0, 3.0]),
    )
    np.testing.assert_array_equal(sums.edges, [0, 0.5, 1])
    np.testing.assert_array_equal(sums.weight, [4, 3])
    np.testing.assert_array_equal(sums.confidence, [1, 3])
    np.testing.assert_array_equal(sums.correct, [3, 3])


@pytest.mark.parametrize(
    ("norm", "expected"), [("l1", 0.25), ("l2", np.sqrt(0.105)), ("max", 0.5)]
)
def test_norms_by_hand(norm, expected):
    # Gaps of 0.5, none, -0.1 and 0, with the weights 4, 0, 5 and 1.
    weight, gap = np.array([4.0, 0.0, 5.0, 1.0]), np.array([2.0, 0.0, -0.5, 0.0])
    assert gap_norm(weight, gap, norm) == pytest.approx(expected)


def test_class_norms_by_hand():
    weight, gap = np.full((2, 2), 5.0), np.array([[1.0, 0.0], [0.0, -2.0]])
    assert class_gap_norm(weight, gap, "l1") == pytest.approx(0.15)
    assert class_gap_norm(weight, gap, "l1", "sum") == pytest.approx(0.3)
    assert class_gap_norm(weight, gap, "l2") == pytest.approx(np.sqrt(0.05))
    assert class_gap_norm(weight, gap, "l2", "sum") == pytest.approx(np.sqrt(0.1))
    assert class_gap_norm(weight, gap, "max") == pytest.approx(0.4)


@given(st.data(), st.integers(2, 5), N_BINS, STRATEGIES, st.booleans())
def test_class_bin_sums_are_those_of_each_column(
    data, n_classes, n_bins, strategy, weighted
):
    """The first bin is computed by difference, the others from the large values."""
    size = data.draw(st.integers(1, 30))
    counts = data.draw(hnp.arrays(int, (size, n_classes), elements=st.integers(0, 4)))
    counts[:, 0] += counts.sum(axis=1) == 0
    proba = counts / counts.sum(axis=1, keepdims=True)
    codes = data.draw(hnp.arrays(int, size, elements=st.integers(0, n_classes - 1)))
    tenths = hnp.arrays(float, size, elements=st.integers(1, 30).map(lambda k: k / 10))
    weight = data.draw(tenths) if weighted else None

    options = {"n_bins": n_bins, "strategy": strategy, "sample_weight": weight}
    total, gap, correct = class_bin_sums(proba, codes, **options)
    for code, column in enumerate(proba.T):
        sums = bin_sums(column, codes == code, **options)
        np.testing.assert_allclose(total[code], sums.weight, atol=1e-12)
        np.testing.assert_allclose(
            gap[code], sums.confidence - sums.correct, atol=1e-12
        )
        np.testing.assert_allclose(correct[code], sums.correct, atol=1e-12)
        assert ((total[code] > 0) == (sums.weight > 0)).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_class_bin_sums_of_many_classes(dtype):
    """More rows and columns than fit into one block."""
    rng = np.random.default_rng(0)
    proba = rng.dirichlet(np.full(300, 0.02), size=400).astype(dtype)
    codes = rng.integers(300, size=400)
    total, gap, correct = class_bin_sums(proba, codes, n_bins=10)
    for code in (0, 150, 299):
        sums = bin_sums(proba[:, code], codes == code, n_bins=10)
        np.testing.assert_array_equal(total[code], sums.weight)
        np.testing.assert_allclose(gap[code], sums.confidence - sums.correct, atol=1e-4)
        np.testing.assert_array_equal(correct[code], sums.correct)


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_class_bin_sums_checks_values(strategy):
    with pytest.raises(ValueError, match=r"sums to 0\.75"):
        class_bin_sums(np.array([[0.5, 0.25]]), np.array([0]), strategy=strategy)


def test_bins_of_a_reliability_diagram(reference):
    recorded = reference("metric_bins")
    for case in recorded["expected"]:
        inputs = recorded["inputs"][case["input"]]
        proba, labels = np.array(inputs["probs"]), np.array(inputs["labels"])
        confidence, correct = proba.max(axis=1), proba.argmax(axis=1) == labels
        sums = bin_sums(confidence, correct, n_bins=case["params"]["n_bins"])
        filled = np.maximum(sums.weight, 1)
        for name, values in {
            "prop": sums.weight / len(labels),
            "accuracy": sums.correct / filled,
            "confidence": sums.confidence / filled,
        }.items():
            expected = case["values"][name]
            np.testing.assert_allclose(values, expected, rtol=1e-6, atol=1e-8)
        data = correct, confidence
        error = expected_calibration_error(
            *data, labels=[False, True], **case["params"]
        )
        assert error == pytest.approx(case["values"]["ece"], rel=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_one_sort_gives_the_counts_of_sorted_indices(dtype):
    rng = np.random.default_rng(0)
    edges = [0.0, -0.0, np.finfo(dtype).smallest_subnormal, 1.0, 2.5]
    values = np.concatenate(
        [np.tile(edges, 7), rng.random(200), rng.integers(4, size=99)]
    )
    values = np.repeat(values.astype(dtype), 2)[::2]
    correct = rng.random(len(values)) < 0.5
    got = sums_by_value(values, correct, None)
    expected = sums_by_value(values, correct, np.ones(len(values)))
    for one, other in zip(got, expected, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)
    signed = sums_by_value(-values, correct, None)
    for one, other in zip(signed, (-got[0], *got[1:]), strict=True):
        np.testing.assert_array_equal(one, other[::-1])


def test_sums_by_value_of_weighted_samples():
    values, correct = (
        np.array([0.5, 0.2, 0.5, 0.9]),
        np.array([True, True, False, True]),
    )
    sums = sums_by_value(values, correct, np.array([1.0, 2.0, 0.5, 0.0]))
    np.testing.assert_array_equal(sums, [[0.2, 0.5], [2.0, 1.5], [2.0, 1.0]])
