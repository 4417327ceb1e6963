"""Validation of arrays that stay on their device."""

from typing import Any

from sklearn_calib._validation.arrays import without_gradient
from sklearn_calib._validation.limits import (
    check_range,
    check_row_sums,
    rounding_tolerance,
)
from sklearn_calib._validation.probabilities import (
    convert_to_numpy,
    get_namespace,
    is_array_api,
)


def as_real(array: Any, name: str) -> tuple[Any, Any, float]:
    """Return the namespace, an array of real numbers without gradient, and its eps."""
    xp, _ = get_namespace(array)
    if not xp.isdtype(array.dtype, ("bool", "integral", "real floating")):
        raise ValueError(
            f"{name} must contain real numbers: Complex data not supported, got "
            f"{array.dtype}. Convert your data to numeric values explicitly."
        )
    is_floating = xp.isdtype(array.dtype, "real floating")
    eps = float(xp.finfo(array.dtype).eps) if is_floating else 0.0
    return xp, without_gradient(array), eps


def check_proba_on_device(xp: Any, proba: Any, name: str, eps: float) -> Any:
    """Return probabilities of one or more columns, clipped to [0, 1], once checked."""
    n_columns = 1 if proba.ndim == 1 else proba.shape[1]
    tolerance = rounding_tolerance(max(n_columns, 2), eps)
    low, high = float(xp.min(proba)), float(xp.max(proba))
    check_range(low, high, name, tolerance)
    if low < 0 or high > 1:
        proba = xp.clip(proba, 0, 1)
    if n_columns > 1:
        totals = xp.sum(proba, axis=1)
        low, high = float(xp.min(totals)), float(xp.max(totals))
        check_row_sums(low, high, name, tolerance)
    return proba


def on_cpu(array: Any) -> Any:
    """Return an array of another device as a numpy array; others are unchanged."""
    if not is_array_api(array):
        return array
    return convert_to_numpy(without_gradient(array), get_namespace(array)[0])
