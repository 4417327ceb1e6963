"""Gaps between confidence and accuracy in bins, and simulation of their noise."""

import math
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.special import erf, ndtri

from sklearn_calib._numerics.binning import (
    Strategy,
    bin_index,
    class_gap_norm,
    parting_edges,
    resolve_n_bins,
)
from sklearn_calib._validation.arrays import row_blocks
from sklearn_calib._validation.samples import (
    AnySamples,
    effective_n_samples,
    samples_by_class,
)
from sklearn_calib._validation.types import Array, Bools, Floats, Ints, Options

# Number of groups of samples from which the correlation of the gaps is estimated. It is
# lower if there are many cells.
N_GROUPS, GROUP_SUMS = 1000, 1_000_000
# The bias of absolute gaps of more than this number of standard errors is neglected.
CLEAR = 3
# True absolute gaps in standard errors, and the means of the observed absolute gaps.
TRUE = np.concatenate([[0], np.geomspace(1e-2, 1e4, 2000)])
SEEN = np.sqrt(2 / np.pi) * np.exp(-(TRUE**2) / 2) + TRUE * erf(TRUE / np.sqrt(2))


class Gaps(NamedTuple):
    """Sums over the samples of each bin, (n_columns, n_bins) each."""

    mass: np.ndarray
    gap: np.ndarray
    standard_error: np.ndarray
    null: np.ndarray  # standard error under calibration
    skewness: np.ndarray  # third moment over variance
    shared: np.ndarray  # root of the variance removed by a fixed number of samples
    pattern: np.ndarray  # (n_groups, n_columns * n_bins), noise of groups of samples
    of_counts: float  # standard error of mean squares due to the counts of the bins

    def draw_noise(self, n_draws: int, rng: np.random.RandomState) -> Floats:
        """Draw noise of the bins with variance 1."""
        if max(len(self.gap), len(self.pattern)) > 1:
            noise = rng.standard_normal((n_draws, len(self.pattern))) @ self.pattern
            alone = ~self.pattern.any(axis=0) & (self.standard_error.ravel() > 0)
            noise[:, alone] = rng.standard_normal((n_draws, alone.sum()))
        else:
            noise = rng.standard_normal((n_draws, self.gap.size))
            # Each sample is in one bin only, so the covariance of the gaps is a
            # diagonal matrix minus an outer product.
            size = self.standard_error[0]
            shared = self.shared[0] / np.where(size > 0, size, np.inf)
            scale = np.sqrt(1 + shared**2)
            shared /= scale
            length = min(1, shared @ shared)
            factor = (1 - np.sqrt(1 - length)) / max(length, 1e-12)
            noise -= factor * (noise @ shared)[:, None] * shared
            noise *= scale
        return noise.reshape(n_draws, *self.gap.shape)

    def draws(
        self, n_resamples: int, rng: np.random.RandomState
    ) -> Iterator[tuple[slice, Floats, Floats, Floats]]:
        """Yield the gaps of calibrated predictions, and symmetric and skewed noise.

        The quantiles of the skewed noise around a gap are the limits of its interval: a
        t statistic has twice the skewness of the gap, with the opposite sign.
        """
        for draws in row_blocks(n_resamples, self.gap.size):
            noise = self.draw_noise(draws.stop - draws.start, rng)
            skew = self.skewness * (noise**2 - 1) / 3
            noise_of_gap = self.standard_error * noise
            yield draws, self.null * noise, noise_of_gap, noise_of_gap + skew

    def calibrated_errors(
        self, norm: str, n_resamples: int, rng: np.random.RandomState
    ) -> Floats:
        """Return errors of calibrated predictions, from the noise of their gaps."""
        errors = np.empty(n_resamples)
        for draws, calibrated, *_ in self.draws(n_resamples, rng):
            errors[draws] = self.error(calibrated, norm)
        return errors

    def error(self, gap: Floats, norm: str) -> Any:
        """Return the error for the given gaps."""
        return class_gap_norm(self.mass, gap, norm)


def evaluated(samples: AnySamples) -> tuple[Floats, Bools, Floats]:
    """Return evaluated probabilities, whether their class is the true one, and weights.

    The first two have one column for each class in the mode "classwise", otherwise one.
    """
    values, correct, (weight, *_) = zip(*samples_by_class(samples), strict=True)
    weight = np.ones(len(values[0])) if weight is None else weight
    return np.stack(values, axis=1), np.stack(correct, axis=1), weight


