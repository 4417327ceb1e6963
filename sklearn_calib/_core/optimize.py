"""Maximum likelihood fit of a temperature: Newton's method in blocks of rows."""

import math
import warnings
from typing import Any, Literal

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sklearn_calib._core.typing import Floats, Ints, Weights
from sklearn_calib._core.validation import row_blocks

# For fewer columns, sums are faster along the other axis, with a copy of the block.
FEW_COLUMNS = 64

# Largest change of log(1 / T) in one step.
MAX_STEP = 3.0

# Values between 2**-10 and 2**10 are not rescaled.
ORDINARY = 10


def fit_temperature(
    logits: Floats, codes: Ints, sample_weight: Weights = None
) -> float:
    """Return the T > 0 that minimises the NLL of softmax(logits / T).

    Let the gap of a logit be its distance to the largest logit of the row. The NLL is
    minimal where the expected mean gap under softmax(logits / T) is equal to the mean
    gap of the true classes. As T decreases from infinity to 0, the expected gap
    decreases from the mean of all gaps to 0.

    Parameters
    ----------
    logits : ndarray of shape (n_samples, n_classes)
        Finite logits in float32 or float64. Exponentials are computed in this dtype,
        sums over the samples in float64.

    codes : ndarray of shape (n_samples,)
        Column index of the true class.

    sample_weight : ndarray of shape (n_samples,), default=None
        Non-negative weights. A weight of 2 counts as two samples.

    Returns
    -------
    temperature : float
        Finite and positive. It is proportional to the scale of the logits.

    Warns
    -----
    ConvergenceWarning
        If the optimum is 0 (all true classes have the largest logit), infinite (the
        mean gap of the true classes is not below the mean of all gaps) or arbitrary
        (all logits of each row are equal).

    Notes
    -----
    If the optimum is 0 or infinite, T is chosen such that the expected gap is 1 / (n +
    1) or n / (n + 1) times the mean of all gaps, where n is the number of samples or
    the sum of their weights. This bound becomes weaker with more data.
    """
    temperature, optimum = bounded_temperature(logits, codes, sample_weight)
    if optimum is not None:
        warnings.warn(
            f"The temperature with the smallest log loss is {optimum}; it was set to "
            f"{temperature:.3g}. Calibrate with more samples, use held-out data "
            "instead of the training data, and check the order of the columns.",
            ConvergenceWarning,
        )
    return temperature


def bounded_temperature(
    logits: Floats, codes: Ints, sample_weight: Weights = None
) -> tuple[float, str | None]:
    """Return the temperature, and a description of the optimum if it is a bound."""
    weight = np.ones(len(logits)) if sample_weight is None else sample_weight
    n_samples = weight.sum()
    top, mean_gap = _row_tops(logits, weight)
    true_gap = weight @ (top - logits[np.arange(len(logits)), codes]) / n_samples
    if mean_gap == 0:
        return 1.0, "arbitrary, as all logits of each row are equal"
    start = _guess_inverse(logits, mean_gap)
    if 0 < true_gap < mean_gap:
        return 1 / _find_inverse(logits, top, weight, true_gap, start), None
    is_perfect = true_gap <= 0
    target = mean_gap * (1 if is_perfect else n_samples) / (n_samples + 1)
    temperature = 1 / _find_inverse(logits, top, weight, target, start)
    if is_perfect:
        return temperature, "0, as the true class has the largest logit in every row"
    optimum = "infinite, as the logits of the true classes are not larger than others"
    return temperature, optimum


def magnitude(values: Floats) -> float:
    """Return the power of two next to the largest absolute value; 1 for usual values.

    Dividing by it is exact, and prevents overflow and underflow of squares.
    """
    exponent = math.frexp(max(values.max(), -values.min()))[1] - 1
    return 1.0 if abs(exponent) <= ORDINARY else math.ldexp(1.0, exponent)


def _row_tops(logits: Floats, weight: Floats) -> tuple[Floats, float]:
    """Return the largest logit of each row, and the mean of all gaps."""
    top = np.empty(len(logits), dtype=logits.dtype)
    gap_sum: Any = 0.0
    average = np.full(logits.shape[1], 1 / logits.shape[1], dtype=logits.dtype)
    for rows in row_blocks(*logits.shape):
        columns = np.asarray(logits[rows].T, order=_order(logits))
        top[rows] = columns.max(axis=0)
        gap_sum += weight[rows] @ (average @ (top[rows] - columns))
    return top, float(gap_sum / weight.sum())


def _guess_inverse(logits: Floats, mean_gap: float) -> float:
    """Return the initial 1 / T, estimated from at most a thousand rows.

    For small 1 / T, the expected gap is `mean_gap` minus the variance times 1 / T.
    """
    sample = logits[:: len(logits) // 1000 + 1] / mean_gap
    return 1 / (mean_gap * float(sample.var(axis=1).mean() or 1))


def _find_inverse(
    logits: Floats, top: Floats, weight: Floats, target: float, inverse: float
) -> float:
    """Return the 1 / T at which the expected gap is `target`.

    The logarithm of the gap is nearly linear in log(1 / T), so Newton's method needs
    three to five steps. A step that leaves the bracket is replaced by a bisection.
    """
    # The error after a Newton step is about the square of its size.
    tolerance = 1e-6 if logits.dtype == np.float64 else 1e-4
    low, high = 0.0, math.inf
    for _ in range(100):
        gap, variance = _expected_gap(logits, top, weight, inverse)
        # If the exponentials underflow, T is much too small.
        excess = math.log(gap / (target * inverse)) if gap > 0 else -math.inf
        if min(gap, variance) > 0:
            step = excess * gap / variance
        else:
            step = math.copysign(MAX_STEP, excess)
        if excess > 0:
            low = inverse
        else:
            high = inverse
        candidate = inverse * math.exp(min(max(step, -MAX_STEP), MAX_STEP))
        if abs(step) < tolerance:
            return candidate
        inside = low < candidate < high
        inverse = candidate if inside else math.sqrt(low * high)
    return inverse


def _expected_gap(
    logits: Floats, top: Floats, weight: Floats, inverse: float
) -> tuple[float, float]:
    """Return the mean gap and its variance under softmax(logits / T), in units of T."""
    gap_sum: Any = 0.0
    variance_sum: Any = 0.0
    ones = np.ones(logits.shape[1], dtype=logits.dtype)
    for rows in row_blocks(*logits.shape):
        scaled = np.subtract(logits[rows].T, top[rows], order=_order(logits))
        scaled *= inverse
        exponential = np.exp(scaled)
        total = ones @ exponential
        exponential *= scaled
        mean = ones @ exponential / total
        variance = np.einsum("ij,ij->j", exponential, scaled) / total - mean**2
        gap_sum -= weight[rows] @ mean
        variance_sum += weight[rows] @ variance
    return gap_sum / weight.sum(), variance_sum / weight.sum()


def _order(logits: Floats) -> Literal["C", "K"]:
    """Return the memory order of a transposed block."""
    return "C" if logits.shape[1] < FEW_COLUMNS else "K"
