"""Net benefit of acting on samples whose probability is at least a threshold."""

from typing import Any

import numpy as np

from sklearn_calib._validation.arrays import as_numbers
from sklearn_calib._validation.types import Array, Floats, Ints, Weights


def check_thresholds(thresholds: Any) -> Floats:
    """Return sorted distinct thresholds; 0.01, 0.02, ..., 0.99 for None."""
    if thresholds is None:
        return np.arange(1, 100) / 100
    array = as_numbers(thresholds, "thresholds").astype(np.float64)
    if array.ndim != 1 or not len(array):
        raise ValueError(
            "thresholds must be a non-empty 1-d array, got an array of shape "
            f"{array.shape}. Use [0.2] for a single threshold."
        )
    outside = array[~((array > 0) & (array < 1))]
    if len(outside):
        raise ValueError(
            f"thresholds must lie in (0, 1), got {outside[0]:.6g}. Pass probabilities "
            "at which to act, such as np.arange(1, 50) / 100."
        )
    return np.unique(array)


def number_reached(value: Floats, thresholds: Floats) -> Ints:
    """Return how many of the sorted thresholds each probability reaches."""
    # The same decimal is a different number in float32.
    return np.searchsorted(thresholds.astype(value.dtype), value, side="right")


def sums_by_number(
    number: Ints, outcome: Array, weight: Weights, n_thresholds: int
) -> tuple[Array, Array]:
    """Return the weight and the positive weight by the number of thresholds reached."""
    weight = np.ones(len(outcome)) if weight is None else weight
    size = n_thresholds + 1
    positive = np.bincount(number, weight * outcome, size)
    return np.bincount(number, weight, size), positive


def net_benefit(mass: Floats, positive: Floats, thresholds: Floats) -> Floats:
    """Return the net benefit at each threshold, given `sums_by_number`."""
    acted, true = (
        sums[..., ::-1].cumsum(axis=-1)[..., -2::-1] for sums in (mass, positive)
    )
    gain = true - (acted - true) * (thresholds / (1 - thresholds))
    return gain / mass.sum(axis=-1, keepdims=True)


def net_benefit_of_all(mass: Floats, positive: Floats, thresholds: Floats) -> Floats:
    """Return the net benefit of acting on all samples."""
    frequency = positive.sum() / mass.sum()
    return frequency - (1 - frequency) * (thresholds / (1 - thresholds))
