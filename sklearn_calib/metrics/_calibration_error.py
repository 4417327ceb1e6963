"""Calibration errors with bins, of the top label or of one class."""

from __future__ import annotations

from typing import Literal, overload

from numpy.typing import ArrayLike

from sklearn_calib._core.binning import (
    binned_calibration_error,
    gap_error,
    isotonic_calibration_error,
    sweep_n_bins,
)
from sklearn_calib._core.inputs import (
    BINS_OF_ERRORS,
    MODES,
    TARGETS,
    check_targets,
    confidence_and_hit,
    resolve_mode,
    resolve_n_bins,
)
from sklearn_calib._core.interval_kind import declare_interval
from sklearn_calib._core.typing import Options
from sklearn_calib._core.validation import StrOptions, is_array_api, validate_params
from sklearn_calib.metrics._array_api import array_api_gap_sums
from sklearn_calib.metrics._classwise_error import (
    NORM,
    check_reduce_bias,
    over_classes,
)


@overload
def expected_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    n_bins: int | str = ...,
    strategy: str = ...,
    norm: str = ...,
    reduce_bias: bool = ...,
    mode: str | None = ...,
    return_n_bins: Literal[False] = ...,
    labels: ArrayLike | None = ...,
    sample_weight: ArrayLike | None = ...,
) -> float: ...


