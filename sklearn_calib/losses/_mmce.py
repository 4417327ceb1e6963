"""Penalties on the mean embedding of calibration errors: MMCE and weighted MMCE."""

from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from sklearn_calib.losses._base import check_choice, check_nonnegative
from sklearn_calib.losses._composed import Base, _ComposedLoss, build_base
from sklearn_calib.losses._penalty import add_penalty, root, top_label
from sklearn_calib.losses._typing import Reduction

# Of the kernel exp(-|r - s| / WIDTH), as in the paper and in its authors' code.
WIDTH = 0.4


def mmce_loss(
    logits: Tensor,
    target: Tensor,
    *,
    lambd: float = 1.0,
    squared: bool = True,
    base: Base = "cross_entropy",
    reduction: Reduction = "mean",
    sample_weight: Tensor | None = None,
    **base_params: Any,
) -> Tensor:
    r"""Mean loss plus lambd times the maximum mean calibration error. Small is good.

    With r the probability of the predicted class and c whether it is right, 1 or 0,
    the square of the error (MMCE) is the mean over all pairs of samples of the batch
    of ``(c_i - r_i) * (c_j - r_j) * exp(-|r_i - r_j| / 0.4)`` [1]_: large where
    predictions of similar confidence err to the same side. 0 is best.

    Parameters
    ----------
    logits : Tensor of shape (N, C)
        Unnormalised log probabilities.
    target : Tensor of shape (N,)
        Class indices.
    lambd : float, default=1.0
        Weight of the error, at least 0. With 0 the loss is that of `base`.
    squared : bool, default=True
        Whether to add the square, as code in circulation does, or its root, as the
        paper does.
    base : str or CalibrationLoss, default="cross_entropy"
        The loss of each sample: a name as for :func:`get_loss`, or an instance, whose
        reduction is ignored.
    reduction : {"mean", "sum", "none"}, default="mean"
        What to return: the mean over the batch, the sum, or one loss per sample, to
        each of which the penalty of the batch is added.
    sample_weight : Tensor of shape (N,), default=None
        Non-negative weights: a sample of weight m counts as m equal samples.
    **base_params : dict
        The parameters of `base`, as in ``base="focal", base__gamma=3.0``.

    Returns
    -------
    loss : Tensor
        A scalar, or of shape (N,) with ``reduction="none"``.

    Raises
    ------
    ValueError
        If a parameter is out of range or the shapes do not match.
    TypeError
        If a parameter or the logits are of the wrong type, or a keyword is unknown.

    See Also
    --------
    MMCELoss : The same as a module.
    weighted_mmce_loss : Hits and misses weigh the same.

    Notes
    -----
    The gradient flows through the confidence, in the kernel too; c is a constant. The
    sum over pairs is found by sorting the confidences, in ``O(N log N)``. A root below
    1e-5 is replaced by ``1e5 * square``, which keeps its gradient finite.

    References
    ----------
    .. [1] A. Kumar, S. Sarawagi and U. Jain, "Trainable Calibration Measures for Neural
       Networks from Kernel Mean Embeddings", ICML 2018.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import mmce_loss
    >>> logits = torch.tensor([[2.0, 0.0], [0.0, 1.0], [0.0, 0.5]])
    >>> mmce_loss(logits, torch.tensor([0, 0, 1]), lambd=0.0)
    tensor(0.6381)
    >>> mmce_loss(logits, torch.tensor([0, 0, 1]), lambd=1.0)
    tensor(0.6601)
    """
    check_choice("squared", squared, (True, False))
    return add_penalty(
        partial(_mmce, squared=squared),
        logits,
        target,
        lambd=lambd,
        base=build_base(base, base_params, mmce_loss),
        reduction=reduction,
        sample_weight=sample_weight,
    )


def _mmce(logits: Tensor, target: Tensor, share: Tensor, *, squared: bool) -> Tensor:
    """Return the error, or its square."""
    doubt, miss = top_label(logits, target)
    square = _embedding_square(share * (doubt - miss), 1 - doubt)
    return square if squared else root(square)


def _embedding_square(error: Tensor, confidence: Tensor) -> Tensor:
    """Return the sum over pairs of e_i * e_j * exp(-|r_i - r_j| / WIDTH).

    For sorted r the exponential is exp(-r_i / WIDTH) * exp(r_j / WIDTH), and a running
    sum over j replaces the pairs. Tied pairs are summed apart, with a kernel of 1: so
    their gradient is that of the absolute value at 0, which is 0.
    """
    confidence, order = confidence.sort()
    error = error[order]
    first = torch.searchsorted(confidence.detach(), confidence.detach())
    last = torch.searchsorted(confidence.detach(), confidence.detach(), right=True)
    growth = torch.exp(confidence / WIDTH)
    below = F.pad((error * growth).cumsum(0), (1, 0))[first] / growth
    total = F.pad(error.cumsum(0), (1, 0))
    square = (error * (2 * below + total[last] - total[first])).sum()
    # The kernel is positive definite; only rounding makes the sum negative.
    return square.clamp_min(0)


