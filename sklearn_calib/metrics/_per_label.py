"""Any metric of two classes for samples that have several labels at once."""

from inspect import signature

import numpy as np

from sklearn_calib._core.arrays import as_numbers
from sklearn_calib._core.indicator import check_indicator, check_label_columns
from sklearn_calib._core.interval_kind import declare_interval
from sklearn_calib._core.validation import StrOptions, validate_params


@declare_interval(takes_metric=True)
@validate_params(
    {
        "metric": [callable],
        "y_true": ["array-like"],
        "y_proba": ["array-like"],
        "average": [StrOptions({"macro"}), None],
    },
    # What else is given is for the metric to check.
    prefer_skip_nested_validation=False,
)
def per_label(metric, y_true, y_proba, *, average="macro", **options):
    """Measure every label by itself, where a sample may have several at once.

    Each label is a problem of two classes: the samples that have it, and those that
    have not. Which end is good is up to the metric.

    Parameters
    ----------
    metric : callable
        Metric with the signature `metric(y_true, y_proba, **options)`, which returns a
        number and takes the probabilities of the positive class, such as
        :func:`expected_calibration_error` or :func:`sklearn.metrics.roc_auc_score`.

    y_true : array-like of shape (n_samples, n_labels)
        1 where the sample has the label, 0 where it has not.

    y_proba : array-like of shape (n_samples, n_labels)
        Predicted probability of each label. Rows need not sum to one.

    average : {"macro"} or None, default="macro"
        Return the mean over the labels, or with None the value of each.

    **options : dict
        Passed to the metric, such as `n_bins` and `sample_weight`.

    Returns
    -------
    value : float or ndarray of shape (n_labels,)
        Mean over the labels, or with `average=None` one value for each.

    Raises
    ------
    ValueError
        If `y_true` and `y_proba` are not of one shape with a column for each label, or
        `y_true` holds anything but zeros and ones.

    See Also
    --------
    sklearn_calib.calibrators.PerLabelCalibrator : Repairs every label by itself.
    sklearn_calib.losses.per_label_loss : Trains a network for several labels.

    Notes
    -----
    A calibration error then compares the probability of a label with its frequency
    (`mode="positive"`). One of the predicted class would be small for any rare label
    that is never predicted. A metric that takes `labels` gets `labels=[0, 1]`: a label
    that no sample has is measured too.

    As a scorer: `make_scorer(functools.partial(per_label, expected_calibration_error),
    response_method="predict_proba", greater_is_better=False)`.

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
    y_proba = as_numbers(y_proba, "y_proba")
    check_label_columns(y_proba, name="y_proba")
    y_true = check_indicator(y_true, y_proba.shape)
    if "labels" in signature(metric).parameters:
        options = {"labels": [0, 1], **options}
    pairs = zip(y_true.T, y_proba.T, strict=True)
    values = np.array([metric(y, proba, **options) for y, proba in pairs])
    return values if average is None else float(values.mean(axis=0))
