"""AdaFocal and AdaDualFocal loss: gamma adapted to the error of each bin."""

import math
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from sklearn_calib.losses._base.checks import (
    IgnoredIndex,
    Reduction,
    check_batch,
    check_nonnegative,
    check_real,
    reduce_loss,
)
from sklearn_calib.losses._base.decorators import averages_over_labels, loss_function
from sklearn_calib.losses._base.stable_gradients import true_class_log_odds
from sklearn_calib.losses._focal.dual_focal import dual_log_base
from sklearn_calib.losses._focal.focal import focal_values
from sklearn_calib.losses._focal.validation_bins import (
    LARGEST_GAMMA,
    _ValidationBinsLoss,
    bin_of,
    check_bins,
)

# With this gamma the weight of the inverse focal loss is at most 2 ** 100.
LOWEST_GAMMA = -100.0


@loss_function
@averages_over_labels
def adafocal_loss(
    logits: Tensor,
    target: Tensor,
    *,
    gamma: Tensor,
    edges: Tensor,
    ignore_index: IgnoredIndex = -100,
    reduction: Reduction = "mean",
    sample_weight: Tensor | None = None,
) -> Tensor:
    r"""AdaFocal loss: focal loss with gamma adapted to the calibration of each bin.

    Each bin of p_t, the predicted probability of the true class, has its own gamma
    [1]_. The cross-entropy ``-log(p_t)`` is multiplied by ``(1 - p_t) ** gamma`` if
    gamma is at least 0, as in the focal loss, and by ``(1 + p_t) ** abs(gamma)`` if it
    is negative, as in the inverse focal loss. A positive gamma limits the confidence in
    overconfident bins, and a negative gamma raises it in underconfident bins.

    Parameters
    ----------
    logits : Tensor of shape (N, C, ...)
        Unnormalised log probabilities.
    target : Tensor of shape (N, ...) or (N, C, ...)
        Class indices, or soft targets (class probabilities), over which the loss is
        averaged.
    gamma : Tensor of shape (n_bins,)
        Finite gamma of each bin.
    edges : Tensor of shape (n_bins - 1,)
        Interior edges of the bins, non-decreasing. A value of p_t equal to an edge
        belongs to the bin below it.
    ignore_index : int, default=-100
        Class index of samples that are left out, as in PyTorch's `cross_entropy`.
    reduction : {"mean", "sum", "none"}, default="mean"
        Whether to return the mean over the batch, the sum, or the loss of each sample.
    sample_weight : Tensor of shape (N, ...), default=None
        Non-negative sample weights. The mean becomes ``sum(w * l) / sum(w)``.

    Returns
    -------
    loss : Tensor
        A scalar, or of shape (N, ...) with ``reduction="none"``.

    Raises
    ------
    ValueError
        If the shapes do not match.
    TypeError
        If `gamma` or `edges` is not a tensor, or `logits` is not a floating point
        tensor.

    See Also
    --------
    AdaFocalLoss : Module that learns gamma and the edges from validation data.
    focal_loss : Same gamma for all samples.
    inverse_focal_loss : The loss of a bin whose gamma is negative.

    Notes
    -----
    The gamma of a sample is treated as a constant in the gradient. The loss jumps where
    p_t crosses an edge.

    References
    ----------
    .. [1] A. Ghosh, T. Schaaf and M. Gormley, "AdaFocal: Calibration-aware Adaptive
       Focal Loss", NeurIPS 2022, equation 5.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import adafocal_loss
    >>> logits = torch.tensor([[2.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    >>> gamma, edges = torch.tensor([3.0, -1.0]), torch.tensor([0.5])
    >>> target = torch.tensor([0, 2])
    >>> adafocal_loss(logits, target, gamma=gamma, edges=edges, reduction="none")
    tensor([0.4281, 0.7593])
    """
    logits, target = check_batch(logits, target)
    check_bins(logits, edges, gamma=gamma)
    log_odds = true_class_log_odds(logits, target)
    gamma = gamma.to(logits.dtype)[bin_of(torch.sigmoid(log_odds.detach()), edges)]
    values = _signed_focal_values(log_odds, F.logsigmoid(-log_odds), gamma)
    return reduce_loss(values, reduction, sample_weight)


def _signed_focal_values(log_odds: Tensor, log_rest: Tensor, gamma: Tensor) -> Tensor:
    """Return focal losses, or inverse focal losses where gamma is negative.

    With u = 1 - exp(log_rest), which is p_t in the focal loss, the weight is
    ``(1 - u) ** gamma`` or, for a negative gamma, ``(1 + u) ** abs(gamma)``.
    """
    log_inverse = -torch.log1p(-torch.expm1(log_rest))
    log_base = torch.where(gamma >= 0, log_rest, log_inverse)
    return focal_values(log_odds, gamma, log_base)