def weighted_mmce_loss(
    logits: Tensor,
    target: Tensor,
    *,
    lambd: float = 0.5,
    base: Base = "cross_entropy",
    reduction: Reduction = "mean",
    sample_weight: Tensor | None = None,
    **base_params: Any,
) -> Tensor:
    r"""Mean loss plus lambd times the MMCE in which hits and misses weigh the same.

    In the error of :func:`mmce_loss` each sample is divided not by the size of the
    batch but by the number of right predictions, or of wrong ones, whichever it is
    [1]_: otherwise an accurate network hears little of its mistakes. The root is taken.
    The smaller the better, 0 is best.

    Parameters
    ----------
    logits : Tensor of shape (N, C)
        Unnormalised log probabilities.
    target : Tensor of shape (N,)
        Class indices.
    lambd : float, default=0.5
        Weight of the error, at least 0. With 0 the loss is that of `base`. From 1 on
        a small network was seen not to learn.
    base : str or CalibrationLoss, default="cross_entropy"
        The loss of each sample: a name as for :func:`get_loss`, or an instance, whose
        reduction is ignored.
    reduction : {"mean", "sum", "none"}, default="mean"
        What to return: the mean over the batch, the sum, or one loss per sample, to
        each of which the penalty of the batch is added.
    sample_weight : Tensor of shape (N,), default=None
        Non-negative weights: a sample of weight m counts as m equal samples.
    **base_params : dict
        The parameters of `base`, as in ``base="focal", base__gamma=3.0``.

    Returns
    -------
    loss : Tensor
        A scalar, or of shape (N,) with ``reduction="none"``.

    Raises
    ------
    ValueError
        If a parameter is out of range or the shapes do not match.
    TypeError
        If a parameter or the logits are of the wrong type, or a keyword is unknown.

    See Also
    --------
    WeightedMMCELoss : The same as a module.
    mmce_loss : Each sample weighs the same.

    Notes
    -----
    The error is 0 where all predictions are right, or all are wrong. Code in
    circulation divides the sum over the pairs twice by their number, which makes the
    error smaller by about the size of the batch; here it is divided once, as in the
    paper. A root below 1e-5 is replaced by ``1e5 * square``, which keeps its gradient
    finite.

    References
    ----------
    .. [1] A. Kumar, S. Sarawagi and U. Jain, "Trainable Calibration Measures for Neural
       Networks from Kernel Mean Embeddings", ICML 2018.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import weighted_mmce_loss
    >>> logits = torch.tensor([[2.0, 0.0], [0.0, 1.0], [0.0, 0.5]])
    >>> weighted_mmce_loss(logits, torch.tensor([0, 0, 1]), lambd=0.0)
    tensor(0.6381)
    >>> weighted_mmce_loss(logits, torch.tensor([0, 0, 1]), lambd=1.0)
    tensor(1.1994)
    """
    return add_penalty(
        _weighted_mmce,
        logits,
        target,
        lambd=lambd,
        base=build_base(base, base_params, weighted_mmce_loss),
        reduction=reduction,
        sample_weight=sample_weight,
    )


def _weighted_mmce(logits: Tensor, target: Tensor, share: Tensor) -> Tensor:
    """Return the error of shares that weigh hits and misses the same."""
    doubt, miss = top_label(logits, target)
    share = _shares_by_miss(miss, share)
    return root(_embedding_square(share * (doubt - miss), 1 - doubt))


def _shares_by_miss(miss: Tensor, share: Tensor) -> Tensor:
    """Return the shares of right and of wrong predictions, each of which sum to one.

    They are 0 if the batch has but one of the two.
    """
    right, wrong = (share * (1 - miss)).sum(), (share * miss).sum()
    own = torch.where(miss > 0, wrong, right)
    return torch.where(right * wrong > 0, share / own, 0.0)


class MMCELoss(_ComposedLoss, function=mmce_loss):
    """The module of :func:`mmce_loss`, which has the details.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import MMCELoss
    >>> loss = MMCELoss(squared=False, base="focal", base__gamma=1.0)
    >>> loss(torch.zeros(1, 2), torch.tensor([1]))
    tensor(0.8466)
    """

    formula = "mean_ij (c_i - r_i) (c_j - r_j) exp(-abs(r_i - r_j) / 0.4)"

    def __init__(
        self,
        *,
        lambd: float = 1.0,
        squared: bool = True,
        base: Base = "cross_entropy",
        reduction: Reduction = "mean",
        **base_params: Any,
    ) -> None:
        super().__init__(base=base, base_params=base_params, reduction=reduction)
        self.lambd = check_nonnegative("lambd", lambd)
        self.squared = check_choice("squared", squared, (True, False))


class WeightedMMCELoss(_ComposedLoss, function=weighted_mmce_loss):
    """The module of :func:`weighted_mmce_loss`, which has the details.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import WeightedMMCELoss
    >>> WeightedMMCELoss(lambd=2.0)(torch.zeros(2, 2), torch.tensor([0, 1]))
    tensor(0.6931)
    """

    formula = "root of `mmce`, right and wrong predictions each by their number"

    def __init__(
        self,
        *,
        lambd: float = 0.5,
        base: Base = "cross_entropy",
        reduction: Reduction = "mean",
        **base_params: Any,
    ) -> None:
        super().__init__(base=base, base_params=base_params, reduction=reduction)
        self.lambd = check_nonnegative("lambd", lambd)
