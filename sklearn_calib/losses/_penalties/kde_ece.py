"""Kernel density estimate of the calibration error (KDE-ECE) as a penalty."""

import math
from typing import Annotated, Any, Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from sklearn_calib._numerics.dirichlet_kernel import BANDWIDTHS
from sklearn_calib.losses._base.checks import (
    IgnoredIndex,
    NonNegative,
    Norm,
    Reduction,
    check_batch,
    check_positive,
    check_weight,
    in_full_precision,
    is_choice,
    reduce_loss,
)
from sklearn_calib.losses._base.composed import (
    Base,
    _ComposedLoss,
    build_base,
    uncertainty_and_error,
)
from sklearn_calib.losses._base.decorators import loss_function, parameters_of
from sklearn_calib.losses._base.stable_gradients import true_class_log_odds

NORMS = get_args(Norm)

Mode = Literal["canonical", "classwise", "top_label"]


def _check_bandwidth(name: str, value: Any) -> None:
    if not is_choice(value, ("auto",)):
        hint = "Use a small value, such as 0.01, to compare only close predictions."
        check_positive(name, value, also=", or 'auto'", hint=hint)


Bandwidth = Annotated[float | Literal["auto"], _check_bandwidth]


@loss_function
def kde_ece_loss(
    logits: Tensor,
    target: Tensor,
    *,
    lambd: NonNegative = 0.5,
    mode: Mode = "canonical",
    norm: Norm = "l1",
    bandwidth: Bandwidth = 0.1,
    base: Base = "cross_entropy",
    ignore_index: IgnoredIndex = -100,
    reduction: Reduction = "mean",
    sample_weight: Tensor | None = None,
    **base_params: Any,
) -> Tensor:
    r"""Kernel estimate of the calibration error (KDE-ECE) added to a base loss.

    The loss is ``base + lambd * penalty``. The penalty is the calibration error of the
    batch, the mean over the samples of ``sum_k |r_k - p_k|`` [1]_. Here p is the
    prediction for a sample, and r is the mean one-hot label of the other samples,
    weighted by a Dirichlet kernel. The kernel is large for predictions close to p. With
    cross-entropy as the base, the loss is known as KDE-XE.

    Parameters
    ----------
    logits : Tensor of shape (N, C, ...)
        Unnormalised log probabilities.
    target : Tensor of shape (N, ...)
        Class indices.
    lambd : float, default=0.5
        Weight of the calibration error, at least 0. With 0, the loss is that of `base`.
    mode : {"canonical", "classwise", "top_label"}, default="canonical"
        Notion of calibration: of the whole probability vector; of the probability of
        each class separately, with the errors summed; or of the probability of the
        predicted class.
    norm : {"l1", "l2"}, default="l1"
        Whether to sum absolute values or squares, without a square root.
    bandwidth : float or "auto", default=0.1
        Bandwidth of the kernels, above 0. A kernel at the probability p has a width of
        about ``sqrt(p * (1 - p) * bandwidth)``. "auto" selects the one of seven values
        from 0.001 to 1 that maximises the leave-one-out likelihood of the predictions
        in the batch. This bandwidth is treated as a constant in the gradient.
    base : str or CalibrationLoss, default="cross_entropy"
        Per-sample loss: a name accepted by :func:`get_loss`, or an instance, whose
        `reduction` and `ignore_index` are ignored.
    ignore_index : int, default=-100
        Class index of samples that are left out, as in PyTorch's `cross_entropy`.
    reduction : {"mean", "sum", "none"}, default="mean"
        Whether to return the mean over the batch, the sum, or the loss of each sample,
        which also depends on the predictions of the other samples.
    sample_weight : Tensor of shape (N, ...), default=None
        Non-negative sample weights. A sample of weight m counts as m identical samples,
        each of which is compared with the m - 1 others. The scale of the weights
        therefore matters.
    **base_params : dict
        Parameters of `base`, as in ``base="focal", base__gamma=1.0``.

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
    KDEECELoss : Module version of this function.

    Notes
    -----
    Kernels are computed in log space, without clipping probabilities. The loss and its
    gradient are therefore finite for predictions of any confidence. The error of a
    batch of one sample is 0. If classes are tied, the first one is predicted, as by
    argmax.

    Time and memory are O(N^2), or O(C N^2) with ``mode="classwise"``. Use large
    batches: for a few samples the leave-one-out estimate is far from 0 even if the
    network is perfectly calibrated, in particular with many classes.

    References
    ----------
    .. [1] T. Popordanoska, R. Sayer and M. B. Blaschko, "A Consistent and
       Differentiable Lp Canonical Calibration Error Estimator", NeurIPS 2022, equation
       9.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import kde_ece_loss
    >>> logits = torch.tensor([[2.0, 0.0], [0.0, 2.0], [2.0, 0.0], [0.0, 2.0]])
    >>> kde_ece_loss(logits, torch.tensor([0, 1, 0, 1]), lambd=0.0)
    tensor(0.1269)
    >>> kde_ece_loss(logits, torch.tensor([0, 1, 0, 1]), lambd=1.0)
    tensor(0.3653)
    """
    base = build_base(base, base_params, kde_ece_loss)
    logits, target = check_batch(logits, target)
    values = base(logits, target)
    weight = sample_weight
    if weight is not None:
        weight = check_weight(weight, values)
    power = NORMS.index(norm) + 1
    with in_full_precision(logits):
        error = calibration_errors(logits, target, mode, power, bandwidth, weight)
    return reduce_loss(values + float(lambd) * error, reduction, sample_weight)


