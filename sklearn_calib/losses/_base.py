"""What every loss shares: checks of a batch and of parameters, and the reduction."""

import math
from collections.abc import Collection
from numbers import Integral, Real
from typing import Any, TypeVar, get_args

import numpy as np
import torch
from torch import Tensor

from sklearn_calib._core.validation import ROW_SUM_TOLERANCE, did_you_mean
from sklearn_calib.losses._typing import Reduction

REDUCTIONS = get_args(Reduction)

_T = TypeVar("_T")

# The bounds of the largest weight where weights are proportions, and where they count
# repetitions: more of them change nothing in double precision.
PROPORTIONS = (1e-6, 1e6)
REPETITIONS = (0.0, 1e18)

# The memory of a batch grows with the bins, and there are not so many samples.
MOST_BINS = 10**6


def is_choice(value: Any, choices: Collection) -> bool:
    """Tell whether a value, which may be anything, is one of names, switches, numbers.

    Lists cannot be looked up in dicts, nor arrays be compared with names.
    """
    return isinstance(value, str | Real | np.bool_) and value in choices


def check_choice(name: str, value: _T, choices: Collection) -> _T:
    """Return `value` if it is one of the names or switches `choices`."""
    if is_choice(value, choices):
        return value
    allowed = ", ".join(map(repr, choices))
    raise ValueError(
        f"{name} must be one of {allowed}, got {value!r}.{did_you_mean(value, choices)}"
    )


def as_float(value: Any) -> float | None:
    """Return a number as a float, an integer above all of them as infinity, or None."""
    if not isinstance(value, Real) or isinstance(value, bool):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf


def check_nonnegative(
    name: str,
    value: _T,
    *,
    below: float = math.inf,
    most: float = math.inf,
    hint: str = "0 switches it off.",
) -> _T:
    """Return `value` if it is a number in [0, below), or in [0, most].

    It is returned as it came, for modules to keep. Before it is computed with it must
    be made a float: tensors know neither fractions nor all integers.
    """
    number = as_float(value)
    if number is not None and 0 <= number < below and number <= most:
        return value
    rule = "finite and >= 0" if math.isinf(below) else f"in [0, {below})"
    rule = rule if math.isinf(most) else f"in [0, {most}]"
    if number is not None:
        raise ValueError(f"{name} must be {rule}, got {value!r}. {hint}")
    raise TypeError(
        f"{name} must be a number, {rule}, got {value!r} of type "
        f"{type(value).__name__}. Pass a float. {hint}"
    )


def check_positive(name: str, value: _T, *, also: str = "", hint: str) -> _T:
    """Return `value` if it is a number above 0; `also` names what else is allowed."""
    rule = f"finite and > 0{also}"
    number = as_float(value)
    if number is None:
        raise TypeError(
            f"{name} must be a number, {rule}, got {value!r} of type "
            f"{type(value).__name__}. Pass a float, such as 0.05."
        )
    if not 0 < number < math.inf:
        raise ValueError(f"{name} must be {rule}, got {value!r}. {hint}")
    return value


def check_n_bins(n_bins: int, *, usual: int = 15) -> int:
    """Return the number of bins if it is an integer of at least 1."""
    if isinstance(n_bins, bool) or not isinstance(n_bins, Integral):
        raise TypeError(
            f"n_bins must be an integer >= 1, got {n_bins!r} of type "
            f"{type(n_bins).__name__}. The paper has {usual}."
        )
    if n_bins < 1:
        raise ValueError(f"n_bins must be >= 1, got {n_bins!r}. The paper has {usual}.")
    if n_bins > MOST_BINS:
        raise ValueError(
            f"n_bins must be at most {MOST_BINS}, got {n_bins!r}: most bins would be "
            f"empty, and take their memory. The paper has {usual}."
        )
    return n_bins


def check_batch(
    logits: Tensor, target: Tensor, *, soft: bool = False
) -> tuple[Tensor, Tensor]:
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


def is_traced() -> bool:
    """Tell whether torch.compile or a transform of torch.func runs the code.

    Then no Python code can depend on values, and a transform asks more of a
    `torch.autograd.Function` than its gradient, which would make each call slower.
    """
    return torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()


