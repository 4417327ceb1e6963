"""Kernel density estimation on the simplex with Dirichlet kernels."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.special import gammaln

from sklearn_calib._validation.arrays import row_blocks
from sklearn_calib._validation.types import Array, Floats, Weights

# Candidate bandwidths. The one with the largest likelihood is chosen.
BANDWIDTHS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
# With narrower kernels, rounding leaves fewer than four correct digits.
SMALLEST_BANDWIDTH = 1e-10
# Probabilities are clipped to this value before taking logarithms.
SMALLEST = 1e-7
# Kernels with a relative logarithm below this are set to 0: they do not change a sum,
# and arithmetic with subnormal numbers is ten times slower.
LOWEST = -60.0


def neighbour_frequencies(
    proba: Floats, label: Array, bandwidth: float, weight: Weights = None
) -> Floats:
    """Return the kernel-weighted mean of the labels of all other samples.

    Parameters
    ----------
    proba : ndarray of shape (n_samples, n_classes)
        Rows sum to one.

    label : ndarray of shape (n_samples, n_labels)
        Labels to average.

    bandwidth : float
        Positive. The kernel at a sample with probabilities q is the Dirichlet density
        with parameters ``q / bandwidth + 1``.

    weight : ndarray of shape (n_samples,), default=None
        Positive. A sample of weight m counts as m samples, each of which is a neighbour
        of the others.

    Returns
    -------
    frequency : ndarray of shape (n_samples, n_labels)
        For a sample without neighbours, its own probabilities.
    """
    summed = np.column_stack([label, np.ones(len(label))])
    if weight is not None:
        summed *= weight[:, None]
    sums = np.empty(summed.shape)
    for rows, kernel, _ in _kernels(proba, bandwidth, weight):
        sums[rows] = kernel @ summed
    frequency, total = proba[:, : label.shape[1]].copy(), sums[:, -1:]
    return np.divide(sums[:, :-1], total, out=frequency, where=total > 0)


def log_likelihood(proba: Floats, bandwidth: float, weight: Weights = None) -> float:
    """Return the leave-one-out log-likelihood of the kernel density estimate.

    Terms that do not depend on the bandwidth are omitted.
    """
    mass = np.ones(len(proba)) if weight is None else weight
    total: Any = 0.0
    for rows, kernel, log_scale in _kernels(proba, bandwidth, weight):
        density = kernel @ mass
        seen = density > 0
        total += mass[rows][seen] @ (np.log(density[seen]) + log_scale[seen])
    return total


def _kernels(
    proba: Floats, bandwidth: float, weight: Weights
) -> Iterator[tuple[slice, Floats, Floats]]:
    """Yield rows, the kernels of all samples at these rows, and their log scales.

    The kernels of a row are divided by the exponential of its log scale. The kernel of
    a sample at itself is multiplied by 1 - 1 / weight, or 0 without weights.
    """
    proba = np.clip(proba, SMALLEST, 1.0)
    alpha = proba / bandwidth
    total = gammaln(alpha.sum(axis=1) + alpha.shape[1])
    log_norm = total - gammaln(alpha + 1).sum(axis=1)
    others = np.zeros(len(proba)) if weight is None else np.maximum(0, 1 - 1 / weight)
    with np.errstate(divide="ignore"):
        log_others = np.log(others)
    place = np.column_stack([np.log(proba), np.ones(len(proba))])
    center = np.column_stack([alpha, log_norm]).T
    for rows in row_blocks(len(proba), len(proba)):
        exponent = place[rows] @ center
        itself = np.arange(len(exponent)), np.arange(rows.start, rows.stop)
        exponent[itself] += log_others[rows]
        # For a sample without neighbours, all kernels are zero.
        log_scale = np.maximum(exponent.max(axis=1), np.finfo(np.float64).min)
        exponent -= log_scale[:, None]
        kernel = np.exp(np.maximum(exponent, LOWEST, out=exponent), out=exponent)
        kernel -= math.exp(LOWEST)
        kernel[itself] *= others[rows] > 0
        yield rows, kernel, log_scale
