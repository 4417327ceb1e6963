"""Binning of probabilities: edges, indices and sums, and errors from the sums.

Bins are closed on the right, and the first bin also on the left: 0 is in the first bin,
and 1 in the last. Equal values are always in the same bin, so the order of the samples
does not matter.
"""

import math
from collections.abc import Callable
from functools import partial
from numbers import Integral
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy.optimize import isotonic_regression
from scipy.special import erf

from sklearn_calib._validation.arrays import as_numbers, row_blocks, shown
from sklearn_calib._validation.declarations import MOST_BINS
from sklearn_calib._validation.probabilities import check_sums, proba_blocks
from sklearn_calib._validation.samples import value_of_class
from sklearn_calib._validation.types import Array, Bools, Floats, Ints, Options, Weights

# "uniform", "quantile" or "arcsine", or the interior edges.
Strategy: TypeAlias = str | tuple[float, ...]

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
    strategy: Strategy,
    sample_weight: Weights = None,
    steps: Ints | None = None,
) -> Floats:
    """Return the `n_bins - 1` edges between bins, in the dtype of the values.

    "uniform" bins have the same width. "quantile" bins have the same weight as far as
    ties allow: edge k is the smallest value such that at least k/n_bins of the weight
    is at or below it. Edges may be equal, with empty bins between them. "arcsine" bins
    have the same width in asin(sqrt(p)), and are narrower at both ends. `steps` are the
    indices k of the edges to return, starting at 1. Given edges are all returned.
    """
    if not isinstance(strategy, str):
        return np.array(strategy, dtype=values.dtype)
    steps = np.arange(1, n_bins) if steps is None else steps
    if strategy == "uniform":
        return uniform_edges(n_bins, steps).astype(values.dtype)
    if strategy == "arcsine":
        return (np.sin(np.pi / 2 * steps / n_bins) ** 2).astype(values.dtype)
    if sample_weight is None:
        ranks = -(-steps * len(values) // n_bins) - 1
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
    values: Floats, *, n_bins: int, strategy: Strategy, sample_weight: Weights = None
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
    mass, n_correct = (np.append(0, each.cumsum()) for each in (mass, n_correct))
    largest = min(MOST_BINS, max(1, math.ceil(mass[-1]) - 1))
    if _is_rising(np.arange(len(mass)), mass, n_correct):
        return largest  # coarser bins are monotonic too
    largest = min(MOST_SWEPT, largest)
    for n_bins in range(2, largest + 1):
        if strategy == "uniform":
            edges = interior_edges(value, n_bins=n_bins, strategy=strategy)
            ends: Ints = np.searchsorted(value, edges, side="right")
        else:
            ends = quantile_ends(mass[1:], n_bins)
        if not _is_rising(np.concatenate([[0], ends, [len(value)]]), mass, n_correct):
            return n_bins - 1
    return largest


def _is_rising(ends: Ints, mass: Floats, n_correct: Floats) -> bool:
    """Whether accuracies are non-decreasing, given cumulated sums and ends of bins.

    All of them start with 0.
    """
    bin_mass, bin_correct = np.diff(mass[ends]), np.diff(n_correct[ends])
    accuracy = bin_correct[bin_mass > 0] / bin_mass[bin_mass > 0]
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
    strategy: Strategy = "uniform",
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


def end_at_data(edges: Floats, low: float, high: float) -> Floats:
    """Return the edges of quantile bins from the smallest to the largest value.

    If all values of the first bin are equal, it starts at 0, to have a width.
    """
    first = edges[0] if len(edges) else high
    return np.concatenate(([low if low < first else 0.0], edges, [high]))


def check_most_bins(n_bins: int, n_samples: int) -> None:
    """Raise ValueError if `n_bins` exceeds both `MANY_BINS` and the sample size."""
    limit = max(MANY_BINS, n_samples)
    if n_bins > limit:
        raise ValueError(
            f"n_bins must be at most {limit} for {n_samples} samples, got {n_bins}: "
            "most bins would be empty. Use fewer bins, such as the default."
        )


def read_bins(n_bins: Any, strategy: str) -> tuple[Any, Any]:
    """Return the number of bins and the strategy, which is the tuple of given edges."""
    if isinstance(n_bins, str | Integral):
        return n_bins, strategy
    edges = as_numbers(n_bins, "n_bins").astype(np.float64)
    is_increasing = edges.ndim == 1 and len(edges) > 1 and (np.diff(edges) > 0).all()
    if not is_increasing or edges[0] != 0 or edges[-1] != 1:
        raise ValueError(
            "n_bins must be an integer or edges that increase from 0 to 1, got "
            f"{shown(n_bins)}. Include 0 and 1, and sort the edges."
        )
    if strategy != "uniform":
        raise ValueError(
            'strategy must be "uniform" if n_bins contains edges, got '
            f'"{strategy}". Use strategy="uniform", or pass a number of bins.'
        )
    return len(edges) - 1, tuple(edges[1:-1].tolist())


def resolve_n_bins(n_bins: Any, n_samples: int, weight: Weights) -> int:
    """Return the number of bins; "cube_root" depends on the number of samples."""
    if not isinstance(n_bins, str):
        return n_bins
    total = n_samples if weight is None else weight.sum()
    return min(MOST_BINS, max(1, math.ceil(np.cbrt(total))))


def distinct_confidences(
    confidence: Floats, correct: Array, weight: Weights
) -> tuple[Floats, Floats, Floats]:
    """Return distinct confidences, their frequencies and the accuracy at each."""
    value, mass, n_correct = sums_by_value(confidence, correct, weight)
    return value.astype(np.float64), mass / mass.sum(), n_correct / mass


# Sums of each class, and errors from sums -------------------------------------------


def class_bin_sums(
    proba: Floats,
    codes: Ints,
    *,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    sample_weight: Weights = None,
    keep_empty: bool = True,
) -> tuple[Floats, Floats, Floats]:
    """Return weight, gap and correct weight, each of shape (n_classes, n_bins).

    The correct weight is that of the samples of the class. The gap is the sum of its
    probabilities minus the correct weight. The values of `proba` are checked in the
    same pass. With `keep_empty=False`, there are at most as many bins as samples, as in
    `parting_edges`.
    """
    keep_empty = keep_empty or n_bins <= len(proba)
    if strategy != "quantile" and keep_empty:
        edges = interior_edges(proba, n_bins=n_bins, strategy=strategy)
        return _class_sums_between(edges, proba, codes, sample_weight)
    options: Options = {
        "n_bins": n_bins,
        "strategy": strategy,
        "sample_weight": sample_weight,
    }
    find_edges = partial(interior_edges if keep_empty else parting_edges, **options)
    return _sums_class_by_class(proba, codes, sample_weight, find_edges)


def _class_sums_between(
    edges: Floats, proba: Floats, codes: Ints, sample_weight: Weights
) -> tuple[Floats, Floats, Floats]:
    """Bin the probabilities above the first edge, and get the first bin by difference.

    A row has fewer than 1 / p probabilities above the first edge p, so the time hardly
    depends on the number of classes, unless p is small.
    """
    n_classes, n_bins = proba.shape[1], len(edges) + 1
    weights = np.ones(len(proba)) if sample_weight is None else sample_weight
    weight, gap = np.zeros((2, n_classes, n_bins))
    p_true = np.empty(len(proba), dtype=proba.dtype)
    for rows, block in proba_blocks(proba):
        p_true[rows] = value_of_class(block, codes[rows])
        gap[:, 0] += weights[rows] @ block
        row, column, value = _values_above(block, edges[0] if n_bins > 1 else 1)
        cell = column * n_bins + bin_index(value, edges)
        np.add.at(weight.ravel(), cell, weights[rows][row])
        np.add.at(gap.ravel(), cell, weights[rows][row] * value)
    gap[:, 0] -= gap[:, 1:].sum(axis=1)
    first = weights.sum() - weight[:, 1:].sum(axis=1)
    # Rounding errors of fractional weights must not make an empty bin non-empty.
    weight[:, 0] = np.where(first > 1e-9 * weights.sum(), first, 0)
    true_cell = codes * n_bins + bin_index(p_true, edges)
    correct: Array = np.bincount(true_cell, weights, gap.size).reshape(gap.shape)
    return weight, gap - correct, correct


def _values_above(block: Floats, bound: float) -> tuple[Ints, Ints, Floats]:
    """Return rows, columns and values of the elements that exceed a bound."""
    above = np.flatnonzero((block > bound).ravel(order="K"))
    value = block.ravel(order="K")[above]
    if block.flags.c_contiguous:
        return *np.divmod(above, block.shape[1]), value
    column, row = np.divmod(above, block.shape[0])
    return row, column, value


def _sums_class_by_class(
    proba: Floats,
    codes: Ints,
    sample_weight: Weights,
    find_edges: Callable[[Floats], Floats],
) -> tuple[Floats, Floats, Floats]:
    """Bin the classes one by one."""
    check_sums(proba)
    sums = []
    for code, column in enumerate(proba.T):
        column = np.ascontiguousarray(column)
        edges = find_edges(column)
        sums.append(sums_between(edges, column, codes == code, sample_weight))
    most = max(len(one.weight) for one in sums)
    weight, confidence, correct = np.zeros((3, len(sums), most))
    for code, one in enumerate(sums):
        filled = code, slice(len(one.weight))
        weight[filled], confidence[filled], correct[filled] = one[1:]
    return weight, confidence - correct, correct


def row_gap_sums(
    confidence: Floats, correct: Array, sample_weight: Weights, **bins: Any
) -> tuple[Floats, Floats, Floats]:
    """Return weight, gap and correct weight of one row, (1, n_bins) each.

    With many bins, empty ones are left out, as in `parting_edges`.
    """
    edges = parting_edges(confidence, sample_weight=sample_weight, **bins)
    _, *sums = sums_between(edges, confidence, correct, sample_weight)
    weight, mean, right = (each[None] for each in sums)
    return weight, mean - right, right


def gap_error(
    weight: Floats,
    gap: Floats,
    correct: Array,
    norm: str | float,
    *,
    reduce_bias: bool = False,
    average: str = "mean",
) -> float:
    """Return the calibration error, given sums by class and bin (n_classes, n_bins)."""
    if reduce_bias:
        return debiased_error(weight, gap, correct, norm, average)
    if len(weight) == 1:  # the root of the square of an error may differ from it
        return float(gap_norm(weight[0], gap[0], norm))
    return float(class_gap_norm(weight, gap, norm, average))


def isotonic_calibration_error(
    confidence: Floats, correct: Array, sample_weight: Weights, norm: str | float
) -> float:
    """Return the calibration error relative to the isotonic regression on confidence.

    Gaps are computed for each distinct confidence, not averaged over the blocks of the
    regression: an uninformative confidence has a single block, in which the gaps would
    cancel.
    """
    value, mass, n_correct = sums_by_value(confidence, correct, sample_weight)
    accuracy = isotonic_regression(n_correct / mass, weights=mass).x
    return float(gap_norm(mass, mass * (value - accuracy), norm))


def gap_norm(weight: Floats, gap: Floats, norm: str | float) -> Any:
    """Return the norm of the gaps between confidence and accuracy over the last axis.

    `gap` is the sum of confidence minus correctness over a bin's samples, `weight` the
    sum of their weights. "l1" is the mean absolute gap over the samples, "l2" the root
    mean squared gap, a number the power mean with this exponent, "max" the largest gap
    of a bin. Empty bins are ignored.
    """
    total = weight.sum(axis=-1)
    if norm == "l1":
        return np.abs(gap).sum(axis=-1) / total
    gap_per_weight = gap / np.where(weight > 0, weight, 1.0)
    if norm == "l2":
        return np.sqrt((gap * gap_per_weight).sum(axis=-1) / total)
    if norm == "max":
        return np.abs(gap_per_weight).max(axis=-1)
    return _power_mean(np.abs(gap_per_weight), weight / total[..., None], float(norm))


def _power_mean(values: Floats, weight: Any, power: float) -> Any:
    """Return the weighted power mean of non-negative values over the last axis."""
    # Powers of the ratios to the largest value do not underflow to a mean of zero.
    largest = values.max(axis=-1, keepdims=True)
    ratio = values / np.where(largest > 0, largest, 1.0)
    mean = (weight * ratio**power).sum(axis=-1)
    return largest[..., 0] * mean ** (1 / power)


def debiased_error(
    weight: Floats,
    gap: Floats,
    correct: Array,
    norm: str | float,
    average: str = "mean",
) -> float:
    """Return the debiased calibration error, given sums (n_classes, n_bins).

    The noise of the accuracies biases the error upward. For squared gaps, the bias is
    their variance; for absolute gaps, it is estimated as if the observed gaps were the
    true ones and the noise normal.
    """
    filled = np.where(weight > 0, weight, 1.0)
    fraction = weight / weight.sum(axis=1, keepdims=True)
    gap, accuracy = np.abs(gap) / filled, correct / filled
    variance = np.maximum(0, accuracy * (1 - accuracy))
    if norm == "l2":
        # The variance cannot be estimated from a single sample.
        excess = gap**2 - variance / np.where(weight > 1, weight - 1, 1.0)
        squares = np.maximum(0, (fraction * excess * (weight > 1)).sum(axis=1))
        return math.sqrt(squares.mean() if average == "mean" else squares.sum())
    noise = np.maximum(np.sqrt(variance / filled), 1e-9)
    # Mean of the folded normal distribution.
    noisy = gap * erf(gap / noise / math.sqrt(2))
    noisy += noise * math.sqrt(2 / math.pi) * np.exp(-((gap / noise) ** 2) / 2)
    errors = np.maximum(0, (fraction * (2 * gap - noisy)).sum(axis=1))
    return float(errors.mean() if average == "mean" else errors.sum())


def class_gap_norm(
    weight: Floats, gap: Floats, norm: str | float, average: str = "mean"
) -> Any:
    """Return the norm of gaps (..., n_classes, n_bins), averaged over the classes.

    Powers such as the squares of "l2" are averaged before taking the root; "max" is the
    maximum over all classes.
    """
    return combine_classes(gap_norm(weight, gap, norm), norm, average)


def combine_classes(errors: Floats, norm: str | float, average: str = "mean") -> Any:
    """Return the norm over all classes, given that of each class (..., n_classes)."""
    if norm == "max":
        return errors.max(axis=-1)
    combine = np.mean if average == "mean" else np.sum
    if norm == "l1":
        return combine(errors, axis=-1)
    if norm == "l2":
        return np.sqrt(combine(errors**2, axis=-1))
    weight = 1 / errors.shape[-1] if average == "mean" else 1.0
    return _power_mean(errors, weight, float(norm))
