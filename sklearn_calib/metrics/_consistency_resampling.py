"""A test of calibration by any metric: consistency resampling."""

from functools import partial
from typing import NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from sklearn_calib._core.inputs import DRAWS, PROGRESS, TARGETS
from sklearn_calib._core.interval_kind import interval_kind
from sklearn_calib._core.validation import validate_params
from sklearn_calib.metrics._hypothesis_tests import ALTERNATIVES
from sklearn_calib.metrics._resampling import (
    check_number,
    draw_calibrated,
    label_sampler,
    measure_draws,
    name_the_classes,
    take_sample,
)


class ResamplingResult(NamedTuple):
    """What a test by random draws returns."""

    statistic: float
    pvalue: float
    null_distribution: np.ndarray


@validate_params(
    {
        "metric": [callable],
        **TARGETS,
        **DRAWS,
        **PROGRESS,
        "alternative": [ALTERNATIVES],
    },
    prefer_skip_nested_validation=True,
)
def consistency_test(
    metric,
    y_true,
    y_proba,
    *,
    alternative="greater",
    labels=None,
    sample_weight=None,
    n_resamples=1000,
    random_state=None,
    n_jobs=None,
    verbose=0,
):
    r"""Test whether a metric is what calibrated predictions would have.

    Labels are drawn from the probabilities many times over, and the metric is measured
    on each draw. A small p-value says that the predictions are not calibrated. The test
    is exact, however few the samples.

    Parameters
    ----------
    metric : callable
        Metric with the signature `metric(y_true, y_proba, *, labels, sample_weight)`
        that returns a number, such as :func:`expected_calibration_error`; it need not
        take `labels` if none are given. Fix its options by `functools.partial`.

    y_true : array-like of shape (n_samples,) or (n_samples, n_labels)
        True labels, of any kind; 0 or 1 for each of several labels, which are then
        drawn each by itself.

    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities. A 1-d array holds those of the positive class.

    alternative : {"greater", "less", "two-sided"}, default="greater"
        Which values of the metric speak against calibration. Errors are then greater;
        of losses and of scores both sides may be.

    labels : array-like of shape (n_classes,), default=None
        The label of each column, by default the sorted distinct values of `y_true`.

    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the samples, for the metric.

    n_resamples : int, default=1000
        Number of random draws.

    random_state : int, RandomState instance or None, default=None
        Controls the draws. Pass an int for a repeatable p-value.

    n_jobs : int, default=None
        Number of draws that are measured at a time, of joblib. The p-value does not
        depend on it.

    verbose : int, default=0
        The higher, the more joblib tells of the progress.

    Returns
    -------
    result : ResamplingResult
        A named tuple of the `statistic`, which is the metric, the `pvalue`, and the
        `null_distribution`, an ndarray of shape (n_resamples,) with the metric of each
        draw.

    Raises
    ------
    TypeError
        If the metric takes no `sample_weight`, returns no number, or is one of two
        samples of scores.

    ValueError
        If the metric is not defined for most of the draws, or refuses its input.

    See Also
    --------
    ece_consistency_bound : The quantile of such draws for errors with bins.
    bootstrap_interval : How far the metric may be from that of the population.

    Notes
    -----
    Given the probabilities of a calibrated classifier, the true labels are such a draw
    themselves [1]_. With :math:`k` of :math:`m` draws at least as extreme, the p-value
    is :math:`(1 + k) / (1 + m)`, and below :math:`\alpha` in no more than that share of
    the samples. For "two-sided" it is twice that of the more extreme side.

    It is the whole vector of probabilities that must be calibrated; the metric says
    which deviations from that are seen.

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
    >>> test = consistency_test(ks_calibration_error, y_true, proba, random_state=0)
    >>> test.pvalue > 0.05
    True
    """
    refuse_two_samples(metric)
    sample = take_sample(metric, y_true, y_proba, labels, sample_weight, stratify=False)
    statistic = check_number(sample.measure())
    sample = name_the_classes(sample)
    sampler = label_sampler(sample)
    seeds = check_random_state(random_state).randint(
        np.iinfo(np.int32).max, size=n_resamples
    )
    draw = partial(draw_calibrated, sampler)
    null = measure_draws(sample, draw, seeds, n_jobs=n_jobs, verbose=verbose)
    return ResamplingResult(statistic, tail_share(statistic, null, alternative), null)


def refuse_two_samples(metric):
    """Refuse metrics that are given no labels."""
    if not interval_kind(metric)[0].takes_two_samples:
        return
    name = getattr(metric, "func", metric).__name__
    raise TypeError(
        f"metric must be one of labels and probabilities, got {name!r}, which is one "
        "of two samples of scores. Ask bootstrap_interval about it."
    )


def tail_share(statistic, null, alternative="greater"):
    """Return the p-value of a statistic, given draws from its law under the null."""
    # Draws that differ by rounding only are as extreme.
    slack = 1e-12 * abs(statistic)
    beyond = {"greater": null >= statistic - slack, "less": null <= statistic + slack}
    share = {
        side: (1 + draws.sum()) / (1 + len(null)) for side, draws in beyond.items()
    }
    both = min(1.0, 2 * min(share.values()))
    return float(share.get(alternative, both))
