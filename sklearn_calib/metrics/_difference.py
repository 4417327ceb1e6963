"""Whether two models differ in a metric, on the same data."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import norm
from sklearn.utils import check_random_state

from sklearn_calib._core.inputs import BETWEEN_0_AND_1, DRAWS, PROGRESS, TARGETS
from sklearn_calib._core.interval_kind import interval_kind
from sklearn_calib._core.limits import check_range
from sklearn_calib._core.typing import Array, Metric, Options, Seed, Weights
from sklearn_calib._core.validation import check_proba, validate_params
from sklearn_calib.metrics._consistency_resampling import refuse_two_samples, tail_share
from sklearn_calib.metrics._hypothesis_tests import ALTERNATIVES
from sklearn_calib.metrics._resampling import (
    Sample,
    check_number,
    draw_all,
    measure_draws,
    take_sample,
)
from sklearn_calib.metrics._split_error import ErrorExcess, gap_error, has_bounds

# The bounds of calibration errors are means over so many ways to deal the folds.
N_SPLITS = 20


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

    def measure(self, swapped: Array | None = None, weight: Weights = None) -> float:
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
    metric: Metric,
    y_true: ArrayLike,
    y_proba_a: ArrayLike,
    y_proba_b: ArrayLike,
    *,
    alternative: str = "two-sided",
    confidence_level: float = 0.95,
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    n_resamples: int = 1000,
    random_state: Seed = None,
    n_jobs: int | None = None,
    verbose: int = 0,
) -> DifferenceResult:
    r"""Test whether two models differ in a metric on the same data, and by how much.

    A small p-value says that the metric of one model is larger in the population.
    Calibration errors without a valid test are refused.

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
        Number of random draws, for the p-value and for the interval. Calibration errors
        need none.

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
        for most of the draws, or refuses its input, or is a calibration error that has
        no valid test.

    See Also
    --------
    bootstrap_interval : Interval for the metric of one model.

    Notes
    -----
    For metrics that are not calibration errors, the null hypothesis of the p-value is
    that the models may trade places: given the true labels, that A says p and B says q
    is as likely as the reverse. The models trade places in random samples, many times
    over, and with :math:`k` of :math:`m` draws as extreme the p-value is :math:`(1 + k)
    / (1 + m)`, and for "two-sided" twice that of the more extreme side [1]_. For means
    over the samples, such as log loss and Brier score, a small value says that their
    means differ. The interval is that of the percentiles of the bootstrap, in which
    both models are measured on the same draws.

    For calibration errors the null hypothesis is that the errors :math:`E_A, E_B` of
    the population are equal. Plain estimates :math:`T` of errors are too large on
    average, and the more so the closer a model is to being calibrated, so their
    difference tells little. Samples are dealt to five folds: the mean of the gaps, with
    the signs that they have in the other four folds, is an estimate :math:`S` that is
    too small on average, as signs may be wrong. "greater" is tested by :math:`S_A -
    T_B`, whose mean is at most :math:`E_A - E_B`, "less" by :math:`S_B - T_A`, and
    "two-sided" by both, with twice the smaller p-value. Both are means over 20 ways to
    deal the folds, with a normal law whose standard error is that of the influences of
    the samples on :math:`T_A - T_B`. The ends of the interval are the same bounds, less
    and plus the quantile of this law: it does not hold 0 where the p-value is small.

    The test is thus valid if gaps are too small to be seen, but then it sees little:
    fewer bins or more samples help. Bins of equal width and of equal numbers have it,
    with any norm, where derivatives of the norm take the place of signs, and so has
    :func:`ks_calibration_error`, a norm of cumulated gaps. Calibration errors of other
    packages are not known as such, and tested like means, which is not valid.

    References
    ----------
    .. [1] M. D. Ernst, "Permutation Methods: A Basis for Exact Inference", Statistical
       Science 19, 2004.

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
    _check_has_test(metric)
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
    progress: Options = {"n_jobs": n_jobs, "verbose": verbose}
    tail = (1 - confidence_level) / 2
    if interval_kind(metric)[0].is_error:
        splits = rng.randint(np.iinfo(np.int32).max, size=N_SPLITS)
        errors = gap_error(a), gap_error(b)
        excess = ErrorExcess(*errors, a.weight / a.weight.mean())
        # A scale of zero is none.
        law = norm(scale=excess.standard_error(rng) or np.finfo(float).tiny)
        bounds = [
            measure_draws(each, each.split, splits, **progress).mean()
            for each in (excess, ErrorExcess(*errors[::-1], excess.weight))
        ]
        greater, less = map(float, law.sf(bounds))
        both = min(1.0, 2 * min(greater, less))
        pvalue = {"greater": greater, "less": less}.get(alternative, both)
        low, high = bounds[0] + law.ppf(tail), -bounds[1] - law.ppf(tail)
    else:
        draw = partial(_draw_swapped, len(a.weight))
        null = measure_draws(pair, draw, seeds[0], **progress)
        draws = measure_draws(pair, partial(draw_all, a), seeds[1], **progress)
        low, high = np.quantile(draws, [tail, 1 - tail])
        pvalue = tail_share(statistic, null, alternative)
    return DifferenceResult(statistic, pvalue, float(low), float(high))


def _check_has_test(metric: Metric) -> None:
    """Refuse calibration errors without a valid test of their difference."""
    if not interval_kind(metric)[0].is_error or has_bounds(metric):
        return
    name = getattr(metric, "func", metric).__name__
    raise ValueError(
        "metric must be a loss, a score, a calibration error of bins that labels do "
        f"not move, or ks_calibration_error, got {name!r} with these options. Pass one "
        "of these, or compare the intervals that bootstrap_interval returns for both "
        "models."
    )


def _check_values(sample: Sample, name: str) -> None:
    """Refuse what is not probabilities by its name, which the metric does not know."""
    if sample.y_true.ndim == 1:
        check_proba(sample.y_proba, name=name, allow_1d=True)
    else:
        check_range(sample.y_proba.min(), sample.y_proba.max(), name)


def _draw_swapped(n_samples: int, seed: int) -> dict[str, Array]:
    """Draw the samples in which the models trade places."""
    rng = np.random.default_rng(seed)
    return {"swapped": rng.integers(2, size=n_samples, dtype=bool)}