class AdaFocalLoss(_ValidationBinsLoss, function=adafocal_loss):
    """AdaFocal loss: focal loss with gamma adapted to the calibration of each bin.

    Module version of :func:`adafocal_loss`. Its state is one gamma for each equal-mass
    bin of the validation confidences. Each :meth:`update` multiplies gamma by
    ``exp(lambd * (confidence - accuracy))``, or divides a negative gamma by it: gamma
    increases while the bin is overconfident. Below `switch`, the bin uses the inverse
    focal loss, and it changes back in the same way [1]_.

    The authors' settings are ``n_bins=15`` and ``lambd=1``. The defaults are better
    calibrated with small validation sets, and not worse with 5,000 samples.

    Parameters
    ----------
    n_bins : int, default=1
        Number of bins, at least 1. The paper recommends 10 to 20.
    lambd : float, default=20.0
        Step size of the updates of gamma, at least 0. With 0, gamma does not change.
    gamma_max : float, default=20.0
        Largest gamma, at least `switch`. It may be infinite.
    gamma_min : float, default=-2.0
        Smallest gamma, between -100 and ``-switch``. Its absolute value is the largest
        exponent of the inverse focal loss, whose gradient may have the wrong sign for
        exponents above 3.591.
    switch : float, default=0.2
        If the absolute value of gamma falls below `switch`, gamma changes sign and its
        absolute value is set to `switch`. With 0, gamma never changes sign.
    gamma_initial : float, default=1.0
        Gamma of all bins before the first update. Until then the bins have equal width.
    ignore_index : int, default=-100
        Class index of samples that are left out, as in PyTorch's `cross_entropy`.
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
    CalFocalLoss : Recomputes gamma at each update, without using its previous value.
    AdaDualFocalLoss : Adapts the gamma of the dual focal loss.
    sklearn_calib.callbacks.UpdateLoss : Calls :meth:`update` during training.

    Notes
    -----
    If you can calibrate the network after training, do that instead: on average, the
    calibration of cross-entropy after a temperature is not worse and the accuracy is
    higher. Do not fit a post-hoc calibrator to the validation set from which the loss
    learns.

    Gamma needs many updates, because the confidence responds slowly to it. The paper
    updates it after each of 350 epochs, and an update with ``lambd=1`` usually changes
    it by a few percent. :class:`~sklearn_calib.NeuralClassifier` updates it several
    times in each epoch if `max_epochs` is below 100 and the validation set is large
    enough. Set `update_every` of :class:`~sklearn_calib.callbacks.UpdateLoss` to change
    this.

    A larger gamma slows down the growth of the confidence but does not reverse it. If
    the network memorises a small training set before gamma has increased, use weight
    decay, more updates, or a larger `gamma_initial`.

    In a small validation set, the calibration error of each of 15 bins is mostly noise.
    With one bin for about 300 samples, the standard error is 0.02 to 0.03.

    References
    ----------
    .. [1] A. Ghosh, T. Schaaf and M. Gormley, "AdaFocal: Calibration-aware Adaptive
       Focal Loss", NeurIPS 2022, algorithm 1.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import AdaFocalLoss
    >>> loss = AdaFocalLoss(n_bins=2, lambd=1.0)
    >>> loss(torch.zeros(1, 2), torch.tensor([1]))
    tensor(0.3466)
    >>> record = loss.update([0, 1, 0], [[0.6, 0.4], [0.8, 0.2], [0.9, 0.1]])
    >>> loss.gamma
    tensor([1.2214, 0.9048])
    """

    formula = (
        r"`focal` with the $\gamma$ of the bin of $p_t$, `inverse_focal` for "
        r"$\gamma < 0$"
    )
    takes_probabilities = True
    _largest_gamma = LARGEST_GAMMA
    # Each update changes the logarithm of gamma by lambd times the calibration error.
    min_updates = 100

    gamma: Tensor

    def __init__(
        self,
        *,
        n_bins: int = 1,
        lambd: float = 20.0,
        gamma_max: float = 20.0,
        gamma_min: float = -2.0,
        switch: float = 0.2,
        gamma_initial: float = 1.0,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(n_bins, ignore_index, reduction)
        self.lambd = check_nonnegative("lambd", lambd)
        self.switch = check_nonnegative("switch", switch)
        self.gamma_max = _check_gamma("gamma_max", gamma_max, switch, math.inf)
        self.gamma_min = _check_gamma("gamma_min", gamma_min, LOWEST_GAMMA, -switch)
        largest = min(gamma_max, self._largest_gamma)
        self.gamma_initial = _check_gamma(
            "gamma_initial", gamma_initial, gamma_min, largest
        )
        self.register_buffer("gamma", torch.full((n_bins,), float(gamma_initial)))

    def _learn(self, confidence: np.ndarray, accuracy: np.ndarray) -> dict[str, Any]:
        """Update gamma in the occupied bins."""
        in_use = self.gamma[: len(confidence)]
        in_use.copy_(
            updated_gamma(
                in_use,
                torch.from_numpy(confidence - accuracy).to(in_use),
                lambd=float(self.lambd),
                gamma_max=float(min(self.gamma_max, self._largest_gamma)),
                gamma_min=float(self.gamma_min),
                switch=float(self.switch),
            )
        )
        return {"gamma": in_use}


def updated_gamma(
    gamma: Tensor,
    gap: Tensor,
    *,
    lambd: float,
    gamma_max: float,
    gamma_min: float,
    switch: float,
) -> Tensor:
    """Return the new gamma of each bin, given its confidence minus its accuracy."""
    is_focal = gamma >= 0
    gamma = gamma * torch.exp(lambd * torch.where(is_focal, gap, -gap))
    gamma = gamma.clamp(gamma_min, gamma_max)
    other = torch.where(is_focal, -gamma.new_tensor(switch), switch)
    return torch.where(gamma.abs() < switch, other, gamma)


def _check_gamma(name: str, value: float, low: float, high: float) -> float:
    """Return `value` if it is a number in [low, high]."""
    return check_real(
        name,
        value,
        lambda gamma: low <= gamma <= high,
        f"in [{float(low):g}, {float(high):g}]",
        "The paper uses gamma_min=-2, switch=0.2, gamma_initial=1 and gamma_max=20.",
    )


@loss_function
@averages_over_labels
def ada_dual_focal_loss(
    logits: Tensor,
    target: Tensor,
    *,
    gamma: Tensor,
    edges: Tensor,
    ignore_index: IgnoredIndex = -100,
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
    logits : Tensor of shape (N, C, ...)
        Unnormalised log probabilities.
    target : Tensor of shape (N, ...) or (N, C, ...)
        Class indices, or soft targets (class probabilities), over which the loss is
        averaged.
    gamma : Tensor of shape (n_bins,)
        Finite gamma of each bin.
    edges : Tensor of shape (n_bins - 1,)
        Interior edges of the bins, non-decreasing. A value of p_t - q equal to an edge
        belongs to the bin below it.
    ignore_index : int, default=-100
        Class index of samples that are left out, as in PyTorch's `cross_entropy`.
    reduction : {"mean", "sum", "none"}, default="mean"
        Whether to return the mean over the batch, the sum, or the loss of each sample.
    sample_weight : Tensor of shape (N, ...), default=None
        Non-negative sample weights. The mean becomes ``sum(w * l) / sum(w)``.

    Returns
    -------
    loss : Tensor
        A scalar, or of shape (N, ...) with ``reduction="none"``.

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
    log_odds = true_class_log_odds(logits, target)
    log_rest = dual_log_base(logits, target, log_odds, "largest")
    distance = -torch.expm1(log_rest.detach())
    gamma = gamma.to(logits.dtype)[bin_of(distance, edges)]
    values = _signed_focal_values(log_odds, log_rest, gamma)
    return reduce_loss(values, reduction, sample_weight)


class AdaDualFocalLoss(AdaFocalLoss, function=ada_dual_focal_loss):
    """AdaDualFocal loss: dual focal loss with gamma adapted to the calibration error.

    Module version of :func:`ada_dual_focal_loss`. Gammas and bins are computed from the
    validation confidences as in :class:`AdaFocalLoss`, but training samples are
    assigned to the bins by p_t - q, as in :func:`ada_dual_focal_loss` [1]_. The
    defaults are the authors' settings of AdaFocal.

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
    ignore_index : int, default=-100
        Class index of samples that are left out, as in PyTorch's `cross_entropy`.
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

    formula = (
        r"`dual_focal` with the $\gamma$ of the bin of $p_t - q$, "
        r"$(1 + p_t - q)^{|\gamma|} (-\log p_t)$ for $\gamma < 0$"
    )
    _largest_gamma = 100.0  # 1 - p_t + q may be rounded to a number above 1

    def __init__(
        self,
        *,
        n_bins: int = 15,
        lambd: float = 1.0,
        gamma_max: float = 20.0,
        gamma_min: float = -2.0,
        switch: float = 0.2,
        gamma_initial: float = 1.0,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(
            n_bins=n_bins,
            lambd=lambd,
            gamma_max=gamma_max,
            gamma_min=gamma_min,
            switch=switch,
            gamma_initial=gamma_initial,
            ignore_index=ignore_index,
            reduction=reduction,
        )
