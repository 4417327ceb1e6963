"""Bootstrap confidence intervals for any metric, debiased for errors."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri
from sklearn.utils import check_random_state

from sklearn_calib._sklearn.metric_options import with_options
from sklearn_calib._validation.declarations import (
    CLUSTERS,
    INTERVAL,
    PROGRESS,
    TARGETS,
    IntervalKind,
    StrOptions,
    interval_kind,
    validate_params,
)
from sklearn_calib._validation.fit_warnings import without_warnings
from sklearn_calib._validation.types import Floats, Metric, Options, Seed
from sklearn_calib.metrics._draws import (
    Resample,
    check_number,
    measure_draws,
    take_sample,
)
from sklearn_calib.metrics._intervals.ece_interval import ece_interval

METHODS = {"auto", "basic", "bca", "debiased", "percentile"}


@validate_params(
    {
        **TARGETS,
        **INTERVAL,
        **CLUSTERS,
        **PROGRESS,
        "method": [StrOptions(METHODS)],
        "stratify": ["boolean"],
    },
    # The metric checks the other options.
    prefer_skip_nested_validation=False,
)
def bootstrap_interval(
    metric: Metric,
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    confidence_level: float = 0.95,
    method: str = "auto",
    stratify: bool = False,
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
    n_resamples: int = 1000,
    random_state: Seed = None,
    n_jobs: int | None = None,
    verbose: int = 0,
    **options: Any,
) -> tuple[float, float]:
    r"""Bootstrap confidence interval for any metric.

    The samples are resampled repeatedly, and the metric is computed for each draw. For
    calibration errors, the interval is corrected for their bias, and can contain 0.

    Parameters
    ----------
    metric : callable
        Metric with the signature `metric(y_true, y_proba, *, labels, sample_weight)`
        that returns a number, such as :func:`aurc_loss` or
        :func:`sklearn.metrics.log_loss`. The parameters `labels` and `sample_weight`
        are only needed for labels that are not sorted, and for weights. For metrics of
        two samples of scores, such as :func:`ood_auroc_score`, pass the scores as
        `y_true` and `y_proba`.

    y_true : array-like of shape (n_samples,) or (n_samples, n_labels)
        True labels, of any type, or any other first argument of the metric.

    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities.

    confidence_level : float, default=0.95
        Confidence level of the interval, in (0, 1).

    method : {"auto", "percentile", "basic", "bca", "debiased"}, default="auto"
        Method of the interval. "percentile": quantiles of the draws. "basic": these
        quantiles, reflected about the value. "bca": quantiles corrected for bias and
        skewness, as in :func:`scipy.stats.bootstrap`. "debiased": the method for
        calibration errors. "auto" is "debiased" for the calibration errors of this
        package, for which the other methods are not valid, and "bca" for all other
        metrics.

    stratify : bool, default=False
        Whether to resample each class separately, so that the class counts are fixed.

    labels : array-like of shape (n_classes,), default=None
        Labels of the columns of `y_proba`. By default, the sorted distinct values of
        `y_true`. Metrics of other packages receive them sorted, with the columns in the
        same order.

    sample_weight : array-like of shape (n_samples,), default=None
        Sample weights. A sample is one observation, whatever its weight.

    clusters : array-like of shape (n_samples,), default=None
        Cluster of each sample, such as the patient, if the samples of a cluster are not
        independent. Whole clusters are then resampled. There should be at least
        50; otherwise, there is a warning. By default, all samples are independent.

    n_resamples : int, default=1000
        Number of random draws.

    random_state : int, RandomState instance or None, default=None
        Controls the random draws. Pass an int for reproducible results.

    n_jobs : int, default=None
        Number of joblib jobs. The interval does not depend on it.

    verbose : int, default=0
        Verbosity of joblib.

    **options : dict
        Options passed to the metric, such as `n_bins`. For an option with the name of a
        parameter above, pass a `functools.partial` as `metric`.

    Returns
    -------
    low, high : float
        Limits of the interval.

    Raises
    ------
    TypeError
        If there are weights and the metric does not have the parameter `sample_weight`,
        or it does not return a number.

    ValueError
        If the method is not valid for calibration errors, or the metric is undefined
        for most of the draws.

    See Also
    --------
    ece_interval : Confidence interval of calibration errors with bins.
    ece_consistency_bound : Quantile of the ECE of a perfectly calibrated classifier.

    Notes
    -----
    Draws are represented by weights, or by repeated samples for a metric without the
    parameter `sample_weight`. Such a metric must not use other arrays with a value for
    each sample, such as groups, because only labels and probabilities are drawn. Draws
    for which the metric is undefined, such as the AUROC if a class is not drawn, are
    ignored. `stratify=True` avoids them.

    With the fraction :math:`b` of draws below the value, :math:`z_0 = \Phi^{-1}(b)`,
    and the acceleration :math:`a`, the limits of "bca" are the quantiles
    :math:`\Phi(z_0 + (z_0 + z_\alpha) / (1 - a (z_0 + z_\alpha)))` of the draws ([1]_,
    equation 14.10). The acceleration is estimated by the jackknife, which leaves out
    each sample, or each of 100 random parts for more than 100 samples.

    For calibration errors with bins, "debiased" is the interval of
    :func:`ece_interval`, unless the bins are isotonic or `stratify=True`. For the other
    errors, it is computed from random halves of the samples. Let
    :math:`T` be the error of the samples, which is biased upward, and :math:`q` the
    upper quantile of the errors of the halves, which are drawn without replacement
    [3]_. The upper limit is :math:`q`. The bias of :math:`T^2` doubles if the number of
    samples is halved, so the lower limit is :math:`\sqrt{2 T^2 - q^2}`, or
    :math:`2 T - q` for the post-processing gap, which behaves like a square. The lower
    limit is 0 if :math:`T` is not above the upper quantile of the errors of labels
    drawn from the probabilities (consistency resampling [2]_). With clusters, half
    of the clusters are drawn, and no labels.

    In simulations with confidence level 0.9, the coverage of "debiased" intervals was
    at least 0.91 for the expected calibration error, and at least 0.89 for errors
    without bins. The coverage of "bca" intervals was 0.85 to 0.89 for the log loss and
    areas under curves, and 0.82 for :func:`coverage_at_risk`, which is not smooth. With
    confidence level 0.95, it was 0.93 to 0.96 for the log loss of 100 samples or more.
    See `benchmarks/guarantees/bench_intervals.py`. For 50 clusters of unequal sizes, it
    was 0.91, see `benchmarks/guarantees/bench_clusters.py`.

    References
    ----------
    .. [1] B. Efron and R. J. Tibshirani, "An Introduction to the Bootstrap", 1993.

    .. [2] J. Bröcker and L. A. Smith, "Increasing the Reliability of Reliability
       Diagrams", Weather and Forecasting 22, 2007.

    .. [3] D. N. Politis and J. P. Romano, "Large Sample Confidence Regions Based on
       Subsamples under Minimal Assumptions", Annals of Statistics 22, 1994.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.metrics import log_loss
    >>> from sklearn_calib.metrics import bootstrap_interval, ks_calibration_error
    >>> rng = np.random.default_rng(0)
    >>> y_proba = rng.uniform(size=200)
    >>> y_true = rng.uniform(size=200) < y_proba  # perfectly calibrated
    >>> settings = {"n_resamples": 99, "random_state": 0}
    >>> low, high = bootstrap_interval(log_loss, y_true, y_proba, **settings)
    >>> low < log_loss(y_true, y_proba) < high
    True
    >>> bootstrap_interval(ks_calibration_error, y_true, y_proba, **settings)[0]
    0.0
    """
    metric = with_options(metric, options, bootstrap_interval)
    sample = take_sample(
        metric,
        y_true,
        y_proba,
        labels,
        sample_weight,
        stratify=stratify,
        clusters=clusters,
    ).with_values()
    kind, _ = interval_kind(metric)
    method = resolve_method(method, kind)
    value = check_number(sample.measure())
    rng = check_random_state(random_state)
    if method == "debiased" and kind.bins is not None and not stratify:
        settings = {
            **sample.options,
            "sample_weight": sample.weight,
            "clusters": sample.clusters,
            "confidence_level": confidence_level,
            "n_resamples": n_resamples,
            "random_state": rng,
        }
        data = sample.y_true, sample.y_proba
        with without_warnings():  # the metric and the clusters have issued theirs
            return binned_interval(metric, *data, value, **settings)

    draws = confidence_level, n_resamples, rng
    progress: Options = {"n_jobs": n_jobs, "verbose": verbose}
    return interval(sample.with_classes(), value, method, *draws, **progress)


def interval_or_nan(
    metric: Metric, y_true: ArrayLike, y_proba: ArrayLike, **options: Any
) -> tuple[float, float]:
    """Return `bootstrap_interval` of a part; NaN if there are too few samples."""
    try:
        return bootstrap_interval(metric, y_true, y_proba, **options)
    except ValueError:
        return np.nan, np.nan


def interval(
    sample: Resample,
    value: float,
    method: str,
    confidence_level: float,
    n_resamples: int,
    rng: np.random.RandomState,
    **progress: Any,
) -> tuple[float, float]:
    """Return the limits of a method, given the value of the metric of the sample."""
    metric = partial(sample.metric, **sample.options)
    method = resolve_method(method, interval_kind(metric)[0])
    tail = (1 - confidence_level) / 2
    seeds = rng.randint(np.iinfo(np.int32).max, size=n_resamples)
    values: Any = partial(measure_draws, sample.measure, **progress)
    if method == "debiased":
        halves = values(sample.draw_half, seeds)
        # Labels of a cluster cannot be drawn from the probabilities of each of them.
        null = None
        if sample.clusters is None:
            null = values(sample.draw_calibrated, seeds)
        return debiased_ends(metric, value, halves, null, tail)
    # SciPy's intervals leave out each sample, and take no draws of weights or cells.
    draws, tails = values(sample.draw_all, seeds), np.array([tail, 1 - tail])
    if method == "bca":
        leave_out, n_parts = sample.leave_out(rng, seeds[0])
        left_out = values(leave_out, np.arange(n_parts))
        tails = _bca_tails(value, draws, left_out, tails)
    low, high = np.quantile(draws, tails)
    if method == "basic":
        low, high = 2 * value - high, 2 * value - low
    return float(low), float(high)


def resolve_method(method: str, kind: IntervalKind) -> str:
    """Return the method, and raise an error if it is not valid for the metric."""
    if method == "auto":
        return "debiased" if kind.is_error else "bca"
    if kind.is_error and method != "debiased":
        raise ValueError(
            'method must be "debiased" or "auto" for a calibration error, because the '
            f'others double its bias, got {method!r}. Use method="auto".'
        )
    return method


def _bca_tails(value: float, draws: Floats, left_out: Floats, tails: Floats) -> Floats:
    """Return tail probabilities corrected for median bias and skewness."""
    below = ((draws < value).mean() + (draws <= value).mean()) / 2
    # If all draws are on one side, the fraction is less extreme than 0 or 1.
    least = 0.5 / len(draws)
    bias = ndtri(np.clip(below, least, 1 - least))
    influence = left_out.mean() - left_out
    size = (influence**2).sum() ** 1.5
    acceleration = (influence**3).sum() / (6 * size) if size > 0 else 0.0
    moved = bias + ndtri(tails)
    return ndtr(bias + moved / (1 - acceleration * moved))


def binned_interval(
    metric: Metric, y_true: ArrayLike, y_proba: ArrayLike, value: float, **options: Any
) -> tuple[float, float]:
    """Return `ece_interval` for an error with bins, extended to include its value."""
    kind, given = interval_kind(metric)
    given = {**(kind.bins or {}), **given}
    # The parameter changes the estimate, but not the estimated error.
    given.pop("reduce_bias", None)
    average, norm = given.pop("average", "mean"), given.get("norm", "l1")
    if not isinstance(norm, str):
        raise ValueError(
            'norm must be "l1", "l2" or "max" for the interval of a calibration error, '
            f"got {norm!r}. Use one of these, or the value without an interval."
        )
    ends = np.array(ece_interval(y_true, y_proba, **{**given, **options}))
    if average == "sum":
        n_classes = max(2, np.size(y_proba) // np.shape(y_proba)[0])
        ends *= n_classes ** {"l1": 1, "l2": 0.5, "max": 0}[norm]
    return float(min(ends[0], value)), float(max(ends[1], value))


def debiased_ends(
    metric: Metric, value: float, halves: Floats, null: Floats | None, tail: float
) -> tuple[float, float]:
    """Return an interval, given the errors of random halves and of calibrated labels.

    The latter are None if the samples are not independent.

    The noise variance of a half is twice that of the whole sample. For the right power
    of the error, the bias from the whole sample to a half is therefore equal to the
    bias from the population to the whole sample.
    """
    kind, given = interval_kind(metric)
    is_square = any(given.get(name) == value for name, value in kind.squared.items())
    power = 1 if is_square else kind.power
    high = float(np.quantile(halves, 1 - tail))
    low = max(0.0, 2 * value**power - high**power) ** (1 / power)
    if null is not None and value <= np.quantile(null, 1 - tail):
        low = 0.0
    return float(min(low, value)), float(max(high, value))
