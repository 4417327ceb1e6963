"""AUC margin loss (AUCM)."""

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
    above_zero,
    as_float,
    check_batch,
    check_tensor,
    check_weight,
    is_choice,
    reduce_loss,
)
from sklearn_calib.losses._base.decorators import loss_function, parameters_of
from sklearn_calib.losses._base.loss import CalibrationLoss
from sklearn_calib.losses._base.stable_gradients import stable_softmax


def _check_prior(name: str, value: Any) -> None:
    if value is None or is_choice(value, ("batch",)):
        return
    number = value if isinstance(value, Real) else 0
    # Real numbers are ordered, which their abstract class does not say.
    if not 0 < number < 1:  # type: ignore[operator]
        raise ValueError(
            f"{name} must be None, 'batch' or a float in (0, 1), got {shown(value)}. "
            "Use None to give both classes the same weight."
        )


Prior = Annotated[Literal["batch"] | float | None, _check_prior]


@loss_function
def aucm_loss(
    logits: Tensor,
    target: Tensor,
    *,
    margin: NonNegative = 1.0,
    prior: Prior = None,
    a: Tensor | None = None,
    b: Tensor | None = None,
    alpha: Tensor | None = None,
    ignore_index: IgnoredIndex = -100,
    reduction: Reduction = "mean",
    sample_weight: Tensor | None = None,
) -> Tensor:
    r"""AUC margin loss (AUCM): surrogate for maximising the area under the ROC curve.

    Let s be the predicted probability of class 1. The loss is the variance of s over
    the positive samples, plus the variance over the negative samples, plus
    ``max(0, margin - mean+ s + mean- s)^2``, where mean+ and mean- are the means over
    the positive and the negative samples. It is the optimal value of the min-max
    problem of [1]_, in which ::

        mean+ (s - a)^2 + mean- (s - b)^2
            + 2 alpha (margin + mean- s - mean+ s) - alpha^2

    is minimised over a and b and maximised over alpha >= 0. With more than two classes,
    the loss is the mean over the one-vs-rest problems.

    Parameters
    ----------
    logits : Tensor of shape (N, C, ...)
        Unnormalised log probabilities.
    target : Tensor of shape (N, ...)
        Class indices.
    margin : float, default=1.0
        Required distance between the mean scores of both classes, at least 0.
    prior : {None, "batch"} or float, default=None
        Weighting of the classes, with p the proportion of positive samples:

        - None gives both classes the same weight, as in version 2 of the authors' code.
        - "batch" multiplies this loss by ``p * (1 - p)``, with p of the batch, as in
          version 1.
        - A float in (0, 1) is p in the whole data set, `imratio` in the authors'
          code. Means over the samples of a class become sums divided by the expected
          number of such samples. Use a float if a, b and alpha are learned over many
          batches.
    a, b, alpha : Tensor of shape () or (C,), default=None
        Values to use instead of the solution for the batch. With more than two classes,
        there may be one value per class. See the notes.
    ignore_index : int, default=-100
        Class index of samples that are left out, as in PyTorch's `cross_entropy`.
    reduction : {"mean", "sum", "none"}, default="mean"
        Whether to return the loss of the batch, this loss times N, or a tensor of shape
        (N,) filled with it. The loss is not a mean over samples.
    sample_weight : Tensor of shape (N, ...), default=None
        Non-negative sample weights. A sample of weight m counts as m identical samples.

    Returns
    -------
    loss : Tensor
        A scalar, or of shape (N, ...) with ``reduction="none"``.

    Raises
    ------
    ValueError
        If a parameter is out of range or the shapes do not match.
    TypeError
        If `margin` is not a number, or `logits` is not a floating point tensor.

    See Also
    --------
    AUCMLoss : Module version of this function.

    Notes
    -----
    By default the min-max problem is solved for each batch, so that any optimiser can
    be used. Batches need samples of each class: with ``prior=None``, a one-vs-rest
    problem in which all samples have the same label contributes 0.

    The authors learn a, b and alpha together with the network, over many batches. To do
    so, pass them as tensors to this function and to the optimiser. Because the loss is
    maximised over alpha, call ``alpha.register_hook(torch.neg)`` once, and
    ``alpha.data.clamp_(min=0)`` after each step.

    The loss optimises the ranking of the samples. The predicted probabilities are close
    to 0 or 1 and not calibrated, so calibrate them afterwards. The one-vs-rest mean is
    one of several possible extensions of [1]_ to more than two classes.

    References
    ----------
    .. [1] Z. Yuan, Y. Yan, M. Sonka and T. Yang, "Large-Scale Robust Deep AUC
       Maximization: A New Surrogate Loss and Empirical Studies on Medical Image
       Classification", ICCV 2021.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import aucm_loss
    >>> logits = torch.tensor([[2.0, 0.0], [0.0, 2.0], [0.0, 1.0]])
    >>> aucm_loss(logits, torch.tensor([0, 1, 1]))
    tensor(0.1037)
    >>> aucm_loss(logits, torch.tensor([1, 0, 0]))
    tensor(2.8506)
    """
    logits, target = check_batch(logits, target)
    n_problems = logits.shape[1] if logits.shape[1] > 2 else 1
    a, b, alpha = (
        _check_given(name, value, logits, n_problems)
        for name, value in {"a": a, "b": b, "alpha": alpha}.items()
    )
    weight = torch.ones_like(target, dtype=logits.dtype)
    if sample_weight is not None:
        weight = check_weight(sample_weight, weight)
    score = stable_softmax(logits)
    label = F.one_hot(target, logits.shape[1]).to(logits.dtype)
    if n_problems == 1:
        score, label = score[:, 1:], label[:, 1:]
    positive = (weight.unsqueeze(1) * label).T
    negative = (weight.unsqueeze(1) * (1 - label)).T
    margin = float(margin)
    value = _min_max(score, positive, negative, margin, prior, a, b, alpha).mean()
    return reduce_loss(value.expand(len(target)), reduction, sample_weight)


