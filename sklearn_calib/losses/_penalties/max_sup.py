"""Max suppression (MaxSup): label smoothing of the largest logit."""

from typing import Any

from torch import Tensor

from sklearn_calib.losses._base.checks import IgnoredIndex, NonNegative, Reduction
from sklearn_calib.losses._base.composed import (
    Base,
    _ComposedLoss,
    add_penalty,
    build_base,
)
from sklearn_calib.losses._base.decorators import loss_function, parameters_of


@loss_function
def max_sup_loss(
    logits: Tensor,
    target: Tensor,
    *,
    lambd: NonNegative = 0.1,
    base: Base = "cross_entropy",
    ignore_index: IgnoredIndex = -100,
    reduction: Reduction = "mean",
    sample_weight: Tensor | None = None,
    **base_params: Any,
) -> Tensor:
    r"""Max suppression (MaxSup): penalise the largest logit minus the mean.

    The loss of a sample is ``base + lambd * (max(z) - mean(z))`` [1]_. Label smoothing
    instead adds a multiple of ``z_t - mean(z)`` to the cross-entropy, which lowers the
    logit of the true class even if another class has a larger logit.

    Parameters
    ----------
    logits : Tensor of shape (N, C, ...)
        Unnormalised log probabilities.
    target : Tensor of shape (N, ...) or (N, C, ...)
        Class indices, or soft targets (class probabilities) if `base` accepts them.
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
    MaxSupLoss : Module version of this function.
    cross_entropy_loss : Equal for correct predictions with ``label_smoothing=lambd``.
    mbls_loss : Equal with ``margin=0``.

    References
    ----------
    .. [1] Y. Zhou, H. Li, Z.-Q. Cheng, X. Yan, Y. Dong, M. Fritz and M. Keuper,
       "MaxSup: Overcoming Representation Collapse in Label Smoothing", NeurIPS 2025.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import max_sup_loss
    >>> logits = torch.tensor([[2.0, 0.0], [2.0, 0.0]])
    >>> max_sup_loss(logits, torch.tensor([0, 1]), reduction="none")
    tensor([0.2269, 2.2269])
    """
    return add_penalty(
        _excess,
        logits,
        target,
        lambd=lambd,
        base=build_base(base, base_params, max_sup_loss),
        reduction=reduction,
        sample_weight=sample_weight,
        soft=True,
    )


def _excess(logits: Tensor, *_: Tensor) -> Tensor:
    """Return the penalty of each sample."""
    return logits.max(1).values - logits.mean(1)


class MaxSupLoss(_ComposedLoss):
    """Module version of :func:`max_sup_loss`. See there for details.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import MaxSupLoss
    >>> MaxSupLoss(lambd=0.2)(torch.tensor([[2.0, 0.0]]), torch.tensor([0]))
    tensor(0.3269)
    """

    formula = r"$\max z - \bar z$"
    is_per_sample = True
    takes_probabilities = True

    @parameters_of(max_sup_loss)
    def __init__(self) -> None: ...
