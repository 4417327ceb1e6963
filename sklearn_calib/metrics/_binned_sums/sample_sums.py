"""Sums of one chunk of samples for `CalibrationAccumulator`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from sklearn_calib._numerics.binned_gaps import class_bin_sums
from sklearn_calib._validation.array_api import on_cpu
from sklearn_calib._validation.arrays import (
    as_numbers,
    is_array_api,
    is_empty,
    row_blocks,
)
from sklearn_calib._validation.groups import group_members
from sklearn_calib._validation.labels import as_labels
from sklearn_calib._validation.limits import weight_factor
from sklearn_calib._validation.probabilities import (
    as_proba_numbers,
    check_sample_weight,
    proba_blocks,
)
from sklearn_calib._validation.samples import (
    as_columns,
    block_correct,
    check_lengths,
    check_targets,
    confidence_and_correct,
)
from sklearn_calib._validation.types import Array, Bools, Floats, Ints, Options, Weights
from sklearn_calib.metrics._binned_sums.accumulator_device import DeviceChunk
from sklearn_calib.metrics._binned_sums.grid import Cells, Grid

# Number of cells of the classes whose sums are computed together.
CELLS_AT_ONCE = 2**16


class Sums(NamedTuple):
    """Sums of samples, whose weights are multiplied by a factor."""

    cells: dict[str, Cells]  # by mode
    totals: Floats
    factor: float


def split_by_group(
    groups: ArrayLike,
    y_true: ArrayLike,
    y_proba: ArrayLike,
    sample_weight: ArrayLike | None,
) -> dict[Any, tuple[Any, Any, Any]]:
    """Return labels, probabilities and weights of each group, by its name."""
    if is_empty(groups) and is_empty(y_true) and is_empty(y_proba):
        return {}
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
    factor, has_weight = 1.0, True
    if sample_weight is not None:
        sample_weight = as_numbers(on_cpu(sample_weight), "sample_weight")
        has_weight = bool(sample_weight.any())
        # The other arguments are checked even if the chunk adds nothing.
        sample_weight = sample_weight if has_weight else np.ones(sample_weight.shape)
        factor = weight_factor(sample_weight.max()) if sample_weight.size else 1.0
    if is_array_api(y_proba):
        chunk = DeviceChunk(y_true, y_proba, labels, sample_weight)
        sums = Sums(_device_cells(chunk, grids), chunk.totals(), factor)
        return sums if has_weight else None
    proba, codes, weight = check_targets(y_true, y_proba, labels, sample_weight)
    confidence, correct, totals = _top_label_totals(proba, codes, weight)
    top = confidence, correct
    cells = {}
    for mode, grid in grids.items():
        if mode == "classwise":
            cells[mode] = _class_cells(as_columns(proba), codes, weight, grid)
        else:
            is_top = mode == "top_label"
            evaluated, true = (
                top if is_top else confidence_and_correct(proba, codes, mode)
            )
            cells[mode] = _row_cells(evaluated, true, weight, grid)
    return Sums(cells, totals, factor) if has_weight else None


def _device_cells(chunk: DeviceChunk, grids: dict[str, Grid]) -> dict[str, Cells]:
    """Return the sums of a chunk on another device."""
    return {
        mode: chunk.class_cells(grid)
        if mode == "classwise"
        else _row_cells(*chunk.evaluated(mode), chunk.weight, grid)
        for mode, grid in grids.items()
    }


def _top_label_totals(
    proba: Floats, codes: Ints, weight: Weights
) -> tuple[Floats, Bools, Floats]:
    """Return confidence, correctness, and the sums in `totals_`; check row sums."""
    confidence = np.empty(len(proba), dtype=proba.dtype)
    correct = np.empty(len(proba), dtype=bool)
    totals = np.zeros(5)
    least = np.finfo(proba.dtype).eps
    for rows, part in proba_blocks(proba):
        # The columns are contiguous, as in the other blocks with few columns.
        block = part if part.ndim == 2 else np.stack([1 - part, part]).T
        confidence[rows], correct[rows], p_true = block_correct(block, codes[rows])
        squares = np.einsum("ij,ij->i", block, block)
        log_loss = -np.log(np.maximum(p_true, least))
        summands = correct[rows], confidence[rows], squares - 2 * p_true, log_loss
        if weight is None:
            sums = [len(block), *(each.sum(dtype=np.float64) for each in summands)]
        else:
            sums = [weight[rows].sum(), *(weight[rows] @ each for each in summands)]
        totals += sums
    totals[3] += totals[0]
    return confidence, correct, totals


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


def _class_cells(columns: Floats, codes: Ints, weight: Weights, grid: Grid) -> Cells:
    """Return the sums for the probability of each class."""
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
