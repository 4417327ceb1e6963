"""Accuracy versus uncertainty calibration (AvUC) penalty."""

import math
from functools import partial
from typing import Annotated, Any

import torch
from torch import Tensor

from sklearn_calib.losses._base.checks import (
    IgnoredIndex,
    NonNegative,
    Reduction,
    check_nonnegative,
    check_positive,
    checking,
)
from sklearn_calib.losses._base.composed import (
    Base,
    _ComposedLoss,
    add_penalty,
    build_base,
    uncertainty_and_error,
)
from sklearn_calib.losses._base.decorators import loss_function, parameters_of
from sklearn_calib.losses._base.stable_gradients import stable_softmax

# The weight of uniform probabilities that the authors' code mixes into the predicted
# ones before computing their entropy. Also the smallest denominator of bad / good.
SMALLEST = 1e-5


Threshold = Annotated[
    float,
    checking(
        check_nonnegative,
        below=1,
        hint="Use a small value, such as 0.1, to treat few predictions as certain.",
    ),
]
Temperature = Annotated[
    float,
    checking(
        check_positive,
        also=", or None",
        hint="Use a small value, such as 0.01, for an almost hard threshold.",
    ),
]


@loss_function
def avuc_loss(
    logits: Tensor,
    target: Tensor,
    *,
    lambd: NonNegative = 1.0,
    threshold: Threshold = 0.5,
    temperature: Temperature | None = 1.0,
    base: Base = "cross_entropy",
    ignore_index: IgnoredIndex = -100,
    reduction: Reduction = "mean",
    sample_weight: Tensor | None = None,
    **base_params: Any,
) -> Tensor:
    r"""Accuracy versus uncertainty calibration (AvUC) penalty added to a base loss.

    The loss is ``base + lambd * penalty``. The penalty is ``log(1 + bad / good)`` in
    the batch [1]_. Here ``good`` is the total weight of the predictions that are
    correct and certain, or wrong and uncertain, and ``bad`` is that of the other
    predictions. A prediction is uncertain if its entropy is above a hard [1]_ or soft
    [2]_ threshold, and its weight is its degree of certainty or uncertainty.

    Parameters
    ----------
    logits : Tensor of shape (N, C, ...)
        Unnormalised log probabilities.
    target : Tensor of shape (N, ...)
        Class indices.
    lambd : float, default=1.0
        Weight of the penalty, at least 0. With 0, the loss is that of `base`.
    threshold : float, default=0.5
        Entropy above which a prediction is uncertain, as a fraction in [0, 1) of the
        largest possible entropy, the logarithm of the number of classes.
    temperature : float or None, default=1.0
        Softness of the threshold, above 0. With None the threshold is hard [1]_, and
        correct predictions are also weighted by their confidence, wrong ones by one
        minus their confidence.
    base : str or CalibrationLoss, default="cross_entropy"
        Per-sample loss: a name accepted by :func:`get_loss`, or an instance, whose
        `reduction` and `ignore_index` are ignored.
    ignore_index : int, default=-100
        Class index of samples that are left out, as in PyTorch's `cross_entropy`.
    reduction : {"mean", "sum", "none"}, default="mean"
        Whether to return the mean over the batch, the sum, or the loss of each sample,
        which includes the penalty of the batch.
    sample_weight : Tensor of shape (N, ...), default=None
        Non-negative sample weights. A sample of weight m counts as m identical samples.
    **base_params : dict
        Parameters of `base`, as in ``base="focal", base__gamma=3.0``.

    Returns
    -------
    loss : Tensor
        A scalar, or of shape (N, ...) with ``reduction="none"``.

    Raises
    ------
    ValueError
        If a parameter is out of range or the shapes do not match.
    TypeError
        If a parameter or `logits` has the wrong type, or a keyword is unknown.

    See Also
    --------
    AvUCLoss : Module version of this function.
    soft_binned_ece_loss : Soft-binned ECE, from the paper on the soft threshold.

    Notes
    -----
    Let e be the entropy in nats and ``u = sigmoid((logit(e / log(C)) -
    logit(threshold)) / temperature)``. A sample counts with the weight ``u * tanh(e)``
    as uncertain, and with the weight ``(1 - u) * (1 - tanh(e))`` as certain.

    The entropy is that of the predicted probabilities mixed with uniform ones, which
    have the weight 1e-5. The penalty of a certain and correct prediction is therefore
    small but not 0.

    The gradient flows through entropy and confidence. If all logits of a sample are
    equal, u is treated as a constant, because logit(1) is infinite.

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
    weight: Tensor,
    *,
    threshold: float,
    temperature: float | None,
) -> Tensor:
    """Return the penalty of the batch."""
    uncertainty, wrong = uncertainty_and_error(logits, target)
    entropy = _entropy(logits)
    fraction = entropy / math.log(logits.shape[1])
    if temperature is None:
        is_uncertain = (fraction >= float(threshold)).to(fraction.dtype)
        weight = weight * torch.where(wrong > 0, uncertainty, 1 - uncertainty)
    else:
        is_uncertain = _soft_step(fraction, threshold, temperature)
    uncertain = is_uncertain * entropy.tanh()
    certain = (1 - is_uncertain) * (1 - entropy.tanh())
    good = (weight * torch.where(wrong > 0, uncertain, certain)).sum()
    bad = (weight * torch.where(wrong > 0, certain, uncertain)).sum()
    return torch.log1p(bad / good.clamp_min(SMALLEST))


def _entropy(logits: Tensor) -> Tensor:
    """Return the entropy in nats of predictions mixed with uniform probabilities."""
    proba = (1 - SMALLEST) * stable_softmax(logits) + SMALLEST / logits.shape[1]
    return torch.special.entr(proba).sum(1)


def _soft_step(fraction: Tensor, threshold: float, temperature: float) -> Tensor:
    """Return a smooth step from 0 to 1 at the threshold."""
    # For equal logits the fraction is 1, or above 1 by rounding.
    fraction = fraction.clamp_max(1 - torch.finfo(fraction.dtype).eps)
    middle = math.log(threshold / (1 - threshold)) if threshold else -math.inf
    return torch.sigmoid((fraction.logit() - middle) / float(temperature))


class AvUCLoss(_ComposedLoss):
    """Module version of :func:`avuc_loss`. See there for details.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import AvUCLoss
    >>> loss = AvUCLoss(lambd=0.5, base="focal", base__gamma=1.0)
    >>> loss(torch.tensor([[1.0, 0.0]]), torch.tensor([0]))
    tensor(1.0415)
    """

    formula = (
        r"$\log(1 + \text{bad} / \text{good})$, good: correct and certain, or wrong "
        "and uncertain"
    )

    @parameters_of(avuc_loss)
    def __init__(self) -> None: ...
