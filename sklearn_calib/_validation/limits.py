"""Ranges and tolerances of probabilities and weights, for arrays of any library."""

from typing import Any

import numpy as np

from sklearn_calib._validation.types import Floats

# Row sums of a float32 softmax differ from one by about 1e-6, those of rounded
# probabilities in text files by about 1e-4. The tolerance is the square root of
# float32's resolution.
ROW_SUM_TOLERANCE = 3.5e-4

# Row sums of a half-precision softmax differ from one by about two eps, or by n_classes
# * eps if the sum is in half precision. An error of 1 % is not due to rounding.
HALF_EPS, LARGEST_TOLERANCE = float(np.finfo(np.float16).eps), 0.01

# Largest change of a row sum by rounding each probability to bfloat16.
BFLOAT16_TOLERANCE = 2.0**-8

# The largest weight is scaled to lie between 2**-100 and 2**100, so that sums of
# weights and of their squares cannot overflow.
LARGEST_EXPONENT = 100

# A smaller fraction of the largest weight is taken for zero: it changes no sum, but
# quotients of such weights overflow.
NEGLIGIBLE = 2.0**-200


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


def weight_factor(largest: float) -> float:
    """Return the power of two that weights are multiplied by, given the largest one.

    It is 1 unless sums of the weights or of their squares may overflow or underflow.
    """
    exponent = int(np.frexp(largest)[1])
    return 2.0 ** (min(max(exponent, -LARGEST_EXPONENT), LARGEST_EXPONENT) - exponent)


def check_weight_range(low: Any, high: Any) -> None:
    """Raise ValueError for weights that are negative, not finite or all zero."""
    if not (low >= 0 and 0 < high < np.inf):
        raise ValueError(
            "sample_weight must be non-negative, finite and not all zero, got weights "
            f"in [{low:.3g}, {high:.3g}]. Use a weight of zero to ignore a sample."
        )
