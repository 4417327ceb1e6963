"""Hosmer-Lemeshow test, for any number of classes."""

from __future__ import annotations

import warnings
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import chi2
from sklearn.utils import check_random_state

from sklearn_calib._numerics.binning import (
    bin_index,
    parting_edges,
    read_bins,
    resolve_n_bins,
)
from sklearn_calib._validation.declarations import (
    BINS,
    DRAWS,
    TARGETS,
    Interval,
    StrOptions,
    validate_params,
)
from sklearn_calib._validation.samples import TESTED, in_double, read_samples
from sklearn_calib._validation.types import Bools, Floats, Ints, Seed
from sklearn_calib.metrics._hypothesis_tests.consistency import tail_pvalue
from sklearn_calib.metrics._hypothesis_tests.spiegelhalter import has_impossible_label

# This close to 1, 1 - p is less precise than the sum of the other probabilities.
NEAR = 0.01
# Smallest variance of the counts for the chi-square distribution.
DENSE = 5
# Limit on the cubes of the number of classes, summed over bins: about five seconds.
MOST_WORK = 2e10


class ChiSquareResult(NamedTuple):
    """Result of a chi-square test."""

    statistic: float
    pvalue: float
    df: int


@validate_params(
    {
        **TARGETS,
        **BINS,
        "mode": [TESTED],
        "variance": [StrOptions({"bin", "sample"})],
        "ddof": [Interval(Integral, 0, None, closed="left")],
        "method": [StrOptions({"asymptotic", "auto"})],
        **DRAWS,
    }
)
def hosmer_lemeshow_test(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    n_bins: int | str | ArrayLike = 10,
    strategy: str = "quantile",
    mode: str = "canonical",
    pos_label: Any = None,
    variance: str = "sample",
    ddof: int = 0,
    method: str = "auto",
    labels: ArrayLike | None = None,
    n_resamples: int = 1000,
    random_state: Seed = None,
) -> ChiSquareResult:
    r"""Hosmer-Lemeshow test of calibration, for any number of classes.

    A chi-square test of the class counts in bins against their expectations. A small
    p-value is evidence against calibration.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels, of any type.

    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities. A 1-d array contains the probabilities of the positive
        class.

    n_bins : int, "cube_root" or array-like of shape (n_edges,), default=10
        Number of bins. "cube_root" uses the cube root of the number of samples, rounded
        up. With `strategy="uniform"`, it can be the edges, which increase from 0 to 1.

    strategy : {"uniform", "quantile"}, default="quantile"
        Binning strategy: bins of equal width, or bins with equal numbers of samples as
        far as ties allow. The binned probability is that of the second of two classes,
        and that of the predicted class for more classes.

    mode : {"canonical", "top_label"}, default="canonical"
        Whether all classes are counted, or only correct and wrong predictions.

    pos_label : label, default=None
        Label of the positive class of a binary problem. Bins are those of its
        probability, and a 1-d array contains its probabilities. By default, the second
        of the two labels. It must be None for "top_label".

    variance : {"sample", "bin"}, default="sample"
        Variance of the count of a bin. "sample" is the sum of the variances of its
        samples. "bin" assumes that all samples have the mean probability of the bin, as
        in [1]_, and is available for two classes only. It is larger, so the test is
        slightly conservative.

    ddof : int, default=0
        Number subtracted from the degrees of freedom if the classifier was fitted to
        the same data, such as 2 for a logistic regression [1]_. Use 0 for any other
        data.

    method : {"auto", "asymptotic"}, default="auto"
        Source of the null distribution. "asymptotic" is the chi-square distribution.
        "auto" uses labels drawn from the probabilities in bins whose counts are too
        small for it. With `ddof` greater than 0, it is always the chi-square
        distribution. A warning is raised if the chi-square distribution is used for
        counts that are too small.

    labels : array-like of shape (n_classes,), default=None
        Labels of the columns of `y_proba`. By default, the sorted distinct values of
        `y_true`.

    n_resamples : int, default=1000
        Number of random draws of the labels in sparse bins.

    random_state : int, RandomState instance or None, default=None
        Controls the random draws. Pass an int for reproducible results.

    Returns
    -------
    result : ChiSquareResult
        Named tuple of the `statistic`, the `pvalue`, and the degrees of freedom `df`.

    Raises
    ------
    ValueError
        If the labels do not match the columns of `y_proba`, or `y_proba` contains
        values that are not probabilities, or `ddof` is not less than the degrees of
        freedom, or `variance="bin"` is used for more than two classes, or there are too
        many classes.

    See Also
    --------
    spiegelhalter_test : Test without bins, based on the Brier score.
    kernel_calibration_test : Test without bins that detects any deviation.
    tcal_test : Test with bins of many sizes.

    Notes
    -----
    With the deviations :math:`d_b = \sum_{i \in b} (e_{y_i} - p_i)` of the counts in
    bin :math:`b` and their covariance
    :math:`V_b = \sum_{i \in b} (\mathrm{diag}(p_i) - p_i p_i^T)`, the statistic is
    :math:`\sum_b d_b^T V_b^+ d_b`. The degrees of freedom are the sum of the ranks of
    the :math:`V_b`: usually the number of non-empty bins times `n_classes - 1`. Equal
    probabilities are always in the same bin.

    With `variance="bin"`, the statistic is Pearson's
    :math:`\sum_b \sum_k d_{bk}^2 / E_{bk}` with the expected counts :math:`E_{bk}`. It
    is not available for more than two classes, unlike in [2]_, because bins then mix
    samples with different probabilities, and Pearson's statistic is too small for the
    chi-square distribution.

    The chi-square distribution holds for large samples. A bin is sparse if the variance
    of the count of a class is below 5. With "auto", the labels in sparse bins are drawn
    from the probabilities, and the statistics of the other bins from their chi-square
    distributions. If :math:`k` of :math:`m` draws are at least as large as the
    statistic, the p-value is :math:`(1 + k) / (1 + m)`. "asymptotic" rejects too often
    if bins are sparse, in particular for rare classes.

    The test hardly detects that probabilities of a rare event are too high: a bin that
    expects one event adds at most about 1 to the statistic if it has none, which is the
    mean for calibrated predictions. :func:`spiegelhalter_test`,
    :func:`recalibration_test` and :func:`calibration_belt_test` detect it.

    The computation time of each bin is of order :math:`c^3` for :math:`c` classes. An
    error is raised for more than about 1200 classes in 10 bins.

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
    >>> hosmer_lemeshow_test(y_true, proba**2, random_state=0).pvalue < 0.001
    True
    """
    # With all classes, the label only selects the probability of the bins.
    given = None if mode == "canonical" else mode
    data = y_true, y_proba, labels, None, given, pos_label
    samples = read_samples(*data, of_two="canonical", of_more="canonical")
    proba, codes, _ = samples.proba()
    if variance == "bin" and proba.shape[1] > 2:
        raise ValueError(
            'variance must be "sample" for more than two classes, got "bin" and '
            f'{proba.shape[1]} classes. Use variance="sample" or mode="top_label".'
        )
    evaluated = proba[:, 1] if proba.shape[1] == 2 else proba.max(axis=1)
    n_bins, strategy = read_bins(n_bins, strategy)
    n_bins = resolve_n_bins(n_bins, len(evaluated), None)
    edges = parting_edges(evaluated, n_bins=n_bins, strategy=strategy)
    index = bin_index(evaluated, edges)
    index = index.astype(np.min_scalar_type(index.max()))  # small ones sort faster
    order = np.argsort(index, kind="stable")
    proba, codes = proba[order], codes[order]
    starts = np.flatnonzero(np.diff(index[order])) + 1
    bins = np.split(proba, starts), np.split(codes, starts)
    open_classes = [_open_classes(part) for part in bins[0]]
    _check_work(open_classes)
    laws = [
        _bin_law(part, in_double(part), is_open, variance)
        for part, is_open in zip(bins[0], open_classes, strict=True)
    ]
    counts = (np.bincount(codes, minlength=proba.shape[1]) for codes in bins[1])
    statistic = sum(
        float(law.chi_square(each)) for law, each in zip(laws, counts, strict=True)
    )
    df = sum(law.rank for law in laws)
    if has_impossible_label(proba, codes) or np.isinf(statistic):
        return ChiSquareResult(np.inf, 0.0, df)
    if df == ddof == 0:
        return ChiSquareResult(0.0, 1.0, 0)
    if df <= ddof:
        raise ValueError(
            f"ddof must be less than the degrees of freedom, which are {df} for these "
            f"bins, got {ddof}. Use more bins, or a smaller ddof."
        )
    if any(law.is_sparse for law in laws):
        if method == "auto" and ddof == 0:
            null = _null_draws(laws, n_resamples, check_random_state(random_state))
            return ChiSquareResult(statistic, tail_pvalue(statistic, null), df)
        warnings.warn(
            "hosmer_lemeshow_test may reject too often because bins are too sparse for "
            "the chi-square distribution. Use method='auto' with ddof=0, or fewer "
            "n_bins.",
            UserWarning,
        )
    df -= ddof
    return ChiSquareResult(statistic, float(chi2.sf(statistic, df)), df)


