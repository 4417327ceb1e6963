"""Sums over bins for array API inputs, such as torch tensors on a GPU.

The samples stay on their device: only the distinct labels and the sums over bins are
copied to numpy. This is enabled by scikit-learn's setting `array_api_dispatch`.
"""

from typing import Any

import numpy as np

from sklearn_calib._numerics.binning import (
    cube_root_n_bins,
    quantile_masses,
    quantile_ranks,
    uniform_edges,
)
from sklearn_calib._validation.arrays import convert_to_numpy, device
from sklearn_calib._validation.device_targets import (
    check_targets_on_device,
    evaluated,
    positive_last,
)
from sklearn_calib._validation.samples import resolve_mode
from sklearn_calib._validation.types import Floats

# Elements processed at a time: each intermediate array takes 32 MiB of doubles.
BLOCK_SIZE = 2**22
MOST_BINS = 1024


def array_api_gap_sums(
    y_true: Any,
    y_proba: Any,
    labels: Any,
    sample_weight: Any,
    *,
    mode: str | None,
    n_bins: Any,
    strategy: str,
    pos_label: Any = None,
) -> tuple[Floats, Floats, Floats]:
    """Return weight, gap and number of correct predictions, (n_rows, n_bins) each."""
    if strategy == "isotonic" or n_bins == "sweep":
        raise ValueError(
            'strategy must be "uniform" or "quantile", and n_bins an integer or '
            f'"cube_root", for array API inputs, got {strategy!r} and {n_bins!r}. '
            "Convert them to numpy arrays."
        )
    y_proba, labels, mode = positive_last(y_true, y_proba, labels, mode, pos_label)
    mode = resolve_mode(mode, y_proba)
    xp, proba, y_true, labels, weight = check_targets_on_device(
        y_true, y_proba, labels, sample_weight
    )
    value, correct = evaluated(xp, proba, y_true, labels, mode)
    if n_bins == "cube_root":
        total = value.shape[0] if weight is None else float(xp.sum(weight))
        n_bins = cube_root_n_bins(total)
    if n_bins > MOST_BINS:
        raise ValueError(
            f"n_bins must be at most {MOST_BINS} for array API inputs, got {n_bins}. "
            "Convert them to numpy arrays."
        )
    edges = _edges(xp, value, weight, n_bins, strategy)
    return _sums(xp, value, correct, weight, edges)


def _edges(xp: Any, value: Any, weight: Any, n_bins: int, strategy: str) -> Any:
    """Return the interior bin edges, (n_bins - 1, n_rows) or (n_bins - 1, 1)."""
    steps = np.arange(1, n_bins)
    where = {"device": device(value)}
    if strategy == "uniform":
        return xp.asarray(
            uniform_edges(n_bins, steps)[:, None], dtype=value.dtype, **where
        )
    if weight is None:
        ranks = quantile_ranks(value.shape[0], n_bins, steps)
        return xp.take(xp.sort(value, axis=0), xp.asarray(ranks, **where), axis=0)
    edges = []
    for row in range(value.shape[1]):
        order = xp.argsort(value[:, row])
        mass = xp.cumulative_sum(xp.take(weight, order))
        wanted = quantile_masses(float(mass[-1]), n_bins, steps)
        place = xp.searchsorted(mass, xp.asarray(wanted, **where))
        edges.append(xp.take(value[:, row], xp.take(order, place)))
    return xp.stack(edges, axis=1)


def uniform_sums(
    xp: Any, value: Any, correct: Any, weight: Any, n_bins: int
) -> tuple[Floats, Floats, Floats]:
    """Return the sums over bins of equal width."""
    edges = _edges(xp, value, weight, n_bins, "uniform")
    return _sums(xp, value, correct, weight, edges)


def _sums(
    xp: Any, value: Any, correct: Any, weight: Any, edges: Any
) -> tuple[Floats, Floats, Floats]:
    """Return weight, gap and correctness as numpy arrays, (n_rows, n_bins) each."""
    n_samples, n_rows = value.shape
    step, total = max(1, BLOCK_SIZE // n_rows), 0
    for start in range(0, n_samples, step):
        rows = slice(start, min(start + step, n_samples))
        outcome = xp.astype(correct[rows, :], xp.float64)
        summands = [
            xp.ones_like(outcome),
            xp.astype(value[rows, :], xp.float64),
            outcome,
        ]
        if weight is not None:
            summands = [weight[rows][:, None] * each for each in summands]
        total = total + _block_sums(xp, value[rows, :], xp.stack(summands), edges)
    weight, confidence, correct = convert_to_numpy(total, xp).transpose(1, 2, 0)
    return weight, confidence - correct, correct


def _block_sums(xp: Any, value: Any, summands: Any, edges: Any) -> Any:
    """Return the sums of each bin, (n_bins, n_summands, n_rows), on the device."""
    sums, n_edges = [], edges.shape[0]
    for k in range(n_edges + 1):
        inside = xp.ones_like(value, dtype=xp.bool)
        if k > 0:
            inside = inside & (value > edges[k - 1, :])
        if k < n_edges:
            inside = inside & (value <= edges[k, :])
        sums.append(xp.sum(summands * xp.astype(inside, xp.float64), axis=1))
    return xp.stack(sums)
