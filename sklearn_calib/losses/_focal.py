"""The focal loss."""

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import ArrayLike
from torch import Tensor
from torch.autograd import Function

from sklearn_calib._core.links import focal_posterior
from sklearn_calib._core.validation import check_proba
from sklearn_calib.losses._base import (
    check_batch,
    check_nonnegative,
    is_traced,
    reduce_loss,
)
from sklearn_calib.losses._calibration_loss import CalibrationLoss
from sklearn_calib.losses._margin import true_class_margin
from sklearn_calib.losses._soft_targets import averages_over_labels
from sklearn_calib.losses._typing import Reduction


@averages_over_labels
def focal_loss(
    logits: Tensor,
    target: Tensor,
    *,
    gamma: float = 3.0,
    reduction: Reduction = "mean",
    sample_weight: Tensor | None = None,
) -> Tensor:
    r"""Cross-entropy that fades for samples that are right already. Small is good.

    The surprise at the true class is multiplied by ``(1 - p_t) ** gamma`` [1]_, so that
    a network gains little by pushing p_t from 0.9 to 0.99 and ends up less confident
    than with cross-entropy [2]_. 0 is best.

    Parameters
    ----------
    logits : Tensor of shape (N, C)
        Unnormalised log probabilities.
    target : Tensor of shape (N,) or (N, C)
        Class indices, or probabilities, over which the loss is averaged.
    gamma : float, default=3.0
        How fast the weight falls with p_t, at least 0. With 0 the loss is
        cross-entropy; the larger, the less confident the network. The default is the
        constant that [2]_ recommends.
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
        If gamma is negative or not finite, or the shapes do not match.
    TypeError
        If gamma is no number, or the logits are no floating point tensor.

    See Also
    --------
    FocalLoss : The same as a module.
    sample_dependent_focal_loss : Another gamma where the network is very wrong.
    dual_focal_loss : Looks at the runner-up too, against underconfidence.

    Notes
    -----
    The gradient flows through the weight. The loss is not proper: with gamma above 0
    its minimiser is less confident than a confident truth, so gamma is to be tuned, or
    the result to be calibrated, or mapped by :meth:`FocalLoss.posterior`.

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
    gamma = float(check_nonnegative("gamma", gamma))
    logits, target = check_batch(logits, target)
    values = focal_values(true_class_margin(logits, target), gamma)
    return reduce_loss(values, reduction, sample_weight)


def focal_values(
    margin: Tensor, gamma: float | Tensor, log_base: Tensor | None = None
) -> Tensor:
    """Return the focal loss of each sample; gamma is a number or one per sample.

    Its weight is ``(1 - p_t) ** gamma``, or the power of another base.
    """
    # In log space. As a power its derivative at p_t = 1 is infinite for gamma < 1 and
    # would meet log(p_t) = 0 as inf * 0 = nan.
    log_base = F.logsigmoid(-margin) if log_base is None else log_base
    if is_traced():
        return torch.exp(gamma * log_base) * -F.logsigmoid(margin)
    return _FadingSurprise.apply(log_base, margin, gamma)


class _FadingSurprise(Function):
    """exp(gamma * log_base) * -log(p_t) with a gradient that is never inf * 0.

    That by the base overflows before the loss does, where the base does not depend on
    the logits any more.
    """

    @staticmethod
    def forward(
        ctx: Any, log_base: Tensor, margin: Tensor, gamma: float | Tensor
    ) -> Tensor:
        weight, surprise = (gamma * log_base).exp_(), -F.logsigmoid(margin)
        ctx.save_for_backward(log_base, margin, weight, surprise)
        ctx.gamma = gamma
        return weight * surprise

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        log_base, margin, weight, surprise = ctx.saved_tensors
        # What is saved has no graph: a second derivative needs a new one.
        if torch.is_grad_enabled():
            weight = torch.exp(ctx.gamma * log_base)
            surprise = -F.logsigmoid(margin)
        grad = weight * grad
        largest = torch.finfo(grad.dtype).max
        of_base = (ctx.gamma * surprise * grad).clamp(-largest, largest)
        return of_base, -torch.sigmoid(-margin) * grad, None


class FocalLoss(CalibrationLoss, function=focal_loss):
    """The module of :func:`focal_loss`, which has the details.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import FocalLoss
    >>> FocalLoss(gamma=1.0)(torch.zeros(1, 2), torch.tensor([1]))
    tensor(0.3466)
    """

    formula = "(1 - p_t)^gamma (-log p_t)"
    takes_probabilities = True

    def __init__(self, *, gamma: float = 3.0, reduction: Reduction = "mean") -> None:
        super().__init__(reduction=reduction)
        self.gamma = check_nonnegative("gamma", gamma)

    def posterior(self, proba: ArrayLike) -> np.ndarray:
        """Return the true probabilities at which the loss is minimal at `proba`.

        For a network that is trained long enough on enough data, this undoes the
        underconfidence of the loss [1]_, with nothing to fit.

        Parameters
        ----------
        proba : array-like of shape (n_samples, n_classes)
            What a network says that minimises the expected loss.

        Returns
        -------
        posterior : ndarray of shape (n_samples, n_classes)
            The probabilities that the classes then have, in the same order.

        References
        ----------
        .. [1] N. Charoenphakdee, J. Vongkulbhisal, N. Chairatanakul and M. Sugiyama,
           "On Focal Loss for Class-Posterior Probability Estimation: A Theoretical
           Perspective", CVPR 2021, theorem 11.
        """
        proba = check_proba(proba, name="proba")
        return focal_posterior(proba, self.gamma)
