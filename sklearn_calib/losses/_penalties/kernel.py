"""Estimate the calibration error of a batch with Dirichlet kernels."""

import math
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from sklearn_calib._numerics.dirichlet_kernel import BANDWIDTHS
from sklearn_calib.losses._base.checks import check_not_meta
from sklearn_calib.losses._base.margin import true_class_margin
from sklearn_calib.losses._base.penalty import top_label
from sklearn_calib.losses._base.typing import FloatOrAuto

Mode = Literal["canonical", "classwise", "top_label"]


def calibration_errors(
    logits: Tensor,
    target: Tensor,
    mode: Mode,
    power: int,
    bandwidth: FloatOrAuto,
    weight: Tensor | None,
) -> Tensor:
    """Return the calibration error of each sample.

    It is the distance between the prediction of the sample and the kernel-weighted mean
    label of the other samples.
    """
    log_proba, label = MODES[mode](logits, target)
    neighbours = _neighbours(logits, weight)
    if bandwidth == "auto":
        bandwidth = _find_bandwidth(log_proba.detach(), neighbours, weight)
    weights = _log_densities(log_proba, float(bandwidth), neighbours).softmax(-1)
    gap = weights @ label - log_proba.exp()[..., : label.shape[2]]
    error = gap.abs().pow(power).sum((0, 2))
    return error * (neighbours.sum(1) > 0)


def _canonical(logits: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Return all log probabilities and labels as one problem."""
    label = F.one_hot(target, logits.shape[1]).to(logits.dtype)
    return logits.log_softmax(1)[None], label[None]


def _classwise(logits: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Return C one-vs-rest problems.

    The gaps of both classes of such a problem are equal in size, so the label has a
    single column.
    """
    log_proba, top = logits.log_softmax(1), logits.argmax(1, keepdim=True)
    # 1 - p is exact in floating point unless p is near 1, as only the largest p may be.
    log_rest = torch.log1p(-log_proba.exp().scatter(1, top, 0.0))
    log_rest = log_rest.scatter(1, top, _log_odds(logits, top)[1])
    label = F.one_hot(target, logits.shape[1]).to(logits.dtype)
    return torch.stack([log_proba, log_rest], 2).transpose(0, 1), label.T.unsqueeze(2)


def _top_label(logits: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Return the binary problem of whether the prediction is correct."""
    log_proba = torch.cat(_log_odds(logits, logits.argmax(1, keepdim=True)), 1)
    _, wrong = top_label(logits, target)
    return log_proba[None], (1 - wrong)[None, :, None]


def _log_odds(logits: Tensor, top: Tensor) -> tuple[Tensor, Tensor]:
    """Return log p and log(1 - p) of one class per sample, of shape (N, 1) each."""
    margin = true_class_margin(logits, top.squeeze(1)).unsqueeze(1)
    return F.logsigmoid(margin), F.logsigmoid(-margin)


# These map logits and target to log probabilities and labels of B problems, of shape
# (B, N, classes).
MODES = {"canonical": _canonical, "classwise": _classwise, "top_label": _top_label}


def _neighbours(logits: Tensor, weight: Tensor | None) -> Tensor:
    """Return the weight of each sample (column) in the estimate for each other (row).

    A sample is left out of its own estimate: one of its repetitions is subtracted.
    """
    weight = logits.new_ones(len(logits)) if weight is None else weight
    itself = torch.eye(len(logits), dtype=logits.dtype, device=logits.device)
    return (weight - itself).clamp_min(0)


def _log_densities(log_proba: Tensor, bandwidth: float, neighbours: Tensor) -> Tensor:
    """Return the log density at each sample (row) of the kernel of each (column)."""
    alpha = log_proba.exp() / bandwidth
    # alpha sums to 1 / bandwidth, so log_bandwidth can be subtracted from log_proba and
    # added to the total. Otherwise the gradients of the terms would be 1 / bandwidth
    # times as large as that of their sum.
    log_bandwidth = math.log(bandwidth)
    total = math.lgamma(1 / bandwidth + alpha.shape[-1]) + log_bandwidth / bandwidth
    log_norm = total - torch.lgamma(alpha + 1).sum(-1, keepdim=True)
    # One matrix product for all terms, since operations on (B, N, N) dominate the time.
    point = F.pad(log_proba - log_bandwidth, (0, 1), value=1.0)
    kernel = torch.cat([alpha, log_norm], -1)
    # The lowest number replaces log(0), because the softmax of a row of -inf is NaN.
    log_neighbours = neighbours.log().clamp_min(torch.finfo(neighbours.dtype).min)
    return torch.baddbmm(log_neighbours, point, kernel.mT)


def _find_bandwidth(
    log_proba: Tensor, neighbours: Tensor, weight: Tensor | None
) -> float:
    """Return the bandwidth that maximises the leave-one-out likelihood."""
    check_not_meta("logits", log_proba)
    counts = neighbours.sum(1) > 0
    counts = counts if weight is None else counts * weight

    def likelihood(bandwidth: float) -> float:
        density = _log_densities(log_proba, bandwidth, neighbours).logsumexp(-1)
        return (density * counts).sum().item()

    return max(BANDWIDTHS, key=likelihood)
