"""Confidence scores: functions of probabilities or logits."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import xlogy

from sklearn_calib._validation.arrays import as_numbers, row_blocks, shown
from sklearn_calib._validation.declarations import did_you_mean
from sklearn_calib._validation.samples import top_label
from sklearn_calib._validation.types import Floats


def maximum_softmax_probability(proba: Floats) -> Floats:
    """Return the maximum softmax probability (MSP) of each row."""
    return top_label(proba)[0]


def softmax_margin(proba: Floats) -> Floats:
    """Return the difference between the two largest probabilities of each row."""
    return _of_sorted_rows(lambda rows: rows[:, -1] - rows[:, -2], proba)


def negative_entropy(proba: Floats) -> Floats:
    """Return the negative entropy of each row, the sum of p log p."""
    return _of_sorted_rows(lambda rows: xlogy(rows, rows).sum(axis=1), proba)


def negative_gini(proba: Floats) -> Floats:
    """Return the negative Gini impurity of each row, the sum of squares minus 1."""
    return _of_sorted_rows(lambda rows: (rows * rows).sum(axis=1) - 1, proba)


def l2_norm(proba: Floats) -> Floats:
    """Return the Euclidean norm of each row."""
    return _of_sorted_rows(lambda rows: np.sqrt((rows * rows).sum(axis=1)), proba)


def max_logit(logits: Floats) -> Floats:
    """Return the largest logit of each row."""
    return top_label(logits)[0]


def p_norm(logits: Floats) -> Floats:
    """Return the largest centred logit of each row, divided by the p-norm of the row.

    Centred logits sum to zero. The score is that of Cattelan and Silva [1]_ with p = 4;
    it does not depend on the temperature. For equal logits it is 0.

    References
    ----------
    .. [1] L. F. P. Cattelan and D. Silva, "How to Fix a Broken Confidence Estimator:
       Evaluating Post-hoc Methods for Selective Classification with Deep Neural
       Networks", UAI 2024.
    """
    check_several(logits.shape[1])
    return _of_sorted_rows(_p_norm, logits)


def _p_norm(rows: Floats) -> Floats:
    above = rows - rows[:, :1]
    largest = above[:, -1:]
    scaled = np.divide(above, largest, out=np.zeros_like(above), where=largest > 0)
    scaled -= scaled.mean(axis=1, keepdims=True)
    # The norm is above 1/2, as the range is 1, except for equal logits.
    return scaled[:, -1] / np.maximum(np.linalg.norm(scaled, P, axis=1), 0.5)


def check_several(n_classes: int) -> None:
    """Raise ValueError for two classes, for which "p_norm" is constant."""
    if n_classes < 3:
        raise ValueError(
            'confidence="p_norm" must be computed from the logits of at least three '
            f"classes, got {n_classes}: for two, it is the same for all samples. Use "
            '"msp".'
        )


def _of_sorted_rows(function: Callable[[Floats], Floats], proba: Floats) -> Floats:
    """Apply a function to blocks of rows whose values are sorted."""
    values = np.empty(len(proba), dtype=proba.dtype)
    for rows in row_blocks(*proba.shape):
        # Without sorting, samples with the same probabilities for different classes
        # could get different sums by rounding.
        values[rows] = function(np.sort(proba[rows], axis=1))
    return values


# Order of the norm in "p_norm". Of 2 to 10, it has a lower AURC than "msp" for most
# published networks in benchmarks/studies/bench_p_norm.py.
P = 4

CONFIDENCES = {
    "l2_norm": l2_norm,
    "margin": softmax_margin,
    "max_logit": max_logit,
    "msp": maximum_softmax_probability,
    "negative_entropy": negative_entropy,
    "negative_gini": negative_gini,
    "p_norm": p_norm,
}

# The scores that are computed from logits, as code for users who have logits.
FROM_LOGITS = {
    "max_logit": "confidence=logits.max(axis=1)",
    "p_norm": (
        "confidence=centred.max(axis=1) / numpy.linalg.norm(centred, 4, axis=1) with "
        "centred = logits - logits.mean(axis=1, keepdims=True)"
    ),
}


def needs_logits(confidence: Any) -> bool:
    """Return whether a confidence is computed from logits instead of probabilities."""
    return isinstance(confidence, str) and confidence in FROM_LOGITS


def get_confidence(confidence: Any) -> Callable[..., Any]:
    """Return a confidence function by its name; a callable is returned unchanged.

    Confidence functions take probabilities of shape (n_samples, n_classes), or logits
    if their name is in `FROM_LOGITS`. They return one number per sample, which is
    larger where the classifier is more confident.
    """
    if callable(confidence):
        return confidence
    if not isinstance(confidence, str):
        raise TypeError(
            f"confidence must be a name or a callable, got {shown(confidence)}. The "
            f"names are {sorted(CONFIDENCES)}."
        )
    if confidence not in CONFIDENCES:
        raise ValueError(
            f"confidence must be one of {sorted(CONFIDENCES)} or a callable, got "
            f"{shown(confidence)}.{did_you_mean(confidence, CONFIDENCES)}"
        )
    return CONFIDENCES[confidence]


def check_confidence(values: Any, n_samples: int) -> Floats:
    """Return confidence scores as floats after checking their shape and for NaN."""
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
            "confidence must not be NaN, as it ranks the samples, got NaN for "
            f"{np.isnan(values).sum()} of {n_samples}. Use -inf for samples to rank "
            "last."
        )
    return values
