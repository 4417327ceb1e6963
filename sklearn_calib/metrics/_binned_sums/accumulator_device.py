"""A chunk of samples on another device, for `CalibrationAccumulator`."""

from __future__ import annotations

from typing import Any

import numpy as np

from sklearn_calib._validation.arrays import convert_to_numpy
from sklearn_calib._validation.device_targets import (
    check_targets_on_device,
    evaluated,
    flat,
)
from sklearn_calib._validation.types import Array, Bools, Floats, Weights
from sklearn_calib.metrics._binned_sums.grid import Cells, Grid
from sklearn_calib.metrics._binned_sums.metrics_array_api import MOST_BINS, uniform_sums


class DeviceChunk:
    """Samples on another device, of which one number per sample is copied to numpy.

    Attributes
    ----------
    weight : ndarray of shape (n_samples,) or None
    """

    weight: Weights

    def __init__(
        self, y_true: Any, y_proba: Any, labels: Any, sample_weight: Any
    ) -> None:
        self._data = check_targets_on_device(
            y_true, flat(y_proba), labels, sample_weight
        )
        weight = self._data[-1]
        self.weight = None if weight is None else self._to_numpy(weight)

    def evaluated(self, mode: str) -> tuple[Floats, Bools]:
        """Return the evaluated probability of each sample, and its correctness."""
        value, correct = evaluated(*self._data[:-1], mode)
        return self._to_numpy(value[:, 0]), self._to_numpy(correct[:, 0])

    def totals(self) -> Floats:
        """Return the sums of weight, correctness, confidence, Brier and log loss."""
        xp, proba, y_true, labels, weight = self._data
        confidence, correct = evaluated(*self._data[:-1], "top_label")
        is_true = y_true[:, None] == labels[None, :]
        p_true = xp.max(xp.where(is_true, proba, xp.zeros_like(proba)), axis=1)
        log_loss = -xp.log(xp.clip(p_true, float(xp.finfo(proba.dtype).eps), None))
        squares = xp.sum(proba * proba, axis=1) - 2 * p_true + 1
        summands = correct[:, 0], confidence[:, 0], squares, log_loss
        columns = [xp.astype(each, xp.float64) for each in summands]
        columns = [xp.ones_like(columns[0]), *columns]
        if weight is not None:
            columns = [weight * column for column in columns]
        return np.array([float(xp.sum(column)) for column in columns])

    def class_cells(self, grid: Grid) -> Cells:
        """Return the sums over the uniform bins of each class."""
        if grid.is_fine or grid.n_bins > MOST_BINS:
            raise TypeError(
                "y_proba must be a numpy array or a tensor on the CPU for "
                f'mode="classwise" with more than {MOST_BINS} bins or with '
                'strategy="quantile". Move it to the CPU.'
            )
        xp, *_, weight = self._data
        value, correct = evaluated(*self._data[:-1], "classwise")
        sums = [*uniform_sums(xp, value, correct, weight, grid.n_bins)]
        if weight is not None:
            squares = uniform_sums(xp, value, correct, weight**2, grid.n_bins)
            sums += [squares[0], squares[2]]
        return Cells.from_dense(np.stack(sums).reshape(len(sums), -1))

    def _to_numpy(self, array: Any) -> Array:
        return convert_to_numpy(array, self._data[0])
