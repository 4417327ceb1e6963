"""Penalties on the difference between confidence and accuracy: MDCA and DCA."""

from typing import Any

from torch import Tensor

from sklearn_calib.losses._base.checks import IgnoredIndex, NonNegative, Reduction
from sklearn_calib.losses._base.composed import (
    Base,
    _ComposedLoss,
    add_penalty,
    build_base,
    uncertainty_and_error,
)
from sklearn_calib.losses._base.decorators import loss_function, parameters_of
from sklearn_calib.losses._base.stable_gradients import stable_softmax


@loss_function
def mdca_loss(
    logits: Tensor,
    target: Tensor,
    *,
    lambd: NonNegative = 1.0,
    base: Base = "cross_entropy",
    ignore_index: IgnoredIndex = -100,
    reduction: Reduction = "mean",
    sample_weight: Tensor | None = None,
    **base_params: Any,
) -> Tensor:
    r"""Multi-class difference in confidence and accuracy (MDCA) added to a base loss.

    The loss is ``base + lambd * penalty``. The penalty is the mean over the classes of
    ``|mean predicted probability - class frequency|`` in the batch [1]_.

    Parameters
    ----------
    logits : Tensor of shape (N, C, ...)
        Unnormalised log probabilities.
    target : Tensor of shape (N, ...) or (N, C, ...)
        Class indices, or soft targets (class probabilities) if `base` accepts them.
    lambd : float, default=1.0
        Weight of the penalty, at least 0. With 0, the loss is that of `base`.
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
    MDCALoss : Module version of this function.
    dca_loss : Compares confidence and accuracy of the predicted class only.

    Notes
    -----
    Classes that are absent from the batch count too. Even for a calibrated network the
    penalty is not 0 but of the order of one over the square root of the batch size, so
    use large batches.

    With the default parameters, the ECE of networks on three data sets did not differ
    from that of cross-entropy by more than the noise (:doc:`/results_losses`).

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


def _mdca(logits: Tensor, target: Tensor, weight: Tensor) -> Tensor:
    """Return the mean absolute calibration gap of the classes."""
    proba = stable_softmax(logits)
    if target.ndim == 2:
        return (weight.unsqueeze(1) * (proba - target)).sum(0).abs().mean()
    # p_t - 1 as minus the sum over the other classes, which does not round to 0.
    others = weight.unsqueeze(1) * proba.scatter(1, target.unsqueeze(1), 0.0)
    gap = others.sum(0).index_add(0, target, others.sum(1), alpha=-1)
    return gap.abs().mean()


@loss_function
def dca_loss(
    logits: Tensor,
    target: Tensor,
    *,
    lambd: NonNegative = 1.0,
    base: Base = "cross_entropy",
    ignore_index: IgnoredIndex = -100,
    reduction: Reduction = "mean",
    sample_weight: Tensor | None = None,
    **base_params: Any,
) -> Tensor:
    r"""Difference between confidence and accuracy (DCA) added to a base loss.

    The loss is ``base + lambd * penalty``. The penalty is ``|mean confidence -
    accuracy|`` in the batch, where the confidence is the probability of the predicted
    class [1]_.

    Parameters
    ----------
    logits : Tensor of shape (N, C, ...)
        Unnormalised log probabilities.
    target : Tensor of shape (N, ...)
        Class indices.
    lambd : float, default=1.0
        Weight of the penalty, at least 0. With 0, the loss is that of `base`.
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
    DCALoss : Module version of this function.
    mdca_loss : Compares probabilities and frequencies of all classes.

    Notes
    -----
    The accuracy is treated as a constant in the gradient. Overconfidence on some
    samples and underconfidence on others cancel out.

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


def _dca(logits: Tensor, target: Tensor, weight: Tensor) -> Tensor:
    """Return the absolute calibration gap."""
    uncertainty, wrong = uncertainty_and_error(logits, target)
    return (weight * (uncertainty - wrong)).sum().abs()


class MDCALoss(_ComposedLoss):
    """Module version of :func:`mdca_loss`. See there for details.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import MDCALoss
    >>> loss = MDCALoss(base="focal", base__gamma=1.0)
    >>> loss(torch.zeros(1, 2), torch.tensor([1]))
    tensor(0.8466)
    """

    formula = r"mean over $k$ of $\lvert \bar p_k - \bar y_k \rvert$"
    takes_probabilities = True

    @parameters_of(mdca_loss)
    def __init__(self) -> None: ...


class DCALoss(_ComposedLoss):
    """Module version of :func:`dca_loss`. See there for details.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import DCALoss
    >>> DCALoss(lambd=0.5)(torch.zeros(1, 2), torch.tensor([1]))
    tensor(0.9431)
    """

    formula = r"$\lvert \bar r - \bar c \rvert$"

    @parameters_of(dca_loss)
    def __init__(self) -> None: ...
