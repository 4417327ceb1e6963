"""Calibration test based on the kernel calibration error."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import norm
from sklearn.utils import check_random_state

from sklearn_calib._validation.declarations import (
    DRAWS,
    TARGETS,
    StrOptions,
    validate_params,
)
from sklearn_calib._validation.samples import in_double, read_samples
from sklearn_calib._validation.types import Floats, Seed
from sklearn_calib.metrics._calibration_errors.kernel_error import (
    BLOCK,
    KERNEL,
    Kernel,
    block_estimates,
    check_blocks,
    check_pairs,
    estimate_square,
    kernel_function,
    off_diagonal_sums,
    residuals,
    tiles,
)
from sklearn_calib.metrics._draws import class_sampler
from sklearn_calib.metrics._hypothesis_tests.consistency import (
    ResamplingResult,
    tail_pvalue,
)
from sklearn_calib.metrics._hypothesis_tests.spiegelhalter import SignificanceResult

# Elements of the residuals drawn at a time: 64 MiB of doubles.
DRAWN = 2**23
# Smallest `_effective_size` for random signs and the normal distribution.
ENOUGH = 20


@validate_params(
    {
        **TARGETS,
        **KERNEL,
        **DRAWS,
        "method": [StrOptions({"asymptotic", "bootstrap", "consistency"})],
        "block_size": [BLOCK],
    }
)
def kernel_calibration_test(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    method: str = "consistency",
    kernel: str = "laplacian",
    bandwidth: float | str = "median",
    mode: str = "canonical",
    block_size: int = 2,
    pos_label: Any = None,
    labels: ArrayLike | None = None,
    n_resamples: int = 1000,
    random_state: Seed = None,
) -> ResamplingResult | SignificanceResult:
    r"""Calibration test based on the kernel calibration error (KCE).

    A small p-value is evidence against calibration. With enough samples, the test
    detects any deviation from calibration, for any class.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels, of any type.

    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities. A 1-d array contains the probabilities of the positive
        class.

    method : {"consistency", "bootstrap", "asymptotic"}, default="consistency"
        Source of the null distribution. "consistency": labels drawn from the
        probabilities, which is exact. "bootstrap": random signs of the residuals, which
        is faster for many classes. "asymptotic": the normal distribution of the mean
        over blocks, which takes linear time but has less power. If too few labels are
        uncertain for the last two, labels are drawn as for "consistency".

    kernel : {"laplacian", "gaussian"}, default="laplacian"
        Kernel of two predictions at the Euclidean distance d: exp(-d / bandwidth) for
        "laplacian", and exp(-(d / bandwidth)^2 / 2) for "gaussian".

    bandwidth : "median" or float, default="median"
        Bandwidth of the kernel, from 1e-150 to 1e30. "median" uses the median distance
        between distinct predictions.

    mode : {"canonical", "top_label"}, default="canonical"
        Whether the probabilities of all classes are tested, or only that of the
        predicted class.

    block_size : int, default=2
        Number of consecutive samples in a block, at least 2. Only used by "asymptotic".

    pos_label : label, default=None
        Label of the class whose probabilities a 1-d array contains. By default, the
        second of the two labels.

    labels : array-like of shape (n_classes,), default=None
        Labels of the columns of `y_proba`. By default, the sorted distinct values of
        `y_true`.

    n_resamples : int, default=1000
        Number of random draws. "asymptotic" uses them only if few labels are uncertain.

    random_state : int, RandomState instance or None, default=None
        Controls the random draws. Pass an int for reproducible results.

    Returns
    -------
    result : ResamplingResult or SignificanceResult
        Named tuple of the `statistic`, the `pvalue` and, unless the method is
        "asymptotic", the `null_distribution`, an ndarray of shape (n_resamples,). The
        statistic is the unbiased estimate of the squared error. For "asymptotic", it is
        the mean of the estimates of the blocks, divided by its standard error.

    Raises
    ------
    ValueError
        If the labels do not match the columns of `y_proba`, or `y_proba` contains
        values that are not probabilities, or there are fewer than two samples or
        blocks.

    See Also
    --------
    kernel_calibration_error : Error on which the test is based.
    tcal_test : Test with bins of many sizes instead of a kernel.
    consistency_test : Calibration test with any metric.

    Notes
    -----
    For calibrated predictions, :math:`n` times the unbiased estimate converges to a
    weighted sum of centred chi-square variables [1]_. Its distribution is simulated:
    "consistency" replaces the labels :math:`y_i` by draws from :math:`p_i`, and
    "bootstrap" replaces the residuals :math:`r_i` by :math:`\epsilon_i r_i` with random
    signs [2]_. If :math:`k` of :math:`m` draws are at least as large as the estimate,
    the p-value is :math:`(1 + k) / (1 + m)`.

    For "asymptotic", the mean of the estimates of the blocks, divided by its standard
    error, converges to a standard normal variable (Lemma 3 of [1]_), and large values
    are evidence against calibration. The samples must be in random order, and the
    number of blocks must be large.

    Random signs and the normal distribution require enough uncertain labels. They do
    not reproduce the distribution for rare classes, because most samples then have
    small residuals of the same sign. They are used if
    :math:`(\sum_i E|r_i|^2)^2 / \sum_i E|r_i|^4 \ge 20` for labels drawn from the
    probabilities. For a rare class, this ratio is about :math:`n` times its prevalence.
    Otherwise, "bootstrap" is the same as "consistency", and "asymptotic" uses the
    distribution of its statistic for drawn labels.

    For :math:`n` samples, :math:`c` classes and :math:`m` draws, the computation time
    is of order :math:`n^2 (c + m)` for "bootstrap" and :math:`n^2 c m` for
    "consistency". The memory is not quadratic in :math:`n`.

    References
    ----------
    .. [1] D. Widmann, F. Lindsten and D. Zachariah, "Calibration Tests in Multi-class
       Classification: A Unifying Framework", NeurIPS 2019.

    .. [2] H. Dehling and T. Mikosch, "Random Quadratic Forms and the Bootstrap for
       U-statistics", Journal of Multivariate Analysis 51, 1994.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.metrics import kernel_calibration_test
    >>> rng = np.random.default_rng(0)
    >>> y_proba = rng.uniform(size=200)
    >>> y_true = rng.uniform(size=200) < y_proba  # perfectly calibrated
    >>> kernel_calibration_test(y_true, y_proba, random_state=0).pvalue > 0.05
    True
    >>> kernel_calibration_test(y_true, y_proba**2, random_state=0).pvalue < 0.01
    True
    """
    data = y_true, y_proba, labels, None, mode, pos_label
    proba, codes, _ = read_samples(*data, is_symmetric=True).proba()
    proba = in_double(proba)
    check_pairs(len(proba), None, True, None)
    similarity, residual = (
        kernel_function(kernel, bandwidth, proba),
        residuals(proba, codes),
    )
    rng, has_enough = check_random_state(random_state), _effective_size(proba) >= ENOUGH
    if method == "asymptotic":
        check_blocks(len(proba), block_size, 2)
        z = _z_value(block_estimates(similarity, proba, residual, block_size))
        if has_enough:
            return SignificanceResult(z, float(norm.sf(z)))
        sampler = class_sampler(np.arange(proba.shape[1]), proba)
        drawn = (residuals(proba, sampler(rng)) for _ in range(n_resamples))
        null = np.array(
            [_z_value(block_estimates(similarity, proba, r, block_size)) for r in drawn]
        )
        # Infinite values must compare as equal.
        return SignificanceResult(z, tail_pvalue(np.nan_to_num(z), np.nan_to_num(null)))
    statistic = estimate_square(similarity, proba, residual, None, True)
    if method == "bootstrap" and has_enough:
        null = _sign_draws(similarity, proba, residual, n_resamples, rng)
    else:
        null = _label_draws(similarity, proba, n_resamples, rng)
    null /= len(proba) * (len(proba) - 1)
    return ResamplingResult(float(statistic), tail_pvalue(statistic, null), null)


def _z_value(estimates: Floats) -> float:
    """Return the mean divided by its standard error."""
    mean = estimates.mean()
    if mean == 0:
        return 0.0
    error = estimates.std(ddof=1) / np.sqrt(len(estimates))
    return float(mean / error if error > 0 else np.copysign(np.inf, mean))


def _effective_size(proba: Floats) -> float:
    """Return the effective number of samples with uncertain labels."""
    squares = 1 - 2 * proba + np.einsum("ij,ij->i", proba, proba)[:, None]
    variance = np.einsum("ij,ij->", proba, squares)
    fourth = np.einsum("ij,ij,ij->", proba, squares, squares)
    return float(variance**2 / fourth) if fourth > 0 else 0.0


def _sign_draws(
    similarity: Kernel,
    proba: Floats,
    residual: Floats,
    n_draws: int,
    rng: np.random.RandomState,
) -> Floats:
    """Return the sums over all pairs of samples, for random signs of the residuals."""
    sign = rng.choice([-1.0, 1.0], size=(len(proba), n_draws))
    total = np.full(n_draws, -np.einsum("ij,ij->", residual, residual))
    for rows, columns, times in tiles(len(proba)):
        pairs = similarity(proba[rows], proba[columns]) * (
            residual[rows] @ residual[columns].T
        )
        total += times * np.einsum("ij,ij->j", sign[rows], pairs @ sign[columns])
    return total


def _label_draws(
    similarity: Kernel, proba: Floats, n_draws: int, rng: np.random.RandomState
) -> Floats:
    """Return the sums over all pairs of samples, for drawn labels."""
    n_classes = proba.shape[1]
    sampler = class_sampler(np.arange(n_classes), proba)
    at_a_time = max(1, DRAWN // proba.size)
    null = []
    for start in range(0, n_draws, at_a_time):
        count = min(at_a_time, n_draws - start)
        drawn = [residuals(proba, sampler(rng)) for _ in range(count)]
        sums = off_diagonal_sums(similarity, proba, np.hstack(drawn))
        null.append(sums.reshape(count, n_classes).sum(axis=1))
    return np.concatenate(null)
