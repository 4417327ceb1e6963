"""Reliability diagrams of the epochs of training."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from sklearn_calib._numerics.binned_gaps import gap_norm
from sklearn_calib._validation.types import History
from sklearn_calib.displays._base.axes import new_axes, sequential_colors
from sklearn_calib.displays._base.recorded_history import choose_epochs, recorded_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Values read from each epoch, and how to record them.
RECORDED = ("bin_edges", "bin_weight", "bin_accuracy", "bin_confidence")
WAY_OUT = (
    "Train with callbacks=[sklearn_calib.callbacks.RecordBins()], or with a loss that "
    "learns from the validation set, such as 'adafocal'."
)


class FromHistory:
    """Mixin that draws reliability diagrams from a training history."""

    @classmethod
    def from_history(
        cls,
        history: History,
        *,
        epochs: ArrayLike | None = None,
        ax: Axes | None = None,
    ) -> list[Self]:
        """Draw the reliability diagrams of several epochs of training on the same axes.

        Each epoch is shown as a line, lighter for later epochs. The bins contain equal
        numbers of samples of the validation set.

        Parameters
        ----------
        history : skorch.history.History or list of dict
            One dict for each epoch, with `epoch`, `bin_edges`, `bin_weight`,
            `bin_accuracy` and `bin_confidence`. They are recorded by
            :class:`sklearn_calib.callbacks.RecordBins`, and by losses that learn from
            the validation set.

        epochs : array-like of int, default=None
            Epochs to draw, starting at 1. By default, five epochs from the first to the
            last.

        ax : matplotlib Axes, default=None
            Axes to draw on; by default, those of a new figure.

        Returns
        -------
        displays : list of ReliabilityDisplay
            One display for each epoch, on the same axes and without a histogram.

        Raises
        ------
        ValueError
            If no bins were recorded, or not in these epochs.

        Examples
        --------
        >>> from sklearn_calib.displays import ReliabilityDisplay
        >>> bins = {"bin_edges": [0, 0.7, 1], "bin_weight": [50, 50]}
        >>> first = {
        ...     "epoch": 1,
        ...     "bin_accuracy": [0.6, 0.7],
        ...     "bin_confidence": [0.6, 0.8],
        ... }
        >>> second = {**first, "epoch": 2, "bin_confidence": [0.6, 0.9]}
        >>> history = [{**bins, **first}, {**bins, **second}]
        >>> displays = ReliabilityDisplay.from_history(history)
        >>> [display.line_.get_label() for display in displays]
        ['Epoch 1 (ECE 0.050)', 'Epoch 2 (ECE 0.100)']
        """
        rows = choose_epochs(recorded_rows(history, RECORDED, WAY_OUT), epochs)
        ax = new_axes((4.8, 4.4)) if ax is None else ax
        colors = sequential_colors(len(rows))
        return [
            cls._from_row(row).plot(ax, color=color, histogram=False)
            for row, color in zip(rows, colors, strict=True)
        ]

    @classmethod
    def _from_row(cls: Any, row: dict[str, Any]) -> Any:
        """Return the display of one epoch without drawing it."""
        edges, weight, accuracy, confidence = (np.asarray(row[n]) for n in RECORDED)
        ece = gap_norm(weight, weight * (confidence - accuracy), "l1")
        name = f"Epoch {row['epoch']}"
        options = {"histogram": None, "ece": float(ece), "name": name}
        return cls(edges, weight, accuracy, confidence, **options)
