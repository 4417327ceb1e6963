"""Softmax, entropy and log-odds whose gradients are exact for probabilities near 1."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from sklearn_calib.losses._base.checks import above_zero, is_traced


def stable_softmax(logits: Tensor) -> Tensor:
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


def stable_negative_entropy(logits: Tensor) -> Tensor:
    """Return ``sum_k p_k * log(p_k)`` of each sample."""
    # The logit of a masked class may be -inf, and 0 * -inf is NaN.
    logits = logits.clamp_min(torch.finfo(logits.dtype).min)
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


def true_class_log_odds(logits: Tensor, target: Tensor) -> Tensor:
    """Return the log-odds of the true class, z_t - logsumexp of the other logits.

    With these log-odds m, ``logsigmoid(m)`` is log p_t and ``logsigmoid(-m)`` is
    log(1 - p_t). Both are exact even if p_t is close to 0 or 1. Computed from
    ``log_softmax`` instead, log(1 - p_t) would be lost to rounding for log-odds above
    37 in double precision, and above 17 in single precision.

    Parameters
    ----------
    logits : Tensor of shape (N, C)
        Logits in single or double precision.
    target : Tensor of shape (N,)
        Class indices, int64.

    Returns
    -------
    log_odds : Tensor of shape (N,)
        Log-odds of the true class.
    """
    if is_traced():
        target = target.unsqueeze(1)
        others = logits.scatter(1, target, -torch.inf).logsumexp(1)
        return logits.gather(1, target).squeeze(1) - others
    return _TrueClassLogOdds.apply(logits, target)


class _TrueClassLogOdds(Function):
    """Log-odds of the true class with an explicit gradient.

    The gradient is 1 for z_t and minus the softmax over the other classes for the
    others. Autograd takes twice as long for 1000 classes, because the scatter, the
    gather and the logsumexp each pass over the matrix.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, target: Tensor) -> Tensor:
        target = target.unsqueeze(1)
        others = logits.scatter(1, target, -torch.inf)
        # All other classes may be masked by -inf.
        top = others.amax(1, keepdim=True).clamp_min(torch.finfo(others.dtype).min)
        others.sub_(top).exp_()
        total = above_zero(others.sum(1, keepdim=True))
        log_odds = logits.gather(1, target) - top - total.log()
        ctx.save_for_backward(logits, target, others.div_(total))
        return log_odds.squeeze(1)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        logits, target, others = ctx.saved_tensors
        # The saved softmax has no graph: a second derivative needs a new one.
        if torch.is_grad_enabled():
            others = logits.scatter(1, target, -torch.inf).softmax(1)
        grad = grad.unsqueeze(1)
        return (others * -grad).scatter_(1, target, grad), None
