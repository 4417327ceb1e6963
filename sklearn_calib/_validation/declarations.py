"""Declaration of the kind of confidence interval that a metric needs."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from sklearn_calib._validation.types import Function, Metric


@dataclass(frozen=True)
class IntervalKind:
    """How the confidence interval of a metric is computed."""

    # Whether the metric is 0 for calibrated predictions, and its estimate biased
    # upward.
    is_error: bool = False
    # Options of `ece_interval` that give the metric, or None if it has no bins.
    bins: dict | None = None
    # Power of the error to which noise adds: 2 for means of absolute gaps, 1 for
    # metrics that are already based on squared gaps.
    power: int = 2
    # Options with which the metric returns the squared error.
    squared: dict = field(default_factory=dict)
    # Whether the error is the largest cumulated gap, without bins.
    is_cumulated: bool = False
    # Whether the arguments are two samples of scores instead of labels and
    # probabilities.
    takes_two_samples: bool = False
    # Whether the first argument is the metric to compute.
    takes_metric: bool = False


_KINDS: dict[Callable, IntervalKind] = {}
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
    kind = _KINDS.get(function, _RESAMPLED)
    if kind.takes_metric and isinstance(metric, partial) and metric.args:
        kind, given = interval_kind(metric.args[0])
        kind = replace(kind, bins=None, is_cumulated=False)
        return kind, {**given, **metric.keywords}
    if given.get("strategy") == "isotonic":
        # Isotonic bins depend on the labels.
        kind = replace(kind, bins=None)
    return kind, given
