"""Kernel calibration error (KCE)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from numbers import Integral, Real
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import cdist, pdist

from sklearn_calib._validation.declarations import (
    TARGETS,
    Interval,
    StrOptions,
    declare_interval,
    validate_params,
)
from sklearn_calib._validation.samples import (
    TESTED,
    in_double,
    merge_repetitions,
    read_samples,
)
from sklearn_calib._validation.types import Floats, Ints, Weights

# A function of two sets of predictions that returns their kernel matrix.
Kernel: TypeAlias = Callable[[Floats, Floats], Floats]

# Squares of smaller bandwidths underflow; for larger ones the kernel is constant.
WIDTHS = 1e-150, 1e30
KERNEL = {
    "kernel": [StrOptions({"gaussian", "laplacian"})],
    "bandwidth": [StrOptions({"median"}), Interval(Real, *WIDTHS, closed="both")],
    "mode": [TESTED],
}
BLOCK = Interval(Integral, 2, None, closed="left")
# Rows and columns of the kernel in memory at a time: 1024 x 1024 doubles are 8 MiB.
TILE = 1024
# Largest number of distinct predictions used for the median distance.
MEDIAN_ROWS = 1000


@declare_interval(is_error=True, squared={"squared": True})
@validate_params(
    {
        **TARGETS,
        **KERNEL,
        "reduce_bias": ["boolean"],
        "block_size": [BLOCK, None],
        "squared": ["boolean"],
    }
)
def kernel_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    kernel: str = "laplacian",
    bandwidth: float | str = "median",
    mode: str = "canonical",
    reduce_bias: bool = False,
    block_size: int | None = None,
    squared: bool = False,
    pos_label: Any = None,
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""Kernel calibration error (KCE) of all classes or of the top label.

    The error evaluates the whole vector of probabilities without bins. An unbiased
    estimate of its square exists. Lower is better; 0 is best.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels, of any type.

    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities. A 1-d array contains the probabilities of the positive
        class.

    kernel : {"laplacian", "gaussian"}, default="laplacian"
        Kernel of two predictions at the Euclidean distance d: exp(-d / bandwidth) for
        "laplacian", and exp(-(d / bandwidth)^2 / 2) for "gaussian".

    bandwidth : "median" or float, default="median"
        Bandwidth of the kernel, from 1e-150 to 1e30. "median" uses the median distance
        between distinct predictions.

    mode : {"canonical", "top_label"}, default="canonical"
        Whether the probabilities of all classes are evaluated, or only that of the
        predicted class, as by the MMCE [2]_.

    reduce_bias : bool, default=False
        Whether to exclude the pairs of a sample with itself. The estimate of the square
        is then unbiased, and may be negative.

    block_size : int, default=None
        Number of consecutive samples in a block, at least 2. Only pairs of samples in
        the same block are used, which takes linear time. Requires `reduce_bias=True`.
        By default, all pairs of samples are used.

    squared : bool, default=False
        Whether to return the square of the error. If False and the estimate of the
        square is negative, 0 is returned.

    pos_label : label, default=None
        Label of the class whose probabilities a 1-d array contains. By default, the
        second of the two labels.

    labels : array-like of shape (n_classes,), default=None
        Labels of the columns of `y_proba`. By default, the sorted distinct values of
        `y_true`.

    sample_weight : array-like of shape (n_samples,), default=None
        Sample weights, not available with `block_size`. A weight of 2 is equivalent to
        including the sample twice, so the scale of the weights matters for
        `reduce_bias`.

    Returns
    -------
    error : float
        Calibration error in [0, sqrt(2)], or its square.

    Raises
    ------
    ValueError
        If the labels do not match the columns of `y_proba`, or `y_proba` contains
        values that are not probabilities, or there are too few samples for an unbiased
        estimate or a block.

    See Also
    --------
    kernel_calibration_test : Calibration test based on this error.

    Notes
    -----
    With the residuals :math:`r_i = e_{y_i} - p_i`, where :math:`e_{y_i}` is the one-hot
    label, the square is estimated by the mean of :math:`k(p_i, p_j) \, r_i^T r_j` over
    pairs of samples [1]_. The pairs are all pairs (biased), those with :math:`i \neq j`
    (unbiased), or those in the same block (unbiased, with a larger variance; "linear"
    in Table 1 of [1]_ for blocks of 2). Samples after the last full block are ignored.
    With blocks, the samples must be in random order.

    The computation time is quadratic in the number of distinct samples, but the memory
    is not.

    References
    ----------
    .. [1] D. Widmann, F. Lindsten and D. Zachariah, "Calibration Tests in Multi-class
       Classification: A Unifying Framework", NeurIPS 2019.

    .. [2] A. Kumar, S. Sarawagi and U. Jain, "Trainable Calibration Measures for Neural
       Networks from Kernel Mean Embeddings", ICML 2018.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.metrics import kernel_calibration_error
    >>> rng = np.random.default_rng(0)
    >>> y_proba = rng.uniform(size=500)
    >>> y_true = rng.uniform(size=500) < y_proba  # perfectly calibrated
    >>> round(kernel_calibration_error(y_true, y_proba), 3)
    0.016
    >>> kernel_calibration_error(y_true, y_proba, reduce_bias=True)
    0.0
    """
    data = y_true, y_proba, labels, sample_weight, mode, pos_label
    samples = read_samples(*data, is_symmetric=True)
    proba, codes, weight = samples.proba()
    proba = in_double(proba)
    check_pairs(len(proba), weight, reduce_bias, block_size)
    if block_size is None:
        proba, codes, weight = merge_repetitions(proba, codes, weight)
    similarity = kernel_function(
        kernel, bandwidth, proba if weight is None else proba[weight > 0]
    )
    residual = residuals(proba, codes)
    if block_size is not None:
        square = block_estimates(similarity, proba, residual, block_size).mean()
    else:
        square = estimate_square(similarity, proba, residual, weight, reduce_bias)
    return float(square if squared else np.sqrt(max(0, square)))


