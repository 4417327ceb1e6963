"""The smooth calibration error: kernels in the place of bins."""

from __future__ import annotations

from numbers import Real
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike

from sklearn_calib._core.heat_kernel import (
    SMALLEST_BANDWIDTH,
    cosine_coefficients,
    self_consistent_bandwidth,
    smoothed_norm,
)
from sklearn_calib._core.inputs import (
    MODES,
    TARGETS,
    as_columns,
    check_targets,
    confidence_and_hit,
    resolve_mode,
)
from sklearn_calib._core.interval_kind import declare_interval
from sklearn_calib._core.typing import Array, Floats, Weights
from sklearn_calib._core.validation import (
    Interval,
    StrOptions,
    check_proba,
    validate_params,
)


@overload
def smooth_expected_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    bandwidth: float | str = ...,
    mode: str | None = ...,
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
        "mode": [StrOptions(MODES), None],
        "return_bandwidth": ["boolean"],
    },
    prefer_skip_nested_validation=True,
)
def smooth_expected_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    bandwidth: float | str = "auto",
    mode: str | None = None,
    return_bandwidth: bool = False,
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float | tuple[float, float | Floats]:
    r"""Gap between confidence and accuracy, smoothed by a kernel instead of bins.

    Known as smECE. It changes continuously with the probabilities, and there is nothing
    to choose: the bandwidth follows from the data. 0 is best, 1 is worst.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels, of any kind.

    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities. A 1-d array holds those of the positive class, which
        is the second of two labels.

    bandwidth : float or "auto", default="auto"
        Standard deviation of the Gaussian kernel, in units of probability, from 2**-13
        to 1. "auto" takes the one that equals the error with it.

    mode : {"top_label", "positive", "classwise"}, default=None
        What is measured: the probability of the predicted class, of the positive
        class of two, or of every class, averaged over the classes. By default the top
        label of a matrix, and the positive class of a 1-d array.

    return_bandwidth : bool, default=False
        Whether to return the bandwidth as well, such as the one chosen by "auto".

    labels : array-like of shape (n_classes,), default=None
        The label of each column, such as `estimator.classes_`. By default the sorted
        distinct values of `y_true`, which must then hold every class.

    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the samples; a weight of 2 counts like the same sample twice.

    Returns
    -------
    error : float
        Calibration error in [0, 1].

    bandwidth : float or ndarray of shape (n_classes,)
        Bandwidth of the kernel, for mode "classwise" the bandwidth of each class. Only
        returned if `return_bandwidth` is True.

    Raises
    ------
    ValueError
        If the labels do not match the columns, or `y_proba` holds anything but
        probabilities.

    See Also
    --------
    expected_calibration_error : The same with bins.
    smooth_calibration_error : smCE, the worst of all smooth weights.
    post_processing_gap : What a smooth map of the probabilities would gain.

    Notes
    -----
    For probabilities :math:`v_i`, of which :math:`y_i \in \{0, 1\}` came true, and the
    kernel :math:`K_\sigma`, the error at a bandwidth :math:`\sigma` is

    .. math:: \int_0^1 \Big| \frac{1}{n} \sum_i K_\sigma(t, v_i) (y_i - v_i) \Big| dt,

    where the kernel is the Gaussian reflected at 0 and 1, so that no mass is lost
    there [1]_. It falls as the bandwidth grows, and smECE is its value where both are
    equal. Up to a constant factor and a square root that is the mean distance to the
    closest prediction that is calibrated.

    The value is exact to about six digits: sums over samples become a cosine transform
    on a grid of 16,384 cells, in which the reflected kernel is a product. With
    bandwidths of 0.001 and less, which take more than 10 million samples, digits are
    lost. Other packages reflect all but the end points, so that predictions of exactly
    0 and 1 count half, and bend the result by a third where there are many of them.

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
    proba, codes, weight = check_targets(y_true, y_proba, labels, sample_weight)
    mode = resolve_mode(mode, proba)
    if mode != "classwise":
        judged: Any = [confidence_and_hit(proba, codes, mode)]
    else:
        columns = check_proba(as_columns(proba))
        judged = ((column, codes == k) for k, column in enumerate(columns.T))
    results = [_smooth_error(value, hit, weight, bandwidth) for value, hit in judged]
    errors, bandwidths = np.array(results).T
    error = float(np.mean(errors))
    if not return_bandwidth:
        return error
    return error, bandwidths if mode == "classwise" else float(bandwidths[0])


def _smooth_error(
    confidence: Floats, hit: Array, weight: Weights, bandwidth: float | str
) -> tuple[float, float]:
    """Return the error and the bandwidth for one probability per sample."""
    weight = np.ones(len(hit)) if weight is None else weight
    coefficients = cosine_coefficients(confidence, weight * (hit - confidence))
    coefficients /= weight.sum()
    if isinstance(bandwidth, str):
        bandwidth = self_consistent_bandwidth(coefficients)
    return min(1.0, smoothed_norm(coefficients, bandwidth)), bandwidth
