"""Comparison of classifiers by several metrics, with confidence intervals."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import partial
from itertools import product
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.metrics import make_scorer
from sklearn.utils import check_random_state

from sklearn_calib._sklearn.metric_options import (
    as_number,
    check_options,
    is_metric,
    metric_input,
    name_of,
    refuse_options,
    without_partial,
)
from sklearn_calib._sklearn.response import has_threshold, predict_scores
from sklearn_calib._sklearn.scorer_objects import (
    LabelledScorer,
    metric_and_input,
    metric_of,
)
from sklearn_calib._validation.arrays import column_names, shown
from sklearn_calib._validation.clusters import read_clusters
from sklearn_calib._validation.declarations import (
    BETWEEN_0_AND_1,
    CLUSTERS,
    MOST_DRAWS,
    PROGRESS,
    TARGETS,
    Interval,
    interval_kind,
    validate_params,
)
from sklearn_calib._validation.fit_warnings import without_warnings
from sklearn_calib._validation.labels import (
    as_labels,
    column_classes,
    encode_labels,
    is_multilabel,
)
from sklearn_calib._validation.probabilities import check_proba, check_sample_weight
from sklearn_calib._validation.samples import (
    as_columns,
    check_columns,
    choose_positive,
    join_labels,
    read_labels,
)
from sklearn_calib._validation.types import (
    Array,
    Floats,
    Options,
    Seed,
    Weights,
)
from sklearn_calib.metrics import (
    bootstrap_interval,
    expected_cost_loss,
    get_scorer,
    per_label,
)

if TYPE_CHECKING:
    import pandas as pd

METRICS = ("accuracy", "neg_log_loss", "neg_ece", "neg_aurc", "refinement_auc")


@validate_params(
    {
        "metrics": [list, tuple, dict],
        "confidence_level": BETWEEN_0_AND_1,
        "n_resamples": [Interval(Integral, 0, MOST_DRAWS, closed="both")],
        "labels": TARGETS["labels"],
        **CLUSTERS,
        **PROGRESS,
        "random_state": ["random_state"],
    },
    prefer_skip_nested_validation=False,
)
def compare(
    estimators: dict[str, Any],
    X: Any,
    y: ArrayLike,
    *,
    metrics: Sequence[str] | dict[str, Any] = METRICS,
    confidence_level: float = 0.95,
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
    n_resamples: int = 1000,
    random_state: Seed = None,
    n_jobs: int | None = None,
    verbose: int = 0,
    **options: Any,
) -> pd.DataFrame:
    """Compare fitted classifiers by several metrics, with confidence intervals.

    Parameters
    ----------
    estimators : dict of str to object
        Fitted classifiers with `predict_proba`, or stored probabilities for `y`, of
        shape (n_samples, n_classes), or (n_samples,) for those of the positive class.
        The keys are the names of the rows. A list of classifiers or of arrays, such as
        those of several random seeds, is one row. For the predictions of a
        :class:`~sklearn_calib.estimators.CalibratedClassifier` without its calibrator,
        pass ``classifier.uncalibrated()``.

    X : array-like of shape (n_samples, ...) or None
        Held-out samples, on which none of the classifiers was trained. None if there
        are only stored probabilities.

    y : array-like of shape (n_samples,) or (n_samples, n_labels)
        True labels. If samples have several labels, an indicator matrix. Each metric is
        then the mean over the labels, as binary problems, see
        :func:`~sklearn_calib.metrics.per_label`. For calibration errors of the
        probability that a sample has a label, pass the function, such as
        `expected_calibration_error`: names such as "neg_ece" evaluate the more probable
        of the two outcomes.

    metrics : list of str or dict, default=("accuracy", "neg_log_loss", "neg_ece", \
            "neg_aurc", "refinement_auc")
        Names of scorers of this package or of scikit-learn. Columns have the names of
        the scorers without `neg_`. A dict maps names of columns to scorers, their names
        or metrics. The sign of scorers with `greater_is_better=False` is reversed, so
        the values are those of the metric. A function of two arguments, or whose first
        parameter is `y_true`, is a metric and receives all columns of the
        probabilities, in the order of the sorted labels unless it is one of this
        package; a metric of scikit-learn receives what its scorers receive. Set options
        with `functools.partial`.

    confidence_level : float, default=0.95
        Confidence level of the intervals, in (0, 1).

    labels : array-like of shape (n_classes,), default=None
        Class label of each column of stored probabilities. By default, the sorted
        distinct values of `y`. Classifiers have their own `classes_`, and are read in
        this order if it contains the same labels.

    sample_weight : array-like of shape (n_samples,), default=None
        Sample weights.

    clusters : array-like of shape (n_samples,), default=None
        Cluster of each sample, such as the patient, if the samples of a cluster are not
        independent. Whole clusters are then resampled for the intervals. There
        should be at least 50; otherwise, there is a warning. By default, all samples
        are independent.

    n_resamples : int, default=1000
        Number of random draws for each interval; 0 for no intervals. The metric is
        computed once for each draw.

    random_state : int, RandomState instance or None, default=None
        Controls the random draws, which are the same for all classifiers and metrics.
        Pass an int for reproducible results.

    n_jobs : int, default=None
        Number of jobs to run in parallel, as in joblib. Each job computes one value and
        its interval.

    verbose : int, default=0
        Verbosity of joblib.

    **options : dict
        Not accepted, because there may be several metrics. The error shows how to set
        the options of one.

    Returns
    -------
    table : DataFrame of shape (n_estimators, 3 * n_metrics)
        One row for each classifier. The columns have two levels: the metric, and
        "value", "low" and "high". ``table.xs("value", axis=1, level=1)`` selects the
        values. The table is printed with one column for each metric, such as "0.051
        [0.015, 0.067]". The method ``table.formatted(digits=3)`` returns these strings
        as a DataFrame. If a metric fails for a classifier, there is a warning, and what
        could not be computed is NaN. If a row is a list, "value" is the mean of its
        classifiers, and the table has the columns "std" for their standard deviation,
        printed as "0.051 ± 0.004 [0.015, 0.067]".

    Raises
    ------
    ValueError
        If the name of a scorer is unknown, a classifier has no `predict_proba`, `X` is
        None and there is a classifier, or stored probabilities do not match `y`.

    TypeError
        If `estimators` is not a dict, or there are options of a metric.

    Warns
    -----
    UserWarning
        If a metric is `expected_cost_loss` without `costs`, which is the error rate.

    See Also
    --------
    sklearn_calib.metrics.bootstrap_interval : Computes the intervals.
    compare_datasets : Mean ranks and paired tests over several data sets.
    evaluate_ood : Metrics of out-of-distribution detection.

    Notes
    -----
    The intervals are computed by :func:`~sklearn_calib.metrics.bootstrap_interval` for
    the metric of the scorer: with `method="debiased"` for calibration errors of this
    package, and with "bca" for other metrics and for scorers that are plain functions.
    The intervals account for the sampling of the test data with fixed classifiers, not
    for the variation between training runs, which the standard deviation of a list
    measures. The limits of a list are the means of those of its classifiers. They are
    an interval of the mean, which is wide if the classifiers err for different samples.

    In papers, the area under the ROC curve is usually "roc_auc_ovr" (one-vs-rest) or
    "roc_auc_ovo" (one-vs-one). With many classes, it can be large although the accuracy
    is low. "refinement_auc" is a different metric: it measures how well the confidence
    separates correct from incorrect predictions.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from sklearn_calib.evaluation import compare
    >>> X, y = load_iris(return_X_y=True)
    >>> classifiers = {"bayes": GaussianNB(), "logistic": LogisticRegression(C=0.01)}
    >>> for classifier in classifiers.values():
    ...     _ = classifier.fit(X[::2], y[::2])
    >>> table = compare(
    ...     classifiers, X[1::2], y[1::2], metrics=["accuracy", "neg_ece"],
    ...     n_resamples=100, random_state=0,
    ... )
    >>> table
                          accuracy                   ece
    bayes     0.960 [0.893, 0.987]  0.034 [0.000, 0.096]
    logistic  0.867 [0.800, 0.933]  0.363 [0.250, 0.470]
    >>> table["accuracy"].round(2)
              value   low  high
    bayes      0.96  0.89  0.99
    logistic   0.87  0.80  0.93

    Three random seeds as one row:

    >>> from sklearn.ensemble import RandomForestClassifier
    >>> forests = [
    ...     RandomForestClassifier(5, random_state=seed).fit(X[::2], y[::2])
    ...     for seed in range(3)
    ... ]
    >>> table = compare(
    ...     {"forest": forests}, X[1::2], y[1::2], metrics=["accuracy"], n_resamples=100
    ... )
    >>> table["accuracy"].columns.to_list()
    ['value', 'std', 'low', 'high']
    """
    import pandas as pd

    from sklearn_calib.evaluation._table import CELL, CELL_OF_RUNS, ComparisonTable

    refuse_options(options, compare, "a list or dict of metrics")
    if not isinstance(estimators, dict):
        raise TypeError(
            "estimators must be a dict that maps names to classifiers, got "
            f'{type(estimators).__name__}. Pass {{"name": classifier}}.'
        )
    _check_any(estimators, "estimators")
    _check_any(metrics, "metrics")
    if not isinstance(metrics, dict):
        if not all(isinstance(name, str) for name in metrics):
            raise TypeError(
                f"metrics must contain names of scorers, got {shown(metrics)}. Pass "
                'other scorers, and metrics, in a dict: {"name": metric}.'
            )
        metrics = {name.removeprefix("neg_"): name for name in metrics}
    scorers = {name: _scorer_or_metric(metric) for name, metric in metrics.items()}
    _warn_of_costs(scorers)
    names, y = column_names(y), as_labels(y, "y")
    if not len(y):
        raise ValueError("y must contain at least one label, got none. Pass samples.")
    sample_weight = check_sample_weight(sample_weight, y)
    clusters = read_clusters(clusters, len(y), sample_weight)
    if is_multilabel(y):
        labels = names if labels is None and names else labels
        estimators = {name: join_labels(row) for name, row in estimators.items()}
    elif labels is not None:  # also if there are only classifiers
        n_classes = len(as_labels(labels, "labels"))
        encode_labels(y, labels=labels, n_classes=n_classes, name="y")
    runs = {name: _runs(estimator, len(y)) for name, estimator in estimators.items()}
    keys = [(name, index) for name, row in runs.items() for index in row]
    predictions = [
        _predict(name, index, runs[name][index], X, y, labels) for name, index in keys
    ]
    _warn_of_positive(runs, y, labels)
    settings = {
        "confidence_level": confidence_level,
        "clusters": clusters,
        "n_resamples": n_resamples,
        "random_state": check_random_state(random_state).randint(2**31 - 1),
    }
    measured = Parallel(n_jobs=n_jobs, verbose=verbose)(
        delayed(_measure)(scorer, y, *prediction, sample_weight, settings)
        for prediction in predictions
        for scorer in scorers.values()
    )
    # Warnings of other processes would be lost.
    for (key, column), (_, error) in zip(product(keys, metrics), measured, strict=True):
        if error:
            name, index = key
            warnings.warn(
                f"metrics[{column!r}] could not be computed for {name!r}{index}, so "
                f"its cell contains NaN. The error was {error}",
                UserWarning,
            )
    cells = np.reshape([cell for cell, _ in measured], (len(keys), len(metrics), -1))
    ends = np.cumsum([len(row) for row in runs.values()])
    with_std = any("" not in row for row in runs.values())
    values = [_summary(row, with_std=with_std) for row in np.split(cells, ends[:-1])]
    columns = pd.MultiIndex.from_product([metrics, CELL_OF_RUNS if with_std else CELL])
    table = ComparisonTable(values, index=list(runs), columns=columns)
    # For `compare_datasets`.
    table.attrs["greater_is_better"] = {
        name: _is_score(metric) for name, metric in metrics.items()
    }
    return table


def _check_any(names: Any, what: str) -> None:
    """Raise ValueError if there is nothing to compare."""
    if not names:
        raise ValueError(f"{what} must not be empty, got {names}. Pass at least one.")


def _warn_of_costs(scorers: dict[str, Any]) -> None:
    """Warn if the expected cost is the error rate, which its column does not say."""
    for name, scorer in scorers.items():
        metric, options = without_partial(metric_of(scorer)[0] or scorer, {})
        if metric is expected_cost_loss and options.get("costs") is None:
            warnings.warn(
                f"metrics[{name!r}] is the error rate, as expected_cost_loss has no "
                "costs. Pass {'cost': functools.partial(expected_cost_loss, "
                'costs=costs)}, or use "accuracy".',
                UserWarning,
            )


def _runs(row: Any, n_samples: int) -> dict[str, Any]:
    """Return the classifiers or arrays of a row by their index as text.

    The index is empty unless there is a list of them. A list of numbers for each sample
    is an array.
    """
    if not isinstance(row, list | tuple) or not len(row):
        return {"": row}
    first = row[0]
    if not (isinstance(first, BaseEstimator) or hasattr(first, "predict_proba")):
        ndim = np.ndim(first)
        is_column = ndim == 1 and len(first) == n_samples != len(row)
        if ndim != 2 and not is_column:
            return {"": row}
    return {f"[{index}]": each for index, each in enumerate(row)}


def _warn_of_positive(runs: dict[str, Any], y: Array, labels: Any) -> None:
    """Warn once if the class of arrays with one column is only known from its name."""
    for row in runs.values():
        for classifier in row.values():
            if not hasattr(classifier, "predict_proba"):
                labels = choose_positive(y, classifier, labels, None)


def _summary(cells: Floats, *, with_std: bool) -> Floats:
    """Return the cells of a row, given those of its runs (n_runs, n_metrics, 3)."""
    mean = cells.mean(axis=0)
    if with_std:
        n_runs = len(cells)
        spread = cells[..., 0].std(axis=0, ddof=1) if n_runs > 1 else np.nan
        mean = np.insert(mean, 1, spread, axis=1)
    return mean.ravel()


def _predict(
    name: str, index: str, estimator: Any, X: Any, y: Array, labels: ArrayLike | None
) -> tuple[Array, Array | None]:
    """Return the probabilities and the classes of a classifier or of an array.

    The classes are None if samples have several labels.
    """
    where = f"estimators[{name!r}]{index}"
    if hasattr(estimator, "predict_proba"):
        if X is None:
            raise ValueError(
                "X must contain the samples to predict, got None with a classifier for "
                f"{name!r}{index}. Pass X, or stored probabilities of this classifier."
            )
        if has_threshold(estimator):
            warnings.warn(
                f"{where} has a decision threshold, which is ignored: the "
                "predicted class of all metrics is the most probable one. For metrics "
                "of its own predictions, such as accuracy, use its method predict.",
                UserWarning,
            )
        if is_multilabel(y):
            proba = predict_scores(estimator, X, False, [*estimator.classes_])
            return read_labels(y, proba, name=where, y_name="y")[2], None
        # In one order, so that all rows have the same positive class.
        classes = np.unique(estimator.classes_)
        given = classes if labels is None else as_labels(labels, "labels")
        if {*classes.tolist()} == {*given.tolist()}:
            classes = given
        proba = predict_scores(estimator, X, False, classes)
        if len(proba) != len(y):
            raise ValueError(
                f"y must contain one label for each sample of X, got {len(y)} labels "
                f"and {len(proba)} samples. Pass both for the same samples."
            )
        encode_labels(y, labels=classes, n_classes=len(classes), name="y")
        return proba, classes
    if isinstance(estimator, BaseEstimator) or np.ndim(estimator) == 0:
        raise ValueError(
            "estimators must be arrays of probabilities or have predict_proba, got "
            f"{type(estimator).__name__} for {name!r}{index}. Wrap it in a "
            "CalibratedClassifier."
        )
    if is_multilabel(y):
        return read_labels(y, estimator, labels, name=where, y_name="y")[2], None
    # Each metric reads its samples; these messages name the array.
    proba = as_columns(check_proba(estimator, name=where, allow_1d=True))
    if len(proba) != len(y):
        raise ValueError(
            f"{where} must contain one row for each label in y, got {len(proba)} rows "
            f"and {len(y)} labels. Pass both for the same samples."
        )
    encode_labels(y, labels=labels, n_classes=proba.shape[1], name="y")
    classes = column_classes(y, labels)
    check_columns(estimator, y, classes, where)
    return proba, classes


def _scorer_or_metric(scoring: Any) -> Any:
    """Return the scorer, or the metric if it is called with probabilities directly."""
    scorer = get_scorer(scoring)
    if isinstance(scorer, LabelledScorer) and scorer.needs_sets:
        raise ValueError(
            "metrics must be computed from probabilities, got "
            f"{shown(scoring)}, which evaluates prediction sets. Call the result of "
            "sklearn_calib.metrics.get_scorer with each classifier, X and y."
        )
    metric, _ = metric_of(scorer)
    check_options(metric or scorer, {}, compare)
    if metric:
        return scorer
    function, options = without_partial(scorer, {})
    if is_metric(scorer) and str(function.__module__).startswith("sklearn."):
        return make_scorer(function, response_method="predict_proba", **options)
    return scorer


def _is_score(scoring: Any) -> bool | None:
    """Return whether higher is better; None if the name of a metric does not say it."""
    scorer = get_scorer(scoring)
    metric, sign = metric_of(scorer)
    if metric or not is_metric(scorer):
        return sign > 0
    kind = name_of(scorer).rpartition("_")[2]
    return {"score": True, "loss": False, "error": False}.get(kind)


def _measure(
    scorer: Any,
    y: Array,
    proba: Array,
    classes: Array | None,
    sample_weight: Weights,
    settings: Options,
) -> tuple[list[float], str]:
    """Return the value of a metric and its interval, and the error if there is one."""
    cell = [np.nan] * 3
    try:
        metric = scorer
        if not is_metric(scorer):
            metric, given = metric_and_input(scorer, proba)
            proba = proba if classes is None else given
        if classes is None:
            metric = partial(per_label, metric)
        proba, data = metric_input(metric, y, proba, classes, sample_weight)
        cell[0] = as_number(metric(y, proba, **data))
        if settings["n_resamples"]:
            found = scorer if is_metric(scorer) else metric_of(scorer)[0]
            method = "debiased" if interval_kind(found)[0].is_error else "auto"
            options = {**data, **settings, "method": method}
            # Of few clusters, `compare` has warned.
            with without_warnings():
                cell[1:] = bootstrap_interval(metric, y, proba, **options)
    except Exception as error:  # of any metric, which may be the user's own
        return cell, f"{type(error).__name__}: {error}"
    return cell, ""
