"""Maximum likelihood fit of a temperature: Newton's method in blocks of rows."""

import itertools
import math
import sys
from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sklearn_calib._numerics.sample_blocks import KEPT_SIZE, Blocks, array_blocks
from sklearn_calib._numerics.softmax import TRANSPOSE_BELOW, softmax
from sklearn_calib._validation.fit_warnings import warn
from sklearn_calib._validation.samples import effective_n_samples
from sklearn_calib._validation.types import Floats, Ints

# Largest change of log(1 / T) in one step.
MAX_STEP = 3.0


def fit_temperature(data: Blocks) -> float:
    """Return the T > 0 that minimises the NLL of softmax(logits / T).

    Let the distance of a logit be that to the largest logit of the row. The NLL is
    minimal where the expected mean distance under softmax(logits / T) is equal to the
    mean distance of the true classes. As T decreases from infinity to 0, the expected
    distance decreases from the mean of all distances to 0.

    Parameters
    ----------
    data : Blocks
        Blocks of finite logits in float32 or float64. Exponentials are computed in this
        dtype, sums over the samples in float64.

    Returns
    -------
    temperature : float
        Finite and positive. It is proportional to the scale of the logits.

    Warns
    -----
    ConvergenceWarning
        If the optimum is 0 (all true classes have the largest logit), infinite (the
        mean distance of the true classes is not below the mean of all distances) or
        arbitrary (all logits of each row are equal).

    Notes
    -----
    If the optimum is 0 or infinite, T is chosen such that the expected distance is 1 /
    (n + 1) or n / (n + 1) times the mean of all distances, where n is the number of
    samples or the sum of their weights. This bound becomes weaker with more data.
    """
    temperature, optimum = bounded_temperature(data)
    warn_of_bound(temperature, optimum)
    return temperature


def warn_of_bound(temperature: float, optimum: str | None) -> None:
    """Warn if the temperature is a bound, given a description of the optimum."""
    if optimum is not None:
        warn(
            f"The temperature with the smallest log loss is {optimum}; it was set to "
            f"{temperature:.3g}. Calibrate with more samples, use held-out data "
            "instead of the training data, and check the order of the columns.",
            ConvergenceWarning,
        )


def bounded_temperature(data: Blocks) -> tuple[float, str | None]:
    """Return the temperature, and a description of the optimum if it is a bound."""
    distances = _measure_distances(data)
    if distances.every == 0:
        return 1.0, "arbitrary, as all logits of each row are equal"
    target, optimum = distance_target(distances.true, distances.every, data.weight_sum)
    return 1 / _find_inverse(data, distances, target), optimum


def distance_target(
    true_distance: float, mean_distance: float, n_samples: float
) -> tuple[float, str | None]:
    """Return the expected distance to reach, and the optimum in words if a bound."""
    if 0 < true_distance < mean_distance:
        return true_distance, None
    is_perfect = true_distance <= 0
    target = mean_distance * (1 if is_perfect else n_samples) / (n_samples + 1)
    if is_perfect:
        return target, "0, as the true class has the largest logit in every row"
    optimum = "infinite, as the logits of the true classes are not larger than others"
    return target, optimum


class _Distances(NamedTuple):
    """Mean distance of the true classes and of all classes, and an initial 1 / T.

    `tops` contains the largest logit of each row, by blocks, unless there are too many.
    """

    true: float
    every: float
    inverse: float
    is_double: bool
    tops: list[Floats] | None


