"""Stacking: weights of an average of probabilities, from held-out predictions."""

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

# Odd numbers with random bits, to mix those of the numbers of a row.
MIXERS = np.array(
    [0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93],
    dtype=np.uint64,
)


def random_folds(data: Blocks, n_folds: int) -> Ints:
    """Return the fold of each sample: random folds, stratified by class.

    The order within a class is that of a hash of the predictions for a sample, so it
    depends neither on the order of the samples nor on that of the classes.
    """
    codes, key = data.collect(lambda block: (block.codes, _hash(block)))
    order = np.argsort(key, kind="stable")
    # The classes follow each other by their first samples in this order.
    _, first = np.unique(codes[order], return_index=True)
    rank = np.zeros(len(data.sizes), dtype=np.int64)
    rank[np.unique(codes)] = first
    fold = np.empty(len(codes), dtype=np.int64)
    fold[order[np.argsort(rank[codes[order]], kind="stable")]] = (
        np.arange(len(codes)) % n_folds
    )
    return fold


def _hash(block: Block) -> Array:
    """Return a hash of the true class's and the largest three numbers of each row."""
    rows = block.logits.astype(np.float32) + np.float32(0)  # no negative zeros
    largest = -np.sort(-rows, axis=1)[:, :3]
    values = np.column_stack([rows[np.arange(len(rows)), block.codes], largest])
    bits = np.ascontiguousarray(values).view(np.uint32).astype(np.uint64)
    key = (bits * MIXERS[: bits.shape[1]]).sum(axis=1, dtype=np.uint64)
    key = (key ^ (key >> np.uint64(32))) * MIXERS[0]
    return (key ^ (key >> np.uint64(29))) * MIXERS[1]


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
