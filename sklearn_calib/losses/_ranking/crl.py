"""Correctness ranking loss (CRL)."""

import math
from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from sklearn_calib.losses._base.checks import (
    IgnoredIndex,
    NonNegative,
    Reduction,
    above_zero,
    can_check_values,
    check_batch,
    check_tensor,
    check_weight,
    reduce_loss,
)
from sklearn_calib.losses._base.composed import Base, _ComposedLoss, build_base
from sklearn_calib.losses._base.decorators import loss_function, parameters_of
from sklearn_calib.losses._base.logit_confidence import (
    LogitConfidence,
    compute_confidence,
)


@loss_function
def crl_loss(
    logits: Tensor,
    target: Tensor,
    *,
    history: Tensor | None = None,
    indices: Tensor | None = None,
    lambd: NonNegative = 1.0,
    confidence: LogitConfidence = "msp",
    base: Base = "cross_entropy",
    ignore_index: IgnoredIndex = -100,
    reduction: Reduction = "mean",
    sample_weight: Tensor | None = None,
    **base_params: Any,
) -> Tensor:
    r"""Correctness ranking loss (CRL) added to a base loss.

    The loss of a sample is ``base + lambd * ranking``. Each sample i is compared with
    the next sample j of the batch, and the last with the first. Let k be the proportion
    of correct predictions for a sample during training so far, and s its confidence.
    The ranking loss is ``max(0, t * ((k_i - k_j) - (s_i - s_j)))`` with t the sign of
    ``k_i - k_j`` [1]_. It is 0 if the sample that was predicted correctly more often is
    more confident by at least the difference in k.

    Parameters
    ----------
    logits : Tensor of shape (N, C, ...)
        Unnormalised log probabilities.
    target : Tensor of shape (N, ...)
        Class indices.
    history : Tensor of shape (n_samples, 2), default=None
        Numbers of correct predictions and of all predictions for each training sample.
        For a sample without predictions, k is 0.
    indices : Tensor of shape (N, ...), default=None
        Positions of the samples of the batch in the history. With None, for example for
        validation data, the loss is that of `base`.
    lambd : float, default=1.0
        Weight of the ranking loss, at least 0. With 0, the loss is that of `base`.
    confidence : str or callable, default="msp"
        Confidence score, as in :func:`regularized_aurc_loss`. The authors use "msp",
        "margin" and "negative_entropy", which is divided here by the logarithm of the
        number of classes.
    base : str or CalibrationLoss, default="cross_entropy"
        Per-sample loss: a name accepted by :func:`get_loss`, or an instance, whose
        `reduction` and `ignore_index` are ignored.
    ignore_index : int, default=-100
        Class index of samples that are left out, as in PyTorch's `cross_entropy`,
        together with their comparisons.
    reduction : {"mean", "sum", "none"}, default="mean"
        Whether to return the mean over the batch, the sum, or the loss of each sample,
        which includes its comparison with the next sample.
    sample_weight : Tensor of shape (N, ...), default=None
        Non-negative sample weights. The weight of a comparison is the product of both
        weights, divided by the mean weight.
    **base_params : dict
        Parameters of `base`, as in ``base="focal", base__gamma=1.0``.

    Returns
    -------
    loss : Tensor
        A scalar, or of shape (N, ...) with ``reduction="none"``.

    Raises
    ------
    ValueError
        If a parameter is out of range, an index is not in the history or the shapes do
        not match.
    TypeError
        If a parameter or a tensor has the wrong type, or a keyword is unknown.

    See Also
    --------
    CRLLoss : Module version of this function, which keeps the history.

    Notes
    -----
    As in the authors' code, k is scaled to ``(k - min) / (1 - min)`` with the minimum
    over all training samples. If all predictions were correct, this is 0 / 0 in the
    authors' code and 0 here.

    The compared pairs depend on the order of the samples in a batch, so shuffle the
    training data. A sample of weight m is equivalent to m samples only on average over
    all orders.

    References
    ----------
    .. [1] J. Moon, J. Kim, Y. Shin and S. Hwang, "Confidence-Aware Learning for Deep
       Neural Networks", ICML 2020.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import crl_loss
    >>> logits, target = torch.zeros(2, 2), torch.tensor([0, 1])
    >>> history = torch.tensor([[9, 10], [0, 10], [5, 10]])
    >>> crl_loss(logits, target, history=history, indices=torch.tensor([0, 2]))
    tensor(1.0931)
    """
    base = build_base(base, base_params, crl_loss)
    logits, target = check_batch(logits, target)
    if history is not None:
        _check_history(history)
    values = base(logits, target)
    weight = sample_weight
    if weight is not None:
        weight = check_weight(weight, values)
    if indices is not None:
        _check_indices(indices, target, history)
        # _check_indices raises for None, which type checkers cannot infer.
        known = history.to(values)  # type: ignore[union-attr]
        correctness = _correctness(known)[indices]
        ranking = float(lambd) * _ranking_values(logits, correctness, confidence)
        if weight is not None:  # of the next sample
            ranking = ranking * (weight.roll(-1) / above_zero(weight.mean()))
        values = values + ranking
    return reduce_loss(values, reduction, sample_weight)


