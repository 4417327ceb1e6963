"""Decorators of loss functions, and of the constructors of their modules.

The parameters of a loss stand in the signature of the function only: `loss_function`
checks them when the function is called, and `parameters_of` gives them to the
constructor. `averages_over_labels` makes a loss of class indices accept soft targets.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import reduce, wraps
from operator import or_
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Concatenate,
    Literal,
    ParamSpec,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

import torch
from torch import Tensor

from sklearn_calib._validation.arrays import shown
from sklearn_calib._validation.declarations import did_you_mean
from sklearn_calib.losses._base.checks import (
    Reduction,
    can_check_values,
    check_batch,
    check_choice,
    check_tensors,
    check_weight,
    checking,
    is_traced,
    reduce_loss,
)

Check = Callable[[str, Any], Any]

_Loss = TypeVar("_Loss", bound=Callable[..., Tensor])
_P = ParamSpec("_P")


def loss_function(loss: _Loss) -> _Loss:
    """Make a loss check its parameters before anything else.

    A parameter of type ``Annotated[..., check]`` is checked by ``check(name, value)``,
    and one of a type `Literal` or `bool` must be one of the values of the type. None is
    accepted if the type says so. If the loss has the parameter `ignore_index`, it only
    receives logits of shape (N, C), in which ignored samples have a weight of zero.
    """
    signature = inspect.signature(loss)
    checks = {
        name: check
        for name, each in signature.parameters.items()
        if (check := find_check(each.annotation)) is not None
    }

    call = _of_any_batch(loss) if "ignore_index" in signature.parameters else loss

    @wraps(loss)
    def wrapper(*args: Any, **params: Any) -> Tensor:
        run_checks(checks, params)
        return call(*args, **params)

    # Readers of the signature see plain types, such as `float | None`. Type checkers do
    # not know that a function may have other attributes.
    hints = {
        name: reduce(or_, get_args(hint)) if get_origin(hint) is Union else hint
        for name, hint in get_type_hints(loss).items()
    }
    parameters = [
        each.replace(annotation=hints[name])
        for name, each in signature.parameters.items()
    ]
    wrapper.__annotations__ = hints
    wrapper.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    wrapper.checks = checks  # type: ignore[attr-defined]
    return cast("_Loss", wrapper)


def _of_any_batch(loss: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Make a loss of class indices ignore an index and accept further dimensions."""

    @wraps(loss)
    def call(
        logits: Tensor,
        target: Tensor,
        *,
        ignore_index: int = -100,
        sample_weight: Tensor | None = None,
        **params: Any,
    ) -> Tensor:
        params["sample_weight"] = sample_weight
        check_tensors(logits, target)
        if logits.ndim > 2:
            return _call_with_rows(
                call, logits, target, ignore_index=ignore_index, **params
            )
        if target.ndim == 2 and target.is_floating_point() and ignore_index >= 0:
            raise ValueError(
                "ignore_index must be negative for soft targets, got "
                f"{ignore_index}. Use a sample_weight of zero to ignore a sample."
            )
        if logits.ndim != 2 or target.shape != logits.shape[:1] or not target.numel():
            return loss(logits, target, **params)  # of soft targets, or an error
        # The smallest index takes less time to compute than weights of one.
        if can_check_values(target) and target.long().min().item() > ignore_index:
            return loss(logits, target, **params)
        keep = target.long() != ignore_index
        weight = keep.to(torch.promote_types(logits.dtype, torch.float32))
        if sample_weight is not None:
            weight = weight * check_weight(sample_weight, weight)
        params["sample_weight"] = weight
        # A weight of zero would not suffice for ignored logits that are not finite.
        logits = torch.where(keep.unsqueeze(1), logits, 0)
        # `where` would turn booleans, which are not class indices, into integers.
        value = loss(logits, target.masked_fill(~keep, 0), **params)
        if params.get("reduction", "mean") != "mean":
            return value
        return torch.where(keep.any(), value, torch.nan)  # as cross_entropy of torch

    return call


def _call_with_rows(
    call: Callable[..., Tensor], logits: Tensor, target: Tensor, **params: Any
) -> Tensor:
    """Return the loss of logits of shape (N, C, d1, ...), one row for each target."""
    of_samples = logits.select(1, 0)
    shape = of_samples.shape
    if target.shape not in (shape, logits.shape):
        raise ValueError(
            f"target must have shape {tuple(shape)} for logits of shape "
            f"{tuple(logits.shape)}, got {tuple(target.shape)}. The classes are the "
            "second dimension of logits."
        )
    if params["sample_weight"] is not None:
        check_weight(params["sample_weight"], of_samples)
    for name in ("indices", "sample_weight"):
        value = params.get(name)
        if isinstance(value, Tensor) and value.shape == shape:
            params[name] = value.flatten()
    logits, target = (
        each.flatten() if each.shape == shape else each.movedim(1, -1).flatten(0, -2)
        for each in (logits, target)
    )
    value = call(logits, target, **params)
    return value.unflatten(0, shape) if value.ndim else value


