"""Values of the samples whose mean is a metric of scikit-learn."""

from functools import partial
from inspect import isfunction

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import accuracy_score, brier_score_loss, log_loss

from sklearn_calib._sklearn.metric_options import without_partial
from sklearn_calib._sklearn.scorer_objects import call_scorer, metric_of
from sklearn_calib._validation.labels import encode_labels
from sklearn_calib._validation.samples import as_columns
from sklearn_calib._validation.types import Array, Floats, Ints, Metric


def values_of_samples(
    metric: Metric, y_true: Array, y_proba: Floats, labels: ArrayLike | None = None
) -> Array | None:
    """Return the value of each sample, if a metric of scikit-learn is their mean.

    The metric may be that of `metric_and_input`. For many draws of the samples, the
    mean of the values is faster than the metric, which checks its input each time. The
    metric may compute something else: the caller checks once that both are equal.
    """
    if isinstance(metric, partial) and metric.func is call_scorer:
        metric = metric_of(metric.args[0])[0]
    function, options = without_partial(metric, {})
    if not isfunction(function) or not options.keys() <= {"labels", "sample_weight"}:
        return None
    compute = MEANS.get(function)
    if compute is None:
        return None
    classes = np.unique(y_true) if labels is None else np.asarray(labels)
    order = np.argsort(classes)  # as in `call_scorer`
    proba = as_columns(y_proba)[:, order]
    try:
        codes = encode_labels(y_true, labels=classes[order], n_classes=proba.shape[1])
    except ValueError:  # it is the metric that checks its input
        return None
    values: Array = compute(codes, proba)
    return values


def is_equal(mean: float, metric: float) -> bool:
    """Return whether a mean of values is the metric, also in single precision."""
    return bool(np.isclose(mean, metric, rtol=1e-6, atol=0))


def _are_correct(codes: Ints, proba: Floats) -> Array:
    return codes == proba.argmax(axis=1)


def _log_losses(codes: Ints, proba: Floats) -> Floats:
    least = np.finfo(proba.dtype).eps
    p_true = proba[np.arange(len(codes)), codes]
    return -np.log(np.clip(p_true, least, 1 - least))


def _brier_scores(codes: Ints, proba: Floats) -> Floats:
    errors = proba - np.eye(proba.shape[1])[codes]
    # Two classes have the same error, which counts once.
    return (errors**2).sum(axis=1) / (2 if proba.shape[1] == 2 else 1)


MEANS = {
    accuracy_score: _are_correct,
    brier_score_loss: _brier_scores,
    log_loss: _log_losses,
}
