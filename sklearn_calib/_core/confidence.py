"""How sure a classifier is: its largest probability, or another function of them."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import xlogy

from sklearn_calib._core.arrays import as_numbers
from sklearn_calib._core.typing import Bools, Floats, Ints
from sklearn_calib._core.validation import (
    FEW_COLUMNS,
    did_you_mean,
    proba_blocks,
    row_blocks,
)


def top_label(proba: Floats) -> tuple[Floats, Ints]:
    """Return each row's largest probability and its column, the first on ties."""
    confidence = np.empty(len(proba), dtype=proba.dtype)
    predicted = np.empty(len(proba), dtype=np.int64)
    for rows in row_blocks(*proba.shape):
        block = proba[rows]
        predicted[rows] = block.argmax(axis=1)
        confidence[rows] = block[np.arange(len(block)), predicted[rows]]
    return confidence, predicted


def top_label_hits(
    proba: Floats, codes: Ints, *, name: str = "y_proba"
) -> tuple[Floats, Bools]:
    """Return each row's largest probability and whether its column is the true one.

    The values of `proba` are checked in the same pass. `codes` are columns, as from
    `encode_labels`. A tie is a hit for its first column only, as in `predict`.
    """
    confidence = np.empty(len(proba), dtype=proba.dtype)
    hit = np.empty(len(proba), dtype=bool)
    for rows, block in proba_blocks(proba, name=name):
        confidence[rows], hit[rows] = _block_hits(block, codes[rows])
    return confidence, hit


def _block_hits(block: Floats, codes: Ints) -> tuple[Floats, Bools]:
    """Compare with the maximum in few columns, use argmax in many."""
    every = np.arange(len(block))
    if block.shape[1] <= FEW_COLUMNS:
        confidence = block.max(axis=1)
        if np.count_nonzero(block == confidence[:, None]) == len(block):
            return confidence, block[every, codes] == confidence
    predicted = block.argmax(axis=1)
    return block[every, predicted], predicted == codes


def maximum_softmax_probability(proba: Floats) -> Floats:
    """Return the largest probability of each row, MSP."""
    return top_label(proba)[0]


def softmax_margin(proba: Floats) -> Floats:
    """Return how far each row's largest probability is above the second."""
    return _of_sorted_rows(lambda rows: rows[:, -1] - rows[:, -2], proba)


def negative_entropy(proba: Floats) -> Floats:
    """Return the sum of p log p of each row, at most 0."""
    return _of_sorted_rows(lambda rows: xlogy(rows, rows).sum(axis=1), proba)


def negative_gini(proba: Floats) -> Floats:
    """Return the sum of squares of each row, minus 1: at most 0."""
    return _of_sorted_rows(lambda rows: (rows * rows).sum(axis=1) - 1, proba)


def l2_norm(proba: Floats) -> Floats:
    """Return the Euclidean length of each row."""
    return _of_sorted_rows(lambda rows: np.sqrt((rows * rows).sum(axis=1)), proba)


def max_logit(logits: Floats) -> Floats:
    """Return the largest logit of each row."""
    return top_label(logits)[0]


def _of_sorted_rows(function: Callable[[Floats], Floats], proba: Floats) -> Floats:
    """Apply a function to blocks of rows whose values increase."""
    values = np.empty(len(proba), dtype=proba.dtype)
    for rows in row_blocks(*proba.shape):
        # In the order of the classes, the rounding of a sum would part samples that
        # have the same probabilities for other classes.
        values[rows] = function(np.sort(proba[rows], axis=1))
    return values


CONFIDENCES = {
    "l2_norm": l2_norm,
    "margin": softmax_margin,
    "max_logit": max_logit,
    "msp": maximum_softmax_probability,
    "negative_entropy": negative_entropy,
    "negative_gini": negative_gini,
}


def get_confidence(confidence: Any) -> Callable[..., Any]:
    """Return a confidence function by its name; a callable is returned as it is.

    All take probabilities of shape (n_samples, n_classes) and return one number per
    sample, greater where the classifier is surer; "max_logit" takes logits.
    """
    if callable(confidence):
        return confidence
    if not isinstance(confidence, str):
        raise TypeError(
            f"confidence must be a name or a callable, got {confidence!r}. Names: "
            f"{sorted(CONFIDENCES)}."
        )
    if confidence not in CONFIDENCES:
        raise ValueError(
            f"confidence must be the name of a function or a callable, got "
            f"{confidence!r}.{did_you_mean(confidence, CONFIDENCES)} Names: "
            f"{sorted(CONFIDENCES)}."
        )
    return CONFIDENCES[confidence]


def check_confidence(values: Any, n_samples: int) -> Floats:
    """Return what a confidence function said as floats, one per sample, without NaN."""
    values = as_numbers(values, "confidence")
    if values.dtype.kind != "f":
        values = values.astype(np.float64)
    if values.shape != (n_samples,):
        raise ValueError(
            f"confidence must be one number per sample, of shape ({n_samples},), got "
            f"shape {values.shape}. Reduce over the classes, as in proba.max(axis=1)."
        )
    if np.isnan(values).any():
        raise ValueError(
            "confidence must not be NaN, for it ranks the samples, got "
            f"{np.isnan(values).sum()} of {n_samples}. Use -inf for samples that must "
            "come last."
        )
    return values
