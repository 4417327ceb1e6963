"""Intervals of the bins of a reliability diagram, from the sums of cells."""

from __future__ import annotations

from typing import Any

import numpy as np

from sklearn_calib._numerics.bands import Groups, band_of_groups, clopper_pearson
from sklearn_calib._numerics.binning import bin_index
from sklearn_calib._validation.types import Floats
from sklearn_calib.metrics._accumulator.cell_draws import weight_of_one, whole
from sklearn_calib.metrics._accumulator.cell_metrics import points
from sklearn_calib.metrics._binned_sums.grid import Cells, Grid


def band_of_bins(
    cells: Cells,
    grid: Grid,
    interval: str | None,
    confidence_level: float,
    **draws: Any,
) -> Floats | None:
    """Return the interval of each bin, of shape (2, n_bins); nan in empty bins."""
    if interval is None:
        return None
    ends = grid.bin_ends(cells.place, cells.sums[0])
    bins = np.repeat(np.arange(grid.n_bins), np.diff(ends, prepend=0))
    weight, _, correct, squares, _ = cells.with_squares()
    if interval == "clopper-pearson":
        mass, n_correct, squares = (
            np.bincount(bins, values, grid.n_bins).astype(float)
            for values in (weight, correct, squares)
        )
        accuracy = n_correct / np.where(mass > 0, mass, np.nan)
        count = mass / weight_of_one(mass, squares)
        return clopper_pearson(accuracy, count, confidence_level)
    count = np.maximum(1, whole(weight / weight_of_one(weight, squares)))
    mean = points(cells, grid).confidence[0]
    groups = Groups(bins, mean, weight, correct, count)
    return band_of_groups(groups, grid.n_bins, interval, confidence_level, **draws)


def histogram(cells: Cells, grid: Grid) -> Floats:
    """Return the weight in bins of equal width.

    For "quantile", a cell that contains an edge is on the side of its mean confidence.
    """
    weight, mean = cells.sums[0], points(cells, grid).confidence[0]
    edges = Grid(grid.n_bins, "uniform").fixed_edges()
    return np.bincount(bin_index(mean, edges), weight, grid.n_bins).astype(float)
