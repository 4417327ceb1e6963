"""Expected, maximum and class-wise calibration error, estimated with bins."""

from __future__ import annotations

from numbers import Real
from typing import Any, Literal, NamedTuple, overload

import numpy as np
from numpy.typing import ArrayLike

from sklearn_calib._numerics.binning import (
    Strategy,
    class_bin_sums,
    combine_classes,
    gap_error,
    isotonic_calibration_error,
    read_bins,
    resolve_n_bins,
    row_gap_sums,
    sweep_n_bins,
)
from sklearn_calib._validation.declarations import (
    BINS_OF_ERRORS,
    MODE,
    TARGETS,
    Interval,
    StrOptions,
    declare_interval,
    validate_params,
)
from sklearn_calib._validation.samples import (
    LazySamples,
    read_samples,
    samples_by_class,
)
from sklearn_calib._validation.types import Array, Floats, Options
from sklearn_calib.metrics._binned_sums.sample_sums import dask_gap_sums

NORM = {
    "norm": [StrOptions({"l1", "l2", "max"}), Interval(Real, 1, None, closed="left")]
}


@overload
def expected_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    n_bins: int | str | ArrayLike = ...,
    strategy: str = ...,
    norm: str | float = ...,
    reduce_bias: bool = ...,
    mode: str | None = ...,
    pos_label: Any = ...,
    return_n_bins: Literal[False] = ...,
    labels: ArrayLike | None = ...,
    sample_weight: ArrayLike | None = ...,
) -> float: ...


@overload
def expected_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    n_bins: int | str | ArrayLike = ...,
    strategy: str = ...,
    norm: str | float = ...,
    reduce_bias: bool = ...,
    mode: str | None = ...,
    pos_label: Any = ...,
    return_n_bins: Literal[True],
    labels: ArrayLike | None = ...,
    sample_weight: ArrayLike | None = ...,
) -> tuple[float, int]: ...