def _measure_distances(data: Blocks) -> _Distances:
    """Return the mean distances, and a 1 / T estimated from at most a thousand rows.

    For small 1 / T, the expected distance is the mean distance minus the variance times
    1 / T.
    """
    true_sum = every_sum = 0.0
    stride, n_read, sample = data.n_samples // 1000 + 1, 0, []
    tops: list[Floats] | None = [] if data.n_samples <= KEPT_SIZE else None
    for logits, codes, weight in data:
        columns = _columns(logits)
        top = columns.max(axis=0)
        true_sum += float(weight @ (top - logits[np.arange(len(codes)), codes]))
        average = np.full(len(columns), 1 / len(columns), dtype=logits.dtype)
        every_sum += float(weight @ (average @ (top - columns)))
        # Copied, as a view would keep the whole block.
        sample.append(logits[-n_read % stride :: stride].copy())
        n_read += len(logits)
        if tops is not None:
            tops.append(top)
    rows = np.concatenate(sample)
    del sample
    true, every = true_sum / data.weight_sum, every_sum / data.weight_sum
    rows /= every or 1.0
    variance = float(rows.var(axis=1).mean()) or 1.0
    inverse = 1 / (every * variance) if every else 1.0
    is_double = rows.dtype == np.float64
    return _Distances(true, every, inverse, is_double, tops)


def _find_inverse(data: Blocks, distances: _Distances, target: float) -> float:
    """Return the 1 / T at which the expected distance is `target`.

    The logarithm of the distance is nearly linear in log(1 / T), so Newton's method
    needs three to five steps. A step that leaves the bracket is replaced by a
    bisection.
    """
    # The error after a Newton step is about the square of its size.
    tolerance = 1e-6 if distances.is_double else 1e-4
    low, high, inverse = 0.0, math.inf, distances.inverse
    for _ in range(100):
        distance, variance = _expected_distance(data, distances.tops, inverse)
        # If the exponentials underflow, T is much too small.
        excess = math.log(distance / (target * inverse)) if distance > 0 else -math.inf
        if min(distance, variance) > 0:
            step = excess * distance / variance
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
        # T stays finite even if n / (n + 1) is rounded to 1.
        inverse = max(inverse, sys.float_info.min)
    return inverse


def _expected_distance(
    data: Blocks, tops: list[Floats] | None, inverse: float
) -> tuple[float, float]:
    """Return mean distance and variance under softmax(logits / T), in units of T."""
    distance_sum = variance_sum = 0.0
    every_top = itertools.repeat(None) if tops is None else tops
    for (logits, _, weight), top in zip(data, every_top, strict=False):
        mean, variance = row_distances(logits, inverse, top)
        distance_sum += float(weight @ mean)
        variance_sum += float(weight @ variance)
    return distance_sum / data.weight_sum, variance_sum / data.weight_sum


def row_distances(
    logits: Floats, inverse: float | Floats, top: Floats | None = None
) -> tuple[Floats, Floats]:
    """Return the expected distance and its variance of each row, in units of T."""
    columns = _columns(logits)
    scaled = np.subtract(columns, columns.max(axis=0) if top is None else top)
    scaled *= inverse
    exponential = np.exp(scaled)
    ones = np.ones(len(columns), dtype=logits.dtype)
    total = ones @ exponential
    exponential *= scaled
    mean = ones @ exponential / total
    variance = np.einsum("ij,ij->j", exponential, scaled) / total - mean**2
    return -mean, variance


def _columns(logits: Floats) -> Floats:
    """Return the transposed block, copied if this makes sums over columns faster."""
    order: Literal["C", "K"] = "C" if logits.shape[1] < TRANSPOSE_BELOW else "K"
    return np.asarray(logits.T, order=order)


def fit_refinement(
    values: Floats,
    codes: Ints,
    weight: Floats,
    as_logits: Callable[[Floats], Floats] = lambda logits: logits,
) -> Callable[[Floats], Floats]:
    """Return the function from values to temperature-scaled probabilities.

    They are mixed with the uniform distribution. `as_logits` computes logits of rows.
    """
    weight = weight * (effective_n_samples(weight) / weight.sum())
    data = array_blocks(values, codes, weight).transform(as_logits).kept()
    temperature, _ = bounded_temperature(data)
    epsilon = 1 / (weight.sum() + 1)

    def scale(values: Floats) -> Floats:
        proba = softmax(as_logits(values) / temperature)
        proba *= 1 - epsilon
        proba += epsilon / values.shape[1]
        return proba

    return scale