def bin_cells(
    values: Floats, weight: Floats, n_bins: Any, strategy: Strategy
) -> tuple[Ints, tuple[int, int]]:
    """Return the index of the cell of each value, and the shape of the cells."""
    n_bins = resolve_n_bins(n_bins, len(values), weight)
    options: Options = {"n_bins": n_bins, "strategy": strategy, "sample_weight": weight}
    edges = [parting_edges(column, **options) for column in values.T]
    indices = [bin_index(*pair) for pair in zip(values.T, edges, strict=True)]
    n_bins = max(map(len, edges)) + 1
    first = n_bins * np.arange(len(indices))
    return np.stack(indices, axis=1) + first, (len(indices), n_bins)


def cell_sums(cells: Ints, summand: Array, shape: tuple[int, ...]) -> Array:
    """Return the sum over the samples in each bin of each column."""
    summand = np.broadcast_to(summand, cells.shape)
    return np.bincount(cells.ravel(), summand.ravel(), math.prod(shape)).reshape(shape)


def gaps(
    values: Floats,
    correct: Array,
    weight: Floats,
    cells: Ints,
    shape: tuple[int, ...],
    norm: str,
    clusters: Ints | None = None,
) -> Gaps:
    """Return the `Gaps` of the samples.

    For norm "l1", the gap is the sum over the samples in a bin, whose noise includes
    that of their number. For the other norms, it is their mean. The noise is that of
    the samples, or of the clusters.
    """
    mass = cell_sums(cells, weight[:, None], shape)
    power_sums = partial(_power_sums, cells, clusters, shape)
    squares = power_sums(weight[:, None], 2)
    of_units: Any = weight
    if clusters is not None:
        of_units = np.bincount(clusters, weight)
    # The squares of tiny weights underflow to zero.
    unseen = squares / np.where(squares > 0, mass, 1) ** 2
    deviation = weight[:, None] * (values - correct)
    gap = cell_sums(cells, deviation, shape)
    if norm == "l1":
        shared = gap / np.sqrt(effective_n_samples(of_units))
        variance = power_sums(deviation, 2) - shared**2
        of_counts = 0.0
    else:
        mean = (gap / np.where(mass > 0, mass, 1)).ravel()
        deviation -= weight[:, None] * mean[cells]
        squared = (mean[cells] ** 2).mean(axis=1)
        around = squared - np.average(squared, weights=weight)
        around *= weight
        if clusters is not None:
            around = np.bincount(clusters, around)
        of_counts = np.linalg.norm(around) / weight.sum()
        shared = np.zeros(shape)
        # Correction of the variance for the estimated mean, as by n / (n - 1).
        variance = power_sums(deviation, 2)
        variance /= np.where(unseen < 1 - 1e-9, 1 - unseen, 1)
    # The observed variance of a bin with few samples may be zero by chance. Its lower
    # bound is the variance for calibrated predictions, or that of three errors if it is
    # less. The variance must not be zero, because gaps are measured in standard errors.
    calibrated = weight[:, None] ** 2 * values * (1 - values)
    calibrated = cell_sums(cells, calibrated, shape)
    variance = np.maximum(variance, np.minimum(calibrated, 3 * squares * unseen))
    variance = np.maximum(variance, 1e-8 * gap**2)
    null = np.sqrt(np.maximum(variance, calibrated))
    third = power_sums(deviation, 3)
    skewness = third / np.where(variance > 0, variance, 1)
    pattern: Floats = np.zeros((1, gap.size))
    if clusters is not None:
        # The order of the clusters does not depend on that of the rows.
        total = np.bincount(clusters, deviation[:, 0])
        rank = np.argsort(np.lexsort([total, of_units]))[clusters]
        pattern = _pattern(deviation, cells, rank, gap.size, weight.mean())
    elif len(gap) > 1:
        # Samples of equal confidence are in different groups, for any order of rows.
        keys = weight, correct.argmax(axis=1), values[:, 0], values.max(axis=1)
        order, rank = np.lexsort(keys), np.arange(len(cells))
        pattern = _pattern(
            deviation[order], cells[order], rank, gap.size, weight.mean()
        )
    size = np.sqrt(variance)
    return Gaps(mass, gap, size, null, skewness, shared, pattern, of_counts)


