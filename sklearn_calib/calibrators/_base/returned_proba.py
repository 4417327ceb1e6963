"""Checks of the probabilities that methods of users return."""

from typing import Any

import numpy as np

from sklearn_calib._validation.arrays import read_only, shown
from sklearn_calib._validation.probabilities import ROW_SUM_TOLERANCE


def is_of_user(kind: type) -> bool:
    """Return whether a class is not one of the package."""
    return not kind.__module__.startswith("sklearn_calib.")


def check_returned(
    calibrator: Any, method: str, proba: Any, shape: tuple[int, ...]
) -> None:
    """Raise an error unless a method has returned real numbers of this shape."""
    is_array = isinstance(proba, np.ndarray)
    if is_array and proba.shape == shape and proba.dtype.kind in "biuf":
        return
    kind = ValueError if is_array else TypeError
    found = f"shape {proba.shape} and {proba.dtype}" if is_array else shown(proba)
    raise kind(
        f"{type(calibrator).__name__}.{method} must return an array of real numbers of "
        f"shape {shape}, got {found}. Return the probability of each class for each "
        "row."
    )


def try_method(calibrator: Any, method: str, logits: Any, *others: Any) -> None:
    """Raise an error unless a method returns probabilities for these rows."""
    with np.errstate(over="ignore", invalid="ignore"):
        proba = getattr(calibrator, method)(read_only(logits), *others)
        check_returned(calibrator, method, proba, logits.shape)
        is_off = ~(np.abs(proba.sum(axis=1) - 1) <= ROW_SUM_TOLERANCE)
    is_wrong = is_off | ~(proba >= 0).all(axis=1)
    if is_wrong.any():
        raise ValueError(
            f"{type(calibrator).__name__}.{method} must return non-negative rows that "
            f"sum to one, got {shown(proba[is_wrong][0].tolist())}. Divide each row by "
            "its sum, or use operations.softmax."
        )
