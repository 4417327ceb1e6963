"""Debiased intervals of errors, whose estimates are above the truth."""

import numpy as np

from sklearn_calib._core.interval_kind import interval_kind
from sklearn_calib.metrics._ece_interval import ece_interval


def binned_interval(metric, y_true, y_proba, value, **options):
    """Return `ece_interval` for an error with bins, which holds its value too."""
    kind, given = interval_kind(metric)
    given = {**kind.bins, **given}
    # What is estimated is the same, with less bias.
    given.pop("reduce_bias", None)
    average = given.pop("average", "mean")
    ends = np.array(ece_interval(y_true, y_proba, **{**given, **options}))
    if average == "sum":
        n_classes = max(2, np.size(y_proba) // len(y_proba))
        ends *= n_classes ** {"l1": 1, "l2": 0.5, "max": 0}[given.get("norm", "l1")]
    return float(min(ends[0], value)), float(max(ends[1], value))


def debiased_ends(metric, value, halves, null, tail):
    """Return an interval, given the errors of random halves and of calibrated labels.

    A half has twice the noise of the whole sample, as the whole sample has one more
    than the population: in the right power the bias of both steps is the same.
    """
    kind, given = interval_kind(metric)
    is_square = any(given.get(name) == value for name, value in kind.squared.items())
    power = 1 if is_square else kind.power
    high = np.quantile(halves, 1 - tail)
    low = max(0, 2 * value**power - high**power) ** (1 / power)
    if value <= np.quantile(null, 1 - tail):
        low = 0.0
    return float(min(low, value)), float(max(high, value))
