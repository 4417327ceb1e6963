"""Validation of probabilities and sample weights, and their tolerances."""

from collections.abc import Iterator
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_array
from sklearn.utils.validation import _check_sample_weight

from sklearn_calib._validation.arrays import (
    FEW_COLUMNS,
    as_numbers,
    check_in_memory,
    check_numbers,
    on_cpu,
    row_blocks,
    shown,
)
from sklearn_calib._validation.fit_warnings import warn
from sklearn_calib._validation.types import Array, Floats, Weights

# With fewer samples, all probabilities may well be exactly 0 or 1.
FEWEST_LABELS = 10

# Row sums of a float32 softmax differ from one by about 1e-6, those of rounded
# probabilities in text files by about 1e-4. The tolerance is the square root of
# float32's resolution.
ROW_SUM_TOLERANCE = 3.5e-4

# Row sums of a half-precision softmax differ from one by about two eps, or by n_classes
# * eps if the sum is in half precision. An error of 1 % is not due to rounding.
HALF_EPS, LARGEST_TOLERANCE = float(np.finfo(np.float16).eps), 0.01

# Largest change of a row sum by rounding each probability to bfloat16.
BFLOAT16_TOLERANCE = 2.0**-8

# A confidence level such as 0.9 is not exact; a p-value of 0.1 is not above 1 - 0.9.
LEVEL_ROUNDING = 1e-12


def check_proba(proba: Any, *, name: str = "y_proba", allow_1d: bool = False) -> Floats:
    """Return probabilities as a float array after checking all values.

    Values that rounding has left outside of [0, 1] are clipped; the array is only
    copied if there are any.

    Parameters
    ----------
    proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Probabilities; a 1-d array contains those of the positive class.

    name : str, default="y_proba"
        Name of the argument in messages.

    allow_1d : bool, default=False
        Whether to accept the probabilities of the positive class alone, with shape
        (n_samples,) or (n_samples, 1).

    Returns
    -------
    proba : ndarray of shape (n_samples, n_classes) or (n_samples,)
        Probabilities in [0, 1], in float32 if the input is, otherwise in float64. A
        single column is returned as a 1-d array.

    Raises
    ------
    ValueError
        If the shape is wrong, a value is not in [0, 1], or a row does not sum to one.
        The tolerance is `ROW_SUM_TOLERANCE`; for values that are exact in half
        precision (float16 or bfloat16), it is `n_classes` times its eps, at most 0.01.
    """
    proba = as_proba_array(proba, name=name, allow_1d=allow_1d)
    check_sums(proba, name=name)
    return proba


def check_sums(proba: Floats, *, name: str = "y_proba") -> None:
    """Raise ValueError unless the rows of checked probabilities sum to one."""
    for _ in proba_blocks(proba, name=name):
        pass


def as_proba_array(
    proba: Any, *, name: str = "y_proba", allow_1d: bool = False
) -> Floats:
    """Return probabilities as `check_proba`; row sums are left to `proba_blocks`."""
    proba = check_proba_shape(proba, name=name, allow_1d=allow_1d)
    return _within_range(proba, name)


def check_place(proba: Any, name: str) -> None:
    """Raise TypeError for probabilities that are not in memory."""
    way_out = "Update a CalibrationAccumulator with it, or call compute()."
    check_in_memory(proba, name, way_out)


def check_proba_shape(
    proba: Any, *, name: str = "y_proba", allow_1d: bool = False
) -> Floats:
    """Return probabilities as a float array without checking the values."""
    check_place(proba, name)
    way_out = "Pass the output of predict_proba, not of predict."
    numbers = check_numbers(proba, name, content="probabilities", way_out=way_out)
    proba = numbers if is_float_array(numbers) else _as_floats(numbers, name, way_out)
    if allow_1d and (proba.ndim == 1 or proba.shape[1:] == (1,)):
        warn_of_predicted_labels(numbers, name)
        return proba.reshape(-1)
    if proba.ndim == 2 and proba.shape[1] > 1:
        return proba
    also = ", or (n_samples,) for those of the positive class" if allow_1d else ""
    if proba.ndim == 3:  # a list with an array for each label
        way_out = "For multilabel data, pass one label at a time: y[:, k], y_proba[k]."
    else:
        way_out = "Pass the output of predict_proba."
    raise ValueError(
        f"{name} must be probabilities of shape (n_samples, n_classes) with at least "
        f"two classes{also}, got shape {proba.shape}. {way_out}"
    )


