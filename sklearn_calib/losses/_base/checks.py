"""Input validation, reduction and types of options, shared by all losses."""

import math
from collections.abc import Callable, Collection
from numbers import Integral, Real
from typing import Annotated, Any, Literal, TypeVar, get_args

import numpy as np
import torch
from torch import Tensor

from sklearn_calib._validation.arrays import shown
from sklearn_calib._validation.declarations import did_you_mean
from sklearn_calib._validation.probabilities import rounding_tolerance

# Types of values that are hashable and can be compared with strings. The most frequent
# types are first, since a check of the others takes longer.
_SCALARS = (str, float, Real, np.bool_)

_T = TypeVar("_T")

Norm = Literal["l1", "l2"]
Reduction = Literal["mean", "none", "sum"]

REDUCTIONS = get_args(Reduction)


def is_choice(value: Any, choices: Collection[Any]) -> bool:
    """Return whether a value of any type is one of `choices`.

    The type is checked first, because lists are not hashable and comparing an array
    with a string does not give a bool.
    """
    return isinstance(value, _SCALARS) and value in choices


def check_choice(name: str, value: _T, choices: Collection[Any]) -> _T:
    """Return `value` if it is one of `choices`, else raise a ValueError."""
    if is_choice(value, choices):
        return value
    allowed = ", ".join(map(repr, choices))
    raise ValueError(
        f"{name} must be one of {allowed}, got "
        f"{shown(value)}.{did_you_mean(value, choices)}"
    )


def as_float(value: Any) -> float | None:
    """Return a number as a float, or None for anything else."""
    if type(value) is float:  # faster than the general check
        return value
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    return float(value) if is_number else None


def check_real(
    name: str, value: _T, is_valid: Callable[[float], bool], rule: str, hint: str
) -> _T:
    """Return `value` if it is a number that is valid by a rule.

    It is returned unchanged, because modules store their parameters unchanged. Convert
    it to a float before computing: tensors do not accept fractions.
    """
    number = as_float(value)
    if number is None:
        raise TypeError(
            f"{name} must be a number, {rule}, got {shown(value)} of type "
            f"{type(value).__name__}. Pass a float. {hint}"
        )
    if not is_valid(number):
        raise ValueError(f"{name} must be {rule}, got {shown(value)}. {hint}")
    return value


def check_nonnegative(
    name: str,
    value: _T,
    *,
    below: float = math.inf,
    most: float = math.inf,
    hint: str = "Pass 0 to disable it.",
) -> _T:
    """Return `value` if it is a number in [0, below) and [0, most]."""
    rule = "finite and >= 0" if math.isinf(below) else f"in [0, {below})"
    rule = rule if math.isinf(most) else f"in [0, {most:g}]"
    return check_real(name, value, lambda x: 0 <= x < below and x <= most, rule, hint)


def check_positive(name: str, value: _T, *, also: str = "", hint: str) -> _T:
    """Return `value` if it is a number > 0; `also` names other allowed values."""
    rule = f"finite and > 0{also}"
    return check_real(name, value, lambda x: 0 < x < math.inf, rule, hint)


def checking(check: Callable[..., Any], **options: Any) -> Callable[[str, Any], Any]:
    """Return a check with options; torch.compile does not trace `functools.partial`."""

    def checked(name: str, value: Any) -> Any:
        return check(name, value, **options)

    return checked


# Types of parameters. `loss_function` calls what stands beside a type in `Annotated`.
NonNegative = Annotated[float, check_nonnegative]
Proportion = Annotated[float, checking(check_nonnegative, most=1)]
BelowOne = Annotated[float, checking(check_nonnegative, below=1)]
Margin = Annotated[
    float,
    checking(
        check_nonnegative,
        hint="Use a small value, such as 0, to penalise all distances.",
    ),
]


def check_index(name: str, value: _T) -> _T:
    """Return `value` if it is an integer."""
    if isinstance(value, Integral) and not isinstance(value, bool):
        return value
    raise TypeError(
        f"{name} must be an integer, got {shown(value)} of type "
        f"{type(value).__name__}. Pass the class index of unlabelled samples, such as "
        "255."
    )


