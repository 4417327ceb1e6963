"""Where accuracies may lie, by chance alone: around estimates, or calibrated ones."""

from numbers import Integral
from typing import NamedTuple

import numpy as np
from scipy.stats import beta
from sklearn.utils import check_random_state

from sklearn_calib._core.inputs import BETWEEN_0_AND_1
from sklearn_calib._core.validation import Interval

# What `validate_params` checks, for the parameters that bands share.
BANDS = {
    "confidence_level": BETWEEN_0_AND_1,
    "n_resamples": [Interval(Integral, 1, None, closed="left")],
    "random_state": ["random_state"],
}
# Confidences are drawn for as if those in the same of so many cells were equal.
N_CELLS = 2**12


class Groups(NamedTuple):
    """Samples of the same bin and of nearly the same confidence."""

    bin: np.ndarray  # of ints
    place: np.ndarray  # mean confidence
    mass: np.ndarray  # sum of weights
    hits: np.ndarray  # sum of the weights of hits
    n_samples: np.ndarray  # effective number of samples, a whole one from 1 on


def group_samples(confidence, hit, weight, bins=0):
    """Return the `Groups` of samples; `bins` (n_samples,) are kept apart."""
    weight = np.ones(len(hit)) if weight is None else weight
    seen = weight > 0
    cell = np.rint(confidence * N_CELLS).astype(np.intp)
    key, group = np.unique((bins * (N_CELLS + 1) + cell)[seen], return_inverse=True)
    summands = weight, weight * confidence, weight * hit
    mass, place, hits = (np.bincount(group, each[seen]) for each in summands)
    count = effective_counts(weight[seen], group, len(mass))
    count = np.maximum(1, np.rint(count)).astype(np.intp)
    # Rounding may leave the unit interval.
    place, hits = np.minimum(place / mass, 1), np.minimum(hits, mass)
    return Groups(key // (N_CELLS + 1), place, mass, hits, count)


def draw_calibrated(groups, n_draws, random_state):
    """Return hits (n_draws, n_groups), drawn from the confidences themselves."""
    shape = n_draws, len(groups.place)
    hits = check_random_state(random_state).binomial(
        groups.n_samples, groups.place, shape
    )
    return hits * (groups.mass / groups.n_samples)


def draw_bootstrap(groups, n_draws, random_state):
    """Return masses and hits (n_draws, n_groups), of samples drawn with replacement."""
    accuracy = groups.hits / groups.mass
    parts = np.concatenate(
        [groups.n_samples * accuracy, groups.n_samples * (1 - accuracy)]
    )
    rng = check_random_state(random_state)
    drawn = rng.multinomial(groups.n_samples.sum(), parts / parts.sum(), n_draws)
    hits, misses = np.split(drawn, 2, axis=1)
    unit = groups.mass / groups.n_samples
    return (hits + misses) * unit, hits * unit


def pointwise_band(draws, confidence_level):
    """Return the ends (2, n_points) of the middle of draws (n_draws, n_points)."""
    tail = (1 - confidence_level) / 2
    low = np.nanquantile(draws, tail, axis=0, method="lower")
    return np.array([low, np.nanquantile(draws, 1 - tail, axis=0, method="higher")])


def effective_counts(weight, bins, n_bins):
    """Return how many samples of equal weights are as informative, in each bin."""
    largest = np.zeros(n_bins)
    np.maximum.at(largest, bins, weight)
    # Small weights by themselves have squares that vanish.
    share = weight / np.where(largest > 0, largest, 1)[bins]
    square = np.bincount(bins, share**2, n_bins)
    mass = np.bincount(bins, share, n_bins)
    return np.divide(mass**2, square, out=np.zeros(n_bins), where=mass > 0)


def clopper_pearson(accuracy, count, confidence_level):
    """Return the ends (2, n_bins) of the exact intervals; nan without samples."""
    tail = (1 - confidence_level) / 2
    # What rounding leaves of no hits or no misses is none.
    hits, misses = np.round([accuracy * count, (1 - accuracy) * count], 9)
    low = np.where(hits > 0, beta.ppf(tail, hits, misses + 1), 0.0)
    high = np.where(misses > 0, beta.ppf(1 - tail, hits + 1, misses), 1.0)
    return np.where(count > 0, [low, high], np.nan)


def bin_band(interval, accuracy, samples, bins, *, confidence_level, **draws):
    """Return the band (2, n_bins) of bins, or None; `samples` as `group_samples`'."""
    if interval is None:
        return None
    n_bins, weight = len(accuracy), samples[2]
    if interval == "clopper-pearson":
        weight = np.ones(len(bins)) if weight is None else weight
        count = effective_counts(weight, bins, n_bins)
        return clopper_pearson(accuracy, count, confidence_level)
    groups = group_samples(*samples, bins)
    hits = draw_calibrated(groups, draws["n_resamples"], draws["random_state"])
    filled, starts = np.unique(groups.bin, return_index=True)
    band = np.full((2, n_bins), np.nan)
    drawn = np.add.reduceat(hits, starts, axis=1)
    mass = np.add.reduceat(groups.mass, starts)
    band[:, filled] = pointwise_band(drawn / mass, confidence_level)
    return band
