"""Focal loss."""

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import ArrayLike
from torch import Tensor
from torch.autograd import Function

from sklearn_calib._numerics.posteriors import focal_posterior
from sklearn_calib._validation.probabilities import check_proba
from sklearn_calib.losses._base.checks import (
    IgnoredIndex,
    NonNegative,
    Reduction,
    check_batch,
    is_traced,
    reduce_loss,
)
from sklearn_calib.losses._base.decorators import (
    averages_over_labels,
    loss_function,
    parameters_of,
)
from sklearn_calib.losses._base.loss import CalibrationLoss
from sklearn_calib.losses._base.stable_gradients import true_class_log_odds


@loss_function
@averages_over_labels
def focal_loss(
    logits: Tensor,
    target: Tensor,
    *,
    gamma: NonNegative = 3.0,
    ignore_index: IgnoredIndex = -100,
    reduction: Reduction = "mean",
    sample_weight: Tensor | None = None,
) -> Tensor:
    r"""Focal loss: cross-entropy down-weighted for well-classified samples.

    The cross-entropy ``-log(p_t)``, with p_t the predicted probability of the true
    class, is multiplied by ``(1 - p_t) ** gamma`` [1]_. A network then gains little by
    raising p_t from 0.9 to 0.99 and becomes less confident than with cross-entropy
    [2]_.

    Parameters
    ----------
    logits : Tensor of shape (N, C, ...)
        Unnormalised log probabilities.
    target : Tensor of shape (N, ...) or (N, C, ...)
        Class indices, or soft targets (class probabilities), over which the loss is
        averaged.
    gamma : float, default=3.0
        Exponent of the weight, at least 0. With 0, the loss is cross-entropy. Larger
        values make the network less confident. The default is the constant that [2]_
        recommends.
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
        If `gamma` is negative or not finite, or the shapes do not match.
    TypeError
        If `gamma` is not a number, or `logits` is not a floating point tensor.

    See Also
    --------
    FocalLoss : Module version of this function.
    sample_dependent_focal_loss : Larger gamma for samples with a small p_t.
    dual_focal_loss : Variant that reduces the underconfidence of the focal loss.

    Notes
    -----
    The gradient flows through the weight.

    The loss is at least :math:`KL(y \,\|\, p) - \gamma H(p)`, where y is the target
    and H(p) the entropy of the predicted probabilities. A larger gamma thus favours a
    higher entropy [2]_.

    The loss is not proper. With gamma above 0, the minimiser of the expected loss is
    less confident than the true probabilities if its largest probability is at least
    0.5. With many classes of similar probability it may be more confident. Tune gamma,
    calibrate the predictions, or map them to the posterior with
    :meth:`FocalLoss.posterior`.

    References
    ----------
    .. [1] T.-Y. Lin, P. Goyal, R. Girshick, K. He and P. Dollár, "Focal Loss for Dense
       Object Detection", ICCV 2017, equation 4.
    .. [2] J. Mukhoti, V. Kulharia, A. Sanyal, S. Golodetz, P. H. S. Torr and P. K.
       Dokania, "Calibrating Deep Neural Networks using Focal Loss", NeurIPS 2020.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import focal_loss
    >>> logits = torch.tensor([[2.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    >>> focal_loss(logits, torch.tensor([0, 2]), gamma=3.0, reduction="none")
    tensor([0.0023, 0.7593])
    """
    logits, target = check_batch(logits, target)
    values = focal_values(true_class_log_odds(logits, target), float(gamma))
    return reduce_loss(values, reduction, sample_weight)


def focal_values(
    log_odds: Tensor, gamma: float | Tensor, log_base: Tensor | None = None
) -> Tensor:
    """Return the focal loss of each sample, given one gamma or one per sample.

    The weight is ``(1 - p_t) ** gamma``, or ``exp(log_base) ** gamma`` if `log_base` is
    given.
    """
    # In log space, because the derivative of the power is infinite at p_t = 1 if
    # gamma < 1, and infinity times log(p_t) = 0 is NaN.
    log_base = F.logsigmoid(-log_odds) if log_base is None else log_base
    if is_traced():
        return torch.exp(gamma * log_base) * -F.logsigmoid(log_odds)
    return _WeightedLogLoss.apply(log_base, log_odds, gamma)


class _WeightedLogLoss(Function):
    """exp(gamma * log_base) * -log(p_t) with a finite gradient.

    The gradient with respect to `log_base` may overflow although the loss does not. The
    gradient of `log_base` itself is then 0, and infinity times 0 would be NaN.
    """

    @staticmethod
    def forward(
        ctx: Any, log_base: Tensor, log_odds: Tensor, gamma: float | Tensor
    ) -> Tensor:
        weight, log_loss = (gamma * log_base).exp_(), -F.logsigmoid(log_odds)
        ctx.save_for_backward(log_base, log_odds, weight, log_loss)
        ctx.gamma = gamma
        return weight * log_loss

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        log_base, log_odds, weight, log_loss = ctx.saved_tensors
        # Saved tensors have no graph: a second derivative needs a new one.
        if torch.is_grad_enabled():
            weight = torch.exp(ctx.gamma * log_base)
            log_loss = -F.logsigmoid(log_odds)
        grad = weight * grad
        largest = torch.finfo(grad.dtype).max
        base_grad = (ctx.gamma * log_loss * grad).clamp(-largest, largest)
        return base_grad, -torch.sigmoid(-log_odds) * grad, None


class FocalLoss(CalibrationLoss):
    """Module version of :func:`focal_loss`. See there for details.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import FocalLoss
    >>> FocalLoss(gamma=1.0)(torch.zeros(1, 2), torch.tensor([1]))
    tensor(0.3466)
    """

    formula = r"$(1 - p_t)^\gamma (-\log p_t)$"
    takes_probabilities = True

    @parameters_of(focal_loss)
    def __init__(self) -> None: ...

    def posterior(self, proba: ArrayLike) -> np.ndarray:
        """Return the class posterior for which `proba` minimises the expected loss.

        This corrects the bias of the loss without fitting parameters [1]_. It assumes
        that the network was trained long enough on enough data.

        Parameters
        ----------
        proba : array-like of shape (n_samples, n_classes)
            Softmax outputs of a network that minimises the expected loss.

        Returns
        -------
        posterior : ndarray of shape (n_samples, n_classes)
            True class probabilities, with the classes in the same order.

        References
        ----------
        .. [1] N. Charoenphakdee, J. Vongkulbhisal, N. Chairatanakul and M. Sugiyama,
           "On Focal Loss for Class-Posterior Probability Estimation: A Theoretical
           Perspective", CVPR 2021, theorem 11.
        """
        proba = check_proba(proba, name="proba")
        return focal_posterior(proba, self.gamma)
