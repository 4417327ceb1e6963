"""Truthful calibration errors: their expectation is lowest for the true probabilities.

Both add up squared sums of residuals over a partition of the samples. The outcomes are
independent, so the variances of the residuals add up to the same number for every
partition, and only a bias can increase the expectation.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sklearn_calib._numerics.binning import (
    parting_edges,
    resolve_n_bins,
    sums_between,
    sums_by_value,
)
from sklearn_calib._validation.declarations import (
    MODE,
    N_BINS,
    TARGETS,
    declare_interval,
    validate_params,
)
from sklearn_calib._validation.samples import Column, read_samples, samples_by_class
from sklearn_calib._validation.types import Bools, Floats, Options, Weights


@declare_interval(is_error=True, power=1)
@validate_params({**TARGETS, **MODE})
def averaged_two_bin_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    mode: str | None = None,
    pos_label: Any = None,
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""Averaged two-bin calibration error (ATB), which is truthful.

    A calibration error is truthful if no predictions have a lower expectation than the
    true probabilities, however few samples there are. The expected calibration error
    and similar errors are not: with few samples, extreme or constant predictions may
    have a lower expectation. Lower is better; 0 is best.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels, of any type.

    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities. A 1-d array contains the probabilities of the positive
        class, which is the second of the two labels.

    mode : {"classwise", "positive", "top_label"}, default=None
        Probability that is evaluated: that of each class, with the sum of the errors of
        all classes; that of the positive class (of two); or that of the predicted
        class. By default, "classwise" for a 2-d array and "positive" for a 1-d array.
        "top_label" is only truthful among predictions of the same class, see Notes.

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
        Calibration error, in [0, 1], or in [0, 2] for the sum over classes.

    Raises
    ------
    ValueError
        If the labels do not match the columns of `y_proba`, or `y_proba` contains
        values that are not probabilities.

    See Also
    --------
    quantile_squared_error : The same principle with more than two bins.
    expected_calibration_error : Calibration error with bins.

    Notes
    -----
    With the residual :math:`r_i = p_i - y_i` of the evaluated probability, the error is
    the mean over thresholds t, uniform in [0, 1], of the squared sums of two bins [1]_:

    .. math:: \int_0^1 \Big(\frac{1}{n} \sum_{p_i < t} r_i\Big)^2
        + \Big(\frac{1}{n} \sum_{p_i \ge t} r_i\Big)^2 \, dt

    Computed exactly by sorting. It is a squared error: for the true probabilities, its
    expectation is :math:`\frac{1}{n^2} \sum_i p_i (1 - p_i)`, and errors of size d in
    the probabilities increase it by at most :math:`d^2`. Compare values for the same
    samples only.

    For the top label, predictions that change the predicted class change the outcome
    that is evaluated. With the true probabilities 0.5, 0.3 and 0.2, the prediction 1/3
    for another class has a lower expectation.

    References
    ----------
    .. [1] J. Hartline, L. Hu and Y. Wu, "A Perfectly Truthful Calibration Measure",
       COLT 2026.

    Examples
    --------
    >>> from sklearn_calib.metrics import averaged_two_bin_error
    >>> round(averaged_two_bin_error([0, 0, 1, 1], [0.1, 0.3, 0.6, 0.9]), 5)
    0.00863
    """
    data = y_true, y_proba, labels, sample_weight, mode, pos_label
    return sum(_two_bin_error(*sums_by_value(*column)) for column in _evaluated(*data))


@declare_interval(is_error=True, power=1)
@validate_params({**TARGETS, **MODE, "n_bins": N_BINS})
def quantile_squared_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    n_bins: int | str = 15,
    mode: str | None = None,
    pos_label: Any = None,
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""Squared calibration error over quantile bins, which is truthful.

    As in :func:`averaged_two_bin_error`, no predictions have a lower expectation than
    the true probabilities. More bins detect errors that change sign several times, but
    the error depends on their number. Lower is better; 0 is best.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels, of any type.

    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities. A 1-d array contains the probabilities of the positive
        class, which is the second of the two labels.

    n_bins : int or "cube_root", default=15
        Number of bins with equal numbers of samples as far as ties allow. "cube_root"
        uses the cube root of the number of samples, rounded up.

    mode : {"classwise", "positive", "top_label"}, default=None
        Probability that is evaluated, as in :func:`averaged_two_bin_error`.

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
        Calibration error, in [0, 1], or in [0, 2] for the sum over classes.

    Raises
    ------
    ValueError
        If the labels do not match the columns of `y_proba`, or `y_proba` contains
        values that are not probabilities.

    See Also
    --------
    averaged_two_bin_error : The same principle without a number of bins.
    expected_calibration_error : Calibration error with bins.

    Notes
    -----
    With the residual :math:`r_i = p_i - y_i` of the evaluated probability, the error is
    :math:`\sum_b (\frac{1}{n} \sum_{i \in b} r_i)^2` [1]_. With m bins of exactly equal
    size, it is 1/m times the square of :func:`expected_calibration_error` with
    `norm="l2"` and `strategy="quantile"`.

    References
    ----------
    .. [1] J. Hartline, L. Hu and Y. Wu, "A Perfectly Truthful Calibration Measure",
       COLT 2026.

    Examples
    --------
    >>> from sklearn_calib.metrics import quantile_squared_error
    >>> y_true, y_proba = [0, 0, 1, 1], [0.1, 0.3, 0.6, 0.9]
    >>> round(quantile_squared_error(y_true, y_proba, n_bins=2), 5)
    0.02563
    """
    data = y_true, y_proba, labels, sample_weight, mode, pos_label
    return sum(_binned_error(*column, n_bins) for column in _evaluated(*data))


def _evaluated(*data: Any) -> Iterator[Column]:
    """Yield evaluated probabilities, their outcomes and weights; one or each class."""
    samples = read_samples(*data, of_two="classwise", of_more="classwise")
    return samples_by_class(samples)


def _two_bin_error(value: Floats, mass: Floats, n_correct: Floats) -> float:
    """Return the integral over thresholds, given sums over each distinct value."""
    value = value.astype(np.float64)
    lower = np.append(0, np.cumsum(mass * value - n_correct)) / mass.sum()
    upper = lower[-1] - lower
    widths = np.diff(value, prepend=0, append=1)
    return float(widths @ (lower**2 + upper**2))


def _binned_error(
    value: Floats, correct: Bools, weight: Weights, n_bins: int | str
) -> float:
    """Return the sum of the squared mean residuals of quantile bins."""
    n_bins = resolve_n_bins(n_bins, len(value), weight)
    options: Options = {"n_bins": n_bins, "strategy": "quantile"}
    edges = parting_edges(value, sample_weight=weight, **options)
    sums = sums_between(edges, value, correct, weight)
    residual = (sums.confidence - sums.correct) / sums.weight.sum()
    return float(residual @ residual)
