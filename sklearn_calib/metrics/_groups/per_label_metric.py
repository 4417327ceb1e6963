"""Binary metrics for multilabel problems."""

from __future__ import annotations

from functools import partial
from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from sklearn_calib._sklearn.metric_options import as_number, check_options
from sklearn_calib._validation.declarations import (
    BETWEEN_0_AND_1,
    DRAWS,
    PROGRESS,
    StrOptions,
    declare_interval,
    validate_params,
)
from sklearn_calib._validation.labels import known_samples
from sklearn_calib._validation.samples import read_labels
from sklearn_calib._validation.types import Array, Metric, Options, Seed
from sklearn_calib.metrics._intervals.bootstrap import interval_or_nan

if TYPE_CHECKING:
    import pandas as pd


@declare_interval(takes_metric=True)
@validate_params(
    {
        "y_true": ["array-like"],
        "y_proba": ["array-like"],
        "average": [StrOptions({"macro"}), None],
        "confidence_level": [*BETWEEN_0_AND_1, None],
        **DRAWS,
        **PROGRESS,
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
    confidence_level: float | None = None,
    n_resamples: int = 1000,
    random_state: Seed = None,
    n_jobs: int | None = None,
    verbose: int = 0,
    **options: Any,
) -> float | Array | pd.DataFrame:
    """Compute a metric for each label of a multilabel problem.

    Each label is a binary problem: a sample has the label or not.

    Parameters
    ----------
    metric : callable
        Metric with the signature `metric(y_true, y_proba, **options)` that takes the
        probabilities of the positive class and returns a number, such as
        :func:`expected_calibration_error` or :func:`sklearn.metrics.roc_auc_score`.

    y_true : array-like of shape (n_samples, n_labels)
        True labels as an indicator matrix: 1 if the sample has the label, otherwise 0,
        or NaN if this is not known. Each label is evaluated on the samples for which it
        is known.

    y_proba : array-like of shape (n_samples, n_labels) or list
        Predicted probability of each label. Rows need not sum to one. A list contains
        an array of shape (n_samples, 2) for each label, as
        :class:`sklearn.multioutput.MultiOutputClassifier` predicts.

    average : {"macro"} or None, default="macro"
        Whether to return the mean over the labels, or with None the value of each
        label.

    confidence_level : float, default=None
        Confidence level, in (0, 1), of the interval of each value, which
        :func:`bootstrap_interval` computes. If given, the result is a table. By
        default, no intervals are computed.

    n_resamples : int, default=1000
        Number of random draws for each interval.

    random_state : int, RandomState instance or None, default=None
        Controls the random draws. Pass an int for reproducible results.

    n_jobs : int, default=None
        Number of joblib jobs for the draws of an interval. The intervals do not depend
        on it.

    verbose : int, default=0
        Verbosity of joblib, which reports the draws of each label.

    **options : dict
        Options passed to the metric, such as `n_bins` and `sample_weight`, which may
        also have shape (n_samples, n_labels). For an option with the name of a
        parameter above, pass a `functools.partial` as `metric`.

    Returns
    -------
    value : float, ndarray of shape (n_labels,) or DataFrame
        Mean over the labels, or with `average=None` the value of each label. With
        `confidence_level`, a table with the columns "value", "low" and "high". It has a
        row for each label, named by the column of a DataFrame or its number, and with
        `average="macro"` the row "macro". Limits are NaN for labels with too few
        samples for an interval.

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

    A label with calibrated probabilities and one with overconfident ones, with
    intervals that are corrected for the bias of calibration errors:

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> y_proba = rng.uniform(size=(300, 2))
    >>> y_true = rng.uniform(size=(300, 2)) < y_proba ** [1, 2]
    >>> per_label(
    ...     expected_calibration_error,
    ...     y_true,
    ...     y_proba,
    ...     confidence_level=0.95,
    ...     n_resamples=100,
    ...     random_state=0,
    ... ).round(3)
           value    low   high
    0      0.076  0.000  0.116
    1      0.161  0.071  0.210
    macro  0.118  0.000  0.168
    """
    check_options(metric, options, per_label)
    names, y_true, y_proba, _ = read_labels(y_true, y_proba, allow_nan=True)
    metric = partial(metric, **options)  # a copy, whose keywords may be changed
    weight = metric.keywords.pop("sample_weight", None)
    of_one = metric
    if "labels" in signature(metric).parameters:
        of_one = partial(metric, **{"labels": [0, 1], **metric.keywords})
    samples = [
        (y, proba, {} if w is None else {"sample_weight": w})
        for y, proba, w in known_samples(y_true, y_proba, weight)
    ]
    read = as_number if average == "macro" else np.asarray
    values = np.array([read(of_one(y, proba, **w)) for y, proba, w in samples])
    mean = float(values.mean()) if average == "macro" else None
    if confidence_level is None:
        return values if mean is None else mean

    if mean is not None and np.ndim(weight) > 1:
        raise ValueError(
            "average must be None for intervals with a weight for each label, got "
            "'macro', because samples are drawn with all their labels. Use "
            "average=None, or one weight for each sample."
        )

    import pandas as pd

    draws: Options = {"n_resamples": n_resamples, "random_state": random_state}
    draws |= {"n_jobs": n_jobs, "verbose": verbose}
    draws |= {"confidence_level": confidence_level}
    rows = [
        (value, *interval_or_nan(of_one, y, proba, **w, **draws))
        for value, (y, proba, w) in zip(values, samples, strict=True)
    ]
    index = names
    if mean is not None:
        every = partial(per_label, metric)
        draws["sample_weight"] = weight
        rows.append((mean, *interval_or_nan(every, y_true, y_proba, **draws)))
        index = [*index, "macro"]
    labels = pd.Index(index, dtype=object)
    return pd.DataFrame(rows, index=labels, columns=["value", "low", "high"])