def can_check_values(tensor: Tensor) -> bool:
    """Tell whether a check may read the values: an accelerator would be waited for."""
    return tensor.device.type == "cpu" and not is_traced()


def check_not_meta(name: str, tensor: Tensor) -> None:
    """Refuse a tensor without values where they decide what is computed."""
    if tensor.is_meta:
        raise TypeError(
            f"{name} must have values, to be ranked or to choose a bandwidth by, got a "
            "meta tensor. Use another loss, or a fixed bandwidth."
        )


def in_full_precision(tensor: Tensor) -> torch.autocast:
    """Return a context without autocast, which rounds products."""
    kind = "cpu" if tensor.is_meta else tensor.device.type
    return torch.autocast(kind, enabled=False)


def check_tensor(name: str, value: Any, *, rule: str = "a torch.Tensor") -> None:
    """Refuse anything but a dense tensor."""
    if not isinstance(value, Tensor):
        raise TypeError(
            f"{name} must be {rule}, got {type(value).__name__}. "
            "Convert it with torch.as_tensor."
        )
    if value.layout != torch.strided:
        raise TypeError(
            f"{name} must be dense, got a tensor of layout {value.layout}. "
            "Call its method to_dense()."
        )


def check_device(
    name: str, value: Any, like: Tensor, *, like_name: str = "logits"
) -> None:
    """Refuse a tensor that is on another device than the one it is used with."""
    if value.device != like.device:
        raise ValueError(
            f"{name} must be on the device of {like_name}, {like.device}, got "
            f"{value.device}. Move it with its method to()."
        )


def check_can_move(name: str, value: Any, like: Tensor) -> None:
    """Refuse a tensor without values that is to be moved to one with values."""
    if value.is_meta and not like.is_meta:
        raise TypeError(
            f"{name} must hold values, as logits do, got a meta tensor. Make it on the "
            f"device of logits, {like.device}."
        )


def check_tensors(logits: Tensor, target: Tensor) -> None:
    """Refuse anything but dense tensors, and logits that are not floating point."""
    check_tensor("logits", logits)
    check_tensor("target", target)
    check_device("target", target, logits)
    if not logits.is_floating_point():
        raise TypeError(
            f"logits must be floating point, got {logits.dtype}. "
            "Pass the raw outputs of the module."
        )


def _check_class_index(target: Tensor, logits: Tensor) -> Tensor:
    """Return the target as int64 class indices."""
    n_samples, n_classes = logits.shape
    if target.shape != (n_samples,):
        raise ValueError(
            f"target must have shape ({n_samples},), one class index for each row of "
            f"logits, got {tuple(target.shape)}. Only losses of single samples, "
            "such as cross_entropy_loss, and mdca_loss take probabilities, of the "
            "shape of logits, as Mixup makes them."
        )
    if not is_integer(target):
        raise TypeError(
            f"target must hold integers, got {target.dtype}. Call target.long()."
        )
    target = target.long()
    if not can_check_values(target):
        return target
    # A gather checks the range for a third of what it costs to read it.
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


def check_finite(name: str, values: Tensor, among: Tensor | bool = True) -> None:
    """Refuse values, out of those `among` which to look, that are NaN or infinite."""
    bad = values[~values.isfinite() & among]
    if len(bad):
        raise ValueError(
            f"{name} must be finite, got {bad[0].item()}. See whether the training "
            "diverges: a smaller learning rate helps."
        )


def is_integer(tensor: Tensor) -> bool:
    """Tell whether a tensor holds integers."""
    # torch.can_cast would tell as well, but torch.compile does not know it.
    is_other = tensor.is_floating_point() or tensor.is_complex()
    return not is_other and tensor.dtype != torch.bool


