"""Cross-entropy, with label smoothing and soft targets."""

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import ArrayLike
from torch import Tensor
from torch.autograd import Function

from sklearn_calib._core.validation import check_proba
from sklearn_calib.losses._base import (
    check_batch,
    check_nonnegative,
    is_traced,
    mean_by_row,
    reduce_loss,
)
from sklearn_calib.losses._calibration_loss import CalibrationLoss
from sklearn_calib.losses._margin import true_class_margin
from sklearn_calib.losses._typing import Confidence, Reduction


def cross_entropy_loss(
    logits: Tensor,
    target: Tensor,
    *,
    label_smoothing: float = 0.0,
    reduction: Reduction = "mean",
    sample_weight: Tensor | None = None,
) -> Tensor:
    r"""Surprise at the true class, -log p_t. The smaller the better, 0 at least.

    It is strictly proper: in expectation nothing beats the true probabilities. A
    network that can fit its training set nevertheless becomes overconfident with it,
    because the loss rewards certainty on samples that are right already.

    Parameters
    ----------
    logits : Tensor of shape (N, C)
        Unnormalised log probabilities.
    target : Tensor of shape (N,) or (N, C)
        Class indices, or probabilities whose rows sum to one.
    label_smoothing : float, default=0.0
        Share of the target that is spread evenly over all classes, the true one
        included, in [0, 1): each class receives ``label_smoothing / C`` [1]_. Values
        from 0.05 to 0.1 are usual.
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
        If a parameter is out of range or the shapes do not match.
    TypeError
        If a parameter is no number, or the logits are no floating point tensor.

    See Also
    --------
    CrossEntropyLoss : The same as a module.

    Notes
    -----
    With class indices and no smoothing the loss is softplus of minus the margin of the
    true class: it is 4.2e-18 at a margin of 40, where
    :func:`torch.nn.functional.cross_entropy` returns 0.

    Some papers spread the smoothing over the other classes only. Their ``alpha`` is
    ``label_smoothing * (C - 1) / C`` here.

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
    check_nonnegative("label_smoothing", label_smoothing, below=1)
    label_smoothing = float(label_smoothing)
    logits, target = check_batch(logits, target, soft=True)
    values = _cross_entropy(logits, target, label_smoothing)
    return reduce_loss(values, reduction, sample_weight)


def _cross_entropy(logits: Tensor, target: Tensor, label_smoothing: float) -> Tensor:
    """Return the loss of each sample."""
    if target.ndim == 1 and not label_smoothing:
        return surprise_and_confidence(logits, target)[0]
    log_proba = F.log_softmax(logits, 1)
    if target.ndim == 1:
        hit = log_proba.gather(1, target.unsqueeze(1)).squeeze(1)
    else:
        hit = (target * log_proba).sum(1)
    return (label_smoothing - 1) * hit - label_smoothing * mean_by_row(log_proba)


def surprise_and_confidence(logits: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Return -log p_t and the largest probability of each sample."""
    if is_traced():
        surprise = -F.logsigmoid(true_class_margin(logits, target))
        return surprise, logits.softmax(1).max(1).values
    return _SurpriseAndConfidence.apply(logits, target)


class _SurpriseAndConfidence(Function):
    """-log p_t and the largest probability, from one softmax and with their gradient.

    The surprise is exact however close p_t is to 1. Written down, the gradient takes
    less time than by the margin, and that of both much less than of one by one.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        index = target.unsqueeze(1)
        share = logits - logits.amax(1, keepdim=True)
        gap = share.gather(1, index)
        others = share.exp_().scatter_(1, index, 0.0).sum(1, keepdim=True)
        # The sum of all minus 1: if the true class is on top, that of the others alone,
        # which a 1 beside it would swamp.
        rest = others + gap.expm1()
        confidence = (1 + rest).reciprocal_()
        ctx.save_for_backward(logits, index, share, others, confidence)
        ctx.set_materialize_grads(False)
        return (rest.log1p_() - gap).squeeze(1), confidence.squeeze(1)

    @staticmethod
    def backward(ctx: Any, grad: Any, confidence_grad: Tensor | None) -> Any:
        logits, index, share, others, confidence = ctx.saved_tensors
        scale = confidence
        # What is saved has no graph: a second derivative needs a new one.
        if torch.is_grad_enabled():
            proba = logits.softmax(1)
            share, scale = proba.scatter(1, index, 0.0), 1
            others, confidence = share.sum(1, keepdim=True), proba.amax(1, keepdim=True)
        grad = 0 if grad is None else grad.unsqueeze(1)
        if confidence_grad is None:
            return _surprise_grad(share, others, index, scale * grad), None
        # Where p is that of the surprise plus 1 for the true class, the gradient of the
        # confidence is -p times it, and it on its own for the class on top.
        lift = confidence * confidence_grad.unsqueeze(1)
        result = _surprise_grad(share, others, index, scale * (grad - lift))
        top = logits.argmax(1, keepdim=True)
        return result.scatter_add_(1, top, lift).scatter_add_(1, index, -lift), None


def _surprise_grad(
    share: Tensor, others: Tensor, index: Tensor, factor: float | Tensor
) -> Tensor:
    """Return p for the other classes and p_t - 1, exactly, for the true one."""
    return (share * factor).scatter_(1, index, -others * factor)


class CrossEntropyLoss(CalibrationLoss, function=cross_entropy_loss):
    """The module of :func:`cross_entropy_loss`, which has the details.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import CrossEntropyLoss
    >>> CrossEntropyLoss(label_smoothing=0.05)(torch.zeros(1, 2), torch.tensor([1]))
    tensor(0.6931)
    """

    formula = "-log p_t"
    takes_probabilities = True

    def __init__(
        self, *, label_smoothing: float = 0.0, reduction: Reduction = "mean"
    ) -> None:
        super().__init__(reduction=reduction)
        self.label_smoothing = check_nonnegative(
            "label_smoothing", label_smoothing, below=1
        )

    def _values_and_confidence(
        self, logits: Tensor, target: Tensor, confidence: Confidence
    ) -> tuple[Tensor, Tensor]:
        """Return both from one softmax where it has them; a subclass may differ."""
        is_plain = type(self) is CrossEntropyLoss and not self.label_smoothing
        if is_plain and confidence == "msp":
            return surprise_and_confidence(logits, target)
        return super()._values_and_confidence(logits, target, confidence)

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

        Raises
        ------
        ValueError
            If labels are smoothed: a network that says less than the share of each
            class would tell of negative probabilities.
        """
        if self.label_smoothing:
            raise ValueError(
                "label_smoothing must be 0 for the loss to tell the posterior, got "
                f"{self.label_smoothing!r}. Calibrate afterwards instead, as by "
                "TemperatureScaling."
            )
        return check_proba(proba, name="proba")
