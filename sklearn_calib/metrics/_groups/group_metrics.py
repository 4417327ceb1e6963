"""Metrics for groups of samples, such as those defined by a sensitive feature."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from sklearn_calib._sklearn.metric_options import (
    as_number,
    check_options,
    fixed_by_partial,
    known_labels,
    metric_input,
    refuse_options,
    with_options,
)
from sklearn_calib._validation.arrays import as_numbers, shown
from sklearn_calib._validation.clusters import encode_clusters
from sklearn_calib._validation.declarations import (
    BETWEEN_0_AND_1,
    CLUSTERS,
    COUNT,
    DRAWS,
    PROGRESS,
    TARGETS,
    declare_interval,
    validate_params,
)
from sklearn_calib._validation.groups import group_members
from sklearn_calib._validation.labels import as_labels, distinct_labels, is_multilabel
from sklearn_calib._validation.probabilities import (
    as_proba_numbers,
    check_proba_shape,
    check_sample_weight,
)
from sklearn_calib._validation.samples import check_columns, check_lengths, join_labels
from sklearn_calib._validation.types import Array, Metric, Options, Seed
from sklearn_calib.metrics._intervals.bootstrap import (
    bootstrap_interval,
    interval_or_nan,
)

if TYPE_CHECKING:
    import pandas as pd

OF_GROUPS = {**TARGETS, "groups": ["array-like"]}


@validate_params(
    {
        **OF_GROUPS,
        **CLUSTERS,
        **DRAWS,
        **PROGRESS,
        "confidence_level": [*BETWEEN_0_AND_1, None],
    },
    # The metric checks the other options.
    prefer_skip_nested_validation=False,
)
def per_group(
    metric: Metric | dict[str, Metric],
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    groups: ArrayLike,
    confidence_level: float | None = None,
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
    n_resamples: int = 1000,
    random_state: Seed = None,
    n_jobs: int | None = None,
    verbose: int = 0,
    **options: Any,
) -> pd.DataFrame:
    """Compute a metric for each group of samples, and for all samples.

    A classifier that is calibrated overall may be overconfident for one group and
    underconfident for another.

    Parameters
    ----------
    metric : callable or dict of str to callable
        Metric with the signature `metric(y_true, y_proba, **options)` that returns a
        number, such as :func:`expected_calibration_error`. A dict contains several
        metrics by name.

    y_true : array-like of shape (n_samples,)
        True labels, of any type.

    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities. A 1-d array contains the probabilities of the positive
        class.

    groups : array-like of shape (n_samples,) or (n_samples, n_features)
        Group of each sample, of any type. Missing values form a group. If there are
        several columns, each combination of values that occurs is a group. To see the
        groups of :func:`multicalibration_error`, which are those of each column, pass
        one column at a time.

    confidence_level : float, default=None
        Confidence level, in (0, 1), of the interval of each value. If given, the
        columns "low" and "high" contain the interval of :func:`bootstrap_interval`. By
        default, no intervals are computed.

    labels : array-like of shape (n_classes,), default=None
        Labels of the columns of `y_proba`. By default, the sorted distinct values of
        `y_true`. A class may be absent from a group. Metrics of other packages receive
        the labels sorted, with the columns in the same order.

    sample_weight : array-like of shape (n_samples,), default=None
        Sample weights. They are passed to the metric if they are not None.

    clusters : array-like of shape (n_samples,), default=None
        Cluster of each sample, such as the patient, if the samples of a cluster are not
        independent. The intervals are then computed as in
        :func:`bootstrap_interval`. By default, all samples are independent.

    n_resamples : int, default=1000
        Number of random draws for each interval.

    random_state : int, RandomState instance or None, default=None
        Controls the random draws. Pass an int for reproducible results.

    n_jobs : int, default=None
        Number of joblib jobs for the draws of an interval. The intervals do not depend
        on it.

    verbose : int, default=0
        Verbosity of joblib, which reports the draws of each group.

    **options : dict
        Options passed to the metric, such as `n_bins`. For an option with the name of a
        parameter above, or of one of several metrics, pass a `functools.partial` as
        `metric`.

    Returns
    -------
    table : DataFrame of shape (n_groups + 1, 2) or (n_groups + 1, 4)
        One row for each group and the row "overall", with the columns "n_samples" and
        "value", and with `confidence_level` "low" and "high". These two are NaN for
        groups with too few samples for an interval, and all three for groups in which
        all samples have weight zero. For several metrics, the columns have two levels:
        ``table[name]`` has the columns "value", "low" and "high" of one metric.

    Raises
    ------
    TypeError
        If a metric does not return a number, there are weights and it does not have the
        parameter `sample_weight`, or there are options with a dict of metrics.

    ValueError
        If `groups`, `y_true` and `y_proba` have inconsistent numbers of samples, a
        group is named "overall", or a metric is named "n_samples".

    See Also
    --------
    worst_group : The worst of these values, as one number.
    multicalibration_error : Largest calibration error over overlapping groups.
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

    A calibrated group and an overconfident one, with intervals that are corrected for
    the bias of calibration errors:

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> y_proba, groups = rng.uniform(size=600), np.repeat(["old", "young"], 300)
    >>> y_true = rng.uniform(size=600) < y_proba ** np.where(groups == "old", 1, 2)
    >>> per_group(
    ...     expected_calibration_error,
    ...     y_true,
    ...     y_proba,
    ...     groups=groups,
    ...     reduce_bias=True,
    ...     confidence_level=0.95,
    ...     random_state=0,
    ... ).round(3)
             n_samples  value    low   high
    old            300  0.020  0.000  0.086
    young          300  0.195  0.127  0.246
    overall        600  0.092  0.039  0.131

    Several metrics:

    >>> from sklearn.metrics import log_loss
    >>> metrics = {"ECE": expected_calibration_error, "log loss": log_loss}
    >>> per_group(metrics, y_true, y_proba, groups=groups).round(3)
            n_samples    ECE log loss
                       value    value
    old           300  0.054    0.464
    young         300  0.198    0.525
    overall       600  0.100    0.495
    """
    import pandas as pd

    if isinstance(metric, dict):
        refuse_options(options, per_group, "a dict of metrics")
        settings: Options = {"groups": groups, "confidence_level": confidence_level}
        settings |= {"labels": labels, "sample_weight": sample_weight}
        settings["clusters"] = clusters
        settings |= {"n_resamples": n_resamples, "random_state": random_state}
        settings |= {"n_jobs": n_jobs, "verbose": verbose}
        _check_names(metric)
        for score in metric.values():
            check_options(score, {}, per_group)
            # A warning is issued once, not for each metric.
            labels = known_labels(score, y_true, y_proba, labels)
        settings["labels"] = labels
        return _side_by_side(
            {
                name: per_group(score, y_true, y_proba, **settings)
                for name, score in metric.items()
            }
        )
    metric = with_options(metric, options, per_group)
    # The samples are split here; the metric reads those of each group.
    check_columns(y_proba, y_true, fixed_by_partial(metric, "labels", labels))
    y_true = as_labels(y_true, "y_true")
    if is_multilabel(y_true):
        y_proba = join_labels(y_proba)
    call_for = _of_rows(metric, y_true, y_proba, labels, sample_weight)
    if clusters is not None:
        clusters = encode_clusters(clusters, len(y_true))

    def interval(function: Callable[..., Any], rows: Any) -> tuple[float, ...]:
        if confidence_level is None:
            return ()
        draws: Options = {"n_resamples": n_resamples, "random_state": random_state}
        draws |= {"n_jobs": n_jobs, "verbose": verbose}
        draws["confidence_level"] = confidence_level
        draws["clusters"] = None if clusters is None else clusters[rows]
        return call_for(partial(function, **draws), rows)

    # All samples first, so that the metric checks that the lengths are consistent.
    everyone = slice(None)
    overall = (
        len(y_true),
        call_for(_evaluate, everyone),
        *interval(bootstrap_interval, everyone),
    )
    members = group_members(groups, len(y_true))
    weight = np.ones(len(y_true)) if sample_weight is None else sample_weight
    seen = as_numbers(weight, "sample_weight")
    table = [
        (
            len(rows),
            call_for(_evaluate, rows) if seen[rows].any() else np.nan,
            *interval(interval_or_nan, rows),
        )
        for rows in members.values()
    ]
    index = pd.Index([*members, "overall"], dtype=object, tupleize_cols=False)
    columns = ["n_samples", "value", "low", "high"][: len(overall)]
    return pd.DataFrame([*table, overall], index=index, columns=columns)


def _check_names(metrics: dict[str, Metric]) -> None:
    """Raise ValueError unless there are metrics, with names for columns."""
    if not metrics:
        raise ValueError("metric must not be empty, got {}. Pass at least one metric.")
    if "n_samples" in metrics:
        raise ValueError(
            'metric must not contain the name "n_samples", which is a column of the '
            f"table, got {shown([*metrics])}. Choose another name."
        )


def _side_by_side(tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """Return the tables of several metrics as one, with two levels of columns."""
    import pandas as pd

    n_samples = next(iter(tables.values()))[["n_samples"]]
    columns = [("n_samples", "")]
    for name, table in tables.items():
        columns += [(name, column) for column in table.columns[1:]]
    parts = [n_samples, *(table.iloc[:, 1:] for table in tables.values())]
    wide = pd.concat(parts, axis=1)
    wide.columns = pd.MultiIndex.from_tuples(columns)
    return wide


@declare_interval(takes_metric=True)
@validate_params(
    {
        **OF_GROUPS,
        "min_samples": COUNT,
        "greater_is_better": ["boolean"],
    },
    # The metric checks the other options.
    prefer_skip_nested_validation=False,
)
def worst_group(
    metric: Metric,
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    groups: ArrayLike,
    min_samples: int = 1,
    greater_is_better: bool = False,
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    **options: Any,
) -> float:
    """Compute a metric of the group of samples for which it is worst.

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
        Group of each sample, as in :func:`per_group`. If there are several columns,
        each combination of values that occurs is a group.

    min_samples : int, default=1
        Groups with fewer samples are ignored. Samples of weight zero are not counted.

    greater_is_better : bool, default=False
        Whether the metric is a score. The worst value is then the smallest one instead
        of the largest one.

    labels : array-like of shape (n_classes,), default=None
        Labels of the columns of `y_proba`. By default, the sorted distinct values of
        `y_true`. A class may be absent from a group. Metrics of other packages receive
        the labels sorted, with the columns in the same order.

    sample_weight : array-like of shape (n_samples,), default=None
        Sample weights. They are passed to the metric if they are not None.

    **options : dict
        Options passed to the metric, such as `n_bins`. For an option with the name of a
        parameter above, pass a `functools.partial` as `metric`.

    Returns
    -------
    value : float
        Metric of the worst group.

    Raises
    ------
    TypeError
        If the metric does not return a number, or there are weights and it does not
        have the parameter `sample_weight`.

    ValueError
        If `groups`, `y_true` and `y_proba` have inconsistent numbers of samples, or no
        group has `min_samples` samples.

    See Also
    --------
    per_group : The metric of each group.
    multicalibration_error : Largest calibration error over overlapping groups, in which
        the noise of small groups does not dominate.

    Notes
    -----
    The largest of several noisy values is usually that of a small group. Use a metric
    with little bias, such as :func:`expected_calibration_error` with
    `reduce_bias=True`, and set `min_samples`.

    The scorer "neg_worst_group_debiased_ece" evaluates this error, see
    :func:`get_scorer`. For an interval, pass `functools.partial(worst_group, metric,
    groups=groups)` to :func:`bootstrap_interval`.

    Examples
    --------
    >>> from sklearn_calib.metrics import expected_calibration_error, worst_group
    >>> y_true, y_proba = [0, 1, 1, 1, 1, 0], [0.5, 0.5, 0.9, 0.9, 0.2, 0.2]
    >>> groups = ["old", "old", "old", "young", "young", "young"]
    >>> value = worst_group(expected_calibration_error, y_true, y_proba, groups=groups)
    >>> round(value, 3)
    0.233
    """
    metric = with_options(metric, options, worst_group)
    # The samples are split here; the metric reads those of each group.
    check_columns(y_proba, y_true, fixed_by_partial(metric, "labels", labels))
    y_true = as_labels(y_true, "y_true")
    y_proba = check_proba_shape(y_proba, allow_1d=True)
    check_lengths(len(y_true), len(y_proba))
    weight = check_sample_weight(sample_weight, y_proba)
    call_for = _of_rows(metric, y_true, y_proba, labels, weight)
    seen = np.ones(len(y_true), dtype=bool) if weight is None else weight > 0
    members = group_members(groups, len(y_true)).values()
    largest = max(np.count_nonzero(seen[rows]) for rows in members)
    if largest < min_samples:
        raise ValueError(
            "min_samples must be at most the number of samples of the largest group, "
            f"which is {largest}, got {min_samples}. Use a smaller number."
        )
    values = [
        call_for(_evaluate, rows)
        for rows in members
        if np.count_nonzero(seen[rows]) >= min_samples
    ]
    return float(np.min(values) if greater_is_better else np.max(values))


def _evaluate(metric: Metric, *data: Any, **options: Any) -> float:
    return as_number(metric(*data, **options))


def _of_rows(
    metric: Metric,
    y_true: Array,
    y_proba: ArrayLike,
    labels: ArrayLike | None,
    sample_weight: ArrayLike | None,
) -> Callable[[Callable[..., Any], Any], Any]:
    """Return a function that calls another one with the metric and selected samples."""
    labels = fixed_by_partial(metric, "labels", labels)
    proba = as_proba_numbers(y_proba, "y_proba")
    proba, given = metric_input(metric, y_true, proba, labels, sample_weight)
    if "labels" in signature(metric).parameters:
        given.setdefault("labels", distinct_labels(y_true.ravel(), "y_true")[0])
    if "labels" in given:
        metric = partial(metric, labels=given["labels"])
    weight = sample_weight
    if weight is not None:
        weight = as_numbers(weight, "sample_weight")

    def call_for(function: Callable[..., Any], rows: Any) -> Any:
        weights = {} if weight is None else {"sample_weight": weight[rows]}
        return function(metric, y_true[rows], proba[rows], **weights)

    return call_for