def _power_sums(
    cells: Ints,
    clusters: Ints | None,
    shape: tuple[int, ...],
    summand: Floats,
    power: int,
) -> Floats:
    """Return sums of powers in each bin; those of a cluster are of its sum."""
    if clusters is None:
        return cell_sums(cells, summand**power, shape)
    keys, index = np.unique(
        cells + math.prod(shape) * clusters[:, None], return_inverse=True
    )
    summand = np.broadcast_to(summand, cells.shape)
    summed = np.bincount(index.ravel(), summand.ravel())
    return cell_sums(keys % math.prod(shape), summed**power, shape)


def _pattern(
    deviation: Floats, cells: Ints, rank: Ints, n_cells: int, scale: Any
) -> Floats:
    """Return centred sums of groups of samples, scaled to variance 1 in each cell.

    Their products with normal variables have the correlation of the gaps of the cells.
    `rank` is the position of each sample, or of its cluster.
    """
    n_groups = min(rank.max() + 1, N_GROUPS, max(50, GROUP_SUMS // n_cells))
    first = n_cells * (rank % n_groups)
    sums = np.bincount(
        (cells + first[:, None]).ravel(), deviation.ravel(), n_groups * n_cells
    ).reshape(n_groups, n_cells)
    sums -= sums.mean(axis=0)
    size = np.sqrt((sums**2).sum(axis=0))
    return sums / np.where(size > 1e-12 * scale, size, np.inf)


def _draw_outcomes(
    n_draws: int,
    values: Floats,
    weight: Floats,
    cells: Ints,
    shape: tuple[int, ...],
    rng: np.random.RandomState,
) -> Array:
    """Return the weight of the true class in each bin, for drawn labels."""
    n_samples, n_columns = values.shape
    # The class of a single column may not be the true one; one of several always is.
    thresholds = values.cumsum(axis=1)[:, : max(1, n_columns - 1)]
    uniform = rng.random_sample((n_draws, n_samples))
    drawn = np.zeros(uniform.shape, dtype=np.int64)
    for threshold in thresholds.T:
        drawn += uniform >= threshold
    n_cells = math.prod(shape)
    cell_or_none = np.column_stack([cells, np.full(n_samples, n_cells)])
    true_cell = cell_or_none[np.arange(n_samples), drawn]
    true_cell += (n_cells + 1) * np.arange(n_draws)[:, None]
    sums = np.bincount(
        true_cell.ravel(),
        np.broadcast_to(weight, true_cell.shape).ravel(),
        n_draws * (n_cells + 1),
    )
    return sums.reshape(n_draws, -1)[:, :-1].reshape(n_draws, *shape)


def _move(noisy: Floats, level: float) -> Any:
    """Return a quantile of skewed noise minus the median of symmetric noise."""
    symmetric, skewed = noisy
    return np.quantile(skewed, level) - np.median(symmetric)


def ends_of_squares(
    gaps: Gaps, n_resamples: int, tail: float, rng: np.random.RandomState
) -> tuple[Any, Any]:
    """Return an interval for the root mean square of the gaps."""
    # The bias of a squared gap is its variance.
    bias = gaps.error(gaps.standard_error, "l2") ** 2
    square = gaps.error(gaps.gap, "l2") ** 2
    gap = gaps.gap * (np.sqrt(max(0, 1 - bias / square)) if square > 0 else 0)
    null, noisy = np.empty(n_resamples), np.empty((2, n_resamples))
    for draws, calibrated, *noises in gaps.draws(n_resamples, rng):
        null[draws] = gaps.error(calibrated, "l2") ** 2
        for row, noise in enumerate(noises):
            noisy[row, draws] = gaps.error(gap + noise, "l2") ** 2
    noisy += gaps.of_counts * rng.standard_normal(n_resamples)
    low, high = (
        np.sqrt(max(0, max(0, square - bias) + _move(noisy, level)))
        for level in (tail, 1 - tail)
    )
    return 0 if square <= np.quantile(null, 1 - tail) else low, high


def ends_of_mean(
    gaps: Gaps, n_resamples: int, tail: float, rng: np.random.RandomState
) -> tuple[Any, Any]:
    """Return an interval for the mean of the absolute gaps.

    Clear and unclear gaps have separate intervals. They are combined by adding the
    squared distances of their limits from the estimates.
    """
    size = gaps.standard_error
    clear = np.abs(gaps.gap) > CLEAR * size
    # Gaps far enough from zero that their absolute values are not biased. Gaps observed
    # as zero get the signs of one group of samples, which sum to zero over the classes.
    moved = gaps.gap + 1e-9 * size * gaps.pattern[0].reshape(size.shape)
    far = gaps.gap + np.where(moved < 0, -4, 4) * size

    def unclear(gap: Floats) -> Any:
        return gaps.error(gap * ~clear, "l1")

    def least(gap: Floats) -> Any:
        """Return the sum minus the bias for gaps of zero, which is the largest bias."""
        ratio = gap / np.where(size > 0, size, 1)
        return unclear(gap) - unclear(
            np.sqrt(10 / np.pi) * size * np.exp(-2 * ratio**2)
        )

    null, null_of_unclear = np.empty((2, n_resamples))
    known_moved, seen_moved, least_moved = np.empty((3, 2, n_resamples))
    for draws, calibrated, *noises in gaps.draws(n_resamples, rng):
        null[draws] = gaps.error(calibrated, "l1")
        null_of_unclear[draws] = unclear(calibrated)
        for row, noise in enumerate(noises):
            known_moved[row, draws] = gaps.error((far + noise) * clear, "l1")
            seen_moved[row, draws] = unclear(far + noise)
            least_moved[row, draws] = least(gaps.gap + noise)

    known, seen = gaps.error(gaps.gap * clear, "l1"), unclear(gaps.gap)
    # The bias is smallest if all gaps are equal in standard errors.
    scale = unclear(size) or 1.0
    rise = _move(seen_moved, 1 - tail)
    equal, most = scale * np.interp(np.array([seen, seen + rise]) / scale, SEEN, TRUE)
    high = known + equal + np.hypot(_move(known_moved, 1 - tail), most - equal)
    if known + seen <= np.quantile(null, 1 - tail):
        return 0, high
    likely, fall = least(gaps.gap), _move(least_moved, tail)
    if likely + fall < 0 or seen <= np.quantile(null_of_unclear, 1 - tail):
        likely = fall = 0
    return known + likely - np.hypot(_move(known_moved, tail), fall), high


def ends_of_largest(
    gaps: Gaps, n_resamples: int, tail: float, rng: np.random.RandomState
) -> tuple[Any, Any]:
    """Return an interval for the largest gap.

    The band below the gaps is simultaneous for those that may be the largest.
    """
    seen, size = gaps.mass > 0, gaps.standard_error
    gap = np.abs(gaps.gap)
    mass = np.where(seen, gaps.mass, 1)
    band = -ndtri(tail / seen.sum()) * size
    may_be = seen & ((gap + band) / mass >= ((gap - band) / mass)[seen].max())
    noisiest = np.empty(n_resamples)
    for draws in row_blocks(n_resamples, size.size):
        noise = gaps.draw_noise(draws.stop - draws.start, rng)
        noisiest[draws] = noise[:, may_be].max(axis=1)
    band = np.quantile(noisiest, 1 - tail) * size
    low = gaps.error(np.maximum(0, gap - band), "max")
    return low, gaps.error(gap - ndtri(tail) * size, "max")


def calibrated_errors(
    values: Floats,
    weight: Floats,
    cells: Ints,
    shape: tuple[int, ...],
    norm: str | float,
    n_resamples: int,
    rng: np.random.RandomState,
) -> Floats:
    """Return the errors of labels drawn from the probabilities."""
    # Sorted by confidence, so that the order of the rows does not matter.
    order = np.lexsort([weight, values[:, 0], values.max(axis=1)])
    values, weight, cells = values[order], weight[order], cells[order]
    mass = cell_sums(cells, weight[:, None], shape)
    confidence = cell_sums(cells, weight[:, None] * values, shape)
    errors = np.empty(n_resamples)
    for draws in row_blocks(n_resamples, len(values)):
        correct = _draw_outcomes(
            draws.stop - draws.start, values, weight, cells, shape, rng
        )
        errors[draws] = class_gap_norm(mass, confidence - correct, norm)
    return errors
