"""The gaps of bins, of one probability or of each class, and noise like theirs."""

from typing import NamedTuple

import numpy as np

from sklearn_calib._core.binning import bin_index, class_gap_norm, parting_edges
from sklearn_calib._core.inputs import (
    as_columns,
    confidence_and_hit,
    effective_n_samples,
    resolve_n_bins,
)
from sklearn_calib._core.validation import check_proba, row_blocks

# The gaps of classes are correlated as over so many groups of samples, or fewer where
# there are many cells.
N_GROUPS, GROUP_SUMS = 1000, 1_000_000


class Gaps(NamedTuple):
    """Sums over the samples of each bin, (n_columns, n_bins) each."""

    mass: np.ndarray
    gap: np.ndarray
    standard_error: np.ndarray
    pattern: np.ndarray  # (n_groups, n_columns * n_bins), what noise is made of

    def draw_noise(self, n_draws, rng):
        """Draw noise of the bins with the variance 1."""
        noise = rng.standard_normal((n_draws, self.gap.size))
        if len(self.gap) > 1:
            common = rng.standard_normal((n_draws, len(self.pattern))) @ self.pattern
            noise = np.where(self.pattern.any(axis=0), common, noise)
        return noise.reshape(n_draws, *self.gap.shape)

    def error(self, gap, norm):
        """Return the error of other gaps than these."""
        return class_gap_norm(self.mass, gap, norm)


def judged(proba, codes, mode):
    """Return the probabilities that are judged and their hits, a column per class."""
    if mode == "classwise":
        values = check_proba(as_columns(proba))
        return values, codes[:, None] == np.arange(values.shape[1])
    confidence, hit = confidence_and_hit(proba, codes, mode)
    return confidence[:, None], hit[:, None]


def bin_cells(values, weight, n_bins, strategy):
    """Return the number of each value's bin, and the shape of the table of bins."""
    n_bins = resolve_n_bins(n_bins, len(values), weight)
    options = {"n_bins": n_bins, "strategy": strategy, "sample_weight": weight}
    edges = [parting_edges(column, **options) for column in values.T]
    indices = [bin_index(*pair) for pair in zip(values.T, edges, strict=True)]
    n_bins = max(map(len, edges)) + 1
    first = n_bins * np.arange(len(indices))
    return np.stack(indices, axis=1) + first, (len(indices), n_bins)


def cell_sums(cells, summand, shape):
    """Sum over the samples in each bin of each column."""
    summand = np.broadcast_to(summand, cells.shape)
    return np.bincount(cells.ravel(), summand.ravel(), np.prod(shape)).reshape(shape)


def gaps(values, hit, weight, cells, shape):
    """Return the `Gaps`, and what draws noise like that of them."""
    mass = cell_sums(cells, weight[:, None], shape)
    deviation = weight[:, None] * (values - hit)
    gap = cell_sums(cells, deviation, shape)
    variance = cell_sums(cells, deviation**2, shape)
    variance -= gap**2 / effective_n_samples(weight)
    # A bin whose few samples are all hits has seen no variance, but there is some.
    if_calibrated = weight[:, None] ** 2 * values * (1 - values)
    variance = np.maximum(variance, cell_sums(cells, if_calibrated, shape))
    # Samples of one confidence are dealt to different groups, in any order of rows.
    keys = weight, hit.argmax(axis=1), values[:, 0], values.max(axis=1)
    order = np.lexsort(keys)
    pattern = _pattern(deviation[order], cells[order], gap.size, weight.mean())
    return Gaps(mass, gap, np.sqrt(variance), pattern)


