"""The history of a monitor: sums of batches, added up for batches of long ago."""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from sklearn_calib._validation.types import Floats, Ints
from sklearn_calib.deployment._evidence import Alternatives, Sums

# Largest number of blocks with the same number of batches. A block that ended t batches
# ago has at most t / 7 + 1 batches.
N_BLOCKS = 8


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


def join_blocks(blocks: list[Sums], values: list[float]) -> None:
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


def replay(blocks: list[Sums], log_prior: Floats) -> tuple[Floats, Floats]:
    """Return the wealth if bets begin with blocks, and its value after each block."""
    wealth, values, n_batches = np.full(len(log_prior), -np.inf), [], 0.0
    for block in blocks:
        wealth = bet(wealth, block.log_ratios, n_batches, log_prior)
        n_batches += block.counts[0]
        values.append(log_value(wealth, n_batches))
    return wealth, np.array(values)


def starts_of(blocks: list[Sums]) -> Ints:
    """Return the index of the first batch of each block."""
    ends = np.cumsum([block.counts[0] for block in blocks])
    return np.concatenate([[0], ends[:-1]]).astype(int)


def log_evidence(blocks: list[Sums], alternatives: Alternatives) -> dict[str, Floats]:
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
