"""Tests of calibration by the kernel calibration error."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import norm
from sklearn.utils import check_random_state

from sklearn_calib._core.inputs import DRAWS, TARGETS, check_targets
from sklearn_calib._core.typing import Floats, Seed
from sklearn_calib._core.validation import StrOptions, validate_params
from sklearn_calib.metrics._consistency_resampling import ResamplingResult, tail_share
from sklearn_calib.metrics._hypothesis_tests import (
    SignificanceResult,
    in_double,
    whole_or_top_label,
)
from sklearn_calib.metrics._kernel_calibration import (
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
from sklearn_calib.metrics._resampling import class_sampler

# Elements of the residuals that are drawn at a time: doubles of 64 MiB.
DRAWN = 2**23
# Random signs and the normal law need so many samples, counted by `_effective_size`.
ENOUGH = 20


@validate_params(
    {
        "y_true": TARGETS["y_true"],
        "y_proba": TARGETS["y_proba"],
        "labels": TARGETS["labels"],
        **KERNEL,
        **DRAWS,
        "method": [StrOptions({"asymptotic", "bootstrap", "consistency"})],
        "block_size": [BLOCK],
    },
    prefer_skip_nested_validation=True,
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
    labels: ArrayLike | None = None,
    n_resamples: int = 1000,
    random_state: Seed = None,
) -> ResamplingResult | SignificanceResult:
    r"""Test whether the kernel calibration error is more than chance.

    A small p-value says that the predictions are not calibrated. With enough samples
    the test sees any deviation, of any class.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels, of any kind.

    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities. A 1-d array holds those of the positive class.

    method : {"consistency", "bootstrap", "asymptotic"}, default="consistency"
        Where the law of the statistic comes from: labels drawn from the probabilities,
        which is exact; random signs of the residuals, which is faster for many classes;
        or the normal law of the mean of many blocks, which takes linear time but sees
        less. Where too few labels are uncertain for the last two, labels are drawn too.

    kernel : {"laplacian", "gaussian"}, default="laplacian"
        How alike predictions at a Euclidean distance d are: exp(-d / bandwidth), or
        exp(-(d / bandwidth)^2 / 2).

    bandwidth : "median" or float, default="median"
        Unit of the distances, from 1e-150 to 1e30; by default the median distance
        between distinct predictions.

    mode : {"canonical", "top_label"}, default="canonical"
        Whether the probabilities of all classes are tested, or only that of the
        predicted class.

    block_size : int, default=2
        Number of samples in a row that are paired with each other, at least 2, for
        `method="asymptotic"`.

    labels : array-like of shape (n_classes,), default=None
        The label of each column, by default the sorted distinct values of `y_true`.

    n_resamples : int, default=1000
        Number of random draws, which the method "asymptotic" needs only where few
        labels are uncertain.

    random_state : int, RandomState instance or None, default=None
        Controls the draws. Pass an int for a repeatable p-value.

    Returns
    -------
    result : ResamplingResult or SignificanceResult
        A named tuple of the `statistic` and the `pvalue`, and unless the method is
        "asymptotic" the `null_distribution`, an ndarray of shape (n_resamples,). The
        statistic is the unbiased estimate of the squared error, and for "asymptotic"
        that of the blocks, divided by its standard error.

    Raises
    ------
    ValueError
        If the labels do not match the columns, or `y_proba` holds anything but
        probabilities, or there are fewer than two samples, or blocks.

    See Also
    --------
    kernel_calibration_error : What is tested.
    consistency_test : The same question to any metric.

    Notes
    -----
    For calibrated predictions :math:`n` times the unbiased estimate tends to a weighted
    sum of centred chi-squares [1]_, whose law is drawn here: "consistency" replaces
    :math:`y_i` by draws from :math:`p_i`, "bootstrap" the residuals :math:`r_i` by
    :math:`\epsilon_i r_i` with random signs [2]_. With :math:`k` of :math:`m` draws as
    large as the estimate the p-value is :math:`(1 + k) / (1 + m)`. The mean of the
    estimates of :math:`m` blocks, divided by their standard deviation and times
    :math:`\sqrt{m}`, tends to a standard normal variable (Lemma 3 of [1]_), and large
    values speak against calibration. The samples must be in random order then, and
    blocks many: the p-value of a few that happen to agree may be 0.

    Random signs and the normal law need enough uncertain labels. Where a class is rare,
    most samples lack it and have small residuals of one sign, which both do not
    imitate. So they are used if :math:`(\sum_i E|r_i|^2)^2 / \sum_i E|r_i|^4 \ge 20`
    for labels drawn from the probabilities, which is about :math:`n` times the
    prevalence of a rare class. Otherwise "bootstrap" is "consistency", and the law of
    the mean of blocks is that for such labels.

    Of n samples, c classes and m draws, "bootstrap" takes time in the order of
    :math:`n^2 (c + m)`, "consistency" :math:`n^2 c m`. Memory does not grow with
    :math:`n^2`.

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
    >>> y_proba = rng.uniform(size=500)
    >>> y_true = rng.uniform(size=500) < y_proba  # perfectly calibrated
    >>> kernel_calibration_test(y_true, y_proba, random_state=0).pvalue > 0.05
    True
    >>> kernel_calibration_test(y_true, y_proba**2, random_state=0).pvalue < 0.01
    True
    """
    proba, codes, _ = check_targets(y_true, y_proba, labels, None)
    proba, codes = whole_or_top_label(proba, codes, mode)
    proba = in_double(proba)
    check_pairs(len(proba), None, True, None)
    alike, residual = kernel_function(kernel, bandwidth, proba), residuals(proba, codes)
    rng, has_enough = check_random_state(random_state), _effective_size(proba) >= ENOUGH
    if method == "asymptotic":
        check_blocks(len(proba), block_size, 2)
        z = _z_value(block_estimates(alike, proba, residual, block_size))
        if has_enough:
            return SignificanceResult(z, float(norm.sf(z)))
        sampler = class_sampler(np.arange(proba.shape[1]), proba)
        drawn = (residuals(proba, sampler(rng)) for _ in range(n_resamples))
        null = np.array(
            [_z_value(block_estimates(alike, proba, r, block_size)) for r in drawn]
        )
        # Infinite ones are as large as each other.
        return SignificanceResult(z, tail_share(np.nan_to_num(z), np.nan_to_num(null)))
    statistic = estimate_square(alike, proba, residual, None, True)
    if method == "bootstrap" and has_enough:
        null = _sign_draws(alike, proba, residual, n_resamples, rng)
    else:
        null = _label_draws(alike, proba, n_resamples, rng)
    null /= len(proba) * (len(proba) - 1)
    return ResamplingResult(float(statistic), tail_share(statistic, null), null)


def _z_value(estimates: Floats) -> float:
    """Return the mean in units of its standard error."""
    mean = estimates.mean()
    if mean == 0:
        return 0.0
    error = estimates.std(ddof=1) / np.sqrt(len(estimates))
    return float(mean / error if error > 0 else np.copysign(np.inf, mean))


def _effective_size(proba: Floats) -> float:
    """Return the number of samples with equal residuals that vary as these would."""
    squares = 1 - 2 * proba + np.einsum("ij,ij->i", proba, proba)[:, None]
    variance = np.einsum("ij,ij->", proba, squares)
    fourth = np.einsum("ij,ij,ij->", proba, squares, squares)
    return float(variance**2 / fourth) if fourth > 0 else 0.0


def _sign_draws(
    alike: Kernel,
    proba: Floats,
    residual: Floats,
    n_draws: int,
    rng: np.random.RandomState,
) -> Floats:
    """Return the sum over all pairs of samples, for random signs of the residuals."""
    sign = rng.choice([-1.0, 1.0], size=(len(proba), n_draws))
    total = np.full(n_draws, -np.einsum("ij,ij->", residual, residual))
    for rows, columns, times in tiles(len(proba)):
        pairs = alike(proba[rows], proba[columns]) * (
            residual[rows] @ residual[columns].T
        )
        total += times * np.einsum("ij,ij->j", sign[rows], pairs @ sign[columns])
    return total


def _label_draws(
    alike: Kernel, proba: Floats, n_draws: int, rng: np.random.RandomState
) -> Floats:
    """Return the sum over all pairs of samples, for labels from the probabilities."""
    n_classes = proba.shape[1]
    sampler = class_sampler(np.arange(n_classes), proba)
    at_a_time = max(1, DRAWN // proba.size)
    null = []
    for start in range(0, n_draws, at_a_time):
        count = min(at_a_time, n_draws - start)
        drawn = [residuals(proba, sampler(rng)) for _ in range(count)]
        sums = off_diagonal_sums(alike, proba, np.hstack(drawn))
        null.append(sums.reshape(count, n_classes).sum(axis=1))
    return np.concatenate(null)
