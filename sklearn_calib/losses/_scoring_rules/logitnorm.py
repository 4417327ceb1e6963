"""LogitNorm loss: cross-entropy of normalised logits."""

from typing import Annotated

import torch
from torch import Tensor

from sklearn_calib.losses._base.checks import (
    IgnoredIndex,
    Reduction,
    check_batch,
    check_positive,
    checking,
)
from sklearn_calib.losses._base.decorators import loss_function, parameters_of
from sklearn_calib.losses._base.loss import CalibrationLoss
from sklearn_calib.losses._scoring_rules.cross_entropy import cross_entropy_loss

# Added to the norm, as in the authors' code.
TINY = 1e-7

Temperature = Annotated[
    float,
    checking(
        check_positive,
        hint="Use a small value, such as 0.04.",
    ),
]


@loss_function
def logitnorm_loss(
    logits: Tensor,
    target: Tensor,
    *,
    temperature: Temperature = 0.04,
    ignore_index: IgnoredIndex = -100,
    reduction: Reduction = "mean",
    sample_weight: Tensor | None = None,
) -> Tensor:
    r"""LogitNorm loss: cross-entropy of logits scaled to a constant norm.

    It is the cross-entropy of ``softmax(z / (temperature * |z|))`` with the Euclidean
    norm ``|z|`` of the logits [1]_. Cross-entropy makes networks overconfident, because
    they can lower it by increasing the norm of the logits. LogitNorm does not depend on
    this norm. It is bounded below by a positive number.

    Parameters
    ----------
    logits : Tensor of shape (N, C, ...)
        Outputs of the network, z. Adding a constant to all logits of a sample changes
        their norm and therefore the loss, unlike for other losses.
    target : Tensor of shape (N, ...) or (N, C, ...)
        Class indices, or soft targets (class probabilities whose rows sum to one).
    temperature : float, default=0.04
        Inverse of the norm to which the logits are scaled, above 0. The default is the
        value for CIFAR-10 in [1]_; the default of the authors' code is 1.
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
        If `temperature` is not above 0, or the shapes do not match.
    TypeError
        If `temperature` is not a number, or `logits` is not a floating point tensor.

    See Also
    --------
    LogitNormLoss : Module version of this function.

    Notes
    -----
    Predictions are computed from the unnormalised logits, because their norm helps to
    separate in-distribution from out-of-distribution inputs. As training does not
    calibrate this norm, apply temperature scaling afterwards.

    The gradient is inversely proportional to the norm. Where all logits are zero, it is
    that of ``z / temperature``, so that a last layer of zeros can be trained. Masked
    logits, -inf or the smallest float, are not part of the norm.

    References
    ----------
    .. [1] H. Wei, R. Xie, H. Cheng, L. Feng, B. An and Y. Li, "Mitigating Neural
       Network Overconfidence with Logit Normalization", ICML 2022.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import logitnorm_loss
    >>> logits = torch.tensor([[2.0, 0.0, 0.0], [20.0, 0.0, 0.0]])
    >>> logitnorm_loss(logits, torch.tensor([0, 0]), temperature=1.0, reduction="none")
    tensor([0.5514, 0.5514])
    """
    given, (logits, _) = logits, check_batch(logits, target, soft=True)
    masked = given <= torch.finfo(given.dtype).min
    kept = logits.masked_fill(masked, 0)
    norm = torch.linalg.vector_norm(kept, dim=1, keepdim=True)
    # From zero logits, a step by a gradient of 1 / TINY would lead to a norm at which
    # no later step has an effect, because the gradient is proportional to 1 / norm.
    norm = torch.where(norm > 0, norm + TINY, 1.0)
    return cross_entropy_loss(
        torch.where(masked, logits, kept / (norm * float(temperature))),
        target,
        reduction=reduction,
        sample_weight=sample_weight,
    )


class LogitNormLoss(CalibrationLoss):
    """Module version of :func:`logitnorm_loss`. See there for details.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import LogitNormLoss
    >>> LogitNormLoss(temperature=1.0)(torch.tensor([[3.0, 4.0]]), torch.tensor([1]))
    tensor(0.5981)
    """

    formula = (
        r"$-\log \mathrm{softmax}(z / (T \lVert z \rVert))_t$, $T$ = `temperature`"
    )
    takes_probabilities = True

    @parameters_of(logitnorm_loss)
    def __init__(self) -> None: ...
