"""How much of a calibration error is chance."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from sklearn_calib._core.binning import sweep_n_bins
from sklearn_calib._core.inputs import (
    BETWEEN_0_AND_1,
    BINS,
    DRAWS,
    MODES,
    TARGETS,
    check_targets,
    resolve_mode,
)
from sklearn_calib._core.typing import Array, Floats, Seed
from sklearn_calib._core.validation import (
    StrOptions,
    check_proba,
    check_sample_weight,
    validate_params,
)
from sklearn_calib.metrics._bin_noise import (
    bin_cells,
    calibrated_errors,
    ends_of_largest,
    ends_of_mean,
    ends_of_squares,
    gaps,
    judged,
)


@validate_params(
    {
        **TARGETS,
        **BINS,
        **DRAWS,
        "n_bins": [*BINS["n_bins"], StrOptions({"sweep"})],
        "norm": [StrOptions({"l1", "l2", "max"})],
        "mode": [StrOptions(MODES), None],
        "confidence_level": BETWEEN_0_AND_1,
    },
    prefer_skip_nested_validation=True,
)
def ece_interval(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    confidence_level: float = 0.95,
    n_bins: int | str = 15,
    strategy: str = "uniform",
    norm: str = "l1",
    mode: str | None = None,
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    n_resamples: int = 1000,
    random_state: Seed = None,
) -> tuple[float, float]:
    r"""Debiased confidence interval for the expected calibration error.

    The error of a sample is larger than that of the population, because the gap of a
    bin counts whatever its sign. The usual bootstrap doubles that bias, and its
    interval never reaches zero for a calibrated classifier; this one does.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels, of any kind.

    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities. A 1-d array holds those of the positive class.

    confidence_level : float, default=0.95
        Share of the samples in which the interval holds the error of the population,
        with these bins. In (0, 1).

    n_bins : int, "cube_root" or "sweep", default=15
        Number of bins, as in :func:`expected_calibration_error`.

    strategy : {"uniform", "quantile"}, default="uniform"
        Bins of equal width, or of equal numbers of samples as far as ties allow.

    norm : {"l1", "l2", "max"}, default="l1"
        How the gaps of the bins are put together.

    mode : {"top_label", "positive", "classwise"}, default=None
        What is measured, as in :func:`expected_calibration_error`.

    labels : array-like of shape (n_classes,), default=None
        The label of each column, by default the sorted distinct values of `y_true`.

    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the samples. Their scale matters only for a number of bins that
        follows from the number of samples.

    n_resamples : int, default=1000
        Number of random draws.

    random_state : int, RandomState instance or None, default=None
        Controls the draws. Pass an int for a repeatable interval.

    Returns
    -------
    low, high : float
        Ends of the interval, in [0, 1]. The plug-in value of
        :func:`expected_calibration_error` may lie above its middle, never outside.

    Raises
    ------
    ValueError
        If the labels do not match the columns, or `y_proba` holds anything but
        probabilities.

    Notes
    -----
    The observed gap :math:`g_b` of bin :math:`b` is its true gap :math:`\gamma_b` plus
    noise with the standard error :math:`s_b`. Quantiles of noise come from draws with
    the covariance of the gaps, over bins and classes, and with their skewness, which
    matters for a rare class.

    Norm "l1": noise adds :math:`\sqrt{2 / \pi} s_b` to the mean of :math:`|g_b|` if
    :math:`\gamma_b = 0`, and the less the larger :math:`|\gamma_b|` is. Gaps of more
    than three standard errors are taken as free of this bias. The sum over the other
    bins is between two estimates,

    .. math::
        \sum_b |g_b| - \sqrt{10 / \pi}\, s_b e^{-2 g_b^2 / s_b^2}
        \quad\text{and}\quad
        S\, m^{-1} \Bigl(\sum_b |g_b| / S\Bigr), \qquad
        S = \sum_b s_b, \quad m(t) = E |t + Z|,

    with a standard normal :math:`Z`. A term of the first has the mean 0 if
    :math:`\gamma_b = 0`, and less than :math:`|\gamma_b|` otherwise. The second has the
    least bias that the sum of the :math:`|g_b|` allows, which is that of equal
    :math:`|\gamma_b| / s_b`. The interval is that of the sum over the clear gaps and
    that of these two estimates, combined by their squared distances from the estimates
    [3]_. The lower estimate is 0 if calibrated predictions often have as large a sum.

    Norm "l2": noise adds :math:`s_b^2` to the mean of :math:`g_b^2`, which is
    subtracted [2]_. Norm "max": the lower end is the maximum of
    :math:`|g_b| - k s_b`, where :math:`k` holds at once for the bins that may have the
    largest gap; the upper end is the maximum of :math:`|g_b| + z s_b`. A bin of few
    samples makes it high, and of one without samples it knows nothing:
    `strategy="quantile"` suits this norm. Both lower ends are 0
    if calibrated predictions would reach the observed error.

    Where the gaps are clear, the interval is as wide as the estimates spread over
    samples. Where they are not, it is about twice as wide, and wider for many classes:
    near zero no estimate of :math:`|\gamma_b|` is free of bias [4]_, and the interval
    holds the plug-in value, whose bias grows with the number of bins and classes faster
    than its spread does.

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
    proba, codes, weight = check_targets(y_true, y_proba, labels, sample_weight)
    values, hit = judged(proba, codes, resolve_mode(mode, proba))
    weight = np.ones(len(values)) if weight is None else weight
    if n_bins == "sweep":
        n_bins = _swept(values, hit, strategy=strategy, sample_weight=weight)
    cells, shape = bin_cells(values, weight, n_bins, strategy)
    seen = gaps(values, hit, weight, cells, shape, norm)
    rng, tail = check_random_state(random_state), (1 - confidence_level) / 2
    value = seen.error(seen.gap, norm)
    if norm == "max":
        null = calibrated_errors(values, weight, cells, shape, norm, n_resamples, rng)
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
        "norm": [StrOptions({"l1", "l2", "max"})],
        "mode": [StrOptions(MODES), None],
        "level": BETWEEN_0_AND_1,
    },
    prefer_skip_nested_validation=True,
)
def ece_consistency_bound(
    y_proba: ArrayLike,
    *,
    level: float = 0.95,
    n_bins: int | str = 15,
    strategy: str = "uniform",
    norm: str = "l1",
    mode: str | None = None,
    sample_weight: ArrayLike | None = None,
    n_resamples: int = 1000,
    random_state: Seed = None,
) -> float:
    """Error that a perfectly calibrated classifier stays under in most samples.

    Labels are drawn from the predicted probabilities themselves, many times over, and
    the expected calibration error is measured each time. An observed error below the
    bound is no sign of miscalibration.

    Parameters
    ----------
    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities. A 1-d array holds those of the positive class.

    level : float, default=0.95
        Share of the samples in which the error stays under the bound. In (0, 1).

    n_bins : int or "cube_root", default=15
        Number of bins, or the cube root of the number of samples, rounded up.

    strategy : {"uniform", "quantile"}, default="uniform"
        Bins of equal width, or of equal numbers of samples as far as ties allow.

    norm : {"l1", "l2", "max"}, default="l1"
        How the gaps of the bins are put together.

    mode : {"top_label", "positive", "classwise"}, default=None
        What is measured, as in :func:`expected_calibration_error`.

    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the samples. Their scale matters only for a number of bins that
        follows from the number of samples.

    n_resamples : int, default=1000
        Number of draws of all labels.

    random_state : int, RandomState instance or None, default=None
        Controls the draws. Pass an int for a repeatable bound.

    Returns
    -------
    bound : float
        Calibration error in [0, 1].

    Raises
    ------
    ValueError
        If `y_proba` holds anything but probabilities.

    Notes
    -----
    This is consistency resampling [1]_ [2]_ with the confidences held fixed.

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
    proba = check_proba(y_proba, allow_1d=True)
    values, _ = judged(proba, np.zeros(len(proba), int), resolve_mode(mode, proba))
    weight = check_sample_weight(sample_weight, proba)
    weight = np.ones(len(values)) if weight is None else weight
    cells, shape = bin_cells(values, weight, n_bins, strategy)
    rng = check_random_state(random_state)
    errors = calibrated_errors(values, weight, cells, shape, norm, n_resamples, rng)
    return float(np.quantile(errors, level))


def _swept(values: Floats, hit: Array, **options: Any) -> int:
    """Return the number of bins of a sweep, which one probability has."""
    if values.shape[1] > 1:
        raise ValueError(
            'n_bins must be a number or "cube_root" for every class, got "sweep", '
            'which is for one probability. Pass mode="top_label" or another n_bins.'
        )
    return sweep_n_bins(values[:, 0], hit[:, 0], **options)
