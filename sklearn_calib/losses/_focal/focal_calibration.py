"""Focal calibration loss (FCL)."""

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import ArrayLike
from torch import Tensor

from sklearn_calib._numerics.posteriors import focal_calibration_posterior
from sklearn_calib._validation.probabilities import check_proba
from sklearn_calib.losses._base.checks import (
    IgnoredIndex,
    NonNegative,
    Norm,
    Reduction,
    check_batch,
    reduce_loss,
)
from sklearn_calib.losses._base.decorators import (
    averages_over_labels,
    loss_function,
    parameters_of,
)
from sklearn_calib.losses._base.loss import CalibrationLoss
from sklearn_calib.losses._base.stable_gradients import true_class_log_odds
from sklearn_calib.losses._focal.focal import focal_values
from sklearn_calib.losses._scoring_rules.brier import brier_values


@loss_function
@averages_over_labels
def focal_calibration_loss(
    logits: Tensor,
    target: Tensor,
    *,
    gamma: NonNegative = 2.0,
    lambd: NonNegative = 1.0,
    norm: Norm = "l2",
    gamma_cal: NonNegative | None = None,
    ignore_index: IgnoredIndex = -100,
    reduction: Reduction = "mean",
    sample_weight: Tensor | None = None,
) -> Tensor:
    r"""Focal calibration loss (FCL): focal loss plus distance to the one-hot label.

    The loss of a sample is ``-(1 - p_t) ** gamma * log(p_t) + lambd * distance``, with
    p_t the predicted probability of the true class [1]_. The focal loss alone is not
    proper and makes a network underconfident. The distance between the probabilities
    and the one-hot label, by default the Brier score loss, moves the probabilities back
    towards the labels.

    Parameters
    ----------
    logits : Tensor of shape (N, C, ...)
        Unnormalised log probabilities.
    target : Tensor of shape (N, ...) or (N, C, ...)
        Class indices, or soft targets (class probabilities), over which the loss is
        averaged.
    gamma : float, default=2.0
        Exponent of the weight of the focal loss, at least 0.
    lambd : float, default=1.0
        Weight of the distance, at least 0. With 0, the loss is the focal loss.
    norm : {"l2", "l1"}, default="l2"
        Whether the distance is the sum over classes of squared or of absolute
        differences.
    gamma_cal : float, default=None
        Exponent, at least 0, or None. If given, the distance is multiplied by
        ``(1 - p_t) ** gamma_cal``, with p_t the probability of the true class. The
        gradient treats this factor as a constant. This is the self-adaptive variant in
        the authors' code.
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
        If a parameter is out of range or the shapes do not match.
    TypeError
        If a parameter is not a number, or `logits` is not a floating point tensor.

    See Also
    --------
    FocalCalibrationLoss : Module version of this function.
    focal_loss : The first term.
    brier_loss : The second term.

    Notes
    -----
    Appendix A.10 of [1]_ selects (gamma, lambd) by calibration error: (2, 0.5), (3,
    0.5) or (4, 1.5) for networks on images, and (4, 3), (4, 4) or (5, 4.5) on texts.

    Some implementations average the distance over the C classes. Their weight is then
    ``C * lambd``.

    The minimiser of the expected loss ranks the classes correctly. Contrary to section
    4.3 of [1]_, however, the loss is not proper. With gamma above 0, the minimiser
    approaches the true probabilities as lambd grows, but does not reach them. For two
    classes with true probabilities 0.7 and 0.3 and gamma 3, it is 0.558 with lambd 0,
    0.598 with 0.5 and 0.6345 with 1.5. :meth:`FocalCalibrationLoss.posterior` recovers
    the true probabilities from the minimiser.

    References
    ----------
    .. [1] W. Liang, C. Dong, L. N. Zheng, W. E. Zhang and W. Chen, "Towards Trustworthy
       Deep Neural Network through Euclidean Distance", arXiv:2410.18321, 2025,
       definition 3.1, equations 10 to 12. First posted in 2024 as "Calibrating Deep
       Neural Network using Euclidean Distance".

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import focal_calibration_loss
    >>> logits = torch.tensor([[2.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    >>> focal_calibration_loss(logits, torch.tensor([0, 2]), reduction="none")
    tensor([0.0789, 1.9614])
    """
    logits, target = check_batch(logits, target)
    log_odds = true_class_log_odds(logits, target)
    # The absolute differences sum to (1 - p_t) + (1 - p_t).
    l1 = norm == "l1"
    distance = 2 * torch.sigmoid(-log_odds) if l1 else brier_values(logits, target)
    if gamma_cal is not None:
        distance = (
            torch.exp(float(gamma_cal) * F.logsigmoid(-log_odds.detach())) * distance
        )
    values = focal_values(log_odds, float(gamma)) + float(lambd) * distance
    return reduce_loss(values, reduction, sample_weight)


class FocalCalibrationLoss(CalibrationLoss):
    """Module version of :func:`focal_calibration_loss`. See there for details.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import FocalCalibrationLoss
    >>> FocalCalibrationLoss(lambd=0.5)(torch.zeros(1, 2), torch.tensor([1]))
    tensor(0.4233)
    """

    formula = r"$(1 - p_t)^\gamma (-\log p_t) + \lambda \sum_k (p_k - y_k)^2$"
    takes_probabilities = True

    @parameters_of(focal_calibration_loss)
    def __init__(self) -> None: ...

    def posterior(self, proba: ArrayLike) -> np.ndarray:
        """Return the class posterior for which `proba` minimises the expected loss.

        If `gamma_cal` is given, `proba` is not a minimiser, but a zero of the gradient
        of the expected loss.

        Parameters
        ----------
        proba : array-like of shape (n_samples, n_classes)
            Softmax outputs of a network that minimises the expected loss.

        Returns
        -------
        posterior : ndarray of shape (n_samples, n_classes)
            True class probabilities, with the classes in the same order.
        """
        return focal_calibration_posterior(
            check_proba(proba, name="proba"),
            self.gamma,
            self.lambd,
            norm=self.norm,
            gamma_cal=self.gamma_cal,
        )
