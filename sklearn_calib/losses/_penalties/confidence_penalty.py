"""Confidence penalty: negative entropy, or L1 distance from uniform probabilities."""

from collections.abc import Callable
from typing import Any, Literal

from torch import Tensor

from sklearn_calib.losses._base.checks import IgnoredIndex, NonNegative, Reduction
from sklearn_calib.losses._base.composed import (
    Base,
    _ComposedLoss,
    add_penalty,
    build_base,
)
from sklearn_calib.losses._base.decorators import loss_function, parameters_of
from sklearn_calib.losses._base.logit_confidence import compute_confidence
from sklearn_calib.losses._base.stable_gradients import stable_softmax

Penalty = Literal["entropy", "l1"]


@loss_function
def confidence_penalty_loss(
    logits: Tensor,
    target: Tensor,
    *,
    lambd: NonNegative = 0.1,
    penalty: Penalty = "entropy",
    base: Base = "cross_entropy",
    ignore_index: IgnoredIndex = -100,
    reduction: Reduction = "mean",
    sample_weight: Tensor | None = None,
    **base_params: Any,
) -> Tensor:
    r"""Confidence penalty: base loss plus negative entropy or L1 distance from uniform.

    The loss of a sample is ``base + lambd * penalty``. The penalty is the negative
    entropy ``sum_k p_k * log(p_k)`` [1]_ or the L1 distance ``sum_k |p_k - 1 / C|``
    [2]_. Both are larger for more confident predictions.

    Parameters
    ----------
    logits : Tensor of shape (N, C, ...)
        Unnormalised log probabilities.
    target : Tensor of shape (N, ...) or (N, C, ...)
        Class indices, or soft targets (class probabilities) if `base` accepts them.
    lambd : float, default=0.1
        Weight of the penalty, at least 0. With 0, the loss is that of `base`.
    penalty : {"entropy", "l1"}, default="entropy"
        Penalty of a sample: the negative entropy in nats, from -log(C) to 0, or the L1
        distance from uniform probabilities, from 0 to 2 - 2 / C for C
        classes.
    base : str or CalibrationLoss, default="cross_entropy"
        Per-sample loss: a name accepted by :func:`get_loss`, or an instance, whose
        `reduction` and `ignore_index` are ignored.
    ignore_index : int, default=-100
        Class index of samples that are left out, as in PyTorch's `cross_entropy`.
    reduction : {"mean", "sum", "none"}, default="mean"
        Whether to return the mean over the batch, the sum, or the loss of each sample.
    sample_weight : Tensor of shape (N, ...), default=None
        Non-negative sample weights. The mean becomes ``sum(w * l) / sum(w)``.
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
    ConfidencePenaltyLoss : Module version of this function.
    mbls_loss : Penalises only logits that are far below the largest one.

    Notes
    -----
    With ``penalty="entropy"`` the loss may be negative.

    Some implementations average ``p_k * log(p_k)`` over the classes. Here it is summed,
    as in [1]_. Divide `lambd` by C to obtain the mean.

    References
    ----------
    .. [1] G. Pereyra, G. Tucker, J. Chorowski, L. Kaiser and G. Hinton, "Regularizing
       Neural Networks by Penalizing Confident Output Distributions", ICLR Workshop
       2017.
    .. [2] B. Liu, I. Ben Ayed, A. Galdran and J. Dolz, "The Devil is in the Margin:
       Margin-based Label Smoothing for Network Calibration", CVPR 2022. As a baseline
       in the authors' code.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import confidence_penalty_loss
    >>> logits = torch.tensor([[2.0, 0.0], [0.0, 0.0]])
    >>> confidence_penalty_loss(logits, torch.tensor([0, 1]), reduction="none")
    tensor([0.0904, 0.6238])
    """
    return add_penalty(
        PENALTIES[penalty],
        logits,
        target,
        lambd=lambd,
        base=build_base(base, base_params, confidence_penalty_loss),
        reduction=reduction,
        sample_weight=sample_weight,
        soft=True,
    )


def _negative_entropy(logits: Tensor, *_: Tensor) -> Tensor:
    return compute_confidence("negative_entropy", logits)


def _l1_distance(logits: Tensor, *_: Tensor) -> Tensor:
    return (stable_softmax(logits) - 1 / logits.shape[1]).abs().sum(1)


PENALTIES: dict[Penalty, Callable[..., Tensor]] = {
    "entropy": _negative_entropy,
    "l1": _l1_distance,
}


class ConfidencePenaltyLoss(_ComposedLoss):
    """Module version of :func:`confidence_penalty_loss`. See there for details.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import ConfidencePenaltyLoss
    >>> loss = ConfidencePenaltyLoss(penalty="l1", base="focal", base__gamma=1.0)
    >>> loss(torch.zeros(1, 2), torch.tensor([1]))
    tensor(0.3466)
    """

    formula = r"$\sum_k p_k \log p_k$, or $\sum_k \lvert p_k - 1/C \rvert$"
    is_per_sample = True
    takes_probabilities = True

    @parameters_of(confidence_penalty_loss)
    def __init__(self) -> None: ...
