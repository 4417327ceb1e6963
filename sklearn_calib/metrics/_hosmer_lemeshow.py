"""The test of Hosmer and Lemeshow, for any number of classes."""

from __future__ import annotations

import warnings
from numbers import Integral
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import chi2
from sklearn.utils import check_random_state

from sklearn_calib._core.binning import bin_index, parting_edges
from sklearn_calib._core.inputs import (
    BINS,
    DRAWS,
    TARGETS,
    check_targets,
    resolve_n_bins,
)
from sklearn_calib._core.typing import Bools, Floats, Ints, Seed
from sklearn_calib._core.validation import Interval, StrOptions, validate_params
from sklearn_calib.metrics._consistency_resampling import tail_share
from sklearn_calib.metrics._hypothesis_tests import (
    JUDGED,
    holds_impossible,
    in_double,
    whole_or_top_label,
)

# So near to 1 the digits of 1 - p are fewer than those of the other probabilities.
NEAR = 0.01
# The law of chi-square is for counts with at least this variance.
DENSE = 5
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
        "method": [StrOptions({"asymptotic", "auto"})],
        **DRAWS,
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
    method: str = "auto",
    labels: ArrayLike | None = None,
    n_resamples: int = 1000,
    random_state: Seed = None,
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

    method : {"auto", "asymptotic"}, default="auto"
        Where the law of the statistic comes from: the chi-square law, or with "auto",
        in bins whose counts are too small for it, labels drawn from the probabilities.
        With `ddof` it is always the chi-square law. Where that does not hold, a warning
        says so.

    labels : array-like of shape (n_classes,), default=None
        The label of each column, by default the sorted distinct values of `y_true`.

    n_resamples : int, default=1000
        Number of random draws of the labels in sparse bins.

    random_state : int, RandomState instance or None, default=None
        Controls the draws. Pass an int for a repeatable p-value.

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

    The chi-square law is that of large samples. A bin is sparse if the count of some
    class has a variance below 5. With "auto" the labels of sparse bins are drawn from
    the probabilities, the chi-squares of all others from their law, and with :math:`k`
    of :math:`m` draws as large as the statistic the p-value is :math:`(1 + k) / (1 +
    m)`. "asymptotic" rejects too often where bins are sparse, and most of all for rare
    classes.

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
    laws = [
        _bin_law(each, is_open, variance)
        for each, is_open in zip(bins[0], open_classes, strict=True)
    ]
    counts = (np.bincount(each, minlength=proba.shape[1]) for each in bins[1])
    statistic = sum(
        float(law.chi_square(each)) for law, each in zip(laws, counts, strict=True)
    )
    df = sum(law.rank for law in laws)
    if holds_impossible(proba, codes) or np.isinf(statistic):
        return ChiSquareResult(np.inf, 0.0, df)
    if df == ddof == 0:
        return ChiSquareResult(0.0, 1.0, 0)
    if df <= ddof:
        raise ValueError(
            f"ddof must be less than the degrees of freedom, {df} of these bins, "
            f"got {ddof}. Pass more bins, or a smaller ddof."
        )
    if any(law.is_sparse for law in laws):
        if method == "auto" and ddof == 0:
            null = _null_draws(laws, n_resamples, check_random_state(random_state))
            return ChiSquareResult(statistic, tail_share(statistic, null), df)
        warnings.warn(
            "hosmer_lemeshow_test may reject too often, as bins are sparse for the "
            "chi-square law. Pass method='auto' and no ddof, or fewer n_bins.",
            UserWarning,
        )
    df -= ddof
    return ChiSquareResult(statistic, float(chi2.sf(statistic, df)), df)


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


class BinLaw(NamedTuple):
    """The probabilities of a bin, and what deviations of its counts are measured by."""

    proba: Floats
    kept: Bools
    # If the most probable class of each sample were true.
    counts: Ints
    deviation: Floats
    # From deviations to independent ones of variance one.
    noise: Floats
    directions: Floats

    @property
    def rank(self) -> int:
        """Return the degrees of freedom."""
        return self.directions.shape[1]

    @property
    def is_sparse(self) -> bool:
        """Whether counts are too small for the law of chi-square."""
        return bool((self.noise**2 < DENSE).any())

    def chi_square(self, counts: Ints) -> Floats:
        """Return the square of the deviations, in units of their noise."""
        deviation = self.deviation + (counts - self.counts)[..., self.kept]
        with np.errstate(over="ignore"):  # to infinity
            return (((deviation / self.noise) @ self.directions) ** 2).sum(axis=-1)


def _bin_law(proba: Floats, is_open: Bools, variance: str) -> BinLaw:
    """Return the law of a bin.

    The last count follows from the others. The most probable class is left out, since
    the small ones are exact where it is close to one.
    """
    mass = proba.sum(axis=0)
    kept = is_open & (np.arange(len(mass)) != np.where(is_open, mass, -1).argmax())
    rest, likely, every = (
        _complements(proba),
        proba.argmax(axis=1),
        np.arange(len(proba)),
    )
    # Not counts minus masses, whose difference of saturated probabilities is rounding.
    residual = -proba
    residual[every, likely] = rest[every, likely]
    counts, deviation = np.bincount(likely, minlength=len(mass)), residual.sum(axis=0)
    each, rest = proba[:, kept], rest[:, kept]
    if variance == "bin":
        each, rest = (
            np.broadcast_to(one.mean(axis=0), one.shape) for one in (each, rest)
        )
    covariance = -each.T @ each
    np.fill_diagonal(covariance, (each * rest).sum(axis=0))
    noise = np.sqrt(covariance.diagonal())
    value, direction = np.linalg.eigh(covariance / noise / noise[:, None])
    seen = value > 1e-10
    directions = direction[:, seen] / np.sqrt(value[seen])
    return BinLaw(proba, kept, counts, deviation[kept], noise, directions)


def _null_draws(laws: list[BinLaw], n_draws: int, rng: np.random.RandomState) -> Floats:
    """Return the statistic of calibrated predictions, many times."""
    null = np.zeros(n_draws)
    for law in laws:
        if law.is_sparse:
            null += law.chi_square(_draw_counts(law.proba, n_draws, rng))
        elif law.rank:
            null += rng.chisquare(law.rank, size=n_draws)
    return null


def _draw_counts(proba: Floats, n_draws: int, rng: np.random.RandomState) -> Ints:
    """Return the counts of the classes, of labels drawn from the probabilities."""
    counts, every = np.zeros((n_draws, proba.shape[1]), dtype=int), np.arange(n_draws)
    for row in proba.cumsum(axis=1):
        uniform = rng.random_sample(n_draws)
        counts[every, np.searchsorted(row[:-1] / row[-1], uniform, "right")] += 1
    return counts
