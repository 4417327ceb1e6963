"""Which interval a metric needs, declared at the metric."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from sklearn_calib._core.typing import Function, Metric


@dataclass(frozen=True)
class IntervalKind:
    """How the interval of a metric is found."""

    # Whether the metric is 0 for calibrated predictions, but its estimate is above.
    is_error: bool = False
    # The options of `ece_interval` that measure the metric, None if it has no bins.
    bins: dict | None = None
    # The power of the error in which noise adds up: 2 for means of gaps, 1 for what is
    # made of squared gaps.
    power: int = 2
    # The options with which the metric returns the square of the error.
    squared: dict = field(default_factory=dict)
    # Whether the error is the largest cumulated gap, without bins.
    is_cumulated: bool = False
    # Whether the arguments are two samples of scores, not labels and probabilities.
    takes_two_samples: bool = False
    # Whether the first argument is the metric that is measured.
    takes_metric: bool = False


_KINDS: dict[Callable, IntervalKind] = {}
_RESAMPLED = IntervalKind()


def declare_interval(**kind: Any) -> Callable[[Function], Function]:
    """Return a decorator that declares the `IntervalKind` of a metric.

    A metric without it is resampled, as a function of the user's is.
    """

    def declare(metric: Function) -> Function:
        _KINDS[metric] = IntervalKind(**kind)
        return metric

    return declare


def interval_kind(metric: Metric) -> tuple[IntervalKind, dict[str, Any]]:
    """Return how the interval of a metric is found, and the options that are fixed.

    A `functools.partial` is of the kind of the metric inside, and so is one of
    `per_label`, whose errors are put together from those of single labels.
    """
    function, given = getattr(metric, "func", metric), getattr(metric, "keywords", {})
    kind = _KINDS.get(function, _RESAMPLED)
    if kind.takes_metric and isinstance(metric, partial) and metric.args:
        kind, given = interval_kind(metric.args[0])
        return replace(kind, bins=None, is_cumulated=False), given
    if given.get("strategy") == "isotonic":
        # Labels move these bins.
        kind = replace(kind, bins=None)
    return kind, given
