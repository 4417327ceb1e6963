"""Calibration test by consistency resampling, for any metric."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from sklearn_calib._sklearn.metric_options import name_of, with_options
from sklearn_calib._validation.declarations import (
    DRAWS,
    PROGRESS,
    TARGETS,
    interval_kind,
    validate_params,
)
from sklearn_calib._validation.types import Floats, Metric, Options, Seed
from sklearn_calib.metrics._draws import (
    check_number,
    measure_draws,
    take_sample,
)
from sklearn_calib.metrics._hypothesis_tests.spiegelhalter import ALTERNATIVES


class ResamplingResult(NamedTuple):
    """Result of a test with a simulated null distribution."""

    statistic: float
    pvalue: float
    null_distribution: np.ndarray


@validate_params(
    {
        **TARGETS,
        **DRAWS,
        **PROGRESS,
        "alternative": [ALTERNATIVES],
    },
    # The metric checks the other options.
    prefer_skip_nested_validation=False,
)
def consistency_test(
    metric: Metric,
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    alternative: str = "greater",
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    n_resamples: int = 1000,
    random_state: Seed = None,
    n_jobs: int | None = None,
    verbose: int = 0,
    **options: Any,
) -> ResamplingResult:
    r"""Consistency resampling test of calibration, for any metric.

    Labels are drawn repeatedly from the predicted probabilities, and the metric is
    computed for each draw. A small p-value is evidence against calibration. The test is
    exact for any number of samples.

    Parameters
    ----------
    metric : callable
        Metric with the signature `metric(y_true, y_proba, *, labels, sample_weight)`
        that returns a number, such as :func:`expected_calibration_error`. The
        parameters `labels` and `sample_weight` are only needed for labels that are not
        sorted, and for weights.

    y_true : array-like of shape (n_samples,) or (n_samples, n_labels)
        True labels, of any type. A 2-d array is a multilabel indicator matrix of 0 and
        1; the labels are then drawn independently.

    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities. A 1-d array contains the probabilities of the positive
        class.

    alternative : {"greater", "less", "two-sided"}, default="greater"
        Alternative hypothesis: the metric is greater than, less than or different from
        that of calibrated predictions. Use "greater" for calibration errors. Losses and
        scores can deviate in both directions.

    labels : array-like of shape (n_classes,), default=None
        Labels of the columns of `y_proba`. By default, the sorted distinct values of
        `y_true`. Metrics of other packages receive them sorted, with the columns in the
        same order.

    sample_weight : array-like of shape (n_samples,), default=None
        Sample weights, passed to the metric.

    n_resamples : int, default=1000
        Number of random draws.

    random_state : int, RandomState instance or None, default=None
        Controls the random draws. Pass an int for reproducible results.

    n_jobs : int, default=None
        Number of joblib jobs. The p-value does not depend on it.

    verbose : int, default=0
        Verbosity of joblib.

    **options : dict
        Options passed to the metric, such as `n_bins`. For an option with the name of a
        parameter above, pass a `functools.partial` as `metric`.

    Returns
    -------
    result : ResamplingResult
        Named tuple of the `statistic`, which is the value of the metric, the `pvalue`,
        and the `null_distribution`, an ndarray of shape (n_resamples,) with the value
        of each draw.

    Raises
    ------
    TypeError
        If there are weights and the metric does not have the parameter `sample_weight`,
        or it does not return a number, or takes two samples of scores.

    ValueError
        If the metric is undefined for most of the draws, or the input is invalid.

    See Also
    --------
    ece_consistency_bound : Quantile of the null distribution of the ECE.
    bootstrap_interval : Confidence interval of a metric.

    Notes
    -----
    If the classifier is calibrated, the true labels have the same distribution as the
    drawn labels, given the probabilities [1]_. If :math:`k` of :math:`m` draws are at
    least as extreme as the statistic, the p-value is :math:`(1 + k) / (1 + m)`. It is
    below :math:`\alpha` with probability at most :math:`\alpha`. For "two-sided", it is
    twice the smaller of the two one-sided p-values.

    The null hypothesis is that the whole vector of probabilities is calibrated. The
    metric determines which deviations the test can detect.

    References
    ----------
    .. [1] J. Bröcker and L. A. Smith, "Increasing the Reliability of Reliability
       Diagrams", Weather and Forecasting 22, 2007.

    .. [2] J. Vaicenavicius, D. Widmann, C. Andersson, F. Lindsten, J. Roll and T. B.
       Schön, "Evaluating Model Calibration in Classification", AISTATS 2019.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.metrics import consistency_test, ks_calibration_error
    >>> rng = np.random.default_rng(0)
    >>> proba = rng.uniform(size=200)
    >>> y_true = rng.uniform(size=200) < proba  # perfectly calibrated
    >>> test = consistency_test(
    ...     ks_calibration_error, y_true, proba, n_resamples=199, random_state=0
    ... )
    >>> test.pvalue > 0.05
    True
    """
    metric = with_options(metric, options, consistency_test)
    check_takes_labels(metric)
    sample = take_sample(metric, y_true, y_proba, labels, sample_weight, stratify=False)
    statistic = check_number(sample.measure())
    sample = sample.with_classes()
    seeds = check_random_state(random_state).randint(
        np.iinfo(np.int32).max, size=n_resamples
    )
    settings: Options = {"n_jobs": n_jobs, "verbose": verbose}
    null = measure_draws(sample.measure, sample.draw_calibrated, seeds, **settings)
    return ResamplingResult(statistic, tail_pvalue(statistic, null, alternative), null)


def check_takes_labels(metric: Metric) -> None:
    """Raise an error if the metric takes scores instead of labels."""
    if not interval_kind(metric)[0].takes_two_samples:
        return
    raise TypeError(
        f"metric must take labels and probabilities, got {name_of(metric)!r}, which "
        "takes two samples of scores. Use bootstrap_interval."
    )


def tail_pvalue(statistic: float, null: Floats, alternative: str = "greater") -> float:
    """Return the p-value of a statistic, given draws from its null distribution."""
    # Values that differ only by rounding errors count as equal.
    slack = 1e-12 * abs(statistic)
    beyond = {"greater": null >= statistic - slack, "less": null <= statistic + slack}
    pvalue = {
        side: (1 + draws.sum()) / (1 + len(null)) for side, draws in beyond.items()
    }
    both = min(1.0, 2 * min(pvalue.values()))
    return float(pvalue.get(alternative, both))