@declare_interval(is_error=True, bins={})
@validate_params(
    {
        **TARGETS,
        **BINS_OF_ERRORS,
        **NORM,
        "n_bins": [*BINS_OF_ERRORS["n_bins"], StrOptions({"sweep"})],
        "reduce_bias": ["boolean"],
        **MODE,
        "return_n_bins": ["boolean"],
    }
)
def expected_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    n_bins: int | str | ArrayLike = 15,
    strategy: str = "uniform",
    norm: str | float = "l1",
    reduce_bias: bool = False,
    mode: str | None = None,
    pos_label: Any = None,
    return_n_bins: bool = False,
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float | tuple[float, int]:
    r"""Expected calibration error (ECE), estimated with bins.

    The samples are grouped into bins by their :term:`confidence`, the probability of
    the predicted class. In each bin, the mean confidence is compared with the accuracy.
    Lower is better: 0 is best, 1 is worst.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels, of any type.

    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities. A 1-d array contains the probabilities of the positive
        class, which is the second of the two labels.

    n_bins : int, "cube_root", "sweep" or array-like of shape (n_edges,), default=15
        Number of bins, including empty ones, or their edges, which increase from 0 to
        1. Edges need the default strategy. "cube_root" uses the cube root of the
        number of samples, rounded up. "sweep" uses the largest number of bins up to
        which the accuracies of the bins are non-decreasing [2]_. It is at most 1000,
        unless the accuracy is non-decreasing over all distinct confidences. "sweep" is
        not available with mode "classwise". Not used by "isotonic".

    strategy : {"uniform", "quantile", "isotonic"}, default="uniform"
        Binning strategy. "uniform": bins of equal width. "quantile": bins with equal
        numbers of samples as far as ties allow; the result is also known as the
        adaptive calibration error (AdaECE). "isotonic": isotonic regression of
        correctness on confidence instead of bins, as in CORP [5]_. For the adaptive
        calibration error over all classes (ACE), use "quantile" in
        :func:`classwise_calibration_error`.

    norm : {"l1", "l2", "max"} or float, default="l1"
        How the gaps of the bins are aggregated: their mean absolute value, weighted by
        the number of samples; the root of their mean square; or the largest gap. A
        number of at least 1 is the order of the error: the exponent of the power mean
        of the gaps.

    reduce_bias : bool, default=False
        Whether to subtract an estimate of the upward bias, which is caused by the
        sampling noise of the accuracies. For a calibrated classifier, this removes most
        of the error with norm "l2" and a part of it with "l1". Not available with other
        norms or "isotonic".

    mode : {"top_label", "positive", "classwise"}, default=None
        Probability that is evaluated: that of the predicted class, of the positive
        class (of two), or of every class, as in :func:`classwise_calibration_error`. By
        default, "top_label" for a 2-d array and "positive" for a 1-d array.

    pos_label : label, default=None
        Label of the positive class of a binary problem. It sets the mode to "positive";
        a 1-d array then contains the probabilities of this class. By default, the
        second of the two labels.

    return_n_bins : bool, default=False
        Whether to also return the number of bins, such as the one chosen by "sweep".
        Not available with "isotonic", which has no bins.

    labels : array-like of shape (n_classes,), default=None
        Labels of the columns of `y_proba`, such as `estimator.classes_`. By default,
        the sorted distinct values of `y_true`, which must then contain every class.

    sample_weight : array-like of shape (n_samples,), default=None
        Sample weights. A weight of 2 is equivalent to including the sample twice. Their
        scale matters only for "cube_root", "sweep" and `reduce_bias`, which count
        samples.

    Returns
    -------
    error : float
        Calibration error in [0, 1].

    n_bins : int
        Number of bins, including empty ones. Only returned if `return_n_bins` is True.

    Raises
    ------
    ValueError
        If the labels do not match the columns of `y_proba`, or `y_proba` contains
        values that are not probabilities, or `reduce_bias` is used with another norm
        than "l1" or "l2" or with "isotonic", or `return_n_bins` is used with
        "isotonic".

    See Also
    --------
    ece_interval : Confidence interval for the ECE, corrected for its bias.
    ece_consistency_bound : Quantile of the ECE of a perfectly calibrated classifier.
    maximum_calibration_error : Largest gap of a bin.

    Notes
    -----
    With :math:`n_b` of the :math:`n` samples in bin :math:`b`, whose accuracy and mean
    confidence are :math:`a_b` and :math:`c_b`, the error is
    :math:`\sum_b \frac{n_b}{n} |a_b - c_b|` [1]_ (eq. 3).

    The estimate is biased upward: it is positive even for a calibrated classifier. The
    bias grows with the number of bins and shrinks with the number of samples [2]_.

    With `reduce_bias` and norm "l2", :math:`a_b (1 - a_b) / (n_b - 1)` is subtracted
    from each squared gap, and bins with a single sample are left out [4]_. With norm
    "l1", the subtracted term is the amount that normal noise of variance
    :math:`a_b (1 - a_b) / n_b` adds to the absolute gap. A negative result is replaced
    by zero, separately for each class.

    Bins are closed on the right; 0 is in the first bin and 1 in the last. Equal
    confidences are always in the same bin, so the value does not depend on the order of
    the samples. If several classes have the largest probability, the first is the
    predicted class.

    Other packages differ in these conventions: some exclude a confidence of 0 or put 1
    in a separate bin, some split ties between bins of equal numbers of samples, and
    some evaluate the positive class if there are two columns.

    With "isotonic", each confidence :math:`c_i` is compared with the isotonic
    regression at this confidence, :math:`\frac{1}{n} \sum_i |\hat a(c_i) - c_i|`. This
    assumes that the accuracy does not decrease with the confidence. The value is biased
    upward too. For the contribution of miscalibration to a proper loss, see
    :func:`score_decomposition`.

    With one bin for each sample, the value is at least the error rate divided by the
    number of classes ([3]_, Lemma 4.1). The lemma is stated for the calibration error
    of the population, but only bounds this estimate. For example, a classifier with
    confidence 0.7 and accuracy 0.7 is calibrated, but the value is 0.42 if each sample
    has a separate bin.

    The memory of torch tensors on the CPU is read by numpy. Arrays of other libraries
    and on other devices are supported with
    `sklearn.set_config(array_api_dispatch=True)` and the environment variable
    `SCIPY_ARRAY_API=1`. From another device, the confidence and the predicted class of
    each sample are copied, and for the mode "classwise" all probabilities.

    Dask arrays are supported for "uniform" bins, whose sums are added over the blocks,
    as in :meth:`CalibrationAccumulator.update`. Without `labels`, the blocks of
    `y_true` are computed twice.

    References
    ----------
    .. [1] C. Guo, G. Pleiss, Y. Sun and K. Q. Weinberger, "On Calibration of Modern
       Neural Networks", ICML 2017.

    .. [2] R. Roelofs, N. Cain, J. Shlens and M. C. Mozer, "Mitigating Bias in
       Calibration Error Estimation", AISTATS 2022.

    .. [3] H. Zhou, S. G. Gruber, T. Popordanoska and M. B. Blaschko, "Revisiting
       Reweighted Risk for Calibration: AURC, Focal Loss, and Inverse Focal Loss",
       arXiv:2505.23463, 2025.

    .. [4] A. Kumar, P. Liang and T. Ma, "Verified Uncertainty Calibration",
       NeurIPS 2019.

    .. [5] T. Dimitriadis, T. Gneiting and A. I. Jordan, "Stable Reliability Diagrams
       for Probabilistic Classifiers", PNAS 118, 2021.

    Examples
    --------
    >>> from sklearn_calib.metrics import expected_calibration_error
    >>> y_true = ["ham", "ham", "spam", "spam"]
    >>> y_proba = [[0.9, 0.1], [0.9, 0.1], [0.4, 0.6], [0.9, 0.1]]
    >>> round(expected_calibration_error(y_true, y_proba), 3)
    0.275
    >>> round(expected_calibration_error(y_true, y_proba, mode="positive"), 3)
    0.275
    """
    check_reduce_bias(reduce_bias, norm, strategy)
    if return_n_bins and strategy == "isotonic":
        raise ValueError(
            'return_n_bins must be False with strategy="isotonic", which has no bins, '
            'got True. Use strategy="uniform" or "quantile".'
        )
    data = y_true, y_proba, labels, sample_weight
    samples = read_samples(*data, mode=mode, pos_label=pos_label)
    options: Options = {"norm": norm, "reduce_bias": reduce_bias}
    error, n_used = binned_error(samples, n_bins, strategy, **options)
    return (error, n_used) if return_n_bins else error


