"""Sample-dependent focal loss (FLSD)."""

from collections.abc import Sequence
from itertools import pairwise
from numbers import Real

import torch
import torch.nn.functional as F
from torch import Tensor

from sklearn_calib._validation.arrays import shown
from sklearn_calib.losses._base.checks import (
    IgnoredIndex,
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
from sklearn_calib.losses._focal.dual_focal import Competitor, dual_log_base
from sklearn_calib.losses._focal.focal import focal_values


@loss_function
@averages_over_labels
def sample_dependent_focal_loss(
    logits: Tensor,
    target: Tensor,
    *,
    gammas: Sequence[float] = (5.0, 3.0),
    thresholds: Sequence[float] = (0.2,),
    competitor: Competitor | None = None,
    ignore_index: IgnoredIndex = -100,
    reduction: Reduction = "mean",
    sample_weight: Tensor | None = None,
) -> Tensor:
    r"""Sample-dependent focal loss (FLSD): gamma depends on the true-class probability.

    The defaults are FLSD-53 [1]_: gamma is 5 for samples whose predicted probability of
    the true class, p_t, is below 0.2, and 3 for the others. The smaller p_t is, the
    larger gamma must be to limit the confidence.

    Parameters
    ----------
    logits : Tensor of shape (N, C, ...)
        Unnormalised log probabilities.
    target : Tensor of shape (N, ...) or (N, C, ...)
        Class indices, or soft targets (class probabilities), over which the loss is
        averaged.
    gammas : tuple or list of float, default=(5.0, 3.0)
        The values of gamma, each at least 0, in the order of increasing p_t, the
        probability of the true class.
    thresholds : tuple or list of float, default=(0.2,)
        The values of p_t at which gamma changes, increasing and in (0, 1), one fewer
        than `gammas`. A value of p_t equal to a threshold belongs to the interval above
        it.
    competitor : str, int, float or None, default=None
        If given, p_t is replaced by p_t - q in the weight, which becomes ``(1 - p_t +
        q) ** gamma``, and in the choice of gamma. See :func:`dual_focal_loss` for the
        values and the definition of q. With "largest" the loss is DualFocal-SD [2]_.
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
        If a gamma or a threshold is out of range, their numbers do not match, or the
        shapes do not match.
    TypeError
        If `gammas` or `thresholds` is not a tuple or a list, a gamma is not a number,
        or `logits` is not a floating point tensor.

    See Also
    --------
    SampleDependentFocalLoss : Module version of this function.
    focal_loss : Same gamma for all samples.
    dual_focal_loss : Same gamma for all samples, with a competitor.

    Notes
    -----
    The gamma of a sample is treated as a constant in the gradient. The loss jumps where
    p_t crosses a threshold. The authors' code has a third interval above 0.5. It
    corresponds to ``gammas=(5, 3, gamma), thresholds=(0.2, 0.5)``.

    References
    ----------
    .. [1] J. Mukhoti, V. Kulharia, A. Sanyal, S. Golodetz, P. H. S. Torr and P. K.
       Dokania, "Calibrating Deep Neural Networks using Focal Loss", NeurIPS 2020.
    .. [2] L. Tao, M. Dong and C. Xu, "Dual Focal Loss for Calibration", ICML 2023.
       The variant with a sample-dependent gamma is in their code only.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import sample_dependent_focal_loss
    >>> logits = torch.tensor([[2.0, 0.0, 0.0], [0.0, 2.0, 0.0]])
    >>> sample_dependent_focal_loss(logits, torch.tensor([0, 2]), reduction="none")
    tensor([0.0023, 1.2753])
    """
    _check_schedule(gammas, thresholds)
    logits, target = check_batch(logits, target)
    log_odds = true_class_log_odds(logits, target)
    if competitor is None:
        distance, log_rest = torch.sigmoid(log_odds), F.logsigmoid(-log_odds)
    else:
        log_rest = dual_log_base(logits, target, log_odds, competitor)
        distance = -torch.expm1(log_rest)
    gamma = _scheduled_gamma(distance, gammas, thresholds)
    values = focal_values(log_odds, gamma, log_rest)
    return reduce_loss(values, reduction, sample_weight)


def _scheduled_gamma(
    distance: Tensor, gammas: Sequence[float], thresholds: Sequence[float]
) -> Tensor:
    """Return the gamma of each sample; the intervals are closed on the left."""
    edges, choices = (
        distance.new_tensor([float(value) for value in values])
        for values in (thresholds, gammas)
    )
    return choices[torch.bucketize(distance.detach(), edges, right=True)]


def _check_schedule(gammas: Sequence[float], thresholds: Sequence[float]) -> None:
    """Check the gammas and the thresholds between them."""
    for name, value in (("gammas", gammas), ("thresholds", thresholds)):
        if not isinstance(value, (list, tuple)):
            raise TypeError(
                f"{name} must be a tuple or a list, got {shown(value)}. Use the focal "
                "loss for a single gamma."
            )
    for index, gamma in enumerate(gammas):
        check_nonnegative(f"gammas[{index}]", gamma)
    are_numbers = all(isinstance(threshold, Real) for threshold in thresholds)
    if not (are_numbers and all(a < b for a, b in pairwise((0, *thresholds, 1)))):
        raise ValueError(
            f"thresholds must be increasing and in (0, 1), got {shown(thresholds)}. "
            "FLSD-53 uses (0.2,)."
        )
    if len(gammas) != len(thresholds) + 1:
        raise ValueError(
            f"gammas must have one more value than thresholds, got {shown(gammas)} and "
            f"{shown(thresholds)}. FLSD-53 uses (5.0, 3.0) and (0.2,)."
        )


class SampleDependentFocalLoss(CalibrationLoss):
    """Module version of :func:`sample_dependent_focal_loss`. See there for details.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import SampleDependentFocalLoss
    >>> SampleDependentFocalLoss()(torch.zeros(1, 2), torch.tensor([1]))
    tensor(0.0866)
    """

    formula = r"`focal` with $\gamma$ chosen by $p_t$"
    takes_probabilities = True

    @parameters_of(sample_dependent_focal_loss)
    def __init__(self) -> None:
        _check_schedule(self.gammas, self.thresholds)
