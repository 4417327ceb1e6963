"""Cross-entropy loss with label smoothing and soft targets."""

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import ArrayLike
from torch import Tensor
from torch.autograd import Function

from sklearn_calib._validation.probabilities import check_proba
from sklearn_calib.losses._base.checks import (
    BelowOne,
    IgnoredIndex,
    Reduction,
    check_batch,
    is_traced,
    reduce_loss,
)
from sklearn_calib.losses._base.decorators import loss_function, parameters_of
from sklearn_calib.losses._base.logit_confidence import LogitConfidence
from sklearn_calib.losses._base.loss import CalibrationLoss
from sklearn_calib.losses._base.stable_gradients import true_class_log_odds


@loss_function
def cross_entropy_loss(
    logits: Tensor,
    target: Tensor,
    *,
    label_smoothing: BelowOne = 0.0,
    ignore_index: IgnoredIndex = -100,
    reduction: Reduction = "mean",
    sample_weight: Tensor | None = None,
) -> Tensor:
    r"""Cross-entropy loss with optional label smoothing.

    The loss of a sample is ``-log(p_t)``, where p_t is the predicted probability of the
    true class. It is strictly proper: its expected value is minimal at the true
    probabilities. A network that can fit its training set nevertheless becomes
    overconfident, because the loss rewards more confidence in predictions that are
    already correct.

    Parameters
    ----------
    logits : Tensor of shape (N, C, ...)
        Unnormalised log probabilities.
    target : Tensor of shape (N, ...) or (N, C, ...)
        Class indices, or soft targets (class probabilities whose rows sum to one).
    label_smoothing : float, default=0.0
        Fraction of the target that is distributed uniformly over all C classes,
        including the true one, in [0, 1): each class receives ``label_smoothing / C``
        [1]_. Values from 0.05 to 0.1 are usual.
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
        If a parameter is out of range or the shapes do not match.
    TypeError
        If a parameter is not a number, or `logits` is not a floating point tensor.

    See Also
    --------
    CrossEntropyLoss : Module version of this function.

    Notes
    -----
    With class indices and no smoothing, the loss stays positive for very confident
    predictions. It is 4.2e-18 if the log odds of the true class are 40, where
    :func:`torch.nn.functional.cross_entropy` returns 0.

    Some papers distribute the smoothing over the other classes only. Their ``alpha``
    corresponds to ``label_smoothing = alpha * C / (C - 1)``.

    References
    ----------
    .. [1] C. Szegedy, V. Vanhoucke, S. Ioffe, J. Shlens and Z. Wojna, "Rethinking the
       Inception Architecture for Computer Vision", CVPR 2016, section 7.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import cross_entropy_loss
    >>> logits = torch.tensor([[2.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    >>> cross_entropy_loss(logits, torch.tensor([0, 2]))
    tensor(0.8955)
    >>> cross_entropy_loss(logits, torch.tensor([0, 2]), label_smoothing=0.1)
    tensor(0.9455)
    """
    logits, target = check_batch(logits, target, soft=True)
    values = _cross_entropy(logits, target, float(label_smoothing))
    return reduce_loss(values, reduction, sample_weight)


def _cross_entropy(logits: Tensor, target: Tensor, label_smoothing: float) -> Tensor:
    """Return the loss of each sample."""
    if target.ndim == 1 and not label_smoothing:
        return log_loss_and_confidence(logits, target)[0]
    log_proba = F.log_softmax(logits, 1)
    if target.ndim == 1:
        expected = log_proba.gather(1, target.unsqueeze(1)).squeeze(1)
    else:
        # The log probability of a masked class may be -inf, and 0 * -inf is NaN.
        expected = torch.where(target == 0, 0, target * log_proba).sum(1)
    if not label_smoothing:
        return -expected
    return (label_smoothing - 1) * expected - label_smoothing * log_proba.mean(1)