def _complements(proba: Floats) -> Floats:
    """Return 1 - p, computed as the sum of the other probabilities if p is near 1."""
    complements = 1 - proba
    rows, columns = np.nonzero(complements < NEAR)
    others = proba[rows]
    others[np.arange(len(rows)), columns] = 0
    complements[rows, columns] = others.sum(axis=1)
    return complements


def _open_classes(proba: Floats) -> Bools:
    """Return the classes that are possible but not certain in some row of a bin."""
    # Comparing with 1 fails: next to a probability of 1e-17, the other is rounded to 1.
    is_possible = proba > 0
    if is_possible.all():
        return is_possible[0]
    return is_possible[np.count_nonzero(is_possible, axis=1) > 1].any(axis=0)


def _check_work(open_classes: list[Bools]) -> None:
    """Raise an error if the computation would take minutes."""
    most = max(map(np.count_nonzero, open_classes))
    work = sum(float(np.count_nonzero(is_open)) ** 3 for is_open in open_classes)
    if work > MOST_WORK:
        raise ValueError(
            "y_proba must have fewer classes for this number of bins, because the time "
            f"is cubic in the number of classes, got {most} classes and "
            f"{len(open_classes)} bins with samples. Use fewer n_bins, "
            'mode="top_label" or kernel_calibration_test.'
        )


