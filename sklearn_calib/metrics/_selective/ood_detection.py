"""Metrics of out-of-distribution (OOD) detection by scores."""

from __future__ import annotations

from numbers import Real

import numpy as np
from numpy.typing import ArrayLike
from scipy.integrate import trapezoid

from sklearn_calib._validation.arrays import as_numbers
from sklearn_calib._validation.declarations import (
    Interval,
    StrOptions,
    declare_interval,
    validate_params,
)
from sklearn_calib._validation.types import Array, Floats, Ints

SCORES = {"scores_in": ["array-like"], "scores_out": ["array-like"]}
POSITIVE = {"pos": [StrOptions({"in", "out"})]}


@declare_interval(takes_two_samples=True)
@validate_params(SCORES)
def ood_auroc_score(scores_in: ArrayLike, scores_out: ArrayLike) -> float:
    """Area under the ROC curve (AUROC) of out-of-distribution (OOD) detection.

    The probability that an in-distribution sample has a higher score than an
    out-of-distribution sample, where ties count half. Higher is better: 1 is best, 0.5
    is chance level.

    Parameters
    ----------
    scores_in : array-like of shape (n_in,)
        Scores of the in-distribution samples, such as confidences. Higher scores
        indicate in-distribution samples.

    scores_out : array-like of shape (n_out,)
        Scores of the out-of-distribution samples.

    Returns
    -------
    auroc : float
        Area in [0, 1].

    Raises
    ------
    ValueError
        If there are no scores, or a score is NaN.

    See Also
    --------
    sklearn_calib.evaluation.evaluate_ood : All of these metrics for an estimator.

    Notes
    -----
    The value does not depend on which distribution is the positive class, nor on the
    ratio of the numbers of samples.

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
    return float(trapezoid(*_rates(scores_in, scores_out, "in")))


@declare_interval(takes_two_samples=True)
@validate_params(
    {
        **SCORES,
        **POSITIVE,
        "interpolation": [StrOptions({"linear", "step"})],
        "balanced": ["boolean"],
    }
)
def ood_aupr_score(
    scores_in: ArrayLike,
    scores_out: ArrayLike,
    *,
    pos: str = "in",
    interpolation: str = "step",
    balanced: bool = False,
) -> float:
    """Area under the precision-recall curve (AUPR) of OOD detection.

    It is also known as AUPR-In (`pos="in"`) or AUPR-Out (`pos="out"`). Higher is
    better: 1 is best, and the fraction of positive samples is chance level.

    Parameters
    ----------
    scores_in : array-like of shape (n_in,)
        Scores of the in-distribution samples. Higher scores indicate in-distribution
        samples.

    scores_out : array-like of shape (n_out,)
        Scores of the out-of-distribution samples.

    pos : {"in", "out"}, default="in"
        Whether in-distribution or out-of-distribution samples are the positive class.
        With "out", low scores predict the positive class.

    interpolation : {"step", "linear"}, default="step"
        "step" is the average precision. "linear" is the trapezoidal rule, which is too
        optimistic.

    balanced : bool, default=False
        Whether to weight the samples so that both classes have the same total weight.
        Chance level is 0.5 then.

    Returns
    -------
    aupr : float
        Area in [0, 1].

    Raises
    ------
    ValueError
        If there are no scores, or a score is NaN.

    Notes
    -----
    Papers use different definitions. OpenOOD and pytorch-ood use "linear", and the code
    of [1]_ uses "step". The code of [2]_, which later papers copied, is close to
    "linear" with `balanced=True`.

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
    correct, wrong = _passed(scores_in, scores_out, pos)
    recall = correct / correct[-1]
    if balanced:
        wrong = wrong * (correct[-1] / wrong[-1])
    # The precision of no samples is 1.
    precision = np.append(1.0, correct[1:] / (correct[1:] + wrong[1:]))
    if interpolation == "step":
        return float(np.diff(recall) @ precision[1:])
    return float(trapezoid(precision, recall))


