"""Kolmogorov-Smirnov (KS) and cutoff calibration error."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sklearn_calib._numerics.binning import distinct_confidences
from sklearn_calib._validation.declarations import (
    COLUMN,
    declare_interval,
    validate_params,
)
from sklearn_calib._validation.samples import read_samples


@declare_interval(is_error=True, is_cumulated=True)
@validate_params(COLUMN)
def ks_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    mode: str | None = None,
    pos_label: Any = None,
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""Kolmogorov-Smirnov (KS) calibration error, without bins.

    The largest absolute gap between cumulative confidence and cumulative accuracy, with
    the samples sorted by confidence. Lower is better: 0 is best, 1 is worst.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels, of any type.

    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities. A 1-d array contains the probabilities of the positive
        class, which is the second of the two labels.

    mode : {"top_label", "positive"}, default=None
        Probability that is evaluated: that of the predicted class, or that of the
        positive class (of two). By default, "top_label" for a 2-d array and "positive"
        for a 1-d array.

    pos_label : label, default=None
        Label of the positive class of a binary problem. It sets the mode to "positive";
        a 1-d array then contains the probabilities of this class. By default, the
        second of the two labels.

    labels : array-like of shape (n_classes,), default=None
        Labels of the columns of `y_proba`, such as `estimator.classes_`. By default,
        the sorted distinct values of `y_true`, which must then contain every class.

    sample_weight : array-like of shape (n_samples,), default=None
        Sample weights. A weight of 2 is equivalent to including the sample twice.

    Returns
    -------
    error : float
        Calibration error in [0, 1].

    Raises
    ------
    ValueError
        If the labels do not match the columns of `y_proba`, or `y_proba` contains
        values that are not probabilities.

    See Also
    --------
    cutoff_calibration_error : The largest gap over all intervals of confidences.
    expected_calibration_error : Calibration error with bins, whose gaps do not cancel.

    Notes
    -----
    With the samples sorted by their confidence :math:`r_i`, and :math:`c_i = 1` if the
    evaluated class is the true class and 0 otherwise, the error is
    :math:`\max_m |\frac{1}{n} \sum_{i \le m} (c_i - r_i)|` [1]_. Samples with the same
    confidence are added together, so their order does not matter.

    References
    ----------
    .. [1] K. Gupta, A. Rahimi, T. Ajanthan, T. Mensink, C. Sminchisescu and R. Hartley,
       "Calibration of Neural Networks using Splines", ICLR 2021.

    Examples
    --------
    >>> from sklearn_calib.metrics import ks_calibration_error
    >>> round(ks_calibration_error([0, 0, 1, 1], [0.1, 0.3, 0.6, 0.9]), 3)
    0.1
    """
    samples = read_samples(y_true, y_proba, labels, sample_weight, mode, pos_label)
    value, fraction, frequency = distinct_confidences(*samples.column())
    return float(np.abs(np.cumsum(fraction * (frequency - value))).max())


@declare_interval(is_error=True)
@validate_params(COLUMN)
def cutoff_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    mode: str | None = None,
    pos_label: Any = None,
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""Cutoff calibration error: largest gap over all intervals of probabilities.

    The largest absolute difference between accuracy and mean confidence of the samples
    with a confidence in an interval, times the fraction of these samples. It bounds the
    cost that is saved by moving the cutoff of a decision. Lower is better: 0 is best, 1
    is worst.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels, of any type.

    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities. A 1-d array contains the probabilities of the positive
        class, which is the second of the two labels.

    mode : {"top_label", "positive"}, default=None
        Probability that is evaluated: that of the predicted class, or that of the
        positive class (of two). By default, "top_label" for a 2-d array and "positive"
        for a 1-d array.

    pos_label : label, default=None
        Label of the positive class of a binary problem. It sets the mode to "positive";
        a 1-d array then contains the probabilities of this class. By default, the
        second of the two labels.

    labels : array-like of shape (n_classes,), default=None
        Labels of the columns of `y_proba`, such as `estimator.classes_`. By default,
        the sorted distinct values of `y_true`, which must then contain every class.

    sample_weight : array-like of shape (n_samples,), default=None
        Sample weights. A weight of 2 is equivalent to including the sample twice.

    Returns
    -------
    error : float
        Calibration error in [0, 1].

    Raises
    ------
    ValueError
        If the labels do not match the columns of `y_proba`, or `y_proba` contains
        values that are not probabilities.

    See Also
    --------
    ks_calibration_error : The largest gap over the intervals that start at 0.
    expected_calibration_error : Calibration error with bins, whose gaps do not cancel.

    Notes
    -----
    With confidences :math:`r_i`, and :math:`c_i = 1` if the evaluated class is the true
    class and 0 otherwise, the error is :math:`\max_{a \le b} |\frac{1}{n} \sum_{a \le
    r_i \le b} (c_i - r_i)|` [1]_. It is computed by sorting: it is the difference
    between the largest and the smallest cumulated sum, and at most twice
    :func:`ks_calibration_error`.

    Consider decisions with the cost t of a false positive and 1 - t of a false
    negative, which are positive for confidences of at least t. Any other cutoff reduces
    the mean cost by at most this error.

    References
    ----------
    .. [1] R. Rossellini, J. A. Soloff, R. F. Barber, Z. Ren and R. Willett, "Can a
       calibration metric be both testable and actionable?", arXiv:2502.19851, 2025.

    Examples
    --------
    >>> from sklearn_calib.metrics import cutoff_calibration_error
    >>> round(cutoff_calibration_error([0, 0, 1, 1], [0.1, 0.3, 0.6, 0.9]), 3)
    0.125
    """
    samples = read_samples(y_true, y_proba, labels, sample_weight, mode, pos_label)
    value, fraction, frequency = distinct_confidences(*samples.column())
    gaps = np.append(0, np.cumsum(fraction * (frequency - value)))
    return float(np.ptp(gaps))
