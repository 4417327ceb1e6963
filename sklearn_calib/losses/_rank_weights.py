"""What a sample weighs by the rank of its confidence in the batch."""

import math
from typing import get_args

import torch
from scipy.special import digamma
from torch import Tensor

from sklearn_calib.losses._base import above_zero, check_not_meta
from sklearn_calib.losses._soft_rank import SoftRank
from sklearn_calib.losses._typing import FloatOrAuto, Ranks, Weights

RANKS = get_args(Ranks)

# The weight of a sample from its rank among n, 1 for the least confident.
WEIGHTS = {
    "harmonic": lambda rank, n: float(digamma(n + 1)) - torch.digamma(n + 1 - rank),
    "log": lambda rank, n: -torch.log1p(rank * (-1 / (n + 1))),
    "sele": lambda rank, n: rank / n,
}

# The epsilon of hard ranks. Equal rows may leave a network unequal by a rounding, and
# plain ranks would part them; these differ by so much less that they share a rank.
TIED = {torch.float32: 1e-6, torch.float64: 1e-12}

# Confidences that spread less than this count as spread that far by epsilon="auto". The
# gradient through the ranks grows as one over the spread; in a network that has learned
# nothing yet it could be several times that of the base, and keep it from learning.
MIN_SPREAD = 0.2


def rank_weights(
    score: Tensor,
    *,
    ranks: Ranks,
    weights: Weights,
    epsilon: FloatOrAuto,
    sample_weight: Tensor | None = None,
) -> Tensor:
    """Return the weight of each sample from its confidence."""
    check_not_meta("logits", score)
    if ranks == "hard":
        score, epsilon = score.detach(), TIED[score.dtype]
    elif epsilon == "auto":
        epsilon = auto_epsilon(score.detach(), sample_weight)
    rank = SoftRank.apply(score, float(epsilon), sample_weight)
    n = len(rank) if sample_weight is None else _total(sample_weight).item()
    return WEIGHTS[weights](rank, n)


def auto_epsilon(score: Tensor, sample_weight: Tensor | None = None) -> float:
    """Return an epsilon with which even confidences keep half of their ranks' range."""
    weight = torch.ones_like(score) if sample_weight is None else sample_weight
    n = _total(weight)
    mean = (weight * score).sum() / n
    variance = (weight * (score - mean).square()).sum() / n
    spread = max(math.sqrt(12 * variance.item()), MIN_SPREAD)
    return 2 * spread / n.item()


def _total(weight: Tensor) -> Tensor:
    """Return the sum of the weights, above 0 if the batch has weights of 0 only."""
    return above_zero(weight.sum())
