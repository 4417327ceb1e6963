"""The focal loss with a gamma that depends on the sample (FLSD)."""

from collections.abc import Sequence
from itertools import pairwise
from numbers import Real

import torch
import torch.nn.functional as F
from torch import Tensor

from sklearn_calib.losses._base import (
    check_batch,
    check_nonnegative,
    reduce_loss,
)
from sklearn_calib.losses._calibration_loss import CalibrationLoss
from sklearn_calib.losses._dual_focal import Competitor, check_competitor, log_gap
from sklearn_calib.losses._focal import focal_values
from sklearn_calib.losses._margin import true_class_margin
from sklearn_calib.losses._soft_targets import averages_over_labels
from sklearn_calib.losses._typing import Reduction


@averages_over_labels
def sample_dependent_focal_loss(
    logits: Tensor,
    target: Tensor,
    *,
    gammas: Sequence[float] = (5.0, 3.0),
    thresholds: Sequence[float] = (0.2,),
    competitor: Competitor | None = None,
    reduction: Reduction = "mean",
    sample_weight: Tensor | None = None,
) -> Tensor:
    r"""Focal loss whose gamma depends on the probability of the true class (FLSD-53).

    The defaults are FLSD-53 [1]_: gamma is 5 for the samples whose true class has a
    probability below 0.2 and 3 for the rest, since the smaller p_t is, the larger gamma
    must be to hold the confidence back. The smaller the better, 0 is best.

    Parameters
    ----------
    logits : Tensor of shape (N, C)
        Unnormalised log probabilities.
    target : Tensor of shape (N,) or (N, C)
        Class indices, or probabilities, over which the loss is averaged.
    gammas : tuple or list of float, default=(5.0, 3.0)
        The values of gamma, each at least 0, from small p_t to large.
    thresholds : tuple or list of float, default=(0.2,)
        The probabilities at which gamma changes, increasing and inside (0, 1), one
        fewer than `gammas`. A sample on a threshold has the gamma above it.
    competitor : str, int, float or None, default=None
        If given, its probability q as in :func:`dual_focal_loss` is taken from p_t, in
        the weight, which becomes ``(1 - p_t + q) ** gamma``, and where gamma is looked
        up. "largest" makes the loss DualFocal-SD [2]_.
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
        If a gamma or a threshold is out of range, their numbers do not fit, or the
        shapes do not match.
    TypeError
        If `gammas` or `thresholds` is no tuple or list, a gamma is no number, or the
        logits are no floating point tensor.

    See Also
    --------
    SampleDependentFocalLoss : The same as a module.
    focal_loss : One gamma for all samples.
    dual_focal_loss : One gamma for all samples, with a competitor.

    Notes
    -----
    Each sample's gamma is a constant for the gradient, and the loss jumps where p_t
    crosses a threshold. The authors' code has a third piece from 0.5 on, which is
    ``gammas=(5, 3, gamma), thresholds=(0.2, 0.5)`` here.

    References
    ----------
    .. [1] J. Mukhoti, V. Kulharia, A. Sanyal, S. Golodetz, P. H. S. Torr and P. K.
       Dokania, "Calibrating Deep Neural Networks using Focal Loss", NeurIPS 2020.
    .. [2] L. Tao, M. Dong and C. Xu, "Dual Focal Loss for Calibration", ICML 2023.
       Their code has the variant with a sample-dependent gamma, the paper has not.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import sample_dependent_focal_loss
    >>> logits = torch.tensor([[2.0, 0.0, 0.0], [0.0, 2.0, 0.0]])
    >>> sample_dependent_focal_loss(logits, torch.tensor([0, 2]), reduction="none")
    tensor([0.0023, 1.2753])
    """
    _check_schedule(gammas, thresholds, competitor)
    logits, target = check_batch(logits, target)
    margin = true_class_margin(logits, target)
    if competitor is None:
        lead, log_rest = torch.sigmoid(margin), F.logsigmoid(-margin)
    else:
        log_rest = log_gap(logits, target, margin, competitor)
        lead = -torch.expm1(log_rest)
    gamma = _scheduled_gamma(lead, gammas, thresholds)
    values = focal_values(margin, gamma, log_rest)
    return reduce_loss(values, reduction, sample_weight)


def _scheduled_gamma(
    lead: Tensor, gammas: Sequence[float], thresholds: Sequence[float]
) -> Tensor:
    """Return the gamma of each sample, by intervals closed below."""
    edges, choices = (
        lead.new_tensor([float(value) for value in values])
        for values in (thresholds, gammas)
    )
    return choices[torch.bucketize(lead.detach(), edges, right=True)]


def _check_schedule(
    gammas: Sequence[float], thresholds: Sequence[float], competitor: Competitor | None
) -> None:
    """Check that the thresholds increase in (0, 1) and separate as many gammas."""
    if competitor is not None:
        check_competitor(competitor)
    for name, value in (("gammas", gammas), ("thresholds", thresholds)):
        if not isinstance(value, (list, tuple)):
            raise TypeError(
                f"{name} must be a tuple or a list, got {value!r}. For one gamma for "
                "all samples use the focal loss."
            )
    for index, gamma in enumerate(gammas):
        check_nonnegative(f"gammas[{index}]", gamma)
    are_numbers = all(isinstance(each, Real) for each in thresholds)
    if not (are_numbers and all(a < b for a, b in pairwise((0, *thresholds, 1)))):
        raise ValueError(
            f"thresholds must increase inside (0, 1), got {thresholds!r}. "
            "FLSD-53 has (0.2,)."
        )
    if len(gammas) != len(thresholds) + 1:
        raise ValueError(
            f"gammas must have one value more than thresholds, got {gammas!r} and "
            f"{thresholds!r}. FLSD-53 has (5.0, 3.0) and (0.2,)."
        )


class SampleDependentFocalLoss(CalibrationLoss, function=sample_dependent_focal_loss):
    """The module of :func:`sample_dependent_focal_loss`, which has the details.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import SampleDependentFocalLoss
    >>> SampleDependentFocalLoss()(torch.zeros(1, 2), torch.tensor([1]))
    tensor(0.0866)
    """

    formula = "`focal` with gamma by the value of p_t"
    takes_probabilities = True

    def __init__(
        self,
        *,
        gammas: Sequence[float] = (5.0, 3.0),
        thresholds: Sequence[float] = (0.2,),
        competitor: Competitor | None = None,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(reduction=reduction)
        _check_schedule(gammas, thresholds, competitor)
        self.gammas = gammas
        self.thresholds = thresholds
        self.competitor = competitor
