"""The gaps of bins, of one probability or of each class, and noise like theirs."""

from typing import Any, NamedTuple

import numpy as np
from scipy.special import erf, ndtri

from sklearn_calib._core.binning import bin_index, class_gap_norm, parting_edges
from sklearn_calib._core.inputs import (
    as_columns,
    confidence_and_hit,
    effective_n_samples,
    resolve_n_bins,
)
from sklearn_calib._core.typing import Array, Bools, Floats, Ints, Options
from sklearn_calib._core.validation import check_proba, row_blocks

# The gaps of classes are correlated as over so many groups of samples, or fewer where
# there are many cells.
N_GROUPS, GROUP_SUMS = 1000, 1_000_000
# Gaps of so many standard errors have no bias.
CLEAR = 4
# Absolute gaps in standard errors, what is expected to be seen of them, and what noise
# and gap add to what noise alone does, per square of the gap.
TRUE = np.concatenate([[0], np.geomspace(1e-2, 1e4, 2000)])
SEEN = np.sqrt(2 / np.pi) * np.exp(-(TRUE**2) / 2) + TRUE * erf(TRUE / np.sqrt(2))
PER_SQUARE = (SEEN[1:] - SEEN[0]) / TRUE[1:] ** 2


class Gaps(NamedTuple):
    """Sums over the samples of each bin, (n_columns, n_bins) each."""

    mass: np.ndarray
    gap: np.ndarray
    standard_error: np.ndarray
    null: np.ndarray  # the standard error if the predictions were calibrated
    skewness: np.ndarray  # third moment over variance
    shared: np.ndarray  # root of what the variances lack, the number of samples fixed
    pattern: np.ndarray  # (n_groups, n_columns * n_bins), what noise is made of

    def draw_noise(self, n_draws: int, rng: np.random.RandomState) -> Floats:
        """Draw noise of the bins with the variance 1."""
        if len(self.gap) > 1:
            noise = rng.standard_normal((n_draws, len(self.pattern))) @ self.pattern
            alone = ~self.pattern.any(axis=0) & (self.standard_error.ravel() > 0)
            noise[:, alone] = rng.standard_normal((n_draws, alone.sum()))
        else:
            noise = rng.standard_normal((n_draws, self.gap.size))
            # A sample in one bin is not in another: the covariance of the gaps is
            # diagonal less an outer product.
            size = self.standard_error[0]
            shared = self.shared[0] / np.where(size > 0, size, np.inf)
            scale = np.sqrt(1 + shared**2)
            shared /= scale
            length = min(1, shared @ shared)
            factor = (1 - np.sqrt(1 - length)) / max(length, 1e-12)
            noise -= factor * (noise @ shared)[:, None] * shared
            noise *= scale
        return noise.reshape(n_draws, *self.gap.shape)

    def without_noise(self) -> Floats:
        """Shrink the gaps that are not clear by what noise adds to their squares."""
        clear = np.abs(self.gap) > CLEAR * self.standard_error
        seen, noise = (
            self.error(np.where(clear, 0, part), "l2")
            for part in (self.gap, self.standard_error)
        )
        shrinkage = np.sqrt(max(0, 1 - (noise / seen) ** 2)) if seen > 0 else 0.0
        return np.where(clear, 1, shrinkage) * self.gap

    def error(self, gap: Floats, norm: str) -> Any:
        """Return the error of other gaps than these."""
        return class_gap_norm(self.mass, gap, norm)


def judged(proba: Floats, codes: Ints, mode: str) -> tuple[Floats, Bools]:
    """Return the probabilities that are judged and their hits, a column per class."""
    if mode == "classwise":
        values = check_proba(as_columns(proba))
        return values, codes[:, None] == np.arange(values.shape[1])
    confidence, hit = confidence_and_hit(proba, codes, mode)
    return confidence[:, None], hit[:, None]