@overload
def expected_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    n_bins: int | str = ...,
    strategy: str = ...,
    norm: str = ...,
    reduce_bias: bool = ...,
    mode: str | None = ...,
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
        "mode": [StrOptions(MODES), None],
        "return_n_bins": ["boolean"],
    },
    prefer_skip_nested_validation=True,
)
def expected_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    n_bins: int | str = 15,
    strategy: str = "uniform",
    norm: str = "l1",
    reduce_bias: bool = False,
    mode: str | None = None,
    return_n_bins: bool = False,
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float | tuple[float, int]:
    r"""Gap between confidence and accuracy, estimated with bins.

    The samples are grouped by the probability of their predicted class; in each bin
    the mean confidence is compared with the accuracy. 0 is best, 1 is worst.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels, of any kind.

    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities. A 1-d array holds those of the positive class, which
        is the second of two labels.

    n_bins : int, "cube_root" or "sweep", default=15
        Number of bins. "cube_root" takes the cube root of the number of samples,
        rounded up, as scikit-learn's `calibration_curve`; "sweep" the largest number up
        to which the accuracies of the bins rise with their confidence [2]_, for one
        probability only, and at most 1000 unless those of all confidences rise. Empty
        bins do not count. Not used by "isotonic".

    strategy : {"uniform", "quantile", "isotonic"}, default="uniform"
        Bins of equal width, or of equal numbers of samples as far as ties allow; or
        instead of bins the isotonic regression of the hits on the confidences, as in
        CORP [5]_, where nothing is to be chosen. With "quantile" this is known as the
        adaptive calibration error, AdaECE; that of all classes, ACE, is
        :func:`classwise_calibration_error` with "quantile".

    norm : {"l1", "l2", "max"}, default="l1"
        How the gaps of the bins are put together: the mean of their absolute values
        over the samples, the root of the mean of their squares, or the largest.

    reduce_bias : bool, default=False
        Whether to subtract an estimate of what the noise of the accuracies adds to the
        gaps: for a calibrated classifier most of the error with norm "l2", part of it
        with "l1". Not with "max", and not with "isotonic".

    mode : {"top_label", "positive", "classwise"}, default=None
        What is measured: the probability of the predicted class, of the positive
        class of two, or of every class, as in :func:`classwise_calibration_error`. By
        default the top label of a matrix, and the positive class of a 1-d array.

    return_n_bins : bool, default=False
        Whether to return the number of bins as well, such as the one chosen by "sweep".
        Must be False for "isotonic", which has no bins.

    labels : array-like of shape (n_classes,), default=None
        The label of each column, such as `estimator.classes_`. By default the sorted
        distinct values of `y_true`, which must then hold every class.

    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the samples; a weight of 2 counts like the same sample twice. Their
        scale matters only for "cube_root", "sweep" and `reduce_bias`, which count
        samples.

    Returns
    -------
    error : float
        Calibration error in [0, 1].

    n_bins : int
        Number of bins, empty ones included. Only returned if `return_n_bins` is True.

    Raises
    ------
    ValueError
        If the labels do not match the columns, or `y_proba` holds anything but
        probabilities, or `reduce_bias` is used with "max" or "isotonic", or
        `return_n_bins` is used with "isotonic".

    See Also
    --------
    ece_interval : An interval for it that allows for its bias.
    ece_consistency_bound : What a perfectly calibrated classifier stays under.
    maximum_calibration_error : The gap of the worst bin.

    Notes
    -----
    With :math:`n_b` of the :math:`n` samples in bin :math:`b`, whose accuracy and mean
    confidence are :math:`a_b` and :math:`c_b`, the error is
    :math:`\sum_b \frac{n_b}{n} |a_b - c_b|` [1]_ (eq. 3). It is not zero for a
    calibrated classifier, but biased upward, and more so with more bins and fewer
    samples [2]_. `reduce_bias` takes :math:`a_b (1 - a_b) / (n_b - 1)` from each
    squared gap, and leaves bins of a single sample out [4]_; from an absolute gap what
    normal noise of the variance :math:`a_b (1 - a_b) / n_b` would add to it. What is
    below zero then is zero, of each class by itself.

    Bins are closed on the right; 0 is in the first and 1 in the last. Equal
    confidences share a bin under either strategy, hence the value does not depend on
    the order of the samples. The predicted class is the first of those with the
    largest probability. Other packages differ: some leave a confidence of 0 out or
    give 1 a bin of its own, some split ties when bins have equal numbers of samples,
    and some measure the positive class where there are two columns.

    With "isotonic" each confidence :math:`c_i` is compared with the isotonic regression
    there, :math:`\frac{1}{n} \sum_i |\hat a(c_i) - c_i|`, which suits where accuracy
    does not fall with confidence. The value is biased upward too. What the gaps cost in
    terms of a proper loss is in :func:`score_decomposition`.

    Of all ways to bin the top label, one bin for each sample gives the largest value,
    which is at least the error rate divided by the number of classes ([3]_, Lemma 4.1).
    That is a bound of the estimate, and not, as stated there, of the error of the
    population: a classifier that is always 0.7 confident, and right in 7 of 10 cases,
    is calibrated, and has the value 0.42 if each sample has its own bin.

    With `sklearn.set_config(array_api_dispatch=True)`, and `SCIPY_ARRAY_API=1` in the
    environment, torch tensors on any device with 64-bit floats, and other arrays of the
    array API standard, are measured where they are: only sums over bins are copied.
    "sweep" and "isotonic" need numpy.

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
            'got True. Use "uniform" or "quantile".'
        )
    if is_array_api(y_proba):
        bins: Options = {"mode": mode, "n_bins": n_bins, "strategy": strategy}
        sums = array_api_gap_sums(y_true, y_proba, labels, sample_weight, **bins)
        error = gap_error(*sums, norm, reduce_bias=reduce_bias)
        return (error, sums[0].shape[1]) if return_n_bins else error
    proba, codes, weight = check_targets(y_true, y_proba, labels, sample_weight)
    mode = resolve_mode(mode, proba)
    options: Options = {"strategy": strategy, "norm": norm, "reduce_bias": reduce_bias}
    if mode == "classwise":
        options["average"] = "mean"
        error = over_classes(proba, codes, weight, n_bins=n_bins, **options)
    else:
        confidence, hit = confidence_and_hit(proba, codes, mode)
        if strategy == "isotonic":
            return isotonic_calibration_error(
                confidence, hit, norm=norm, sample_weight=weight
            )
        if n_bins == "sweep":
            n_bins = sweep_n_bins(
                confidence, hit, strategy=strategy, sample_weight=weight
            )
        n_bins = resolve_n_bins(n_bins, len(hit), weight)
        options["sample_weight"] = weight
        error = binned_calibration_error(confidence, hit, n_bins=n_bins, **options)
    if not return_n_bins:
        return error
    return error, int(resolve_n_bins(n_bins, len(codes), weight))


@declare_interval(is_error=True, bins={"norm": "max"})
@validate_params(
    {**TARGETS, **BINS_OF_ERRORS, "mode": [StrOptions(MODES), None]},
    prefer_skip_nested_validation=True,
)
def maximum_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    n_bins: int | str = 15,
    strategy: str = "uniform",
    mode: str | None = None,
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Largest gap between confidence and accuracy in a bin.

    0 is best, 1 is worst. It is :func:`expected_calibration_error` with `norm="max"`.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels, of any kind.

    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities. A 1-d array holds those of the positive class.

    n_bins : int or "cube_root", default=15
        Number of bins, or the cube root of the number of samples, rounded up. Empty
        bins do not count. Not used by "isotonic".

    strategy : {"uniform", "quantile", "isotonic"}, default="uniform"
        Bins of equal width, of equal numbers of samples as far as ties allow, or the
        isotonic regression instead, as in :func:`expected_calibration_error`.

    mode : {"top_label", "positive", "classwise"}, default=None
        What is measured, as in :func:`expected_calibration_error`.

    labels : array-like of shape (n_classes,), default=None
        The label of each column, by default the sorted distinct values of `y_true`.

    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the samples, as in :func:`expected_calibration_error`.

    Returns
    -------
    error : float
        Calibration error in [0, 1].

    Raises
    ------
    ValueError
        If the labels do not match the columns, or `y_proba` holds anything but
        probabilities.

    Notes
    -----
    A bin with a single sample counts as much as any other, so that with "uniform"
    bins the value is often that of an almost empty one [1]_ (eq. 5). Prefer
    "quantile" bins to compare classifiers.

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
        labels=labels,
        sample_weight=sample_weight,
    )
