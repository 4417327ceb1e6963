"""Calibration report: calibration errors of each class and of the predicted class."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from sklearn_calib._validation.declarations import (
    BETWEEN_0_AND_1,
    BINS,
    CLUSTERS,
    DIGITS,
    DRAWS,
    TARGETS,
    validate_params,
)
from sklearn_calib._validation.labels import as_labels, column_classes, is_multilabel
from sklearn_calib._validation.samples import (
    read_labels,
    read_samples,
    top_label_correct,
)
from sklearn_calib._validation.types import (
    Array,
    Bools,
    Floats,
    Ints,
    Options,
    Seed,
    Weights,
)
from sklearn_calib.metrics import (
    bootstrap_interval,
    ece_interval,
    expected_calibration_error,
    maximum_calibration_error,
    per_label,
    smooth_expected_calibration_error,
)

if TYPE_CHECKING:
    import pandas as pd


@validate_params(
    {
        **TARGETS,
        **BINS,
        **CLUSTERS,
        **DRAWS,
        **DIGITS,
        "groups": ["array-like", None],
        "confidence_level": [*BETWEEN_0_AND_1, None],
    }
)
def calibration_report(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    n_bins: int | str | ArrayLike = 15,
    strategy: str = "uniform",
    groups: ArrayLike | None = None,
    confidence_level: float | None = None,
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
    n_resamples: int = 1000,
    random_state: Seed = None,
    digits: int | None = 3,
) -> pd.DataFrame:
    """Calibration report: errors of each class and of the predicted class, as a table.

    It corresponds to :func:`sklearn.metrics.classification_report` for predicted
    labels. For all errors, lower is better.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,) or (n_samples, n_labels)
        True labels, of any kind. If samples have several labels, an indicator matrix.

    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities. A 1-d array contains those of the positive class; the
        report has rows for both classes. With an indicator matrix, those of each label,
        as in :func:`~sklearn_calib.metrics.per_label`.

    n_bins : int, "cube_root" or array-like of shape (n_edges,), default=15
        Number of bins of "ece" and "mce", or their edges, as in
        :func:`~sklearn_calib.metrics.expected_calibration_error`.

    strategy : {"uniform", "quantile"}, default="uniform"
        Use bins of equal width, or bins of equal numbers of samples as far as ties
        allow.

    groups : array-like of shape (n_samples,) or (n_samples, n_features), default=None
        Group of each sample. If given, the report contains the rows of each group, and
        those of all samples as the group "overall". The index has one level for each
        feature and one for the class.

    confidence_level : float, default=None
        Confidence level of the interval of "ece", in (0, 1). If given, the columns
        "ece_low" and "ece_high" contain the interval of
        :func:`~sklearn_calib.metrics.ece_interval`. It is NaN for the weighted average.

    labels : array-like of shape (n_classes,), default=None
        Class label of each column, such as `estimator.classes_`. By default, the sorted
        distinct values of `y_true`, or the names or numbers of its columns.

    sample_weight : array-like of shape (n_samples,), default=None
        Sample weights.

    clusters : array-like of shape (n_samples,), default=None
        Cluster of each sample, such as the patient, if the samples of a cluster are not
        independent. The intervals are then computed as in
        :func:`~sklearn_calib.metrics.ece_interval`, and NaN for a group that is one
        cluster. By default, all samples are independent.

    n_resamples : int, default=1000
        Number of random draws for each interval.

    random_state : int, RandomState instance or None, default=None
        Controls the random draws. Pass an int for reproducible results.

    digits : int or None, default=3
        Number of decimals to round to, at most 15. If None, values are not rounded.

    Returns
    -------
    report : DataFrame
        One row for each class, then "macro avg", "weighted avg" (weighted by support)
        and "top label", which an indicator matrix does not have. With `groups`, these
        rows are repeated for each group. It is printed in lines of at most 80
        characters, and wide tables continue below. The columns are:

        - "mean_proba": mean predicted probability of the class;
        - "frequency": fraction of samples in the class, or accuracy for the top label;
        - "ece", "mce" and "smooth_ece": calibration errors;
        - "brier": mean squared difference between probability and outcome;
        - "support": number of samples of the class, or sum of their weights.

    Raises
    ------
    ValueError
        If the labels do not match the columns, `y_proba` does not contain
        probabilities, `groups` does not contain one group for each sample, or a group
        is named "overall" or has zero weight.

    See Also
    --------
    compare : Several metrics of several classifiers.
    risk_report : Measures of a risk model, with intervals.
    sklearn_calib.metrics.per_group : Any metric for each group of samples.

    Notes
    -----
    The "ece" of "macro avg" is
    :func:`~sklearn_calib.metrics.classwise_calibration_error`, and with an indicator
    matrix :func:`~sklearn_calib.metrics.per_label`, whose interval is computed by
    :func:`~sklearn_calib.metrics.bootstrap_interval`. The "ece" of "top label"
    is :func:`~sklearn_calib.metrics.expected_calibration_error` of a 2-d array. A class
    without samples has a frequency of 0.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from sklearn_calib.evaluation import calibration_report
    >>> X, y = load_iris(return_X_y=True)
    >>> classifier = GaussianNB().fit(X[::2, :2], y[::2])
    >>> print(calibration_report(y[1::2], classifier.predict_proba(X[1::2, :2])))
                  mean_proba  frequency    ece    mce  smooth_ece  brier  support
    0                  0.308      0.333  0.040  0.425       0.031  0.016       25
    1                  0.349      0.333  0.107  0.352       0.066  0.135       25
    2                  0.343      0.333  0.105  0.441       0.055  0.119       25
    macro avg          0.333      0.333  0.084  0.406       0.050  0.090       75
    weighted avg       0.333      0.333  0.084  0.406       0.050  0.090       75
    top label          0.795      0.813  0.081  0.465       0.044  0.135       75
    """
    from sklearn_calib.evaluation._table import CompleteTable, report_by_group

    has_top = not is_multilabel(as_labels(y_true, "y_true"))
    if has_top:
        samples = read_samples(y_true, y_proba, labels, sample_weight, "canonical")
        proba, codes, weight = samples.proba()
        names = list(column_classes(y_true, labels))
        outcomes = codes[:, None] == np.arange(proba.shape[1])
    else:
        given = y_true, y_proba, labels, sample_weight
        names, indicators, proba, weight = read_labels(*given)
        outcomes = indicators == 1
    interval: Options = {"n_resamples": n_resamples, "random_state": random_state}
    interval["confidence_level"] = confidence_level
    report = partial(
        _report,
        names=names,
        options={"n_bins": n_bins, "strategy": strategy},
        interval=interval,
        has_top=has_top,
    )
    table = report_by_group(report, groups, weight, clusters, proba, outcomes)
    return CompleteTable(table if digits is None else table.round(digits))


def _report(
    proba: Floats,
    outcomes: Bools,
    weight: Weights,
    clusters: Ints | None,
    *,
    has_interval: bool,
    names: list[Any],
    options: Options,
    interval: Options,
    has_top: bool,
) -> pd.DataFrame:
    """Return the table of one group of samples."""
    import pandas as pd

    interval = {**interval, "clusters": clusters}
    if not has_interval:
        interval["confidence_level"] = None
    options = {**options, "sample_weight": weight}
    rows = [
        _row(*pair, options, interval) for pair in zip(proba.T, outcomes.T, strict=True)
    ]
    table = pd.DataFrame(rows, index=pd.Index(names, dtype=object))
    support = outcomes.sum(axis=0) if weight is None else weight @ outcomes
    averages = pd.DataFrame(
        [table.mean(), (table * support[:, None]).sum() / support.sum()],
        index=["macro avg", "weighted avg"],
    )
    codes = outcomes.argmax(axis=1)  # with several labels, not used
    if interval["confidence_level"] is not None:
        if has_top:
            labels = range(proba.shape[1])
            classwise: Options = {"mode": "classwise", "labels": labels}
            classwise |= {**options, **interval}
            bounds = ece_interval(codes, proba, **classwise)
        else:
            error = partial(per_label, expected_calibration_error, **options)
            bounds = bootstrap_interval(error, outcomes, proba, **interval)
        averages[["ece_low", "ece_high"]] = bounds, (np.nan, np.nan)
    tables = [table, averages]
    if has_top:
        top = _row(*top_label_correct(proba, codes), options, interval)
        tables.append(pd.DataFrame([top], index=["top label"]))
    table = pd.concat(tables)
    totals = [support.sum()] * (len(table) - len(support))
    table["support"] = [*support, *totals]
    return table


def _row(
    proba: Floats, outcome: Array, options: Options, interval: Options
) -> dict[str, Any]:
    """Return the values of a row by column, given probabilities and binary outcomes."""
    weight = options["sample_weight"]
    data: Options = {"y_true": outcome, "y_proba": proba, "labels": [False, True]}
    row = {
        "mean_proba": np.average(proba, weights=weight),
        "frequency": np.average(outcome, weights=weight),
        "ece": expected_calibration_error(**data, **options),
    }
    if interval["confidence_level"] is not None:
        bounds = ece_interval(**data, **options, **interval)
        row |= zip(("ece_low", "ece_high"), bounds, strict=True)
    return row | {
        "mce": maximum_calibration_error(**data, **options),
        "smooth_ece": smooth_expected_calibration_error(**data, sample_weight=weight),
        "brier": np.average((proba - outcome) ** 2, weights=weight),
    }
