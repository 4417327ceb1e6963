"""The kernel calibration error, which has unbiased estimates."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from numbers import Integral, Real
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import cdist, pdist

from sklearn_calib._core.inputs import TARGETS, check_targets, merge_repetitions
from sklearn_calib._core.interval_kind import declare_interval
from sklearn_calib._core.typing import Floats, Ints, Weights
from sklearn_calib._core.validation import Interval, StrOptions, validate_params
from sklearn_calib.metrics._hypothesis_tests import (
    JUDGED,
    in_double,
    whole_or_top_label,
)

# From rows of predictions to how alike each is to each of others.
Kernel: TypeAlias = Callable[[Floats, Floats], Floats]

# Squares of narrower kernels vanish; to wider ones all predictions are alike.
WIDTHS = 1e-150, 1e30
KERNEL = {
    "kernel": [StrOptions({"gaussian", "laplacian"})],
    "bandwidth": [StrOptions({"median"}), Interval(Real, *WIDTHS, closed="both")],
    "mode": [JUDGED],
}
BLOCK = Interval(Integral, 2, None, closed="left")
# Rows and columns of the kernel that are held at a time: 1024 x 1024 doubles are 8 MiB.
TILE = 1024
# Of more distinct predictions, these many are looked at for the median distance.
MEDIAN_ROWS = 1000


@declare_interval(is_error=True, squared={"squared": True})
@validate_params(
    {
        **TARGETS,
        **KERNEL,
        "reduce_bias": ["boolean"],
        "block_size": [BLOCK, None],
        "squared": ["boolean"],
    },
    prefer_skip_nested_validation=True,
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
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""Largest mean of the residuals that a smooth function of them can bring.

    The KCE, of the whole vector of probabilities, without bins. 0 is best. Its square
    can be estimated without bias, and can be tested.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels, of any kind.

    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities. A 1-d array holds those of the positive class.

    kernel : {"laplacian", "gaussian"}, default="laplacian"
        How alike predictions at a Euclidean distance d are: exp(-d / bandwidth), or
        exp(-(d / bandwidth)^2 / 2).

    bandwidth : "median" or float, default="median"
        Unit of the distances, from 1e-150 to 1e30; by default the median distance
        between distinct predictions.

    mode : {"canonical", "top_label"}, default="canonical"
        Whether the probabilities of all classes are judged, or only that of the
        predicted class, as by the MMCE [2]_.

    reduce_bias : bool, default=False
        Whether no sample is paired with itself, which makes the estimate of the square
        unbiased, at times negative.

    block_size : int, default=None
        If an int, samples are paired only with those of their block, of this many in a
        row, which takes linear time. At least 2, for `reduce_bias=True` only. By
        default every sample is paired with every other.

    squared : bool, default=False
        Whether the square is returned. The root of a negative estimate is 0.

    labels : array-like of shape (n_classes,), default=None
        The label of each column, by default the sorted distinct values of `y_true`.

    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the samples, not for blocks; a weight of 2 counts like the same
        sample twice, so that their scale matters for `reduce_bias`.

    Returns
    -------
    error : float
        Calibration error in [0, sqrt(2)], or its square.

    Raises
    ------
    ValueError
        If the labels do not match the columns, or `y_proba` holds anything but
        probabilities, or there are too few samples for an unbiased estimate or a
        block.

    See Also
    --------
    kernel_calibration_test : Whether it is more than chance.

    Notes
    -----
    With the residuals :math:`r_i = e_{y_i} - p_i` the square is estimated by the mean
    of :math:`k(p_i, p_j) \, r_i^T r_j` over all pairs (biased), over those with
    :math:`i \neq j` (unbiased), or over those within blocks of 2 (linear; Table 1 of
    [1]_); larger blocks lie between the last two. Samples that fill no block are left
    out, and the order of the samples matters then: it must not follow from them.

    Time grows with the square of the number of distinct samples, memory does not.

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
    proba, codes, weight = check_targets(y_true, y_proba, labels, sample_weight)
    proba, codes = whole_or_top_label(proba, codes, mode)
    proba = in_double(proba)
    check_pairs(len(proba), weight, reduce_bias, block_size)
    if block_size is None:
        proba, codes, weight = merge_repetitions(proba, codes, weight)
    alike = kernel_function(
        kernel, bandwidth, proba if weight is None else proba[weight > 0]
    )
    residual = residuals(proba, codes)
    if block_size is not None:
        square = block_estimates(alike, proba, residual, block_size).mean()
    else:
        square = estimate_square(alike, proba, residual, weight, reduce_bias)
    return float(square if squared else np.sqrt(max(0, square)))


def check_pairs(
    n_samples: int, weight: Weights, reduce_bias: bool, block_size: int | None
) -> None:
    """Refuse what leaves no pair of samples, or has no meaning."""
    if block_size is not None and not (reduce_bias and weight is None):
        given = "sample_weight" if reduce_bias else "reduce_bias=False"
        raise ValueError(
            "block_size must be None unless reduce_bias=True and there are no weights, "
            f"got {block_size} and {given}. Leave one of them out."
        )
    check_blocks(n_samples, block_size or 1, 1)
    total = n_samples if weight is None else weight.sum()
    if reduce_bias and total <= 1:
        raise ValueError(
            "y_true must hold more than one sample for an estimate without bias, got a "
            f"total weight of {total:g}. Pass more, or weights that count repetitions."
        )


def check_blocks(n_samples: int, block_size: int, least: int) -> None:
    """Refuse blocks that are larger than the sample, or too few."""
    if n_samples // block_size < least:
        raise ValueError(
            f"block_size must leave at least {least} full block(s), got {block_size} "
            f"and {n_samples} samples. Pass a smaller one, or more samples."
        )


def residuals(proba: Floats, codes: Ints) -> Floats:
    """Return the indicators of the true classes minus the probabilities."""
    residual = -proba
    residual[np.arange(len(codes)), codes] += 1
    return residual


def kernel_function(kernel: str, bandwidth: float | str, proba: Floats) -> Kernel:
    """Return the function of two sets of rows that says how alike they are."""
    unit = bandwidth if not isinstance(bandwidth, str) else _median_distance(proba)

    def alike(rows: Floats, columns: Floats) -> Floats:
        if kernel == "laplacian":
            values = cdist(rows, columns)
            values /= -unit
        else:
            values = cdist(rows, columns, "sqeuclidean")
            values /= -2 * unit**2
        return np.exp(values, out=values)

    return alike


def _median_distance(proba: Floats) -> float:
    """Return the median distance of distinct rows, whatever the order of the rows."""
    rows = proba[_distinct(proba)]
    if len(rows) > MEDIAN_ROWS:
        rows = rows[np.linspace(0, len(rows) - 1, MEDIAN_ROWS).astype(int)]
    return float(np.median(pdist(rows))) if len(rows) > 1 else 1.0


def _distinct(proba: Floats) -> Ints:
    """Return one of each kind of rows, sorted by how sure they are."""
    # Sums by which rows differ, the first whatever the order of the classes. It is
    # faster than to compare whole rows.
    factors = np.sqrt(np.arange(1, proba.shape[1] + 1))
    sure = np.einsum("ij,j->i", np.sort(proba, axis=1), factors)
    which = np.einsum("ij,j->i", proba, factors)
    order = np.lexsort((which, sure))
    is_new = (np.diff(sure[order]) > 0) | (np.diff(which[order]) != 0)
    return order[np.append(True, is_new)]


def tiles(n_samples: int) -> Iterator[tuple[slice, slice, int]]:
    """Yield slices of rows and columns above the diagonal, and how often they count."""
    starts = range(0, n_samples, TILE)
    for row in starts:
        for column in starts[row // TILE :]:
            times = 1 if row == column else 2
            yield slice(row, row + TILE), slice(column, column + TILE), times


def off_diagonal_sums(alike: Kernel, proba: Floats, vectors: Floats) -> Floats:
    """Return the sum of k_ij v_i v_j over i != j for each column of vectors."""
    total = -np.einsum("ij,ij->j", vectors, vectors)
    for rows, columns, times in tiles(len(proba)):
        product = alike(proba[rows], proba[columns]) @ vectors[columns]
        total += times * np.einsum("ij,ij->j", vectors[rows], product)
    return total


def estimate_square(
    alike: Kernel, proba: Floats, residual: Floats, weight: Weights, reduce_bias: bool
) -> Any:
    """Return the mean over all pairs, or all of two samples."""
    weight = np.ones(len(proba)) if weight is None else weight
    pairs = off_diagonal_sums(alike, proba, weight[:, None] * residual).sum()
    total, norms = weight.sum(), np.einsum("ij,ij->i", residual, residual)
    if reduce_bias:
        # A weight of 2 is a pair of equal samples.
        return (pairs + (weight * (weight - 1)) @ norms) / (total * (total - 1))
    return (pairs + weight**2 @ norms) / total**2


def block_estimates(
    alike: Kernel, proba: Floats, residual: Floats, size: int
) -> Floats:
    """Return the unbiased estimate of each block of samples."""
    starts = range(0, len(proba) - size + 1, size)
    blocks = [slice(start, start + size) for start in starts]
    if size > 2:
        return np.array(
            [estimate_square(alike, proba[b], residual[b], None, True) for b in blocks]
        )
    return _pair_estimates(alike, proba, residual, len(blocks))


def _pair_estimates(
    alike: Kernel, proba: Floats, residual: Floats, n_pairs: int
) -> Floats:
    """Return k_ij r_i r_j of the first and second sample, the third and fourth, ..."""
    one, other = slice(0, 2 * n_pairs, 2), slice(1, 2 * n_pairs, 2)
    # The distance from the origin of a difference is that between its terms.
    distance = proba[one] - proba[other]
    kernel = alike(distance, np.zeros((1, proba.shape[1])))[:, 0]
    return kernel * np.einsum("ij,ij->i", residual[one], residual[other])