def log_loss_and_confidence(logits: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Return -log p_t and the largest probability of each sample."""
    if is_traced():
        log_loss = -F.logsigmoid(true_class_log_odds(logits, target))
        return log_loss, logits.softmax(1).max(1).values
    return _LogLossAndConfidence.apply(logits, target)


class _LogLossAndConfidence(Function):
    """-log p_t and the largest probability, computed from one softmax.

    The log loss is exact even if p_t is close to 1. The explicit gradient is faster
    than autograd through the log-odds, and much faster if both results are used.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        index = target.unsqueeze(1)
        unscaled = logits - logits.amax(1, keepdim=True)
        distance = unscaled.gather(1, index)
        others = unscaled.exp_().scatter_(1, index, 0.0).sum(1, keepdim=True)
        # The sum over all classes minus 1, computed without rounding small terms to 0.
        # If the true class is predicted, it is the sum over the other classes.
        rest = others + distance.expm1()
        confidence = (1 + rest).reciprocal_()
        ctx.save_for_backward(logits, index, unscaled, others, confidence)
        ctx.set_materialize_grads(False)
        return (rest.log1p_() - distance).squeeze(1), confidence.squeeze(1)

    @staticmethod
    def backward(ctx: Any, grad: Any, confidence_grad: Tensor | None) -> Any:
        logits, index, unscaled, others, confidence = ctx.saved_tensors
        scale = confidence
        # Saved tensors have no graph: a second derivative needs a new one.
        if torch.is_grad_enabled():
            proba = logits.softmax(1)
            unscaled, scale = proba.scatter(1, index, 0.0), 1
            others, confidence = (
                unscaled.sum(1, keepdim=True),
                proba.amax(1, keepdim=True),
            )
        grad = 0 if grad is None else grad.unsqueeze(1)
        if confidence_grad is None:
            return _log_loss_grad(unscaled, others, index, scale * grad), None
        # With unit vectors e, the gradient of the confidence c is c * (e_top - p), and
        # that of the log loss is p - e_t. So the term -c * p is -c times the gradient
        # of the log loss minus c * e_t.
        lift = confidence * confidence_grad.unsqueeze(1)
        result = _log_loss_grad(unscaled, others, index, scale * (grad - lift))
        top = logits.argmax(1, keepdim=True)
        return result.scatter_add_(1, top, lift).scatter_add_(1, index, -lift), None


def _log_loss_grad(
    unscaled: Tensor, others: Tensor, index: Tensor, factor: float | Tensor
) -> Tensor:
    """Return the gradient, p - one-hot label, times a factor; exact for p_t near 1."""
    return (unscaled * factor).scatter_(1, index, -others * factor)


class CrossEntropyLoss(CalibrationLoss):
    """Module version of :func:`cross_entropy_loss`. See there for details.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import CrossEntropyLoss
    >>> CrossEntropyLoss(label_smoothing=0.05)(torch.zeros(1, 2), torch.tensor([1]))
    tensor(0.6931)
    """

    formula = r"$-\log p_t$"
    takes_probabilities = True

    @parameters_of(cross_entropy_loss)
    def __init__(self) -> None: ...

    def _values_and_confidence(
        self, logits: Tensor, target: Tensor, confidence: LogitConfidence
    ) -> tuple[Tensor, Tensor]:
        """Compute both from one softmax if possible.

        See :meth:`CalibrationLoss._values_and_confidence`.
        """
        # A subclass may override forward.
        is_plain = type(self) is CrossEntropyLoss and not self.label_smoothing
        if is_plain and confidence == "msp":
            return log_loss_and_confidence(logits, target)
        return super()._values_and_confidence(logits, target, confidence)

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

        Raises
        ------
        ValueError
            If `label_smoothing` is not 0: a probability below ``label_smoothing / C``
            would give a negative posterior.
        """
        if self.label_smoothing:
            raise ValueError(
                "label_smoothing must be 0 to recover the posterior, got "
                f"{self.label_smoothing!r}. Calibrate the predictions instead, for "
                "example with TemperatureScaling."
            )
        return check_proba(proba, name="proba")
