"""AdaDualFocal loss: dual focal loss with gamma adapted as in AdaFocal."""

import torch
from torch import Tensor

from sklearn_calib.losses._base.checks import LARGEST_POWER, check_batch, reduce_loss
from sklearn_calib.losses._base.margin import true_class_margin
from sklearn_calib.losses._base.soft_targets import averages_over_labels
from sklearn_calib.losses._base.typing import Reduction
from sklearn_calib.losses._focal.adafocal import AdaFocalLoss
from sklearn_calib.losses._focal.dual_focal import log_gap
from sklearn_calib.losses._focal.validation_bins import (
    bin_of,
    check_bins,
    signed_focal_values,
)


@averages_over_labels
def ada_dual_focal_loss(
    logits: Tensor,
    target: Tensor,
    *,
    gamma: Tensor,
    edges: Tensor,
    reduction: Reduction = "mean",
    sample_weight: Tensor | None = None,
) -> Tensor:
    r"""AdaDualFocal loss: dual focal loss with gamma adapted to the calibration error.

    Let p_t be the predicted probability of the true class, and q the largest
    probability strictly below p_t, or 0 if there is none. Each bin of p_t - q has its
    own gamma [1]_. The cross-entropy ``-log(p_t)`` is multiplied by ``(1 - p_t + q) **
    gamma`` if gamma is at least 0, and by ``(1 + p_t - q) ** abs(gamma)`` if it is
    negative.

    Parameters
    ----------
    logits : Tensor of shape (N, C)
        Unnormalised log probabilities.
    target : Tensor of shape (N,) or (N, C)
        Class indices, or soft targets (class probabilities), over which the loss is
        averaged.
    gamma : Tensor of shape (n_bins,)
        Finite gamma of each bin.
    edges : Tensor of shape (n_bins - 1,)
        Interior edges of the bins, non-decreasing. A value of p_t - q equal to an edge
        belongs to the bin below it.
    reduction : {"mean", "sum", "none"}, default="mean"
        Whether to return the mean over the batch, the sum, or the loss of each sample.
    sample_weight : Tensor of shape (N,), default=None
        Non-negative sample weights. The mean becomes ``sum(w * l) / sum(w)``.

    Returns
    -------
    loss : Tensor
        A scalar, or of shape (N,) with ``reduction="none"``.

    Raises
    ------
    ValueError
        If the shapes do not match.
    TypeError
        If `gamma` or `edges` is not a tensor, or `logits` is not a floating point
        tensor.

    See Also
    --------
    AdaDualFocalLoss : Module that learns gamma and the edges from validation data.
    dual_focal_loss : Same gamma for all samples.
    adafocal_loss : AdaFocal loss, which does not use q.

    Notes
    -----
    The gradient flows through q. The gamma of a sample is treated as a constant in the
    gradient.

    The paper does not give a formula for negative gamma. Here p_t is replaced by
    p_t - q in the weight of the inverse focal loss, as in the weight of the focal loss.

    References
    ----------
    .. [1] L. Tao, M. Dong and C. Xu, "Dual Focal Loss for Calibration", ICML 2023,
       section 5.2.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import ada_dual_focal_loss
    >>> logits = torch.tensor([[2.0, 1.0, 0.0], [0.0, 1.0, 2.0]])
    >>> gamma, edges = torch.tensor([5.0, -1.0]), torch.tensor([0.3])
    >>> target = torch.tensor([0, 1])
    >>> ada_dual_focal_loss(logits, target, gamma=gamma, edges=edges, reduction="none")
    tensor([0.5790, 0.6075])
    """
    logits, target = check_batch(logits, target)
    check_bins(logits, edges, gamma=gamma)
    margin = true_class_margin(logits, target)
    log_rest = log_gap(logits, target, margin, "largest")
    gap = -torch.expm1(log_rest.detach())
    gamma = gamma.to(logits.dtype)[bin_of(gap, edges)]
    values = signed_focal_values(margin, log_rest, gamma)
    return reduce_loss(values, reduction, sample_weight)


class AdaDualFocalLoss(AdaFocalLoss, function=ada_dual_focal_loss):
    """AdaDualFocal loss: dual focal loss with gamma adapted to the calibration error.

    Module version of :func:`ada_dual_focal_loss`. Gammas and bins are computed from the
    validation confidences as in :class:`AdaFocalLoss`, but training samples are
    assigned to the bins by p_t - q [1]_.

    Parameters
    ----------
    n_bins : int, default=15
        Number of bins, at least 1.
    lambd : float, default=1.0
        Step size of the updates of gamma, at least 0. With 0, gamma does not change.
    gamma_max : float, default=20.0
        Largest gamma, at least `switch`. It may be infinite, but no gamma exceeds 100.
    gamma_min : float, default=-2.0
        Smallest gamma, between -100 and ``-switch``.
    switch : float, default=0.2
        If the absolute value of gamma falls below `switch`, gamma changes sign and its
        absolute value is set to `switch`. With 0, gamma never changes sign.
    gamma_initial : float, default=1.0
        Gamma of all bins before the first update. Until then the bins have equal width.
    reduction : {"mean", "sum", "none"}, default="mean"
        Whether to return the mean over the batch, the sum, or the loss of each sample.

    Attributes
    ----------
    gamma : Tensor of shape (n_bins,)
        Gamma of each bin, a buffer and therefore part of ``state_dict``.
    edges : Tensor of shape (n_bins - 1,)
        Interior edges of the bins, a buffer. If the last update had too few distinct
        confidences to fill all bins, the last edges are infinite.

    See Also
    --------
    AdaFocalLoss : Describes how many updates gamma needs.
    sklearn_calib.callbacks.UpdateLoss : Calls :meth:`update` during training.

    References
    ----------
    .. [1] L. Tao, M. Dong and C. Xu, "Dual Focal Loss for Calibration", ICML 2023,
       section 5.2.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import AdaDualFocalLoss
    >>> loss = AdaDualFocalLoss(gamma_initial=5.0)
    >>> loss(torch.tensor([[0.0, 1.0]]), torch.tensor([1]))
    tensor(0.0141)
    """

    formula = r"`dual_focal` with the $\gamma$ of the bin of $p_t - q$"
    _largest_gamma = LARGEST_POWER
