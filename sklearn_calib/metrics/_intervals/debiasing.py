"""Debiased confidence intervals of errors with an upward bias."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sklearn_calib._validation.declarations import interval_kind
from sklearn_calib._validation.types import Floats, Metric
from sklearn_calib.metrics._intervals.ece_interval import ece_interval


def binned_interval(
    metric: Metric, y_true: ArrayLike, y_proba: ArrayLike, value: float, **options: Any
) -> tuple[float, float]:
    """Return `ece_interval` for an error with bins, extended to include its value."""
    kind, given = interval_kind(metric)
    given = {**(kind.bins or {}), **given}
    # The parameter changes the estimate, but not the estimated error.
    given.pop("reduce_bias", None)
    average = given.pop("average", "mean")
    ends = np.array(ece_interval(y_true, y_proba, **{**given, **options}))
    if average == "sum":
        n_classes = max(2, np.size(y_proba) // np.shape(y_proba)[0])
        ends *= n_classes ** {"l1": 1, "l2": 0.5, "max": 0}[given.get("norm", "l1")]
    return float(min(ends[0], value)), float(max(ends[1], value))


def debiased_ends(
    metric: Metric, value: float, halves: Floats, null: Floats, tail: float
) -> tuple[float, float]:
    """Return an interval, given the errors of random halves and of calibrated labels.

    The noise variance of a half is twice that of the whole sample. For the right power
    of the error, the bias from the whole sample to a half is therefore equal to the
    bias from the population to the whole sample.
    """
    kind, given = interval_kind(metric)
    is_square = any(given.get(name) == value for name, value in kind.squared.items())
    power = 1 if is_square else kind.power
    high = float(np.quantile(halves, 1 - tail))
    low = max(0.0, 2 * value**power - high**power) ** (1 / power)
    if value <= np.quantile(null, 1 - tail):
        low = 0.0
    return float(min(low, value)), float(max(high, value))
