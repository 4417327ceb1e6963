"""Functions that read the training history of a network."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sklearn_calib._validation.arrays import shown
from sklearn_calib._validation.types import Floats, History, Ints


def history_of(estimator: Any) -> Any:
    """Return the history of the training run that had validation data."""
    # `history_` of an estimator that was refitted on all data has no validation values.
    for attribute in ("validation_history_", "history_"):
        history = getattr(estimator, attribute, None)
        if history is not None:
            return history
    raise TypeError(
        "estimator must be a fitted NeuralClassifier with a training history, got "
        f"{shown(estimator)}. Call fit first; for a pipeline, pass its last step, "
        "pipeline[-1]."
    )


def legend_name(estimator: Any, name: str | None) -> str:
    """Return the name for the legend, by default the class name of the loss."""
    return type(estimator.criterion_).__name__ if name is None else name


def recorded_rows(history: History, names: Iterable[str], way_out: str) -> History:
    """Return the epochs that contain all names; raise an error if there are none."""
    if not isinstance(history, list) or any(not isinstance(h, dict) for h in history):
        raise TypeError(
            "history must be a list with one dict per epoch, such as history_ of a "
            f"fitted NeuralClassifier, got {type(history).__name__}."
        )
    rows = [r for r in history if all(r.get(name) is not None for name in names)]
    if rows:
        return rows
    found = sorted({name for row in history for name in row} - {"batches"})
    raise ValueError(
        f"history must contain {', '.join(names)} in at least one epoch, got "
        f"{shown(found)} in {len(history)} epochs. {way_out}"
    )


def choose_epochs(rows: History, epochs: ArrayLike | None) -> History:
    """Return the rows of the given epochs; None chooses up to five, evenly spaced."""
    by_epoch = {row["epoch"]: row for row in rows}
    if epochs is None:
        indices = np.linspace(0, len(rows) - 1, 5).round().astype(int)
        epochs = [rows[index]["epoch"] for index in np.unique(indices)]
    chosen = np.ravel(epochs).tolist()
    if chosen and all(epoch in by_epoch for epoch in chosen):
        return [by_epoch[epoch] for epoch in chosen]
    raise ValueError(
        f"epochs must be numbers of epochs with recorded bins, got {shown(epochs)}. "
        f"Bins were recorded for epochs {shown(list(by_epoch))}."
    )


def recorded_epochs(rows: History) -> Ints:
    """Return the epoch numbers, which start at 1."""
    return np.array([row["epoch"] for row in rows])


def count_bins(rows: History, names: Iterable[str]) -> int:
    """Return the largest number of bins in the recorded values."""
    return max(len(row[name]) for row in rows for name in names)


def recorded_table(rows: History, name: str, width: int) -> Floats:
    """Return lists of any length as an array (n_epochs, width), padded with nan."""
    table = np.full((len(rows), width), np.nan)
    for values, row in zip(table, rows, strict=True):
        values[: len(row[name])] = row[name]
    return table
