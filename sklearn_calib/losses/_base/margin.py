"""Margin of the true class, from which log p_t and log(1 - p_t) are computed."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from sklearn_calib.losses._base.checks import is_traced


def true_class_margin(logits: Tensor, target: Tensor) -> Tensor:
    """Return the log odds of the true class, z_t - logsumexp of the other logits.

    With this margin m, ``logsigmoid(m)`` is log p_t and ``logsigmoid(-m)`` is
    log(1 - p_t). Both are exact even if p_t is close to 0 or 1. Computed from
    ``log_softmax`` instead, log(1 - p_t) would be lost to rounding for margins above 37
    in double precision, and above 17 in single precision.

    Parameters
    ----------
    logits : Tensor of shape (N, C)
        Logits in single or double precision.
    target : Tensor of shape (N,)
        Class indices, int64.

    Returns
    -------
    margin : Tensor of shape (N,)
        Log odds of the true class.
    """
    if is_traced():
        target = target.unsqueeze(1)
        others = logits.scatter(1, target, -torch.inf).logsumexp(1)
        return logits.gather(1, target).squeeze(1) - others
    return _TrueClassMargin.apply(logits, target)


class _TrueClassMargin(Function):
    """True-class margin with an explicit gradient.

    The gradient is 1 for z_t and minus the softmax over the other classes for the
    others. Autograd takes twice as long for 1000 classes, because the scatter, the
    gather and the logsumexp each pass over the matrix.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, target: Tensor) -> Tensor:
        target = target.unsqueeze(1)
        others = logits.scatter(1, target, -torch.inf)
        top = others.amax(1, keepdim=True)
        others.sub_(top).exp_()
        total = others.sum(1, keepdim=True)
        margin = logits.gather(1, target) - top - total.log()
        ctx.save_for_backward(logits, target, others.div_(total))
        return margin.squeeze(1)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        logits, target, others = ctx.saved_tensors
        # The saved softmax has no graph: a second derivative needs a new one.
        if torch.is_grad_enabled():
            others = logits.scatter(1, target, -torch.inf).softmax(1)
        grad = grad.unsqueeze(1)
        return (others * -grad).scatter_(1, target, grad), None
