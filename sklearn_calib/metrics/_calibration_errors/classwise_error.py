"""Class-wise calibration error, estimated with bins."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from sklearn_calib._numerics.binned_gaps import (
    class_bin_sums,
    combine_classes,
    gap_error,
    isotonic_calibration_error,
)
from sklearn_calib._numerics.binning import resolve_n_bins
from sklearn_calib._validation.arrays import is_array_api
from sklearn_calib._validation.declarations import (
    BINS_OF_ERRORS,
    TARGETS,
    StrOptions,
    declare_interval,
    validate_params,
)
from sklearn_calib._validation.probabilities import check_proba
from sklearn_calib._validation.samples import as_columns, check_targets
from sklearn_calib._validation.types import Floats, Ints, Options, Weights
from sklearn_calib.metrics._accumulator.dask_errors import (
    has_dask_arrays,
    sums_of_dask_arrays,
)
from sklearn_calib.metrics._binned_sums.metrics_array_api import array_api_gap_sums

NORM = {"norm": [StrOptions({"l1", "l2", "max"})]}


@declare_interval(is_error=True, bins={"mode": "classwise"})
@validate_params(
    {
        **TARGETS,
        **BINS_OF_ERRORS,
        **NORM,
        "reduce_bias": ["boolean"],
        "average": [StrOptions({"mean", "sum"})],
    },
    prefer_skip_nested_validation=True,
)
def classwise_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    n_bins: int | str = 15,
    strategy: str = "uniform",
    norm: str = "l1",
    reduce_bias: bool = False,
    average: str = "mean",
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""Class-wise calibration error, estimated with bins (also known as SCE or ACE).

    For each class separately, its mean predicted probability is compared with its
    frequency in bins of the predicted probability. The errors of the classes are then
    averaged. Lower is better; 0 is best.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels, of any type.

    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities. A 1-d array contains the probabilities of the positive
        class; the error is averaged over both classes.

    n_bins : int or "cube_root", default=15
        Number of bins. "cube_root" uses the cube root of the number of samples, rounded
        up. Empty bins do not count. Not used by "isotonic".

    strategy : {"uniform", "quantile", "isotonic"}, default="uniform"
        Binning strategy: bins of equal width, bins with equal numbers of samples as far
        as ties allow, or isotonic regression instead of bins, as in
        :func:`expected_calibration_error`.

    norm : {"l1", "l2", "max"}, default="l1"
        How the gaps of the bins are aggregated: their mean absolute value; the root of
        their mean square, taken after the average over classes; or the largest gap of
        all classes.

    reduce_bias : bool, default=False
        Whether to subtract an estimate of the upward bias, as in
        :func:`expected_calibration_error`.

    average : {"mean", "sum"}, default="mean"
        Whether to return the mean or the sum over the classes, including classes
        without samples.

    labels : array-like of shape (n_classes,), default=None
        Labels of the columns of `y_proba`. By default, the sorted distinct values of
        `y_true`.

    sample_weight : array-like of shape (n_samples,), default=None
        Sample weights, as in :func:`expected_calibration_error`.

    Returns
    -------
    error : float
        Calibration error, in [0, 1] for `average="mean"`. The sum is up to `n_classes`
        times as large.

    Raises
    ------
    ValueError
        If the labels do not match the columns of `y_proba`, or `y_proba` contains
        values that are not probabilities, or `reduce_bias` is used with "max" or
        "isotonic".

    Notes
    -----
    With :math:`a_{bk}` the frequency of class :math:`k` in a bin of its probability and
    :math:`c_{bk}` the mean probability in this bin, the error is :math:`\frac{1}{K}
    \sum_k \sum_b \frac{n_{bk}}{n} |a_{bk} - c_{bk}|`. It is also known as the static
    calibration error (SCE), and with "quantile" bins as the adaptive calibration error
    (ACE) [2]_. Kull et al. [1]_ report the sum over classes.

    If there are many classes, most probabilities are in the first of the "uniform"
    bins. "quantile" bins then resolve the probabilities better.

    With one bin for each sample, the value is at least the error rate divided by the
    number of classes ([3]_, Prop. 4.3). This is not a bound on the error of the
    population; see the notes of :func:`expected_calibration_error`.

    The array API and Dask arrays are supported as in
    :func:`expected_calibration_error`.

    References
    ----------
    .. [1] M. Kull, M. Perello-Nieto, M. Kängsepp, T. Silva Filho, H. Song and P. Flach,
       "Beyond Temperature Scaling: Obtaining Well-Calibrated Multiclass Probabilities
       with Dirichlet Calibration", NeurIPS 2019.

    .. [2] J. Nixon, M. W. Dusenberry, L. Zhang, G. Jerfel and D. Tran, "Measuring
       Calibration in Deep Learning", CVPR Workshops 2019.

    .. [3] H. Zhou, S. G. Gruber, T. Popordanoska and M. B. Blaschko, "Revisiting
       Reweighted Risk for Calibration: AURC, Focal Loss, and Inverse Focal Loss",
       arXiv:2505.23463, 2025.

    Examples
    --------
    >>> from sklearn_calib.metrics import classwise_calibration_error
    >>> y_proba = [[0.7, 0.2, 0.1], [0.2, 0.7, 0.1], [0.0, 0.0, 1.0]]
    >>> round(classwise_calibration_error([0, 1, 2], y_proba), 3)
    0.133
    """
    check_reduce_bias(reduce_bias, norm, strategy)
    bins: Options = {"mode": "classwise", "n_bins": n_bins, "strategy": strategy}
    if has_dask_arrays(y_true, y_proba, sample_weight):
        total = sums_of_dask_arrays(y_true, y_proba, labels, sample_weight, **bins)
        return total.compute(norm=norm, reduce_bias=reduce_bias, average=average)
    if is_array_api(y_proba):
        sums = array_api_gap_sums(y_true, y_proba, labels, sample_weight, **bins)
        return gap_error(*sums, norm, reduce_bias=reduce_bias, average=average)
    proba, codes, weight = check_targets(y_true, y_proba, labels, sample_weight)
    return over_classes(
        proba,
        codes,
        weight,
        n_bins=n_bins,
        strategy=strategy,
        norm=norm,
        reduce_bias=reduce_bias,
        average=average,
    )


