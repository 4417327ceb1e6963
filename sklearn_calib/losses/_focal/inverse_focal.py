"""Inverse focal loss."""

import warnings
from typing import Annotated

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from sklearn_calib._numerics.posteriors import inverse_focal_posterior
from sklearn_calib._validation.probabilities import check_proba
from sklearn_calib.losses._base.checks import (
    IgnoredIndex,
    NonNegative,
    Reduction,
    check_batch,
    check_nonnegative,
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

# -(1 + p) ** gamma * log(p) decreases in p as long as gamma is below
# (1 + p) / (-p * log(p)). This bound is smallest where log(p) = -(1 + p), that is at
# p = W(1 / e) with the Lambert W function, and it equals 1 / p there.
GAMMA_MAX = 3.591121476668622


def _check_gamma(name: str, value: float) -> None:
    """Check gamma, and warn if the loss is not monotone in p_t."""
    if check_nonnegative(name, value) > GAMMA_MAX:
        warnings.warn(
            f"gamma must be at most {GAMMA_MAX:.3f} for the inverse focal loss to "
            f"decrease in p_t, got {value!r}. Around p_t = {1 / GAMMA_MAX:.3f} the "
            "gradient has the wrong sign. Lower gamma.",
            UserWarning,
            stacklevel=4,  # functions and constructors of losses are wrapped
        )


@loss_function
def inverse_focal_loss(
    logits: Tensor,
    target: Tensor,
    *,
    gamma: Annotated[float, _check_gamma] = 1.0,
    ignore_index: IgnoredIndex = -100,
    reduction: Reduction = "mean",
    sample_weight: Tensor | None = None,
) -> Tensor:
    r"""Inverse focal loss: cross-entropy up-weighted for well-classified samples.

    The cross-entropy ``-log(p_t)``, with p_t the predicted probability of the true
    class, is multiplied by ``(1 + p_t) ** gamma`` [1]_. The effect is opposite to
    that of the focal loss: the network becomes more confident. Its confidence, however,
    separates easy from hard samples better, which helps post-hoc calibration.

    Parameters
    ----------
    logits : Tensor of shape (N, C, ...)
        Unnormalised log probabilities.
    target : Tensor of shape (N, ...) or (N, C, ...)
        Class indices, or soft targets (class probabilities), over which the loss is
        averaged.
    gamma : float, default=1.0
        Exponent of the weight, at least 0. With 0, the loss is cross-entropy. In [2]_
        values between 1 and 3 were chosen by cross-validation.
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

    Warns
    -----
    UserWarning
        If `gamma` is above 3.591. The loss then increases with p_t around p_t = 0.278,
        so that its gradient has the wrong sign for such samples. The exact bound is
        1 / W(1 / e) with the Lambert W function; [2]_ gives 3.5 and 4. The module warns
        in its constructor only.

    See Also
    --------
    InverseFocalLoss : Module version of this function.
    focal_loss : Has the opposite effect.

    References
    ----------
    .. [1] D.-B. Wang, L. Feng and M.-L. Zhang, "Rethinking Calibration of Deep Neural
       Networks: Do Not Be Afraid of Overconfidence", NeurIPS 2021.
    .. [2] H. Zhou, S. G. Gruber, T. Popordanoska and M. B. Blaschko, "Revisiting
       Reweighted Risk for Calibration: AURC, Focal Loss, and Inverse Focal Loss",
       arXiv:2505.23463, 2025, equation 3, section 7.3 and table 4.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import inverse_focal_loss
    >>> logits = torch.tensor([[2.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    >>> inverse_focal_loss(logits, torch.tensor([0, 2]), gamma=1.0, reduction="none")
    tensor([0.4281, 1.8803])
    """
    return _inverse_focal(
        logits, target, gamma=gamma, reduction=reduction, sample_weight=sample_weight
    )


@loss_function
@averages_over_labels
def _inverse_focal(
    logits: Tensor,
    target: Tensor,
    *,
    gamma: NonNegative,
    ignore_index: IgnoredIndex = -100,
    reduction: Reduction,
    sample_weight: Tensor | None = None,
) -> Tensor:
    """Return the loss without warning about gamma."""
    log_odds = true_class_log_odds(*check_batch(logits, target))
    values = focal_values(log_odds, float(gamma), torch.sigmoid(log_odds).log1p())
    return reduce_loss(values, reduction, sample_weight)


class InverseFocalLoss(CalibrationLoss):
    """Module version of :func:`inverse_focal_loss`. See there for details.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import InverseFocalLoss
    >>> InverseFocalLoss(gamma=1.0)(torch.zeros(1, 2), torch.tensor([1]))
    tensor(1.0397)
    """

    formula = r"$(1 + p_t)^\gamma (-\log p_t)$"
    takes_probabilities = True

    @parameters_of(inverse_focal_loss)
    def __init__(self) -> None: ...

    def forward(
        self, logits: Tensor, target: Tensor, sample_weight: Tensor | None = None
    ) -> Tensor:
        """Return the loss of a batch; only the constructor warns about gamma."""
        return _inverse_focal(
            logits, target, sample_weight=sample_weight, **self._arguments()
        )

    def posterior(self, proba: ArrayLike) -> np.ndarray:
        """Return the class posterior for which `proba` minimises the expected loss.

        Parameters
        ----------
        proba : array-like of shape (n_samples, n_classes)
            Softmax outputs of a network that minimises the expected loss.

        Returns
        -------
        posterior : ndarray of shape (n_samples, n_classes)
            True class probabilities, with the classes in the same order.

        Raises
        ------
        ValueError
            If `gamma` is above 1: the loss is then not convex, and some values of
            `proba` do not minimise it for any posterior.
        """
        if self.gamma > 1:
            raise ValueError(
                "gamma must be at most 1 to recover the posterior from the inverse "
                f"focal loss, got {self.gamma!r}. Calibrate the predictions instead, "
                "for example with TemperatureScaling."
            )
        proba = check_proba(proba, name="proba")
        return inverse_focal_posterior(proba, self.gamma)
