"""Accuracy versus uncertainty, AvUC: certain where right, uncertain where wrong."""

import math
from functools import partial
from typing import Any

import torch
from torch import Tensor

from sklearn_calib.losses._base import (
    check_nonnegative,
    check_positive,
)
from sklearn_calib.losses._composed import Base, _ComposedLoss, build_base
from sklearn_calib.losses._penalty import add_penalty, top_label
from sklearn_calib.losses._softmax import softmax
from sklearn_calib.losses._typing import Reduction

# The authors' code mixes uniform probabilities to this share into those whose entropy
# it takes. And no smaller a share of the batch is divided by, which may have none good.
SMALLEST = 1e-5


def avuc_loss(
    logits: Tensor,
    target: Tensor,
    *,
    lambd: float = 1.0,
    threshold: float = 0.5,
    temperature: float | None = 1.0,
    base: Base = "cross_entropy",
    reduction: Reduction = "mean",
    sample_weight: Tensor | None = None,
    **base_params: Any,
) -> Tensor:
    r"""Mean loss plus lambd times accuracy versus uncertainty, AvUC. Small is good.

    Predictions should be certain where they are right and uncertain where they are
    wrong. The penalty is ``log(1 + bad / good)``, where good and bad count the samples
    that are so and those that are not, each by how certain or uncertain it is [1]_. A
    prediction is uncertain if its entropy is above a threshold, which is soft [2]_ or
    hard. 0 is best.

    Parameters
    ----------
    logits : Tensor of shape (N, C)
        Unnormalised log probabilities.
    target : Tensor of shape (N,)
        Class indices.
    lambd : float, default=1.0
        Weight of the penalty, at least 0. With 0 the loss is that of `base`.
    threshold : float, default=0.5
        Entropy from which a prediction is uncertain, in [0, 1) of the largest possible
        one, which is log(C) nats.
    temperature : float or None, default=1.0
        How soft the threshold is, above 0; None for a hard one [1]_, with which a
        sample counts by its confidence too, or where it is wrong by one minus it.
    base : str or CalibrationLoss, default="cross_entropy"
        The loss of each sample: a name as for :func:`get_loss`, or an instance, whose
        reduction is ignored.
    reduction : {"mean", "sum", "none"}, default="mean"
        What to return: the mean over the batch, the sum, or one loss per sample, to
        each of which the penalty of the batch is added.
    sample_weight : Tensor of shape (N,), default=None
        Non-negative weights: a sample of weight m counts as m equal samples.
    **base_params : dict
        The parameters of `base`, as in ``base="focal", base__gamma=3.0``.

    Returns
    -------
    loss : Tensor
        A scalar, or of shape (N,) with ``reduction="none"``.

    Raises
    ------
    ValueError
        If a parameter is out of range or the shapes do not match.
    TypeError
        If a parameter or the logits are of the wrong type, or a keyword is unknown.

    See Also
    --------
    AvUCLoss : The same as a module.
    soft_binned_ece_loss : The other penalty of the paper with the soft threshold.

    Notes
    -----
    With e the entropy in nats a sample is uncertain to the share u = ``sigmoid((logit(e
    / log(C)) - logit(threshold)) / temperature)``, and counts as ``u * tanh(e)`` among
    the uncertain, as ``(1 - u) * (1 - tanh(e))`` among the certain. The entropy is that
    of probabilities with 1e-5 of uniform ones mixed in, so that the penalty of a
    certain prediction that is right is small but not 0. The gradient flows through
    entropy and confidence. The largest entropy itself, of equal logits, is held
    constant: there the logit is infinite.

    References
    ----------
    .. [1] R. Krishnan and O. Tickoo, "Improving Model Calibration with Accuracy versus
       Uncertainty Optimization", NeurIPS 2020, equation 3.
    .. [2] A. Karandikar, N. Cain, D. Tran, B. Lakshminarayanan, J. Shlens, M. C. Mozer
       and R. Roelofs, "Soft Calibration Objectives for Neural Networks", NeurIPS 2021,
       equation 15.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import avuc_loss
    >>> logits = torch.tensor([[2.0, 0.0], [0.0, 1.0], [0.0, 0.5]])
    >>> avuc_loss(logits, torch.tensor([0, 0, 1]), lambd=0.0)
    tensor(0.6381)
    >>> avuc_loss(logits, torch.tensor([0, 0, 1]))
    tensor(1.3629)
    >>> avuc_loss(logits, torch.tensor([0, 0, 1]), temperature=None)
    tensor(2.3869)
    """
    _check_params(threshold, temperature)
    return add_penalty(
        partial(_avuc, threshold=threshold, temperature=temperature),
        logits,
        target,
        lambd=lambd,
        base=build_base(base, base_params, avuc_loss),
        reduction=reduction,
        sample_weight=sample_weight,
    )