def _as_floats(numbers: Any, name: str, way_out: str) -> Floats:
    """Return numbers as a float array of any shape."""
    try:
        return check_array(
            numbers,
            dtype=[np.float64, np.float32],
            ensure_2d=False,
            allow_nd=True,
            ensure_all_finite=False,
            input_name=name,
        )
    except ValueError as error:
        raise ValueError(
            f"{name} must contain probabilities: {str(error).rstrip('.')}. {way_out}"
        ) from None


def is_float_array(values: Any) -> bool:
    """Return whether `check_array` would return the values as they are.

    Resampling calls a metric so often that `check_array` takes half of its time.
    """
    is_plain = type(values) is np.ndarray and values.ndim > 0 and values.size > 0
    return is_plain and values.dtype in (np.float64, np.float32)


def warn_of_predicted_labels(
    values: Any, name: str, response: str = "predict_proba(X)[:, 1]"
) -> bool:
    """Warn if a single column contains predicted labels; return whether it does.

    These are booleans, or the integers 0 and 1. Floats may well be probabilities, such
    as those of fully grown trees.
    """
    values = np.asarray(on_cpu(values))
    kind, is_column = values.dtype.kind, values.shape[1:] in ((), (1,))
    if kind not in "biuO" or not is_column or values.size < FEWEST_LABELS:
        return False
    if kind == "O" and not all(isinstance(v, Integral | np.bool_) for v in values.flat):
        return False
    if values.min() < 0 or values.max() > 1:
        return False
    warn_of_labels(name, response)
    return True


def warn_of_labels(name: str, response: str = "predict_proba(X)[:, 1]") -> None:
    """Warn of an argument that contains predicted labels."""
    warn(
        f"{name} must contain probabilities, got only integers 0 and 1 or booleans, "
        f"which look like predicted labels. Pass {response} instead of predict(X); if "
        "they are probabilities, convert them to float.",
        UserWarning,
    )


def as_proba_numbers(proba: Any, name: str) -> Array:
    """Return numbers as an array, predicted labels as floats after a warning."""
    numbers = as_numbers(proba, name)
    if not numbers.ndim:
        raise TypeError(
            f"{name} must be array-like, got {shown(proba)}. Pass the predicted "
            "probabilities of the samples."
        )
    is_labels = warn_of_predicted_labels(numbers, name)
    return numbers.astype(np.float64) if is_labels else numbers


def _within_range(proba: Floats, name: str) -> Floats:
    """Clip values outside of [0, 1] by rounding errors; raise ValueError for others."""
    # As unsigned integers, the bits of floats from 0 to 1 have the same order as the
    # floats, and those of all other floats (and of -0.0) are larger. One maximum takes
    # half the time of a minimum and a maximum.
    bits, one = proba.view(f"u{proba.itemsize}"), np.ones(1, proba.dtype)
    if bits.max() <= one.view(bits.dtype)[0]:
        return proba
    low, high = proba.min(), proba.max()
    if low >= 0 and high <= 1:
        return proba
    n_classes = 2 if proba.ndim == 1 else proba.shape[1]
    tolerance = tolerance_of(proba[(proba < 0) | (proba > 1)], n_classes)
    check_range(low, high, name, tolerance)
    return proba.clip(0, 1)


def proba_blocks(
    proba: Floats, *, name: str = "y_proba"
) -> Iterator[tuple[slice, Floats]]:
    """Yield slices of rows and these rows, after checking their sums.

    `proba` is the output of `as_proba_array`. Blocks with few columns are copies in
    Fortran order, others are in C order.
    """
    for rows in row_blocks(len(proba), proba[0].size):
        block = proba[rows]
        if block.ndim == 2:
            few = block.shape[1] <= FEW_COLUMNS
            block = np.asarray(block, order="F" if few else "C")
            totals = np.einsum("ij->i", block)
            low, high = totals.min(), totals.max()
            if max(1 - low, high - 1) > ROW_SUM_TOLERANCE:
                off = block[np.abs(totals - 1) > ROW_SUM_TOLERANCE]
                check_row_sums(low, high, name, tolerance_of(off, off.shape[1]))
        yield rows, block