def _correctness(history: Tensor) -> Tensor:
    """Return the proportion of correct predictions per sample, with minimum 0."""
    proportion = history[:, 0] / history[:, 1].clamp_min(1)
    lowest = proportion.min()
    return torch.where(lowest < 1, (proportion - lowest) / (1 - lowest), 0.0)


def _ranking_values(
    logits: Tensor, correctness: Tensor, confidence: LogitConfidence
) -> Tensor:
    """Return the ranking loss of each sample and the next one."""
    score = compute_confidence(confidence, logits)
    if confidence == "negative_entropy":
        score = score / math.log(logits.shape[1])
    difference = correctness - correctness.roll(-1)
    return F.relu(difference.sign() * (difference - (score - score.roll(-1))))


def _check_history(history: Tensor) -> None:
    """Raise an error unless the history is a tensor of shape (n_samples, 2)."""
    check_tensor("history", history, rule="a torch.Tensor or None")
    if history.ndim != 2 or history.shape[1] != 2:
        raise ValueError(
            "history must have shape (n_samples, 2), the numbers of correct and of all "
            f"predictions, got {tuple(history.shape)}. Use the attribute history of "
            "CRLLoss."
        )


def _check_indices(indices: Tensor, target: Tensor, history: Tensor | None) -> None:
    """Raise an error unless the indices are rows of the history, one per sample."""
    if not isinstance(indices, Tensor) or indices.dtype != torch.int64:
        raise TypeError(
            "indices must be a torch.Tensor of int64, got "
            f"{getattr(indices, 'dtype', type(indices).__name__)}. Pass the positions "
            "of the samples in the training data."
        )
    if indices.shape != target.shape:
        raise ValueError(
            f"indices must have shape {tuple(target.shape)}, got "
            f"{tuple(indices.shape)}. Pass one position per sample."
        )
    size = 0 if history is None else len(history)
    if size and not can_check_values(indices):
        return
    low, high = indices.min().item(), indices.max().item()
    if low < 0 or high >= size:
        raise ValueError(
            f"indices must be positions in the history of {size} samples, got values "
            f"in [{low}, {high}]. Call start_history with the number of training "
            "samples."
        )


class CRLLoss(_ComposedLoss):
    """Module version of :func:`crl_loss`. See there for details.

    It keeps the history of correct predictions. Call :meth:`start_history` once. Then,
    for each batch, call the loss with `indices`, followed by :meth:`record`.

    Attributes
    ----------
    history : Tensor of shape (n_samples, 2)
        Numbers of correct predictions and of all predictions for each training sample,
        a buffer, which is part of ``state_dict``. Loading a state resizes it.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.losses import CRLLoss
    >>> loss = CRLLoss()
    >>> loss.start_history(3)
    >>> batch = torch.tensor([[1.0, 0.0], [1.0, 0.0]]), torch.tensor([0, 1])
    >>> loss.record(*batch, indices=torch.tensor([2, 0]))
    >>> loss.history
    tensor([[0, 1],
            [0, 0],
            [1, 1]])
    >>> loss(*batch, indices=torch.tensor([2, 0]))
    tensor(1.8133)
    """

    formula = (
        r"$\max(0, s (k_i - k_j - r_i + r_j))$, $s = \mathrm{sign}(k_i - k_j)$, $k$ "
        "the proportion of correct predictions so far"
    )
    needs_indices = True

    history: Tensor

    @parameters_of(crl_loss)
    def __init__(self) -> None:
        self.register_buffer("history", torch.zeros(0, 2, dtype=torch.int64))

    def start_history(self, n_samples: int) -> None:
        """Start an empty history; see :meth:`CalibrationLoss.start_history`."""
        self.history = self.history.new_zeros(n_samples, 2)

    def record(self, logits: Tensor, target: Tensor, *, indices: Tensor) -> None:
        """Count correct predictions of a batch; see :meth:`CalibrationLoss.record`."""
        _check_indices(indices, target, self.history)
        is_known = target != self.ignore_index
        correct = (logits.detach().argmax(1) == target) & is_known
        counts = torch.stack([correct.flatten(), is_known.flatten()], 1)
        self.history.index_add_(0, indices.flatten(), counts.to(self.history))

    def _load_from_state_dict(
        self, state_dict: Mapping[str, Any], prefix: str, *args: Any
    ) -> None:
        """Resize the history before loading it."""
        if f"{prefix}history" in state_dict:
            self.start_history(len(state_dict[f"{prefix}history"]))
        super()._load_from_state_dict(state_dict, prefix, *args)

    def forward(
        self,
        logits: Tensor,
        target: Tensor,
        sample_weight: Tensor | None = None,
        *,
        indices: Tensor | None = None,
    ) -> Tensor:
        """Return the loss of a batch; see :func:`crl_loss`."""
        return crl_loss(
            logits,
            target,
            indices=indices,
            sample_weight=sample_weight,
            **self._arguments(),
        )
