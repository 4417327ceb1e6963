"""What every loss shares: the base class, the checks of a batch and the reduction."""

import inspect
import math
from functools import wraps
from numbers import Integral, Real

import torch
from torch import Tensor, nn

from sklearn_calib._core.validation import ROW_SUM_TOLERANCE, did_you_mean

REDUCTIONS = ("mean", "none", "sum")


class ReducedLoss(nn.Module):
    """A torch module with a reduction and scikit-learn's ``get_params``."""

    def __init__(self, *, reduction="mean"):
        super().__init__()
        self.reduction = check_choice("reduction", reduction, REDUCTIONS)

    def get_params(self, deep=True):  # noqa: ARG002 - the signature of scikit-learn
        """Return the arguments of the constructor and their values.

        Parameters
        ----------
        deep : bool, default=True
            No difference: there is no base whose parameters could be listed.

        Returns
        -------
        params : dict
            Values by name, in the order of the constructor.
        """
        parameters = inspect.signature(type(self)).parameters.values()
        names = [p.name for p in parameters if p.kind is not p.VAR_KEYWORD]
        return {name: getattr(self, name) for name in names}

    def __repr__(self):
        items = self.get_params(deep=False).items()
        parameters = ", ".join(f"{name}={value!r}" for name, value in items)
        return f"{type(self).__name__}({parameters})"


class CalibrationLoss(ReducedLoss):
    """Base class of all losses: a torch module with scikit-learn's ``get_params``.

    A subclass stores every argument of its constructor, unchanged, under the name of
    the argument, and its ``forward`` hands them to the function that it wraps. Then
    ``repr``, pickling and :func:`sklearn.base.clone` work with nothing else to write.

    Parameters
    ----------
    reduction : {"mean", "sum", "none"}, default="mean"
        How the losses of the samples become the loss of the batch: their (weighted)
        mean, their (weighted) sum, or no reduction.

    Examples
    --------
    >>> from sklearn.base import clone
    >>> from sklearn_calib.losses import FocalLoss
    >>> clone(FocalLoss(gamma=2.0)).get_params()
    {'gamma': 2.0, 'reduction': 'mean'}
    """

    # Whether the loss of a sample is the same in any batch.
    is_per_sample = True
    # Whether the target may be probabilities instead of class indices.
    takes_probabilities = False
    # Whether forward takes the positions of the samples in the training data.
    needs_indices = False
    # Whether the target has a 0 or a 1 for each logit, instead of one class.
    is_multilabel = False


def check_choice(name, value, choices):
    """Return `value` if it is one of the strings `choices`."""
    if value in choices:
        return value
    allowed = ", ".join(map(repr, choices))
    raise ValueError(
        f"{name} must be one of {allowed}, got {value!r}.{did_you_mean(value, choices)}"
    )


def check_nonnegative(
    name, value, *, below=math.inf, most=math.inf, hint="0 switches it off."
):
    """Return `value` if it is a number in [0, below), or in [0, most]."""
    number = isinstance(value, Real) and not isinstance(value, bool)
    if number and 0 <= value < below and value <= most:
        return value
    rule = "finite and >= 0" if math.isinf(below) else f"in [0, {below})"
    rule = rule if math.isinf(most) else f"in [0, {most}]"
    if number:
        raise ValueError(f"{name} must be {rule}, got {value!r}. {hint}")
    raise TypeError(
        f"{name} must be a number, {rule}, got {value!r} of type "
        f"{type(value).__name__}. Pass a float. {hint}"
    )


def check_n_bins(n_bins, *, usual=15):
    """Return the number of bins if it is an integer of at least 1."""
    if isinstance(n_bins, bool) or not isinstance(n_bins, Integral):
        raise TypeError(
            f"n_bins must be an integer >= 1, got {n_bins!r} of type "
            f"{type(n_bins).__name__}. The paper has {usual}."
        )
    if n_bins < 1:
        raise ValueError(f"n_bins must be >= 1, got {n_bins!r}. The paper has {usual}.")
    return n_bins


def check_batch(logits: Tensor, target: Tensor, *, soft=False):
    """Return logits of at least single precision and the target that goes with them.

    The target is one class index per sample or, where `soft` allows it, one row of
    probabilities. Half precision is widened: there a margin of 9 rounds p_t to 1.
    """
    check_tensors(logits, target)
    if logits.ndim != 2 or logits.shape[0] == 0 or logits.shape[1] < 2:
        raise ValueError(
            "logits must have shape (N, C) with N >= 1 and C >= 2, got "
            f"{tuple(logits.shape)}. Two classes take two outputs, one per class."
        )
    if logits.dtype.itemsize < 4:
        logits = logits.float()
    if soft and target.ndim == 2:
        return logits, _check_soft_target(target, logits)
    return logits, _check_class_index(target, logits)