def check_pairs(
    n_samples: int, weight: Weights, reduce_bias: bool, block_size: int | None
) -> None:
    """Raise an error if the options leave no pair of samples or are inconsistent."""
    if block_size is not None and not (reduce_bias and weight is None):
        given = "sample_weight" if reduce_bias else "reduce_bias=False"
        raise ValueError(
            "block_size must be None unless reduce_bias=True and sample_weight=None, "
            f"got {block_size} and {given}. Do not pass both."
        )
    check_blocks(n_samples, block_size or 1, 1)
    total = n_samples if weight is None else weight.sum()
    if reduce_bias and total <= 1:
        raise ValueError(
            "y_true must contain more than one sample for an unbiased estimate, got a "
            f"total weight of {total:g}. Pass more samples, or larger weights."
        )


def check_blocks(n_samples: int, block_size: int, least: int) -> None:
    """Raise an error if there are fewer full blocks than `least`."""
    if n_samples // block_size < least:
        raise ValueError(
            f"block_size must give at least {least} full block(s), got {block_size} "
            f"for {n_samples} samples. Use smaller blocks, or pass more samples."
        )


def residuals(proba: Floats, codes: Ints) -> Floats:
    """Return the one-hot labels minus the probabilities."""
    residual = -proba
    residual[np.arange(len(codes)), codes] += 1
    return residual


def kernel_function(kernel: str, bandwidth: float | str, proba: Floats) -> Kernel:
    """Return the kernel, a function of two sets of predictions."""
    scale = bandwidth if not isinstance(bandwidth, str) else _median_distance(proba)

    def similarity(rows: Floats, columns: Floats) -> Floats:
        if kernel == "laplacian":
            values = cdist(rows, columns)
            values /= -scale
        else:
            values = cdist(rows, columns, "sqeuclidean")
            values /= -2 * scale**2
        return np.exp(values, out=values)

    return similarity


def _median_distance(proba: Floats) -> float:
    """Return the median distance of distinct rows, independent of their order."""
    rows = proba[_distinct(proba)]
    if len(rows) > MEDIAN_ROWS:
        rows = rows[np.linspace(0, len(rows) - 1, MEDIAN_ROWS).astype(int)]
    return float(np.median(pdist(rows))) if len(rows) > 1 else 1.0


def _distinct(proba: Floats) -> Ints:
    """Return the indices of the distinct rows, ordered by confidence."""
    # Comparing two weighted sums is faster than comparing whole rows. The first sum
    # does not depend on the order of the classes.
    factors = np.sqrt(np.arange(1, proba.shape[1] + 1))
    by_confidence = np.einsum("ij,j->i", np.sort(proba, axis=1), factors)
    by_class = np.einsum("ij,j->i", proba, factors)
    order = np.lexsort((by_class, by_confidence))
    is_new = (np.diff(by_confidence[order]) > 0) | (np.diff(by_class[order]) != 0)
    return order[np.append(True, is_new)]


def tiles(n_samples: int) -> Iterator[tuple[slice, slice, int]]:
    """Yield slices of rows and columns above the diagonal, and their multiplicity."""
    starts = range(0, n_samples, TILE)
    for row in starts:
        for column in starts[row // TILE :]:
            times = 1 if row == column else 2
            yield slice(row, row + TILE), slice(column, column + TILE), times


def off_diagonal_sums(similarity: Kernel, proba: Floats, vectors: Floats) -> Floats:
    """Return the sum of k_ij v_i v_j over i != j for each column of vectors."""
    total = -np.einsum("ij,ij->j", vectors, vectors)
    for rows, columns, times in tiles(len(proba)):
        product = similarity(proba[rows], proba[columns]) @ vectors[columns]
        total += times * np.einsum("ij,ij->j", vectors[rows], product)
    return total


def estimate_square(
    similarity: Kernel,
    proba: Floats,
    residual: Floats,
    weight: Weights,
    reduce_bias: bool,
) -> Any:
    """Return the mean over all pairs, or over all pairs of different samples."""
    weight = np.ones(len(proba)) if weight is None else weight
    pairs = off_diagonal_sums(similarity, proba, weight[:, None] * residual).sum()
    total, norms = weight.sum(), np.einsum("ij,ij->i", residual, residual)
    if reduce_bias:
        # A sample of weight w counts as w samples, which form w * (w - 1) pairs.
        return (pairs + (weight * (weight - 1)) @ norms) / (total * (total - 1))
    return (pairs + weight**2 @ norms) / total**2


def block_estimates(
    similarity: Kernel, proba: Floats, residual: Floats, size: int
) -> Floats:
    """Return the unbiased estimate of each block of samples."""
    starts = range(0, len(proba) - size + 1, size)
    blocks = [slice(start, start + size) for start in starts]
    if size > 2:
        return np.array(
            [
                estimate_square(similarity, proba[b], residual[b], None, True)
                for b in blocks
            ]
        )
    return _pair_estimates(similarity, proba, residual, len(blocks))


def _pair_estimates(
    similarity: Kernel, proba: Floats, residual: Floats, n_pairs: int
) -> Floats:
    """Return k_ij r_i r_j for the samples (0, 1), (2, 3) and so on."""
    one, other = slice(0, 2 * n_pairs, 2), slice(1, 2 * n_pairs, 2)
    # The kernel of a difference and the origin is that of the two samples.
    distance = proba[one] - proba[other]
    kernel = similarity(distance, np.zeros((1, proba.shape[1])))[:, 0]
    return kernel * np.einsum("ij,ij->i", residual[one], residual[other])
