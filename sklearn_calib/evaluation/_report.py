"""The calibration of every class, and of the predicted one, in a table."""

from numbers import Integral

import numpy as np

from sklearn_calib._core.groups import group_members
from sklearn_calib._core.inputs import (
    BETWEEN_0_AND_1,
    BINS,
    DRAWS,
    TARGETS,
    as_columns,
    check_targets,
    classes_of,
    confidence_and_hit,
)
from sklearn_calib._core.validation import (
    Interval,
    check_sample_weight,
    validate_params,
)
from sklearn_calib.metrics import (
    ece_interval,
    expected_calibration_error,
    maximum_calibration_error,
    smooth_expected_calibration_error,
)


@validate_params(
    {
        **TARGETS,
        **BINS,
        **DRAWS,
        "groups": ["array-like", None],
        "confidence_level": [*BETWEEN_0_AND_1, None],
        "digits": [Interval(Integral, 0, 15, closed="both"), None],
    },
    prefer_skip_nested_validation=True,
)
def calibration_report(
    y_true,
    y_proba,
    *,
    n_bins=15,
    strategy="uniform",
    groups=None,
    confidence_level=None,
    labels=None,
    sample_weight=None,
    n_resamples=1000,
    random_state=None,
    digits=3,
):
    """Measure the calibration of every class and of the predicted one, as a table.

    What :func:`sklearn.metrics.classification_report` is for predicted labels. Of all
    errors 0 is best.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels, of any kind.

    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities. A 1-d array holds those of the positive class; the
        other class has a row too.

    n_bins : int or "cube_root", default=15
        Number of bins of "ece" and "mce", or the cube root of the number of samples,
        rounded up.

    strategy : {"uniform", "quantile"}, default="uniform"
        Bins of equal width, or of equal numbers of samples as far as ties allow.

    groups : array-like of shape (n_samples,) or (n_samples, n_features), default=None
        Group of each sample. The table is then one of each group, and "overall"; its
        rows have a level of names for each feature, and that of the class.

    confidence_level : float, default=None
        Adds the interval of "ece" by :func:`~sklearn_calib.metrics.ece_interval` at
        this level, in (0, 1), as columns "ece_low" and "ece_high". There is none for
        the weighted average, which is shown as NaN.

    labels : array-like of shape (n_classes,), default=None
        The label of each column, by default the sorted distinct values of `y_true`.

    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the samples.

    n_resamples : int, default=1000
        Number of random draws for each interval.

    random_state : int, RandomState instance or None, default=None
        Controls the draws. Pass an int for repeatable intervals.

    digits : int or None, default=3
        Number of decimals that values are rounded to, at most 15; None leaves them as
        they are.

    Returns
    -------
    report : DataFrame
        One row for each class, then "macro avg", "weighted avg", by support, and "top
        label"; with `groups` of each group. The columns are "mean_proba", the mean
        probability of the class, and "frequency", how often it came true; the errors
        "ece", "mce" and "smooth_ece"; "brier", the mean squared distance of the
        probability and the outcome; and "support", the number of samples of the class,
        weighted if they are. For the top label the outcome is that the prediction is
        right, so that its frequency is the accuracy.

    Raises
    ------
    ValueError
        If the labels do not match the columns, or `y_proba` holds anything but
        probabilities, or there is not one group for each sample, or one is called
        "overall" or has no weight.

    ImportError
        If pandas is not installed.

    See Also
    --------
    compare : Many classifiers and one row for each.
    sklearn_calib.metrics.per_group : Any metric for groups of samples.

    Notes
    -----
    The "ece" of "macro avg" is
    :func:`~sklearn_calib.metrics.classwise_calibration_error`, and that of "top label"
    :func:`~sklearn_calib.metrics.expected_calibration_error` of a matrix. A class that
    is absent from the samples has a frequency of 0.

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
    import pandas as pd

    proba, codes, weight = check_targets(y_true, y_proba, labels, sample_weight)
    names = list(classes_of(y_true, labels))
    options = {"n_bins": n_bins, "strategy": strategy}
    interval = {"n_resamples": n_resamples, "random_state": random_state}
    interval["confidence_level"] = confidence_level

    def report(rows):
        part = None if weight is None else weight[rows]
        part = check_sample_weight(part, codes[rows])
        data = as_columns(proba[rows]), codes[rows], part
        return _report(*data, names, options, interval)

    if groups is None:
        table = report(slice(None))
    else:
        members = group_members(groups, len(codes))
        first, overall = next(iter(members)), "overall"
        if isinstance(first, tuple):
            overall = overall, *[""] * (len(first) - 1)
        members[overall] = slice(None)
        tables = [report(rows) for rows in members.values()]
        table = pd.concat(tables, keys=list(members))
    return table if digits is None else table.round(digits)


def _report(proba, codes, weight, names, options, interval):
    """Return the table of all samples of a group."""
    import pandas as pd

    options = {**options, "sample_weight": weight}
    hits = codes[:, None] == np.arange(proba.shape[1])
    rows = [
        _row(*pair, options, interval) for pair in zip(proba.T, hits.T, strict=True)
    ]
    table = pd.DataFrame(rows, index=pd.Index(names, dtype=object))
    support = hits.sum(axis=0) if weight is None else weight @ hits
    averages = pd.DataFrame(
        [table.mean(), (table * support[:, None]).sum() / support.sum()],
        index=["macro avg", "weighted avg"],
    )
    if interval["confidence_level"] is not None:
        labels = range(proba.shape[1])
        classwise = {**options, **interval, "mode": "classwise", "labels": labels}
        bounds = ece_interval(codes, proba, **classwise), (np.nan, np.nan)
        averages[["ece_low", "ece_high"]] = bounds
    top = _row(*confidence_and_hit(proba, codes, "top_label"), options, interval)
    table = pd.concat([table, averages, pd.DataFrame([top], index=["top label"])])
    table["support"] = [*support, *[support.sum()] * 3]
    return table


def _row(proba, hit, options, interval):
    """Return the measures of probabilities that come true or not, by their names."""
    weight = options["sample_weight"]
    data = {"y_true": hit, "y_proba": proba, "labels": [False, True]}
    row = {
        "mean_proba": np.average(proba, weights=weight),
        "frequency": np.average(hit, weights=weight),
        "ece": expected_calibration_error(**data, **options),
    }
    if interval["confidence_level"] is not None:
        bounds = ece_interval(**data, **options, **interval)
        row |= zip(("ece_low", "ece_high"), bounds, strict=True)
    return row | {
        "mce": maximum_calibration_error(**data, **options),
        "smooth_ece": smooth_expected_calibration_error(**data, sample_weight=weight),
        "brier": np.average((proba - hit) ** 2, weights=weight),
    }
