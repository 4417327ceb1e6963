"""Intervals for calibration errors: without their bias, and down to zero."""

from functools import partial

import numpy as np

from sklearn_calib._core.validation import encode_labels
from sklearn_calib.metrics._calibration_error import (
    expected_calibration_error,
    maximum_calibration_error,
)
from sklearn_calib.metrics._classwise_error import classwise_calibration_error
from sklearn_calib.metrics._decomposition import proper_calibration_error
from sklearn_calib.metrics._kde_calibration_error import kde_calibration_error
from sklearn_calib.metrics._kernel_calibration import kernel_calibration_error
from sklearn_calib.metrics._ks_calibration_error import ks_calibration_error
from sklearn_calib.metrics._per_label import per_label
from sklearn_calib.metrics._post_processing_gap import post_processing_gap
from sklearn_calib.metrics._smooth_calibration_error import smooth_calibration_error
from sklearn_calib.metrics._smooth_ece import smooth_expected_calibration_error
from sklearn_calib.metrics._uncertainty import ece_interval

# What ece_interval is told to measure.
BINNED_ERRORS = {
    classwise_calibration_error: {"mode": "classwise"},
    expected_calibration_error: {},
    maximum_calibration_error: {"norm": "max"},
}
# Others, and the power of them in which noise adds up: gaps by their squares, what is
# made of squared gaps as it is, but for isotonic steps, of which fewer samples have
# fewer.
OTHER_ERRORS = {
    kde_calibration_error: 2,
    kernel_calibration_error: 2,
    ks_calibration_error: 2,
    post_processing_gap: 1,
    proper_calibration_error: 2,
    smooth_calibration_error: 2,
    smooth_expected_calibration_error: 2,
}


def unwrap(metric):
    """Return the function inside of partials and `per_label`, and its options."""
    function, positional = getattr(metric, "func", metric), getattr(metric, "args", ())
    if function is per_label and positional:
        return unwrap(positional[0])
    return function, getattr(metric, "keywords", {})


def is_calibration_error(metric):
    """Whether a metric is 0 for calibrated predictions, but its estimate is not."""
    function, _ = unwrap(metric)
    return function in BINNED_ERRORS or function in OTHER_ERRORS


def is_binned(metric):
    """Whether `binned_interval` takes the metric, whose bins labels do not move."""
    function, options = getattr(metric, "func", metric), unwrap(metric)[1]
    return function in BINNED_ERRORS and options.get("strategy") != "isotonic"


def binned_interval(metric, y_true, y_proba, value, **options):
    """Return `ece_interval` for an error with bins, which holds its value too."""
    function, given = unwrap(metric)
    given = {**BINNED_ERRORS[function], **given}
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
    function, options = unwrap(metric)
    is_square = function is kde_calibration_error and options.get("norm") == "l2"
    is_square |= options.get("squared", False)
    power = 1 if is_square else OTHER_ERRORS.get(function, 2)
    high = np.quantile(halves, 1 - tail)
    low = max(0, 2 * value**power - high**power) ** (1 / power)
    if value <= np.quantile(null, 1 - tail):
        low = 0.0
    return float(min(low, value)), float(max(high, value))


def label_sampler(sample):
    """Return a function of a generator, which draws labels from the probabilities."""
    y_true, proba, labels = sample.y_true, sample.y_proba, sample.options.get("labels")
    if y_true.ndim == 2:
        return partial(_draw_indicators, proba)
    n_classes = 2 if proba.ndim == 1 else proba.shape[1]
    encode_labels(y_true, labels=labels, n_classes=n_classes)
    return class_sampler(np.unique(y_true) if labels is None else labels, proba)


def class_sampler(classes, proba):
    """Return a function of a generator, which draws one of the classes for each row."""
    classes = np.asarray(classes)
    cumulated = (1 - proba)[:, None] if proba.ndim == 1 else proba.cumsum(axis=1)
    if proba.ndim == 2:
        cumulated = cumulated[:, :-1] / cumulated[:, -1:]
    return partial(_draw_labels, classes, cumulated)


def _draw_indicators(proba, rng):
    """Draw each of several labels by itself."""
    return (rng.random(proba.shape) < proba).astype(int)


def _draw_labels(classes, cumulated, rng):
    """Draw one of the classes for each row of cumulated probabilities."""
    uniform = rng.random((len(cumulated), 1))
    return classes[(uniform >= cumulated).sum(axis=1)]
