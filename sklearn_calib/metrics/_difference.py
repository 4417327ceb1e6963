"""Whether two models differ in a metric, on the same data."""

from functools import partial
from typing import NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from sklearn_calib._core.inputs import BETWEEN_0_AND_1, DRAWS, PROGRESS, TARGETS
from sklearn_calib._core.interval_kind import interval_kind
from sklearn_calib._core.validation import check_proba, check_range, validate_params
from sklearn_calib.metrics._bootstrap import bootstrap_interval
from sklearn_calib.metrics._consistency_resampling import refuse_two_samples, tail_share
from sklearn_calib.metrics._hypothesis_tests import ALTERNATIVES
from sklearn_calib.metrics._resampling import (
    Sample,
    check_number,
    draw_all,
    measure_draws,
    take_sample,
)


class DifferenceResult(NamedTuple):
    """What a test of two models returns."""

    statistic: float
    pvalue: float
    low: float
    high: float


class PairedSample(NamedTuple):
    """Two models on the same samples, of which a metric's difference is measured."""

    a: Sample
    b: Sample

    def measure(self, swapped=None, weight=None):
        """Return the difference, with some rows swapped or for other weights."""
        a, b = self.a, self.b
        if swapped is not None:
            swapped = swapped if a.y_proba.ndim == 1 else swapped[:, None]
            a = a._replace(y_proba=np.where(swapped, self.b.y_proba, self.a.y_proba))
            b = b._replace(y_proba=np.where(swapped, self.a.y_proba, self.b.y_proba))
        return a.measure(weight=weight) - b.measure(weight=weight)


