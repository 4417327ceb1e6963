"""Validation of arrays that stay on their device."""

from typing import Any

from sklearn_calib._validation.arrays import (
    convert_to_numpy,
    get_namespace,
    is_array_api,
    without_gradient,
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


def on_cpu(array: Any) -> Any:
    """Return an array of another device as a numpy array; others are unchanged."""
    if not is_array_api(array):
        return array
    return convert_to_numpy(without_gradient(array), get_namespace(array)[0])
