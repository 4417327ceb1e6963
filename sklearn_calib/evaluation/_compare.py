"""Comparison of classifiers by several metrics, with confidence intervals."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state

from sklearn_calib._core.arrays import as_labels, check_unmasked
from sklearn_calib._core.interval_kind import interval_kind
from sklearn_calib._core.scorers import LabelledScorer, metric_of
from sklearn_calib._core.typing import Array, Options, Seed, Weights
from sklearn_calib._core.validation import (
    Interval,
    check_sample_weight,
    encode_labels,
    validate_params,
)
from sklearn_calib.metrics import bootstrap_interval, get_scorer

if TYPE_CHECKING:
    import pandas as pd

METRICS = ("accuracy", "neg_log_loss", "neg_ece", "neg_aurc", "refinement_auc")


class _Precomputed(ClassifierMixin, BaseEstimator):
    """Classifier that returns its input as predicted probabilities, for scorers."""

    def __init__(self, classes: Array) -> None:
        self.classes = classes
        self.classes_ = classes

    def predict_proba(self, X: Any) -> Any:
        return X

    def predict(self, X: Any) -> Array:
        return self.classes_[X.argmax(axis=1)]


@validate_params(
    {
        "metrics": [list, tuple, dict],
        "confidence_level": [Interval(Real, 0, 1, closed="neither")],
        "n_resamples": [Interval(Integral, 0, None, closed="left")],
        "n_jobs": [Integral, None],
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
    sample_weight: ArrayLike | None = None,
    n_resamples: int = 1000,
    n_jobs: int | None = None,
    random_state: Seed = None,
) -> pd.DataFrame:
    """Compare fitted classifiers by several metrics, with confidence intervals.

    Parameters
    ----------
    estimators : dict of str to object
        Fitted classifiers with `predict_proba`; the keys are the names of the rows.

    X : array-like of shape (n_samples, ...)
        Held-out samples, on which none of the classifiers was trained.

    y : array-like of shape (n_samples,)
        True labels.

    metrics : list of str or dict, default=("accuracy", "neg_log_loss", "neg_ece", \
            "neg_aurc", "refinement_auc")
        Names of scorers of this package or of scikit-learn. Columns have the names of
        the scorers without `neg_`. A dict maps names of columns to scorers or their
        names. The sign of scorers with `greater_is_better=False` is reversed, so the
        values are those of the metric.

    confidence_level : float, default=0.95
        Confidence level of the intervals, in (0, 1).

    sample_weight : array-like of shape (n_samples,), default=None
        Sample weights.

    n_resamples : int, default=1000
        Number of random draws for each interval; 0 for no intervals. The metric is
        computed once for each draw.

    n_jobs : int, default=None
        Number of jobs to run in parallel, as in joblib. Each job computes one value and
        its interval.

    random_state : int, RandomState instance or None, default=None
        Controls the random draws, which are the same for all classifiers and metrics.
        Pass an int for reproducible results.

    Returns
    -------
    table : DataFrame of shape (n_estimators, 3 * n_metrics)
        One row for each classifier. The columns have two levels: the metric, and
        "value", "low" and "high". ``table.xs("value", axis=1, level=1)`` selects the
        values.

    Raises
    ------
    ValueError
        If the name of a scorer is unknown, or a classifier has no `predict_proba`.

    TypeError
        If `estimators` is not a dict.

    ImportError
        If pandas is not installed.

    See Also
    --------
    sklearn_calib.metrics.bootstrap_interval : Computes the intervals.
    evaluate_ood : Metrics of out-of-distribution detection.

    Notes
    -----
    The intervals are computed by :func:`~sklearn_calib.metrics.bootstrap_interval` for
    the metric of the scorer: with `method="debiased"` for calibration errors of this
    package, and with "bca" for other metrics and for scorers that are plain functions.
    They account for the sampling of the test data with fixed classifiers, not for the
    variation between training runs.

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
    >>> table["accuracy"].round(2)
              value   low  high
    bayes      0.96  0.89  0.99
    logistic   0.87  0.80  0.93
    """
    import pandas as pd

    if not isinstance(estimators, dict):
        raise TypeError(
            "estimators must be a dict that maps names to classifiers, got "
            f'{type(estimators).__name__}. Pass {{"name": classifier}}.'
        )
    if not isinstance(metrics, dict):
        if not all(isinstance(name, str) for name in metrics):
            raise TypeError(
                f"metrics must contain names of scorers, got {metrics!r}. Pass other "
                'scorers in a dict: {"name": scorer}.'
            )
        metrics = {name.removeprefix("neg_"): name for name in metrics}
    check_unmasked(X, "X")
    y = as_labels(y, "y")
    sample_weight = check_sample_weight(sample_weight, y)
    predictions = {name: _predict(name, each, X) for name, each in estimators.items()}
    for _, classes in predictions.values():
        encode_labels(y, labels=classes, n_classes=len(classes), name="y")
    options = {
        "confidence_level": confidence_level,
        "n_resamples": n_resamples,
        "random_state": check_random_state(random_state).randint(2**31 - 1),
    }
    cells = Parallel(n_jobs=n_jobs)(
        delayed(_measure)(scoring, y, *prediction, sample_weight, options)
        for prediction in predictions.values()
        for scoring in metrics.values()
    )
    columns = pd.MultiIndex.from_product([metrics, ["value", "low", "high"]])
    values = np.reshape(cells, (len(predictions), len(columns)))
    return pd.DataFrame(values, index=list(predictions), columns=columns)


def _predict(name: str, estimator: Any, X: Any) -> tuple[Array, Array]:
    """Return the probabilities and the classes of a classifier."""
    if not hasattr(estimator, "predict_proba"):
        raise ValueError(
            "estimators must have predict_proba, got "
            f"{type(estimator).__name__} for {name!r}. Wrap it in a "
            "CalibratedClassifier."
        )
    return estimator.predict_proba(X), np.asarray(estimator.classes_)


def _measure(
    scoring: Any,
    y: Array,
    proba: Array,
    classes: Array,
    sample_weight: Weights,
    options: Options,
) -> tuple[Any, Any, Any]:
    """Return the value of a metric and the bounds of its interval."""
    scorer = get_scorer(scoring)
    metric, sign = metric_of(scorer)
    is_error = metric is not None and interval_kind(metric)[0].is_error
    if not isinstance(scorer, LabelledScorer):
        metric = partial(_call_scorer, scorer, sign)
    elif len(classes) == 2:
        proba = proba[:, 1]  # as in the scorer
    data: Options = {"labels": classes, "sample_weight": sample_weight}
    value = metric(y, proba, **data)
    if not options["n_resamples"]:
        return value, np.nan, np.nan
    options = {**options, "method": "debiased" if is_error else "auto"}
    return value, *bootstrap_interval(metric, y, proba, **data, **options)


def _call_scorer(
    scorer: Any,
    sign: int,
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    labels: Array,
    sample_weight: Any,
) -> Any:
    """Return the value of the metric of a scorer."""
    classifier = _Precomputed(labels)
    return sign * scorer(classifier, y_proba, y_true, sample_weight=sample_weight)
