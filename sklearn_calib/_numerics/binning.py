"""Binning of probabilities: edges, indices and sums.

Bins are closed on the right, and the first bin also on the left: 0 is in the first bin,
and 1 in the last. Equal values are always in the same bin, so the order of the samples
does not matter.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from sklearn_calib._validation.arrays import row_blocks
from sklearn_calib._validation.declarations import MOST_BINS
from sklearn_calib._validation.types import Array, Bools, Floats, Ints, Options, Weights

# Prevents rounding errors of cumulated weights from moving an edge.
SLACK = 1 - 1e-12
# Largest number of bins in a sweep, unless each distinct confidence can be a bin.
MOST_SWEPT = 1000
# With more bins, empty ones are omitted if only the sums are needed.
MANY_BINS = 1000
# The overhead of a comparison for each edge pays off from about this many values.
FEW_VALUES = 1000


class BinSums(NamedTuple):
    """Sums over the samples of each bin, with sample weights if there are any."""

    edges: np.ndarray  # (n_bins + 1,), from 0 to 1
    weight: np.ndarray  # (n_bins,), the number of samples if there are no weights
    confidence: np.ndarray  # (n_bins,)
    correct: np.ndarray  # (n_bins,), the weight of correct predictions


def sums_by_value(
    values: Floats, correct: Array, weight: Weights
) -> tuple[Array, Array, Array]:
    """Return distinct values with positive weight, their weight and correct weight."""
    if weight is None:
        floats = values.dtype in (np.float32, np.float64)
        if floats and correct.dtype == bool and values.min(initial=0) >= 0:
            return _counts_by_value(values, correct)
        weight = np.ones(len(values))
    seen = weight > 0
    if not seen.all():
        values, correct, weight = values[seen], correct[seen], weight[seen]
    order = np.argsort(values)
    ordered = values[order]
    first = _first_of_equal(ordered)
    mass = np.add.reduceat(weight[order], first)
    return ordered[first], mass, np.add.reduceat((weight * correct)[order], first)


def _counts_by_value(values: Floats, correct: Bools) -> tuple[Array, Array, Array]:
    """Return `sums_by_value` for non-negative values, by a single sort without indices.

    As unsigned integers, the bits of these floats have the order of the floats. The
    sign bit is not needed, so the correctness takes a bit.
    """
    key = values.view(f"u{values.itemsize}") << 1
    key |= correct
    key.sort()
    ordered = (key >> 1).view(values.dtype)
    first = _first_of_equal(ordered)
    mass = np.diff(first, append=len(ordered)).astype(np.float64)
    n_correct = np.add.reduceat(key & 1, first).astype(np.float64)
    return ordered[first], mass, n_correct


def _first_of_equal(ordered: Array) -> Ints:
    """Return the index of the first of each group of equal values."""
    is_first = np.ones(len(ordered), dtype=bool)
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    return np.flatnonzero(is_first)


def interior_edges(
    values: Floats,
    *,
    n_bins: int,
    strategy: str,
    sample_weight: Weights = None,
    steps: Ints | None = None,
) -> Floats:
    """Return the `n_bins - 1` edges between bins, in the dtype of the values.

    "uniform" bins have the same width. "quantile" bins have the same weight as far as
    ties allow: edge k is the smallest value such that at least k/n_bins of the weight
    is at or below it. Edges may be equal, with empty bins between them. "arcsine" bins
    have the same width in asin(sqrt(p)), and are narrower at both ends. `steps` are the
    indices k of the edges to return, starting at 1.
    """
    steps = np.arange(1, n_bins) if steps is None else steps
    if strategy == "uniform":
        return uniform_edges(n_bins, steps).astype(values.dtype)
    if strategy == "arcsine":
        return (np.sin(np.pi / 2 * steps / n_bins) ** 2).astype(values.dtype)
    if sample_weight is None:
        ranks = quantile_ranks(len(values), n_bins, steps)
        # With nearly all ranks, np.partition takes quadratic time.
        return (np.sort(values) if n_bins > MANY_BINS else np.partition(values, ranks))[
            ranks
        ]
    order = np.argsort(values)
    ends = quantile_ends(np.cumsum(sample_weight[order]), n_bins, steps)
    return values[order[ends - 1]]


def uniform_edges(n_bins: int, steps: Ints) -> Floats:
    """Return the edges between bins of the same width."""
    return steps / n_bins


def quantile_ranks(n_samples: int, n_bins: int, steps: Ints) -> Ints:
    """Return the rank of the value at each edge between bins of equal size."""
    return -(-steps * n_samples // n_bins) - 1


def quantile_masses(total: float, n_bins: int, steps: Ints) -> Floats:
    """Return the cumulated weight at each edge between bins of equal weight."""
    return total * steps / n_bins * SLACK


def quantile_ends(mass: Floats, n_bins: int, steps: Ints | None = None) -> Ints:
    """Return the number of values up to each edge between bins of equal weight.

    `mass` is the cumulated weight of the sorted values.
    """
    steps = np.arange(1, n_bins) if steps is None else steps
    return np.searchsorted(mass, quantile_masses(mass[-1], n_bins, steps)) + 1


def parting_edges(
    values: Floats, *, n_bins: int, strategy: str, sample_weight: Weights = None
) -> Floats:
    """Return the interior edges; with many bins, only those that separate values.

    The other edges only bound empty bins. Time and memory thus do not grow with
    `n_bins`.
    """
    options: Options = {
        "n_bins": n_bins,
        "strategy": strategy,
        "sample_weight": sample_weight,
    }
    if n_bins <= min(len(values), MANY_BINS):
        return interior_edges(values, **options)
    steps = None if n_bins <= len(values) else _steps_at(values, **options)
    edges = interior_edges(values, steps=steps, **options)
    upper = np.unique(np.searchsorted(edges, values))
    return edges[upper[upper < len(edges)]]


def _steps_at(
    values: Floats, *, n_bins: int, strategy: str, sample_weight: Weights
) -> Ints:
    """Return the indices of the edges next to values, for more bins than values."""
    if strategy == "uniform":
        place = values.astype(np.float64)
    else:
        weight = np.ones(len(values)) if sample_weight is None else sample_weight
        mass = np.cumsum(weight[np.argsort(values)])
        place = mass / mass[-1] / SLACK
    # The first edge above each value and its neighbours, because of rounding errors.
    steps = np.floor(place * n_bins)[:, None] + np.arange(-1, 3)
    return np.unique(np.clip(steps, 1, n_bins - 1).astype(np.int64))


def cube_root_n_bins(n_samples: float) -> int:
    """Return the number of bins by the cube-root rule, at least 1."""
    return min(MOST_BINS, max(1, math.ceil(np.cbrt(n_samples))))


def sweep_n_bins(
    confidence: Floats,
    correct: Array,
    *,
    strategy: str = "quantile",
    sample_weight: Weights = None,
) -> int:
    """Return the monotonic sweep's number of bins.

    It is the largest number such that the accuracies are non-decreasing over the bins
    for this and for all smaller numbers. Empty bins are ignored, and there are fewer
    bins than samples. Numbers are tried up to `MOST_SWEPT`.
    """
    value, mass, n_correct = sums_by_value(confidence, correct, sample_weight)
    mass, n_correct = mass.cumsum(), n_correct.cumsum()
    largest = min(MOST_BINS, max(1, math.ceil(mass[-1]) - 1))
    if _is_rising(np.arange(1, len(value) + 1), mass, n_correct):
        return largest  # coarser bins are monotonic too
    largest = min(MOST_SWEPT, largest)
    for n_bins in range(2, largest + 1):
        if strategy == "uniform":
            edges = interior_edges(value, n_bins=n_bins, strategy=strategy)
            ends: Ints = np.searchsorted(value, edges, side="right")
        else:
            ends = quantile_ends(mass, n_bins)
        if not _is_rising(np.append(ends, len(value)), mass, n_correct):
            return n_bins - 1
    return largest


def _is_rising(ends: Ints, mass: Floats, n_correct: Floats) -> bool:
    """Whether accuracies are non-decreasing, given cumulated sums and ends of bins."""
    ends = ends[ends > 0]
    bin_mass = np.diff(mass[ends - 1], prepend=0)
    bin_correct = np.diff(n_correct[ends - 1], prepend=0)[bin_mass > 0]
    accuracy = bin_correct / bin_mass[bin_mass > 0]
    return bool((np.diff(accuracy) >= -1e-12).all())


def bin_index(values: Floats, edges: Floats) -> Ints:
    """Return the bin index of each value, given the interior edges."""
    if len(edges) > 100 or values.size < FEW_VALUES:
        return np.searchsorted(edges, values)
    # For few edges, comparing all values with each edge is five times faster.
    index = np.zeros(values.shape, dtype=np.uint8)
    for edge in edges:
        index += values > edge
    return index.astype(np.intp)


def bin_sums(
    confidence: Floats,
    correct: Array,
    *,
    n_bins: int = 15,
    strategy: str = "uniform",
    sample_weight: Weights = None,
) -> BinSums:
    """Return the `BinSums` of confidences (n_samples,) and correctness (n_samples,)."""
    edges = interior_edges(
        confidence, n_bins=n_bins, strategy=strategy, sample_weight=sample_weight
    )
    return sums_between(edges, confidence, correct, sample_weight)


def sums_between(
    edges: Floats, confidence: Floats, correct: Array, sample_weight: Weights = None
) -> BinSums:
    """Return the `BinSums` of the bins between interior edges."""
    n_bins = len(edges) + 1
    sums = np.zeros((3, n_bins))
    for rows in row_blocks(len(confidence), 1):
        summands: tuple[Any, ...] = None, confidence[rows], correct[rows]
        if sample_weight is not None:
            weight = sample_weight[rows]
            summands = weight, weight * confidence[rows], weight * correct[rows]
        index = bin_index(confidence[rows], edges)
        sums += [np.bincount(index, summand, n_bins) for summand in summands]
    return BinSums(np.concatenate(([0.0], edges, [1.0])), *sums)


def occupied_bins(sums: BinSums) -> BinSums:
    """Return the `BinSums` after merging empty bins into their neighbours.

    The edges still range from 0 to 1.
    """
    occupied = sums.weight > 0
    inner = sums.edges[1:][occupied][:-1]
    edges = np.concatenate((sums.edges[:1], inner, sums.edges[-1:]))
    return BinSums(edges, *(values[occupied] for values in sums[1:]))


def check_n_bins(n_bins: int, n_samples: int) -> None:
    """Raise ValueError if `n_bins` exceeds both `MANY_BINS` and the sample size."""
    limit = max(MANY_BINS, n_samples)
    if n_bins > limit:
        raise ValueError(
            f"n_bins must be at most {limit} for {n_samples} samples, got {n_bins}: "
            "most bins would be empty. Use fewer bins, such as the default."
        )


def resolve_n_bins(n_bins: int | str, n_samples: int, weight: Weights) -> int:
    """Return the number of bins; "cube_root" depends on the number of samples."""
    if not isinstance(n_bins, str):
        return n_bins
    return cube_root_n_bins(n_samples if weight is None else weight.sum())


def distinct_values(
    confidence: Floats, correct: Array, weight: Weights
) -> tuple[Floats, Floats, Floats]:
    """Return distinct confidences, their frequencies and the accuracy at each."""
    value, mass, n_correct = sums_by_value(confidence, correct, weight)
    return value.astype(np.float64), mass / mass.sum(), n_correct / mass