def _check_soft_target(target: Tensor, logits: Tensor) -> Tensor:
    """Return the target as probabilities of the precision of the logits."""
    if target.shape != logits.shape or not target.is_floating_point():
        raise ValueError(
            "a target of two dimensions must hold probabilities in the shape of "
            f"logits, {tuple(logits.shape)}, got {tuple(target.shape)} of "
            f"{target.dtype}. For class indices call target.squeeze(1)."
        )
    if can_check_values(target):
        low = target.detach().min().item()
        gap = (target.detach().sum(1) - 1).abs().max().item()
        if not (low >= 0 and gap <= ROW_SUM_TOLERANCE):
            raise ValueError(
                "the rows of target must be probabilities that sum to one, got a "
                f"minimum of {low:.3g} and sums up to {gap:.3g} away from one. "
                "Pass softmax(scores), not scores."
            )
    return target.to(logits.dtype)


def reduce_loss(
    values: Tensor, reduction: Reduction, sample_weight: Tensor | None = None
) -> Tensor:
    """Return the mean, the sum or all of the samples' losses, weighted if asked.

    With weights w the mean is sum(w * l) / sum(w), the sum is sum(w * l) and "none" is
    w * l, so that the sum is that of "none". A batch of total weight zero has mean 0.
    """
    check_choice("reduction", reduction, REDUCTIONS)
    weight = sample_weight
    if weight is not None:
        within = PROPORTIONS if reduction == "mean" else None
        weight = check_weight(weight, values, within=within)
    if reduction == "mean":
        return _mean(values, weight)
    values = values if weight is None else weight * values
    return values.sum() if reduction == "sum" else values


def mean_by_row(values: Tensor) -> Tensor:
    """Return the mean of each row, also where its sum is too large to be a number."""
    mean = values.mean(1)
    if not can_check_values(mean) or math.isfinite(mean.detach().sum().item()):
        return mean
    return (values / values.shape[1]).sum(1)


def _mean(values: Tensor, weight: Tensor | None) -> Tensor:
    """Return the mean of the losses, weighted unless the weight is None."""
    if weight is None:
        mean = values.mean()
    else:
        mean = (weight * values).sum() / above_zero(weight.sum())
    if not can_check_values(mean) or math.isfinite(mean.item()):
        return mean
    # The sum may be infinite where the mean is not.
    weight = torch.ones_like(values) if weight is None else weight
    return (weight / above_zero(weight.sum()) * values).sum()


def above_zero(values: Tensor) -> Tensor:
    """Return values that can be divided by: 0 / 0 is 0."""
    return values.clamp_min(torch.finfo(values.dtype).tiny)


def check_weight(
    sample_weight: Tensor, values: Tensor, *, within: tuple[float, float] | None = None
) -> Tensor:
    """Return one weight per sample, of the losses' precision and device.

    All are scaled so that the largest lies `within` two bounds, as it usually does
    already: sums of large ones overflow, and single precision may not hold small ones.
    """
    check_tensor("sample_weight", sample_weight, rule="a torch.Tensor or None")
    if sample_weight.shape != values.shape:
        raise ValueError(
            f"sample_weight must have shape {tuple(values.shape)}, one weight per "
            f"sample, got {tuple(sample_weight.shape)}. Give one weight per sample."
        )
    if sample_weight.is_complex():
        raise TypeError(
            f"sample_weight must be real, got {sample_weight.dtype}. Pass floats."
        )
    check_can_move("sample_weight", sample_weight, values)
    if can_check_values(sample_weight):
        check_weight_values(sample_weight)
    if within is None:
        return sample_weight.to(values)
    # Half precision does not hold the bounds.
    precision = torch.promote_types(sample_weight.dtype, values.dtype)
    sample_weight = sample_weight.to(precision)
    largest = sample_weight.detach().amax()
    bounded = largest.clamp(*within)
    is_usual = (largest == bounded) | (largest == 0)
    scaled = sample_weight / above_zero(largest) * bounded
    return torch.where(is_usual, sample_weight, scaled).to(values)


def check_weight_values(sample_weight: Tensor) -> None:
    """Refuse weights that are negative, NaN or infinite."""
    low, high = (each.item() for each in sample_weight.detach().aminmax())
    if low < 0:
        raise ValueError(
            f"sample_weight must be non-negative, got {low}. Leave out samples by a "
            "weight of zero."
        )
    if not high < math.inf:
        raise ValueError(
            f"sample_weight must be finite, got {high}. Leave out samples by a weight "
            "of zero."
        )
