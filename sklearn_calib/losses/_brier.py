"""The Brier score as a training loss."""

from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor
from torch.autograd import Function

from sklearn_calib._core.validation import check_proba
from sklearn_calib.losses._base import check_batch, is_traced, reduce_loss
from sklearn_calib.losses._calibration_loss import CalibrationLoss
from sklearn_calib.losses._softmax import softmax
from sklearn_calib.losses._typing import Reduction


def brier_loss(
    logits: Tensor,
    target: Tensor,
    *,
    reduction: Reduction = "mean",
    sample_weight: Tensor | None = None,
) -> Tensor:
    r"""Squared distance of the probabilities from the label. The smaller the better.

    For each sample the squared differences between the predicted probabilities and the
    one-hot label are summed over the classes [1]_: 0 is best, 2 is worst. The loss is
    strictly proper, and bounded, so that a mislabelled sample cannot dominate.

    Parameters
    ----------
    logits : Tensor of shape (N, C)
        Unnormalised log probabilities.
    target : Tensor of shape (N,) or (N, C)
        Class indices, or probabilities whose rows sum to one.
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
        If the shapes do not match or a value is out of range.
    TypeError
        If the logits are no floating point tensor.

    See Also
    --------
    BrierLoss : The same as a module.
    sklearn.metrics.brier_score_loss : The metric. For two classes its default is half
        of this loss.

    Notes
    -----
    The gradient vanishes for a sample whose true class has probability 0: training
    from a confident wrong start is slow.

    With probabilities as target the loss is smaller than its mean over the labels, by
    their own impurity ``1 - sum(target ** 2)``: a constant for the network.

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
    """Return the loss of each sample of a checked batch."""
    if target.ndim == 2:
        return (softmax(logits) - target).square().sum(1)
    if is_traced():
        return _values_and_terms(logits, target)[0]
    return _BrierValues.apply(logits, target)


def _values_and_terms(
    logits: Tensor, target: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the losses, and what their gradients are made from."""
    proba = logits.softmax(1)
    others = proba.scatter(1, target.unsqueeze(1), 0.0)
    # 1 - p_t as the sum of the others: the difference is 0 from a margin of 37 on.
    rest = others.sum(1)
    return others.square().sum(1) + rest.square(), proba, others, rest


class _BrierValues(Function):
    """The loss of each sample with its gradient, which is ``2 * p_k * (g_k - value)``.

    Here g is p_k + 1 - p_t for the other classes, 0 for the true one. What rounding
    leaves of the mean of g - value is taken off once more: where one probability is
    near 1, its difference is as small as the other probabilities.
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
            # What is saved has no graph: a second derivative needs a new one.
            values = _values_and_terms(logits, target)[0]
            return *torch.autograd.grad(values, logits, grad, create_graph=True), None
        gap = others + (rest - values).unsqueeze(1)
        gap.scatter_(1, target.unsqueeze(1), -values.unsqueeze(1))
        gap -= (gap * proba).sum(1, keepdim=True)
        return gap.mul_(proba).mul_(2 * grad.unsqueeze(1)), None


class BrierLoss(CalibrationLoss, function=brier_loss):
    """The module of :func:`brier_loss`, which has the details.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import BrierLoss
    >>> BrierLoss()(torch.zeros(1, 4), torch.tensor([3]))
    tensor(0.7500)
    """

    formula = "sum_k (p_k - y_k)^2"
    takes_probabilities = True

    def posterior(self, proba: ArrayLike) -> np.ndarray:
        """Return the true probabilities at which the loss is minimal at `proba`.

        The loss is proper: these are `proba` themselves.

        Parameters
        ----------
        proba : array-like of shape (n_samples, n_classes)
            What a network says that minimises the expected loss.

        Returns
        -------
        posterior : ndarray of shape (n_samples, n_classes)
            The probabilities that the classes then have, in the same order.
        """
        return check_proba(proba, name="proba")