def check_sample_weight(sample_weight: ArrayLike | None, X: Any) -> Weights:
    """Return non-negative weights, one for each row of `X`, as floats, or None."""
    if sample_weight is None:
        return None
    weight: Any = check_numbers(sample_weight, "sample_weight")
    is_checked = (
        is_float_array(weight)
        and type(X) is np.ndarray
        and weight.shape == X.shape[:1]
        and weight.flags.c_contiguous
        and np.isfinite(weight).all()
        and weight.any()
    )
    if not is_checked:
        weight = _check_sample_weight(weight, X)
    check_weight_range(weight.min(), weight.max())
    return weight.astype(np.float64, copy=False)


def nonzero_weight(sample_weight: Any) -> tuple[Any, bool]:
    """Return the weights of a batch, or ones if all are zero, and whether any is not.

    With ones, the other arguments are checked even if the batch adds nothing.
    """
    if sample_weight is None:
        return None, True
    weight = as_numbers(sample_weight, "sample_weight")
    has_weight = bool(weight.any())
    return weight if has_weight else np.ones(weight.shape), has_weight


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


def check_range(
    low: Any, high: Any, name: str, tolerance: float = ROW_SUM_TOLERANCE
) -> None:
    """Raise ValueError unless the values are in [0, 1] up to rounding errors."""
    if low >= -tolerance and high <= 1 + tolerance:
        return
    if not (np.isfinite(low) and np.isfinite(high)):
        found = "NaN" if np.isnan(low) else "infinity"
        raise ValueError(
            f"{name} must be finite, got {found}. Remove or correct these samples."
        )
    raise ValueError(
        f"{name} must lie in [0, 1], got values in [{low:.6g}, {high:.6g}]. "
        "Pass probabilities, not logits."
    )


def rounding_tolerance(n_classes: int, eps: Any) -> float:
    """Return the tolerance of values and row sums for a floating-point precision."""
    return max(ROW_SUM_TOLERANCE, min(n_classes * float(eps), LARGEST_TOLERANCE))


def tolerance_of(off: Floats, n_classes: int) -> float:
    """Return the tolerance for the rounding errors of the values `off`."""
    single = off.astype(np.float32, copy=False)
    with np.errstate(over="ignore"):
        is_half = np.array_equal(off, off.astype(np.float16))
    tolerance = rounding_tolerance(
        n_classes, HALF_EPS if is_half else np.finfo(off.dtype).eps
    )
    # The mantissa of bfloat16 is the first 7 bits of that of float32.
    rest = np.bitwise_and(single.view(np.uint32), 0xFFFF)
    if not rest.any() and np.array_equal(off, single):
        tolerance = max(tolerance, BFLOAT16_TOLERANCE)
    return tolerance


def check_row_sums(
    low: Any, high: Any, name: str, tolerance: float = ROW_SUM_TOLERANCE
) -> None:
    """Raise ValueError unless the smallest and the largest row sum are one."""
    if low < 1 - tolerance or high > 1 + tolerance:
        worst = low if 1 - low > high - 1 else high
        raise ValueError(
            f"{name} must have rows that sum to one within {tolerance:.2g}, got "
            f"a row that sums to {worst:.6g}. Divide each row by its sum; for "
            "multilabel data, pass one label at a time."
        )


def are_proba(scores: Floats) -> bool:
    """Return whether scores (n_samples, n_columns) look like probabilities.

    They do if no value is negative and all rows sum to one, up to the rounding errors
    of half precision or of three decimals. A single column only needs values in [0, 1].
    """
    if not (scores.min() >= 0 and scores.max() <= 1 + LARGEST_TOLERANCE):
        return False
    deviation = np.abs(scores.sum(axis=1) - 1)
    return scores.shape[1] == 1 or bool(deviation.max() <= LARGEST_TOLERANCE)


def check_weight_range(low: Any, high: Any) -> None:
    """Raise ValueError for weights that are negative, not finite or all zero."""
    if not (low >= 0 and 0 < high < np.inf):
        raise ValueError(
            "sample_weight must be non-negative, finite and not all zero, got weights "
            f"in [{low:.3g}, {high:.3g}]. Use a weight of zero to ignore a sample."
        )
