"""Sums over bins of the probability of each class."""

from collections.abc import Callable
from functools import partial

import numpy as np

from sklearn_calib._numerics.binning import (
    bin_index,
    interior_edges,
    parting_edges,
    sums_between,
)
from sklearn_calib._numerics.confidence import value_of_class
from sklearn_calib._validation.probabilities import proba_blocks
from sklearn_calib._validation.types import Array, Floats, Ints, Options, Weights


def class_bin_sums(
    proba: Floats,
    codes: Ints,
    *,
    n_bins: int = 15,
    strategy: str = "uniform",
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
    if strategy == "uniform" and keep_empty:
        return _uniform_class_sums(proba, codes, n_bins, sample_weight)
    options: Options = {
        "n_bins": n_bins,
        "strategy": strategy,
        "sample_weight": sample_weight,
    }
    find_edges = partial(interior_edges if keep_empty else parting_edges, **options)
    return _sums_class_by_class(proba, codes, sample_weight, find_edges)


def _uniform_class_sums(
    proba: Floats, codes: Ints, n_bins: int, sample_weight: Weights
) -> tuple[Floats, Floats, Floats]:
    """Bin the probabilities above the first edge, and get the first bin by difference.

    A row has fewer than n_bins probabilities above 1 / n_bins, so the time hardly
    depends on the number of classes.
    """
    n_classes = proba.shape[1]
    edges = interior_edges(proba, n_bins=n_bins, strategy="uniform")
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
    for _ in proba_blocks(proba):
        pass
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
