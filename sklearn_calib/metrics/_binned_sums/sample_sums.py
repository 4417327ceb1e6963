"""Sums over bins of samples in memory, on another device or in Dask arrays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from sklearn_calib._numerics.binning import Strategy, class_bin_sums
from sklearn_calib._validation.arrays import (
    as_numbers,
    device,
    get_namespace,
    is_empty,
    on_cpu,
    row_blocks,
)
from sklearn_calib._validation.dask_arrays import sum_of_blocks
from sklearn_calib._validation.groups import group_members
from sklearn_calib._validation.labels import as_labels
from sklearn_calib._validation.probabilities import (
    as_proba_numbers,
    check_sample_weight,
    nonzero_weight,
    proba_blocks,
)
from sklearn_calib._validation.samples import (
    Column,
    LazySamples,
    Samples,
    block_correct,
    check_lengths,
    check_order,
    read_samples,
    top_label_correct,
)
from sklearn_calib._validation.types import Array, Floats, Ints, Options, Weights
from sklearn_calib.metrics._binned_sums.grid import (
    Cells,
    Grid,
    check_cells,
    sums_over_bins,
)

# Number of cells of the classes whose sums are computed together.
CELLS_AT_ONCE = 2**16


class Sums(NamedTuple):
    """Sums of samples."""

    cells: dict[str, Cells]  # by mode
    totals: Floats
    n_samples: int  # with positive weight

    def add(self, other: Sums) -> Sums:
        """Return the sums of both."""
        cells = {mode: self.cells[mode].add(each) for mode, each in other.cells.items()}
        totals = self.totals + other.totals
        return Sums(cells, totals, self.n_samples + other.n_samples)


@dataclass(frozen=True)
class Total:
    """Sums of chunks, None if no chunk has a sample with positive weight."""

    sums: Sums | None

    def __add__(self, other: Total) -> Total:
        if self.sums is None or other.sums is None:
            return other if self.sums is None else self
        return Total(self.sums.add(other.sums))


def split_by_group(
    groups: ArrayLike,
    y_true: ArrayLike,
    y_proba: ArrayLike,
    sample_weight: ArrayLike | None,
) -> dict[Any, tuple[Any, Any, Any]]:
    """Return labels, probabilities and weights of each group, by its name."""
    if is_empty(groups) and is_empty(y_true) and is_empty(y_proba):
        return {}
    # The samples are split here; `chunk_sums` reads those of each group.
    check_order(y_proba, y_true)
    y_true = as_labels(y_true, "y_true")
    y_proba = as_proba_numbers(y_proba, "y_proba")
    check_lengths(len(y_true), len(y_proba))
    weight = None
    if sample_weight is not None:
        weight = as_numbers(sample_weight, "sample_weight")
        check_sample_weight(np.maximum(weight, 1), y_true)  # only its shape
    members = group_members(groups, len(y_true))
    return {
        # NaN is not equal to itself, so it would be another group in each chunk.
        name if name == name else None: (
            y_true[rows],
            y_proba[rows],
            None if weight is None else weight[rows],
        )
        for name, rows in members.items()
    }


def chunk_sums(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    sample_weight: ArrayLike | None,
    labels: ArrayLike,
    grids: dict[str, Grid],
) -> Sums | None:
    """Return the sums of a chunk by mode; None if it has no samples or no weight."""
    if is_empty(y_true) and is_empty(y_proba):
        return None
    weight, has_weight = nonzero_weight(sample_weight)
    samples: Any = read_samples(y_true, y_proba, labels, weight, "top_label")
    top, totals = _top_label_totals(samples)
    cells = {}
    for mode, grid in grids.items():
        of_mode = replace(samples, mode=mode)
        if mode == "classwise":
            cells[mode] = _class_cells(of_mode, grid)
        else:
            column: Column = top if mode == "top_label" else of_mode.column()
            cells[mode] = _row_cells(*column, grid)
    n_samples = len(top[0]) if top[2] is None else np.count_nonzero(top[2])
    return Sums(cells, totals, int(n_samples)) if has_weight else None


def _top_label_totals(samples: Samples) -> tuple[Column, Floats]:
    """Return `samples.column()` and the sums in `totals_`; check row sums."""
    weight, totals = samples.weight, np.zeros(5)
    columns: list[Any] = []
    for rows, confidence, correct, p_true, squares in _row_values(samples):
        if not columns:
            n_samples = len(samples.codes)
            columns = [np.empty(n_samples, c.dtype) for c in (confidence, correct)]
        columns[0][rows], columns[1][rows] = confidence, correct
        log_loss = -np.log(np.maximum(p_true, np.finfo(p_true.dtype).eps))
        summands = correct, confidence, squares - 2 * p_true, log_loss
        if weight is None:
            sums = [len(p_true), *(each.sum(dtype=np.float64) for each in summands)]
        else:
            sums = [weight[rows].sum(), *(weight[rows] @ each for each in summands)]
        totals += sums
    totals[3] += totals[0]
    return (columns[0], columns[1], weight), totals


def _row_values(
    samples: Samples,
) -> Iterator[tuple[slice, Floats, Array, Floats, Floats]]:
    """Yield slices of rows, what `block_correct` returns, and the sum of squares."""
    proba, codes = samples.matrix, samples.codes
    if isinstance(proba, np.ndarray):
        for rows, part in proba_blocks(proba):
            # The columns are contiguous, as in the other blocks with few columns.
            block = part if part.ndim == 2 else np.stack([1 - part, part]).T
            squares = np.einsum("ij,ij->i", block, block)
            yield rows, *block_correct(block, codes[rows]), squares
        return
    xp, _ = get_namespace(proba)
    index = np.arange(len(codes)) * proba.shape[1] + codes
    index = xp.asarray(index, device=device(proba))
    p_true = on_cpu(xp.take(xp.reshape(proba, (-1,)), index))
    squares = on_cpu(xp.sum(proba * proba, axis=1))
    yield slice(None), *top_label_correct(proba, codes), p_true, squares


def _row_cells(
    confidence: Floats, correct: Array, weight: Weights, grid: Grid
) -> Cells:
    """Return the sums for one probability per sample."""
    sums = np.zeros((3 if weight is None else 5, grid.n_cells))
    for rows in row_blocks(len(confidence), 1):
        part = None if weight is None else weight[rows]
        cell = grid.cell_of(confidence[rows])
        sums += _cell_sums(cell, confidence[rows], correct[rows], part, grid.n_cells)
    return Cells.from_dense(sums)


def _cell_sums(
    cell: Ints, confidence: Floats, correct: Array, weight: Weights, n_cells: int
) -> Floats:
    """Return the sums over cells of one block, as in `Cells`."""
    summands: tuple[Any, ...] = None, confidence, correct
    if weight is not None:
        right = weight * correct
        summands = weight, weight * confidence, right, weight**2, weight * right
    sums = np.array([np.bincount(cell, each, n_cells) for each in summands], float)
    sums[1] -= sums[2]
    return sums


def _class_cells(samples: Samples, grid: Grid) -> Cells:
    """Return the sums for the probability of each class."""
    columns, codes, weight = samples.unchecked()
    if not grid.is_fine:
        options: Options = {"n_bins": grid.n_bins, "strategy": grid.strategy}
        sums = np.stack(class_bin_sums(columns, codes, sample_weight=weight, **options))
        if weight is not None:
            squares = class_bin_sums(columns, codes, sample_weight=weight**2, **options)
            sums = np.concatenate([sums, [squares[0], squares[2]]])
        return Cells.from_dense(sums.reshape(len(sums), -1))
    n_together = max(1, CELLS_AT_ONCE // grid.n_cells)
    parts = []
    for first in range(0, columns.shape[1], n_together):
        block = columns[:, first : first + n_together]
        order = np.arange(block.shape[1])
        cell = grid.cell_of(block) + grid.n_cells * order
        sums = _cell_sums(
            cell.ravel(),
            block.ravel(),
            (codes[:, None] - first == order).ravel(),
            None if weight is None else np.repeat(weight, len(order)),
            grid.n_cells * len(order),
        )
        parts.append(Cells.from_dense(sums, grid.n_cells * first))
    places, parts_sums = zip(*parts, strict=True)
    return Cells(np.concatenate(places), np.concatenate(parts_sums, axis=1))


def dask_gap_sums(
    samples: LazySamples, n_bins: Any, strategy: Strategy
) -> tuple[Floats, Floats, Floats]:
    """Return the sums of all blocks over bins, which give the exact error."""
    if strategy in ("quantile", "isotonic") or isinstance(n_bins, str):
        raise ValueError(
            'strategy must be "uniform" and n_bins not a string for Dask arrays, got '
            f"{strategy!r} and {n_bins!r}. CalibrationAccumulator approximates the "
            'error for "quantile". Or call compute() to load all samples.'
        )
    blocks, labels, mode = samples.blocks()
    n_rows = len(labels) if mode == "classwise" else 1
    grid = Grid(n_bins, strategy, is_fine=mode != "classwise")
    check_cells(grid, n_rows)
    total: Total = sum_of_blocks(
        partial(_total_of_block, labels=labels, grids={mode: grid}), blocks
    )
    if total.sums is None:
        raise ValueError(
            "y_proba must contain a sample with positive weight, got none in all "
            "blocks. Check the data and sample_weight."
        )
    weight, gap, correct = sums_over_bins(total.sums.cells[mode], grid, n_rows)
    return weight, gap, correct


def _total_of_block(
    y_true: Any,
    y_proba: Any,
    sample_weight: Any = None,
    *,
    labels: Any,
    grids: dict[str, Grid],
) -> Total:
    return Total(chunk_sums(y_true, y_proba, sample_weight, labels, grids))
