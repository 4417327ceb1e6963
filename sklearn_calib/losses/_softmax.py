"""Functions of all probabilities, with gradients that are exact where one is near 1."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from sklearn_calib.losses._base import is_traced


def softmax(logits: Tensor) -> Tensor:
    """Return the probabilities of each sample.

    The gradient of a logit is ``p_k * (g_k - sum(p * g))``, a difference that rounding
    takes all digits of for the largest probability when it is near 1. A constant in g
    changes nothing. With the rounded ``sum(p * g)`` for it, the difference is exact.
    """
    proba = logits.softmax(1)
    if proba.requires_grad and not is_traced():
        weight = proba.detach()
        proba.register_hook(lambda grad: _centred(grad, weight))
    return proba


def _centred(grad: Tensor | None, weight: Tensor) -> Tensor | None:
    """Return a gradient without its mean; a second derivative may have none."""
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
    """The negative entropy from the distances d of the logits to the largest one.

    It is ``sum(p * d) - log(sum(exp(d)))``, two terms of one sign, and its gradient is
    ``p_k * (d_k - sum(p * d))``, where d is 0 for the largest.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor) -> Tensor:
        top, index = logits.max(1, keepdim=True)
        distance = logits - top
        share = distance.exp()
        # What a 1 beside it would swamp.
        rest = share.scatter(1, index, 0.0).sum(1, keepdim=True)
        share /= 1 + rest
        mean = (share * distance).sum(1, keepdim=True)
        ctx.save_for_backward(logits, share, distance, mean)
        return (mean - rest.log1p_()).squeeze(1)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        logits, share, distance, mean = ctx.saved_tensors
        # What is saved has no graph: a second derivative needs a new one.
        if torch.is_grad_enabled():
            share, distance = logits.softmax(1), logits.log_softmax(1)
            mean = (share * distance).sum(1, keepdim=True)
        return share * (distance - mean) * grad.unsqueeze(1)
