"""Maximum mean calibration error (MMCE) penalties."""

from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from sklearn_calib.losses._base.checks import (
    IgnoredIndex,
    NonNegative,
    Reduction,
)
from sklearn_calib.losses._base.composed import (
    Base,
    _ComposedLoss,
    add_penalty,
    build_base,
    root,
    uncertainty_and_error,
)
from sklearn_calib.losses._base.decorators import loss_function, parameters_of

# The width of the kernel exp(-|r - s| / WIDTH) in the paper and its authors' code.
WIDTH = 0.4


@loss_function
def mmce_loss(
    logits: Tensor,
    target: Tensor,
    *,
    lambd: NonNegative = 1.0,
    squared: bool = True,
    base: Base = "cross_entropy",
    ignore_index: IgnoredIndex = -100,
    reduction: Reduction = "mean",
    sample_weight: Tensor | None = None,
    **base_params: Any,
) -> Tensor:
    r"""Maximum mean calibration error (MMCE) added to a base loss.

    The loss is ``base + lambd * penalty``, where the penalty is the MMCE of the batch
    or its square. Let r be the confidence of a sample, and let c be 1 if its prediction
    is correct and 0 otherwise. The squared MMCE is the mean over all pairs of samples
    of ``(c_i - r_i) * (c_j - r_j) * exp(-|r_i - r_j| / 0.4)`` [1]_. It is large if
    predictions of similar confidence are all overconfident, or all underconfident.

    Parameters
    ----------
    logits : Tensor of shape (N, C, ...)
        Unnormalised log probabilities.
    target : Tensor of shape (N, ...)
        Class indices.
    lambd : float, default=1.0
        Weight of the penalty, at least 0. With 0, the loss is that of `base`.
    squared : bool, default=True
        Whether to add the squared MMCE, as common implementations do, or the MMCE, as
        in the paper.
    base : str or CalibrationLoss, default="cross_entropy"
        Per-sample loss: a name accepted by :func:`get_loss`, or an instance, whose
        `reduction` and `ignore_index` are ignored.
    ignore_index : int, default=-100
        Class index of samples that are left out, as in PyTorch's `cross_entropy`.
    reduction : {"mean", "sum", "none"}, default="mean"
        Whether to return the mean over the batch, the sum, or the loss of each sample,
        which includes the penalty of the batch.
    sample_weight : Tensor of shape (N, ...), default=None
        Non-negative sample weights. A sample of weight m counts as m identical samples.
    **base_params : dict
        Parameters of `base`, as in ``base="focal", base__gamma=3.0``.

    Returns
    -------
    loss : Tensor
        A scalar, or of shape (N, ...) with ``reduction="none"``.

    Raises
    ------
    ValueError
        If a parameter is out of range or the shapes do not match.
    TypeError
        If a parameter or `logits` has the wrong type, or a keyword is unknown.

    See Also
    --------
    MMCELoss : Module version of this function.
    weighted_mmce_loss : Gives equal weight to correct and wrong predictions.

    Notes
    -----
    The gradient flows through the confidence, also in the kernel; c is treated as a
    constant. The sum over pairs is computed by sorting the confidences, in time
    ``O(N log N)``. An MMCE below 1e-5 is replaced by 1e5 times its square, to keep the
    gradient finite.

    With the default parameters, and with ``lambd=2``, the ECE of networks on three data
    sets did not differ from that of cross-entropy by more than the noise
    (:doc:`/results_losses`).

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
    return add_penalty(
        partial(_mmce, squared=squared),
        logits,
        target,
        lambd=lambd,
        base=build_base(base, base_params, mmce_loss),
        reduction=reduction,
        sample_weight=sample_weight,
    )


def _mmce(logits: Tensor, target: Tensor, weight: Tensor, *, squared: bool) -> Tensor:
    """Return the MMCE or its square."""
    uncertainty, wrong = uncertainty_and_error(logits, target)
    square = _embedding_square(weight * (uncertainty - wrong), 1 - uncertainty)
    return square if squared else root(square)


def _embedding_square(error: Tensor, confidence: Tensor) -> Tensor:
    """Return the sum over pairs of e_i * e_j * exp(-|r_i - r_j| / WIDTH).

    For sorted r the exponential is exp(-r_i / WIDTH) * exp(r_j / WIDTH) if r_i >= r_j,
    so that a cumulative sum over j replaces the sum over pairs. Tied pairs are summed
    separately, with a kernel of 1. The gradient of their kernel is then 0, as for the
    absolute value at 0.
    """
    confidence, order = confidence.sort()
    error = error[order]
    first = torch.searchsorted(confidence.detach(), confidence.detach())
    last = torch.searchsorted(confidence.detach(), confidence.detach(), right=True)
    growth = torch.exp(confidence / WIDTH)
    below = F.pad((error * growth).cumsum(0), (1, 0))[first] / growth
    total = F.pad(error.cumsum(0), (1, 0))
    square = (error * (2 * below + total[last] - total[first])).sum()
    # The kernel is positive definite: the sum is negative only by rounding.
    return square.clamp_min(0)


@loss_function
def weighted_mmce_loss(
    logits: Tensor,
    target: Tensor,
    *,
    lambd: NonNegative = 0.5,
    base: Base = "cross_entropy",
    ignore_index: IgnoredIndex = -100,
    reduction: Reduction = "mean",
    sample_weight: Tensor | None = None,
    **base_params: Any,
) -> Tensor:
    r"""Weighted maximum mean calibration error (MMCE) added to a base loss.

    The loss is ``base + lambd * penalty``. The penalty is the MMCE of :func:`mmce_loss`
    with sample weights that give correct and wrong predictions the same total weight
    [1]_. Instead of one over the batch size, the weight of a correct prediction is one
    over the number of correct predictions, and that of a wrong prediction one over the
    number of wrong predictions. Without these weights, the wrong predictions of an
    accurate network have little influence.

    Parameters
    ----------
    logits : Tensor of shape (N, C, ...)
        Unnormalised log probabilities.
    target : Tensor of shape (N, ...)
        Class indices.
    lambd : float, default=0.5
        Weight of the penalty, at least 0. With 0, the loss is that of `base`. With 1
        or more, a small network did not learn in our experiments.
    base : str or CalibrationLoss, default="cross_entropy"
        Per-sample loss: a name accepted by :func:`get_loss`, or an instance, whose
        `reduction` and `ignore_index` are ignored.
    ignore_index : int, default=-100
        Class index of samples that are left out, as in PyTorch's `cross_entropy`.
    reduction : {"mean", "sum", "none"}, default="mean"
        Whether to return the mean over the batch, the sum, or the loss of each sample,
        which includes the penalty of the batch.
    sample_weight : Tensor of shape (N, ...), default=None
        Non-negative sample weights. A sample of weight m counts as m identical samples.
    **base_params : dict
        Parameters of `base`, as in ``base="focal", base__gamma=3.0``.

    Returns
    -------
    loss : Tensor
        A scalar, or of shape (N, ...) with ``reduction="none"``.

    Raises
    ------
    ValueError
        If a parameter is out of range or the shapes do not match.
    TypeError
        If a parameter or `logits` has the wrong type, or a keyword is unknown.

    See Also
    --------
    WeightedMMCELoss : Module version of this function.
    mmce_loss : Gives all samples the same weight.

    Notes
    -----
    The penalty is 0 if all predictions are correct, or if all are wrong. A weighted
    MMCE below 1e-5 is replaced by 1e5 times its square, to keep the gradient finite.

    Common implementations divide the sums over pairs twice by the number of pairs,
    which makes the penalty smaller by a factor of about the batch size. Here they are
    divided once, as in the paper.

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


