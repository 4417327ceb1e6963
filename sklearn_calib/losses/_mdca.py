"""Penalties on the gap between mean probability and frequency: MDCA and DCA."""

from typing import Any

from torch import Tensor

from sklearn_calib.losses._base import check_nonnegative
from sklearn_calib.losses._composed import Base, _ComposedLoss, build_base
from sklearn_calib.losses._penalty import add_penalty, top_label
from sklearn_calib.losses._softmax import softmax
from sklearn_calib.losses._typing import Reduction


def mdca_loss(
    logits: Tensor,
    target: Tensor,
    *,
    lambd: float = 1.0,
    base: Base = "cross_entropy",
    reduction: Reduction = "mean",
    sample_weight: Tensor | None = None,
    **base_params: Any,
) -> Tensor:
    r"""Mean loss plus lambd times the gap of class probabilities to class frequencies.

    The gap (MDCA, multi-class difference of confidence and accuracy) is the mean over
    all classes of ``|mean probability - share of the labels|`` in the batch [1]_. The
    smaller the better, 0 is best.

    Parameters
    ----------
    logits : Tensor of shape (N, C)
        Unnormalised log probabilities.
    target : Tensor of shape (N,) or (N, C)
        Class indices, or probabilities, where `base` takes them.
    lambd : float, default=1.0
        Weight of the gap, at least 0. With 0 the loss is that of `base`.
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
    MDCALoss : The same as a module.
    dca_loss : Looks at the predicted class only.

    Notes
    -----
    Classes of which the batch has no sample count too. The gap of a calibrated network
    is not 0 but of the order of one over the root of the batch size, so that the
    penalty needs batches of some size. Where a mean equals its frequency exactly, the
    gradient of their gap is 0.

    References
    ----------
    .. [1] R. Hebbalaguppe, J. Prakash, N. Madan and C. Arora, "A Stitch in Time Saves
       Nine: A Train-Time Regularizing Loss for Improved Neural Network Calibration",
       CVPR 2022.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import mdca_loss
    >>> logits = torch.tensor([[2.0, 0.0], [0.0, 1.0], [0.0, 0.5]])
    >>> mdca_loss(logits, torch.tensor([0, 0, 1]), lambd=0.0)
    tensor(0.6381)
    >>> mdca_loss(logits, torch.tensor([0, 0, 1]), lambd=1.0)
    tensor(0.7957)
    """
    return add_penalty(
        _mdca,
        logits,
        target,
        lambd=lambd,
        base=build_base(base, base_params, mdca_loss),
        reduction=reduction,
        sample_weight=sample_weight,
        soft=True,
    )


def _mdca(logits: Tensor, target: Tensor, share: Tensor) -> Tensor:
    """Return the mean gap of the classes."""
    proba = softmax(logits)
    if target.ndim == 2:
        return (share.unsqueeze(1) * (proba - target)).sum(0).abs().mean()
    # p_t - 1 is minus the sum of the others, which does not round to 0.
    others = share.unsqueeze(1) * proba.scatter(1, target.unsqueeze(1), 0.0)
    gap = others.sum(0).index_add(0, target, others.sum(1), alpha=-1)
    return gap.abs().mean()


def dca_loss(
    logits: Tensor,
    target: Tensor,
    *,
    lambd: float = 1.0,
    base: Base = "cross_entropy",
    reduction: Reduction = "mean",
    sample_weight: Tensor | None = None,
    **base_params: Any,
) -> Tensor:
    r"""Mean loss plus lambd times the gap of confidence to accuracy. Small is good.

    The gap (DCA, difference of confidence and accuracy) is ``|mean confidence -
    accuracy|`` in the batch, where the confidence is the probability of the predicted
    class [1]_. 0 is best.

    Parameters
    ----------
    logits : Tensor of shape (N, C)
        Unnormalised log probabilities.
    target : Tensor of shape (N,)
        Class indices.
    lambd : float, default=1.0
        Weight of the gap, at least 0. With 0 the loss is that of `base`.
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
    DCALoss : The same as a module.
    mdca_loss : Looks at all classes.

    Notes
    -----
    The accuracy is a constant for the gradient. Overconfidence on some samples and
    underconfidence on others cancel.

    References
    ----------
    .. [1] G. Liang, Y. Zhang, X. Wang and N. Jacobs, "Improved Trainable Calibration
       Method for Neural Networks on Medical Imaging Classification", BMVC 2020.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import dca_loss
    >>> logits = torch.tensor([[2.0, 0.0], [0.0, 1.0], [0.0, 0.5]])
    >>> dca_loss(logits, torch.tensor([0, 0, 1]), lambd=0.0)
    tensor(0.6381)
    >>> dca_loss(logits, torch.tensor([0, 0, 1]), lambd=1.0)
    tensor(0.7162)
    """
    return add_penalty(
        _dca,
        logits,
        target,
        lambd=lambd,
        base=build_base(base, base_params, dca_loss),
        reduction=reduction,
        sample_weight=sample_weight,
    )


def _dca(logits: Tensor, target: Tensor, share: Tensor) -> Tensor:
    """Return the gap of the predicted classes."""
    doubt, miss = top_label(logits, target)
    return (share * (doubt - miss)).sum().abs()


class MDCALoss(_ComposedLoss, function=mdca_loss):
    """The module of :func:`mdca_loss`, which has the details.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import MDCALoss
    >>> loss = MDCALoss(base="focal", base__gamma=1.0)
    >>> loss(torch.zeros(1, 2), torch.tensor([1]))
    tensor(0.8466)
    """

    formula = "mean_k abs(mean p_k - mean y_k)"
    takes_probabilities = True

    def __init__(
        self,
        *,
        lambd: float = 1.0,
        base: Base = "cross_entropy",
        reduction: Reduction = "mean",
        **base_params: Any,
    ) -> None:
        super().__init__(base=base, base_params=base_params, reduction=reduction)
        self.lambd = check_nonnegative("lambd", lambd)


class DCALoss(_ComposedLoss, function=dca_loss):
    """The module of :func:`dca_loss`, which has the details.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import DCALoss
    >>> DCALoss(lambd=0.5)(torch.zeros(1, 2), torch.tensor([1]))
    tensor(0.9431)
    """

    formula = "abs(mean r - mean c)"

    def __init__(
        self,
        *,
        lambd: float = 1.0,
        base: Base = "cross_entropy",
        reduction: Reduction = "mean",
        **base_params: Any,
    ) -> None:
        super().__init__(base=base, base_params=base_params, reduction=reduction)
        self.lambd = check_nonnegative("lambd", lambd)
