"""The adaptive dual focal loss: AdaFocal that watches the runner-up as well."""

import torch
from torch import Tensor

from sklearn_calib.losses._adafocal import AdaFocalLoss
from sklearn_calib.losses._base import check_batch, reduce_loss
from sklearn_calib.losses._dual_focal import log_gap
from sklearn_calib.losses._margin import true_class_margin
from sklearn_calib.losses._soft_targets import averages_over_labels
from sklearn_calib.losses._typing import Reduction
from sklearn_calib.losses._validation_bins import (
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
    r"""Dual focal loss with a gamma for each bin of p_t - q. Small is good.

    The surprise at the true class is multiplied by ``(1 - p_t + q) ** gamma``, where q
    is the largest probability strictly below p_t, or 0 if there is none, and gamma
    belongs to the bin of the lead p_t - q [1]_. Where gamma is negative the weight is
    ``(1 + p_t - q) ** abs(gamma)``. 0 is best.

    Parameters
    ----------
    logits : Tensor of shape (N, C)
        Unnormalised log probabilities.
    target : Tensor of shape (N,) or (N, C)
        Class indices, or probabilities, over which the loss is averaged.
    gamma : Tensor of shape (n_bins,)
        The gamma of each bin, finite.
    edges : Tensor of shape (n_bins - 1,)
        The numbers between the bins, not decreasing. A sample on an edge is in the bin
        below it.
    reduction : {"mean", "sum", "none"}, default="mean"
        What to return: the mean over the batch, the sum, or one loss per sample.
    sample_weight : Tensor of shape (N,), default=None
        Non-negative weights: the mean becomes ``sum(w * l) / sum(w)``.

    Returns
    -------
    loss : Tensor
        A scalar, or of shape (N,) with ``reduction="none"``.

    Raises
    ------
    ValueError
        If the shapes do not match.
    TypeError
        If gamma or the edges are no tensors, or the logits no floating point tensor.

    See Also
    --------
    AdaDualFocalLoss : Finds gamma and the edges from validation data.
    dual_focal_loss : One gamma for all samples.
    adafocal_loss : Without the runner-up.

    Notes
    -----
    Each sample's gamma is a constant for the gradient, which flows through q. The paper
    gives no formula for a negative gamma; ours relates to the inverse focal loss as the
    dual focal loss does to the focal loss, with p_t - q in place of p_t.

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
    lead = -torch.expm1(log_rest.detach())
    gamma = gamma.to(logits.dtype)[bin_of(lead, edges)]
    values = signed_focal_values(margin, log_rest, gamma)
    return reduce_loss(values, reduction, sample_weight)


class AdaDualFocalLoss(AdaFocalLoss, function=ada_dual_focal_loss):
    """Dual focal loss that finds its gammas from the validation data. Small is good.

    The module of :func:`ada_dual_focal_loss`. Gammas and bins are those of
    :class:`AdaFocalLoss`, made from the confidences of the validation samples, but
    looked up at the lead of the true class, p_t - q [1]_.

    Parameters
    ----------
    n_bins : int, default=15
        Number of bins, at least 1.
    lambd : float, default=1.0
        How fast gamma follows the calibration error, at least 0. With 0 it stays.
    gamma_max : float, default=20.0
        The largest gamma, at least `switch`. It may be infinite.
    gamma_min : float, default=-2.0
        The smallest gamma, between -100 and ``-switch``.
    switch : float, default=0.2
        Where the absolute value of gamma falls below it, gamma changes its sign and
        starts again from there. With 0 it never does.
    gamma_initial : float, default=1.0
        Gamma of all bins before the first update, which then have equal width.
    reduction : {"mean", "sum", "none"}, default="mean"
        What to return: the mean over the batch, the sum, or one loss per sample.

    Attributes
    ----------
    gamma : Tensor of shape (n_bins,)
        The gamma of each bin, a buffer: it is part of ``state_dict``.
    edges : Tensor of shape (n_bins - 1,)
        The numbers between the bins, a buffer. If an update had not enough different
        confidences for all bins, the last edges are infinite.

    See Also
    --------
    AdaFocalLoss : How many updates gamma needs.
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

    formula = "as `dual_focal`, gamma of the bin of p_t - q"
