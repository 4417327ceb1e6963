"""How well scores tell samples of the training's distribution from others."""

from numbers import Real

import numpy as np
from sklearn.metrics import (
    auc,
    average_precision_score,
    precision_recall_curve,
    roc_auc_score,
    roc_curve,
)

from sklearn_calib._core.arrays import as_numbers
from sklearn_calib._core.interval_kind import declare_interval
from sklearn_calib._core.validation import Interval, StrOptions, validate_params

SCORES = {"scores_in": ["array-like"], "scores_out": ["array-like"]}
POSITIVE = {"pos": [StrOptions({"in", "out"})]}


@declare_interval(takes_two_samples=True)
@validate_params(SCORES, prefer_skip_nested_validation=True)
def ood_auroc_score(scores_in, scores_out):
    """Area under the ROC curve of telling in- from out-of-distribution samples.

    The probability that a sample of the training's distribution has a higher score
    than another, ties counting half. 1 is best, 0.5 is chance.

    Parameters
    ----------
    scores_in : array-like of shape (n_in,)
        Scores of samples in the distribution, such as confidences: the higher, the
        more at home.

    scores_out : array-like of shape (n_out,)
        Scores of samples out of the distribution.

    Returns
    -------
    auroc : float
        Area in [0, 1].

    Raises
    ------
    ValueError
        If there are no scores, or one is NaN.

    See Also
    --------
    sklearn_calib.evaluation.evaluate_ood : All of these measures, of an estimator.

    Notes
    -----
    It is the same whichever of the two is called positive, and whatever the numbers of
    samples.

    References
    ----------
    .. [1] D. Hendrycks and K. Gimpel, "A Baseline for Detecting Misclassified and
       Out-of-Distribution Examples in Neural Networks", ICLR 2017.

    Examples
    --------
    >>> from sklearn_calib.metrics import ood_auroc_score
    >>> ood_auroc_score([0.9, 0.8, 0.6], [0.7, 0.4])
    0.8333333333333333
    """
    return float(roc_auc_score(*_merge(scores_in, scores_out, "in")))


@declare_interval(takes_two_samples=True)
@validate_params(
    {
        **SCORES,
        **POSITIVE,
        "interpolation": [StrOptions({"linear", "step"})],
        "balanced": ["boolean"],
    },
    prefer_skip_nested_validation=True,
)
def ood_aupr_score(
    scores_in, scores_out, *, pos="in", interpolation="step", balanced=False
):
    """Area under the curve of precision over recall, AUPR-in or AUPR-out.

    1 is best; chance is the share of the positive samples.

    Parameters
    ----------
    scores_in : array-like of shape (n_in,)
        Scores of samples in the distribution: the higher, the more at home.

    scores_out : array-like of shape (n_out,)
        Scores of samples out of the distribution.

    pos : {"in", "out"}, default="in"
        Which samples are to be found. With "out" those of low scores.

    interpolation : {"step", "linear"}, default="step"
        The average precision, or the area under straight lines between the points,
        which is too optimistic.

    balanced : bool, default=False
        Whether both kinds weigh the same, as if there were as many of one as of the
        other. Then chance is 0.5.

    Returns
    -------
    aupr : float
        Area in [0, 1].

    Raises
    ------
    ValueError
        If there are no scores, or one is NaN.

    Notes
    -----
    Papers differ. OpenOOD and pytorch-ood have the "linear" one, the code of [1]_ the
    "step" one. The code of [2]_, which later papers copy, is close to "linear" and
    `balanced`.

    References
    ----------
    .. [1] D. Hendrycks, M. Mazeika and T. Dietterich, "Deep Anomaly Detection with
       Outlier Exposure", ICLR 2019.

    .. [2] S. Liang, Y. Li and R. Srikant, "Enhancing the Reliability of
       Out-of-distribution Image Detection in Neural Networks", ICLR 2018.

    Examples
    --------
    >>> from sklearn_calib.metrics import ood_aupr_score
    >>> round(ood_aupr_score([0.9, 0.8, 0.6], [0.7, 0.4]), 3)
    0.917
    >>> ood_aupr_score([0.9, 0.8, 0.6], [0.7, 0.4], pos="out")
    0.8333333333333333
    """
    is_positive, score = _merge(scores_in, scores_out, pos)
    share = is_positive.mean()
    weight = np.where(is_positive, 1 - share, share) if balanced else None
    if interpolation == "step":
        return float(average_precision_score(is_positive, score, sample_weight=weight))
    precision, recall, _ = precision_recall_curve(
        is_positive, score, sample_weight=weight
    )
    return float(auc(recall, precision))


