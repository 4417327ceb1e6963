"""Binned calibration errors of Dask arrays, from sums over the bins of each block."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from sklearn.base import clone

from sklearn_calib._validation.arrays import is_dask_array
from sklearn_calib._validation.dask_arrays import (
    labels_of_blocks,
    lazy_columns,
    sum_of_blocks,
)
from sklearn_calib._validation.labels import as_labels, encode_labels
from sklearn_calib._validation.samples import check_columns, positive_code, resolve_mode

if TYPE_CHECKING:
    from sklearn_calib.metrics._accumulator.accumulator import CalibrationAccumulator


def has_dask_arrays(*arrays: Any) -> bool:
    """Whether one of the arrays is a Dask array."""
    return any(map(is_dask_array, arrays))


def sums_of_dask_arrays(
    y_true: Any,
    y_proba: Any,
    labels: Any,
    sample_weight: Any,
    *,
    mode: str | None,
    n_bins: Any,
    strategy: str,
    pos_label: Any = None,
) -> CalibrationAccumulator:
    """Return the sums over bins of all blocks, which give the exact error."""
    # The accumulator uses functions of the module that imports this one.
    from sklearn_calib.metrics._accumulator.accumulator import CalibrationAccumulator

    if strategy != "uniform" or isinstance(n_bins, str):
        raise ValueError(
            'strategy must be "uniform" and n_bins an integer for Dask arrays, got '
            f"{strategy!r} and {n_bins!r}. CalibrationAccumulator approximates the "
            'error for "quantile". Or call compute() to load all samples.'
        )
    given, y_proba = y_proba, lazy_columns(y_proba)
    if labels is None:
        labels = labels_of_blocks(y_true)
        encode_labels(labels, n_classes=2 if y_proba.ndim == 1 else y_proba.shape[1])
    check_columns(given, None, labels)
    if pos_label is not None:
        labels = as_labels(labels, "labels")
        if positive_code(pos_label, mode, labels) == 0:
            labels = labels[::-1]
            y_proba = y_proba if y_proba.ndim == 1 else y_proba[:, ::-1]
        mode = "positive"
    total = CalibrationAccumulator(
        labels=labels, n_bins=n_bins, mode=resolve_mode(mode, y_proba)
    ).update(y_true, y_proba, sample_weight)
    if not total._has_seen():
        raise ValueError(
            "y_proba must contain a sample with positive weight, got none in all "
            "blocks. Check the data and sample_weight."
        )
    return total


def sum_of_chunks(
    accumulator: CalibrationAccumulator, **arrays: Any
) -> CalibrationAccumulator:
    """Return the sum of accumulators of all blocks, with the same parameters.

    `arrays` contains the arguments of `update`.
    """
    return sum_of_blocks(partial(_accumulate, clone(accumulator)), arrays)


def _accumulate(empty: CalibrationAccumulator, **chunk: Any) -> CalibrationAccumulator:
    """Return a new accumulator of a chunk, as several threads share the empty one."""
    return clone(empty).update(**chunk)
