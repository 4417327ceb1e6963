"""Samples that have several labels at once, as a table of zeros and ones."""

from typing import Any

import numpy as np
from sklearn.utils import check_array

from sklearn_calib._core.arrays import check_numbers
from sklearn_calib._core.typing import Ints


def check_indicator(y: Any, shape: tuple[int, ...], *, name: str = "y_true") -> Ints:
    """Return a table of 0 and 1 as int64: for each sample, which labels it has.

    `shape` is that of the probabilities, (n_samples, n_labels).
    """
    y = check_numbers(y, name)
    y = check_array(y, ensure_2d=False, allow_nd=True, input_name=name)
    if y.shape != shape:
        raise ValueError(
            f"{name} must hold a 0 or a 1 for each label of each sample, in the shape "
            f"of the probabilities, {shape}, got {y.shape}. Pass an indicator matrix, "
            "such as that of sklearn.preprocessing.MultiLabelBinarizer."
        )
    if not np.isin(y, (0, 1)).all():
        raise ValueError(
            f"{name} must hold zeros and ones only, got values in [{y.min():g}, "
            f"{y.max():g}]. Pass 1 for a label that a sample has, and 0 for one that "
            "it has not."
        )
    return y.astype(np.int64, copy=False)


def check_label_columns(X: Any, *, name: str) -> None:
    """Raise ValueError if there is no column for each label."""
    if np.ndim(X) != 2:
        raise ValueError(
            f"{name} must have shape (n_samples, n_labels), got {np.shape(X)}. Pass "
            f"one column for each label; of a single one, {name}.reshape(-1, 1)."
        )