def bin_cells(
    values: Floats, weight: Floats, n_bins: int | str, strategy: str
) -> tuple[Ints, tuple[int, int]]:
    """Return the number of each value's bin, and the shape of the table of bins."""
    n_bins = resolve_n_bins(n_bins, len(values), weight)
    options: Options = {"n_bins": n_bins, "strategy": strategy, "sample_weight": weight}
    edges = [parting_edges(column, **options) for column in values.T]
    indices = [bin_index(*pair) for pair in zip(values.T, edges, strict=True)]
    n_bins = max(map(len, edges)) + 1
    first = n_bins * np.arange(len(indices))
    return np.stack(indices, axis=1) + first, (len(indices), n_bins)


def cell_sums(cells: Ints, summand: Array, shape: tuple[int, ...]) -> Array:
    """Sum over the samples in each bin of each column."""
    summand = np.broadcast_to(summand, cells.shape)
    return np.bincount(cells.ravel(), summand.ravel(), np.prod(shape)).reshape(shape)


def gaps(
    values: Floats,
    hit: Array,
    weight: Floats,
    cells: Ints,
    shape: tuple[int, ...],
    norm: str,
) -> Gaps:
    """Return the `Gaps`, and what draws noise like that of them.

    The sum of the gaps in a bin, of which "l1" is made, varies with the number of its
    samples; their mean, of which the other norms are made, does not.
    """
    mass = cell_sums(cells, weight[:, None], shape)
    squares = cell_sums(cells, weight[:, None] ** 2, shape)
    # Squares of tiny weights are zero.
    unseen = squares / np.where(squares > 0, mass, 1) ** 2
    deviation = weight[:, None] * (values - hit)
    gap = cell_sums(cells, deviation, shape)
    if norm == "l1":
        shared = gap / np.sqrt(effective_n_samples(weight))
        variance = cell_sums(cells, deviation**2, shape) - shared**2
    else:
        mean = (gap / np.where(mass > 0, mass, 1)).ravel()
        deviation -= weight[:, None] * mean[cells]
        shared = np.zeros(shape)
        # In two samples half of the variance is seen, in one none.
        variance = cell_sums(cells, deviation**2, shape)
        variance /= np.where(unseen < 1 - 1e-9, 1 - unseen, 1)
    # A bin whose few samples are all hits has seen no variance, but there is some: that
    # of calibrated predictions, unless they had made several misses. One of zero would
    # leave no scale to measure a gap by.
    calibrated = weight[:, None] ** 2 * values * (1 - values)
    calibrated = cell_sums(cells, calibrated, shape)
    variance = np.maximum(variance, np.minimum(calibrated, 3 * squares * unseen))
    variance = np.maximum(variance, 1e-8 * gap**2)
    null = np.sqrt(np.maximum(variance, calibrated))
    third = cell_sums(cells, deviation**3, shape)
    skewness = third / np.where(variance > 0, variance, 1)
    pattern: Floats = np.zeros((1, gap.size))
    if len(gap) > 1:
        # Samples of one confidence are dealt to different groups, in any order of rows.
        keys = weight, hit.argmax(axis=1), values[:, 0], values.max(axis=1)
        order = np.lexsort(keys)
        pattern = _pattern(deviation[order], cells[order], gap.size, weight.mean())
    return Gaps(mass, gap, np.sqrt(variance), null, skewness, shared, pattern)


def _pattern(deviation: Floats, cells: Ints, n_cells: int, unit: Any) -> Floats:
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


def _draw_hits(
    n_draws: int,
    values: Floats,
    weight: Floats,
    cells: Ints,
    shape: tuple[int, ...],
    rng: np.random.RandomState,
) -> Array:
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


