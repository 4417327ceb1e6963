"""Dual focal loss."""

from numbers import Real
from typing import Annotated, Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from sklearn_calib._validation.arrays import shown
from sklearn_calib.losses._base.checks import (
    IgnoredIndex,
    NonNegative,
    Reduction,
    check_batch,
    is_choice,
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

# The number of classes ranked below the true class that q is computed from, or None for
# all. For `RANKS` q is the probability of the last of them, for `MEANS` their mean.
RANKS: dict[Any, int] = {"largest": 1, 2: 2, 3: 3}
MEANS: dict[Any, int | None] = {"mean2": 2, "mean3": 3, "mean": None}
COMPETITORS = (*RANKS, *MEANS)


def check_competitor(name: str, value: Any) -> None:
    """Raise a ValueError unless a value is a rank, a mean or a constant."""
    if is_choice(value, COMPETITORS):
        return
    # Real numbers are ordered, which their abstract class does not say.
    if not (isinstance(value, Real) and 0 <= value <= 1):  # type: ignore[operator]
        raise ValueError(
            f"{name} must be one of {COMPETITORS} or a float in [0, 1], got "
            f"{shown(value)}. The paper uses 'largest'."
        )


Competitor = Annotated[
    Literal["largest", 2, 3, "mean2", "mean3", "mean"] | float, check_competitor
]


@loss_function
@averages_over_labels
def dual_focal_loss(
    logits: Tensor,
    target: Tensor,
    *,
    gamma: NonNegative = 5.0,
    competitor: Competitor = "largest",
    ignore_index: IgnoredIndex = -100,
    reduction: Reduction = "mean",
    sample_weight: Tensor | None = None,
) -> Tensor:
    r"""Dual focal loss: focal loss that also rewards the distance to the next class.

    The cross-entropy ``-log(p_t)``, with p_t the predicted probability of the true
    class, is multiplied by ``(1 - p_t + q) ** gamma`` [1]_. Here q is the largest
    probability strictly below p_t, or 0 if there is none. Because the loss rewards a
    distance between p_t and q, it reduces the underconfidence of the focal loss.

    Parameters
    ----------
    logits : Tensor of shape (N, C, ...)
        Unnormalised log probabilities.
    target : Tensor of shape (N, ...) or (N, C, ...)
        Class indices, or soft targets (class probabilities), over which the loss is
        averaged.
    gamma : float, default=5.0
        Exponent of the weight, at least 0. With 0, the loss is cross-entropy. The
        authors tune it for each data set, between 2 and 6 in their code. In table 13
        of [1]_, 5 has the lowest ECE of 2, 3, 4, 5 and 10 on CIFAR-10.
    competitor : {"largest", 2, 3, "mean2", "mean3", "mean"} or float, default="largest"
        Definition of q, which is subtracted from p_t, the probability of the true
        class: a function of the probabilities strictly below p_t, or a constant. These
        are the variants of table 4 in [1]_:

        - "largest": the largest probability below p_t;
        - 2 or 3: the second or third largest, or 0 if there are fewer;
        - "mean2" or "mean3": the mean of the two or three largest, or of fewer if there
          are fewer;
        - "mean": the mean of all probabilities below p_t;
        - a float in [0, 1]: this constant.
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
        If `gamma` is not a number, or `logits` is not a floating point tensor.

    See Also
    --------
    DualFocalLoss : Module version of this function.
    focal_loss : Focal loss, which does not use q.
    sample_dependent_focal_loss : Has the same `competitor` (DualFocal-SD).

    Notes
    -----
    The gradient flows through q. If several classes are tied at q, it flows through one
    of them. Classes tied with the true class do not count for q.

    By definition the loss jumps where another class overtakes the true class. For two
    classes with true probabilities 0.7 and 0.3 and gamma 5, the expected loss is
    therefore smallest, 0.022, at an exact tie. Apart from ties its minimum is 0.079, at
    the probability 0.685. In training, exact ties occur only by chance.

    Unlike for other focal losses, the true probabilities cannot be recovered from the
    outputs of a network. With the gradient of q, which equation 9 of [1]_ omits, the
    outputs 0.55 and 0.45 would be mapped to 0.09 and 0.91.

    References
    ----------
    .. [1] L. Tao, M. Dong and C. Xu, "Dual Focal Loss for Calibration", ICML 2023,
       equation 3 and tables 4 and 13.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import dual_focal_loss
    >>> logits = torch.tensor([[2.0, 1.0, 0.0], [0.0, 1.0, 2.0]])
    >>> dual_focal_loss(logits, torch.tensor([0, 1]), gamma=5.0, reduction="none")
    tensor([0.0266, 0.6075])
    """
    logits, target = check_batch(logits, target)
    log_odds = true_class_log_odds(logits, target)
    log_base = dual_log_base(logits, target, log_odds, competitor)
    values = focal_values(log_odds, float(gamma), log_base)
    return reduce_loss(values, reduction, sample_weight)


def dual_log_base(
    logits: Tensor, target: Tensor, log_odds: Tensor, competitor: Competitor
) -> Tensor:
    """Return log(1 - p_t + q) for each sample."""
    log_rest = F.logsigmoid(-log_odds)
    if is_choice(competitor, COMPETITORS):
        # In log space, with q as a fraction of 1 - p_t. Computed as a sum, 1 - p_t + q
        # is 0 at p_t = 1. For gamma < 1 the gradient of its power is infinite there,
        # and infinity times log(p_t) = 0 is NaN.
        return log_rest + torch.log1p(_fraction(logits, target, log_odds, competitor))
    return torch.logaddexp(log_rest, log_rest.new_tensor(float(competitor)).log())


def _fraction(
    logits: Tensor, target: Tensor, log_odds: Tensor, competitor: Competitor
) -> Tensor:
    """Return q / (1 - p_t) for each sample, 0 if no class is below the true one."""
    # Logits are compared, because different probabilities may round to the same number.
    # Distances that are not positive, such as that of the true class to itself, are
    # replaced by infinity.
    distance = logits.gather(1, target.unsqueeze(1)) - logits
    n_below = (distance > 0).sum(1)
    distance = F.threshold(distance, 0.0, torch.inf)
    count = RANKS[competitor] if competitor in RANKS else MEANS[competitor]
    if count is not None:
        count = min(count, logits.shape[1])
        distance = distance.topk(count, dim=1, largest=False).values
    fraction = torch.exp(log_odds.unsqueeze(1) - distance)
    if competitor in RANKS:
        return fraction[:, -1]
    return fraction.sum(1) / n_below.clamp(1, fraction.shape[1])


class DualFocalLoss(CalibrationLoss):
    """Module version of :func:`dual_focal_loss`. See there for details.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import DualFocalLoss
    >>> DualFocalLoss(gamma=1.0)(torch.tensor([[0.0, 1.0]]), torch.tensor([1]))
    tensor(0.1685)
    """

    formula = r"$(1 - p_t + q)^\gamma (-\log p_t)$"
    takes_probabilities = True

    @parameters_of(dual_focal_loss)
    def __init__(self) -> None: ...