def check_tensors(logits, target):
    """Refuse what is no tensor, and logits that are no floating point numbers."""
    for name, value in (("logits", logits), ("target", target)):
        if not isinstance(value, Tensor):
            raise TypeError(
                f"{name} must be a torch.Tensor, got {type(value).__name__}. "
                "Convert it with torch.as_tensor."
            )
    if not logits.is_floating_point():
        raise TypeError(
            f"logits must be floating point, got {logits.dtype}. "
            "Pass the raw outputs of the module."
        )


def _check_class_index(target, logits):
    """Return the target as int64 class indices."""
    n_samples, n_classes = logits.shape
    if target.shape != (n_samples,):
        raise ValueError(
            f"target must have shape ({n_samples},), one class index for each row of "
            f"logits, got {tuple(target.shape)}. Only losses of single samples, "
            "such as cross_entropy_loss, and mdca_loss take probabilities, of the "
            "shape of logits, as Mixup makes them."
        )
    if target.dtype == torch.bool or not torch.can_cast(target.dtype, torch.int64):
        raise TypeError(
            f"target must hold integers, got {target.dtype}. Call target.long()."
        )
    target = target.long()
    # A gather checks the range for a third of what it costs to read it, and on an
    # accelerator, where it cannot raise here, without waiting for the device.
    try:
        logits.detach().gather(1, target.unsqueeze(1))
    except RuntimeError as error:
        low, high = target.min().item(), target.max().item()
        if low >= 0 and high < n_classes:
            raise
        raise ValueError(
            f"target must lie in [0, {n_classes - 1}], got values in [{low}, {high}]. "
            "Encode the labels as 0, 1, ..., C - 1, or give the module one output per "
            "class."
        ) from error
    return target


def _check_soft_target(target, logits):
    """Return the target as probabilities of the precision of the logits."""
    if target.shape != logits.shape or not target.is_floating_point():
        raise ValueError(
            "a target of two dimensions must hold probabilities in the shape of "
            f"logits, {tuple(logits.shape)}, got {tuple(target.shape)} of "
            f"{target.dtype}. For class indices call target.squeeze(1)."
        )
    if target.device.type == "cpu":
        low = target.detach().min().item()
        gap = (target.detach().sum(1) - 1).abs().max().item()
        if not (low >= 0 and gap <= ROW_SUM_TOLERANCE):
            raise ValueError(
                "the rows of target must be probabilities that sum to one, got a "
                f"minimum of {low:.3g} and sums up to {gap:.3g} away from one. "
                "Pass softmax(scores), not scores."
            )
    return target.to(logits.dtype)


def averages_over_labels(loss):
    """Let the loss of a label take probabilities: it is then its mean over the labels.

    Only labels of positive probability cost time; a mixture of two samples has two.
    """

    @wraps(loss)
    def wrapper(logits, target, *args, **params):
        if getattr(target, "ndim", 1) != 2:
            return loss(logits, target, *args, **params)
        return _mean_over_labels(loss, logits, target, *args, **params)

    return wrapper


def _mean_over_labels(
    loss, logits, target, *, reduction="mean", sample_weight=None, **params
):
    """Return the mean over the labels of each sample, reduced over the samples."""
    logits, target = check_batch(logits, target, soft=True)
    rows, labels = target.nonzero(as_tuple=True)
    each = loss(logits[rows], labels, reduction="none", **params)
    values = each.new_zeros(len(logits))
    values = values.index_add(0, rows, target[rows, labels] * each)
    return reduce_loss(values, reduction, sample_weight)


def reduce_loss(values: Tensor, reduction, sample_weight: Tensor | None = None):
    """Return the mean, the sum or all of the samples' losses, weighted if asked.

    With weights w the mean is sum(w * l) / sum(w), the sum is sum(w * l) and "none" is
    w * l, so that the sum is that of "none". A batch of total weight zero has mean 0.
    """
    check_choice("reduction", reduction, REDUCTIONS)
    if sample_weight is None:
        return getattr(values, reduction)() if reduction != "none" else values
    weight = check_weight(sample_weight, values)
    values = weight * values
    if reduction == "none":
        return values
    total = values.sum()
    if reduction == "sum":
        return total
    # The clamp protects 0 / 0, when a batch holds samples of weight zero only.
    return total / weight.sum().clamp_min(torch.finfo(weight.dtype).tiny)


def check_weight(sample_weight, values):
    """Return one weight per sample, of the losses' precision and device."""
    if not isinstance(sample_weight, Tensor):
        raise TypeError(
            "sample_weight must be a torch.Tensor or None, got "
            f"{type(sample_weight).__name__}. Convert it with torch.as_tensor."
        )
    if sample_weight.shape != values.shape:
        raise ValueError(
            f"sample_weight must have shape {tuple(values.shape)}, one weight per "
            f"sample, got {tuple(sample_weight.shape)}. Give one weight per sample."
        )
    return sample_weight.to(values)
