"""Label relaxation: the label is a set of distributions, and its nearest counts."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from sklearn_calib.losses._base import (
    check_batch,
    check_nonnegative,
    reduce_loss,
)
from sklearn_calib.losses._calibration_loss import CalibrationLoss
from sklearn_calib.losses._margin import true_class_margin
from sklearn_calib.losses._soft_targets import averages_over_labels
from sklearn_calib.losses._typing import Reduction


@averages_over_labels
def label_relaxation_loss(
    logits: Tensor,
    target: Tensor,
    *,
    alpha: float = 0.1,
    reduction: Reduction = "mean",
    sample_weight: Tensor | None = None,
) -> Tensor:
    r"""Divergence from the nearest label that leaves alpha open. Small is good.

    The label stands for all distributions that give the true class at least ``1 -
    alpha`` [1]_. The loss is 0 if the probabilities are one of them, and else the
    Kullback-Leibler divergence from the nearest, which gives the true class ``1 -
    alpha`` and the others alpha, in the proportions that they have:
    ``(1 - alpha) * log((1 - alpha) / p_t) + alpha * log(alpha / (1 - p_t))``.

    Parameters
    ----------
    logits : Tensor of shape (N, C)
        Unnormalised log probabilities.
    target : Tensor of shape (N,) or (N, C)
        Class indices, or probabilities, over which the loss is averaged.
    alpha : float, default=0.1
        How much of the probability is left open, in [0, 1). With 0 the loss is
        cross-entropy.
    reduction : {"mean", "sum", "none"}, default="mean"
        What to return: the mean over the batch, the sum, or one loss per sample.
    sample_weight : Tensor of shape (N,), default=None
        Non-negative weights: the mean becomes ``sum(w * l) / sum(w)``.

    Returns
    -------
    loss : Tensor
        A scalar, or of shape (N,) with ``reduction="none"``.

    Raises
    ------
    ValueError
        If alpha is not in [0, 1), or the shapes do not match.
    TypeError
        If alpha is no number, or the logits are no floating point tensor.

    See Also
    --------
    LabelRelaxationLoss : The same as a module.
    cross_entropy_loss : With `label_smoothing`, where a confidence above
        ``1 - alpha`` is punished, and the others are to be equal.

    References
    ----------
    .. [1] J. Lienen and E. Hüllermeier, "From Label Smoothing to Label Relaxation",
       AAAI 2021.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import label_relaxation_loss
    >>> logits = torch.tensor([[3.0, 0.0], [1.0, 0.0]])
    >>> label_relaxation_loss(logits, torch.tensor([0, 0]), reduction="none")
    tensor([0.0000, 0.0882])
    """
    alpha = float(_check_alpha(alpha))
    logits, target = check_batch(logits, target)
    values = _divergence(true_class_margin(logits, target), alpha)
    return reduce_loss(values, reduction, sample_weight)


def _divergence(margin: Tensor, alpha: float) -> Tensor:
    """Return the loss of each sample from the log odds of its true class."""
    if not alpha:
        return -F.logsigmoid(margin)
    log_odds = math.log1p(-alpha) - math.log(alpha)
    entropy = -(1 - alpha) * math.log1p(-alpha) - alpha * math.log(alpha)
    # At the bound rounding may leave less than 0, the value inside it.
    values = -(1 - alpha) * F.logsigmoid(margin) - alpha * F.logsigmoid(-margin)
    return torch.where(margin >= log_odds, 0.0, (values - entropy).clamp_min(0))


def _check_alpha(alpha: float) -> float:
    """Return alpha if it is in range."""
    return check_nonnegative("alpha", alpha, below=1)


class LabelRelaxationLoss(CalibrationLoss, function=label_relaxation_loss):
    """The module of :func:`label_relaxation_loss`, which has the details.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import LabelRelaxationLoss
    >>> LabelRelaxationLoss(alpha=0.2)(torch.zeros(1, 2), torch.tensor([1]))
    tensor(0.1927)
    """

    formula = "divergence from the nearest p with p_t >= 1 - alpha"
    takes_probabilities = True

    def __init__(self, *, alpha: float = 0.1, reduction: Reduction = "mean") -> None:
        super().__init__(reduction=reduction)
        self.alpha = _check_alpha(alpha)
