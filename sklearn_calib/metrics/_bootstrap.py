"""The bootstrap, for metrics that it suits."""

import numpy as np
from sklearn.utils import check_random_state

from sklearn_calib._core.validation import (
    as_proba_array,
    check_sample_weight,
    validate_params,
)
from sklearn_calib.metrics._calibration_error import (
    expected_calibration_error,
    maximum_calibration_error,
)
from sklearn_calib.metrics._classwise_error import classwise_calibration_error
from sklearn_calib.metrics._targets import BETWEEN_0_AND_1, DRAWS, TARGETS

CALIBRATION_ERRORS = {
    classwise_calibration_error,
    expected_calibration_error,
    maximum_calibration_error,
}


@validate_params(
    {
        "metric": [callable],
        **TARGETS,
        **DRAWS,
        "confidence_level": BETWEEN_0_AND_1,
    },
    prefer_skip_nested_validation=True,
)
def bootstrap_interval(
    metric,
    y_true,
    y_proba,
    *,
    confidence_level=0.95,
    labels=None,
    sample_weight=None,
    n_resamples=1000,
    random_state=None,
):
    """Percentile bootstrap interval for a metric that is a smooth mean, such as AURC.

    The samples are drawn with replacement, as weights, and the metric is measured each
    time. For a calibration error take :func:`ece_interval`.

    Parameters
    ----------
    metric : callable
        Metric with the signature `metric(y_true, y_proba, *, labels, sample_weight)`,
        such as :func:`aurc_loss` or :func:`sklearn.metrics.log_loss`.

    y_true : array-like of shape (n_samples,)
        True labels, of any kind.

    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities.

    confidence_level : float, default=0.95
        Share of the samples in which the interval holds the value of the population.
        In (0, 1).

    labels : array-like of shape (n_classes,), default=None
        The label of each column, by default the sorted distinct values of `y_true`.

    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the samples.

    n_resamples : int, default=1000
        Number of random draws.

    random_state : int, RandomState instance or None, default=None
        Controls the draws. Pass an int for a repeatable interval.

    Returns
    -------
    low, high : float
        Ends of the interval.

    Raises
    ------
    ValueError
        If the metric is a calibration error.

    References
    ----------
    .. [1] B. Efron and R. J. Tibshirani, "An Introduction to the Bootstrap", 1993.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.metrics import log_loss
    >>> from sklearn_calib.metrics import bootstrap_interval
    >>> rng = np.random.default_rng(0)
    >>> y_proba = rng.uniform(size=500)
    >>> y_true = rng.uniform(size=500) < y_proba
    >>> low, high = bootstrap_interval(log_loss, y_true, y_proba, random_state=0)
    >>> low < log_loss(y_true, y_proba) < high
    True
    """
    if metric in CALIBRATION_ERRORS:
        raise ValueError(
            "metric must not be a calibration error, whose bias a bootstrap doubles, "
            f"got {metric.__name__}. Use ece_interval instead."
        )
    proba = as_proba_array(y_proba, allow_1d=True)
    weight = check_sample_weight(sample_weight, proba)
    weight = np.ones(len(proba)) if weight is None else weight
    rng = check_random_state(random_state)
    values = np.empty(n_resamples)
    for draw in range(n_resamples):
        drawn = rng.randint(len(proba), size=len(proba))
        times = np.bincount(drawn, minlength=len(proba))
        values[draw] = metric(
            y_true, proba, labels=labels, sample_weight=weight * times
        )
    tail = (1 - confidence_level) / 2
    low, high = np.quantile(values, [tail, 1 - tail])
    return float(low), float(high)
