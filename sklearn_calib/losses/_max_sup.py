"""MaxSup: label smoothing that presses on the largest logit, not on the true one."""

from typing import Any

from torch import Tensor

from sklearn_calib.losses._base import check_nonnegative, mean_by_row
from sklearn_calib.losses._composed import Base, _ComposedLoss, build_base
from sklearn_calib.losses._penalty import add_penalty
from sklearn_calib.losses._typing import Reduction


def max_sup_loss(
    logits: Tensor,
    target: Tensor,
    *,
    lambd: float = 0.1,
    base: Base = "cross_entropy",
    reduction: Reduction = "mean",
    sample_weight: Tensor | None = None,
    **base_params: Any,
) -> Tensor:
    r"""Mean loss plus lambd times how far the largest logit is above the mean logit.

    Label smoothing is cross-entropy plus a multiple of ``z_t - mean(z)``, which presses
    on the logit of the true class even where another is larger. MaxSup, maximum
    suppression, has ``max(z) - mean(z)`` instead [1]_. The smaller the better, 0 is
    best.

    Parameters
    ----------
    logits : Tensor of shape (N, C)
        Unnormalised log probabilities.
    target : Tensor of shape (N,) or (N, C)
        Class indices, or probabilities, where `base` takes them.
    lambd : float, default=0.1
        Weight of the penalty, at least 0. With 0 the loss is that of `base`.
    base : str or CalibrationLoss, default="cross_entropy"
        The loss of each sample: a name as for :func:`get_loss`, or an instance, whose
        reduction is ignored.
    reduction : {"mean", "sum", "none"}, default="mean"
        What to return: the mean over the batch, the sum, or one loss per sample.
    sample_weight : Tensor of shape (N,), default=None
        Non-negative weights: the mean becomes ``sum(w * l) / sum(w)``.
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
    MaxSupLoss : The same as a module.
    cross_entropy_loss : With ``label_smoothing=lambd``, the same where the prediction
        is right.
    mbls_loss : With a margin of 0 the same, with one above 0 more lenient.

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
        _height,
        logits,
        target,
        lambd=lambd,
        base=build_base(base, base_params, max_sup_loss),
        reduction=reduction,
        sample_weight=sample_weight,
        soft=True,
    )


def _height(logits: Tensor, *_: Tensor) -> Tensor:
    """Return what is penalised of each sample."""
    return logits.max(1).values - mean_by_row(logits)


class MaxSupLoss(_ComposedLoss, function=max_sup_loss):
    """The module of :func:`max_sup_loss`, which has the details.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import MaxSupLoss
    >>> MaxSupLoss(lambd=0.2)(torch.tensor([[2.0, 0.0]]), torch.tensor([0]))
    tensor(0.3269)
    """

    formula = "max z - mean z"
    is_per_sample = True
    takes_probabilities = True

    def __init__(
        self,
        *,
        lambd: float = 0.1,
        base: Base = "cross_entropy",
        reduction: Reduction = "mean",
        **base_params: Any,
    ) -> None:
        super().__init__(base=base, base_params=base_params, reduction=reduction)
        self.lambd = check_nonnegative("lambd", lambd)
