"""The margin of the true class: the number that log p_t and log(1 - p_t) come from."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from sklearn_calib.losses._base import is_traced


def true_class_margin(logits: Tensor, target: Tensor) -> Tensor:
    """Return z_t - logsumexp of the other logits, the log odds of the true class.

    With this margin m, ``logsigmoid(m)`` is log p_t and ``logsigmoid(-m)`` is
    log(1 - p_t), both exact however close p_t is to 0 or to 1. Taken from
    ``log_softmax`` instead, log(1 - p_t) is lost from a margin of 37 on in double
    precision and of 17 in single.

    Parameters
    ----------
    logits : Tensor of shape (N, C)
        In single or double precision.
    target : Tensor of shape (N,)
        Class indices, int64.

    Returns
    -------
    margin : Tensor of shape (N,)
    """
    if is_traced():
        target = target.unsqueeze(1)
        others = logits.scatter(1, target, -torch.inf).logsumexp(1)
        return logits.gather(1, target).squeeze(1) - others
    return _TrueClassMargin.apply(logits, target)


class _TrueClassMargin(Function):
    """The margin with its gradient written down: 1 for z_t, minus softmax elsewhere.

    Autograd alone takes twice as long with 1000 classes: it goes through the matrix
    for the scatter, the gather and the logsumexp one after the other.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, target: Tensor) -> Tensor:
        target = target.unsqueeze(1)
        share = logits.scatter(1, target, -torch.inf)
        top = share.amax(1, keepdim=True)
        share.sub_(top).exp_()
        total = share.sum(1, keepdim=True)
        margin = logits.gather(1, target) - top - total.log()
        ctx.save_for_backward(logits, target, share.div_(total))
        return margin.squeeze(1)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        logits, target, share = ctx.saved_tensors
        # The saved softmax has no graph: a second derivative needs a new one.
        if torch.is_grad_enabled():
            share = logits.scatter(1, target, -torch.inf).softmax(1)
        grad = grad.unsqueeze(1)
        return (share * -grad).scatter_(1, target, grad), None
