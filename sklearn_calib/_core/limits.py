"""The limits of probabilities and weights, for arrays of any library."""

from typing import Any

import numpy as np

# Rows that float32 softmax wrote sum to one only to about 1e-6; printed and rounded
# probabilities to about 1e-4. The bound is the square root of float32's resolution.
ROW_SUM_TOLERANCE = 3.5e-4

# Rows that a softmax in half precision wrote sum to one to about two of its eps, those
# of a sum in half precision to n_classes * eps; a row that is 1 % off is no rounding.
HALF_EPS, LARGEST_TOLERANCE = float(np.finfo(np.float16).eps), 0.01

# The largest weight is kept within 2 to the power of minus and plus this: sums of
# weights and of their squares are far from overflow then, and what counts repetitions
# is at its limit.
LARGEST_EXPONENT = 100


def check_range(
    low: Any, high: Any, name: str, tolerance: float = ROW_SUM_TOLERANCE
) -> None:
    """Refuse values that are not finite, or outside of [0, 1] by more than rounding."""
    if low >= -tolerance and high <= 1 + tolerance:
        return
    if not (np.isfinite(low) and np.isfinite(high)):
        found = "NaN" if np.isnan(low) else "infinity"
        raise ValueError(
            f"{name} must be finite, got {found}. Remove or repair those samples."
        )
    raise ValueError(
        f"{name} must lie in [0, 1], got values in [{low:.6g}, {high:.6g}]. "
        "Pass probabilities, not logits."
    )


def rounding_tolerance(n_classes: int, eps: Any) -> float:
    """Return how far values of a precision may be outside, and row sums from one."""
    return max(ROW_SUM_TOLERANCE, min(n_classes * float(eps), LARGEST_TOLERANCE))


def check_row_sums(
    low: Any, high: Any, name: str, tolerance: float = ROW_SUM_TOLERANCE
) -> None:
    """Refuse rows that do not sum to one, given the least and the largest sum."""
    if low < 1 - tolerance or high > 1 + tolerance:
        worst = low if 1 - low > high - 1 else high
        raise ValueError(
            f"{name} must have rows that sum to one within {tolerance:.2g}, got "
            f"a row that sums to {worst:.6g}. Divide each row by its sum, or pass one "
            "binary problem at a time if several labels may be true at once."
        )


def weight_factor(largest: float) -> float:
    """Return the power of two to multiply weights by, of which this is the largest.

    It is 1 unless their sums, or sums of their squares, might overflow or underflow.
    """
    exponent = int(np.frexp(largest)[1])
    return 2.0 ** (min(max(exponent, -LARGEST_EXPONENT), LARGEST_EXPONENT) - exponent)


def check_weight_range(low: Any, high: Any) -> None:
    """Refuse negative weights, what is not finite, and zeros only."""
    if not (low >= 0 and 0 < high < np.inf):
        raise ValueError(
            "sample_weight must be non-negative, finite and not all zero, got weights "
            f"in [{low:.3g}, {high:.3g}]. Leave out samples by a weight of zero."
        )
