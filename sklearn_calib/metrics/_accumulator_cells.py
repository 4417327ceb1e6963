"""Sums over cells and over samples for `CalibrationAccumulator`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sklearn_calib._core.arrays import as_numbers
from sklearn_calib._core.binning import bin_sums, interior_edges, quantile_ends
from sklearn_calib._core.class_bins import class_bin_sums
from sklearn_calib._core.limits import weight_factor
from sklearn_calib._core.typing import Array, Floats, Ints, Options, Weights

# With this number, a cell is at most 4e-4 wide, and 1.5e-7 at 0 and 1.
N_CELLS = 4096
# Limit on the cells of all classes: three sums for each cell take 400 MB.
MOST_CELLS = 2**24


def check_cells(n_bins: int, n_rows: int, strategy: str) -> None:
    """Raise an error for more bins than cells, or more cells than `MOST_CELLS`."""
    most = N_CELLS if strategy == "quantile" else MOST_CELLS // n_rows
    if n_bins > most:
        raise ValueError(
            f'n_bins must be at most {most} for strategy="{strategy}" and {n_rows} '
            f"evaluated class(es), got {n_bins}. Use fewer bins."
        )
    if strategy == "quantile" and n_rows * N_CELLS > MOST_CELLS:
        raise ValueError(
            f'strategy must be "uniform" for more than {MOST_CELLS // N_CELLS} '
            f'classes with mode="classwise", got "quantile" and {n_rows} classes. Or '
            'use mode="top_label".'
        )


def cell_options(n_bins: int, strategy: str) -> Options:
    """Return the binning options of the cells."""
    if strategy == "uniform":
        return {"n_bins": n_bins, "strategy": "uniform"}
    return {"n_bins": N_CELLS, "strategy": "arcsine"}


def n_cells(n_bins: int, strategy: str) -> int:
    """Return the number of cells of a row."""
    return int(cell_options(n_bins, strategy)["n_bins"])


def cell_edges(n_bins: int, strategy: str) -> Floats:
    """Return the edges of the cells, from 0 to 1."""
    edges = interior_edges(np.empty(0), **cell_options(n_bins, strategy))
    return np.r_[0.0, edges, 1.0]


def class_sums(proba: Floats, codes: Ints, weight: Weights, cells: Options) -> Floats:
    """Return the sums of each class and cell, of shape (3, n_classes, n_cells)."""
    return np.stack(class_bin_sums(proba, codes, sample_weight=weight, **cells))


def row_sums(
    confidence: Floats, correct: Array, weight: Weights, cells: Options
) -> Floats:
    """Return the sums for one probability per sample, of shape (3, 1, n_cells)."""
    sums = bin_sums(confidence, correct, sample_weight=weight, **cells)
    gap = sums.confidence - sums.correct
    return np.stack([sums.weight, gap, sums.correct])[:, None]


def merge_cells(
    sums: Floats, edges: Floats, n_bins: int
) -> tuple[list[Floats], Floats]:
    """Return the edges of bins of equal weight for each row, and the sums over bins."""
    ends = [[0, *quantile_ends(row.cumsum(), n_bins), N_CELLS] for row in sums[0]]
    cumulated = np.pad(sums.cumsum(axis=2), ((0, 0), (0, 0), (1, 0)))
    merged = [np.diff(cumulated[:, row, end]) for row, end in enumerate(ends)]
    return [edges[end] for end in ends], np.stack(merged, axis=1)


def is_empty(array: Any) -> bool:
    """Whether an array-like has no rows; other checks do not accept it."""
    if isinstance(array, list | tuple):
        return not array
    return getattr(array, "shape", ())[:1] == (0,)


def ones_if_zero(sample_weight: ArrayLike | None) -> Array | None:
    """Return ones if all weights of a chunk are zero, else None."""
    if sample_weight is None:
        return None
    weight = as_numbers(sample_weight, "sample_weight")
    return None if weight.any() else np.ones(weight.shape)


def factor_of(sample_weight: ArrayLike | None) -> float:
    """Return the factor by which `check_sample_weight` has multiplied the weights."""
    if sample_weight is None:
        return 1.0
    return weight_factor(as_numbers(sample_weight, "sample_weight").max())


def sample_totals(
    confidence: Floats, correct: Array, proba: Floats, codes: Ints, weight: Weights
) -> Floats:
    """Return the sums of weight, correctness, confidence, Brier score and log loss."""
    p_true = proba[np.arange(len(proba)), codes].astype(np.float64)
    squares = np.einsum("ij,ij->i", proba, proba) - 2 * p_true + 1
    log_loss = -np.log(np.maximum(p_true, np.finfo(proba.dtype).eps))
    summands = correct, confidence, squares, log_loss
    weight = np.ones(len(proba)) if weight is None else weight
    return np.array([weight.sum(), *(weight @ summand for summand in summands)])
