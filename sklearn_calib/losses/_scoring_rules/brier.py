"""Brier score loss."""

from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor
from torch.autograd import Function

from sklearn_calib._validation.probabilities import check_proba
from sklearn_calib.losses._base.checks import (
    IgnoredIndex,
    Reduction,
    check_batch,
    is_traced,
    reduce_loss,
)
from sklearn_calib.losses._base.decorators import loss_function, parameters_of
from sklearn_calib.losses._base.loss import CalibrationLoss
from sklearn_calib.losses._base.stable_gradients import stable_softmax


@loss_function
def brier_loss(
    logits: Tensor,
    target: Tensor,
    *,
    ignore_index: IgnoredIndex = -100,
    reduction: Reduction = "mean",
    sample_weight: Tensor | None = None,
) -> Tensor:
    r"""Brier score loss: squared distance between probabilities and one-hot label.

    The squared differences between predicted probabilities and one-hot label are summed
    over the classes [1]_, so that the loss of a sample is in [0, 2]. It is strictly
    proper. Because it is bounded, mislabelled samples cannot dominate it.

    Parameters
    ----------
    logits : Tensor of shape (N, C, ...)
        Unnormalised log probabilities.
    target : Tensor of shape (N, ...) or (N, C, ...)
        Class indices, or soft targets (class probabilities whose rows sum to one).
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
        If the shapes do not match or a value is out of range.
    TypeError
        If `logits` is not a floating point tensor.

    See Also
    --------
    BrierLoss : Module version of this function.
    sklearn.metrics.brier_score_loss : The metric. For two classes its default is half
        of this loss.

    Notes
    -----
    The gradient vanishes if the predicted probability of the true class is near 0.
    Training is therefore slow if the network starts with confident wrong predictions.

    With soft targets the loss is smaller than its average over the labels, by
    ``1 - sum(target ** 2)``. This difference does not depend on the network.

    References
    ----------
    .. [1] G. W. Brier, "Verification of Forecasts Expressed in Terms of Probability",
       Monthly Weather Review 78, 1950, equation 2.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import brier_loss
    >>> brier_loss(torch.zeros(1, 2), torch.tensor([1]))
    tensor(0.5000)
    """
    logits, target = check_batch(logits, target, soft=True)
    return reduce_loss(brier_values(logits, target), reduction, sample_weight)


def brier_values(logits: Tensor, target: Tensor) -> Tensor:
    """Return the loss of each sample of a validated batch."""
    if target.ndim == 2:
        return (stable_softmax(logits) - target).square().sum(1)
    if is_traced():
        return _values_and_terms(logits, target)[0]
    return _BrierValues.apply(logits, target)


def _values_and_terms(
    logits: Tensor, target: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the losses and the terms of their gradients."""
    proba = logits.softmax(1)
    others = proba.scatter(1, target.unsqueeze(1), 0.0)
    # 1 - p_t as a sum over the other classes: computed as a difference, it would be 0
    # for log-odds above 37.
    rest = others.sum(1)
    return others.square().sum(1) + rest.square(), proba, others, rest


class _BrierValues(Function):
    """Loss of each sample with its gradient, ``2 * p_k * (g_k - value)``.

    Here g_k is p_k + 1 - p_t for the other classes and 0 for the true class. The mean
    of g - value under p is 0 except for rounding errors. It is subtracted again,
    because if one probability is near 1, its g_k - value is as small as these errors.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, target: Tensor) -> Tensor:
        values, proba, others, rest = _values_and_terms(logits, target)
        ctx.save_for_backward(logits, target, values, proba, others, rest)
        return values

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        logits, target, values, proba, others, rest = ctx.saved_tensors
        if torch.is_grad_enabled():
            # Saved tensors have no graph: a second derivative needs a new one.
            values = _values_and_terms(logits, target)[0]
            return *torch.autograd.grad(values, logits, grad, create_graph=True), None
        excess = others + (rest - values).unsqueeze(1)
        excess.scatter_(1, target.unsqueeze(1), -values.unsqueeze(1))
        excess -= (excess * proba).sum(1, keepdim=True)
        return excess.mul_(proba).mul_(2 * grad.unsqueeze(1)), None


class BrierLoss(CalibrationLoss):
    """Module version of :func:`brier_loss`. See there for details.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import BrierLoss
    >>> BrierLoss()(torch.zeros(1, 4), torch.tensor([3]))
    tensor(0.7500)
    """

    formula = r"$\sum_k (p_k - y_k)^2$"
    takes_probabilities = True

    @parameters_of(brier_loss)
    def __init__(self) -> None: ...

    def posterior(self, proba: ArrayLike) -> np.ndarray:
        """Return the class posterior for which `proba` minimises the expected loss.

        The loss is proper, so that the posterior is `proba` itself.

        Parameters
        ----------
        proba : array-like of shape (n_samples, n_classes)
            Softmax outputs of a network that minimises the expected loss.

        Returns
        -------
        posterior : ndarray of shape (n_samples, n_classes)
            True class probabilities, with the classes in the same order.
        """
        return check_proba(proba, name="proba")
