"""Softmax and entropy with gradients that are exact for probabilities near 1."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from sklearn_calib.losses._base.checks import is_traced


def softmax(logits: Tensor) -> Tensor:
    """Return the class probabilities of each sample.

    The gradient of a logit is ``p_k * (g_k - sum(p * g))``. If the largest probability
    is near 1, all digits of its gradient cancel in this difference. Adding a constant
    to g does not change the gradient, so the rounded ``sum(p * g)`` is subtracted from
    g first, which makes the difference exact.
    """
    proba = logits.softmax(1)
    if proba.requires_grad and not is_traced():
        weight = proba.detach()
        proba.register_hook(lambda grad: _centred(grad, weight))
    return proba


def _centred(grad: Tensor | None, weight: Tensor) -> Tensor | None:
    """Return a gradient minus its mean; it may be None for a second derivative."""
    if grad is None:
        return None
    return grad - (grad.detach() * weight).sum(1, keepdim=True)


def negative_entropy(logits: Tensor) -> Tensor:
    """Return ``sum_k p_k * log(p_k)`` of each sample."""
    if is_traced():
        log_proba = logits.log_softmax(1)
        return (log_proba.exp() * log_proba).sum(1)
    return _NegativeEntropy.apply(logits)


class _NegativeEntropy(Function):
    """Negative entropy, computed from the logits minus the largest logit, d.

    It is ``sum(p * d) - log(sum(exp(d)))``, a sum of two terms of the same sign. Its
    gradient is ``p_k * (d_k - sum(p * d))``, where d is 0 for the largest logit.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor) -> Tensor:
        top, index = logits.max(1, keepdim=True)
        distance = logits - top
        proba = distance.exp()
        # The 1 of the largest logit is left out, so that small terms are not lost.
        rest = proba.scatter(1, index, 0.0).sum(1, keepdim=True)
        proba /= 1 + rest
        mean = (proba * distance).sum(1, keepdim=True)
        ctx.save_for_backward(logits, proba, distance, mean)
        return (mean - rest.log1p_()).squeeze(1)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        logits, proba, distance, mean = ctx.saved_tensors
        # Saved tensors have no graph: a second derivative needs a new one.
        if torch.is_grad_enabled():
            proba, distance = logits.softmax(1), logits.log_softmax(1)
            mean = (proba * distance).sum(1, keepdim=True)
        return proba * (distance - mean) * grad.unsqueeze(1)
