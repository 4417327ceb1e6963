"""Integrated calibration index, and quantiles of the same distances."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from sklearn_calib._numerics.binning import sums_by_value
from sklearn_calib._numerics.class_scores import log_odds_of_one
from sklearn_calib._solvers.spline_logistic import evaluate_curve, fit_curve
from sklearn_calib._validation.declarations import (
    BETWEEN_0_AND_1,
    COLUMN,
    StrOptions,
    validate_params,
)
from sklearn_calib._validation.samples import read_samples
from sklearn_calib._validation.types import Floats

# The default of LogOddsSplineCalibration.
N_KNOTS = 20
# Relative size of rounding errors of cumulated weights.
ROUNDING = 1e-9


@validate_params(
    {
        **COLUMN,
        "statistic": [StrOptions({"max", "mean"}), *BETWEEN_0_AND_1],
        "monotone": ["boolean"],
    }
)
def integrated_calibration_index(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    statistic: str | float = "mean",
    monotone: bool = False,
    mode: str | None = None,
    pos_label: Any = None,
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""Integrated calibration index (ICI), E50, E90 and Emax, with a smooth curve.

    The mean absolute difference between the predicted probabilities and a smooth
    calibration curve. E50, E90 and Emax are the median, the 0.9 quantile and the
    maximum of the same differences. Lower is better; 0 is best.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels, of any type.

    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities. A 1-d array contains the probabilities of the positive
        class, which is the second of the two labels.

    statistic : {"mean", "max"} or float, default="mean"
        "mean" is the ICI, "max" is Emax, and a number in (0, 1) is a quantile: 0.5 is
        E50 and 0.9 is E90.

    monotone : bool, default=False
        Whether the calibration curve must not decrease.

    mode : {"positive", "top_label"}, default=None
        Probability that is evaluated: that of the positive class (of two), or that of
        the predicted class. By default, "positive" for two classes and "top_label" for
        more.

    pos_label : label, default=None
        Label of the positive class of a binary problem. It sets the mode to "positive";
        a 1-d array then contains the probabilities of this class. By default, the
        second of the two labels.

    labels : array-like of shape (n_classes,), default=None
        Labels of the columns of `y_proba`, such as `estimator.classes_`. By default,
        the sorted distinct values of `y_true`, which must then contain every class.

    sample_weight : array-like of shape (n_samples,), default=None
        Sample weights. A weight of 2 is equivalent to including the sample twice. The
        scale of the weights affects the smoothness.

    Returns
    -------
    index : float
        Calibration error in [0, 1].

    Raises
    ------
    ValueError
        If the labels do not match the columns of `y_proba`, or `y_proba` contains
        values that are not probabilities.

    See Also
    --------
    smooth_expected_calibration_error : Calibration error with a kernel.
    expected_calibration_error : With `strategy="isotonic"`, the same with isotonic
        regression as the curve.
    calibration_slope : Parameters of a straight curve on the log-odds scale.

    Notes
    -----
    With the calibration curve c, the ICI is :math:`\frac{1}{n} \sum_i |p_i - c(p_i)|`
    [1]_. The curve is that of
    :class:`~sklearn_calib.calibrators.LogOddsSplineCalibration`: a natural cubic spline
    of the log-odds with at most 20 knots, whose strength of smoothing is estimated by
    empirical Bayes. [1]_ uses loess of the outcomes with a fixed span, which differs
    most at low and high probabilities, where loess may leave [0, 1]. The noise of loess
    biases the index upward. The spline is shrunk towards the diagonal instead: the
    index of calibrated predictions is close to 0, and in small samples an error that is
    not detected is underestimated.

    For an interval, use :func:`bootstrap_interval` with `method="percentile"`. It is
    approximate, because resampling does not remove this bias, and does not contain 0.
    To decide whether predictions are calibrated, use a test such as
    :func:`kernel_calibration_test`.

    If there are probabilities of 0 or 1, their log-odds are those of half the smallest
    other p or 1 - p. A quantile is the smallest difference that at least this fraction
    of the samples do not exceed.

    References
    ----------
    .. [1] P. C. Austin and E. W. Steyerberg, "The Integrated Calibration Index (ICI)
       and Related Metrics for Quantifying the Calibration of Logistic Regression
       Models", Statistics in Medicine 38, 2019.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.special import expit
    >>> from sklearn_calib.metrics import integrated_calibration_index
    >>> rng = np.random.default_rng(0)
    >>> logits = rng.normal(size=2000)
    >>> y_true = rng.random(2000) < expit(logits)
    >>> round(integrated_calibration_index(y_true, expit(logits)), 3)
    0.005
    >>> round(integrated_calibration_index(y_true, expit(2 * logits)), 3)
    0.102
    """
    data = y_true, y_proba, labels, sample_weight, mode, pos_label
    value, outcome, weight = read_samples(*data, of_two="positive").column()
    value, mass, positives = sums_by_value(value, outcome, weight)
    log_odds = log_odds_of_one(value)
    curve, _ = fit_curve(
        log_odds, positives / mass, mass, n_knots=N_KNOTS, is_monotone=monotone
    )
    gap = np.abs(expit(evaluate_curve(curve, log_odds)) - value)
    if statistic == "mean":
        return float(np.average(gap, weights=mass))
    return _quantile(gap, mass, 1.0 if statistic == "max" else float(statistic))


def _quantile(gap: Floats, mass: Floats, level: float) -> float:
    """Return the smallest gap with at least this part of the mass up to it."""
    order = np.argsort(gap)
    share = mass[order].cumsum() / mass.sum()
    last = np.searchsorted(share[:-1], level - ROUNDING)
    return float(gap[order[last]])