@declare_interval(is_error=True, bins={"norm": "max"})
@validate_params({**TARGETS, **BINS_OF_ERRORS, **MODE})
def maximum_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    n_bins: int | str | ArrayLike = 15,
    strategy: str = "uniform",
    mode: str | None = None,
    pos_label: Any = None,
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Maximum calibration error (MCE): largest gap between accuracy and confidence.

    The gap is the largest over bins, as in :func:`expected_calibration_error` with
    `norm="max"`. Lower is better: 0 is best, 1 is worst.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels, of any type.

    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities. A 1-d array contains the probabilities of the positive
        class.

    n_bins : int, "cube_root" or array-like of shape (n_edges,), default=15
        Number of bins, or their edges, as in :func:`expected_calibration_error`. Empty
        bins do not count. Not used by "isotonic".

    strategy : {"uniform", "quantile", "isotonic"}, default="uniform"
        Binning strategy: bins of equal width, bins with equal numbers of samples as far
        as ties allow, or isotonic regression instead of bins, as in
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
        Sample weights, as in :func:`expected_calibration_error`.

    Returns
    -------
    error : float
        Calibration error in [0, 1].

    Raises
    ------
    ValueError
        If the labels do not match the columns of `y_proba`, or `y_proba` contains
        values that are not probabilities.

    Notes
    -----
    A bin with a single sample counts as much as any other bin. With "uniform" bins, the
    value is therefore often that of an almost empty bin [1]_ (eq. 5). Prefer "quantile"
    bins to compare classifiers.

    References
    ----------
    .. [1] C. Guo, G. Pleiss, Y. Sun and K. Q. Weinberger, "On Calibration of Modern
       Neural Networks", ICML 2017.

    Examples
    --------
    >>> from sklearn_calib.metrics import maximum_calibration_error
    >>> round(maximum_calibration_error([0, 0, 1, 1], [0.1, 0.3, 0.6, 0.9]), 3)
    0.4
    """
    return expected_calibration_error(
        y_true,
        y_proba,
        n_bins=n_bins,
        strategy=strategy,
        norm="max",
        mode=mode,
        pos_label=pos_label,
        labels=labels,
        sample_weight=sample_weight,
    )


@declare_interval(is_error=True, bins={"mode": "classwise"})
@validate_params(
    {
        **TARGETS,
        **BINS_OF_ERRORS,
        **NORM,
        "reduce_bias": ["boolean"],
        "average": [StrOptions({"mean", "sum"})],
    }
)
def classwise_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    n_bins: int | str | ArrayLike = 15,
    strategy: str = "uniform",
    norm: str | float = "l1",
    reduce_bias: bool = False,
    average: str = "mean",
    pos_label: Any = None,
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

    n_bins : int, "cube_root" or array-like of shape (n_edges,), default=15
        Number of bins, or their edges, as in :func:`expected_calibration_error`. Empty
        bins do not count. Not used by "isotonic".

    strategy : {"uniform", "quantile", "isotonic"}, default="uniform"
        Binning strategy: bins of equal width, bins with equal numbers of samples as far
        as ties allow, or isotonic regression instead of bins, as in
        :func:`expected_calibration_error`.

    norm : {"l1", "l2", "max"} or float, default="l1"
        How the gaps of the bins are aggregated: their mean absolute value; the root of
        their mean square, taken after the average over classes; the largest gap of all
        classes; or the power mean with an exponent of at least 1, also taken after the
        average.

    reduce_bias : bool, default=False
        Whether to subtract an estimate of the upward bias, as in
        :func:`expected_calibration_error`.

    average : {"mean", "sum"}, default="mean"
        Whether to return the mean or the sum over the classes, including classes
        without samples.

    pos_label : label, default=None
        Label of the class whose probabilities a 1-d array contains. By default, the
        second of the two labels.

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
        values that are not probabilities, or `reduce_bias` is used with another norm
        than "l1" or "l2" or with "isotonic".

    Notes
    -----
    With :math:`a_{bk}` the frequency of class :math:`k` in a bin of its probability and
    :math:`c_{bk}` the mean probability in this bin, the error is :math:`\frac{1}{K}
    \sum_k \sum_b \frac{n_{bk}}{n} |a_{bk} - c_{bk}|`. It is also known as the static
    calibration error (SCE), and with "quantile" bins as the adaptive calibration error
    (ACE) [2]_. Kull et al. [1]_ report the sum over classes.

    For a norm of order :math:`\rho`, the mean is within the root: :math:`\bigl(
    \frac{1}{K} \sum_k \sum_b \frac{n_{bk}}{n} |a_{bk} - c_{bk}|^\rho
    \bigr)^{1/\rho}`. The factor :math:`1 / K` is outside of the root in [3]_ (eq. 10):
    this is the value for `average="sum"`, divided by the number of classes. It is
    :math:`K^{1 - 1/\rho}` times smaller.

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
    data = y_true, y_proba, labels, sample_weight, "classwise", pos_label
    samples = read_samples(*data, is_symmetric=True)
    options: Options = {"norm": norm, "reduce_bias": reduce_bias, "average": average}
    return binned_error(samples, n_bins, strategy, **options)[0]


def check_reduce_bias(reduce_bias: bool, norm: str | float, strategy: str) -> None:
    """Raise an error if `reduce_bias` is not available for the options."""
    if reduce_bias and norm not in {"l1", "l2"}:
        raise ValueError(
            f"reduce_bias must be False with norm={norm!r}, got True. Use "
            'norm="l1" or "l2".'
        )
    if reduce_bias and strategy == "isotonic":
        raise ValueError(
            'reduce_bias must be False with strategy="isotonic", which has no bins, '
            'got True. Use strategy="uniform" or "quantile".'
        )


def binned_error(
    samples: Any,
    n_bins: int | str | ArrayLike,
    strategy: str,
    *,
    norm: str | float,
    reduce_bias: bool,
    average: str = "mean",
) -> tuple[float, Any]:
    """Return the error of samples, and the number of bins or None."""
    bins = read_bins(n_bins, strategy)
    if strategy == "isotonic" and not isinstance(samples, LazySamples):
        return _isotonic_error(samples, norm, average), None
    weight, gap, correct, n_used = gap_sums(samples, *bins)
    options: Options = {"reduce_bias": reduce_bias, "average": average}
    return gap_error(weight, gap, correct, norm, **options), n_used


class GapSums(NamedTuple):
    """Sums over the samples of each bin, (n_rows, n_bins) each, one row for each class.

    Bins that no sample can be in may be left out, so that `n_bins` is a field too.
    """

    weight: Floats
    gap: Floats  # probability minus correctness
    correct: Array
    n_bins: int


def gap_sums(samples: Any, n_bins: Any, strategy: Strategy) -> GapSums:
    """Return the sums over bins of samples in memory, on a device or in Dask arrays."""
    if isinstance(samples, LazySamples):
        return GapSums(*dask_gap_sums(samples, n_bins, strategy), n_bins)
    if samples.mode != "classwise":
        return _column_gap_sums(samples, n_bins, strategy)
    if n_bins == "sweep":
        raise ValueError(
            'n_bins must be an integer or "cube_root" with mode="classwise", got '
            '"sweep". Use mode="top_label" or "positive".'
        )
    proba, codes, weight = samples.unchecked()
    n_bins = resolve_n_bins(n_bins, len(codes), weight)
    sums = class_bin_sums(
        proba,
        codes,
        n_bins=n_bins,
        strategy=strategy,
        sample_weight=weight,
        keep_empty=False,
    )
    return GapSums(*sums, n_bins)


def _column_gap_sums(samples: Any, n_bins: Any, strategy: Any) -> GapSums:
    """Return the sums of one probability per sample."""
    value, correct, weight = samples.column()
    if n_bins == "sweep":
        n_bins = sweep_n_bins(value, correct, strategy=strategy, sample_weight=weight)
    n_bins = resolve_n_bins(n_bins, len(value), weight)
    sums = row_gap_sums(value, correct, weight, n_bins=n_bins, strategy=strategy)
    return GapSums(*sums, n_bins)


def _isotonic_error(samples: Any, norm: str | float, average: str) -> float:
    """Return the error relative to the isotonic regression."""
    errors = [
        isotonic_calibration_error(*data, norm) for data in samples_by_class(samples)
    ]
    if samples.mode != "classwise":
        return errors[0]
    return float(combine_classes(np.array(errors), norm, average))
