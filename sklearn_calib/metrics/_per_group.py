"""Any metric for groups of samples, such as those of a sensitive feature."""

from functools import partial
from inspect import signature

from sklearn_calib._core.arrays import as_labels, as_numbers
from sklearn_calib._core.groups import group_members
from sklearn_calib._core.inputs import TARGETS
from sklearn_calib._core.validation import distinct_labels, validate_params
from sklearn_calib.metrics._resampling import fixed_by_partial


@validate_params(
    {**TARGETS, "metric": [callable], "groups": ["array-like"]},
    # What else is given is for the metric to check.
    prefer_skip_nested_validation=False,
)
def per_group(
    metric, y_true, y_proba, *, groups, labels=None, sample_weight=None, **options
):
    """Measure groups of samples by themselves, and all of them.

    A classifier that is calibrated for all may be overconfident for some and
    underconfident for others. Which end is good is up to the metric.

    Parameters
    ----------
    metric : callable
        Metric with the signature `metric(y_true, y_proba, **options)`, which returns a
        number, such as :func:`expected_calibration_error`.

    y_true : array-like of shape (n_samples,)
        True labels, of any kind.

    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities. A 1-d array holds those of the positive class.

    groups : array-like of shape (n_samples,) or (n_samples, n_features)
        Group of each sample, of any kind; missing values are a group. Of several
        columns every combination that occurs is a group.

    labels : array-like of shape (n_classes,), default=None
        The label of each column, by default the sorted distinct values of `y_true`. A
        class may be absent from a group.

    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the samples, passed to the metric if there are any.

    **options : dict
        Passed to the metric, such as `n_bins`.

    Returns
    -------
    table : DataFrame of shape (n_groups + 1, 2)
        A row for each group, and "overall"; columns "n_samples" and "value".

    Raises
    ------
    ValueError
        If there is not one group, label and row of probabilities for each sample, or
        a group is called "overall".

    ImportError
        If pandas is not installed.

    See Also
    --------
    per_label : For samples that have several labels at once.
    sklearn_calib.evaluation.calibration_report : Several errors of every class, also by
        groups.

    Notes
    -----
    The calibration error of a small group is biased upward by more than that of all:
    compare groups by a metric without bias, such as `reduce_bias=True` or
    :func:`kernel_calibration_error`, or by their intervals.

    Examples
    --------
    >>> from sklearn_calib.metrics import expected_calibration_error, per_group
    >>> y_true, y_proba = [0, 1, 1, 1, 1, 0], [0.5, 0.5, 0.9, 0.9, 0.2, 0.2]
    >>> groups = ["old", "old", "old", "young", "young", "young"]
    >>> per_group(expected_calibration_error, y_true, y_proba, groups=groups).round(3)
             n_samples  value
    old              3  0.033
    young            3  0.233
    overall          6  0.133
    """
    import pandas as pd

    y_true, y_proba = as_labels(y_true, "y_true"), as_numbers(y_proba, "y_proba")
    if "labels" in signature(metric).parameters:
        labels = fixed_by_partial(metric, "labels", labels)
        if labels is None:
            labels, _ = distinct_labels(y_true.ravel(), "y_true")
        options["labels"] = labels
    weight = sample_weight
    if weight is not None:
        weight = as_numbers(weight, "sample_weight")

    def measure(rows):
        measured = partial(metric, y_true[rows], y_proba[rows], **options)
        return measured() if weight is None else measured(sample_weight=weight[rows])

    # Of all samples first: the metric says where lengths differ.
    overall = len(y_true), measure(slice(None))
    members = group_members(groups, len(y_true))
    rows = [(len(rows), measure(rows)) for rows in members.values()] + [overall]
    members["overall"] = None
    index = pd.Index(list(members), dtype=object, tupleize_cols=False)
    return pd.DataFrame(rows, index=index, columns=["n_samples", "value"])
