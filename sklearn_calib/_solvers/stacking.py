"""Stacking: weights of an average of probabilities, from held-out predictions."""

from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from sklearn_calib._numerics.sample_blocks import Block, Blocks
from sklearn_calib._validation.types import Array, Floats, Ints

# Newton's method ends when the squared decrement is below this, or after MAX_STEPS.
TOLERANCE = 1e-18
MAX_STEPS = 100

# Smallest pseudo-count as a part of all counts, so that the Hessian is not singular if
# two members predict the same and the samples have very large weights.
LEAST = 1e-10

# Scores that differ by less than this part of their median are equal, in the dtype of
# the logits.
RESOLUTION = {np.dtype(np.float32): 1e-5, np.dtype(np.float64): 1e-9}
# Parts of a sample below this are rounding errors.
LEAST_SHARE = 1e-6


class Shares(NamedTuple):
    """Parts of samples that are in folds, sorted by sample. Most samples have one."""

    sample: Ints
    fold: Ints
    share: Floats


def random_folds(data: Blocks, n_folds: int) -> Shares:
    """Return the folds of the samples: random folds, stratified by class.

    The samples of a class are sorted by the distance of the logit of this class to the
    largest other logit, and the place in this order determines the fold. Therefore, the
    folds depend neither on the order of the samples and of the classes nor on the unit
    and the origin of the logits, except for ties. Equal samples of a class count as one
    sample with the sum of their weights. If this is larger than one, it is split over
    several folds, so that a sample of weight two is the same as two samples.
    """
    codes, weight, gap, other = data.collect(_sort_keys)
    resolution = RESOLUTION[np.dtype(gap.dtype)]
    gap, other = (np.round(x / _unit(x) / resolution) for x in (gap, other))
    order = np.lexsort((other, gap, codes))
    keys = np.stack([codes[order], gap[order], other[order]])
    is_first = np.append(True, (np.diff(keys) != 0).any(axis=0))
    first, group = np.flatnonzero(is_first), is_first.cumsum() - 1
    mass = np.add.reduceat(weight[order].astype(np.float64), first)
    cell = min(1.0, mass.mean())
    start, stop, n_cells = _places(codes[order][first], gap[order][first], mass / cell)

    # The cells of a class get the folds in a random order.
    random = np.random.default_rng(0).random(n_cells.sum())
    by_chance = np.lexsort((random, np.repeat(np.arange(len(n_cells)), n_cells)))
    fold_of_cell = np.empty(len(random), dtype=np.int64)
    fold_of_cell[by_chance] = np.arange(len(random)) % n_folds

    n_own = np.ceil(stop).astype(np.int64) - np.floor(start).astype(np.int64)
    owner = np.repeat(np.arange(len(mass)), n_own)
    place = np.arange(len(owner)) - np.repeat(n_own.cumsum() - n_own, n_own)
    place += np.floor(start).astype(np.int64)[owner]
    overlap = np.minimum(stop[owner], place + 1) - np.maximum(start[owner], place)
    pair, index = np.unique(owner * n_folds + fold_of_cell[place], return_inverse=True)
    share = np.bincount(index, overlap / (stop - start)[owner])
    pair, share = pair[share > LEAST_SHARE], share[share > LEAST_SHARE]

    # The same for each sample of a group.
    n_pairs = np.bincount(pair // n_folds, minlength=len(mass))
    rows = np.repeat(np.arange(len(order)), n_pairs[group])
    within = np.arange(len(rows)) - np.repeat(
        n_pairs[group].cumsum() - n_pairs[group], n_pairs[group]
    )
    chosen = (n_pairs.cumsum() - n_pairs)[group[rows]] + within
    sample = order[rows]
    sorted_ = np.lexsort((pair[chosen], sample))
    return Shares(
        sample[sorted_], pair[chosen][sorted_] % n_folds, share[chosen][sorted_]
    )


def _sort_keys(block: Block) -> tuple[Array, Array, Array, Array]:
    """Return the classes, the weights, and two keys of the other columns of each row.

    These are the distance of the true class to the largest other class, and a sum that
    is different for different rows.
    """
    logits, codes, weight = block
    rows = np.arange(len(codes))
    distance = logits[rows, codes][:, None] - logits
    factor = np.sqrt(np.arange(2, 2 + logits.shape[1], dtype=logits.dtype))
    total = distance @ factor
    distance[rows, codes] = np.inf
    return codes, weight, distance.min(axis=1), total


def _unit(values: Floats) -> Any:
    """Return the median of the absolute values, or one if it is zero."""
    return np.median(np.abs(values)) or 1.0


def _places(codes: Ints, gap: Floats, size: Floats) -> tuple[Floats, Floats, Ints]:
    """Return where each group starts and stops in a row of cells, and cells by class.

    The classes are sorted by their sizes. A group that is not larger than a cell is in
    the cell of its middle.
    """
    present, first = np.unique(codes, return_index=True)
    sums = np.add.reduceat(size, first)
    n_cells = np.ceil(sums - LEAST_SHARE).astype(np.int64)
    by_size = np.lexsort((gap[first], n_cells))
    offset = np.empty(len(present), dtype=np.int64)
    offset[by_size] = n_cells[by_size].cumsum() - n_cells[by_size]
    of_group = np.searchsorted(present, codes)
    stop = size.cumsum()
    stop += (offset - (stop - size)[first])[of_group]
    start = stop - size
    is_light = size <= 1 + LEAST_SHARE
    cell = np.floor((start + stop) / 2)
    start, stop = np.where(is_light, cell, start), np.where(is_light, cell + 1, stop)
    return start, stop, n_cells[by_size]


def stacking_weights(likelihood: Floats, counts: Floats, weight: Floats) -> Floats:
    """Return the weights of an average that maximise the likelihood.

    Parameters
    ----------
    likelihood : ndarray of shape (n_samples, n_members)
        Probability of the true class that each member predicts, positive.

    counts : ndarray of shape (n_members,)
        Positive pseudo-counts of the members: the parameters of a Dirichlet prior, less
        one.

    weight : ndarray of shape (n_samples,)
        Weights of the samples.

    Returns
    -------
    weights : ndarray of shape (n_members,)
        Positive weights that sum to one.
    """
    relative = likelihood / likelihood.max(axis=1, keepdims=True)
    total = weight.sum() + counts.sum()
    weight, counts = weight / total, np.maximum(counts / total, LEAST)
    total = weight.sum() + counts.sum()

    # The Lagrange multiplier of the sum of the weights is known: `total`.
    def objective(w: Floats) -> float:
        return total * w.sum() - weight @ np.log(relative @ w) - counts @ np.log(w)

    w = (counts + weight.sum() / len(counts)) / total
    value = objective(w)
    for _ in range(MAX_STEPS):
        ratio = relative / (relative @ w)[:, None]
        gradient = total - weight @ ratio - counts / w
        hessian = (ratio * weight[:, None]).T @ ratio + np.diag(counts / w**2)
        step = -np.linalg.solve(hessian, gradient)
        decrement = -gradient @ step
        if decrement <= TOLERANCE * total:
            break
        length = min(1.0, 0.9 / max((-step / w).max(), 0.9))
        while objective(w + length * step) > value - 1e-4 * length * decrement:
            length /= 2
            if length < 1e-6:  # rounding errors
                return w / w.sum()
        w = w + length * step
        value = objective(w)
    return w / w.sum()


def probability_of_gain(
    before: Floats, after: Floats, weight: Floats, odds: float
) -> float:
    """Return the posterior probability that `after` predicts better than `before`.

    These are the probabilities of the true class; `odds` are the prior odds.
    """
    gain = weight @ (np.log(after) - np.log(before))
    return float(expit(gain + np.log(odds)))
