"""Cells of `CalibrationAccumulator`: sparse sums over narrow intervals of confidence.

A row is a class, or the only one of the modes "top_label" and "positive". Its interval
[0, 1] is divided into `N_CELLS` fine cells, which uniform or given edges of bins divide
further, so that each bin consists of cells. With such bins and the mode "classwise",
the cells are the bins.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from sklearn_calib._numerics.binning import (
    Strategy,
    bin_index,
    interior_edges,
    quantile_ends,
)
from sklearn_calib._validation.arrays import shown
from sklearn_calib._validation.types import Floats, Ints

# With this number, a cell is at most 4e-4 wide, and 1.5e-7 at 0 and 1.
N_CELLS = 4096
# Limit on the cells of all classes.
MOST_CELLS = 2**24


class Grid(NamedTuple):
    """Division of [0, 1] into cells and bins."""

    n_bins: int
    strategy: Strategy
    is_fine: bool = True

    @property
    def n_cells(self) -> int:
        """Return the number of cells of a row."""
        if not self.is_fine:
            return self.n_bins
        return N_CELLS + (self.n_bins - 1) * (self.strategy != "quantile")

    def cell_of(self, values: Floats) -> Ints:
        """Return the cell of each value."""
        index: Ints = np.zeros(values.shape, dtype=np.intp)
        if self.is_fine:
            # Cells of equal width in asin(sqrt(p)) are narrower at both ends.
            place = np.arcsin(np.sqrt(values, dtype=np.float64))
            place *= 2 * N_CELLS / np.pi
            index = np.minimum(place.astype(np.intp), N_CELLS - 1)
        # The sum of the numbers of edges of both kinds below the value.
        return index + bin_index(values, self.fixed_edges(values))

    def ends_of(self, cells: Ints) -> tuple[Floats, Floats]:
        """Return the lower and the upper ends of cells of a row."""
        edges = self._edges()
        return edges[cells], edges[cells + 1]

    @lru_cache(maxsize=8)  # noqa: B019 - a few small arrays
    def _edges(self) -> Floats:
        """Return the edges of the cells, from 0 to 1."""
        steps = np.arange(1, N_CELLS if self.is_fine else 1)
        fine = np.sin(np.pi / 2 * steps / N_CELLS) ** 2
        return np.r_[0.0, np.sort(np.r_[fine, self.fixed_edges(fine)]), 1.0]

    def bin_ends(self, cells: Ints, weight: Floats) -> Ints:
        """Return the number of occupied cells up to the end of each bin of a row."""
        if self.strategy == "quantile":
            ends = quantile_ends(weight.cumsum(), self.n_bins)
        else:
            ends = np.searchsorted(cells, self._last_cells(), side="right")
        return np.append(ends, len(cells))

    @lru_cache(maxsize=8)  # noqa: B019 - a few small arrays
    def _last_cells(self) -> Ints:
        """Return the last cell of each bin with fixed edges but the last one."""
        return self.cell_of(self.fixed_edges())

    def fixed_edges(self, values: Floats | None = None) -> Floats:
        """Return the edges that do not depend on data, in the dtype of the values."""
        values = np.empty(0) if values is None else values
        is_fixed = self.strategy != "quantile"
        n_bins, strategy = self[:2] if is_fixed else (1, "uniform")
        return interior_edges(values, n_bins=n_bins, strategy=strategy)


def check_cells(grid: Grid, n_rows: int) -> None:
    """Raise an error for more bins than cells, or more cells than `MOST_CELLS`."""
    n_bins, strategy, _ = grid
    most = N_CELLS if strategy == "quantile" else MOST_CELLS // max(n_rows, 1)
    if n_bins > most:
        raise ValueError(
            f"n_bins must be at most {most} for strategy={shown(strategy)} and "
            f"{n_rows} evaluated class(es), got {n_bins}. Use fewer bins."
        )
    if strategy == "quantile" and n_rows * N_CELLS > MOST_CELLS:
        raise ValueError(
            f'strategy must be "uniform" for more than {MOST_CELLS // N_CELLS} '
            f'classes with mode="classwise", got "quantile" and {n_rows} classes. Or '
            'use mode="top_label".'
        )


class Cells(NamedTuple):
    """Sums over the occupied cells of one mode.

    The rows of `sums` are the weight, confidence minus correctness, and correctness.
    Two more, the sums of squared weights of all and of correct samples, are only stored
    if the samples have weights.
    """

    place: Ints  # (n_occupied,), sorted: the row times the number of cells, plus cell
    sums: Floats  # (3 or 5, n_occupied)

    @classmethod
    def from_dense(cls, sums: Floats, first: int = 0) -> Cells:
        """Return the sums of the occupied cells, given those of all cells."""
        occupied = np.flatnonzero(sums[0])
        return cls(occupied + first, sums[:, occupied])

    def with_squares(self) -> Floats:
        """Return the sums and the squares; without weights, a weight is its square."""
        return self.sums if len(self.sums) == 5 else self.sums[[0, 1, 2, 0, 2]]

    def add(self, other: Cells) -> Cells:
        """Return the sums of both."""
        parts = [self, other]
        if len(self.sums) != len(other.sums):
            parts = [Cells(each.place, each.with_squares()) for each in parts]
        if np.array_equal(self.place, other.place):
            return Cells(self.place, parts[0].sums + parts[1].sums)
        place = np.union1d(self.place, other.place)
        sums = np.zeros((len(parts[0].sums), len(place)))
        for each in parts:
            sums[:, np.searchsorted(place, each.place)] += each.sums
        return Cells(place, sums)

    def rows(self, n_rows: int, n_cells: int) -> list[Cells]:
        """Return the cells of each row."""
        ends = np.searchsorted(self.place, n_cells * np.arange(n_rows + 1))
        return [
            Cells(self.place[start:end] - row * n_cells, self.sums[:, start:end])
            for row, (start, end) in enumerate(pairwise(ends))
        ]

    def in_bins(self, grid: Grid) -> Floats:
        """Return the sums over the bins of the only row, of shape (3, n_bins)."""
        cumulated = np.hstack([np.zeros((3, 1)), self.sums[:3].cumsum(axis=1)])
        ends = grid.bin_ends(self.place, self.sums[0])
        return np.diff(cumulated[:, ends], axis=1, prepend=0)


def sums_over_bins(cells: Cells, grid: Grid, n_rows: int) -> Floats:
    """Return the sums over bins, of shape (3, n_rows, n_bins)."""
    if grid.is_fine:
        rows = cells.rows(n_rows, grid.n_cells)
        return np.stack([row.in_bins(grid) for row in rows], axis=1)
    sums = np.zeros((3, n_rows * grid.n_cells))
    sums[:, cells.place] = cells.sums[:3]
    return sums.reshape(3, n_rows, grid.n_cells)
