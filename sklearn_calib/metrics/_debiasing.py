"""Which interval a metric needs, declared at the metric, and that of an error."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from sklearn_calib.metrics._uncertainty import ece_interval


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
    # Whether the arguments are two samples of scores, not labels and probabilities.
    takes_two_samples: bool = False
    # Whether the first argument is the metric that is measured.
    takes_metric: bool = False


_KINDS: dict[Callable, IntervalKind] = {}
_RESAMPLED = IntervalKind()


def declare_interval(**kind):
    """Return a decorator that declares the `IntervalKind` of a metric.

    A metric without it is resampled, as a function of the user's is.
    """

    def declare(metric):
        _KINDS[metric] = IntervalKind(**kind)
        return metric

    return declare


def interval_kind(metric):
    """Return how the interval of a metric is found, and the options that are fixed.

    A `functools.partial` is of the kind of the metric inside, and so is one of
    `per_label`, whose errors are put together from those of single labels.
    """
    function, given = getattr(metric, "func", metric), getattr(metric, "keywords", {})
    kind = _KINDS.get(function, _RESAMPLED)
    if kind.takes_metric and isinstance(metric, partial) and metric.args:
        kind, given = interval_kind(metric.args[0])
        return replace(kind, bins=None), given
    if given.get("strategy") == "isotonic":
        # Labels move these bins.
        kind = replace(kind, bins=None)
    return kind, given


def binned_interval(metric, y_true, y_proba, value, **options):
    """Return `ece_interval` for an error with bins, which holds its value too."""
    kind, given = interval_kind(metric)
    given = {**kind.bins, **given}
    # What is estimated is the same, with less bias.
    given.pop("reduce_bias", None)
    average = given.pop("average", "mean")
    ends = np.array(ece_interval(y_true, y_proba, **{**given, **options}))
    if average == "sum":
        n_classes = max(2, np.size(y_proba) // len(y_proba))
        ends *= n_classes ** {"l1": 1, "l2": 0.5, "max": 0}[given.get("norm", "l1")]
    return float(min(ends[0], value)), float(max(ends[1], value))


def debiased_ends(metric, value, halves, null, tail):
    """Return an interval, given the errors of random halves and of calibrated labels.

    A half has twice the noise of the whole sample, as the whole sample has one more
    than the population: in the right power the bias of both steps is the same.
    """
    kind, given = interval_kind(metric)
    is_square = any(given.get(name) == value for name, value in kind.squared.items())
    power = 1 if is_square else kind.power
    high = np.quantile(halves, 1 - tail)
    low = max(0, 2 * value**power - high**power) ** (1 / power)
    if value <= np.quantile(null, 1 - tail):
        low = 0.0
    return float(min(low, value)), float(max(high, value))
