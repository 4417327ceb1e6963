"""Confidence interval and consistency bound of the expected calibration error."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from sklearn_calib._numerics.binning import read_bins, sweep_n_bins
from sklearn_calib._validation.clusters import read_clusters
from sklearn_calib._validation.declarations import (
    BETWEEN_0_AND_1,
    BINS,
    CLUSTERS,
    DRAWS,
    INTERVAL,
    MODE,
    TARGETS,
    StrOptions,
    validate_params,
)
from sklearn_calib._validation.probabilities import check_proba, check_sample_weight
from sklearn_calib._validation.samples import Samples, read_samples, resolve_mode
from sklearn_calib._validation.types import Array, Floats, Seed
from sklearn_calib.metrics._calibration_errors.binned_error import NORM
from sklearn_calib.metrics._intervals.bin_noise import (
    bin_cells,
    calibrated_errors,
    ends_of_largest,
    ends_of_mean,
    ends_of_squares,
    evaluated,
    gaps,
)


@validate_params(
    {
        **TARGETS,
        **BINS,
        **INTERVAL,
        **CLUSTERS,
        "n_bins": [*BINS["n_bins"], StrOptions({"sweep"})],
        "norm": [StrOptions({"l1", "l2", "max"})],
        **MODE,
    }
)
def ece_interval(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    confidence_level: float = 0.95,
    n_bins: int | str | ArrayLike = 15,
    strategy: str = "uniform",
    norm: str = "l1",
    mode: str | None = None,
    pos_label: Any = None,
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
    n_resamples: int = 1000,
    random_state: Seed = None,
) -> tuple[float, float]:
    r"""Debiased confidence interval for the expected calibration error (ECE).

    The ECE of a sample is biased upward. The ordinary bootstrap doubles this bias, and
    its interval does not contain zero for a calibrated classifier. This interval is
    corrected for the bias, and can contain zero.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels, of any type.

    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities. A 1-d array contains the probabilities of the positive
        class.

    confidence_level : float, default=0.95
        Confidence level, in (0, 1), for the error of the population with these bins.

    n_bins : int, "cube_root", "sweep" or array-like of shape (n_edges,), default=15
        Number of bins, as in :func:`expected_calibration_error`.

    strategy : {"uniform", "quantile"}, default="uniform"
        Binning strategy: bins of equal width, or bins with equal numbers of samples as
        far as ties allow.

    norm : {"l1", "l2", "max"}, default="l1"
        How the gaps of the bins are aggregated, as in
        :func:`expected_calibration_error`.

    mode : {"top_label", "positive", "classwise"}, default=None
        Probability that is evaluated, as in :func:`expected_calibration_error`.

    pos_label : label, default=None
        Label of the positive class of a binary problem. It sets the mode to "positive";
        a 1-d array then contains the probabilities of this class. By default, the
        second of the two labels.

    labels : array-like of shape (n_classes,), default=None
        Labels of the columns of `y_proba`. By default, the sorted distinct values of
        `y_true`.

    sample_weight : array-like of shape (n_samples,), default=None
        Sample weights. Their scale matters only if the number of bins depends on the
        number of samples.

    clusters : array-like of shape (n_samples,), default=None
        Cluster of each sample, such as the patient, if the samples of a cluster are not
        independent. There should be at least 50 clusters; otherwise, there is a
        warning. By default, all samples are independent.

    n_resamples : int, default=1000
        Number of random draws.

    random_state : int, RandomState instance or None, default=None
        Controls the random draws. Pass an int for reproducible results.

    Returns
    -------
    low, high : float
        Limits of the interval, in [0, 1]. The interval always contains the value of
        :func:`expected_calibration_error`, usually above its middle.

    Raises
    ------
    ValueError
        If the labels do not match the columns of `y_proba`, or `y_proba` contains
        values that are not probabilities.

    Notes
    -----
    The observed gap :math:`g_b` of bin :math:`b` is the sum of the true gap
    :math:`\gamma_b` and noise with standard error :math:`s_b`. The noise is simulated
    with the covariance of the gaps over bins and classes, and with their skewness,
    which matters for rare classes. With clusters, it is that of sums over the clusters.

    Norm "l1": the mean of :math:`|g_b|` exceeds :math:`|\gamma_b|` by
    :math:`\sqrt{2 / \pi} s_b` for :math:`\gamma_b = 0`, and by less for larger
    :math:`|\gamma_b|`. This bias is neglected for gaps of more than three standard
    errors. For the other bins, the sum of the :math:`|\gamma_b|` is between two
    estimates,

    .. math::
        \sum_b |g_b| - \sqrt{10 / \pi}\, s_b e^{-2 g_b^2 / s_b^2}
        \quad\text{and}\quad
        S\, m^{-1} \Bigl(\sum_b |g_b| / S\Bigr), \qquad
        S = \sum_b s_b, \quad m(t) = E |t + Z|,

    with a standard normal :math:`Z`. The terms of the first estimate have mean 0 if
    :math:`\gamma_b = 0`, and otherwise a mean below :math:`|\gamma_b|`. The second
    assumes equal :math:`|\gamma_b| / s_b`, for which the bias is smallest. The
    intervals of the bins with and without bias are combined by adding the squared
    distances of their limits from the estimates [3]_. The lower estimate is set to 0 if
    calibrated predictions often have a sum at least as large.

    Norm "l2": the bias of :math:`g_b^2` is :math:`s_b^2`, which is subtracted
    [1]_, [2]_.

    Norm "max": the lower limit is the maximum of :math:`|g_b| - k s_b`, where :math:`k`
    is simultaneous for the bins that may have the largest gap. The upper limit is the
    maximum of :math:`|g_b| + z s_b`, which is large if a bin has few samples. Bins
    without samples are ignored. Prefer `strategy="quantile"` for this norm.

    For "l2" and "max", the lower limit is 0 if calibrated predictions often have an
    error as large as the observed one.

    If most gaps are significant, the width of the interval corresponds to the sampling
    variation of the estimate. Otherwise, it is about twice as wide, and wider for many
    classes: unbiased estimates of :math:`|\gamma_b|` near zero do not exist [4]_, and
    the interval contains the value of :func:`expected_calibration_error`, whose bias
    grows faster with the number of bins and classes than its standard deviation.

    The coverage is higher than the confidence level for few samples, or if most gaps
    are not significant: in simulations with norm "l1" and the level 0.95, it was 0.98
    to 1.00 for 200 and 500 samples, and 0.945 to 0.99 for 5000. See
    `benchmarks/guarantees/bench_intervals.py`.

    References
    ----------
    .. [1] A. Kumar, P. Liang and T. Ma, "Verified Uncertainty Calibration",
       NeurIPS 2019.

    .. [2] Y. Sun, P. Chaudhari, I. J. Barnett and E. Dobriban, "A Confidence Interval
       for the l2 Expected Calibration Error", arXiv:2408.08998, 2024.

    .. [3] G. Y. Zou and A. Donner, "Construction of Confidence Limits about Effect
       Measures: A General Approach", Statistics in Medicine 27, 2008.

    .. [4] T. T. Cai and M. G. Low, "Testing Composite Hypotheses, Hermite Polynomials
       and Optimal Estimation of a Nonsmooth Functional", Annals of Statistics 39, 2011.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.metrics import ece_interval, expected_calibration_error
    >>> rng = np.random.default_rng(0)
    >>> y_proba = rng.uniform(size=500)
    >>> y_true = rng.uniform(size=500) < y_proba  # perfectly calibrated
    >>> round(expected_calibration_error(y_true, y_proba), 3)
    0.043
    >>> low, high = ece_interval(y_true, y_proba, random_state=0)
    >>> low
    0.0
    """
    data = y_true, y_proba, labels, sample_weight, mode, pos_label
    samples = read_samples(*data, is_symmetric=mode == "classwise")
    values, correct, weight = evaluated(samples)
    n_bins, strategy = read_bins(n_bins, strategy)
    if n_bins == "sweep":
        n_bins = _swept(values, correct, strategy=strategy, sample_weight=weight)
    cells, shape = bin_cells(values, weight, n_bins, strategy)
    clusters = read_clusters(clusters, len(weight), weight)
    seen = gaps(values, correct, weight, cells, shape, norm, clusters)
    rng, tail = check_random_state(random_state), (1 - confidence_level) / 2
    value = seen.error(seen.gap, norm)
    if norm == "max":
        if clusters is None:
            drawn = values, weight, cells, shape, norm, n_resamples, rng
            null = calibrated_errors(*drawn)
        else:
            null = seen.calibrated_errors(norm, n_resamples, rng)
        low, high = ends_of_largest(seen, n_resamples, tail, rng)
        if value <= np.quantile(null, 1 - tail):
            low = 0.0
    else:
        ends = ends_of_mean if norm == "l1" else ends_of_squares
        low, high = ends(seen, n_resamples, tail, rng)
    return float(max(0, min(low, value))), float(min(1, max(high, value)))


@validate_params(
    {
        "y_proba": TARGETS["y_proba"],
        "sample_weight": TARGETS["sample_weight"],
        **BINS,
        **DRAWS,
        **NORM,
        **MODE,
        "level": BETWEEN_0_AND_1,
    }
)
def ece_consistency_bound(
    y_proba: ArrayLike,
    *,
    level: float = 0.95,
    n_bins: int | str | ArrayLike = 15,
    strategy: str = "uniform",
    norm: str | float = "l1",
    mode: str | None = None,
    sample_weight: ArrayLike | None = None,
    n_resamples: int = 1000,
    random_state: Seed = None,
) -> float:
    """Quantile of the ECE of a perfectly calibrated classifier.

    Labels are drawn repeatedly from the predicted probabilities, and the expected
    calibration error is computed for each draw. An observed error below the bound is
    not evidence of miscalibration.

    Parameters
    ----------
    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities. A 1-d array contains the probabilities of the positive
        class.

    level : float, default=0.95
        Probability that the error of a calibrated classifier is at most the bound, in
        (0, 1).

    n_bins : int, "cube_root" or array-like of shape (n_edges,), default=15
        Number of bins, or their edges, as in :func:`expected_calibration_error`.

    strategy : {"uniform", "quantile"}, default="uniform"
        Binning strategy: bins of equal width, or bins with equal numbers of samples as
        far as ties allow.

    norm : {"l1", "l2", "max"} or float, default="l1"
        How the gaps of the bins are aggregated, as in
        :func:`expected_calibration_error`.

    mode : {"top_label", "positive", "classwise"}, default=None
        Probability that is evaluated, as in :func:`expected_calibration_error`.

    sample_weight : array-like of shape (n_samples,), default=None
        Sample weights. Their scale matters only if the number of bins depends on the
        number of samples.

    n_resamples : int, default=1000
        Number of random draws of the labels.

    random_state : int, RandomState instance or None, default=None
        Controls the random draws. Pass an int for reproducible results.

    Returns
    -------
    bound : float
        Quantile of the calibration error, in [0, 1].

    Raises
    ------
    ValueError
        If `y_proba` contains values that are not probabilities.

    Notes
    -----
    This is consistency resampling [1]_ [2]_ with fixed predicted probabilities.

    References
    ----------
    .. [1] J. Bröcker and L. A. Smith, "Increasing the Reliability of Reliability
       Diagrams", Weather and Forecasting 22, 2007.

    .. [2] J. Vaicenavicius, D. Widmann, C. Andersson, F. Lindsten, J. Roll and T. B.
       Schön, "Evaluating Model Calibration in Classification", AISTATS 2019.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.metrics import ece_consistency_bound
    >>> y_proba = np.random.default_rng(0).uniform(size=500)
    >>> bound = ece_consistency_bound(y_proba, random_state=0)
    >>> 0.07 < bound < 0.09
    True
    """
    # `read_samples` needs labels.
    proba = check_proba(y_proba, allow_1d=True)
    weight = check_sample_weight(sample_weight, proba)
    codes = np.zeros(len(proba), dtype=np.int64)
    samples = Samples(proba, codes, weight, resolve_mode(mode, proba))
    values, _, weight = evaluated(samples)
    cells, shape = bin_cells(values, weight, *read_bins(n_bins, strategy))
    rng = check_random_state(random_state)
    errors = calibrated_errors(values, weight, cells, shape, norm, n_resamples, rng)
    return float(np.quantile(errors, level))


def _swept(values: Floats, correct: Array, **options: Any) -> int:
    """Return the number of bins of the monotonic sweep."""
    if values.shape[1] > 1:
        raise ValueError(
            'n_bins must be an integer or "cube_root" with mode="classwise", got '
            '"sweep". Use mode="top_label" or another n_bins.'
        )
    return sweep_n_bins(values[:, 0], correct[:, 0], **options)
