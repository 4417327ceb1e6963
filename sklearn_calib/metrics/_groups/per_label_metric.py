"""Binary metrics for multilabel problems."""

from __future__ import annotations

from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sklearn_calib._sklearn.metric_options import check_options
from sklearn_calib._validation.arrays import as_numbers
from sklearn_calib._validation.declarations import (
    StrOptions,
    declare_interval,
    validate_params,
)
from sklearn_calib._validation.labels import check_indicator, check_label_columns
from sklearn_calib._validation.probabilities import warn_of_predicted_labels
from sklearn_calib._validation.samples import check_columns
from sklearn_calib._validation.types import Array, Metric


@declare_interval(takes_metric=True)
@validate_params(
    {
        "y_true": ["array-like"],
        "y_proba": ["array-like"],
        "average": [StrOptions({"macro"}), None],
    },
    # The metric checks the other options.
    prefer_skip_nested_validation=False,
)
def per_label(
    metric: Metric,
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    average: str | None = "macro",
    **options: Any,
) -> float | Array:
    """Compute a metric for each label of a multilabel problem.

    Each label is a binary problem: a sample has the label or not.

    Parameters
    ----------
    metric : callable
        Metric with the signature `metric(y_true, y_proba, **options)` that takes the
        probabilities of the positive class and returns a number, such as
        :func:`expected_calibration_error` or :func:`sklearn.metrics.roc_auc_score`.

    y_true : array-like of shape (n_samples, n_labels)
        True labels as an indicator matrix: 1 if the sample has the label, otherwise 0.

    y_proba : array-like of shape (n_samples, n_labels)
        Predicted probability of each label. Rows need not sum to one.

    average : {"macro"} or None, default="macro"
        Whether to return the mean over the labels, or with None the value of each
        label.

    **options : dict
        Options passed to the metric, such as `n_bins` and `sample_weight`. For an
        option with the name of a parameter above, pass a `functools.partial` as
        `metric`.

    Returns
    -------
    value : float or ndarray of shape (n_labels,)
        Mean over the labels, or with `average=None` the value of each label.

    Raises
    ------
    ValueError
        If `y_true` and `y_proba` do not have the same shape with one column for each
        label, or `y_true` contains values other than 0 and 1.

    See Also
    --------
    sklearn_calib.calibrators.PerLabelCalibrator : Calibrate each label separately.
    sklearn_calib.losses.per_label_loss : Loss for multilabel problems.

    Notes
    -----
    Calibration errors compare the probability of a label with its frequency, as with
    `mode="positive"`. With `mode="top_label"`, the error of a rare label that is never
    predicted would be small.

    If the metric has the parameter `labels`, it is called with `labels=[0, 1]`, so that
    labels without positive samples are evaluated too.

    To use it as a scorer: `make_scorer(functools.partial(per_label,
    expected_calibration_error), response_method="predict_proba",
    greater_is_better=False)`.

    Examples
    --------
    >>> from sklearn_calib.metrics import expected_calibration_error, per_label
    >>> y_true = [[1, 0], [1, 1], [0, 0], [1, 1]]
    >>> y_proba = [[0.75, 0.9], [0.75, 0.9], [0.75, 0.1], [0.75, 0.9]]
    >>> per_label(expected_calibration_error, y_true, y_proba, average=None).round(3)
    array([0. , 0.2])
    >>> round(per_label(expected_calibration_error, y_true, y_proba), 3)
    0.1
    """
    check_options(metric, options, per_label)
    # The columns are split here; the metric reads each of them.
    check_columns(y_proba, y_true, None)
    y_proba = as_numbers(y_proba, "y_proba")
    check_label_columns(y_proba, name="y_proba")
    y_true = check_indicator(y_true, y_proba.shape)
    if warn_of_predicted_labels(y_proba.ravel(), "y_proba", "predict_proba(X)"):
        y_proba = y_proba.astype(np.float64)
    if "labels" in signature(metric).parameters:
        options = {"labels": [0, 1], **options}
    pairs = zip(y_true.T, y_proba.T, strict=True)
    values = np.array([metric(y, proba, **options) for y, proba in pairs])
    return values if average is None else float(values.mean(axis=0))
