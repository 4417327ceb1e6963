"""Calibration errors with bins: of the top label, of one class, of every class."""

from sklearn_calib._core.binning import (
    binned_calibration_error,
    class_bin_sums,
    class_gap_norm,
)
from sklearn_calib._core.validation import StrOptions, validate_params
from sklearn_calib.metrics._targets import (
    BINS,
    MODES,
    TARGETS,
    as_columns,
    check_targets,
    confidence_and_hit,
    resolve_mode,
)

NORM = {"norm": [StrOptions({"l1", "l2", "max"})]}


@validate_params(
    {**TARGETS, **BINS, **NORM, "mode": [StrOptions(MODES), None]},
    prefer_skip_nested_validation=True,
)
def expected_calibration_error(
    y_true,
    y_proba,
    *,
    n_bins=15,
    strategy="uniform",
    norm="l1",
    mode=None,
    labels=None,
    sample_weight=None,
):
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

    n_bins : int, default=15
        Number of bins. Empty bins do not count.

    strategy : {"uniform", "quantile"}, default="uniform"
        Bins of equal width, or of equal numbers of samples as far as ties allow. With
        "quantile" this is known as the adaptive calibration error.

    norm : {"l1", "l2", "max"}, default="l1"
        How the gaps of the bins are put together: the mean of their absolute values
        over the samples, the root of the mean of their squares, or the largest.

    mode : {"top_label", "positive", "classwise"}, default=None
        What is measured: the probability of the predicted class, of the positive
        class of two, or of every class, as in :func:`classwise_calibration_error`. By
        default the top label of a matrix, and the positive class of a 1-d array.

    labels : array-like of shape (n_classes,), default=None
        The label of each column, such as `estimator.classes_`. By default the sorted
        distinct values of `y_true`, which must then hold every class.

    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the samples; a weight of 2 counts like the same sample twice.

    Returns
    -------
    error : float
        Calibration error in [0, 1].

    Raises
    ------
    ValueError
        If the labels do not match the columns, or `y_proba` holds anything but
        probabilities.

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
    samples [2]_.

    Bins are closed on the right; 0 is in the first and 1 in the last. Equal
    confidences share a bin under either strategy, hence the value does not depend on
    the order of the samples. The predicted class is the first of those with the
    largest probability. Other packages differ: some leave a confidence of 0 out or
    give 1 a bin of its own, some split ties when bins have equal numbers of samples,
    and some measure the positive class where there are two columns.

    Of all ways to bin the top label, one bin for each sample gives the largest value,
    which is at least the error rate divided by the number of classes ([3]_, Lemma 4.1).
    That is a bound of the estimate, and not, as stated there, of the error of the
    population: a classifier that is always 0.7 confident, and right in 7 of 10 cases,
    is calibrated, and has the value 0.42 if each sample has its own bin.

    References
    ----------
    .. [1] C. Guo, G. Pleiss, Y. Sun and K. Q. Weinberger, "On Calibration of Modern
       Neural Networks", ICML 2017.

    .. [2] R. Roelofs, N. Cain, J. Shlens and M. C. Mozer, "Mitigating Bias in
       Calibration Error Estimation", AISTATS 2022.

    .. [3] H. Zhou, S. Gruber, T. Popordanoska and M. B. Blaschko, "Revisiting
       Reweighted Risk for Calibration: AURC, Focal Loss, and Inverse Focal Loss", 2025.

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
    options = {"n_bins": n_bins, "strategy": strategy, "norm": norm}
    proba, codes, weight = check_targets(y_true, y_proba, labels, sample_weight)
    mode = resolve_mode(mode, proba)
    if mode == "classwise":
        return _over_classes(proba, codes, weight, average="mean", **options)
    confidence, hit = confidence_and_hit(proba, codes, mode)
    return binned_calibration_error(confidence, hit, sample_weight=weight, **options)


