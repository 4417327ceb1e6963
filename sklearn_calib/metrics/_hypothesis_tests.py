"""Tests of whether predictions are calibrated, with a statistic of known law."""

from numbers import Integral
from typing import NamedTuple

import numpy as np
from scipy.stats import chi2, norm

from sklearn_calib._core.binning import bin_index, parting_edges
from sklearn_calib._core.inputs import (
    BINS,
    TARGETS,
    as_columns,
    check_targets,
    confidence_and_hit,
    resolve_n_bins,
)
from sklearn_calib._core.validation import (
    Interval,
    StrOptions,
    check_proba,
    validate_params,
)

ALTERNATIVES = StrOptions({"greater", "less", "two-sided"})
JUDGED = StrOptions({"canonical", "top_label"})
# So near to 1 the digits of 1 - p are fewer than those of the other probabilities.
NEAR = 0.01
# Classes to the power of three, added up over bins: some five seconds.
MOST_WORK = 2e10


class SignificanceResult(NamedTuple):
    """What a test returns."""

    statistic: float
    pvalue: float


class ChiSquareResult(NamedTuple):
    """What a test of squares returns."""

    statistic: float
    pvalue: float
    df: int


def whole_or_top_label(proba, codes, mode):
    """Return the probabilities that are tested, checked, and the true columns."""
    if mode == "top_label":
        proba, hit = confidence_and_hit(proba, codes, "top_label")
        codes = hit.astype(np.int64)
    return check_proba(as_columns(proba)), codes


def in_double(proba):
    """Return rows that sum to one, since what rounding leaves is no deviation."""
    proba = proba.astype(np.float64)
    proba /= proba.sum(axis=1, keepdims=True)
    return proba


@validate_params(
    {**TARGETS, "mode": [JUDGED], "alternative": [ALTERNATIVES]},
    prefer_skip_nested_validation=True,
)
def spiegelhalter_test(
    y_true,
    y_proba,
    *,
    mode="canonical",
    alternative="two-sided",
    labels=None,
    sample_weight=None,
):
    r"""Test whether the Brier score is what calibrated predictions would have.

    A small p-value says that the predictions are not calibrated. A positive statistic
    says that they are too sure, a negative one that they are not sure enough.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels, of any kind.

    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities. A 1-d array holds those of the positive class.

    mode : {"canonical", "top_label"}, default="canonical"
        Whether the probabilities of all classes are tested, or only that of the
        predicted class.

    alternative : {"two-sided", "greater", "less"}, default="two-sided"
        What is held against calibration: any other Brier score, a larger one (too
        sure), or a smaller one (not sure enough).

    labels : array-like of shape (n_classes,), default=None
        The label of each column, by default the sorted distinct values of `y_true`.

    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the samples in the Brier score. A weight of 2 is not a second
        sample: the same label twice tells no more than once.

    Returns
    -------
    result : SignificanceResult
        A named tuple of the `statistic` z, standard normal for calibrated predictions,
        and the `pvalue`.

    Raises
    ------
    ValueError
        If the labels do not match the columns, or `y_proba` holds anything but
        probabilities.

    See Also
    --------
    hosmer_lemeshow_test : Sees deviations that leave the Brier score as it is.
    consistency_test : The same question to any metric.

    Notes
    -----
    With :math:`s_i = \sum_k p_{ik}^2` and the true class :math:`y_i`

    .. math:: z = \frac{\sum_i w_i (s_i - p_{i y_i})}
        {\sqrt{\sum_i w_i^2 \sum_k p_{ik} (p_{ik} - s_i)^2}}

    which for two classes is
    :math:`\sum_i (y_i - p_i)(1 - 2 p_i) / \sqrt{\sum_i (1 - 2 p_i)^2 p_i (1 - p_i)}`
    ([1]_, section 2). It holds for predictions of new data, not of those that the
    classifier was fitted on.

    Certain predictions that come true, and uniform ones, have no variance and add
    nothing; with no others z is 0 and the p-value 1. Where a class of probability 0 is
    the true one, z is infinite and the p-value 0, whatever the `alternative`: no
    calibrated classifier says so. If only rounding made the zeros, leave more digits.

    References
    ----------
    .. [1] D. J. Spiegelhalter, "Probabilistic Prediction in Patient Management and
       Clinical Trials", Statistics in Medicine 5, 1986.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.metrics import spiegelhalter_test
    >>> rng = np.random.default_rng(0)
    >>> proba = rng.uniform(size=500)
    >>> y_true = rng.uniform(size=500) < proba  # perfectly calibrated
    >>> spiegelhalter_test(y_true, proba).pvalue > 0.05
    True
    >>> too_sure = proba**2 / (proba**2 + (1 - proba) ** 2)
    >>> result = spiegelhalter_test(y_true, too_sure)
    >>> result.statistic > 0, result.pvalue < 0.001
    (True, True)
    """
    proba, codes, weight = check_targets(y_true, y_proba, labels, sample_weight)
    proba, codes = whole_or_top_label(proba, codes, mode)
    proba = in_double(proba)
    # Whose squares neither vanish nor overflow.
    weight = np.ones(len(proba)) if weight is None else weight / weight.max()
    if _holds_impossible(proba, codes, weight):
        return SignificanceResult(np.inf, 0.0)
    above = proba - np.einsum("ij,ij->i", proba, proba)[:, None]
    # Of uniform predictions only rounding is left, which would look like a variance.
    above[np.abs(above) < 8 * np.finfo(np.float64).eps] = 0
    deviation = -weight @ above[np.arange(len(codes)), codes]
    variance = weight**2 @ np.einsum("ij,ij->i", proba, above**2)
    if variance == 0:
        return SignificanceResult(0.0, 1.0)
    z = deviation / np.sqrt(variance)
    tails = {"greater": norm.sf(z), "less": norm.cdf(z)}
    pvalue = tails.get(alternative, 2 * norm.sf(np.abs(z)))
    return SignificanceResult(float(z), float(pvalue))