def find_check(hint: Any) -> Check | None:
    """Return the check that a type contains, or None."""
    if get_origin(hint) in (Union, UnionType):
        others = [part for part in get_args(hint) if part is not NoneType]
        check = find_check(others[0]) if len(others) == 1 else None
        return check and checking(_check_unless_none, inner=check)
    if get_origin(hint) is Annotated:
        return hint.__metadata__[0]
    if get_origin(hint) is Literal:
        return checking(check_choice, choices=get_args(hint))
    return checking(check_choice, choices=(True, False)) if hint is bool else None


def run_checks(checks: Mapping[str, Check], params: dict[str, Any]) -> None:
    """Check the parameters that were given."""
    for name, value in params.items():
        if name in checks:
            checks[name](name, value)


def _check_unless_none(name: str, value: Any, inner: Check) -> None:
    if value is not None:
        inner(name, value)


def parameters_of(
    loss: Callable[Concatenate[Tensor, Tensor, _P], Tensor],
) -> Callable[[Callable[[Any], None]], Callable[Concatenate[Any, _P], None]]:
    """Give a constructor the parameters of a loss function that are not tensors.

    It checks and stores them, and then runs its body, which may start a state.
    """
    parameters = [
        p
        for p in inspect.signature(loss).parameters.values()
        if p.kind in (p.KEYWORD_ONLY, p.VAR_KEYWORD)
        and Tensor not in (p.annotation, *get_args(p.annotation))
    ]
    defaults = {p.name: p.default for p in parameters if p.default is not p.empty}
    is_open = any(p.kind is p.VAR_KEYWORD for p in parameters)
    checks: Mapping[str, Check] = getattr(loss, "checks", {})

    def decorate(start: Callable[[Any], None]) -> Callable[..., None]:
        @wraps(start)
        def __init__(self: Any, *args: Any, **params: Any) -> None:
            if args:
                name = type(self).__name__
                raise TypeError(
                    f"{name} must be called with keywords, got {shown(args[0])}. "
                    f"Write {name}({next(iter(defaults))}=...)."
                )
            others = {n: value for n, value in params.items() if n not in defaults}
            if not is_open:
                check_keywords(type(self), others, list(defaults))
            run_checks(checks, params)
            self._store({n: params.get(n, defaults[n]) for n in defaults}, others)
            start(self)

        # As in `loss_function`, attributes that type checkers do not know.
        itself = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        signature = inspect.Signature([itself, *parameters], return_annotation=None)
        __init__.__signature__ = signature  # type: ignore[attr-defined]
        __init__.function = loss  # type: ignore[attr-defined]
        return __init__

    return decorate


def check_keywords(cls: type, unknown: Iterable[str], names: list[str]) -> None:
    """Raise a TypeError for a keyword that is not a parameter of a class."""
    for name in unknown:
        raise TypeError(
            f"{cls.__name__} got an unexpected keyword argument {name!r}."
            f"{did_you_mean(name, names)} Valid parameters are: {sorted(names)}."
        )


def averages_over_labels(loss: _Loss) -> _Loss:
    """Make a loss accept soft targets, by averaging it over the labels.

    The loss is computed only for labels of positive probability. With Mixup a sample
    has at most two of them.
    """

    @wraps(loss)
    def wrapper(logits: Tensor, target: Tensor, *args: Any, **params: Any) -> Tensor:
        if getattr(target, "ndim", 1) != 2:
            return loss(logits, target, *args, **params)
        return _mean_over_labels(loss, logits, target, *args, **params)

    return cast("_Loss", wrapper)


def _mean_over_labels(
    loss: Callable[..., Tensor],
    logits: Tensor,
    target: Tensor,
    *,
    reduction: Reduction = "mean",
    sample_weight: Tensor | None = None,
    **params: Any,
) -> Tensor:
    """Return the mean loss over the labels of each sample, reduced over the samples."""
    logits, target = check_batch(logits, target, soft=True)
    rows, labels = _label_pairs(target)
    losses = loss(logits[rows], labels, reduction="none", **params)
    values = losses.new_zeros(len(logits))
    values = values.index_add(0, rows, target[rows, labels] * losses)
    return reduce_loss(values, reduction, sample_weight)


def _label_pairs(target: Tensor) -> tuple[Tensor, ...]:
    """Return the samples and labels of positive probability, or all if traced."""
    if not (is_traced() or target.is_meta):
        return target.nonzero(as_tuple=True)
    samples, labels = (torch.arange(n, device=target.device) for n in target.shape)
    return samples.repeat_interleave(len(labels)), labels.repeat(len(samples))