@declare_interval(takes_two_samples=True)
@validate_params({**SCORES, **POSITIVE, "tpr": [Interval(Real, 0, 1, closed="right")]})
def fpr_at_tpr(
    scores_in: ArrayLike, scores_out: ArrayLike, *, tpr: float = 0.95, pos: str = "in"
) -> float:
    """False positive rate at a fixed true positive rate (FPR95 by default).

    The threshold is the highest one with at least the given true positive rate. Lower
    is better: 0 is best, 1 is worst, `tpr` is chance level.

    Parameters
    ----------
    scores_in : array-like of shape (n_in,)
        Scores of the in-distribution samples. Higher scores indicate in-distribution
        samples.

    scores_out : array-like of shape (n_out,)
        Scores of the out-of-distribution samples.

    tpr : float, default=0.95
        True positive rate, in (0, 1].

    pos : {"in", "out"}, default="in"
        Whether in-distribution or out-of-distribution samples are the positive class.

    Returns
    -------
    fpr : float
        Rate in [0, 1].

    Raises
    ------
    ValueError
        If there are no scores, or a score is NaN, or `tpr` is not in (0, 1].

    Notes
    -----
    Papers use different definitions, with different results. In OpenOOD [1]_ and
    pytorch-ood, out-of-distribution is the positive class, as with ``pos="out"``. In
    the code of [2]_, which later papers copied, in-distribution is the positive class,
    and the value is the mean over the thresholds whose true positive rate is near 0.95.
    Others use the threshold whose rate is closest to 0.95.

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
    tprs, fprs = _rates(scores_in, scores_out, pos)
    return float(fprs[np.searchsorted(tprs, tpr)])


@declare_interval(takes_two_samples=True)
@validate_params(SCORES)
def ood_detection_error(scores_in: ArrayLike, scores_out: ArrayLike) -> float:
    r"""OOD detection error: lowest error rate over all thresholds.

    In- and out-of-distribution samples have the same total weight. Lower is better: 0
    is best, 0.5 is chance level.

    Parameters
    ----------
    scores_in : array-like of shape (n_in,)
        Scores of the in-distribution samples. Higher scores indicate in-distribution
        samples.

    scores_out : array-like of shape (n_out,)
        Scores of the out-of-distribution samples.

    Returns
    -------
    error : float
        Rate in [0, 0.5].

    Raises
    ------
    ValueError
        If there are no scores, or a score is NaN.

    Notes
    -----
    With the score :math:`s`, the value is
    :math:`\min_t \frac{1}{2} (P_{in}(s < t) + P_{out}(s \ge t))` [1]_. The threshold is
    chosen on the evaluated samples, so the estimate is too optimistic for few samples.

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
    tprs, fprs = _rates(scores_in, scores_out, "in")
    return float((1 - tprs + fprs).min() / 2)


def _rates(scores_in: ArrayLike, scores_out: ArrayLike, pos: str) -> Floats:
    """Return the true and the false positive rates as two rows.

    The checks of `sklearn.metrics.roc_curve` take ten times as long.
    """
    passed = _passed(scores_in, scores_out, pos)
    return passed / passed[:, -1:]


def _passed(scores_in: ArrayLike, scores_out: ArrayLike, pos: str) -> Ints:
    """Return the numbers of true and false positives, for decreasing thresholds."""
    scores_in = _check_scores("scores_in", scores_in)
    scores_out = _check_scores("scores_out", scores_out)
    n_in, merged = len(scores_in), np.concatenate([scores_in, scores_out])
    rank = np.unique(merged, return_inverse=True)[1]
    parts, size = (rank[:n_in], rank[n_in:]), rank.max() + 1
    counts = np.array([np.bincount(part, minlength=size) for part in parts])
    counts = counts[:, ::-1] if pos == "in" else counts[::-1]
    return np.insert(counts.cumsum(axis=1), 0, 0, axis=1)


def _check_scores(name: str, scores: ArrayLike) -> Array:
    """Return scores as a one-dimensional array without NaN."""
    scores = as_numbers(scores, name)
    if scores.ndim != 1 or not len(scores):
        raise ValueError(
            f"{name} must have shape (n_samples,) with at least one sample, got shape "
            f"{scores.shape}. Pass one score per sample, such as proba.max(axis=1)."
        )
    if np.isnan(scores).any():
        raise ValueError(
            f"{name} must not contain NaN, got {np.isnan(scores).sum()} NaN in "
            f"{len(scores)} scores. Use -inf for the lowest score."
        )
    return scores
