"""Calibration errors from sums over bins, and the sums of each class."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import isotonic_regression
from scipy.special import erf

from sklearn_calib._numerics.binning import (
    bin_index,
    interior_edges,
    parting_edges,
    sums_between,
    sums_by_value,
)
from sklearn_calib._validation.probabilities import proba_blocks
from sklearn_calib._validation.samples import value_of_class
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


def binned_calibration_error(
    confidence: Floats,
    correct: Array,
    *,
    n_bins: int = 15,
    strategy: str = "uniform",
    norm: str = "l1",
    reduce_bias: bool = False,
    sample_weight: Weights = None,
) -> float:
    """Return the binned calibration error of confidences and correctness (n_samples,).

    For the confidence of the predicted class, this is the top-label expected
    calibration error (ECE). The input is not validated.
    """
    edges = parting_edges(
        confidence, n_bins=n_bins, strategy=strategy, sample_weight=sample_weight
    )
    sums = sums_between(edges, confidence, correct, sample_weight)
    gap = sums.confidence - sums.correct
    if not reduce_bias:
        return float(gap_norm(sums.weight, gap, norm))
    return debiased_error(sums.weight[None], gap[None], sums.correct[None], norm)


def gap_error(
    weight: Floats,
    gap: Floats,
    correct: Array,
    norm: str,
    *,
    reduce_bias: bool = False,
    average: str = "mean",
) -> float:
    """Return the calibration error, given sums by class and bin (n_classes, n_bins)."""
    if reduce_bias:
        return debiased_error(weight, gap, correct, norm, average)
    return float(class_gap_norm(weight, gap, norm, average))


def isotonic_calibration_error(
    confidence: Floats,
    correct: Array,
    *,
    norm: str = "l1",
    sample_weight: Weights = None,
) -> float:
    """Return the calibration error relative to the isotonic regression on confidence.

    Gaps are computed for each distinct confidence, not averaged over the blocks of the
    regression: an uninformative confidence has a single block, in which the gaps would
    cancel.
    """
    value, mass, n_correct = sums_by_value(confidence, correct, sample_weight)
    accuracy = isotonic_regression(n_correct / mass, weights=mass).x
    return float(gap_norm(mass, mass * (value - accuracy), norm))


def gap_norm(weight: Floats, gap: Floats, norm: str) -> Any:
    """Return the norm of the gaps between confidence and accuracy over the last axis.

    `gap` is the sum of confidence minus correctness over a bin's samples, `weight` the
    sum of their weights. "l1" is the mean absolute gap over the samples, "l2" the root
    mean squared gap, "max" the largest gap of a bin. Empty bins are ignored.
    """
    total = weight.sum(axis=-1)
    if norm == "l1":
        return np.abs(gap).sum(axis=-1) / total
    gap_per_weight = gap / np.where(weight > 0, weight, 1.0)
    if norm == "l2":
        return np.sqrt((gap * gap_per_weight).sum(axis=-1) / total)
    return np.abs(gap_per_weight).max(axis=-1)


def debiased_error(
    weight: Floats, gap: Floats, correct: Array, norm: str, average: str = "mean"
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
    weight: Floats, gap: Floats, norm: str, average: str = "mean"
) -> Any:
    """Return the norm of gaps (..., n_classes, n_bins), averaged over the classes.

    For "l2", squares are averaged before taking the root; "max" is the maximum over all
    classes.
    """
    return combine_classes(gap_norm(weight, gap, norm), norm, average)


def combine_classes(errors: Floats, norm: str, average: str = "mean") -> Any:
    """Return the norm over all classes, given that of each class (..., n_classes)."""
    if norm == "max":
        return errors.max(axis=-1)
    combine = np.mean if average == "mean" else np.sum
    if norm == "l1":
        return combine(errors, axis=-1)
    return np.sqrt(combine(errors**2, axis=-1))