def _weighted_mmce(logits: Tensor, target: Tensor, weight: Tensor) -> Tensor:
    """Return the weighted MMCE."""
    uncertainty, wrong = uncertainty_and_error(logits, target)
    n_correct, n_wrong = (weight * (1 - wrong)).sum(), (weight * wrong).sum()
    total = torch.where(wrong > 0, n_wrong, n_correct)
    # The weights are 0 if all predictions are correct, or if all are wrong.
    weight = torch.where(n_correct * n_wrong > 0, weight / total, 0.0)
    return root(_embedding_square(weight * (uncertainty - wrong), 1 - uncertainty))


class MMCELoss(_ComposedLoss):
    """Module version of :func:`mmce_loss`. See there for details.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import MMCELoss
    >>> loss = MMCELoss(squared=False, base="focal", base__gamma=1.0)
    >>> loss(torch.zeros(1, 2), torch.tensor([1]))
    tensor(0.8466)
    """

    formula = (
        r"mean over $i, j$ of $(c_i - r_i) (c_j - r_j) "
        r"\exp(-\lvert r_i - r_j \rvert / 0.4)$"
    )

    @parameters_of(mmce_loss)
    def __init__(self) -> None: ...


class WeightedMMCELoss(_ComposedLoss):
    """Module version of :func:`weighted_mmce_loss`. See there for details.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import WeightedMMCELoss
    >>> WeightedMMCELoss(lambd=2.0)(torch.zeros(2, 2), torch.tensor([0, 1]))
    tensor(0.6931)
    """

    formula = "square root of `mmce`, correct and wrong predictions weighted equally"

    @parameters_of(weighted_mmce_loss)
    def __init__(self) -> None: ...
