"""The test of Hosmer and Lemeshow, for any number of classes."""

from __future__ import annotations

from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import chi2

from sklearn_calib._core.binning import bin_index, parting_edges
from sklearn_calib._core.inputs import BINS, TARGETS, check_targets, resolve_n_bins
from sklearn_calib._core.typing import Bools, Floats, Ints
from sklearn_calib._core.validation import Interval, StrOptions, validate_params
from sklearn_calib.metrics._hypothesis_tests import (
    JUDGED,
    holds_impossible,
    in_double,
    whole_or_top_label,
)

# So near to 1 the digits of 1 - p are fewer than those of the other probabilities.
NEAR = 0.01
# Classes to the power of three, added up over bins: some five seconds.
MOST_WORK = 2e10


class ChiSquareResult(NamedTuple):
    """What a test of squares returns."""

    statistic: float
    pvalue: float
    df: int


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
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    n_bins: int | str = 10,
    strategy: str = "quantile",
    mode: str = "canonical",
    variance: str = "sample",
    ddof: int = 0,
    labels: ArrayLike | None = None,
) -> ChiSquareResult:
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
    if holds_impossible(proba, codes):
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


def _complements(proba: Floats) -> Floats:
    """Return 1 - p, where p is close to 1 as the sum of the others of its row."""
    complements = 1 - proba
    rows, columns = np.nonzero(complements < NEAR)
    others = proba[rows]
    others[np.arange(len(rows)), columns] = 0
    complements[rows, columns] = others.sum(axis=1)
    return complements


def _open_classes(proba: Floats) -> Bools:
    """Return which classes may be true and need not be, in some row of a bin."""
    # Not by p < 1: beside a probability of 1e-17 that is lost.
    is_possible = proba > 0
    if is_possible.all():
        return is_possible[0]
    return is_possible[np.count_nonzero(is_possible, axis=1) > 1].any(axis=0)


def _check_work(open_classes: list[Bools]) -> None:
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


def _bin_chi_square(
    proba: Floats, codes: Ints, is_open: Bools, variance: str
) -> tuple[Any, Any]:
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