@declare_interval(takes_two_samples=True)
@validate_params(
    {**SCORES, **POSITIVE, "tpr": [Interval(Real, 0, 1, closed="right")]},
    prefer_skip_nested_validation=True,
)
def fpr_at_tpr(scores_in, scores_out, *, tpr=0.95, pos="in"):
    """Share of the other samples that pass where most of the own do, FPR95.

    The false positive rate at the highest threshold that has at least the given true
    positive rate, FPR95 by default. 0 is best, 1 is worst, chance is `tpr`.

    Parameters
    ----------
    scores_in : array-like of shape (n_in,)
        Scores of samples in the distribution: the higher, the more at home.

    scores_out : array-like of shape (n_out,)
        Scores of samples out of the distribution.

    tpr : float, default=0.95
        True positive rate, in (0, 1].

    pos : {"in", "out"}, default="in"
        Which samples are positive: whether so many of those in the distribution pass,
        or so many of the others are found.

    Returns
    -------
    fpr : float
        Rate in [0, 1].

    Raises
    ------
    ValueError
        If there are no scores, or one is NaN, or `tpr` is not in (0, 1].

    Notes
    -----
    Papers differ, and the numbers with them: OpenOOD [1]_ and pytorch-ood have out of
    the distribution as positive, which is ``pos="out"``. The code of [2]_, which later
    papers copy, has in the distribution as positive and takes the mean over the
    thresholds whose rate is near 0.95, others that at the rate closest to it.

    References
    ----------
    .. [1] J. Yang et al., "OpenOOD: Benchmarking Generalized Out-of-Distribution
       Detection", NeurIPS Datasets and Benchmarks 2022.

    .. [2] S. Liang, Y. Li and R. Srikant, "Enhancing the Reliability of
       Out-of-distribution Image Detection in Neural Networks", ICLR 2018.

    Examples
    --------
    >>> from sklearn_calib.metrics import fpr_at_tpr
    >>> fpr_at_tpr([0.9, 0.8, 0.6], [0.7, 0.4])
    0.5
    >>> fpr_at_tpr([0.9, 0.8, 0.6], [0.7, 0.4], tpr=0.6)
    0.0
    """
    is_positive, score = _merge(scores_in, scores_out, pos)
    fprs, tprs, _ = roc_curve(is_positive, score, drop_intermediate=False)
    return float(fprs[np.searchsorted(tprs, tpr)])


@declare_interval(takes_two_samples=True)
@validate_params(SCORES, prefer_skip_nested_validation=True)
def ood_detection_error(scores_in, scores_out):
    r"""Error rate of telling apart in- and out-of-distribution samples, at best.

    Of the best threshold, if both kinds of samples are as frequent. 0 is best, 0.5 is
    chance.

    Parameters
    ----------
    scores_in : array-like of shape (n_in,)
        Scores of samples in the distribution: the higher, the more at home.

    scores_out : array-like of shape (n_out,)
        Scores of samples out of the distribution.

    Returns
    -------
    error : float
        Rate in [0, 0.5].

    Raises
    ------
    ValueError
        If there are no scores, or one is NaN.

    Notes
    -----
    With a score :math:`s` it is
    :math:`\min_t \frac{1}{2} (P_{in}(s < t) + P_{out}(s \ge t))` [1]_. The threshold is
    chosen on the samples themselves, which flatters small ones.

    References
    ----------
    .. [1] S. Liang, Y. Li and R. Srikant, "Enhancing the Reliability of
       Out-of-distribution Image Detection in Neural Networks", ICLR 2018, section 4.3.

    Examples
    --------
    >>> from sklearn_calib.metrics import ood_detection_error
    >>> round(ood_detection_error([0.9, 0.8, 0.6], [0.7, 0.4]), 3)
    0.167
    """
    fprs, tprs, _ = roc_curve(*_merge(scores_in, scores_out, "in"))
    return float((1 - tprs + fprs).min() / 2)


def _merge(scores_in, scores_out, pos):
    """Return which samples are positive, and their ranks, those of positives high."""
    scores_in = _check_scores("scores_in", scores_in)
    scores_out = _check_scores("scores_out", scores_out)
    is_in = np.arange(len(scores_in) + len(scores_out)) < len(scores_in)
    # Ranks, for scikit-learn refuses infinite scores.
    merged = np.concatenate([scores_in, scores_out])
    rank = np.unique(merged, return_inverse=True)[1]
    return (is_in, rank) if pos == "in" else (~is_in, -rank)


def _check_scores(name, scores):
    """Return scores as a one-dimensional array without NaN."""
    scores = as_numbers(scores, name)
    if scores.ndim != 1 or not len(scores):
        raise ValueError(
            f"{name} must hold one score per sample, of shape (n_samples,) with at "
            f"least one sample, got shape {scores.shape}. Reduce over the classes, as "
            "in proba.max(axis=1)."
        )
    if np.isnan(scores).any():
        raise ValueError(
            f"{name} must not be NaN, got {np.isnan(scores).sum()} of {len(scores)}. "
            "Use -inf for samples that are not at home anywhere."
        )
    return scores
