"""Metrics for groups of samples, such as those defined by a sensitive feature."""

from __future__ import annotations

from functools import partial
from inspect import signature
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from sklearn_calib._core.arrays import as_labels, as_numbers
from sklearn_calib._core.groups import group_members
from sklearn_calib._core.inputs import TARGETS
from sklearn_calib._core.typing import Metric
from sklearn_calib._core.validation import distinct_labels, validate_params
from sklearn_calib.metrics._resampling import fixed_by_partial

if TYPE_CHECKING:
    import pandas as pd


@validate_params(
    {**TARGETS, "metric": [callable], "groups": ["array-like"]},
    # The metric checks the other options.
    prefer_skip_nested_validation=False,
)
def per_group(
    metric: Metric,
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    groups: ArrayLike,
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    **options: Any,
) -> pd.DataFrame:
    """Compute a metric for each group of samples, and for all samples.

    A classifier that is calibrated overall may be overconfident for one group and
    underconfident for another.

    Parameters
    ----------
    metric : callable
        Metric with the signature `metric(y_true, y_proba, **options)` that returns a
        number, such as :func:`expected_calibration_error`.

    y_true : array-like of shape (n_samples,)
        True labels, of any type.

    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities. A 1-d array contains the probabilities of the positive
        class.

    groups : array-like of shape (n_samples,) or (n_samples, n_features)
        Group of each sample, of any type. Missing values form a group. If there are
        several columns, each combination of values that occurs is a group.

    labels : array-like of shape (n_classes,), default=None
        Labels of the columns of `y_proba`. By default, the sorted distinct values of
        `y_true`. A class may be absent from a group.

    sample_weight : array-like of shape (n_samples,), default=None
        Sample weights. They are passed to the metric if they are not None.

    **options : dict
        Options passed to the metric, such as `n_bins`.

    Returns
    -------
    table : DataFrame of shape (n_groups + 1, 2)
        One row for each group and the row "overall", with the columns "n_samples" and
        "value".

    Raises
    ------
    ValueError
        If `groups`, `y_true` and `y_proba` have inconsistent numbers of samples, or a
        group is named "overall".

    ImportError
        If pandas is not installed.

    See Also
    --------
    per_label : A metric for each label of a multilabel problem.
    sklearn_calib.evaluation.calibration_report : Several calibration errors of every
        class, also by groups.

    Notes
    -----
    The calibration error of a small group has a larger upward bias than that of all
    samples. To compare groups, use a metric with little bias, such as
    :func:`expected_calibration_error` with `reduce_bias=True` or
    :func:`kernel_calibration_error`, or confidence intervals.

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

    def measure(rows: Any) -> Any:
        measured = partial(metric, y_true[rows], y_proba[rows], **options)
        return measured() if weight is None else measured(sample_weight=weight[rows])

    # All samples first, so that the metric checks that the lengths are consistent.
    overall = len(y_true), measure(slice(None))
    members = group_members(groups, len(y_true))
    rows = [(len(rows), measure(rows)) for rows in members.values()] + [overall]
    members["overall"] = None
    index = pd.Index(list(members), dtype=object, tupleize_cols=False)
    return pd.DataFrame(rows, index=index, columns=["n_samples", "value"])