@validate_params(
    {**TARGETS, **BINS, "mode": [StrOptions(MODES), None]},
    prefer_skip_nested_validation=True,
)
def maximum_calibration_error(
    y_true,
    y_proba,
    *,
    n_bins=15,
    strategy="uniform",
    mode=None,
    labels=None,
    sample_weight=None,
):
    """Largest gap between confidence and accuracy in a bin.

    0 is best, 1 is worst. It is :func:`expected_calibration_error` with `norm="max"`.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels, of any kind.

    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities. A 1-d array holds those of the positive class.

    n_bins : int, default=15
        Number of bins. Empty bins do not count.

    strategy : {"uniform", "quantile"}, default="uniform"
        Bins of equal width, or of equal numbers of samples as far as ties allow.

    mode : {"top_label", "positive", "classwise"}, default=None
        What is measured, as in :func:`expected_calibration_error`.

    labels : array-like of shape (n_classes,), default=None
        The label of each column, by default the sorted distinct values of `y_true`.

    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the samples.

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


@validate_params(
    {**TARGETS, **BINS, **NORM, "average": [StrOptions({"mean", "sum"})]},
    prefer_skip_nested_validation=True,
)
def classwise_calibration_error(
    y_true,
    y_proba,
    *,
    n_bins=15,
    strategy="uniform",
    norm="l1",
    average="mean",
    labels=None,
    sample_weight=None,
):
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

    n_bins : int, default=15
        Number of bins. Empty bins do not count.

    strategy : {"uniform", "quantile"}, default="uniform"
        Bins of equal width, or of equal numbers of samples as far as ties allow.

    norm : {"l1", "l2", "max"}, default="l1"
        How the gaps of the bins are put together: absolute values, the root of the
        squares, taken after the average over classes, or the largest of all classes.

    average : {"mean", "sum"}, default="mean"
        Mean or sum over all classes, those without samples included.

    labels : array-like of shape (n_classes,), default=None
        The label of each column, by default the sorted distinct values of `y_true`.

    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the samples.

    Returns
    -------
    error : float
        Calibration error. In [0, 1] for the mean; the sum is up to n_classes times as
        large.

    Raises
    ------
    ValueError
        If the labels do not match the columns, or `y_proba` holds anything but
        probabilities.

    Notes
    -----
    With :math:`a_{bk}` the frequency of class :math:`k` in a bin of its probability
    and :math:`c_{bk}` the mean probability there, the error is
    :math:`\frac{1}{K} \sum_k \sum_b \frac{n_{bk}}{n} |a_{bk} - c_{bk}|`. It is also
    known as the static calibration error; Kull et al. [1]_ print the sum in their
    tables. With many classes most probabilities are in the first bin, and
    "quantile" bins see more.

    With one bin for each sample the value is at least the error rate divided by the
    number of classes; the error of the population is not ([3]_, Prop. 4.3), see the
    notes of :func:`expected_calibration_error`.

    References
    ----------
    .. [1] M. Kull, M. Perello-Nieto, M. Kängsepp, T. Silva Filho, H. Song and P. Flach,
       "Beyond temperature scaling: Obtaining well-calibrated multiclass probabilities
       with Dirichlet calibration", NeurIPS 2019.

    .. [2] J. Nixon, M. Dusenberry, G. Jerfel, T. Nguyen, J. Liu, L. Zhang and D. Tran,
       "Measuring Calibration in Deep Learning", CVPR Workshops 2019.

    .. [3] H. Zhou, S. Gruber, T. Popordanoska and M. B. Blaschko, "Revisiting
       Reweighted Risk for Calibration: AURC, Focal Loss, and Inverse Focal Loss", 2025.

    Examples
    --------
    >>> from sklearn_calib.metrics import classwise_calibration_error
    >>> y_proba = [[0.7, 0.2, 0.1], [0.2, 0.7, 0.1], [0.0, 0.0, 1.0]]
    >>> round(classwise_calibration_error([0, 1, 2], y_proba), 3)
    0.133
    """
    proba, codes, weight = check_targets(y_true, y_proba, labels, sample_weight)
    return _over_classes(
        proba,
        codes,
        weight,
        n_bins=n_bins,
        strategy=strategy,
        norm=norm,
        average=average,
    )


def _over_classes(proba, codes, weight, *, n_bins, strategy, norm, average):
    """Measure every class and put the errors together."""
    sums = class_bin_sums(
        as_columns(proba),
        codes,
        n_bins=n_bins,
        strategy=strategy,
        sample_weight=weight,
    )
    return float(class_gap_norm(*sums, norm, average))
