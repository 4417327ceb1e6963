"""A table of classifiers and metrics, with intervals."""

from functools import partial
from numbers import Integral, Real

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state

from sklearn_calib._core.arrays import as_labels, check_unmasked
from sklearn_calib._core.interval_kind import interval_kind
from sklearn_calib._core.scorers import LabelledScorer, metric_of
from sklearn_calib._core.validation import (
    Interval,
    check_sample_weight,
    encode_labels,
    validate_params,
)
from sklearn_calib.metrics import bootstrap_interval, get_scorer

METRICS = ("accuracy", "neg_log_loss", "neg_ece", "neg_aurc", "refinement_auc")


class _Answered(ClassifierMixin, BaseEstimator):
    """A classifier whose samples are its answers, for scorers to ask."""

    def __init__(self, classes):
        self.classes = classes
        self.classes_ = classes

    def predict_proba(self, X):
        return X

    def predict(self, X):
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
    estimators,
    X,
    y,
    *,
    metrics=METRICS,
    confidence_level=0.95,
    sample_weight=None,
    n_resamples=1000,
    n_jobs=None,
    random_state=None,
):
    """Measure fitted classifiers on the same samples, each value with its interval.

    Parameters
    ----------
    estimators : dict of str to object
        Fitted classifiers with `predict_proba`, by the names of the rows.

    X : array-like of shape (n_samples, ...)
        Samples that no classifier was trained on.

    y : array-like of shape (n_samples,)
        Their labels.

    metrics : list of str or dict, default=("accuracy", "neg_log_loss", "neg_ece", \
            "neg_aurc", "refinement_auc")
        Names of scorers, of this package or of scikit-learn; the name of the column is
        that of the scorer without `neg_`. A dict maps names of columns to names of
        scorers or to scorers. The value is that of the metric: a scorer that negates
        its metric, by `greater_is_better=False`, has its sign reversed.

    confidence_level : float, default=0.95
        Share of the samples in which an interval holds the value of the population.
        In (0, 1).

    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the samples.

    n_resamples : int, default=1000
        Number of random draws for each interval; 0 for none. Each draw measures the
        metric once.

    n_jobs : int, default=None
        Number of values to measure at the same time, as in joblib.

    random_state : int, RandomState instance or None, default=None
        Controls the draws, which are the same for all classifiers and metrics. Pass an
        int for repeatable intervals.

    Returns
    -------
    table : DataFrame of shape (n_estimators, 3 * n_metrics)
        One row for each classifier; columns of two levels, the metric and "value",
        "low" and "high". ``table.xs("value", axis=1, level=1)`` has the values alone.

    Raises
    ------
    ValueError
        If there is no scorer of a name, or a classifier has no probabilities.

    TypeError
        If `estimators` is no dict.

    ImportError
        If pandas is not installed.

    See Also
    --------
    sklearn_calib.metrics.bootstrap_interval : The intervals.
    evaluate_ood : Measures that need samples of another distribution.

    Notes
    -----
    The intervals are those of :func:`~sklearn_calib.metrics.bootstrap_interval` for
    the metric of the scorer: debiased for the calibration errors of this package,
    whether a scorer comes by its name, from
    :func:`~sklearn_calib.metrics.get_scorer`, or from
    :func:`sklearn.metrics.make_scorer`, and by "bca" for every other metric and for
    scorers that are functions. They are for the classifiers as they are, on new
    samples, and do not cover the variation between training runs.

    The area under the ROC curve in tables of papers is mostly that of classes,
    "roc_auc_ovr" or "roc_auc_ovo". It is large with many classes even where accuracy is
    low, and another thing than the "refinement_auc" of right against wrong predictions.

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
            "estimators must be a dict of names to classifiers, got "
            f'{type(estimators).__name__}. Name the rows: {{"focal": classifier}}.'
        )
    if not isinstance(metrics, dict):
        if not all(isinstance(name, str) for name in metrics):
            raise TypeError(
                f"metrics must hold names of scorers, got {metrics!r}. Name the "
                'columns of others by a dict: {"loss": scorer}.'
            )
        metrics = {name.removeprefix("neg_"): name for name in metrics}
    check_unmasked(X, "X")
    y = as_labels(y, "y")
    sample_weight = check_sample_weight(sample_weight, y)
    answers = {name: _ask(name, each, X) for name, each in estimators.items()}
    for _, classes in answers.values():
        encode_labels(y, labels=classes, n_classes=len(classes), name="y")
    options = {
        "confidence_level": confidence_level,
        "n_resamples": n_resamples,
        "random_state": check_random_state(random_state).randint(2**31 - 1),
    }
    cells = Parallel(n_jobs=n_jobs)(
        delayed(_measure)(scoring, y, *answer, sample_weight, options)
        for answer in answers.values()
        for scoring in metrics.values()
    )
    columns = pd.MultiIndex.from_product([metrics, ["value", "low", "high"]])
    values = np.reshape(cells, (len(answers), len(columns)))
    return pd.DataFrame(values, index=list(answers), columns=columns)


def _ask(name, estimator, X):
    """Return the probabilities and the classes of a classifier."""
    if not hasattr(estimator, "predict_proba"):
        raise ValueError(
            "estimators must have predict_proba, got "
            f"{type(estimator).__name__} for {name!r}. Wrap it in a "
            "CalibratedClassifier."
        )
    return estimator.predict_proba(X), np.asarray(estimator.classes_)


def _measure(scoring, y, proba, classes, sample_weight, options):
    """Return a value and the ends of its interval."""
    scorer = get_scorer(scoring)
    metric, sign = metric_of(scorer)
    is_error = metric is not None and interval_kind(metric)[0].is_error
    if not isinstance(scorer, LabelledScorer):
        metric = partial(_ask_scorer, scorer, sign)
    elif len(classes) == 2:
        proba = proba[:, 1]  # which is what a scorer passes to its metric
    data = {"labels": classes, "sample_weight": sample_weight}
    value = metric(y, proba, **data)
    if not options["n_resamples"]:
        return value, np.nan, np.nan
    options = {**options, "method": "debiased" if is_error else "auto"}
    return value, *bootstrap_interval(metric, y, proba, **data, **options)


def _ask_scorer(scorer, sign, y_true, y_proba, *, labels, sample_weight):
    """Return the metric of a scorer that may need predicted labels."""
    classifier = _Answered(labels)
    return sign * scorer(classifier, y_proba, y_true, sample_weight=sample_weight)
