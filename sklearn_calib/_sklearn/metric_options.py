"""The convention of all functions that take a metric: other options go to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from inspect import Parameter, signature
from typing import Any

from sklearn_calib._sklearn.scorer_objects import Scorer
from sklearn_calib._validation.declarations import did_you_mean
from sklearn_calib._validation.types import Metric, Options

POSITIONAL = {Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD}
# What the functions pass themselves.
PASSED = {"confidence", "labels", "sample_weight"}


def with_options(
    metric: Metric, options: Options, function: Callable[..., Any]
) -> Metric:
    """Return the metric that `function` received, with its options, after a check."""
    check_options(metric, options, function)
    return partial(metric, **options) if options else metric


def check_options(metric: Any, options: Options, function: Callable[..., Any]) -> None:
    """Raise TypeError for something that is not a metric, or options that it lacks."""
    if not callable(metric) or isinstance(metric, Scorer):
        kind = "the scorer " if isinstance(metric, Scorer) else ""
        raise TypeError(
            "metric must be a function of labels and probabilities, such as "
            f"metrics.aurc_loss, got {kind}{metric!r:.80}. Pass one function, with its "
            f"options as {_as_partial(options)}."
        )
    inner, args, given = _parts(metric)
    given = {**given, **options}
    parameters = signature(inner).parameters.values()
    names = _names_of_options(parameters, len(args))
    for name in given:
        if names is not None and name not in names:
            near = did_you_mean(name, [*names, *signature(function).parameters])
            raise TypeError(
                f"options of {name_of(metric)} must be among {sorted(names)}, got "
                f"{name!r}.{near}"
            )
    _check_complete(metric, parameters, given)


def refuse_options(
    options: Options, function: Callable[..., Any], received: str
) -> None:
    """Raise TypeError for options if there is no single metric to pass them to.

    `received` describes in messages what `function` has received in its place.
    """
    for name, value in options.items():
        near = did_you_mean(name, signature(function).parameters)
        raise TypeError(
            f"{name} must not be passed with {received}, got {name}={value!r:.40}. "
            f"Pass an option of a metric as {_as_partial(options)}.{near}"
        )


def name_of(metric: Metric) -> str:
    """Return the name of a metric, for messages."""
    function = _parts(metric)[0]
    return getattr(function, "__name__", type(function).__name__)


def without_partial(metric: Metric, options: Options) -> tuple[Metric, Options]:
    """Return the function of a `functools.partial`, and all options."""
    function, args, given = _parts(metric)
    return (metric, options) if args else (function, {**given, **options})


def _parts(metric: Metric) -> tuple[Metric, tuple[Any, ...], Options]:
    """Return the function of a metric, and the arguments that a partial fixes."""
    if isinstance(metric, partial):
        return metric.func, metric.args, metric.keywords
    return metric, (), {}


def _check_complete(
    metric: Metric, parameters: Iterable[Parameter], given: Options
) -> None:
    """Raise TypeError if an option without a default is not given."""
    for one in parameters:
        is_required = one.kind is Parameter.KEYWORD_ONLY and one.default is one.empty
        if is_required and one.name not in {*given, *PASSED}:
            raise TypeError(
                f"{one.name} must be given: it is an option of {name_of(metric)} "
                "without a default. Pass it as a keyword argument, or set it by "
                "functools.partial."
            )


def _names_of_options(parameters: Iterable[Parameter], n_args: int) -> set[str] | None:
    """Return the names of the options of a metric, or None if it takes any."""
    kinds = [one.kind for one in parameters]
    if Parameter.VAR_KEYWORD in kinds:
        return None
    # Labels and probabilities, which are not options, follow what a partial fixes.
    positional = [one.name for one in parameters if one.kind in POSITIONAL]
    by_name = [one.name for one in parameters if one.kind is Parameter.KEYWORD_ONLY]
    return {*positional[n_args + 2 :], *by_name}


def _as_partial(options: Options) -> str:
    """Return the code of a partial with the first option, for messages."""
    name, value = next(iter(options.items()), ("threshold", 0.3))
    return f"functools.partial(metric, {name}={value!r:.40})"