class BinLaw(NamedTuple):
    """Probabilities of a bin, and the whitening of the deviations of its counts."""

    given: Floats
    kept: Bools
    # The counts if the most probable class of each sample were true.
    counts: Ints
    deviation: Floats
    # Standard deviations, and the map to independent deviations of variance one.
    noise: Floats
    directions: Floats

    @property
    def rank(self) -> int:
        """Return the degrees of freedom."""
        return self.directions.shape[1]

    @property
    def is_sparse(self) -> bool:
        """Whether counts are too small for the chi-square distribution."""
        return bool((self.noise**2 < DENSE).any())

    def chi_square(self, counts: Ints) -> Floats:
        """Return the chi-square statistic of the counts."""
        deviation = self.deviation + (counts - self.counts)[..., self.kept]
        with np.errstate(over="ignore"):  # to infinity
            return (((deviation / self.noise) @ self.directions) ** 2).sum(axis=-1)


def _bin_law(given: Floats, proba: Floats, is_open: Bools, variance: str) -> BinLaw:
    """Return the distribution of the counts of a bin.

    `given` contains the same probabilities in their own precision.

    One count follows from the others. The most probable class is left out, because the
    small probabilities are more precise if it is close to one.
    """
    mass = proba.sum(axis=0)
    kept = is_open & (np.arange(len(mass)) != np.where(is_open, mass, -1).argmax())
    rest, likely, every = (
        _complements(proba),
        proba.argmax(axis=1),
        np.arange(len(proba)),
    )
    # The difference of counts and summed probabilities would be rounding error for
    # saturated probabilities.
    residual = -proba
    residual[every, likely] = rest[every, likely]
    counts, deviation = np.bincount(likely, minlength=len(mass)), residual.sum(axis=0)
    proba, rest = proba[:, kept], rest[:, kept]
    if variance == "bin":
        proba, rest = (
            np.broadcast_to(one.mean(axis=0), one.shape) for one in (proba, rest)
        )
    covariance = -proba.T @ proba
    np.fill_diagonal(covariance, (proba * rest).sum(axis=0))
    noise = np.sqrt(covariance.diagonal())
    value, direction = np.linalg.eigh(covariance / noise / noise[:, None])
    seen = value > 1e-10
    directions = direction[:, seen] / np.sqrt(value[seen])
    return BinLaw(given, kept, counts, deviation[kept], noise, directions)


def _null_draws(laws: list[BinLaw], n_draws: int, rng: np.random.RandomState) -> Floats:
    """Return draws of the statistic for calibrated predictions."""
    null = np.zeros(n_draws)
    for law in laws:
        if law.is_sparse:
            null += law.chi_square(_draw_counts(in_double(law.given), n_draws, rng))
        elif law.rank:
            null += rng.chisquare(law.rank, size=n_draws)
    return null


def _draw_counts(proba: Floats, n_draws: int, rng: np.random.RandomState) -> Ints:
    """Return the class counts of labels drawn from the probabilities."""
    counts, every = np.zeros((n_draws, proba.shape[1]), dtype=int), np.arange(n_draws)
    for row in proba.cumsum(axis=1):
        uniform = rng.random_sample(n_draws)
        counts[every, np.searchsorted(row[:-1] / row[-1], uniform, "right")] += 1
    return counts
