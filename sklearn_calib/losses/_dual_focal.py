"""The dual focal loss."""

from numbers import Real
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from sklearn_calib.losses._base import (
    check_batch,
    check_nonnegative,
    is_choice,
    reduce_loss,
)
from sklearn_calib.losses._calibration_loss import CalibrationLoss
from sklearn_calib.losses._focal import focal_values
from sklearn_calib.losses._margin import true_class_margin
from sklearn_calib.losses._soft_targets import averages_over_labels
from sklearn_calib.losses._typing import Reduction

# By name, how many of the classes below the true one count, nearest first; None is all.
# A rank takes the last of them, a mean all of them.
RANKS: dict[Any, int] = {"largest": 1, 2: 2, 3: 3}
MEANS: dict[Any, int | None] = {"mean2": 2, "mean3": 3, "mean": None}
COMPETITORS = (*RANKS, *MEANS)
Competitor = Literal["largest", 2, 3, "mean2", "mean3", "mean"] | float


@averages_over_labels
def dual_focal_loss(
    logits: Tensor,
    target: Tensor,
    *,
    gamma: float = 5.0,
    competitor: Competitor = "largest",
    reduction: Reduction = "mean",
    sample_weight: Tensor | None = None,
) -> Tensor:
    r"""Focal loss that watches the runner-up as well. The smaller the better.

    The surprise at the true class is multiplied by ``(1 - p_t + q) ** gamma`` [1]_,
    where q is the largest probability strictly below p_t, or 0 if there is none. The
    loss rewards a gap between the two, and so corrects the underconfidence of the
    focal loss. 0 is best.

    Parameters
    ----------
    logits : Tensor of shape (N, C)
        Unnormalised log probabilities.
    target : Tensor of shape (N,) or (N, C)
        Class indices, or probabilities, over which the loss is averaged.
    gamma : float, default=5.0
        How fast the weight ``(1 - p_t + q) ** gamma`` falls, at least 0. With 0 the
        loss is cross-entropy. The authors tune it per data set, between 2 and 6.
    competitor : {"largest", 2, 3, "mean2", "mean3", "mean"} or float, default="largest"
        What q in the weight is, among the probabilities strictly below p_t: the
        largest; the second or third largest, 0 if there are fewer; the mean of the two
        or three largest, or of all, as far as there are any. A float in [0, 1] is a
        constant q. These are the variants of table 4 in [1]_.
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
        If a parameter is out of range or the shapes do not match.
    TypeError
        If gamma is no number, or the logits are no floating point tensor.

    See Also
    --------
    DualFocalLoss : The same as a module.
    focal_loss : Without the runner-up.
    sample_dependent_focal_loss : Takes a competitor too (DualFocal-SD).

    Notes
    -----
    The gradient flows through q, and with several classes tied at q through one of
    them. Classes tied with the true one are no competitors. By design the loss jumps
    where a class passes the true one.

    Hence, of all predictions for two classes of probabilities 0.7 and 0.3, an exact
    tie has the smallest expected loss: 0.022 with gamma 5, where the minimum off ties,
    at 0.685, has 0.079. A network meets exact ties by chance only. Unlike other focal
    losses, this one does not tell the posterior from what it is minimal at: the
    gradient of q, which equation 9 of [1]_ leaves out, would turn 0.55 and 0.45 into
    0.09 and 0.91.

    References
    ----------
    .. [1] L. Tao, M. Dong and C. Xu, "Dual Focal Loss for Calibration", ICML 2023,
       equation 3 and table 4.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import dual_focal_loss
    >>> logits = torch.tensor([[2.0, 1.0, 0.0], [0.0, 1.0, 2.0]])
    >>> dual_focal_loss(logits, torch.tensor([0, 1]), gamma=5.0, reduction="none")
    tensor([0.0266, 0.6075])
    """
    gamma = float(check_nonnegative("gamma", gamma))
    check_competitor(competitor)
    logits, target = check_batch(logits, target)
    margin = true_class_margin(logits, target)
    log_base = log_gap(logits, target, margin, competitor)
    values = focal_values(margin, gamma, log_base)
    return reduce_loss(values, reduction, sample_weight)


def log_gap(
    logits: Tensor, target: Tensor, margin: Tensor, competitor: Competitor
) -> Tensor:
    """Return log(1 - p_t + q) for each sample."""
    log_rest = F.logsigmoid(-margin)
    if is_choice(competitor, COMPETITORS):
        # q is a share of 1 - p_t. As a sum, 1 - p_t + q is 0 where p_t = 1, and the
        # gradient of its power for gamma < 1 meets log(p_t) = 0 as inf * 0 = nan.
        return log_rest + torch.log1p(_share(logits, target, margin, competitor))
    return torch.logaddexp(log_rest, log_rest.new_tensor(float(competitor)).log())


def _share(
    logits: Tensor, target: Tensor, margin: Tensor, competitor: Competitor
) -> Tensor:
    """Return q / (1 - p_t) for each sample, 0 where no class is below the true one."""
    # Logits are compared, not probabilities, which collide by rounding. The distance
    # of the true class from itself, 0, is replaced together with the negative ones.
    distance = logits.gather(1, target.unsqueeze(1)) - logits
    n_below = (distance > 0).sum(1)
    distance = F.threshold(distance, 0.0, torch.inf)
    count = RANKS[competitor] if competitor in RANKS else MEANS[competitor]
    if count is not None:
        count = min(count, logits.shape[1])
        distance = distance.topk(count, dim=1, largest=False).values
    share = torch.exp(margin.unsqueeze(1) - distance)
    if competitor in RANKS:
        return share[:, -1]
    return share.sum(1) / n_below.clamp(1, share.shape[1])


def check_competitor(competitor: Competitor) -> None:
    """Check that the competitor is a rank, a mean or a constant probability."""
    if is_choice(competitor, COMPETITORS):
        return
    if not isinstance(competitor, Real) or not 0 <= competitor <= 1:
        raise ValueError(
            f"competitor must be one of {COMPETITORS} or a float in [0, 1], got "
            f"{competitor!r}. The loss of the paper has 'largest'."
        )


class DualFocalLoss(CalibrationLoss, function=dual_focal_loss):
    """The module of :func:`dual_focal_loss`, which has the details.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import DualFocalLoss
    >>> DualFocalLoss(gamma=1.0)(torch.tensor([[0.0, 1.0]]), torch.tensor([1]))
    tensor(0.1685)
    """

    formula = "(1 - p_t + q)^gamma (-log p_t)"
    takes_probabilities = True

    def __init__(
        self,
        *,
        gamma: float = 5.0,
        competitor: Competitor = "largest",
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(reduction=reduction)
        self.gamma = check_nonnegative("gamma", gamma)
        check_competitor(competitor)
        self.competitor = competitor
