"""Label relaxation loss."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from sklearn_calib.losses._base.checks import (
    BelowOne,
    IgnoredIndex,
    Reduction,
    check_batch,
    reduce_loss,
)
from sklearn_calib.losses._base.decorators import (
    averages_over_labels,
    loss_function,
    parameters_of,
)
from sklearn_calib.losses._base.loss import CalibrationLoss
from sklearn_calib.losses._base.stable_gradients import true_class_log_odds


@loss_function
@averages_over_labels
def label_relaxation_loss(
    logits: Tensor,
    target: Tensor,
    *,
    alpha: BelowOne = 0.1,
    ignore_index: IgnoredIndex = -100,
    reduction: Reduction = "mean",
    sample_weight: Tensor | None = None,
) -> Tensor:
    r"""Label relaxation: KL divergence to the closest distribution in a target set.

    The target set of a sample contains all distributions in which the true class has
    a probability of at least ``1 - alpha`` [1]_. The loss is 0 if the predicted
    distribution is in this set. Otherwise it is the Kullback-Leibler divergence to the
    closest distribution of the set,
    ``(1 - alpha) * log((1 - alpha) / p_t) + alpha * log(alpha / (1 - p_t))``, with p_t
    the predicted probability of the true class.

    Parameters
    ----------
    logits : Tensor of shape (N, C, ...)
        Unnormalised log probabilities.
    target : Tensor of shape (N, ...) or (N, C, ...)
        Class indices, or soft targets (class probabilities), over which the loss is
        averaged.
    alpha : float, default=0.1
        Largest total probability of the other classes in the target set, in [0, 1).
        With 0, the loss is cross-entropy.
    ignore_index : int, default=-100
        Class index of samples that are left out, as in PyTorch's `cross_entropy`.
    reduction : {"mean", "sum", "none"}, default="mean"
        Whether to return the mean over the batch, the sum, or the loss of each sample.
    sample_weight : Tensor of shape (N, ...), default=None
        Non-negative sample weights. The mean becomes ``sum(w * l) / sum(w)``.

    Returns
    -------
    loss : Tensor
        A scalar, or of shape (N, ...) with ``reduction="none"``.

    Raises
    ------
    ValueError
        If `alpha` is not in [0, 1), or the shapes do not match.
    TypeError
        If `alpha` is not a number, or `logits` is not a floating point tensor.

    See Also
    --------
    LabelRelaxationLoss : Module version of this function.
    cross_entropy_loss : With `label_smoothing` it also penalises probabilities of the
        true class above ``1 - alpha``, and differences between the other classes.

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
    logits, target = check_batch(logits, target)
    values = _divergence(true_class_log_odds(logits, target), float(alpha))
    return reduce_loss(values, reduction, sample_weight)


def _divergence(log_odds: Tensor, alpha: float) -> Tensor:
    """Return the loss of each sample given the log odds of its true class."""
    if not alpha:
        return -F.logsigmoid(log_odds)
    bound = math.log1p(-alpha) - math.log(alpha)
    entropy = -(1 - alpha) * math.log1p(-alpha) - alpha * math.log(alpha)
    # Near the boundary of the set, rounding may give a negative value.
    values = -(1 - alpha) * F.logsigmoid(log_odds) - alpha * F.logsigmoid(-log_odds)
    return torch.where(log_odds >= bound, 0.0, (values - entropy).clamp_min(0))


class LabelRelaxationLoss(CalibrationLoss):
    """Module version of :func:`label_relaxation_loss`. See there for details.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import LabelRelaxationLoss
    >>> LabelRelaxationLoss(alpha=0.2)(torch.zeros(1, 2), torch.tensor([1]))
    tensor(0.1927)
    """

    formula = r"KL divergence to the closest distribution with $p_t \ge 1 - \alpha$"
    takes_probabilities = True

    @parameters_of(label_relaxation_loss)
    def __init__(self) -> None: ...