def _holds_impossible(proba, codes, weight=1):
    """Whether a class of probability 0 is the true one."""
    return bool(((proba[np.arange(len(codes)), codes] == 0) & (weight > 0)).any())


@validate_params(
    {
        "y_true": TARGETS["y_true"],
        "y_proba": TARGETS["y_proba"],
        "labels": TARGETS["labels"],
        **BINS,
        "mode": [JUDGED],
        "variance": [StrOptions({"bin", "sample"})],
        "ddof": [Interval(Integral, 0, None, closed="left")],
    },
    prefer_skip_nested_validation=True,
)
def hosmer_lemeshow_test(
    y_true,
    y_proba,
    *,
    n_bins=10,
    strategy="quantile",
    mode="canonical",
    variance="sample",
    ddof=0,
    labels=None,
):
    r"""Test whether each bin holds as many of each class as the probabilities say.

    The chi-square test of Hosmer and Lemeshow, for any number of classes. A small
    p-value says that the predictions are not calibrated.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels, of any kind.

    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities. A 1-d array holds those of the positive class.

    n_bins : int or "cube_root", default=10
        Number of bins, or the cube root of the number of samples, rounded up.

    strategy : {"uniform", "quantile"}, default="quantile"
        Bins of equal width, or of equal numbers of samples as far as ties allow. Bins
        are those of the probability of the second of two classes, and of the predicted
        one of more.

    mode : {"canonical", "top_label"}, default="canonical"
        Whether all classes are counted, or only hits and misses of the predicted one.

    variance : {"sample", "bin"}, default="sample"
        Whether the variance of a bin's count is the sum of that of its samples, or, as
        in [1]_ and for two classes only, of samples that all have the bin's mean
        probability. That is larger, and the test a little too cautious.

    ddof : int, default=0
        What to take off the degrees of freedom if the classifier was fitted on these
        data: 2 for a logistic regression [1]_. 0 is right for all other data.

    labels : array-like of shape (n_classes,), default=None
        The label of each column, by default the sorted distinct values of `y_true`.

    Returns
    -------
    result : ChiSquareResult
        A named tuple of the `statistic`, the `pvalue`, and the degrees of freedom
        `df`.

    Raises
    ------
    ValueError
        If the labels do not match the columns, or `y_proba` holds anything but
        probabilities, or `ddof` leaves no degree of freedom, or the variance is that of
        the bin and there are more than two classes, or there are too many classes for
        so many bins.

    See Also
    --------
    spiegelhalter_test : Needs no bins, sees only what the Brier score sees.
    kernel_calibration_test : Needs no bins, sees any deviation.

    Notes
    -----
    With the deviations :math:`d_b = \sum_{i \in b} (e_{y_i} - p_i)` of the counts of a
    bin, and their covariance :math:`V_b = \sum_{i \in b} (\mathrm{diag}(p_i) - p_i
    p_i^T)`, the statistic is :math:`\sum_b d_b^T V_b^+ d_b`. With the covariance of
    `variance="bin"` that is Pearson's :math:`\sum_b \sum_k d_{bk}^2 / E_{bk}`, with the
    expected counts :math:`E_{bk}`, as is that of [2]_ for more classes; a bin mixes
    samples of different classes there, and Pearson's statistic would stay far below its
    law. The degrees of freedom are the ranks of the :math:`V_b` added up: the number of
    bins that hold samples, times n_classes - 1, less what has probability 0. Equal
    probabilities are never parted.

    The law is that of large samples, with some five expected in each bin of each class.
    Of 200 samples in 10 bins, with less than one hit or miss expected in the outer
    ones, 8 % were rejected at 5 %; fewer bins, or :func:`kernel_calibration_test`, tell
    more truly. Where a class of
    probability 0 is the true one, the statistic is infinite and the p-value 0; with
    certain and true predictions only, 0 and 1.

    Each bin takes time in the order of :math:`c^3` for :math:`c` classes. More than
    some 1200 classes in 10 bins are refused.

    References
    ----------
    .. [1] D. W. Hosmer and S. Lemeshow, "Goodness of Fit Tests for the Multiple
       Logistic Regression Model", Communications in Statistics A9, 1980.

    .. [2] M. W. Fagerland, D. W. Hosmer and A. M. Bofin, "Multinomial Goodness-of-Fit
       Tests for Logistic Regression Models", Statistics in Medicine 27, 2008.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.metrics import hosmer_lemeshow_test
    >>> rng = np.random.default_rng(0)
    >>> proba = rng.uniform(size=500)
    >>> y_true = rng.uniform(size=500) < proba  # perfectly calibrated
    >>> result = hosmer_lemeshow_test(y_true, proba)
    >>> result.pvalue > 0.05, result.df
    (True, 10)
    >>> hosmer_lemeshow_test(y_true, proba**2).pvalue < 0.001
    True
    """
    proba, codes, _ = check_targets(y_true, y_proba, labels, None)
    proba, codes = whole_or_top_label(proba, codes, mode)
    if variance == "bin" and proba.shape[1] > 2:
        raise ValueError(
            'variance must be "sample" for more than two classes, which a bin mixes, '
            f'got "bin" and {proba.shape[1]} classes. Leave it out, or pass '
            'mode="top_label".'
        )
    judged = proba[:, 1] if proba.shape[1] == 2 else proba.max(axis=1)
    n_bins = resolve_n_bins(n_bins, len(judged), None)
    edges = parting_edges(judged, n_bins=n_bins, strategy=strategy)
    index, proba = bin_index(judged, edges), in_double(proba)
    index = index.astype(np.min_scalar_type(index.max()))  # small ones sort faster
    order = np.argsort(index, kind="stable")
    proba, codes = proba[order], codes[order]
    starts = np.flatnonzero(np.diff(index[order])) + 1
    bins = np.split(proba, starts), np.split(codes, starts)
    open_classes = [_open_classes(each) for each in bins[0]]
    _check_work(open_classes)
    squares = [
        _bin_chi_square(*each, variance)
        for each in zip(*bins, open_classes, strict=True)
    ]
    statistic, df = np.sum(squares, axis=0)
    if _holds_impossible(proba, codes):
        return ChiSquareResult(np.inf, 0.0, int(df))
    if df == ddof == 0:
        return ChiSquareResult(0.0, 1.0, 0)
    if df <= ddof:
        raise ValueError(
            f"ddof must be less than the degrees of freedom, {df:.0f} of these bins, "
            f"got {ddof}. Pass more bins, or a smaller ddof."
        )
    df = int(df) - ddof
    return ChiSquareResult(float(statistic), float(chi2.sf(statistic, df)), df)