def _avuc(
    logits: Tensor,
    target: Tensor,
    share: Tensor,
    *,
    threshold: float,
    temperature: float | None,
) -> Tensor:
    """Return the penalty of the batch."""
    doubt, miss = top_label(logits, target)
    entropy = _entropy(logits)
    part = entropy / math.log(logits.shape[1])
    if temperature is None:
        uncertain = (part >= float(threshold)).to(part.dtype)
        share = share * torch.where(miss > 0, doubt, 1 - doubt)
    else:
        uncertain = _soft_step(part, threshold, temperature)
    unsure, sure = uncertain * entropy.tanh(), (1 - uncertain) * (1 - entropy.tanh())
    good = (share * torch.where(miss > 0, unsure, sure)).sum()
    bad = (share * torch.where(miss > 0, sure, unsure)).sum()
    return torch.log1p(bad / good.clamp_min(SMALLEST))


def _entropy(logits: Tensor) -> Tensor:
    """Return the entropy in nats."""
    proba = (1 - SMALLEST) * softmax(logits) + SMALLEST / logits.shape[1]
    return torch.special.entr(proba).sum(1)


def _soft_step(part: Tensor, threshold: float, temperature: float) -> Tensor:
    """Return a number that rises from 0 to 1 where `part` passes the threshold."""
    # The clamp protects 1 - part, which is 0 for equal logits, or below by rounding.
    part = part.clamp_max(1 - torch.finfo(part.dtype).eps)
    middle = math.log(threshold / (1 - threshold)) if threshold else -math.inf
    return torch.sigmoid((part.logit() - middle) / float(temperature))


def _check_params(threshold: float, temperature: float | None) -> None:
    """Check the parameters of the penalty."""
    hint = "A small one, such as 0.1, leaves few predictions certain."
    check_nonnegative("threshold", threshold, below=1, hint=hint)
    if temperature is not None:
        hint = "A small one, such as 0.01, is almost a hard threshold."
        check_positive("temperature", temperature, also=", or None", hint=hint)


class AvUCLoss(_ComposedLoss, function=avuc_loss):
    """The module of :func:`avuc_loss`, which has the details.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import AvUCLoss
    >>> loss = AvUCLoss(lambd=0.5, base="focal", base__gamma=1.0)
    >>> loss(torch.tensor([[1.0, 0.0]]), torch.tensor([0]))
    tensor(1.0415)
    """

    formula = "log(1 + (sure and wrong + unsure and right) / (the others))"

    def __init__(
        self,
        *,
        lambd: float = 1.0,
        threshold: float = 0.5,
        temperature: float | None = 1.0,
        base: Base = "cross_entropy",
        reduction: Reduction = "mean",
        **base_params: Any,
    ) -> None:
        super().__init__(base=base, base_params=base_params, reduction=reduction)
        _check_params(threshold, temperature)
        self.lambd = check_nonnegative("lambd", lambd)
        self.threshold, self.temperature = threshold, temperature
