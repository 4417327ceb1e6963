"""Confidence and consistency bands of reliability diagrams."""

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import coo_array
from scipy.special import ndtri
from scipy.stats import beta, rankdata
from sklearn.utils import check_random_state

from sklearn_calib._validation.types import Array, Floats, Ints, Seed, Weights

# Confidences in the same cell of a grid of this size are treated as equal in draws.
N_CELLS = 2**12

# Kinds of intervals from draws of a calibrated classifier.
SIMULTANEOUS = "simultaneous"
CONSISTENCY = {"consistency", SIMULTANEOUS}
# Intervals of the bins of a reliability diagram.
BIN_INTERVALS = {"clopper-pearson", *CONSISTENCY}


class Groups(NamedTuple):
    """Sums over samples of the same bin and nearly the same confidence."""

    bin: np.ndarray  # of ints
    place: np.ndarray  # mean confidence
    mass: np.ndarray  # sum of weights
    n_correct: np.ndarray  # sum of the weights of correct predictions
    n_samples: np.ndarray  # effective number of samples, an int of at least 1
    # `mass` and `n_correct` of each cluster (n_clusters, n_groups), if there are any
    of_clusters: Any = None


def group_samples(
    confidence: Floats,
    correct: Array,
    weight: Weights,
    bins: Any = 0,
    clusters: Ints | None = None,
) -> Groups:
    """Return the `Groups` of the samples; no group spans two `bins` (n_samples,)."""
    weight = np.ones(len(correct)) if weight is None else weight
    seen = weight > 0
    cell = np.rint(confidence * N_CELLS).astype(np.intp)
    key, group = np.unique((bins * (N_CELLS + 1) + cell)[seen], return_inverse=True)
    summands = weight, weight * confidence, weight * correct
    mass, place, n_correct = (np.bincount(group, each[seen]) for each in summands)
    count = effective_counts(weight[seen], group, len(mass))
    count = np.maximum(1, np.rint(count)).astype(np.intp)
    # Rounding errors may exceed the bounds.
    place, n_correct = np.minimum(place / mass, 1), np.minimum(n_correct, mass)
    of_clusters = None
    if clusters is not None:
        at, shape = (clusters[seen], group), (clusters.max() + 1, len(mass))
        of_clusters = [
            coo_array((each[seen], at), shape).tocsr()
            for each in (weight, weight * correct)
        ]
    return Groups(key // (N_CELLS + 1), place, mass, n_correct, count, of_clusters)


def draw_calibrated(groups: Groups, n_draws: int, random_state: Seed) -> Array:
    """Draw outcomes from the confidences; return `n_correct` (n_draws, n_groups)."""
    shape = n_draws, len(groups.place)
    n_correct = check_random_state(random_state).binomial(
        groups.n_samples, groups.place, shape
    )
    return n_correct * (groups.mass / groups.n_samples)


def draw_bootstrap(
    groups: Groups, n_draws: int, random_state: Seed
) -> tuple[Array, Array]:
    """Draw samples, or clusters, with replacement.

    Return `mass`, `n_correct` (n_draws, n_groups).
    """
    if groups.of_clusters is not None:
        mass, n_correct = groups.of_clusters
        n_clusters = mass.shape[0]
        times = check_random_state(random_state).multinomial(
            n_clusters, np.full(n_clusters, 1 / n_clusters), n_draws
        )
        return times @ mass, times @ n_correct
    accuracy = groups.n_correct / groups.mass
    parts = np.concatenate(
        [groups.n_samples * accuracy, groups.n_samples * (1 - accuracy)]
    )
    rng = check_random_state(random_state)
    drawn = rng.multinomial(groups.n_samples.sum(), parts / parts.sum(), n_draws)
    n_correct, n_wrong = np.split(drawn, 2, axis=1)
    unit = groups.mass / groups.n_samples
    return (n_correct + n_wrong) * unit, n_correct * unit


def pointwise_band(draws: Floats, confidence_level: float) -> Floats:
    """Return the quantile band (2, n_points) of draws (n_draws, n_points)."""
    tail = (1 - confidence_level) / 2
    # Much faster for many points, and equal without NaN.
    quantile = np.nanquantile if np.isnan(draws).any() else np.quantile
    low = quantile(draws, tail, axis=0, method="lower")
    return np.array([low, quantile(draws, 1 - tail, axis=0, method="higher")])


def simultaneous_band(draws: Floats, confidence_level: float) -> Floats:
    """Return the band (2, n_points) that whole draws (n_draws, n_points) do not leave.

    It consists of quantiles with the same tail at all points. At most the fraction `1 -
    confidence_level` of the draws leaves or touches it. If all draws would have to be
    within it, the tail is smaller than that of a single draw, and the band is as much
    wider as for normal distributions.
    """
    n_draws = len(draws)
    # A draw is within the band if its depth, the rank from below or above where it is
    # most extreme, is at least the number of the order statistic.
    from_below = rankdata(draws, method="max", axis=0).min(axis=1)
    from_above = n_draws + 1 - rankdata(draws, method="min", axis=0).max(axis=1)
    depth = np.sort(np.minimum(from_below, from_above))
    number = int(depth[int((1 - confidence_level) * n_draws + 1e-9)]) - 1
    ordered, at = np.sort(draws, axis=0), max(number, 1)
    band = ordered[[at - 1, n_draws - at]]
    if number == 0:
        # The probability that a draw is within, as a power of the tail.
        is_within = (1 + (depth > 1).sum()) / (n_draws + 1)
        tail = np.log(confidence_level) / np.log(is_within) / (n_draws + 1)
        center = draws.mean(axis=0)
        ratio = ndtri(tail) / ndtri(1 / (n_draws + 1))
        band = np.clip(center + ratio * (band - center), 0, 1)
    return band


def consistency_band(draws: Floats, interval: str, confidence_level: float) -> Floats:
    """Return the band (2, n_points) of draws of a calibrated classifier."""
    is_whole = interval == SIMULTANEOUS
    function = simultaneous_band if is_whole else pointwise_band
    return function(draws, confidence_level)


def effective_counts(weight: Floats, bins: Ints, n_bins: int) -> Floats:
    """Return the effective number of samples in each bin, by Kish's formula."""
    largest = np.zeros(n_bins)
    np.maximum.at(largest, bins, weight)
    # The squares of small weights would underflow, so the weights are scaled first.
    scaled = weight / np.where(largest > 0, largest, 1)[bins]
    square = np.bincount(bins, scaled**2, n_bins)
    mass = np.bincount(bins, scaled, n_bins)
    return np.divide(mass**2, square, out=np.zeros(n_bins), where=mass > 0)


def counts_of_clusters(
    correct: Array, weight: Floats, bins: Ints, clusters: Ints, accuracy: Floats
) -> Floats:
    """Return the number of independent samples with the variance of each accuracy.

    It is between 1 and the effective number of samples. A variance of zero is unknown,
    so the number is then that of the clusters.
    """
    n_bins = len(accuracy)
    pairs, pair = np.unique(bins + n_bins * clusters, return_inverse=True)
    residual = weight * (correct - np.nan_to_num(accuracy)[bins])
    sums, masses = np.bincount(pair, residual), np.bincount(pair, weight)
    of_pair = pairs % n_bins
    n_clusters = effective_counts(masses.astype(float), of_pair, n_bins)
    square = np.bincount(of_pair, sums**2, n_bins) / (1 - 1 / np.maximum(n_clusters, 2))
    mass = np.bincount(bins, weight, n_bins)
    spread = mass**2 * accuracy * (1 - accuracy)
    # The residuals of a bin with a single cluster sum to zero, up to rounding errors.
    is_known = square > 1e-12 * mass**2
    count = np.divide(spread, square, out=n_clusters.copy(), where=is_known)
    most = effective_counts(weight, bins, n_bins)
    return np.clip(count, np.minimum(n_clusters, 1), most)


def clopper_pearson(accuracy: Floats, count: Floats, confidence_level: float) -> Floats:
    """Return the exact Clopper-Pearson intervals (2, n_bins); nan in empty bins."""
    tail = (1 - confidence_level) / 2
    # A count that differs from 0 only by rounding errors is 0.
    n_correct, n_wrong = np.round([accuracy * count, (1 - accuracy) * count], 9)
    low = np.where(n_correct > 0, beta.ppf(tail, n_correct, n_wrong + 1), 0.0)
    high = np.where(n_wrong > 0, beta.ppf(1 - tail, n_correct + 1, n_wrong), 1.0)
    return np.where(count > 0, [low, high], np.nan)


def bin_band(
    interval: str | None,
    accuracy: Floats,
    samples: tuple[Floats, Array, Weights],
    bins: Ints,
    *,
    clusters: Ints | None,
    confidence_level: float,
    **draws: Any,
) -> Floats | None:
    """Return the band (2, n_bins) or None; `samples` are as in `group_samples`."""
    if interval is None:
        return None
    n_bins, weight = len(accuracy), samples[2]
    if interval == "clopper-pearson":
        weight = np.ones(len(bins)) if weight is None else weight
        count = effective_counts(weight, bins, n_bins)
        if clusters is not None:
            outcome = samples[1], weight
            count = counts_of_clusters(*outcome, bins, clusters, accuracy)
        return clopper_pearson(accuracy, count, confidence_level)
    groups = group_samples(*samples, bins)
    return band_of_groups(groups, n_bins, interval, confidence_level, **draws)


def band_of_groups(
    groups: Groups,
    n_bins: int,
    interval: str,
    confidence_level: float,
    *,
    n_resamples: int,
    random_state: Seed,
) -> Floats:
    """Return the consistency band (2, n_bins) of sorted bins; nan in empty bins."""
    n_correct = draw_calibrated(groups, n_resamples, random_state)
    filled, starts = np.unique(groups.bin, return_index=True)
    band = np.full((2, n_bins), np.nan)
    drawn = np.add.reduceat(n_correct, starts, axis=1)
    mass = np.add.reduceat(groups.mass, starts)
    band[:, filled] = consistency_band(drawn / mass, interval, confidence_level)
    return band
