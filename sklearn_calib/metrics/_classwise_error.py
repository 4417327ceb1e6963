"""The calibration error with bins of every class."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from sklearn_calib._core.binning import (
    combine_classes,
    gap_error,
    isotonic_calibration_error,
)
from sklearn_calib._core.class_bins import class_bin_sums
from sklearn_calib._core.inputs import (
    BINS_OF_ERRORS,
    TARGETS,
    as_columns,
    check_targets,
    resolve_n_bins,
)
from sklearn_calib._core.interval_kind import declare_interval
from sklearn_calib._core.typing import Floats, Ints, Options, Weights
from sklearn_calib._core.validation import (
    StrOptions,
    check_proba,
    is_array_api,
    validate_params,
)
from sklearn_calib.metrics._array_api import array_api_gap_sums

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
    r"""Calibration error of the probabilities of every class, averaged over classes.

    For each class by itself, its probability is compared with its frequency, in bins
    of that probability. 0 is best.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels, of any kind.

    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities. A 1-d array holds those of the positive class; the
        other class is measured too.

    n_bins : int or "cube_root", default=15
        Number of bins, or the cube root of the number of samples, rounded up. Empty
        bins do not count. Not used by "isotonic".

    strategy : {"uniform", "quantile", "isotonic"}, default="uniform"
        Bins of equal width, of equal numbers of samples as far as ties allow, or the
        isotonic regression instead, as in :func:`expected_calibration_error`.

    norm : {"l1", "l2", "max"}, default="l1"
        How the gaps of the bins are put together: absolute values, the root of the
        squares, taken after the average over classes, or the largest of all classes.

    reduce_bias : bool, default=False
        Whether to subtract what the noise of the frequencies adds to the gaps, as in
        :func:`expected_calibration_error`.

    average : {"mean", "sum"}, default="mean"
        Mean or sum over all classes, those without samples included.

    labels : array-like of shape (n_classes,), default=None
        The label of each column, by default the sorted distinct values of `y_true`.

    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the samples, as in :func:`expected_calibration_error`.

    Returns
    -------
    error : float
        Calibration error. In [0, 1] for the mean; the sum is up to n_classes times as
        large.

    Raises
    ------
    ValueError
        If the labels do not match the columns, or `y_proba` holds anything but
        probabilities, or `reduce_bias` is used with "max" or "isotonic".

    Notes
    -----
    With :math:`a_{bk}` the frequency of class :math:`k` in a bin of its probability
    and :math:`c_{bk}` the mean probability there, the error is
    :math:`\frac{1}{K} \sum_k \sum_b \frac{n_{bk}}{n} |a_{bk} - c_{bk}|`. It is also
    known as the static calibration error, SCE, and with "quantile" bins as the adaptive
    calibration error, ACE [2]_; Kull et al. [1]_ print the sum in their tables. With
    many classes most probabilities are in the first bin, and "quantile" bins see more.

    With one bin for each sample the value is at least the error rate divided by the
    number of classes; the error of the population is not ([3]_, Prop. 4.3), see the
    notes of :func:`expected_calibration_error`.

    Arrays that are not numpy's are measured where they are, as by
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
    if is_array_api(y_proba):
        bins: Options = {"mode": "classwise", "n_bins": n_bins, "strategy": strategy}
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
    """Refuse what has no estimate of its bias."""
    if reduce_bias and norm == "max":
        raise ValueError(
            'reduce_bias must be False with norm="max", got True. Use "l1" or "l2".'
        )
    if reduce_bias and strategy == "isotonic":
        raise ValueError(
            'reduce_bias must be False with strategy="isotonic", which has no bins of '
            'its own, got True. Use "uniform" or "quantile".'
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
    """Measure every class and put the errors together."""
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
            'n_bins must be a number or "cube_root" where every class is measured, got '
            '"sweep". Measure one probability, with mode="top_label" or "positive".'
        )
    mass, gap, hit = class_bin_sums(
        proba,
        codes,
        n_bins=resolve_n_bins(n_bins, len(codes), weight),
        strategy=strategy,
        sample_weight=weight,
        keep_empty=False,
    )
    options = {"reduce_bias": reduce_bias, "average": average}
    return gap_error(mass, gap, hit, norm, **options)
