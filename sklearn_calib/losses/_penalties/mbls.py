"""Margin-based label smoothing (MbLS)."""

from functools import partial
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from sklearn_calib.losses._base.checks import (
    IgnoredIndex,
    Margin,
    NonNegative,
    Reduction,
)
from sklearn_calib.losses._base.composed import (
    Base,
    _ComposedLoss,
    add_penalty,
    build_base,
)
from sklearn_calib.losses._base.decorators import loss_function, parameters_of


@loss_function
def mbls_loss(
    logits: Tensor,
    target: Tensor,
    *,
    margin: Margin = 10.0,
    lambd: NonNegative = 0.1,
    base: Base = "cross_entropy",
    ignore_index: IgnoredIndex = -100,
    reduction: Reduction = "mean",
    sample_weight: Tensor | None = None,
    **base_params: Any,
) -> Tensor:
    r"""Margin-based label smoothing (MbLS): penalise logit distances above a margin.

    The loss of a sample is ``base + lambd * penalty``. The penalty is the mean over the
    classes of ``max(0, max(z) - z_k - margin)`` [1]_. Unlike label smoothing, it does
    not penalise logits whose distance to the largest logit is at most the margin.

    Parameters
    ----------
    logits : Tensor of shape (N, C, ...)
        Unnormalised log probabilities.
    target : Tensor of shape (N, ...) or (N, C, ...)
        Class indices, or soft targets (class probabilities) if `base` accepts them.
    margin : float, default=10.0
        Largest distance between logits that is not penalised, at least 0.
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
    MbLSLoss : Module version of this function.
    confidence_penalty_loss : Penalises confident predictions without a margin.

    Notes
    -----
    The gradient flows through the largest logit.

    The paper sums over the classes. The authors' code, from which the defaults are
    taken, averages over them, as does this function. Multiply `lambd` by C to obtain
    the sum.

    References
    ----------
    .. [1] B. Liu, I. Ben Ayed, A. Galdran and J. Dolz, "The Devil is in the Margin:
       Margin-based Label Smoothing for Network Calibration", CVPR 2022.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import mbls_loss
    >>> logits = torch.tensor([[14.0, 0.0], [0.0, 1.0]])
    >>> mbls_loss(logits, torch.tensor([0, 1]), reduction="none")
    tensor([0.2000, 0.3133])
    """
    return add_penalty(
        partial(_excess, margin=float(margin)),
        logits,
        target,
        lambd=lambd,
        base=build_base(base, base_params, mbls_loss),
        reduction=reduction,
        sample_weight=sample_weight,
        soft=True,
    )


def _excess(logits: Tensor, *_: Tensor, margin: float) -> Tensor:
    """Return the penalty of each sample."""
    distance = logits.max(1, keepdim=True).values - logits
    return F.relu(distance - margin).mean(1)


class MbLSLoss(_ComposedLoss):
    """Module version of :func:`mbls_loss`. See there for details.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import MbLSLoss
    >>> loss = MbLSLoss(margin=6.0, base="focal", base__gamma=1.0)
    >>> loss(torch.tensor([[9.0, 0.0]]), torch.tensor([0]))
    tensor(0.1500)
    """

    formula = r"mean over $k$ of $\max(0, \max z - z_k - m)$, $m$ = `margin`"
    is_per_sample = True
    takes_probabilities = True

    @parameters_of(mbls_loss)
    def __init__(self) -> None: ...
