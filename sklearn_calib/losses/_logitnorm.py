"""LogitNorm: cross-entropy of logits of a fixed length."""

import torch
from torch import Tensor

from sklearn_calib.losses._base import (
    check_batch,
    check_positive,
)
from sklearn_calib.losses._calibration_loss import CalibrationLoss
from sklearn_calib.losses._cross_entropy import cross_entropy_loss
from sklearn_calib.losses._typing import Reduction

# Added to the length, as the authors do: protects 0 / 0 for logits that are all zero.
TINY = 1e-7


def logitnorm_loss(
    logits: Tensor,
    target: Tensor,
    *,
    temperature: float = 0.04,
    reduction: Reduction = "mean",
    sample_weight: Tensor | None = None,
) -> Tensor:
    r"""Cross-entropy of logits scaled to one length, LogitNorm. Small is good.

    It is the surprise at the true class under ``softmax(z / (temperature * |z|))``
    with the Euclidean length ``|z|`` [1]_. A network cannot lower it by making its
    logits longer, which cross-entropy rewards without end and which is what makes
    networks overconfident. It is above 0 always.

    Parameters
    ----------
    logits : Tensor of shape (N, C)
        The outputs of the network, z. Unlike for other losses their mean matters: a
        constant added to all of them makes them longer.
    target : Tensor of shape (N,) or (N, C)
        Class indices, or one row of probabilities per sample.
    temperature : float, default=0.04
        One over the length that the logits are scaled to, above 0. The default is what
        [1]_ uses for CIFAR-10; the authors' code has 1.
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
        If the temperature is not above 0, or the shapes do not match.
    TypeError
        If the temperature is no number, or the logits are no floating point tensor.

    See Also
    --------
    LogitNormLoss : The same as a module.

    Notes
    -----
    A trained network predicts with its logits as they are, of any length, since the
    length is what tells known inputs from unknown ones. Nothing in the loss makes the
    length that of a calibrated network: follow it with temperature scaling.

    The gradient is finite everywhere, and huge, up to ``1e7 / temperature``, where all
    logits are zero. A last layer should not start at zero.

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
    temperature = float(_check_temperature(temperature))
    logits, target = check_batch(logits, target, soft=True)
    length = torch.linalg.vector_norm(logits, dim=1, keepdim=True)
    return cross_entropy_loss(
        logits / ((length + TINY) * temperature),
        target,
        reduction=reduction,
        sample_weight=sample_weight,
    )


def _check_temperature(temperature: float) -> float:
    """Return the temperature if it is a number above 0."""
    hint = "A small one, such as 0.04, is usual."
    return check_positive("temperature", temperature, hint=hint)


class LogitNormLoss(CalibrationLoss, function=logitnorm_loss):
    """The module of :func:`logitnorm_loss`, which has the details.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import LogitNormLoss
    >>> LogitNormLoss(temperature=1.0)(torch.tensor([[3.0, 4.0]]), torch.tensor([1]))
    tensor(0.5981)
    """

    formula = "-log softmax(z / (temperature norm(z)))_t"
    takes_probabilities = True

    def __init__(
        self, *, temperature: float = 0.04, reduction: Reduction = "mean"
    ) -> None:
        super().__init__(reduction=reduction)
        self.temperature = _check_temperature(temperature)
