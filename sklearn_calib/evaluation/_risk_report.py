"""Risk report: calibration, discrimination and clinical utility of a risk model."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import brier_score_loss, roc_auc_score

from sklearn_calib._numerics.net_benefit import check_thresholds
from sklearn_calib._validation.arrays import shown
from sklearn_calib._validation.clusters import read_clusters
from sklearn_calib._validation.declarations import (
    CLUSTERS,
    DIGITS,
    INTERVAL,
    PROGRESS,
    TARGETS,
    validate_params,
)
from sklearn_calib._validation.fit_warnings import warn, without_warnings
from sklearn_calib._validation.samples import read_samples
from sklearn_calib._validation.types import Array, Ints, Metric, Options, Seed, Weights
from sklearn_calib.metrics import (
    bootstrap_interval,
    calibration_slope,
    integrated_calibration_index,
    net_benefit_score,
)

if TYPE_CHECKING:
    import pandas as pd

# A group may contain one outcome only.
OUTCOMES: Options = {"labels": [False, True]}


@validate_params(
    {
        **TARGETS,
        **CLUSTERS,
        **INTERVAL,
        **DIGITS,
        "thresholds": ["array-like"],
        "groups": ["array-like", None],
        "n_jobs": PROGRESS["n_jobs"],
    }
)
def risk_report(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    thresholds: ArrayLike,
    groups: ArrayLike | None = None,
    confidence_level: float = 0.95,
    pos_label: Any = None,
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
    n_resamples: int = 1000,
    random_state: Seed = None,
    n_jobs: int | None = None,
    digits: int | None = 3,
) -> pd.DataFrame:
    r"""Risk report: calibration, discrimination and net benefit of a risk model.

    The measures that the validation of a clinical prediction model reports, with
    confidence intervals, for all samples and for subgroups.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels of two classes, of any type.

    y_proba : array-like of shape (n_samples, 2) or (n_samples,)
        Predicted probabilities. A 1-d array contains the probabilities of the positive
        class, which is the second of the two labels.

    thresholds : array-like of shape (n_thresholds,)
        Threshold probabilities of the net benefit, in (0, 1). They are clinical
        decisions, so there is no default.

    groups : array-like of shape (n_samples,) or (n_samples, n_features), default=None
        Group of each sample, such as the sex or the hospital. If given, the report
        contains the rows of each group, and those of all samples as the group
        "overall". If there are several columns, each combination of values that occurs
        is a group, and the index has one level for each column and one for the measure.

    confidence_level : float, default=0.95
        Confidence level of the intervals, in (0, 1).

    pos_label : label, default=None
        Label of the positive class, which is the event; a 1-d array then contains the
        probabilities of this class. By default, the second of the two labels.

    labels : array-like of shape (2,), default=None
        Labels of the columns of `y_proba`, such as `estimator.classes_`. By default,
        the sorted distinct values of `y_true`.

    sample_weight : array-like of shape (n_samples,), default=None
        Sample weights.

    clusters : array-like of shape (n_samples,), default=None
        Cluster of each sample, such as the patient, if the samples of a cluster are not
        independent. There should be at least 50 clusters; otherwise, there is a
        warning. By default, all samples are independent.

    n_resamples : int, default=1000
        Number of random draws for each bootstrap interval.

    random_state : int, RandomState instance or None, default=None
        Controls the random draws. Pass an int for reproducible results.

    n_jobs : int, default=None
        Number of joblib jobs for the draws of an interval. The intervals do not depend
        on it.

    digits : int or None, default=3
        Number of decimals to round to, at most 15. If None, values are not rounded.

    Returns
    -------
    report : DataFrame
        One row for each measure, repeated for each group, with the columns "value",
        "low" and "high". The rows are:

        - "observed/expected": number of events divided by the sum of the predicted
          probabilities; 1 is best, and above 1 the risk is underestimated;
        - "calibration-in-the-large" and "calibration slope": intercept (given the slope
          1) and slope of the logistic recalibration; 0 and 1 are best;
        - "ICI": integrated calibration index; lower is better;
        - "AUROC": area under the ROC curve; higher is better;
        - "Brier score": mean squared difference between probability and outcome; lower
          is better;
        - "net benefit at 0.1", one row for each threshold; higher is better.

    Raises
    ------
    ValueError
        If there are not two classes, the labels do not match the columns, `y_proba`
        does not contain probabilities, a threshold is not in (0, 1), or a group is
        named "overall" or has zero weight.

    Warns
    -----
    UndefinedMetricWarning
        If a value or an interval does not exist: because a group contains one outcome
        or one cluster only, too few events, or probabilities that are equal or separate
        the outcomes. It is then NaN.

    See Also
    --------
    calibration_report : Calibration errors for any number of classes.
    compare : Any metrics of several classifiers.
    sklearn_calib.displays.CalibrationBeltDisplay : Calibration curve with a band.
    sklearn_calib.displays.DecisionCurveDisplay : Net benefit over the thresholds.

    Notes
    -----
    With weights :math:`w_i`, outcomes :math:`y_i` and probabilities :math:`p_i`, the
    ratio of observed to expected events is :math:`\sum_i w_i y_i / \sum_i w_i p_i`. The
    intervals of calibration-in-the-large and slope are those of
    :func:`~sklearn_calib.metrics.calibration_slope`, and all others those of
    :func:`~sklearn_calib.metrics.bootstrap_interval`: for the ICI with
    `method="percentile"`, which is approximate. The log-normal interval of the ratio
    [1]_ would not account for weights or clusters.

    References
    ----------
    .. [1] T. P. A. Debray, J. A. A. G. Damen, K. I. E. Snell, J. Ensor, L. Hooft, J. B.
       Reitsma, R. D. Riley and K. G. M. Moons, "A Guide to Systematic Review and
       Meta-Analysis of Prediction Model Performance", BMJ 356, 2017.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.special import expit
    >>> from sklearn_calib.evaluation import risk_report
    >>> rng = np.random.default_rng(0)
    >>> logits = rng.normal(-1, 1, size=500)
    >>> y_true = rng.random(500) < expit(logits)
    >>> y_proba = expit(2 * logits)  # too extreme
    >>> risk_report(
    ...     y_true, y_proba, thresholds=[0.1, 0.2], n_resamples=99, random_state=0
    ... )
                              value    low   high
    observed/expected         1.346  1.146  1.498
    calibration-in-the-large  0.637  0.393  0.881
    calibration slope         0.660  0.521  0.800
    ICI                       0.079  0.054  0.116
    AUROC                     0.795  0.749  0.828
    Brier score               0.169  0.146  0.191
    net benefit at 0.1        0.214  0.166  0.256
    net benefit at 0.2        0.162  0.113  0.197
    """
    from sklearn_calib.evaluation._table import CompleteTable, report_by_group

    data = y_true, y_proba, labels, sample_weight, "positive", pos_label
    value, outcome, weight = read_samples(*data).column()
    draws: Options = {"n_resamples": n_resamples, "random_state": random_state}
    draws |= {"n_jobs": n_jobs, "confidence_level": confidence_level}
    report = partial(_report, thresholds=check_thresholds(thresholds), draws=draws)
    table = report_by_group(report, groups, weight, clusters, value, outcome)
    undefined = table.index[table.isna().any(axis=1)].to_list()
    if undefined:
        warn(
            "The value or the interval is not defined, and set to NaN, for "
            f"{shown(undefined)}. Pass more samples with and without the event, or "
            "merge groups.",
            UndefinedMetricWarning,
        )
    return CompleteTable(table if digits is None else table.round(digits))


def _report(
    value: Array,
    outcome: Array,
    weight: Weights,
    clusters: Ints | None,
    *,
    has_interval: bool,
    thresholds: Array,
    draws: Options,
) -> pd.DataFrame:
    """Return the table of one group of samples."""
    import pandas as pd

    from sklearn_calib.evaluation._table import CELL

    data, options = (outcome, value), {"sample_weight": weight}
    has_both = bool(0 < np.average(outcome, weights=weight) < 1)
    has_interval &= has_both
    clusters = read_clusters(clusters, len(value), weight) if has_interval else None
    settings: Options = {**options, **draws, "clusters": clusters}

    def cell(metric: Metric, method: str = "auto") -> tuple[Any, ...]:
        ends = np.nan, np.nan
        if has_interval:
            with suppress(ValueError):  # it is undefined for too many draws
                ends = bootstrap_interval(metric, *data, method=method, **settings)
        return metric(*data, **options), *ends

    level = draws["confidence_level"]
    given = {**options, **OUTCOMES, "clusters": clusters, "confidence_level": level}
    ici = partial(integrated_calibration_index, **OUTCOMES)
    with without_warnings():  # `risk_report` issues one for all rows
        line = calibration_slope(*data, **given)
        large = line.in_the_large, *line.in_the_large_interval
        rows = {
            "observed/expected": cell(_observed_to_expected),
            "calibration-in-the-large": large,
            "calibration slope": (line.slope, *line.slope_interval),
            "ICI": cell(ici, "percentile"),
            "AUROC": cell(roc_auc_score) if has_both else [np.nan] * 3,
            "Brier score": cell(brier_score_loss),
        }
        for threshold in thresholds:
            at = partial(net_benefit_score, threshold=threshold, **OUTCOMES)
            rows[f"net benefit at {threshold:g}"] = cell(at)
    table = pd.DataFrame.from_dict(rows, orient="index", columns=CELL)
    if not has_interval:
        table[CELL[1:]] = np.nan
    return table


def _observed_to_expected(
    y_true: Array, y_proba: Array, *, sample_weight: Weights = None
) -> Any:
    """Return the ratio of the observed to the expected number of events."""
    observed, expected = (
        np.average(values, weights=sample_weight) for values in (y_true, y_proba)
    )
    with np.errstate(divide="ignore", invalid="ignore"):  # if all probabilities are 0
        return observed / expected
