"""Sums over bins of samples in memory, on another device or in Dask arrays.

The matrix of probabilities stays on its device: numpy gets the distinct labels, one
probability of each sample or the sums over bins. This is enabled by scikit-learn's
setting `array_api_dispatch`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from sklearn_calib._numerics.binning import (
    class_bin_sums,
    quantile_masses,
    quantile_ranks,
    uniform_edges,
)
from sklearn_calib._validation.arrays import (
    as_numbers,
    convert_to_numpy,
    device,
    is_empty,
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
    DeviceSamples,
    LazySamples,
    Samples,
    as_columns,
    block_correct,
    check_lengths,
    check_order,
    read_samples,
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

# Elements processed at a time: each intermediate array takes 32 MiB of doubles.
BLOCK_SIZE = 2**22
MOST_BINS = 1024


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
    is_elsewhere = isinstance(samples, DeviceSamples)
    top, totals = (_device_totals if is_elsewhere else _top_label_totals)(samples)
    class_cells = _device_class_cells if is_elsewhere else _class_cells
    cells = {}
    for mode, grid in grids.items():
        if mode == "classwise":
            cells[mode] = class_cells(samples, grid)
        else:
            of_mode = replace(samples, mode=mode)
            column: Column = top if mode == "top_label" else of_mode.column()
            cells[mode] = _row_cells(*column, grid)
    n_samples = len(top[0]) if top[2] is None else np.count_nonzero(top[2])
    return Sums(cells, totals, int(n_samples)) if has_weight else None


def _top_label_totals(samples: Samples) -> tuple[Column, Floats]:
    """Return `samples.column()` and the sums in `totals_`; check row sums."""
    proba, codes, weight = samples.matrix, samples.codes, samples.weight
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
    return (confidence, correct, weight), totals


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
    columns = as_columns(samples.matrix)
    codes, weight = samples.codes, samples.weight
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


def _device_totals(samples: DeviceSamples) -> tuple[Column, Floats]:
    """Return `samples.column()` and the sums in `totals_`."""
    xp, proba = samples.xp, samples.matrix
    confidence, correct = samples.columns()
    is_true = samples.y_true[:, None] == samples.labels[None, :]
    p_true = xp.max(xp.where(is_true, proba, xp.zeros_like(proba)), axis=1)
    log_loss = -xp.log(xp.clip(p_true, float(xp.finfo(proba.dtype).eps), None))
    squares = xp.sum(proba * proba, axis=1) - 2 * p_true + 1
    summands = correct[:, 0], confidence[:, 0], squares, log_loss
    columns = [xp.astype(each, xp.float64) for each in summands]
    columns = [xp.ones_like(columns[0]), *columns]
    if samples.weight is not None:
        columns = [samples.weight * column for column in columns]
    return samples.column(), np.array([float(xp.sum(column)) for column in columns])


def _device_class_cells(samples: DeviceSamples, grid: Grid) -> Cells:
    """Return the sums over the uniform bins of each class."""
    if grid.is_fine or grid.n_bins > MOST_BINS:
        raise TypeError(
            "y_proba must be a numpy array or a tensor on the CPU for "
            f'mode="classwise" with more than {MOST_BINS} bins or with '
            'strategy="quantile". Move it to the CPU.'
        )
    sums = [*device_class_sums(samples, grid.n_bins, "uniform")]
    if samples.weight is not None:
        squared = replace(samples, weight=samples.weight**2)
        squares = device_class_sums(squared, grid.n_bins, "uniform")
        sums += [squares[0], squares[2]]
    return Cells.from_dense(np.stack(sums).reshape(len(sums), -1))


def dask_gap_sums(
    samples: LazySamples, n_bins: Any, strategy: str
) -> tuple[Floats, Floats, Floats]:
    """Return the sums of all blocks over bins, which give the exact error."""
    if strategy != "uniform" or isinstance(n_bins, str):
        raise ValueError(
            'strategy must be "uniform" and n_bins an integer for Dask arrays, got '
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


def _edges(xp: Any, value: Any, weight: Any, n_bins: int, strategy: str) -> Any:
    """Return the interior bin edges, (n_bins - 1, n_rows) or (n_bins - 1, 1)."""
    steps = np.arange(1, n_bins)
    where = {"device": device(value)}
    if strategy == "uniform":
        return xp.asarray(
            uniform_edges(n_bins, steps)[:, None], dtype=value.dtype, **where
        )
    if weight is None:
        ranks = quantile_ranks(value.shape[0], n_bins, steps)
        return xp.take(xp.sort(value, axis=0), xp.asarray(ranks, **where), axis=0)
    edges = []
    for row in range(value.shape[1]):
        order = xp.argsort(value[:, row])
        mass = xp.cumulative_sum(xp.take(weight, order))
        wanted = quantile_masses(float(mass[-1]), n_bins, steps)
        place = xp.searchsorted(mass, xp.asarray(wanted, **where))
        edges.append(xp.take(value[:, row], xp.take(order, place)))
    return xp.stack(edges, axis=1)


def device_class_sums(
    samples: DeviceSamples, n_bins: int, strategy: str
) -> tuple[Floats, Floats, Floats]:
    """Return weight, gap and correctness of each class and bin as numpy arrays."""
    xp, weight = samples.xp, samples.weight
    value, correct = replace(samples, mode="classwise").columns()
    edges = _edges(xp, value, weight, n_bins, strategy)
    n_samples, n_rows = value.shape
    step, total = max(1, BLOCK_SIZE // n_rows), 0
    for start in range(0, n_samples, step):
        rows = slice(start, min(start + step, n_samples))
        outcome = xp.astype(correct[rows, :], xp.float64)
        summands = [
            xp.ones_like(outcome),
            xp.astype(value[rows, :], xp.float64),
            outcome,
        ]
        if weight is not None:
            summands = [weight[rows][:, None] * each for each in summands]
        total = total + _block_sums(xp, value[rows, :], xp.stack(summands), edges)
    weight, confidence, correct = convert_to_numpy(total, xp).transpose(1, 2, 0)
    return weight, confidence - correct, correct


def _block_sums(xp: Any, value: Any, summands: Any, edges: Any) -> Any:
    """Return the sums of each bin, (n_bins, n_summands, n_rows), on the device."""
    sums, n_edges = [], edges.shape[0]
    for k in range(n_edges + 1):
        inside = xp.ones_like(value, dtype=xp.bool)
        if k > 0:
            inside = inside & (value > edges[k - 1, :])
        if k < n_edges:
            inside = inside & (value <= edges[k, :])
        sums.append(xp.sum(summands * xp.astype(inside, xp.float64), axis=1))
    return xp.stack(sums)