@validate_params(
    {
        "metric": [callable],
        "y_true": TARGETS["y_true"],
        "y_proba_a": TARGETS["y_proba"],
        "y_proba_b": TARGETS["y_proba"],
        "labels": TARGETS["labels"],
        "sample_weight": TARGETS["sample_weight"],
        **DRAWS,
        **PROGRESS,
        "alternative": [ALTERNATIVES],
        "confidence_level": BETWEEN_0_AND_1,
    },
    prefer_skip_nested_validation=True,
)
def difference_test(
    metric,
    y_true,
    y_proba_a,
    y_proba_b,
    *,
    alternative="two-sided",
    confidence_level=0.95,
    labels=None,
    sample_weight=None,
    n_resamples=1000,
    random_state=None,
    n_jobs=None,
    verbose=0,
):
    r"""Test whether two models differ in a metric on the same data, and by how much.

    The models trade places in random samples, many times over. A small p-value says
    that which model made which prediction matters to the metric.

    Parameters
    ----------
    metric : callable
        Metric with the signature `metric(y_true, y_proba, *, labels, sample_weight)`
        that returns a number, such as :func:`aurc_loss` or
        :func:`sklearn.metrics.log_loss`; it need not take `labels` if none are given.
        Fix its options by `functools.partial`.

    y_true : array-like of shape (n_samples,) or (n_samples, n_labels)
        True labels, of any kind.

    y_proba_a : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities of one model.

    y_proba_b : array-like of shape (n_samples, n_classes) or (n_samples,)
        Those of the other model, for the same samples and of the same shape.

    alternative : {"two-sided", "greater", "less"}, default="two-sided"
        Whether any difference is looked for, or a larger, or a smaller metric of the
        first model.

    confidence_level : float, default=0.95
        Share of the samples in which the interval holds the difference of the
        population. In (0, 1).

    labels : array-like of shape (n_classes,), default=None
        The label of each column, by default the sorted distinct values of `y_true`.

    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the samples, for the metric.

    n_resamples : int, default=1000
        Number of random draws, for the p-value and for the interval each.

    random_state : int, RandomState instance or None, default=None
        Controls the draws. Pass an int for a repeatable result.

    n_jobs : int, default=None
        Number of draws that are measured at a time, of joblib. The result does not
        depend on it.

    verbose : int, default=0
        The higher, the more joblib tells of the progress.

    Returns
    -------
    result : DifferenceResult
        A named tuple of the `statistic`, which is the metric of the first model minus
        that of the second, the `pvalue`, and the ends `low` and `high` of the
        confidence interval for the difference.

    Raises
    ------
    TypeError
        If the metric takes no `sample_weight`, returns no number, or is one of two
        samples of scores.

    ValueError
        If the two models' probabilities differ in shape, or the metric is not defined
        for most of the draws, or refuses its input.

    See Also
    --------
    bootstrap_interval : Interval for the metric of one model.

    Notes
    -----
    The null hypothesis of the p-value is that the models may trade places: given the
    true labels, that A says p and B says q is as likely as the reverse. The test of it
    is exact: with :math:`k` of :math:`m` draws as extreme it is
    :math:`(1 + k) / (1 + m)`, and for "two-sided" twice that of the more extreme side.
    For means over the samples, such as log loss and Brier score, a small value says
    that their means differ. A calibration error is no mean: the draws are of mixtures
    of both models, and where one is too sure and the other too unsure by as much, or
    one is sharper than the other, the models may not trade places and yet have the same
    error. Ask the interval, then: the errors differ if it does not hold 0.

    The interval is that of the percentiles of the bootstrap, in which both models are
    measured on the same draws. The calibration errors of this package are estimated too
    large, and the more so the closer a model is to being calibrated: from the errors
    :math:`T_A, T_B` and their intervals by :func:`bootstrap_interval` the interval of
    the difference is recovered by equation 4 of [2]_, the lower end as :math:`T_A - T_B
    - \sqrt{(T_A - l_A)^2 + (u_B - T_B)^2}`. What both errors share is not made use of,
    and the interval rather too wide. A p-value below 0.05 and an interval that holds 0
    do not contradict each other, then.

    References
    ----------
    .. [1] M. D. Ernst, "Permutation Methods: A Basis for Exact Inference", Statistical
       Science 19, 2004.

    .. [2] G. Y. Zou and A. Donner, "Construction of Confidence Limits about Effect
       Measures: A General Approach", Statistics in Medicine 27, 2008.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.metrics import log_loss
    >>> from sklearn_calib.metrics import difference_test
    >>> rng = np.random.default_rng(0)
    >>> proba = rng.uniform(size=500)
    >>> y_true = rng.uniform(size=500) < proba
    >>> result = difference_test(
    ...     log_loss, y_true, proba, proba**2, n_resamples=199, random_state=0
    ... )
    >>> result.statistic < 0, result.pvalue < 0.05, result.high < 0
    (True, True, True)
    """
    refuse_two_samples(metric)
    a, b = (
        take_sample(
            metric, y_true, proba, labels, sample_weight, stratify=False, name=name
        )
        for name, proba in {"y_proba_a": y_proba_a, "y_proba_b": y_proba_b}.items()
    )
    _check_values(a, "y_proba_a")
    _check_values(b, "y_proba_b")
    if a.y_proba.shape != b.y_proba.shape:
        raise ValueError(
            "y_proba_b must have the shape of y_proba_a, got "
            f"{b.y_proba.shape} and {a.y_proba.shape}. Pass predictions of the same "
            "samples and classes."
        )
    pair = PairedSample(a, b)
    statistic = check_number(pair.measure())
    rng = check_random_state(random_state)
    seeds = rng.randint(np.iinfo(np.int32).max, size=(2, n_resamples))
    progress = {"n_jobs": n_jobs, "verbose": verbose}
    null = measure_draws(
        pair, partial(_draw_swapped, len(a.weight)), seeds[0], **progress
    )
    if interval_kind(metric)[0].is_error:
        options = {
            "confidence_level": confidence_level,
            "labels": labels,
            "sample_weight": sample_weight,
            "n_resamples": n_resamples,
            "random_state": rng,
        }
        intervals = [
            bootstrap_interval(metric, y_true, proba, **options, **progress)
            for proba in (y_proba_a, y_proba_b)
        ]
        low, high = _recovered_ends((a.measure(), b.measure()), intervals)
    else:
        draws = measure_draws(pair, partial(draw_all, a), seeds[1], **progress)
        tail = (1 - confidence_level) / 2
        low, high = map(float, np.quantile(draws, [tail, 1 - tail]))
    return DifferenceResult(
        statistic, tail_share(statistic, null, alternative), low, high
    )


def _check_values(sample, name):
    """Refuse what is not probabilities by its name, which the metric does not know."""
    if sample.y_true.ndim == 1:
        check_proba(sample.y_proba, name=name, allow_1d=True)
    else:
        check_range(sample.y_proba.min(), sample.y_proba.max(), name)


def _draw_swapped(n_samples, seed):
    """Draw the samples in which the models trade places."""
    rng = np.random.default_rng(seed)
    return {"swapped": rng.integers(2, size=n_samples, dtype=bool)}


def _recovered_ends(values, intervals):
    """Return an interval of the difference of two errors, given their intervals.

    What lies between an error and an end of its interval stands for its spread there.
    """
    (value_a, value_b), ((low_a, high_a), (low_b, high_b)) = values, intervals
    low = value_a - value_b - np.hypot(value_a - low_a, high_b - value_b)
    high = value_a - value_b + np.hypot(high_a - value_a, value_b - low_b)
    return float(low), float(high)
