"""Evidence of a monitor against calibration: likelihood ratios, summed over batches."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, logit, logsumexp

from sklearn_calib._numerics.binning import bin_index, uniform_edges
from sklearn_calib._validation.arrays import row_blocks
from sklearn_calib._validation.types import Bools, Floats, Ints, Weights

# Differences of the log-odds: a bet on one of them finds a true difference of at least
# half its size, for the smallest about 0.015 in probability at 0.5.
SHIFTS = np.array([-2, -1, -0.5, -0.25, -0.125, 0.125, 0.25, 0.5, 1, 2])

# Inverse temperatures, from 0.37 to 2.7.
SLOPES = np.exp([-1, -0.5, -0.25, -0.125, 0.125, 0.25, 0.5, 1])

# The resolution of float32. Probabilities nearer to 0 or 1 are not distinguished from
# them, so that a single sample cannot refute the null hypothesis for ever.
RESOLUTION = float(np.finfo(np.float32).eps)

# Fewer rows at once take longer.
FEWEST_ROWS = 256

# Largest number of blocks with the same number of batches. A block that ended t batches
# ago has at most t / 7 + 1 batches.
N_BLOCKS = 8


class BatchSums(NamedTuple):
    """Sums over samples; those of batches add up."""

    counts: Floats  # (2,), batches and samples
    totals: Floats  # (4,), of weight, confidence, correctness, variance of correctness
    bins: Floats  # (3, n_problems, n_bins), of weight, probability, occurrence
    log_ratios: Floats  # (n_alternatives,), log-likelihood ratios

    def add(self, other: BatchSums) -> BatchSums:
        """Return the sums of both."""
        return BatchSums(*(one + two for one, two in zip(self, other, strict=True)))


class Alternatives:
    """Families of alternatives to the hypothesis that predictions are calibrated.

    The predicted probability of an event is compared with that of each alternative. The
    events are the correctness of the prediction, or the positive class, or each class;
    those of each class are `n_problems` separate problems.
    """

    def __init__(
        self, mode: str, n_classes: int, n_bins: int, tolerance: float
    ) -> None:
        self.mode, self.n_classes, self.n_bins = mode, n_classes, n_bins
        self.tolerance = max(tolerance, RESOLUTION)
        self.n_problems = n_classes if mode == "classwise" else 1
        # Each family is a mixture with equal weights, over the last axis too.
        self.shapes: dict[str, tuple[int, ...]] = {
            "slope": (self.n_problems, len(SLOPES)),
            "shift": (self.n_problems, len(SHIFTS)),
            "bin": (n_bins, len(SHIFTS)),
        }
        if mode == "top_label":
            self.shapes["class"] = (n_classes, len(SHIFTS))
        self.sizes = [int(np.prod(shape)) for shape in self.shapes.values()]
        shares = [np.full(size, 1 / size) for size in self.sizes]
        self.log_prior = np.log(np.concatenate(shares) / len(shares))

    def split(self, log_ratios: Floats) -> dict[str, Floats]:
        """Return the part of each family, in its shape after the leading axes."""
        parts = np.split(log_ratios, np.cumsum(self.sizes)[:-1], axis=-1)
        leading = log_ratios.shape[:-1]
        return {
            name: part.reshape(*leading, *shape)
            for (name, shape), part in zip(self.shapes.items(), parts, strict=True)
        }

    def empty(self) -> BatchSums:
        """Return the sums of a batch without samples."""
        bins = np.zeros((3, self.n_problems, self.n_bins))
        counts = np.array([1.0, 0.0])
        return BatchSums(counts, np.zeros(4), bins, np.zeros(sum(self.sizes)))

    def sums(self, proba: Floats, codes: Ints, weight: Weights) -> BatchSums:
        """Return the sums of a batch of at least one sample."""
        total = self.empty()
        total.counts[1] = len(codes) if weight is None else np.count_nonzero(weight)
        n_ratios = len(SLOPES) * self.n_classes + len(SHIFTS) * self.n_problems
        for rows in row_blocks(len(codes), n_ratios, FEWEST_ROWS):
            part = np.ones(len(codes[rows])) if weight is None else weight[rows]
            block = self._block_sums(proba[rows], codes[rows], part)
            for sums, new in zip(total[1:], block, strict=True):
                sums += new
        return total

    def _block_sums(
        self, proba: Floats, codes: Ints, weight: Floats
    ) -> tuple[Floats, Floats, Floats]:
        """Return the sums without counts."""
        top = proba.argmax(axis=1)[:, None]
        events = {
            "top_label": top,
            "positive": np.ones_like(top),
            "classwise": np.broadcast_to(np.arange(self.n_classes), proba.shape),
        }[self.mode]
        p, occurs = np.take_along_axis(proba, events, axis=1), events == codes[:, None]
        # In their precision, a value on an edge is in the bin below it.
        edges = uniform_edges(self.n_bins, np.arange(1, self.n_bins))
        index = bin_index(p, edges.astype(p.dtype))
        proba, p = proba.astype(np.float64), p.astype(np.float64)
        shifts = self._log_ratios(p, _shifted(p), occurs)
        sums: dict[str, Floats] = {
            "slope": self._log_ratios(p, _powers(proba, events), occurs) @ weight,
            "shift": shifts @ weight,
        }
        if self.mode == "classwise":
            sums["bin"] = self._log_ratios_of_bins(p, index, codes) @ weight
        else:
            sums["bin"] = _sums_at(index[:, 0], shifts[:, 0], weight, self.n_bins)
        if "class" in self.shapes:
            sums["class"] = _sums_at(top[:, 0], shifts[:, 0], weight, self.n_classes)
        flat = np.concatenate([sums[name].T.ravel() for name in self.shapes])
        # The events of all classes have no calibration gap in total.
        shown = top if self.mode == "classwise" else events
        return (
            _totals(proba, shown, codes, weight),
            self._bin_sums(index, p, occurs, weight),
            flat,
        )

    def _bin_sums(
        self, index: Ints, p: Floats, occurs: Bools, weight: Floats
    ) -> Floats:
        """Return the sums of weight, probability and occurrence in each bin."""
        flat = index + self.n_bins * np.arange(self.n_problems)
        values = np.stack([np.ones_like(p), p, occurs]).reshape(3, -1)
        weight = np.repeat(weight, self.n_problems)
        sums = _sums_at(flat.ravel(), values, weight, self.n_problems * self.n_bins)
        return sums.reshape(3, self.n_problems, self.n_bins)

    def _log_ratios(
        self, p: Floats, q: Floats, occurs: Bools, n_classes: Any = 1
    ) -> Floats:
        """Return log-likelihood ratios (n_alternatives, n_events, n_samples).

        `n_classes` is the number of classes of which an event consists.
        """
        q = np.clip(q, RESOLUTION, 1 - RESOLUTION)
        # The null hypothesis that is closest to the alternative, so that the expected
        # ratio is at most one under all others.
        tolerance = self.tolerance * n_classes
        nearest = np.clip(q, np.maximum(p - tolerance, 0), np.minimum(p + tolerance, 1))
        ratios = np.log(np.where(occurs, q / nearest, (1 - q) / (1 - nearest)))
        return np.swapaxes(ratios, 1, 2)

    def _log_ratios_of_bins(self, p: Floats, index: Ints, codes: Ints) -> Floats:
        """Return `_log_ratios` of the true class being one of those in each bin."""
        rows = np.arange(len(p))
        flat, shape = index + self.n_bins * rows[:, None], (len(p), self.n_bins)
        mass: Any = np.bincount(flat.ravel(), p.ravel(), len(p) * self.n_bins)
        number = np.bincount(flat.ravel(), None, len(p) * self.n_bins).reshape(shape)
        mass = np.minimum(mass.reshape(shape), 1)
        occurs = index[rows, codes][:, None] == np.arange(self.n_bins)
        ratios = self._log_ratios(mass, _shifted(mass), occurs, np.maximum(number, 1))
        return np.where(number.T > 0, ratios, 0)


def _shifted(p: Floats) -> Floats:
    """Return the probabilities with shifted log-odds, along a new first axis."""
    log_odds = logit(np.clip(p, RESOLUTION, 1 - RESOLUTION))
    shifted: Floats = expit(log_odds + SHIFTS[:, None, None])
    return shifted


def _powers(proba: Floats, events: Ints) -> Floats:
    """Return the probabilities with other temperatures, along a new first axis."""
    slope = SLOPES[:, None, None]
    powers = np.exp(slope * np.log(np.maximum(proba, np.finfo(np.float64).tiny)))
    power = np.take_along_axis(powers, events[None], axis=2)
    # Probabilities of 0 and 1 would be fixed points.
    least = RESOLUTION**slope
    rest = np.maximum(powers.sum(axis=2, keepdims=True) - power, least)
    power = np.maximum(power, least)
    return power / (power + rest)


def _totals(proba: Floats, events: Ints, codes: Ints, weight: Floats) -> Floats:
    """Return sums of weight, confidence, correctness, and variance of correctness."""
    confidence = np.take_along_axis(proba, events, axis=1)[:, 0]
    means = np.stack([np.ones(len(proba)), confidence, events[:, 0] == codes]) @ weight
    return np.append(means, weight**2 @ (confidence * (1 - confidence)))


def _sums_at(index: Ints, values: Floats, weight: Floats, size: int) -> Floats:
    """Return weighted sums of the columns of values (n, n_samples) at each index."""
    n = len(values)
    flat = (index + size * np.arange(n)[:, None]).ravel()
    sums: Any = np.bincount(flat, (values * weight).ravel(), n * size)
    return sums.reshape(n, size)


def log_weight(start: float) -> float:
    """Return the logarithm of the weight of bets that begin with a batch.

    The weights of all batches, from 0 to infinity, sum to one.
    """
    return float(np.log(1 / np.log2(start + 2) - 1 / np.log2(start + 3)))


def log_value(log_wealth: Floats, n_batches: float) -> float:
    """Return the logarithm of the wealth, with that kept for bets of later batches."""
    kept = -np.log(np.log2(n_batches + 2))
    return float(np.logaddexp(np.logaddexp.reduce(log_wealth), kept))


def bet(
    log_wealth: Floats, log_ratios: Floats, start: float, log_prior: Floats
) -> Floats:
    """Return the wealth in each alternative after new bets with a batch."""
    return log_ratios + np.logaddexp(log_wealth, log_weight(start) + log_prior)


def join_blocks(blocks: list[BatchSums], values: list[float]) -> None:
    """Add up neighbouring blocks of the same size while there are too many of them.

    The numbers of batches in blocks are powers of two and depend only on the total. Of
    two `values`, that of the later block is kept.
    """
    size = 1
    while True:
        same = [i for i, block in enumerate(blocks) if block.counts[0] == size]
        if len(same) <= N_BLOCKS:
            return
        first = same[0]
        blocks[first : first + 2] = [blocks[first].add(blocks[first + 1])]
        del values[first]
        size *= 2


def replay(blocks: list[BatchSums], log_prior: Floats) -> tuple[Floats, Floats]:
    """Return the wealth if bets begin with blocks, and its value after each block."""
    wealth, values, n_batches = np.full(len(log_prior), -np.inf), [], 0.0
    for block in blocks:
        wealth = bet(wealth, block.log_ratios, n_batches, log_prior)
        n_batches += block.counts[0]
        values.append(log_value(wealth, n_batches))
    return wealth, np.array(values)


def log_evidence(
    blocks: list[BatchSums], alternatives: Alternatives
) -> dict[str, Floats]:
    """Return the log marginal likelihood ratio of each cause, since each block.

    A cause is a change of the class priors, of the temperature, or of anything else. In
    each of several bins or classes, half of the prior weight is on no change.
    """
    ratios = np.array([block.log_ratios for block in blocks])
    since = alternatives.split(np.cumsum(ratios[::-1], axis=0)[::-1])
    n = alternatives.n_problems
    # The events of all classes depend on each other: all but one determine the last.
    share = (n - 1) / n if n > 1 else 1.0
    bins = share * _of_parts(since["bin"]).sum(axis=1)
    slopes = _mean_exp(share * since["slope"].sum(axis=1))
    shifts = _mean_exp(since["shift"])
    if "class" in since:
        priors = _of_parts(since["class"]).sum(axis=1)
        bins = np.logaddexp(bins, shifts[:, 0]) - np.log(2)
    elif n > 1:
        priors = share * _of_parts(since["shift"]).sum(axis=1)
    else:
        priors = shifts[:, 0]
    return {"priors": priors, "temperature": slopes, "refit": bins}


def _mean_exp(logs: Floats) -> Floats:
    """Return the logarithm of the mean of exponentials over the last axis."""
    return logsumexp(logs, axis=-1) - np.log(logs.shape[-1])


def _of_parts(logs: Floats) -> Floats:
    """Return `_mean_exp`, averaged with that of no change."""
    return np.logaddexp(_mean_exp(logs), 0) - np.log(2)
