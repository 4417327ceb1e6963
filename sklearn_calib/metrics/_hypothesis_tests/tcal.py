"""T-Cal: test of calibration with bins of many sizes."""

from __future__ import annotations

from collections.abc import Iterator
from math import log, log2, sqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from sklearn_calib._validation.declarations import DRAWS, TARGETS, validate_params
from sklearn_calib._validation.samples import TESTED, in_double, read_samples
from sklearn_calib._validation.types import Array, Floats, Ints, Seed
from sklearn_calib.metrics._draws import class_sampler
from sklearn_calib.metrics._hypothesis_tests.consistency import (
    ResamplingResult,
    tail_pvalue,
)

# Elements of the residuals drawn at a time: 8 MiB of doubles.
DRAWN = 2**20


@validate_params(
    {
        **TARGETS,
        "mode": [TESTED],
        **DRAWS,
    }
)
def tcal_test(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    mode: str = "canonical",
    pos_label: Any = None,
    labels: ArrayLike | None = None,
    n_resamples: int = 1000,
    random_state: Seed = None,
) -> ResamplingResult:
    r"""T-Cal: calibration test that adapts the number of bins.

    The statistic is the largest standardised estimate of the squared calibration error
    over 2, 4, 8 and more bins of equal width, so no number of bins has to be chosen. A
    small p-value is evidence against calibration. The test is exact for any number of
    samples.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels, of any type.

    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities. A 1-d array contains the probabilities of the positive
        class.

    mode : {"canonical", "top_label"}, default="canonical"
        Whether the probabilities of all classes are tested, or only that of the
        predicted class. For many classes, "canonical" has few samples in each bin, and
        "top_label" detects more.

    pos_label : label, default=None
        Label of the class whose probabilities a 1-d array contains. By default, the
        second of the two labels.

    labels : array-like of shape (n_classes,), default=None
        Labels of the columns of `y_proba`. By default, the sorted distinct values of
        `y_true`.

    n_resamples : int, default=1000
        Number of random draws.

    random_state : int, RandomState instance or None, default=None
        Controls the random draws. Pass an int for reproducible results.

    Returns
    -------
    result : ResamplingResult
        Named tuple of the `statistic`, the `pvalue`, and the `null_distribution`, an
        ndarray of shape (n_resamples,) with the statistic of each draw.

    Raises
    ------
    ValueError
        If the labels do not match the columns of `y_proba`, or `y_proba` contains
        values that are not probabilities.

    See Also
    --------
    kernel_calibration_test : Test with a kernel instead of bins.
    hosmer_lemeshow_test : Test with a fixed number of bins.
    consistency_test : Calibration test with any metric.

    Notes
    -----
    With the residuals :math:`r_i = y_i - p_i` and the number of samples :math:`n_b` of
    bin b, the debiased estimate of the squared calibration error with m bins is [1]_

    .. math:: T_m = \frac{1}{n} \sum_b \frac{1}{n_b}
        \sum_{i \ne j \in b} \langle r_i, r_j \rangle.

    The mean of T_m is 0 for calibrated predictions. For two classes, the residuals are
    those of the positive class. For K > 2 classes, they are vectors, and the bins are
    cubes: each of the K probabilities is divided into m intervals. As for
    :func:`expected_calibration_error`, a probability on an edge is in the interval
    below it. The numbers m are the powers of two up to
    :math:`(n / \sqrt{\log n})^{2 / (K - 1)}`, and at least 2.

    The statistic is :math:`\max_m T_m / \sigma_m`, where :math:`\sigma_m` is the
    standard deviation of :math:`T_m` for labels drawn from the probabilities. [1]_
    tests each m at the level :math:`\alpha` divided by the number of values of m
    (Bonferroni correction), which is conservative because the estimates for different m
    are dependent. The maximum is not conservative.

    The null distribution is that of labels drawn from the probabilities. If :math:`k`
    of :math:`d` draws have at least the same statistic, the p-value is
    :math:`(1 + k) / (1 + d)`.

    The test is suited to errors that change their sign often. Overconfidence is
    detected with fewer samples by :func:`spiegelhalter_test` and
    :func:`hosmer_lemeshow_test`.

    References
    ----------
    .. [1] D. Lee, X. Huang, H. Hassani and E. Dobriban, "T-Cal: An Optimal Test for the
       Calibration of Predictive Models", Journal of Machine Learning Research 24, 2023.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.metrics import tcal_test
    >>> rng = np.random.default_rng(0)
    >>> y_proba = rng.uniform(size=200)
    >>> y_true = rng.uniform(size=200) < y_proba  # perfectly calibrated
    >>> tcal_test(y_true, y_proba, random_state=0).pvalue > 0.05
    True
    >>> tcal_test(y_true, y_proba**2, random_state=0).pvalue < 0.01
    True
    """
    data = y_true, y_proba, labels, None, mode, pos_label
    proba, codes, _ = read_samples(*data, is_symmetric=True).proba()
    proba = in_double(proba)
    classes = np.arange(proba.shape[1])
    # One of two columns follows from the other.
    tested = classes[1:] if len(classes) == 2 else classes
    order, starts = _dyadic_bins(proba[:, tested])
    proba, codes = proba[order], codes[order]
    values = proba[:, tested]
    spread = np.sqrt(_null_variances(values, starts))

    def statistics(codes: Ints) -> Floats:
        if not starts:
            return np.zeros(len(codes))
        residual = (codes[:, :, None] == tested) - values
        return _largest(np.array([*_pair_sums(residual, starts, 1)]), spread)

    rng, sampler = check_random_state(random_state), class_sampler(classes, proba)
    at_a_time = max(1, DRAWN // values.size)
    sizes = np.diff([*range(0, n_resamples, at_a_time), n_resamples])
    null = [statistics(np.stack([sampler(rng) for _ in range(k)])) for k in sizes]
    statistic, draws = float(statistics(codes[None])[0]), np.concatenate(null)
    return ResamplingResult(statistic, tail_pvalue(statistic, draws), draws)


def _dyadic_bins(values: Floats) -> tuple[Ints, list[Ints]]:
    """Return an order of the samples, and the first sample of each bin at each scale.

    In this order, the samples of a bin are consecutive at each scale. The scales are
    from the finest to the coarsest. Those without two samples in a bin are omitted.
    """
    n_samples, n_columns = values.shape
    n_scales = 1
    if n_samples > 1:
        dimension = max(1, n_columns - 1)
        finest = 2 / dimension * log2(n_samples / sqrt(log(n_samples)))
        n_scales = max(1, int(finest))
    numbers = [2.0**k for k in range(n_scales, 0, -1)]
    if n_columns == 1:
        order = np.argsort(values[:, 0])
    else:  # the last keys are sorted first
        order = np.lexsort([*np.hstack([_cells(values, m) for m in numbers]).T])
    starts: list[Ints] = []
    n_bins = n_samples
    for number in numbers:
        cells = _cells(values[order], number)
        start = np.flatnonzero((np.diff(cells, axis=0, prepend=-1) != 0).any(axis=1))
        if len(start) < n_bins:
            starts.append(start)
            n_bins = len(start)
    return order, starts


def _cells(values: Floats, number: float) -> Floats:
    """Return the index of the interval of each value. 0 is in the first one."""
    return np.maximum(np.ceil(values * number) - 1, 0)


def _pair_sums(residual: Floats, starts: list[Ints], power: int) -> Iterator[Floats]:
    """Yield sums of products of pairs of samples in the same bin, for each scale.

    `residual` is an array (n_draws, n_samples, n_columns). The sum of a bin is divided
    by a power of its number of samples, and all by the number of samples.
    """
    n_samples = residual.shape[1]
    squares = np.einsum("dnc,dnc->dn", residual, residual)
    first: Array = np.arange(n_samples)
    for start in starts:
        # The bins of a scale consist of bins of the finer one.
        members = np.searchsorted(first, start)
        residual = np.add.reduceat(residual, members, axis=1)
        squares = np.add.reduceat(squares, members, axis=1)
        first, size = start, np.diff(start, append=n_samples)
        pairs = np.einsum("dbc,dbc->db", residual, residual) - squares
        yield pairs @ np.where(size > 1, 1 / size**power, 0) / n_samples


def _null_variances(values: Floats, starts: list[Ints]) -> Floats:
    """Return the variance of the estimate of each scale, for calibrated predictions."""
    total = np.zeros(len(starts))
    if values.shape[1] > len(values):
        # There are fewer pairs of samples than pairs of classes.
        pairs = _covariance_products(values)
        for scale, start in enumerate(starts):
            size = np.diff(start, append=len(values))
            bin_of = np.repeat(np.arange(len(size)), size)
            sums = np.where(bin_of[:, None] == bin_of, pairs, 0).sum(axis=1)
            total[scale] = sums @ (1 / size[bin_of] ** 2) / len(values)
        return 2 / len(values) * total
    for k in range(values.shape[1]):
        covariance = -values * values[:, [k]]
        covariance[:, k] += values[:, k]
        total += [float(sums[0]) for sums in _pair_sums(covariance[None], starts, 2)]
    # Differences of sums are negative by rounding errors.
    return 2 / len(values) * np.maximum(total, 0)


def _covariance_products(values: Floats) -> Floats:
    """Return the inner product of the covariances of each pair of different samples."""
    variances = values * (1 - values)
    pairs = variances @ variances.T
    for i, row in enumerate(values):
        # The largest product is apart: for saturated probabilities, the others would
        # vanish beside it.
        products = row * values
        top = products.argmax(axis=1)[:, None]
        largest = np.take_along_axis(products, top, axis=1)[:, 0]
        np.put_along_axis(products, top, 0, axis=1)
        rest = products.sum(axis=1)
        squares = np.einsum("nc,nc->n", products, products)
        pairs[i] += 2 * largest * rest + (rest**2 - squares)
    np.fill_diagonal(pairs, 0)
    return pairs


def _largest(estimates: Floats, spread: Floats) -> Floats:
    """Return the largest standardised estimate of each draw."""
    unlikely = np.where(estimates > 0, np.inf, 0.0)
    column = np.broadcast_to(spread[:, None], estimates.shape)
    return np.divide(estimates, column, out=unlikely, where=column > 0).max(axis=0)
