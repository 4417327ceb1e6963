"""Multilabel targets as indicator matrices of zeros and ones."""

from typing import Any

import numpy as np
from sklearn.utils import check_array

from sklearn_calib._validation.arrays import check_numbers
from sklearn_calib._validation.types import Ints


def check_indicator(y: Any, shape: tuple[int, ...], *, name: str = "y_true") -> Ints:
    """Return an indicator matrix as int64 after checking its shape and values.

    `shape` is that of the probabilities, (n_samples, n_labels).
    """
    y = check_numbers(y, name)
    y = check_array(y, ensure_2d=False, allow_nd=True, input_name=name)
    if y.shape != shape:
        raise ValueError(
            f"{name} must contain 0 or 1 for each label of each sample, in the shape "
            f"of the probabilities, {shape}, got {y.shape}. Pass an indicator matrix, "
            "such as that of sklearn.preprocessing.MultiLabelBinarizer."
        )
    if not np.isin(y, (0, 1)).all():
        raise ValueError(
            f"{name} must contain only zeros and ones, got values in [{y.min():g}, "
            f"{y.max():g}]. Pass 1 for the labels that a sample has, and 0 for the "
            "others."
        )
    return y.astype(np.int64, copy=False)


def check_label_columns(X: Any, *, name: str) -> None:
    """Raise ValueError unless `X` is 2-d, with one column for each label."""
    if np.ndim(X) != 2:
        raise ValueError(
            f"{name} must have shape (n_samples, n_labels), got {np.shape(X)}. Pass "
            f"one column for each label; for a single label, {name}.reshape(-1, 1)."
        )
