"""The one place where probabilities are cut into bins.

Bins are closed on the right, the first also on the left: 0 is in the first bin and 1 in
the last. Equal values are always in the same bin, so that the order of the samples
does not matter.
"""

import math
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.optimize import isotonic_regression
from scipy.special import erf

from sklearn_calib._core.validation import proba_blocks, row_blocks

# It keeps the rounding of cumulated weights from moving an edge.
SLACK = 1 - 1e-12
# A sweep tries no more bins than these, unless every confidence may have its own.
MOST_SWEPT = 1000
# Of more bins than these, empty ones are left out where only sums count.
MANY_BINS = 1000
# So many that ranks times bins are still integers of 64 bits.
MOST_BINS = 2**31


class BinSums(NamedTuple):
    """Sums over the samples of each bin, weighted if the samples are."""

    edges: np.ndarray  # (n_bins + 1,), from 0 to 1
    weight: np.ndarray  # (n_bins,), the number of samples if there are no weights
    confidence: np.ndarray  # (n_bins,)
    hit: np.ndarray  # (n_bins,)


def sums_by_value(values, hit, weight):
    """Return the distinct values that have a weight, their weights and hits, summed."""
    seen = weight > 0
    value, index = np.unique(values[seen], return_inverse=True)
    mass = np.bincount(index, weight[seen])
    return value, mass, np.bincount(index, (weight * hit)[seen])


def interior_edges(values, *, n_bins, strategy, sample_weight=None, steps=None):
    """Return the `n_bins - 1` edges between bins, in the dtype of the values.

    "uniform" bins have the same width. "quantile" bins have the same weight as far as
    ties allow: the edges are values, the smallest ones with at least 1/n_bins,
    2/n_bins, ... of the weight at or below them. Edges may be equal, and the bins
    between them empty. "arcsine" bins have the same width in asin(sqrt(p)), and are
    fine at both ends. `steps` are the numbers of the edges to return, from 1 on.
    """
    steps = np.arange(1, n_bins) if steps is None else steps
    if strategy == "uniform":
        return uniform_edges(n_bins, steps).astype(values.dtype)
    if strategy == "arcsine":
        return (np.sin(np.pi / 2 * steps / n_bins) ** 2).astype(values.dtype)
    if sample_weight is None:
        ranks = quantile_ranks(len(values), n_bins, steps)
        # Parting by nearly all ranks takes the square of their number.
        return (np.sort(values) if n_bins > MANY_BINS else np.partition(values, ranks))[
            ranks
        ]
    order = np.argsort(values)
    ends = quantile_ends(np.cumsum(sample_weight[order]), n_bins, steps)
    return values[order[ends - 1]]


def uniform_edges(n_bins, steps):
    """Return the edges between bins of the same width."""
    return steps / n_bins