class KDEECELoss(_ComposedLoss):
    """Module version of :func:`kde_ece_loss`. See there for details.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import KDEECELoss
    >>> loss = KDEECELoss(lambd=0.3, base="focal", base__gamma=1.0)
    >>> loss(torch.zeros(2, 2), torch.tensor([0, 1]))
    tensor(0.6466)
    """

    formula = (
        r"mean of $\sum_k \lvert E[y_k \mid p] - p_k \rvert$, $E$ by a Dirichlet kernel"
    )

    @parameters_of(kde_ece_loss)
    def __init__(self) -> None:
        self.needs_values = self.bandwidth == "auto"


def calibration_errors(
    logits: Tensor,
    target: Tensor,
    mode: Mode,
    power: int,
    bandwidth: Bandwidth,
    weight: Tensor | None,
) -> Tensor:
    """Return the calibration error of each sample.

    It is the distance between the prediction of the sample and the kernel-weighted mean
    label of the other samples.
    """
    log_proba, label = MODES[mode](logits, target)
    # The sums over the samples of the -inf or smallest float of a masked class would
    # not be finite.
    log_proba = log_proba.clamp_min(-(torch.finfo(log_proba.dtype).max ** 0.5))
    # The weight of each sample (column) in the estimate for each other (row). A sample
    # is left out of its own estimate: one of its repetitions is subtracted.
    itself = torch.eye(len(logits), dtype=logits.dtype, device=logits.device)
    neighbours = ((1 if weight is None else weight) - itself).clamp_min(0)
    if bandwidth == "auto":
        bandwidth = _find_bandwidth(log_proba.detach(), neighbours, weight)
    weights = _log_densities(log_proba, float(bandwidth), neighbours).softmax(-1)
    gap = weights @ label - log_proba.exp()[..., : label.shape[2]]
    error = gap.abs().pow(power).sum((0, 2))
    return error * (neighbours.sum(1) > 0)


def _canonical(logits: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Return all log probabilities and labels as one problem."""
    label = F.one_hot(target, logits.shape[1]).to(logits.dtype)
    return logits.log_softmax(1)[None], label[None]


def _classwise(logits: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Return C one-vs-rest problems.

    The calibration gaps of both classes of such a problem are equal in size, so the
    label has a single column.
    """
    log_proba, top = logits.log_softmax(1), logits.argmax(1, keepdim=True)
    # 1 - p is exact in floating point unless p is near 1, as only the largest p may be.
    log_rest = torch.log1p(-log_proba.exp().scatter(1, top, 0.0))
    log_rest = log_rest.scatter(1, top, _log_odds(logits, top)[1])
    label = F.one_hot(target, logits.shape[1]).to(logits.dtype)
    return torch.stack([log_proba, log_rest], 2).transpose(0, 1), label.T.unsqueeze(2)


def _top_label(logits: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Return the binary problem of whether the prediction is correct."""
    log_proba = torch.cat(_log_odds(logits, logits.argmax(1, keepdim=True)), 1)
    _, wrong = uncertainty_and_error(logits, target)
    return log_proba[None], (1 - wrong)[None, :, None]


def _log_odds(logits: Tensor, top: Tensor) -> tuple[Tensor, Tensor]:
    """Return log p and log(1 - p) of one class per sample, of shape (N, 1) each."""
    log_odds = true_class_log_odds(logits, top.squeeze(1)).unsqueeze(1)
    return F.logsigmoid(log_odds), F.logsigmoid(-log_odds)


# These map logits and target to log probabilities and labels of B problems, of shape
# (B, N, classes).
MODES = {"canonical": _canonical, "classwise": _classwise, "top_label": _top_label}


def _log_densities(log_proba: Tensor, bandwidth: float, neighbours: Tensor) -> Tensor:
    """Return the log density at each sample (row) of the kernel of each (column)."""
    alpha = log_proba.exp() / bandwidth
    # alpha sums to 1 / bandwidth, so log_bandwidth can be subtracted from log_proba and
    # added to the total. Otherwise the gradients of the terms would be 1 / bandwidth
    # times as large as that of their sum.
    log_bandwidth = math.log(bandwidth)
    total = math.lgamma(1 / bandwidth + alpha.shape[-1]) + log_bandwidth / bandwidth
    log_norm = total - torch.lgamma(alpha + 1).sum(-1, keepdim=True)
    # One matrix product for all terms, since operations on (B, N, N) dominate the time.
    point = F.pad(log_proba - log_bandwidth, (0, 1), value=1.0)
    kernel = torch.cat([alpha, log_norm], -1)
    # The lowest number replaces log(0), because the softmax of a row of -inf is NaN.
    log_neighbours = neighbours.log().clamp_min(torch.finfo(neighbours.dtype).min)
    return torch.baddbmm(log_neighbours, point, kernel.mT)


def _find_bandwidth(
    log_proba: Tensor, neighbours: Tensor, weight: Tensor | None
) -> float:
    """Return the bandwidth that maximises the leave-one-out likelihood."""
    counts = neighbours.sum(1) > 0
    counts = counts if weight is None else counts * weight

    def likelihood(bandwidth: float) -> Tensor:
        density = _log_densities(log_proba, bandwidth, neighbours).logsumexp(-1)
        return (density * counts).sum()

    # One value is read from the device, not one for each bandwidth.
    best = torch.stack([likelihood(bandwidth) for bandwidth in BANDWIDTHS]).argmax()
    return BANDWIDTHS[int(best)]
