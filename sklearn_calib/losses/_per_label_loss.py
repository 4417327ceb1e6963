"""Per-label loss for multi-label problems."""

from typing import Any

import torch
from torch import Tensor

from sklearn_calib.losses._base.checks import (
    Reduction,
    above_zero,
    can_check_values,
    check_tensors,
    check_weight,
    reduce_loss,
)
from sklearn_calib.losses._base.composed import Base, _ComposedLoss, build_base
from sklearn_calib.losses._base.decorators import loss_function, parameters_of


@loss_function
def per_label_loss(
    logits: Tensor,
    target: Tensor,
    *,
    base: Base = "cross_entropy",
    reduction: Reduction = "mean",
    sample_weight: Tensor | None = None,
    **base_params: Any,
) -> Tensor:
    r"""Per-label loss: mean of a base loss over the labels of a multi-label problem.

    A sample may have any number of labels. Each label is a binary problem with the
    logits 0 (absent) and z (present), so that its predicted probability is
    ``sigmoid(z)``. With ``base="cross_entropy"`` the loss is the binary
    cross-entropy, with ``base="focal"`` the focal loss as first published [1]_, and
    with ``base="focal_calibration"`` the multi-label loss of [2]_ for radiographs.

    Parameters
    ----------
    logits : Tensor of shape (N, L)
        One logit for each label.
    target : Tensor of shape (N, L)
        1 for the labels of a sample and 0 for the others, of any dtype, or NaN for
        labels that are not known. If `base` accepts soft targets, a floating point
        target may contain probabilities.
    base : str or CalibrationLoss, default="cross_entropy"
        Loss of each label: a name accepted by :func:`get_loss`, or an instance, whose
        `reduction` and `ignore_index` are ignored. It must not depend on the other
        samples of the batch.
    reduction : {"mean", "sum", "none"}, default="mean"
        Whether to return the mean over the batch, the sum, or the loss of each sample,
        which is the mean over its labels, with 0 for those that are not known.
    sample_weight : Tensor of shape (N,) or (N, L), default=None
        Non-negative weights of the samples, or of each label of each sample. The mean
        becomes ``sum(w * l) / sum(w)``, with w = 0 for labels that are not known.
    **base_params : dict
        Parameters of `base`, as in ``base="focal", base__gamma=3.0``.

    Returns
    -------
    loss : Tensor
        A scalar, or of shape (N,) with ``reduction="none"``.

    Raises
    ------
    ValueError
        If a parameter is out of range, the shapes do not match, or the target is not
        in [0, 1].
    TypeError
        If a parameter or `logits` has the wrong type, or a keyword is unknown.

    See Also
    --------
    PerLabelLoss : Module version of this function.
    sklearn_calib.calibrators.PerLabelCalibrator : Calibrates each label separately.
    sklearn_calib.metrics.per_label : Computes a metric for each label.

    Notes
    -----
    The base sums over both classes of a label. The squared distance in
    ``"focal_calibration"`` and ``"brier"`` is therefore :math:`2 (\sigma(z) - y)^2`. If
    a paper uses :math:`(\sigma(z) - y)^2` instead, halve its weight.

    The focal loss of [1]_ also has a weight alpha for positive labels. It is left out,
    because it biases the probabilities.

    References
    ----------
    .. [1] T.-Y. Lin, P. Goyal, R. Girshick, K. He and P. Dollár, "Focal Loss for Dense
       Object Detection", ICCV 2017, equation 4.
    .. [2] W. Liang, C. Dong, L. N. Zheng, W. E. Zhang and W. Chen, "Towards Trustworthy
       Deep Neural Network through Euclidean Distance", arXiv:2410.18321, 2025, table 9.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import per_label_loss
    >>> logits = torch.tensor([[2.0, 0.0, -1.0], [0.0, 3.0, 1.0]])
    >>> target = torch.tensor([[1, 0, 0], [0, 1, 1]])
    >>> per_label_loss(logits, target, reduction="none")
    tensor([0.3778, 0.3517])
    >>> per_label_loss(logits, target, base="focal", base__gamma=2.0)
    tensor(0.0656)
    """
    base = build_base(base, base_params, per_label_loss)
    target, is_known = _check_target(logits, target)
    n_labels = logits.shape[1]
    pairs = torch.stack([torch.zeros_like(logits), logits], 2).flatten(0, 1)
    if target.is_floating_point():  # probabilities of both classes
        target = torch.stack([1 - target, target], 2)
    values = base(pairs, target.flatten(0, 1))
    values = values.unflatten(0, (-1, n_labels))
    weight = is_known.to(values)
    if sample_weight is not None:
        is_per_label = getattr(sample_weight, "ndim", 1) == 2
        given = check_weight(sample_weight, values if is_per_label else values[:, 0])
        weight = weight * (given if is_per_label else given.unsqueeze(1))
    values = weight * values
    if reduction == "mean":
        return values.sum() / above_zero(weight.sum())
    return reduce_loss(values.mean(1), reduction)


def _check_target(logits: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Return the target, integers as int64 and NaN as 0, and what is not NaN."""
    check_tensors(logits, target)
    if logits.ndim != 2 or logits.numel() == 0:
        raise ValueError(
            "logits must have shape (N, L) with N >= 1 and L >= 1, got "
            f"{tuple(logits.shape)}. Pass one logit for each label of each sample."
        )
    if target.shape != logits.shape:
        raise ValueError(
            f"target must have the shape of logits, {tuple(logits.shape)}, got "
            f"{tuple(target.shape)}. Pass a 0 or a 1 for each label of each sample, or "
            "use another loss, such as 'focal', if each sample has one class."
        )
    target = target if target.is_floating_point() else target.long()
    is_known = ~target.isnan()
    target = torch.where(is_known, target, 0)
    if can_check_values(target) and not ((target >= 0) & (target <= 1)).all():
        low, high = target.min().item(), target.max().item()
        raise ValueError(
            f"target must lie in [0, 1], got values in [{low:g}, {high:g}]. Pass 1 for "
            "the labels of a sample, 0 for the others, and NaN if that is not known."
        )
    return target, is_known


class PerLabelLoss(_ComposedLoss):
    """Module version of :func:`per_label_loss`. See there for details.

    Notes
    -----
    `NeuralClassifier` does not support multi-label problems. Use skorch's `NeuralNet`,
    which also works in a grid search: ``NeuralNet(module, criterion=PerLabelLoss,
    criterion__base="focal", criterion__base__gamma=3.0,
    predict_nonlinearity=torch.sigmoid)``.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import PerLabelLoss
    >>> loss = PerLabelLoss(base="focal", base__gamma=1.0)
    >>> loss(torch.zeros(1, 3), torch.tensor([[1, 0, 1]]))
    tensor(0.3466)
    """

    formula = "mean over the labels of `base` for two classes with logits 0 and $z$"
    is_multilabel = True
    is_per_sample = True
    takes_probabilities = True

    @parameters_of(per_label_loss)
    def __init__(self) -> None: ...