def quantile_ranks(n_samples, n_bins, steps):
    """Return the rank of the value at each edge between bins of as many samples."""
    return -(-steps * n_samples // n_bins) - 1


def quantile_masses(total, n_bins, steps):
    """Return the weight up to each edge between bins of equal weight."""
    return total * steps / n_bins * SLACK


def quantile_ends(mass, n_bins, steps=None):
    """Return how many of the values are up to each edge between bins of equal weight.

    `mass` is the weight of the values, in increasing order, cumulated.
    """
    steps = np.arange(1, n_bins) if steps is None else steps
    return np.searchsorted(mass, quantile_masses(mass[-1], n_bins, steps)) + 1


def parting_edges(values, *, n_bins, strategy, sample_weight=None):
    """Return the interior edges; of many bins, only those between values.

    The others bound empty bins. Time and memory thus do not grow with `n_bins`.
    """
    options = {"n_bins": n_bins, "strategy": strategy, "sample_weight": sample_weight}
    if n_bins <= min(len(values), MANY_BINS):
        return interior_edges(values, **options)
    steps = None if n_bins <= len(values) else _steps_at(values, **options)
    edges = interior_edges(values, steps=steps, **options)
    upper = np.unique(np.searchsorted(edges, values))
    return edges[upper[upper < len(edges)]]


def _steps_at(values, *, n_bins, strategy, sample_weight):
    """Return the numbers of the edges next to a value, of more bins than values."""
    if strategy == "uniform":
        place = values.astype(np.float64)
    else:
        weight = np.ones(len(values)) if sample_weight is None else sample_weight
        mass = np.cumsum(weight[np.argsort(values)])
        place = mass / mass[-1] / SLACK
    # The first edge above a value, up to rounding.
    steps = np.floor(place * n_bins)[:, None] + np.arange(-1, 3)
    return np.unique(np.clip(steps, 1, n_bins - 1).astype(np.int64))


def cube_root_n_bins(n_samples):
    """Return the number of bins of scikit-learn's rule, at least 1."""
    return min(MOST_BINS, max(1, math.ceil(np.cbrt(n_samples))))


def sweep_n_bins(confidence, hit, *, strategy="quantile", sample_weight=None):
    """Return the largest number of bins up to which all have rising accuracies.

    Empty bins are left out, and there are fewer bins than samples. They are tried one
    number after the other, up to `MOST_SWEPT`.
    """
    weight = np.ones(len(hit)) if sample_weight is None else sample_weight
    value, mass, hits = sums_by_value(confidence, hit, weight)
    mass, hits = mass.cumsum(), hits.cumsum()
    largest = min(MOST_BINS, max(1, math.ceil(mass[-1]) - 1))
    if _is_rising(np.arange(1, len(value) + 1), mass, hits):
        return largest  # and so is every coarser one
    largest = min(MOST_SWEPT, largest)
    for n_bins in range(2, largest + 1):
        if strategy == "uniform":
            edges = interior_edges(value, n_bins=n_bins, strategy=strategy)
            ends = np.searchsorted(value, edges, side="right")
        else:
            ends = quantile_ends(mass, n_bins)
        if not _is_rising(np.append(ends, len(value)), mass, hits):
            return n_bins - 1
    return largest


def _is_rising(ends, mass, hits):
    """Whether accuracies rise, given cumulated sums and how many are in the bins."""
    ends = ends[ends > 0]
    bin_mass = np.diff(mass[ends - 1], prepend=0)
    bin_hits = np.diff(hits[ends - 1], prepend=0)[bin_mass > 0]
    accuracy = bin_hits / bin_mass[bin_mass > 0]
    return bool((np.diff(accuracy) >= -1e-12).all())


def bin_index(values, edges):
    """Return the bin of each value, given the edges between bins."""
    if len(edges) > 100:
        return np.searchsorted(edges, values)
    # For a few edges, comparing everything with each is five times as fast.
    index = np.zeros(values.shape, dtype=np.uint8)
    for edge in edges:
        index += values > edge
    return index.astype(np.intp)


def bin_sums(confidence, hit, *, n_bins=15, strategy="uniform", sample_weight=None):
    """Return the `BinSums` of confidences (n_samples,) and hits (n_samples,)."""
    edges = interior_edges(
        confidence, n_bins=n_bins, strategy=strategy, sample_weight=sample_weight
    )
    return sums_between(edges, confidence, hit, sample_weight)


def sums_between(edges, confidence, hit, sample_weight=None):
    """Return the `BinSums` of the bins between interior edges."""
    n_bins = len(edges) + 1
    sums = np.zeros((3, n_bins))
    for rows in row_blocks(len(confidence), 1):
        summands = None, confidence[rows], hit[rows]
        if sample_weight is not None:
            weight = sample_weight[rows]
            summands = weight, weight * confidence[rows], weight * hit[rows]
        index = bin_index(confidence[rows], edges)
        sums += [np.bincount(index, summand, n_bins) for summand in summands]
    return BinSums(np.concatenate(([0.0], edges, [1.0])), *sums)


def occupied_bins(sums):
    """Return the `BinSums` without the empty bins, which their neighbours take over.

    The edges still reach from 0 to 1, and each bin's upper edge is that of its samples.
    """
    occupied = sums.weight > 0
    inner = sums.edges[1:][occupied][:-1]
    edges = np.concatenate((sums.edges[:1], inner, sums.edges[-1:]))
    return BinSums(edges, *(values[occupied] for values in sums[1:]))


def binned_calibration_error(
    confidence,
    hit,
    *,
    n_bins=15,
    strategy="uniform",
    norm="l1",
    reduce_bias=False,
    sample_weight=None,
):
    """Return the calibration error of confidences (n_samples,) and hits (n_samples,).

    With the confidence of the predicted class, and whether it is right, that is the
    expected calibration error of the top label. Nothing is checked here.
    """
    edges = parting_edges(
        confidence, n_bins=n_bins, strategy=strategy, sample_weight=sample_weight
    )
    sums = sums_between(edges, confidence, hit, sample_weight)
    gap = sums.confidence - sums.hit
    if not reduce_bias:
        return float(gap_norm(sums.weight, gap, norm))
    return debiased_error(sums.weight[None], gap[None], sums.hit[None], norm)


def gap_error(weight, gap, hit, norm, *, reduce_bias=False, average="mean"):
    """Return the error of the sums of each class and bin, (n_classes, n_bins) each."""
    if reduce_bias:
        return debiased_error(weight, gap, hit, norm, average)
    return float(class_gap_norm(weight, gap, norm, average))


def _counts_by_probability(proba, hit):
    """Return what `sums_by_value` does for values in [0, 1], after a single sort.

    Their bits are in their order, and the sign's is free to hold the hit.
    """
    key = np.array(proba, dtype=np.float64).view(np.uint64) << np.uint64(1)
    key |= hit.astype(np.uint64)
    key.sort()
    value = (key >> np.uint64(1)).view(np.float64)
    starts = np.flatnonzero(np.diff(value, prepend=-1))
    mass = np.diff(starts, append=len(value)).astype(np.float64)
    return value[starts], mass, np.add.reduceat(key & np.uint64(1), starts) / 1.0


def isotonic_calibration_error(confidence, hit, *, norm="l1", sample_weight=None):
    """Return the calibration error against the best increasing function of confidence.

    Gaps are those of each confidence. Were they averaged over the blocks of equal
    accuracy, of an uninformative confidence, which has one large block, none would be
    left.
    """
    if sample_weight is None:
        value, mass, hits = _counts_by_probability(confidence, hit)
    else:
        value, mass, hits = sums_by_value(confidence, hit, sample_weight)
    accuracy = isotonic_regression(hits / mass, weights=mass).x
    return float(gap_norm(mass, mass * (value - accuracy), norm))


def gap_norm(weight, gap, norm):
    """Return the norm of the gaps between confidence and accuracy over the last axis.

    `gap` is the sum over a bin's samples of confidence minus hit, `weight` the sum of
    their weights. "l1" is the mean absolute gap of the samples, "l2" the root of their
    mean squared gap, "max" the largest gap of a bin. Empty bins do not count.
    """
    total = weight.sum(axis=-1)
    if norm == "l1":
        return np.abs(gap).sum(axis=-1) / total
    gap_per_weight = gap / np.where(weight > 0, weight, 1.0)
    if norm == "l2":
        return np.sqrt((gap * gap_per_weight).sum(axis=-1) / total)
    return np.abs(gap_per_weight).max(axis=-1)


def debiased_error(weight, gap, hit, norm, average="mean"):
    """Return the error of gaps (n_classes, n_bins) without most of its bias.

    The bias is what the noise of the accuracies adds: to squares their variance, to
    absolute values what it would add to them if the gaps seen were the true ones.
    """
    filled = np.where(weight > 0, weight, 1.0)
    share = weight / weight.sum(axis=1, keepdims=True)
    gap, accuracy = np.abs(gap) / filled, hit / filled
    variance = np.maximum(0, accuracy * (1 - accuracy))
    if norm == "l2":
        # The accuracy of a single sample has no variance that could be estimated.
        excess = gap**2 - variance / np.where(weight > 1, weight - 1, 1.0)
        squares = np.maximum(0, (share * excess * (weight > 1)).sum(axis=1))
        return math.sqrt(squares.mean() if average == "mean" else squares.sum())
    noise = np.maximum(np.sqrt(variance / filled), 1e-9)
    # The mean of the absolute value of a normal variable with this mean.
    noisy = gap * erf(gap / noise / math.sqrt(2))
    noisy += noise * math.sqrt(2 / math.pi) * np.exp(-((gap / noise) ** 2) / 2)
    errors = np.maximum(0, (share * (2 * gap - noisy)).sum(axis=1))
    return float(errors.mean() if average == "mean" else errors.sum())


def class_gap_norm(weight, gap, norm, average="mean"):
    """Return the norm of gaps (..., n_classes, n_bins), averaged over the classes.

    Squares are averaged before the root is taken, and "max" is that of all classes.
    """
    return combine_classes(gap_norm(weight, gap, norm), norm, average)


def combine_classes(errors, norm, average="mean"):
    """Return the norm of all classes, given that of each (..., n_classes)."""
    if norm == "max":
        return errors.max(axis=-1)
    combine = np.mean if average == "mean" else np.sum
    if norm == "l1":
        return combine(errors, axis=-1)
    return np.sqrt(combine(errors**2, axis=-1))


def class_bin_sums(
    proba,
    codes,
    *,
    n_bins=15,
    strategy="uniform",
    sample_weight=None,
    keep_empty=True,
):
    """Return weight, gap and hits of each class and bin, (n_classes, n_bins) each.

    The gap of a class is its probability minus whether it is the true one, summed. The
    values of `proba` are checked in the same pass. Without `keep_empty` there are no
    more bins than samples, as in `parting_edges`.
    """
    keep_empty = keep_empty or n_bins <= len(proba)
    if strategy == "uniform" and keep_empty:
        return _uniform_class_sums(proba, codes, n_bins, sample_weight)
    options = {"n_bins": n_bins, "strategy": strategy, "sample_weight": sample_weight}
    find_edges = partial(interior_edges if keep_empty else parting_edges, **options)
    return _sums_class_by_class(proba, codes, sample_weight, find_edges)


def _uniform_class_sums(proba, codes, n_bins, sample_weight):
    """Bin the probabilities above the first edge, and get the first bin by difference.

    A row has fewer than n_bins probabilities above 1 / n_bins, however many classes.
    """
    n_classes = proba.shape[1]
    edges = interior_edges(proba, n_bins=n_bins, strategy="uniform")
    weights = np.ones(len(proba)) if sample_weight is None else sample_weight
    weight, gap = np.zeros((2, n_classes, n_bins))
    p_true = np.empty(len(proba), dtype=proba.dtype)
    for rows, block in proba_blocks(proba):
        p_true[rows] = block[np.arange(len(block)), codes[rows]]
        gap[:, 0] += weights[rows] @ block
        row, column, value = _values_above(block, edges[0] if n_bins > 1 else 1)
        cell = column * n_bins + bin_index(value, edges)
        np.add.at(weight.ravel(), cell, weights[rows][row])
        np.add.at(gap.ravel(), cell, weights[rows][row] * value)
    gap[:, 0] -= gap[:, 1:].sum(axis=1)
    first = weights.sum() - weight[:, 1:].sum(axis=1)
    # What the rounding of fractional weights leaves of an empty bin is no sample.
    weight[:, 0] = np.where(first > 1e-9 * weights.sum(), first, 0)
    hit_cell = codes * n_bins + bin_index(p_true, edges)
    hit = np.bincount(hit_cell, weights, gap.size).reshape(gap.shape)
    return weight, gap - hit, hit


def _values_above(block, bound):
    """Return rows, columns and values of the elements above a bound."""
    above = np.flatnonzero((block > bound).ravel(order="K"))
    value = block.ravel(order="K")[above]
    if block.flags.c_contiguous:
        return *np.divmod(above, block.shape[1]), value
    column, row = np.divmod(above, block.shape[0])
    return row, column, value


def _sums_class_by_class(proba, codes, sample_weight, find_edges):
    """Bin one class after the other."""
    for _ in proba_blocks(proba):
        pass
    sums = []
    for code, column in enumerate(proba.T):
        column = np.ascontiguousarray(column)
        edges = find_edges(column)
        sums.append(sums_between(edges, column, codes == code, sample_weight))
    weight, confidence, hit = np.zeros((3, len(sums), max(len(s.weight) for s in sums)))
    for code, one in enumerate(sums):
        filled = code, slice(len(one.weight))
        weight[filled], confidence[filled], hit[filled] = one[1:]
    return weight, confidence - hit, hit