def _complements(proba):
    """Return 1 - p, where p is close to 1 as the sum of the others of its row."""
    complements = 1 - proba
    rows, columns = np.nonzero(complements < NEAR)
    others = proba[rows]
    others[np.arange(len(rows)), columns] = 0
    complements[rows, columns] = others.sum(axis=1)
    return complements


def _open_classes(proba):
    """Return which classes may be true and need not be, in some row of a bin."""
    # Not by p < 1: beside a probability of 1e-17 that is lost.
    is_possible = proba > 0
    if is_possible.all():
        return is_possible[0]
    return is_possible[np.count_nonzero(is_possible, axis=1) > 1].any(axis=0)


def _check_work(open_classes):
    """Refuse what would take minutes."""
    most = max(map(np.count_nonzero, open_classes))
    work = sum(float(np.count_nonzero(each)) ** 3 for each in open_classes)
    if work > MOST_WORK:
        raise ValueError(
            "y_proba must have fewer classes for so many bins, as each bin takes time "
            f"in the cube of the classes, got {most} classes and {len(open_classes)} "
            'bins with samples. Pass fewer n_bins or mode="top_label", or use '
            "kernel_calibration_test."
        )


def _bin_chi_square(proba, codes, is_open, variance):
    """Return the square of a bin's deviations, in units of their noise, and its rank.

    The last count follows from the others. The most probable class is left out, since
    the small ones are exact where it is close to one.
    """
    mass = proba.sum(axis=0)
    kept = is_open & (np.arange(len(mass)) != np.where(is_open, mass, -1).argmax())
    rest = _complements(proba)
    # Not counts minus masses, whose difference of saturated probabilities is rounding.
    residual, every = -proba, np.arange(len(codes))
    residual[every, codes] = rest[every, codes]
    deviation = residual.sum(axis=0)[kept]
    proba, rest = proba[:, kept], rest[:, kept]
    if variance == "bin":
        proba, rest = (
            np.broadcast_to(each.mean(axis=0), each.shape) for each in (proba, rest)
        )
    covariance = -proba.T @ proba
    np.fill_diagonal(covariance, (proba * rest).sum(axis=0))
    noise = np.sqrt(covariance.diagonal())
    value, direction = np.linalg.eigh(covariance / noise / noise[:, None])
    seen = value > 1e-10
    amount = (deviation / noise) @ direction[:, seen]
    with np.errstate(over="ignore"):  # to infinity
        return (amount**2 / value[seen]).sum(), seen.sum()
