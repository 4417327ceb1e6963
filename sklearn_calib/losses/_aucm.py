"""The AUC margin loss: the mean scores of two classes are to lie a margin apart."""

from numbers import Real
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from sklearn_calib.losses._base import (
    PROPORTIONS,
    above_zero,
    as_float,
    check_batch,
    check_can_move,
    check_nonnegative,
    check_tensor,
    check_weight,
    is_choice,
    reduce_loss,
)
from sklearn_calib.losses._calibration_loss import CalibrationLoss
from sklearn_calib.losses._softmax import softmax
from sklearn_calib.losses._typing import Reduction

Prior = Literal["batch"] | float | None


def aucm_loss(
    logits: Tensor,
    target: Tensor,
    *,
    margin: float = 1.0,
    prior: Prior = None,
    a: Tensor | None = None,
    b: Tensor | None = None,
    alpha: Tensor | None = None,
    reduction: Reduction = "mean",
    sample_weight: Tensor | None = None,
) -> Tensor:
    r"""AUC margin loss, AUCM: how far apart two classes score. The smaller the better.

    With s the probability of class 1, the loss is the variance of s among the positive
    samples, plus that among the negative ones, plus the square of what their means lack
    of being `margin` apart. It is what remains of the min-max problem ::

        mean+ (s - a)^2 + mean- (s - b)^2
            + 2 alpha (margin + mean- s - mean+ s) - alpha^2

    of [1]_ at its solution, the smallest over a and b and the largest over alpha >= 0.
    With more than two classes it is the mean over each class against the rest. 0 is
    best.

    Parameters
    ----------
    logits : Tensor of shape (N, C)
        Unnormalised log probabilities.
    target : Tensor of shape (N,)
        Class indices.
    margin : float, default=1.0
        How far apart the mean scores are to be, at least 0.
    prior : {None, "batch"} or float, default=None
        None weighs both classes the same (version 2 of the authors' code). "batch"
        multiplies that by ``p * (1 - p)`` with p the share of the positive samples
        (version 1). A float in (0, 1) is p itself, of all the data (its `imratio`), by
        which the sums over the samples of a class are divided, in place of their
        number: it is meant for a, b and alpha that outlast a batch.
    a, b, alpha : Tensor of shape () or (C,), default=None
        Values to use in place of the solution, one per class if there are more than
        two; see the notes.
    reduction : {"mean", "sum", "none"}, default="mean"
        What to return: the loss of the batch; N times that; or N times the same value,
        since no sample has a loss of its own.
    sample_weight : Tensor of shape (N,), default=None
        Non-negative weights: a sample of weight m counts as m equal samples.

    Returns
    -------
    loss : Tensor
        A scalar, or of shape (N,) with ``reduction="none"``.

    Raises
    ------
    ValueError
        If a parameter is out of range or the shapes do not match.
    TypeError
        If the margin is no number, or the logits are no floating point tensor.

    See Also
    --------
    AUCMLoss : The same as a module.

    Notes
    -----
    With the solution taken for each batch, any optimiser will do, and batches need some
    samples of each class: with ``prior=None`` a class that is absent, or alone, adds 0.
    The authors learn a, b and alpha beside the network instead, over many batches. To
    do so give them as tensors to the optimiser, here as well; as it descends and alpha
    must ascend, call ``alpha.register_hook(torch.neg)`` once, and after each step
    ``alpha.data.clamp_(min=0)``.

    The loss asks for an order, not for calibrated probabilities, and saturates them:
    calibrate the result. Multi-class is one of several readings of [1]_.

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
    _check_params(margin, prior)
    logits, target = check_batch(logits, target)
    n_problems = logits.shape[1] if logits.shape[1] > 2 else 1
    a, b, alpha = (
        _check_given(name, value, logits, n_problems)
        for name, value in {"a": a, "b": b, "alpha": alpha}.items()
    )
    weight = torch.ones_like(target, dtype=logits.dtype)
    if sample_weight is not None:
        weight = check_weight(sample_weight, weight, within=PROPORTIONS)
    score, label = _one_against_rest(logits, target)
    positive = (weight.unsqueeze(1) * label).T
    negative = (weight.unsqueeze(1) * (1 - label)).T
    margin = float(margin)
    value = _min_max(score, positive, negative, margin, prior, a, b, alpha).mean()
    return reduce_loss(value.expand(len(target)), reduction, sample_weight)


def _one_against_rest(logits: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Return scores and labels of shape (N, problems): one problem for two classes."""
    score = softmax(logits)
    label = F.one_hot(target, logits.shape[1]).to(logits.dtype)
    return (score, label) if logits.shape[1] > 2 else (score[:, 1:], label[:, 1:])


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
    """Return the loss of each problem, given the samples' weights in both classes."""
    scale, up, down = _prior_factors(positive.sum(1), negative.sum(1), prior)
    above, below = _mean(score, positive), _mean(score, negative)
    spread = up * _mean((score - _or(a, above)).square(), positive)
    spread = spread + down * _mean((score - _or(b, below)).square(), negative)
    lack = margin + down * below - up * above
    alpha = _or(alpha, lack.clamp_min(0))
    return scale * (spread + 2 * alpha * lack - alpha.square())


