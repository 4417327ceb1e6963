"""Sums over bins for array API inputs, such as torch tensors on a GPU.

The samples stay on their device: only the distinct labels and the sums over bins are
copied to numpy. This is enabled by scikit-learn's setting `array_api_dispatch`.
"""

from typing import Any

import numpy as np

from sklearn_calib._core.array_api import as_real, check_proba_on_device
from sklearn_calib._core.binning import (
    cube_root_n_bins,
    quantile_masses,
    quantile_ranks,
    uniform_edges,
)
from sklearn_calib._core.inputs import (
    check_lengths,
    check_two_classes,
    resolve_mode,
)
from sklearn_calib._core.limits import check_weight_range, weight_factor
from sklearn_calib._core.typing import Array, Floats
from sklearn_calib._core.validation import (
    check_sample_weight,
    convert_to_numpy,
    device,
    encode_labels,
    get_namespace,
    is_array_api,
    one_column,
)

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
) -> tuple[Floats, Floats, Floats]:
    """Return weight, gap and number of correct predictions, (n_rows, n_bins) each."""
    if strategy == "isotonic" or n_bins == "sweep":
        raise ValueError(
            'strategy must be "uniform" or "quantile", and n_bins an integer or '
            f'"cube_root", for array API inputs, got {strategy!r} and {n_bins!r}. '
            "Convert them to numpy arrays."
        )
    y_proba = flat(y_proba)
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


def flat(y_proba: Any) -> Any:
    """Return a single column as a 1-d array."""
    is_column = y_proba.ndim == 2 and y_proba.shape[1] == 1
    return y_proba[:, 0] if is_column else y_proba


def check_targets_on_device(
    y_true: Any, y_proba: Any, labels: Any, sample_weight: Any
) -> tuple[Any, Any, Any, Any, Any]:
    """Return the namespace, and the checked data on the device of `y_proba`.

    These are the probabilities of all classes, the true labels, the labels of the
    columns, and the weights or None.
    """
    xp, _ = get_namespace(y_proba)
    proba = _check_proba(y_proba)
    weight = _check_weight(xp, sample_weight, proba)
    y_true, labels = _check_labels(xp, y_true, labels, proba)
    return xp, proba, y_true, labels, weight


def _check_proba(proba: Any) -> Any:
    """Return checked probabilities with at least two columns."""
    xp, proba, eps = as_real(proba, "y_proba")
    if proba.dtype not in (xp.float32, xp.float64):
        proba = xp.astype(proba, xp.float64)
    if proba.ndim not in (1, 2) or 0 in proba.shape:
        raise ValueError(
            "y_proba must be probabilities of shape (n_samples, n_classes) or "
            f"(n_samples,), got shape {tuple(proba.shape)}. Pass the output of "
            "predict_proba."
        )
    proba = check_proba_on_device(xp, proba, "y_proba", eps)
    return proba if proba.ndim == 2 else xp.stack([1 - proba, proba], axis=1)


def _check_weight(xp: Any, sample_weight: Any, proba: Any) -> Any:
    """Return the weights as float64 on the device of the probabilities, or None."""
    if sample_weight is None:
        return None
    if not is_array_api(sample_weight):
        rows = np.empty(proba.shape[0])
        sample_weight = _writable(check_sample_weight(sample_weight, rows))
    _, sample_weight, _ = as_real(sample_weight, "sample_weight")
    weight = xp.asarray(sample_weight, dtype=xp.float64, device=device(proba))
    if weight.shape != proba.shape[:1]:
        raise ValueError(
            f"sample_weight must have shape {tuple(proba.shape[:1])}, got shape "
            f"{tuple(weight.shape)}. Pass one weight for each row of y_proba."
        )
    low, high = float(xp.min(weight)), float(xp.max(weight))
    check_weight_range(low, high)
    factor = weight_factor(high)
    return weight if factor == 1 else weight * factor


def _check_labels(xp: Any, y_true: Any, labels: Any, proba: Any) -> tuple[Any, Any]:
    """Return the true labels and the column labels on the device of `proba`."""
    n_samples, n_classes = proba.shape
    n_labels = y_true.shape[0] if hasattr(y_true, "shape") else len(y_true)
    check_lengths(n_labels, n_samples)
    if labels is not None and is_array_api(labels):
        labels = convert_to_numpy(labels, get_namespace(labels)[0])
    if not is_array_api(y_true):
        codes = encode_labels(y_true, labels=labels, n_classes=n_classes)
        y_true, labels = _writable(codes), np.arange(n_classes)
    else:
        y_true = one_column(y_true)
        present = convert_to_numpy(xp.unique_values(y_true), xp)
        encode_labels(present, labels=labels, n_classes=n_classes)
        labels = present if labels is None else np.asarray(labels)
    where = {"device": device(proba)}
    return xp.asarray(y_true, **where), xp.asarray(labels, **where)


def _writable(array: Any) -> Array:
    """Return a writable numpy array, which torch converts without a warning."""
    return np.require(array, requirements="W")


def evaluated(
    xp: Any, proba: Any, y_true: Any, labels: Any, mode: str
) -> tuple[Any, Any]:
    """Return probabilities and correctness of their class, (n_samples, n_rows)."""
    if mode == "classwise":
        return proba, y_true[:, None] == labels[None, :]
    if mode == "top_label":
        column = xp.argmax(proba, axis=1)
        correct = xp.take(labels, column) == y_true
        return xp.max(proba, axis=1)[:, None], correct[:, None]
    check_two_classes(proba.shape[1])
    return proba[:, 1:], (y_true == labels[1])[:, None]


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