IgnoredIndex = Annotated[int, check_index]


def check_n_bins(name: str, value: int, *, usual: int = 15) -> int:
    """Return `value` if it is an integer >= 1."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(
            f"{name} must be an integer >= 1, got {shown(value)} of type "
            f"{type(value).__name__}. The paper uses {usual}."
        )
    if value < 1:
        raise ValueError(
            f"{name} must be >= 1, got {shown(value)}. The paper uses {usual}."
        )
    return value


def check_batch(
    logits: Tensor, target: Tensor, *, soft: bool = False
) -> tuple[Tensor, Tensor]:
    """Validate a batch and return its logits and target.

    The target is one class index per sample or, with ``soft=True``, possibly one row
    of class probabilities per sample. Logits in half precision are converted to single
    precision, because in half precision p_t rounds to 1 for log-odds of 9 or more.
    """
    check_tensors(logits, target)
    if logits.ndim != 2 or logits.shape[0] == 0 or logits.shape[1] < 2:
        raise ValueError(
            "logits must have shape (N, C, ...) with N >= 1 and C >= 2, got "
            f"{tuple(logits.shape)}. A binary problem needs two outputs, one per class."
        )
    if logits.dtype.itemsize < 4:
        logits = logits.float()
    if soft and target.ndim == 2:
        return logits, _check_soft_target(target, logits)
    return logits, _check_class_index(target, logits)


def is_traced() -> bool:
    """Return whether torch.compile or a transform of torch.func runs the code.

    If so, Python code must not depend on values. Transforms also require the method
    `setup_context` of each `torch.autograd.Function`, with which every call takes 60
    microseconds longer. The losses therefore have formulas without them.
    """
    return torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()


def can_check_values(tensor: Tensor) -> bool:
    """Return whether checks may read values without waiting for an accelerator.

    In a mode of torch's dispatcher, such as FakeTensorMode, there may be none.
    """
    # torch.compile cannot trace the number of modes, which is therefore asked last.
    is_usual = tensor.is_cpu and not is_traced()
    return is_usual and not torch._C._len_torch_dispatch_stack()


def in_full_precision(tensor: Tensor) -> torch.autocast:
    """Return a context that disables autocast, which would round products."""
    kind = "cpu" if tensor.is_meta else tensor.device.type
    return torch.autocast(kind, enabled=False)


def check_tensor(name: str, value: Any, *, rule: str = "a torch.Tensor") -> None:
    """Raise a TypeError unless `value` is a tensor."""
    if not isinstance(value, Tensor):
        raise TypeError(
            f"{name} must be {rule}, got {type(value).__name__}. "
            "Convert it with torch.as_tensor."
        )


def check_same_device(
    name: str, value: Any, like: Tensor, *, like_name: str = "logits"
) -> None:
    """Raise a ValueError unless `value` is on the same device as `like`."""
    if value.device != like.device:
        raise ValueError(
            f"{name} must be on the device of {like_name}, {like.device}, got "
            f"{value.device}. Call {name}.to({str(like.device)!r})."
        )


def check_tensors(logits: Tensor, target: Tensor) -> None:
    """Raise an error unless both are tensors and logits are floating point."""
    check_tensor("logits", logits)
    check_tensor("target", target)
    check_same_device("target", target, logits)
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
            f"logits, got {tuple(target.shape)}. Soft targets, which have the shape of "
            "logits, are accepted only by mdca_loss and by per-sample losses such as "
            "cross_entropy_loss. For one-hot labels call target.argmax(1)."
        )
    if not is_integer(target):
        raise TypeError(
            f"target must contain integers, got {target.dtype}. Call target.long()."
        )
    target = target.long()
    if not can_check_values(target):
        return target
    low, high = (end.item() for end in target.aminmax())
    if low < 0 or high >= n_classes:
        raise ValueError(
            f"target must lie in [0, {n_classes - 1}], got values in [{low}, {high}]. "
            "Encode the labels as 0, 1, ..., C - 1, give the module one output per "
            "class, or pass the index of unlabelled samples as ignore_index."
        )
    return target


def check_finite(name: str, values: Tensor, among: Tensor | bool = True) -> None:
    """Raise a ValueError if a value where `among` is True is NaN or infinite."""
    bad = values[~values.isfinite() & among]
    if len(bad):
        raise ValueError(
            f"{name} must be finite, got {bad[0].item()}. The training may have "
            "diverged: try a smaller learning rate."
        )


def check_overflow(name: str, given: Tensor, value: Tensor) -> Tensor:
    """Return the value; raise a ValueError if it is not finite but `given` is."""
    if not can_check_values(value):
        return value
    total = value.detach().sum() if value.ndim else value
    if math.isfinite(total.item()) or value.isfinite().all():
        return value
    if not given.isfinite().all():
        return value
    limit, largest = torch.finfo(value.dtype).max, given.detach().abs().max().item()
    raise ValueError(
        f"{name} must be so small that no square or sum exceeds {limit:.2g}, the "
        f"largest number of {value.dtype}, got values up to {largest:.3g}. The "
        "training may have diverged: try a smaller learning rate."
    )


def is_integer(tensor: Tensor) -> bool:
    """Return whether a tensor has an integer dtype."""
    # torch.compile does not support torch.can_cast.
    return not tensor.is_floating_point() and tensor.dtype != torch.bool


def _check_soft_target(target: Tensor, logits: Tensor) -> Tensor:
    """Return soft targets with the dtype of the logits."""
    if target.shape != logits.shape or not target.is_floating_point():
        call = "squeeze(1)" if target.shape[1] == 1 else "argmax(1)"
        raise ValueError(
            "A 2-d target must contain class probabilities and have the shape of "
            f"logits, {tuple(logits.shape)}, got shape {tuple(target.shape)} and dtype "
            f"{target.dtype}. For class indices call target.{call}."
        )
    if can_check_values(target):
        low = target.detach().min().item()
        # Sums in half precision would be rounded once more.
        precision = torch.promote_types(target.dtype, torch.float32)
        difference = (target.detach().sum(1, dtype=precision) - 1).abs().max().item()
        tolerance = rounding_tolerance(target.shape[1], torch.finfo(target.dtype).eps)
        if not (low >= 0 and difference <= tolerance):
            raise ValueError(
                "The rows of target must be probabilities that sum to one, got a "
                f"minimum of {low:.3g} and sums that differ from one by up to "
                f"{difference:.3g}. Pass softmax(scores) instead of scores."
            )
    return target.to(logits.dtype)


def reduce_loss(
    values: Tensor, reduction: Reduction, sample_weight: Tensor | None = None
) -> Tensor:
    """Return the mean or the sum of the sample losses, or the losses themselves.

    With weights w the mean is sum(w * l) / sum(w), the sum is sum(w * l), and "none"
    returns w * l. The mean of a batch whose weights are all zero is 0.
    """
    check_choice("reduction", reduction, REDUCTIONS)
    weight = sample_weight
    if weight is not None:
        weight = check_weight(weight, values)
    if reduction == "mean":
        if weight is None:
            return values.mean()
        return (weight * values).sum() / above_zero(weight.sum())
    values = values if weight is None else weight * values
    return values.sum() if reduction == "sum" else values


def above_zero(values: Tensor) -> Tensor:
    """Return values clipped to the smallest positive number, so that 0 / 0 is 0."""
    return values.clamp_min(torch.finfo(values.dtype).tiny)


def check_weight(sample_weight: Tensor, values: Tensor) -> Tensor:
    """Validate sample weights and return them with the dtype and device of `values`."""
    check_tensor("sample_weight", sample_weight, rule="a torch.Tensor or None")
    if sample_weight.shape != values.shape:
        raise ValueError(
            f"sample_weight must have shape {tuple(values.shape)}, got "
            f"{tuple(sample_weight.shape)}. Pass one weight per sample."
        )
    if can_check_values(sample_weight):
        low, high = (end.item() for end in sample_weight.detach().aminmax())
        if not (low >= 0 and high < math.inf):
            raise ValueError(
                "sample_weight must be non-negative and finite, got weights in "
                f"[{low:.3g}, {high:.3g}]. Use a weight of zero to ignore a sample."
            )
    return sample_weight.to(values)
