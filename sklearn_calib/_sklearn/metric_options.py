"""The convention of all functions that take a metric: other options go to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from inspect import Parameter, signature
from typing import Any, SupportsFloat

import numpy as np
from numpy.typing import ArrayLike

from sklearn_calib._sklearn.scorer_objects import (
    Scorer,
    call_scorer,
    metric_of,
    metric_order,
)
from sklearn_calib._validation.arrays import shown
from sklearn_calib._validation.declarations import did_you_mean, interval_kind
from sklearn_calib._validation.labels import as_labels, encode_labels, is_multilabel
from sklearn_calib._validation.probabilities import check_proba_shape
from sklearn_calib._validation.samples import choose_positive
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


def is_metric(function: Any) -> bool:
    """Whether a callable is a metric, not a scorer `(estimator, X, y)`."""
    if isinstance(function, Scorer):
        return False
    names = [
        name
        for name, one in signature(function).parameters.items()
        if one.kind in POSITIONAL and name not in PASSED
    ]
    return names[:1] == ["y_true"] or len(names) == 2


def accepts(metric: Metric, name: str) -> bool:
    """Whether a metric, and a metric that it passes its options to, has a parameter."""
    function, args, _ = _parts(metric)
    if function is call_scorer:
        scorer, _ = args
        return name == "labels" or accepts(metric_of(scorer)[0] or scorer, name)
    parameters = signature(metric).parameters.values()
    if name in (one.name for one in parameters):
        return True
    if args and interval_kind(function)[0].takes_metric:
        return accepts(args[0], name)
    return Parameter.VAR_KEYWORD in (one.kind for one in parameters)


def metric_input(
    metric: Metric,
    y_true: ArrayLike,
    y_proba: Any,
    labels: ArrayLike | None,
    sample_weight: Any,
) -> tuple[Any, Options]:
    """Return the probabilities and keyword arguments with which to call a metric.

    Labels and columns are sorted for metrics that are not those of this package, and in
    the order of a metric's own labels for a partial that fixes them.
    """
    given = {}
    if sample_weight is not None:
        _check_takes_weights(metric)
        given["sample_weight"] = sample_weight
    labels = known_labels(metric, y_true, y_proba, labels)
    if labels is None:
        return y_proba, given
    takes_labels = accepts(metric, "labels")
    if takes_labels:
        given["labels"] = labels
    classes = as_labels(labels, "labels")
    own = fixed_by_partial(metric, "labels", None)
    order = metric_order(_parts(metric)[0], own, classes)
    if is_multilabel(y_true) or np.array_equal(order, np.arange(len(classes))):
        return y_proba, given
    proba = check_proba_shape(y_proba, allow_1d=True)
    pos_label = fixed_by_partial(metric, "pos_label", None)
    of_pos_label = proba.ndim == 1 and pos_label is not None
    if not takes_labels and not of_pos_label:
        raise ValueError(
            "labels must be sorted for a metric without the parameter labels, got "
            f"{shown(classes.tolist())} with {name_of(metric)!r}. Add the parameter, "
            "or sort the labels and the columns of the probabilities."
        )
    encode_labels(y_true, labels=labels, n_classes=(*proba.shape, 2)[1])
    if takes_labels:
        given["labels"] = classes[order]
    if of_pos_label:
        return proba, given
    return 1 - proba if proba.ndim == 1 else proba[:, order], given


def known_labels(
    metric: Metric, y_true: ArrayLike, y_proba: Any, labels: ArrayLike | None
) -> ArrayLike | None:
    """Return the labels; warn if a metric reads a 1-d array of an unknown class."""
    has_own = fixed_by_partial(metric, "labels", None) is not None
    if has_own or not accepts(metric, "labels"):
        return labels
    pos_label = fixed_by_partial(metric, "pos_label", None)
    return choose_positive(y_true, y_proba, labels, pos_label)


def _check_takes_weights(metric: Metric) -> None:
    """Raise TypeError if samples have weights and the metric does not take them."""
    if not accepts(metric, "sample_weight"):
        raise TypeError(
            "metric must have the parameter sample_weight for samples with weights, "
            f"got {name_of(metric)!r}. Add the parameter and weight the samples by it."
        )


def as_number(value: Any) -> float:
    """Return the value of a metric; raise TypeError unless it is a number."""
    if isinstance(value, float):  # much faster than the check of the protocol
        return float(value)
    if not isinstance(value, SupportsFloat) or getattr(value, "ndim", 0) != 0:
        raise TypeError(
            f"metric must return a number, got {type(value).__name__}. Use "
            "functools.partial to set options with which it does, or a function that "
            "returns one of its values, such as lambda y, p: metric(y, p)[0]."
        )
    return float(value)


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


def fixed_by_partial(metric: Metric, name: str, value: Any) -> Any:
    """Return the value, or if it is None, the option that a partial fixes.

    It may be that of a metric to which another one passes its options.
    """
    return interval_kind(metric)[1].get(name) if value is None else value


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