def _min_max(
    score: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float,
    prior: Prior,
    a: Tensor | None,
    b: Tensor | None,
    alpha: Tensor | None,
) -> Tensor:
    """Return the loss of each problem, given the sample weights in both classes."""
    scale, up, down = _prior_factors(positive.sum(1), negative.sum(1), prior)
    above, below = _mean(score, positive), _mean(score, negative)
    spread = up * _mean((score - _or(a, above)).square(), positive)
    spread = spread + down * _mean((score - _or(b, below)).square(), negative)
    shortfall = margin + down * below - up * above
    alpha = _or(alpha, shortfall.clamp_min(0))
    return scale * (spread + 2 * alpha * shortfall - alpha.square())


def _prior_factors(
    n_positive: Tensor, n_negative: Tensor, prior: Prior
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the factors of the total loss and of the means of both classes."""
    rate = n_positive / above_zero(n_positive + n_negative)
    one = torch.ones_like(rate)
    if prior is None:
        return ((n_positive > 0) & (n_negative > 0)).to(rate), one, one
    if isinstance(prior, str):
        return rate * (1 - rate), one, one
    prior = float(prior)
    return prior * (1 - prior) * one, rate / prior, (1 - rate) / (1 - prior)


def _mean(values: Tensor, weight: Tensor) -> Tensor:
    """Return the weighted mean of each column, 0 if all of its weights are 0."""
    return (weight * values.T).sum(1) / above_zero(weight.sum(1))


def _or(given: Tensor | None, default: Tensor) -> Tensor:
    """Return `given` with the dtype and device of the default, or the default."""
    return default if given is None else given.to(default)


def _check_given(
    name: str, value: Any, logits: Tensor, n_problems: int
) -> Tensor | None:
    """Return a, b or alpha as a validated tensor, or None."""
    if value is None:
        return None
    number = as_float(value)
    if number is not None:
        return logits.new_full((), number)
    check_tensor(name, value, rule="a torch.Tensor, a number or None")
    if value.shape not in ((), (n_problems,)):
        raise ValueError(
            f"{name} must have shape () or ({n_problems},), one number for all classes "
            f"or one per class, got {tuple(value.shape)}. Pass None to use the "
            "solution for the batch."
        )
    return value


class AUCMLoss(CalibrationLoss):
    """Module version of :func:`aucm_loss`. See there for details.

    It does not need a special optimiser: the min-max problem is solved for each batch.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import AUCMLoss
    >>> AUCMLoss()(torch.zeros(2, 2), torch.tensor([0, 1]))
    tensor(1.)
    """

    formula = (
        r"$\mathrm{var}_+ s + \mathrm{var}_- s + \max(0, m - \bar s_+ + \bar s_-)^2$, "
        r"$s$ = p of the positive class, $m$ = `margin`"
    )
    is_per_sample = False
    # Arguments of the function. None uses the solution for each batch.
    a = b = alpha = None

    @parameters_of(aucm_loss)
    def __init__(self) -> None: ...
