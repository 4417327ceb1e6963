"""Bounds on the errors that cells cause."""

from __future__ import annotations

import numpy as np

from sklearn_calib._numerics.binning import quantile_masses
from sklearn_calib._validation.types import Metric, Options
from sklearn_calib.metrics._accumulator.cell_metrics import Points, points
from sklearn_calib.metrics._binned_sums.grid import Cells, Grid
from sklearn_calib.metrics._selective.aurc_metrics import (
    augrc_loss,
    aurc_loss,
    excess_aurc_loss,
)
from sklearn_calib.metrics._selective.failure_detection import failure_auroc_score

# Metrics that depend on the order of the confidences only.
RANKINGS: list[Metric] = [augrc_loss, aurc_loss, excess_aurc_loss, failure_auroc_score]


def ranking_bound(
    cells: Cells, grid: Grid, metric: Metric, mode: str, options: Options
) -> float:
    """Return a bound for a metric that depends on the order of the confidences only.

    Its extremes are those of the orders in which all wrong samples of a cell are before
    the correct ones, and the other way round.
    """
    seen = points(cells, grid)
    value = seen.measure(metric, mode, options)
    low, high = grid.ends_of(cells.place)
    ends = np.stack([0.75 * low + 0.25 * high, 0.25 * low + 0.75 * high])
    extremes = [
        Points(confidence, seen.weight).measure(metric, mode, options)
        for confidence in (ends, ends[::-1])
    ]
    return float(np.abs(np.array(extremes) - value).max())


def quantile_bound(cells: Cells, grid: Grid) -> float:
    """Return a bound for the ECE with quantile bins.

    A cell that contains an edge is in the bin below it, although some of its samples
    belong to the bin above. Let m bound the sum of their gaps. If the sums of the gaps
    of both bins have the same sign wherever these samples are, the sum of the absolute
    values does not change. Otherwise, it changes by at most 2 m.
    """
    weight, gap, correct = cells.sums[:3]
    total = weight.sum()
    ends = grid.bin_ends(cells.place, weight)[:-1]
    targets = quantile_masses(total, grid.n_bins, np.arange(1, grid.n_bins))
    cell, first, n_edges = np.unique(ends - 1, return_index=True, return_counts=True)
    above = weight.cumsum()[cell] - targets[first]
    low, high = grid.ends_of(cells.place[cell])
    right, wrong = correct[cell] * (1 - low), (weight - correct)[cell] * high
    # Several edges in one cell bound bins with any of its samples.
    moved = np.where(n_edges > 1, right + wrong, np.maximum(right, wrong))
    moved = np.minimum(moved, np.where(n_edges > 1, np.inf, above))
    sums = np.diff(np.r_[0, gap.cumsum()[np.r_[cell, len(gap) - 1]]])
    is_certain = np.abs(sums) > np.r_[moved, 0] + np.r_[0, moved]
    cancels = is_certain[1:] & is_certain[:-1] & (sums[1:] * sums[:-1] > 0)
    return float(2 * moved[~cancels | (n_edges > 1)].sum() / total)
