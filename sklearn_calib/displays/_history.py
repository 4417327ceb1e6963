"""What a display reads in the history of a network's training."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sklearn_calib._core.typing import Floats, History, Ints


def history_of(estimator: Any) -> Any:
    """Return the history of the training that had validation data."""
    # A second training on all of the data has nothing of the validation share.
    for attribute in ("validation_history_", "history_"):
        history = getattr(estimator, attribute, None)
        if history is not None:
            return history
    raise TypeError(
        "estimator must be a fitted NeuralClassifier, with its history of epochs, got "
        f"{estimator!r}. Call fit; of a pipeline pass its last step, pipeline[-1]."
    )


def name_of(estimator: Any, name: str | None) -> str:
    """Return a name for the legend, by default that of the loss."""
    return type(estimator.criterion_).__name__ if name is None else name


def recorded_rows(history: History, names: Iterable[str], way_out: str) -> History:
    """Return the epochs of a history that hold all names, if any."""
    if not isinstance(history, list) or any(not isinstance(h, dict) for h in history):
        raise TypeError(
            "history must be a list with a dict for each epoch, such as the `history_` "
            f"of a fitted NeuralClassifier, got {type(history).__name__}."
        )
    rows = [row for row in history if all(name in row for name in names)]
    if rows:
        return rows
    found = sorted({name for row in history for name in row} - {"batches"})
    raise ValueError(
        f"history must hold {', '.join(names)} in at least one epoch, got {found} in "
        f"{len(history)} epochs. {way_out}"
    )


def choose_epochs(rows: History, epochs: ArrayLike | None) -> History:
    """Return the rows of some epochs; for None of a few, from the first to the last."""
    by_epoch = {row["epoch"]: row for row in rows}
    if epochs is None:
        places = np.linspace(0, len(rows) - 1, 5).round().astype(int)
        epochs = [rows[place]["epoch"] for place in np.unique(places)]
    chosen = np.ravel(epochs).tolist()
    if chosen and all(epoch in by_epoch for epoch in chosen):
        return [by_epoch[epoch] for epoch in chosen]
    raise ValueError(
        f"epochs must be numbers of epochs with recorded bins, got {epochs!r}. They "
        f"are {list(by_epoch)}."
    )


def recorded_epochs(rows: History) -> Ints:
    """Return the numbers of epochs, which start at 1."""
    return np.array([row["epoch"] for row in rows])


def count_bins(rows: History, names: Iterable[str]) -> int:
    """Return the largest number of bins that anything was recorded for."""
    return max(len(row[name]) for row in rows for name in names)


def recorded_table(rows: History, name: str, width: int) -> Floats:
    """Return lists of different lengths as an array (n_epochs, width), nan-padded."""
    table = np.full((len(rows), width), np.nan)
    for values, row in zip(table, rows, strict=True):
        values[: len(row[name])] = row[name]
    return table
