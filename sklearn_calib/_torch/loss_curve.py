"""A loss and its derivative over the probability of the true class."""

import math

import torch
from torch import nn

from sklearn_calib._validation.types import Floats


def loss_curve(loss: nn.Module, proba: Floats, n_classes: int) -> tuple[Floats, Floats]:
    """Return the loss of each sample and its derivative with respect to p_t.

    `loss` returns one value per sample. The derivative is that of the sum of the
    values, since in some losses they depend on the other samples.

    Parameters
    ----------
    loss : torch.nn.Module
        A loss with ``reduction="none"``.

    proba : ndarray of shape (n_samples,)
        Probability of the true class of each sample in the batch, in (0, 1). The other
        classes have equal probabilities.

    n_classes : int
        Number of classes.

    Returns
    -------
    values, gradient : ndarray of shape (n_samples,)
    """
    log_odds = torch.logit(torch.from_numpy(proba)).requires_grad_()
    logits = log_odds.new_zeros(len(proba), n_classes)
    logits[:, 0] = log_odds + math.log(n_classes - 1)
    values = loss(logits, torch.zeros(len(proba), dtype=torch.long))
    (gradient,) = torch.autograd.grad(values.sum(), log_odds)
    return values.detach().numpy(), gradient.numpy() / (proba * (1 - proba))