def _prior_factors(
    n_positive: Tensor, n_negative: Tensor, prior: Prior
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the factors of the whole loss and of the means of both classes."""
    rate = n_positive / above_zero(n_positive + n_negative)
    one = torch.ones_like(rate)
    if prior is None:
        return ((n_positive > 0) & (n_negative > 0)).to(rate), one, one
    if isinstance(prior, str):
        return rate * (1 - rate), one, one
    prior = float(prior)
    return prior * (1 - prior) * one, rate / prior, (1 - rate) / (1 - prior)


def _mean(values: Tensor, weight: Tensor) -> Tensor:
    """Return the weighted mean of each column, 0 if all its weights are 0."""
    return (weight * values.T).sum(1) / above_zero(weight.sum(1))


def _or(given: Tensor | None, default: Tensor) -> Tensor:
    """Return what is given as a tensor, or else the default."""
    return default if given is None else given.to(default)


def _check_given(
    name: str, value: Any, logits: Tensor, n_problems: int
) -> Tensor | None:
    """Return what is given in place of the solution as a tensor, or None."""
    if value is None:
        return None
    number = as_float(value)
    if number is not None:
        return logits.new_tensor(number)
    check_tensor(name, value, rule="a torch.Tensor, a number or None")
    check_can_move(name, value, logits)
    if value.is_complex() or value.shape not in ((), (n_problems,)):
        raise ValueError(
            f"{name} must be real and of shape () or ({n_problems},), one number for "
            f"all classes or one per class, got {value.dtype} of shape "
            f"{tuple(value.shape)}. None takes the solution of the batch."
        )
    return value


def _check_params(margin: float, prior: Prior) -> None:
    """Check the margin and the prior."""
    check_nonnegative("margin", margin)
    if prior is None or is_choice(prior, ("batch",)):
        return
    if not isinstance(prior, Real) or not 0 < prior < 1:
        raise ValueError(
            f"prior must be None, 'batch' or a float in (0, 1), got {prior!r}. None "
            "weighs both classes the same."
        )


class AUCMLoss(CalibrationLoss, function=aucm_loss):
    """The module of :func:`aucm_loss`, which has the details.

    It needs no optimiser of its own: what the authors learn beside the network is
    solved for in each batch.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import AUCMLoss
    >>> AUCMLoss()(torch.zeros(2, 2), torch.tensor([0, 1]))
    tensor(1.)
    """

    formula = "var+ s + var- s + max(0, margin - mean+ s + mean- s)^2, s = p of a class"
    is_per_sample = False
    # Arguments of the function: None solves for them in each batch.
    a = b = alpha = None

    def __init__(
        self, *, margin: float = 1.0, prior: Prior = None, reduction: Reduction = "mean"
    ) -> None:
        super().__init__(reduction=reduction)
        _check_params(margin, prior)
        self.margin = margin
        self.prior = prior