def _pattern(deviation, cells, n_cells, unit):
    """Return the sums of groups of samples, less their mean, each cell of variance 1.

    Their products with normal variables are as correlated as the gaps of the cells.
    """
    n_groups = min(len(cells), N_GROUPS, max(50, GROUP_SUMS // n_cells))
    first = n_cells * (np.arange(len(cells)) % n_groups)
    sums = np.bincount(
        (cells + first[:, None]).ravel(), deviation.ravel(), n_groups * n_cells
    ).reshape(n_groups, n_cells)
    sums -= sums.mean(axis=0)
    size = np.sqrt((sums**2).sum(axis=0))
    return sums / np.where(size > 1e-12 * unit, size, np.inf)


def _draw_hits(n_draws, values, weight, cells, shape, rng):
    """Draw the true classes from the probabilities, and sum the hits in each bin."""
    n_samples, n_columns = values.shape
    # One column is hit or missed, of several exactly one is hit.
    thresholds = values.cumsum(axis=1)[:, : max(1, n_columns - 1)]
    uniform = rng.random_sample((n_draws, n_samples))
    drawn = np.zeros(uniform.shape, dtype=np.int64)
    for threshold in thresholds.T:
        drawn += uniform >= threshold
    n_cells = np.prod(shape)
    cell_or_miss = np.column_stack([cells, np.full(n_samples, n_cells)])
    hit = cell_or_miss[np.arange(n_samples), drawn]
    hit += (n_cells + 1) * np.arange(n_draws)[:, None]
    sums = np.bincount(
        hit.ravel(),
        np.broadcast_to(weight, hit.shape).ravel(),
        n_draws * (n_cells + 1),
    )
    return sums.reshape(n_draws, -1)[:, :-1].reshape(n_draws, *shape)


def ends_of_mean(gaps, norm, n_resamples, tail, rng):
    """Return the error that noise makes, and an interval for a mean of the gaps."""
    _, gap, standard_error, pattern = gaps
    clear_gap = np.where(np.abs(gap) > 2 * standard_error, gap, 0)
    # So far from zero that the noise adds no bias, only spread.
    # Gaps of zero go the ways that noise would take them, whose classes sum to zero.
    moved = gap + 1e-9 * standard_error * pattern[0].reshape(gap.shape)
    far_gap = gap + np.where(moved < 0, -4, 4) * standard_error
    observed = gaps.error(gap, norm)
    spread, excess, null = np.empty((3, n_resamples))
    for draws in row_blocks(n_resamples, gap.size):
        noise = standard_error * gaps.draw_noise(draws.stop - draws.start, rng)
        spread[draws] = gaps.error(far_gap + noise, norm)
        excess[draws] = gaps.error(clear_gap + noise, norm)
        null[draws] = gaps.error(noise, norm)
    excess -= gaps.error(clear_gap, norm)
    low = observed - np.quantile(excess, 1 - tail)
    return null, low, observed + spread.mean() - np.quantile(spread, tail)


def ends_of_largest(gaps, n_resamples, tail, rng):
    """Return an interval for the largest gap, from bands that hold all at once."""
    mass, gap, standard_error, _ = gaps
    largest, noisiest = np.empty((2, n_resamples))
    for draws in row_blocks(n_resamples, gap.size):
        noise = gaps.draw_noise(draws.stop - draws.start, rng)
        noisiest[draws] = np.abs(noise[:, mass > 0]).max(axis=1)
        largest[draws] = gaps.error(gap + standard_error * noise, "max")
    band = np.quantile(noisiest, 1 - tail) * standard_error
    low = gaps.error(np.maximum(0, np.abs(gap) - band), "max")
    return low, max(gaps.error(gap, "max"), np.quantile(largest, 1 - tail))


def calibrated_errors(values, weight, cells, shape, norm, n_resamples, rng):
    """Return the errors of labels that are drawn from the probabilities."""
    # In the order of the confidences, so that the order of the rows does not matter.
    order = np.lexsort([weight, values[:, 0], values.max(axis=1)])
    values, weight, cells = values[order], weight[order], cells[order]
    mass = cell_sums(cells, weight[:, None], shape)
    confidence = cell_sums(cells, weight[:, None] * values, shape)
    errors = np.empty(n_resamples)
    for draws in row_blocks(n_resamples, len(values)):
        hit = _draw_hits(draws.stop - draws.start, values, weight, cells, shape, rng)
        errors[draws] = class_gap_norm(mass, confidence - hit, norm)
    return errors
