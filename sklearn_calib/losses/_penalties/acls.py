"""Adaptive and conditional label smoothing (ACLS)."""

from functools import partial
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from sklearn_calib.losses._base.checks import (
    IgnoredIndex,
    Margin,
    NonNegative,
    Reduction,
    check_overflow,
)
from sklearn_calib.losses._base.composed import (
    Base,
    _ComposedLoss,
    add_penalty,
    build_base,
)
from sklearn_calib.losses._base.decorators import loss_function, parameters_of


@loss_function
def acls_loss(
    logits: Tensor,
    target: Tensor,
    *,
    margin: Margin = 10.0,
    lambd_top: NonNegative = 1.0,
    lambd_others: NonNegative = 0.1,
    lambd: NonNegative = 0.1,
    base: Base = "cross_entropy",
    ignore_index: IgnoredIndex = -100,
    reduction: Reduction = "mean",
    sample_weight: Tensor | None = None,
    **base_params: Any,
) -> Tensor:
    r"""Adaptive and conditional label smoothing (ACLS): squared penalty above a margin.

    The loss of a sample is ``base + lambd * penalty``. The penalty has two terms [1]_.
    The first is ``lambd_top * max(0, max(z) - margin) ** 2``, for the logit of the
    predicted class. The second is `lambd_others` times the mean of ``max(0, max(z) -
    z_k - margin) ** 2`` over the other classes.

    Parameters
    ----------
    logits : Tensor of shape (N, C, ...)
        Unnormalised log probabilities. Adding a constant to all logits of a sample
        changes the loss, unlike for other losses.
    target : Tensor of shape (N, ...) or (N, C, ...)
        Class indices, or soft targets (class probabilities) if `base` accepts them.
    margin : float, default=10.0
        Threshold, at least 0, up to which neither the largest logit nor its distance to
        another logit is penalised.
    lambd_top : float, default=1.0
        Weight of the term for the predicted class, at least 0.
    lambd_others : float, default=0.1
        Weight of the term for the other classes, at least 0.
    lambd : float, default=0.1
        Weight of the penalty, at least 0. With 0, the loss is that of `base`.
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
    ACLSLoss : Module version of this function.
    mbls_loss : Penalises distances between logits, not their squares, and does not
        penalise the largest logit itself.

    Notes
    -----
    The loss follows the authors' code. In the second term, the largest logit is treated
    as a constant in the gradient. This term therefore raises the other logits, and only
    the first term lowers the largest one. Both terms depend on the predicted class,
    whether or not the prediction is correct.

    References
    ----------
    .. [1] H. Park, J. Noh, Y. Oh, D. Baek and B. Ham, "ACLS: Adaptive and Conditional
       Label Smoothing for Network Calibration", ICCV 2023. As in the authors' code,
       cvlab-yonsei/ACLS.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import acls_loss
    >>> logits = torch.tensor([[12.0, 0.0], [0.0, 1.0]])
    >>> acls_loss(logits, torch.tensor([0, 1]), reduction="none")
    tensor([0.4400, 0.3133])
    """
    # The factors are applied before squaring, because the squares may overflow although
    # the loss does not.
    penalty = partial(
        _excess,
        margin=float(margin),
        lambd_top=float(lambd) * float(lambd_top),
        lambd_others=float(lambd) * float(lambd_others),
    )
    value = add_penalty(
        penalty,
        logits,
        target,
        lambd=1.0,
        base=build_base(base, base_params, acls_loss),
        reduction=reduction,
        sample_weight=sample_weight,
        soft=True,
    )
    return check_overflow("logits", logits, value)


def _excess(
    logits: Tensor, *_: Tensor, margin: float, lambd_top: float, lambd_others: float
) -> Tensor:
    """Return the penalty of each sample."""
    top = logits.amax(1, keepdim=True)
    others = F.relu(top.detach() - logits - margin)
    above = F.relu(top.squeeze(1) - margin)
    lambd_others = lambd_others / (logits.shape[1] - 1)
    others = (lambd_others * others * others).sum(1)
    return lambd_top * above * above + others


class ACLSLoss(_ComposedLoss):
    """Module version of :func:`acls_loss`. See there for details.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import ACLSLoss
    >>> loss = ACLSLoss(margin=6.0, base="focal", base__gamma=1.0)
    >>> loss(torch.tensor([[9.0, 0.0]]), torch.tensor([0]))
    tensor(0.9900)
    """

    formula = (
        r"$\lambda_1 s(\max z) + \lambda_2\, \mathrm{mean}_k\, s(\max z - z_k)$, "
        r"$s(a) = \max(0, a - m)^2$, $\lambda_1$ = `lambd_top`, "
        r"$\lambda_2$ = `lambd_others`, $m$ = `margin`"
    )
    is_per_sample = True
    takes_probabilities = True

    @parameters_of(acls_loss)
    def __init__(self) -> None: ...
