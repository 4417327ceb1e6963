"""Metrics of cells, computed by the metric functions on one or two samples per cell."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from inspect import signature
from typing import Any, NamedTuple

import numpy as np

from sklearn_calib._numerics.binning import gap_error, quantile_masses
from sklearn_calib._sklearn.metric_options import (
    check_options,
    name_of,
    without_partial,
)
from sklearn_calib._validation.arrays import shown
from sklearn_calib._validation.declarations import StrOptions, validate_params
from sklearn_calib._validation.types import Floats, Metric, Options
from sklearn_calib.metrics._binned_sums.grid import Cells, Grid, sums_over_bins
from sklearn_calib.metrics._calibration_errors.binned_error import (
    NORM,
    check_reduce_bias,
    classwise_calibration_error,
    expected_calibration_error,
    maximum_calibration_error,
)
from sklearn_calib.metrics._calibration_errors.kernel_error import (
    kernel_calibration_error,
)
from sklearn_calib.metrics._hypothesis_tests.spiegelhalter import (
    SignificanceResult,
    spiegelhalter_result,
    spiegelhalter_test,
)
from sklearn_calib.metrics._selective.aurc_metrics import (
    augrc_loss,
    aurc_loss,
    excess_aurc_loss,
)
from sklearn_calib.metrics._selective.failure_detection import failure_auroc_score

# Errors with bins, which are computed from the sums over bins, and their norms.
BINNED: dict[Metric, Options] = {
    classwise_calibration_error: {},
    expected_calibration_error: {},
    maximum_calibration_error: {"norm": "max"},
}

# Metrics that depend on the order of the confidences only.
RANKINGS: list[Metric] = [augrc_loss, aurc_loss, excess_aurc_loss, failure_auroc_score]


class CellPoints(NamedTuple):
    """Occupied cells as samples, two for each: the correct ones and the wrong ones."""

    confidence: Floats  # (2, n_cells)
    weight: Floats  # (2, n_cells)

    def measure(self, metric: Metric, mode: str, options: Options) -> Any:
        """Return a metric of these samples."""
        is_correct = np.repeat([1, 0], self.weight.shape[1])
        weight = self.weight.ravel()
        seen = weight > 0
        is_correct, weight = is_correct[seen], weight[seen]
        proba = self.confidence.ravel()[seen]
        if mode == "top_label" and takes(metric, "confidence"):
            # The predicted class is 1, and its rank is that of the confidence.
            options = {**options, "confidence": proba}
            proba = np.ones(len(proba))
        if takes(metric, "labels"):
            options = {**options, "labels": [0, 1]}
        return metric(is_correct, proba, sample_weight=weight, **options)


def points(cells: Cells, grid: Grid) -> CellPoints:
    """Return the samples for the cells of one row, at their mean confidence."""
    weight, gap, correct = cells.sums[:3]
    low, high = grid.ends_of(cells.place)
    mean = np.clip((gap + correct) / weight, low, high)
    # Rounding errors must not make a sum negative.
    correct = np.clip(correct, 0, weight)
    return CellPoints(np.stack([mean, mean]), np.stack([correct, weight - correct]))


@lru_cache
def takes(metric: Metric, name: str) -> bool:
    """Whether a metric has a parameter."""
    return name in signature(metric).parameters


def metric_and_options(
    metric: Metric, options: Options, mode: str, method: Callable[..., Any]
) -> tuple[Metric, Options]:
    """Return the function and all options of the metric that `method` received."""
    function, options = without_partial(metric, options)
    is_binned = any(function is binned for binned in BINNED)
    known = metric
    if is_binned and mode == "classwise":
        known = classwise_calibration_error
    check_options(known, options, method)
    return function, options


def modes_of(metric: Metric) -> set[str]:
    """Return the values of the parameter `mode` of a metric of this package."""
    constraints = getattr(metric, "_skl_parameter_constraints", {}).get("mode", [])
    options = (rule.options for rule in constraints if isinstance(rule, StrOptions))
    return set().union(*options)


def check_metric(metric: Metric, mode: str, options: Options) -> None:
    """Raise an error for a metric that the cells of a mode do not determine."""
    name = name_of(metric)
    if not takes(metric, "sample_weight"):
        raise TypeError(
            "metric must have the parameter sample_weight, because the accumulator "
            f"keeps weights of cells instead of samples, got {name!r}. Add the "
            "parameter."
        )
    if takes(metric, "n_resamples"):
        raise TypeError(
            f"{name!r} draws samples, and cannot be computed because the accumulator "
            "keeps no samples. Use the method interval, or pass the samples to the "
            "metric itself."
        )
    is_ranking = takes(metric, "confidence") and mode == "top_label"
    known = modes_of(metric) | {"positive"} | ({"top_label"} if is_ranking else set())
    if metric is classwise_calibration_error:
        known = {"classwise"}
    if mode not in known:
        raise ValueError(
            f'metric must support mode="{mode}", got {name!r}. Use an accumulator with '
            'mode="positive" for two classes, or another metric.'
        )
    fixed = {"confidence", "labels", "mode", "pos_label", "sample_weight"}
    if is_ranking:
        fixed.add("loss")
    if unknown := sorted(fixed & options.keys()):
        raise ValueError(
            f"{unknown[0]} must not be given, because the accumulator determines it, "
            f"got {shown(options[unknown[0]])}. Set the labels and modes of the "
            "accumulator; the positive class is the second of its labels."
        )
    bandwidth = options.get("bandwidth", "median")
    if metric is kernel_calibration_error and isinstance(bandwidth, str):
        raise ValueError(
            "bandwidth must be a number, because the accumulator does not know the "
            f"median distance of the samples, got {shown(bandwidth)}."
        )


@validate_params(
    {**NORM, "reduce_bias": ["boolean"], "average": [StrOptions({"mean", "sum"})]}
)
def error_of_sums(
    sums: Floats,
    strategy: Any,
    *,
    norm: str | float = "l1",
    reduce_bias: bool = False,
    average: str = "mean",
) -> float:
    """Return the calibration error, given sums of shape (3, n_rows, n_bins)."""
    check_reduce_bias(reduce_bias, norm, strategy)
    weight, gap, correct = sums
    return gap_error(
        weight, gap, correct, norm, reduce_bias=reduce_bias, average=average
    )


def spiegelhalter(
    cells: Cells, grid: Grid, *, alternative: str = "two-sided"
) -> SignificanceResult:
    """Return the result of `spiegelhalter_test` for the mean confidence of cells."""
    (confidence, _), (correct, wrong) = points(cells, grid)
    squares = cells.with_squares()[3]
    impossible = ((confidence == 0) & (correct > 0)) | ((confidence == 1) & (wrong > 0))
    slope = 2 * confidence - 1
    deviation = (cells.sums[1] * slope).sum()
    variance = (squares * slope**2 * confidence * (1 - confidence)).sum()
    return spiegelhalter_result(
        deviation, variance, alternative, is_impossible=bool(impossible.any())
    )


def metric_of_cells(
    cells: Cells, grid: Grid, n_rows: int, metric: Metric, mode: str, options: Options
) -> Any:
    """Return a metric of cells."""
    own_bins = not {"n_bins", "strategy"} & options.keys()
    if metric in BINNED and own_bins:
        sums = sums_over_bins(cells, grid, n_rows)
        return error_of_sums(sums, grid.strategy, **{**BINNED[metric], **options})
    if not grid.is_fine:
        raise ValueError(
            'With mode="classwise", a metric without bins needs an accumulator with '
            'strategy="quantile", got "uniform".'
        )
    if metric is spiegelhalter_test:
        return spiegelhalter(cells, grid, **options)
    rows = cells.rows(n_rows, grid.n_cells)
    values = [points(row, grid).measure(metric, mode, options) for row in rows]
    return values[0] if mode != "classwise" else float(np.mean(values))


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
        CellPoints(confidence, seen.weight).measure(metric, mode, options)
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
