"""Stacking: weights of an average of probabilities, from held-out predictions."""

from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from sklearn_calib._numerics.sample_blocks import Block, Blocks
from sklearn_calib._solvers.newton import newton_steps
from sklearn_calib._validation.types import Array, Floats, Ints

# Newton's method ends when the squared decrement is below this.
TOLERANCE = 1e-18

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
    folds depend neither on the order of the samples and of the classes nor on the scale
    and the origin of the logits, except for ties. Equal samples of a class count as one
    sample with the sum of their weights. A sum above one is split over several folds,
    so that a sample of weight two is the same as two samples.
    """
    codes, weight, distance, other = data.collect(_sort_keys)
    resolution = RESOLUTION[np.dtype(distance.dtype)]
    with np.errstate(over="ignore"):
        distance, other = (
            np.round(x / _scale(x) / resolution) for x in (distance, other)
        )
    order = np.lexsort((other, distance, codes))
    keys = np.stack([codes[order], distance[order], other[order]])
    is_first = np.append(True, (np.diff(keys) != 0).any(axis=0))
    first, group = np.flatnonzero(is_first), is_first.cumsum() - 1
    mass = np.add.reduceat(weight[order].astype(np.float64), first)
    # A heavy group is split into parts of weight one, as many in each fold, and a rest.
    rest = np.where(mass > n_folds, np.fmod(mass, n_folds), mass)
    size = np.ceil(rest - LEAST_SHARE).astype(np.int64)
    size[mass <= n_folds] = np.maximum(size[mass <= n_folds], 1)
    owner, place = _expand(size)
    part = np.minimum(rest[owner] - place, 1) / mass[owner]
    fold = _draw(codes[order][first], distance[order][first], size, n_folds)
    heavy = np.flatnonzero(rest < mass)
    owner = np.append(owner, np.repeat(heavy, n_folds))
    fold = np.append(fold, np.tile(np.arange(n_folds), len(heavy)))
    even = np.repeat((1 - rest / mass)[heavy] / n_folds, n_folds)
    pair, index = np.unique(owner * n_folds + fold, return_inverse=True)
    share = np.bincount(index, np.append(part, even))
    pair, share = pair[share > LEAST_SHARE], share[share > LEAST_SHARE]

    # The same for each sample of a group.
    n_pairs = np.bincount(pair // n_folds, minlength=len(mass))
    row, within = _expand(n_pairs[group])
    chosen = (n_pairs.cumsum() - n_pairs)[group[row]] + within
    by_sample = np.lexsort((pair[chosen], order[row]))
    sample, chosen = order[row][by_sample], chosen[by_sample]
    return Shares(sample, pair[chosen] % n_folds, share[chosen])


def _expand(counts: Ints) -> tuple[Ints, Ints]:
    """Return each index as often as it is counted, and 0, 1, ... for each of them."""
    owner = np.repeat(np.arange(len(counts)), counts)
    return owner, np.arange(len(owner)) - (counts.cumsum() - counts)[owner]


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


def _scale(values: Floats) -> Any:
    """Return the median of the absolute values, or one if it is zero."""
    return np.median(np.abs(values)) or 1.0


def _draw(codes: Ints, distance: Floats, size: Ints, n_folds: int) -> Ints:
    """Return the folds of the parts of all groups, in a random order for each class.

    The groups are sorted by class. Classes with fewer parts come first.
    """
    _, first, of_group = np.unique(codes, return_index=True, return_inverse=True)
    n_parts = np.add.reduceat(size, first)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.lexsort((distance[first], n_parts))] = np.arange(len(first))
    rank_of_part = np.repeat(rank[of_group], size)
    by_rank = np.argsort(rank_of_part, kind="stable")
    random = np.random.default_rng(0).random(len(by_rank))
    fold = np.empty(len(by_rank), dtype=np.int64)
    by_chance = by_rank[np.lexsort((random, rank_of_part[by_rank]))]
    fold[by_chance] = np.arange(len(by_rank)) % n_folds
    return fold


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
    def evaluate(w: Floats) -> tuple[Any, Floats]:
        mean = relative @ w
        return total * w.sum() - weight @ np.log(mean) - counts @ np.log(w), mean

    def solve(w: Floats, mean: Floats) -> tuple[Floats, Floats]:
        ratio = relative / mean[:, None]
        gradient = total - weight @ ratio - counts / w
        hessian = (ratio * weight[:, None]).T @ ratio + np.diag(counts / w**2)
        step = -np.linalg.solve(hessian, gradient)
        # Weights remain positive.
        return step * min(1.0, 0.9 / max((-step / w).max(), 0.9)), gradient

    start = (counts + weight.sum() / len(counts)) / total
    for at in newton_steps(evaluate, solve, start):
        if at.gain <= TOLERANCE * total:
            break
    return at.point / at.point.sum()


def probability_of_gain(
    before: Floats, after: Floats, weight: Floats, odds: float
) -> float:
    """Return the posterior probability that `after` predicts better than `before`.

    These are the probabilities of the true class; `odds` are the prior odds.
    """
    gain = weight @ (np.log(after) - np.log(before))
    return float(expit(gain + np.log(odds)))
