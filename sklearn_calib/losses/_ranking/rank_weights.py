"""Sample weights from the ranks of the confidences in a batch."""

import math
from typing import Any, get_args

import torch
from scipy.special import digamma
from torch import Tensor

from sklearn_calib.losses._base.checks import above_zero, check_not_meta, is_traced
from sklearn_calib.losses._base.typing import Ranks, Weights
from sklearn_calib.losses._ranking.soft_rank import soft_ranks

RANKS = get_args(Ranks)

# The weight of a sample given its rank among n samples, 1 for the least confident.
WEIGHTS = {
    "harmonic": lambda rank, n: _digamma(n + 1) - torch.digamma(n + 1 - rank),
    "log": lambda rank, n: -torch.log1p(rank * (-1 / (n + 1))),
    "sele": lambda rank, n: rank / n,
}

# The epsilon of hard ranks. A network may return slightly different outputs for equal
# samples because of rounding. With this epsilon such confidences count as tied.
TIED = {torch.float32: 1e-6, torch.float64: 1e-12}

# The smallest spread of confidences that epsilon="auto" assumes. The gradient through
# the ranks grows as one over the spread. The confidences of an untrained network are
# nearly equal, so that without this bound the gradient would be much larger than that
# of the base loss and prevent learning.
MIN_SPREAD = 0.2


def rank_weights(
    score: Tensor,
    *,
    ranks: Ranks,
    weights: Weights,
    epsilon: Any,
    sample_weight: Tensor | None = None,
) -> Tensor:
    """Return the weight of each sample given its confidence score."""
    check_not_meta("logits", score)
    if ranks == "hard":
        score, epsilon = score.detach(), TIED[score.dtype]
    elif epsilon == "auto":
        epsilon = auto_epsilon(score.detach(), sample_weight)
    rank = soft_ranks(score, epsilon, sample_weight)
    n = len(rank) if sample_weight is None else _number(_total(sample_weight))
    return WEIGHTS[weights](rank, n)


def auto_epsilon(score: Tensor, sample_weight: Tensor | None = None) -> Any:
    """Return the epsilon that halves the range of the ranks of uniform confidences.

    It is a float, or a tensor if the code is traced.
    """
    weight = torch.ones_like(score) if sample_weight is None else sample_weight
    n = _total(weight)
    mean = (weight * score).sum() / n
    variance = (weight * (score - mean).square()).sum() / n
    if is_traced():
        return 2 * (12 * variance).sqrt().clamp_min(MIN_SPREAD) / n
    spread = max(math.sqrt(12 * variance.item()), MIN_SPREAD)
    return 2 * spread / n.item()


def _number(value: Tensor) -> Any:
    """Return the value of a tensor, or the tensor itself if the code is traced."""
    return value if is_traced() else value.item()


def _digamma(value: Any) -> Any:
    """Return the digamma function of a number, as a float, or of a tensor."""
    if is_traced():
        return torch.digamma(torch.as_tensor(value, dtype=torch.float64))
    return float(digamma(value))


def _total(weight: Tensor) -> Tensor:
    """Return the sum of the weights, or a tiny number if all weights are 0."""
    return above_zero(weight.sum())