def check_reduce_bias(reduce_bias: bool, norm: str, strategy: str) -> None:
    """Raise an error if `reduce_bias` is not available for the options."""
    if reduce_bias and norm == "max":
        raise ValueError(
            'reduce_bias must be False with norm="max", got True. Use norm="l1" or '
            '"l2".'
        )
    if reduce_bias and strategy == "isotonic":
        raise ValueError(
            'reduce_bias must be False with strategy="isotonic", which has no bins, '
            'got True. Use strategy="uniform" or "quantile".'
        )


def over_classes(
    proba: Floats,
    codes: Ints,
    weight: Weights,
    *,
    n_bins: int | str,
    strategy: str,
    norm: str,
    reduce_bias: bool,
    average: str,
) -> float:
    """Return the calibration error of every class, averaged over classes."""
    proba = as_columns(proba)
    if strategy == "isotonic":
        options: Options = {"norm": norm, "sample_weight": weight}
        errors = [
            isotonic_calibration_error(column, codes == code, **options)
            for code, column in enumerate(check_proba(proba).T)
        ]
        return float(combine_classes(np.array(errors), norm, average))
    if n_bins == "sweep":
        raise ValueError(
            'n_bins must be an integer or "cube_root" with mode="classwise", got '
            '"sweep". Use mode="top_label" or "positive".'
        )
    mass, gap, correct = class_bin_sums(
        proba,
        codes,
        n_bins=resolve_n_bins(n_bins, len(codes), weight),
        strategy=strategy,
        sample_weight=weight,
        keep_empty=False,
    )
    options = {"reduce_bias": reduce_bias, "average": average}
    return gap_error(mass, gap, correct, norm, **options)
