"""Smooth expected calibration error (smECE), with a kernel instead of bins."""

from __future__ import annotations

from numbers import Real
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike

from sklearn_calib._numerics.heat_kernel import (
    SMALLEST_BANDWIDTH,
    cosine_coefficients,
    self_consistent_bandwidth,
    smoothed_norm,
)
from sklearn_calib._validation.declarations import (
    MODE,
    TARGETS,
    Interval,
    StrOptions,
    declare_interval,
    validate_params,
)
from sklearn_calib._validation.samples import read_samples, samples_by_class
from sklearn_calib._validation.types import Array, Floats, Weights


@overload
def smooth_expected_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    bandwidth: float | str = ...,
    mode: str | None = ...,
    pos_label: Any = ...,
    return_bandwidth: Literal[False] = ...,
    labels: ArrayLike | None = ...,
    sample_weight: ArrayLike | None = ...,
) -> float: ...


@overload
def smooth_expected_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    bandwidth: float | str = ...,
    mode: str | None = ...,
    pos_label: Any = ...,
    return_bandwidth: Literal[True],
    labels: ArrayLike | None = ...,
    sample_weight: ArrayLike | None = ...,
) -> tuple[float, float | Floats]: ...


@declare_interval(is_error=True)
@validate_params(
    {
        **TARGETS,
        "bandwidth": [
            Interval(Real, SMALLEST_BANDWIDTH, 1, closed="both"),
            StrOptions({"auto"}),
        ],
        **MODE,
        "return_bandwidth": ["boolean"],
    }
)
def smooth_expected_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    bandwidth: float | str = "auto",
    mode: str | None = None,
    pos_label: Any = None,
    return_bandwidth: bool = False,
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float | tuple[float, float | Floats]:
    r"""Smooth expected calibration error (smECE), with a kernel instead of bins.

    The value is a continuous function of the probabilities, and the bandwidth of the
    kernel is chosen from the data. Lower is better: 0 is best, 1 is worst.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels, of any type.

    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities. A 1-d array contains the probabilities of the positive
        class, which is the second of the two labels.

    bandwidth : float or "auto", default="auto"
        Standard deviation of the Gaussian kernel, in units of probability, from 2**-13
        to 1. "auto" uses the bandwidth that is equal to the error with this bandwidth.

    mode : {"top_label", "positive", "classwise"}, default=None
        Probability that is evaluated: that of the predicted class, of the positive
        class (of two), or of every class, where the errors are averaged over the
        classes. By default, "top_label" for a 2-d array and "positive" for a 1-d array.

    pos_label : label, default=None
        Label of the positive class of a binary problem. It sets the mode to "positive";
        a 1-d array then contains the probabilities of this class. By default, the
        second of the two labels.

    return_bandwidth : bool, default=False
        Whether to also return the bandwidth, such as the one chosen by "auto".

    labels : array-like of shape (n_classes,), default=None
        Labels of the columns of `y_proba`, such as `estimator.classes_`. By default,
        the sorted distinct values of `y_true`, which must then contain every class.

    sample_weight : array-like of shape (n_samples,), default=None
        Sample weights. A weight of 2 is equivalent to including the sample twice.

    Returns
    -------
    error : float
        Calibration error in [0, 1].

    bandwidth : float or ndarray of shape (n_classes,)
        Bandwidth of the kernel, or of the kernel of each class for mode "classwise".
        Only returned if `return_bandwidth` is True.

    Raises
    ------
    ValueError
        If the labels do not match the columns of `y_proba`, or `y_proba` contains
        values that are not probabilities.

    See Also
    --------
    expected_calibration_error : Calibration error with bins.
    smooth_calibration_error : Smooth calibration error (smCE) of Lipschitz functions.
    post_processing_gap : Reduction of a loss by smooth recalibration.

    Notes
    -----
    For probabilities :math:`v_i`, outcomes :math:`y_i \in \{0, 1\}` and the kernel
    :math:`K_\sigma`, the error at the bandwidth :math:`\sigma` is

    .. math:: \int_0^1 \Big| \frac{1}{n} \sum_i K_\sigma(t, v_i) (y_i - v_i) \Big| dt,

    where :math:`K_\sigma` is the Gaussian kernel reflected at 0 and 1, so that no mass
    is lost there [1]_. The error decreases with the bandwidth, and smECE is its value
    where it is equal to the bandwidth. It determines the mean distance to the closest
    calibrated predictions up to a constant factor and a square root.

    The value is accurate to about six digits. Sums over samples are computed by cosine
    transforms on a grid of 16,384 cells. The accuracy decreases for bandwidths of 0.001
    and less, which occur only with more than 10 million samples.

    The code of the authors, relplot, differs in three ways. It gives predictions of
    exactly 0 and 1 half of their weight: if half of the predictions are 1 with accuracy
    0.8, and the others are 0.5 and calibrated, it returns 0.068, and the error is 0.1.
    It truncates the kernel at a distance of 0.5, which matters for bandwidths above
    about 0.2. For a given bandwidth (`smECE_sigma`), it divides by the integral of the
    kernel density estimate instead of by the number of samples.

    References
    ----------
    .. [1] J. Błasiok and P. Nakkiran, "Smooth ECE: Principled Reliability Diagrams via
       Kernel Smoothing", ICLR 2024.

    Examples
    --------
    >>> from sklearn_calib.metrics import smooth_expected_calibration_error
    >>> y_true = [0, 0, 0, 1, 0, 1, 1, 1, 0, 1]
    >>> y_proba = [0.0, 0.1, 0.1, 0.2, 0.3, 0.6, 0.8, 0.8, 0.9, 1.0]
    >>> round(smooth_expected_calibration_error(y_true, y_proba), 3)
    0.12
    """
    data = y_true, y_proba, labels, sample_weight, mode, pos_label
    evaluated = samples_by_class(read_samples(*data))
    results = [_smooth_error(*column, bandwidth) for column in evaluated]
    errors, bandwidths = np.array(results).T
    error = float(np.mean(errors))
    if not return_bandwidth:
        return error
    return error, bandwidths if mode == "classwise" else float(bandwidths[0])


def _smooth_error(
    confidence: Floats, correct: Array, weight: Weights, bandwidth: float | str
) -> tuple[float, float]:
    """Return the error and the bandwidth, for one probability per sample."""
    weight = np.ones(len(correct)) if weight is None else weight
    coefficients = cosine_coefficients(confidence, weight * (correct - confidence))
    coefficients /= weight.sum()
    if isinstance(bandwidth, str):
        bandwidth = self_consistent_bandwidth(coefficients)
    return min(1.0, smoothed_norm(coefficients, bandwidth)), bandwidth
