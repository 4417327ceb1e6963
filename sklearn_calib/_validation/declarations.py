"""Declarations of functions: types of their options, interval of their value."""

import inspect
import re
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import partial
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils._param_validation import (
    HasMethods as HasMethods,
    Interval as NumericInterval,
    Options as Options,
    StrOptions as StrOptions,
    validate_parameter_constraints as validate_parameter_constraints,
    validate_params as validate_sklearn_params,
)

from sklearn_calib._validation.types import Function, Metric

# The product of ranks and bins must fit in a 64-bit integer.
MOST_BINS = 2**31
# Each draw takes memory and time; beyond this many, the number is a slip.
MOST_DRAWS = 10_000_000

# Constraints of the parameters that metrics share, for `validate_params`.
TARGETS = {
    "y_true": ["array-like"],
    "y_proba": ["array-like"],
    "labels": ["array-like", None],
    "sample_weight": ["array-like", None],
}
PROGRESS = {
    "n_jobs": [Integral, None],
    "verbose": ["verbose"],
}
MODES = {"top_label", "positive", "classwise"}
MODE = {"mode": [StrOptions(MODES), None]}
# Of metrics of one probability per sample.
COLUMN = {**TARGETS, "mode": [StrOptions({"positive", "top_label"}), None]}


@dataclass(frozen=True)
class IntervalKind:
    """How the confidence interval of a metric is computed."""

    # Whether the metric is 0 for calibrated predictions, and its estimate biased
    # upward.
    is_error: bool = False
    # Values of options for which the metric is not 0 for calibrated predictions, so
    # that its interval is computed as for any function.
    unless: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    # Options of `ece_interval` that give the metric, or None if it has no bins.
    bins: dict[str, Any] | None = None
    # Power of the error to which noise adds: 2 for means of absolute gaps, 1 for
    # metrics that are already based on squared gaps.
    power: int = 2
    # Options with which the metric returns the squared error.
    squared: dict[str, Any] = field(default_factory=dict)
    # Whether the error is the largest cumulated gap, without bins.
    is_cumulated: bool = False
    # Whether the arguments are two samples of scores instead of labels and
    # probabilities.
    takes_two_samples: bool = False
    # Whether the first argument is the metric to compute.
    takes_metric: bool = False


_KINDS: dict[Callable[..., Any], IntervalKind] = {}
_RESAMPLED = IntervalKind()


def declare_interval(**kind: Any) -> Callable[[Function], Function]:
    """Return a decorator that declares the `IntervalKind` of a metric.

    The intervals of other metrics, such as user-defined functions, use resampling.
    """

    def declare(metric: Function) -> Function:
        _KINDS[metric] = IntervalKind(**kind)
        return metric

    return declare


def interval_kind(metric: Metric) -> tuple[IntervalKind, dict[str, Any]]:
    """Return the `IntervalKind` of a metric, and the options that are fixed.

    A `functools.partial` has the kind of the wrapped metric. A partial of `per_label`
    has the kind of the metric of each label, without bins.
    """
    function, given = getattr(metric, "func", metric), getattr(metric, "keywords", {})
    is_known = isinstance(function, Hashable) and function in _KINDS
    kind = _KINDS[function] if is_known else _RESAMPLED
    if kind.takes_metric and isinstance(metric, partial) and metric.args:
        kind, given = interval_kind(metric.args[0])
        kind = replace(kind, bins=None, is_cumulated=False)
        return kind, {**given, **metric.keywords}
    if any(given.get(name) in values for name, values in kind.unless.items()):
        return _RESAMPLED, given
    if given.get("strategy") == "isotonic":
        # Isotonic bins depend on the labels.
        kind = replace(kind, bins=None)
    return kind, given


class Interval(NumericInterval):
    """scikit-learn's `Interval`, without booleans as integers and extended precision.

    SciPy has no functions for extended precision.
    """

    def is_satisfied_by(self, val: Any) -> bool:
        is_other = isinstance(val, bool | np.longdouble)
        return not is_other and super().is_satisfied_by(val)


COUNT = [Interval(Integral, 1, None, closed="left")]
is_count = COUNT[0].is_satisfied_by
ABOVE_0 = [Interval(Real, 0, None, closed="neither")]
N_BINS = [Interval(Integral, 1, MOST_BINS, closed="both"), StrOptions({"cube_root"})]
BINS = {
    "n_bins": [*N_BINS, "array-like"],
    "strategy": [StrOptions({"uniform", "quantile"})],
}
BINS_OF_ERRORS = {
    **BINS,
    "strategy": [StrOptions({"isotonic", "quantile", "uniform"})],
}
BETWEEN_0_AND_1 = [Interval(Real, 0, 1, closed="neither")]
DRAWS = {
    "n_resamples": [Interval(Integral, 1, MOST_DRAWS, closed="both")],
    "random_state": ["random_state"],
}
CLUSTERS = {"clusters": ["array-like", None]}
INTERVAL = {**DRAWS, "confidence_level": BETWEEN_0_AND_1}
DIGITS = {"digits": [Interval(Integral, 0, 15, closed="both"), None]}


def validate_params(
    constraints: Options, *, prefer_skip_nested_validation: bool = True
) -> Callable[[Function], Function]:
    """Return scikit-learn's decorator, with types that keep those of the function.

    The signature is read once instead of at each call.
    """
    validate = validate_sklearn_params(
        constraints, prefer_skip_nested_validation=prefer_skip_nested_validation
    )

    def decorate(function: Function) -> Function:
        setattr(function, "__signature__", inspect.signature(function))  # noqa: B010 - for mypy
        return validate(function)

    return decorate


def did_you_mean(
    name: object, names: Iterable[Any], synonyms: dict[str, Any] | None = None
) -> str:
    """Return " Did you mean 'x'?" for the closest of `names`, or an empty string.

    `synonyms` maps other texts to names. What is only similar to them is none: many are
    short.
    """

    def letters(text: object) -> str:
        return re.sub("[-_ ]", "", str(text).lower())

    equal = {letters(other): known for other, known in (synonyms or {}).items()}
    if letters(name) in equal:
        return f" Did you mean {equal[letters(name)]!r}?"
    texts = {letters(known): known for known in names}
    close = get_close_matches(letters(name), texts, n=1)
    return f" Did you mean {texts[close[0]]!r}?" if close else ""