def ends_of_mean(
    gaps: Gaps, norm: str, n_resamples: int, tail: float, rng: np.random.RandomState
) -> tuple[Floats, Any, Any]:
    """Return the error that noise makes, and an interval for a mean of the gaps.

    Each end has a bias of its own to subtract, the largest or the smallest that the
    gaps allow, and the quantile of what noise does to it.
    """
    gap, size, likely = gaps.gap, gaps.standard_error, gaps.without_noise()
    estimate, unit = gaps.error(gap, norm), gaps.error(size, norm)
    # The upper end of "l1" is found where noise adds no bias, only spread.
    # Gaps of zero go the ways that noise would take them, whose classes sum to zero.
    moved = gap + 1e-9 * size * gaps.pattern[0].reshape(gap.shape)
    far = gap if norm == "l2" else gap + np.where(moved < 0, -CLEAR, CLEAR) * size
    null = np.empty(n_resamples)
    # With noise that is skewed as what the gaps may be, and the other way round.
    estimates, leasts = np.empty((2, 2, n_resamples))
    for draws in row_blocks(n_resamples, gap.size):
        noise = gaps.draw_noise(draws.stop - draws.start, rng)
        skew = gaps.skewness * (2 * noise**2 + 1) / 6
        null[draws] = gaps.error(gaps.null * noise, norm)
        noise *= size
        for row, shift in enumerate((noise + skew, noise - skew)):
            estimates[row, draws] = gaps.error(far + shift, norm)
            leasts[row, draws] = _least(gaps, likely + shift, norm)
    least = _least(gaps, gap, norm)
    if norm == "l2":
        estimates **= 2
        low = least + np.quantile(leasts[0], tail) - _centre(leasts)
        high = max(0, least) + np.quantile(estimates[0], 1 - tail) - _centre(estimates)
        return null, *np.sqrt(np.maximum(0, [low, high]))
    # Near zero the draws are skewed, and which tail counts depends on the gaps.
    fall = max(
        np.quantile(leasts[1], 1 - tail) - _centre(leasts),
        _centre(leasts) - np.quantile(leasts[0], tail),
    )
    high = estimate + np.quantile(estimates[0], 1 - tail) - _centre(estimates)
    return null, least - fall, unit * _equal(high / unit) if unit > 0 else high


def _centre(draws: Floats) -> Any:
    """Return the middle of what both kinds of noise make."""
    return np.median(draws, axis=1).mean()


def _least(gaps: Gaps, gap: Floats, norm: str) -> Any:
    """Return the least error that is likely behind gaps, for "l2" its square.

    The bias of a square is known. That of an absolute gap falls as the gap grows,
    fastest near zero: given the means of the absolute values and of the squares, it is
    largest if some gaps are zero and the others equal.
    """
    size, error = gaps.standard_error, gaps.error(gap, norm)
    if norm == "l2":
        return error**2 - gaps.error(size, norm) ** 2
    unclear = np.abs(gap) <= CLEAR * size
    part = gap * unclear
    seen, unit = gaps.error(part, norm), gaps.error(size * unclear, norm)
    square = gaps.error(part**2 / np.where(size > 0, size, 1), norm)
    per_unit = np.where(unit > 0, unit, 1)
    square = np.maximum(square / per_unit - 1, 1e-12)
    excess = np.maximum(seen / per_unit - SEEN[0], 0)
    of_others = np.interp(-excess / square, -PER_SQUARE, TRUE[1:])
    least = np.minimum(square / of_others, _equal(seen / per_unit))
    return error - seen + unit * least


def _equal(seen: Any) -> Any:
    """Return the absolute gap, if all are equal, of which this mean is expected."""
    return np.interp(seen, SEEN, TRUE)


def ends_of_largest(
    gaps: Gaps, n_resamples: int, tail: float, rng: np.random.RandomState
) -> tuple[Any, Any]:
    """Return an interval for the largest gap, from bands that hold all at once."""
    gap, size = np.abs(gaps.gap), gaps.standard_error
    noisiest = np.empty(n_resamples)
    for draws in row_blocks(n_resamples, gap.size):
        noise = gaps.draw_noise(draws.stop - draws.start, rng)
        noisiest[draws] = np.abs(noise[:, gaps.mass > 0]).max(axis=1)
    band = np.quantile(noisiest, 1 - tail) * size
    low = gaps.error(np.maximum(0, gap - band), "max")
    return low, gaps.error(gap - ndtri(tail) * size, "max")


def calibrated_errors(
    values: Floats,
    weight: Floats,
    cells: Ints,
    shape: tuple[int, ...],
    norm: str,
    n_resamples: int,
    rng: np.random.RandomState,
) -> Floats:
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
