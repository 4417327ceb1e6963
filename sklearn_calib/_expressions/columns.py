"""Expressions with a table for each column: steps and interpolation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sklearn_calib._expressions.tensor import Tensor, node
from sklearn_calib._validation.types import Array


class Steps:
    """Piecewise constant functions, one for each column.

    The interval of each value is found by bisection of all columns at the same time, so
    the number of nodes does not depend on the number of columns.

    Parameters
    ----------
    values : Tensor of shape (n_samples, n_columns)

    knots : list of ndarray
        The increasing knots of each column.

    side : {"left", "right"}
        Whether a value that is equal to a knot is to the left or to the right of it.
    """

    def __init__(self, values: Tensor, knots: Sequence[Array], side: str) -> None:
        # Half of the smallest power of two above the number of knots, which may be 0.
        step = 2 ** max(map(len, knots)).bit_length() // 2
        self.values = values
        self.width = 2 * max(step, 1)
        # The number of knots to the left of each value.
        self.index = (values > np.inf).astype(np.int64)
        if step == 0:
            return
        table = self._table(knots, self.width - 1, np.inf)
        offset = (self.width - 1) * np.arange(len(knots)) - 1
        while step:
            knot = node("Gather", table, self.index + (offset + step))
            is_right = values > knot if side == "left" else values >= knot
            self.index = self.index + is_right.astype(np.int64) * step
            step //= 2

    def take(self, tables: Sequence[Array]) -> Tensor:
        """Return the values of the intervals, from a table for each column."""
        offset = self.width * np.arange(len(tables))
        table = self._table(tables, self.width, 0.0)
        return node("Gather", table, self.index + offset)

    def _table(self, rows: Sequence[Array], width: int, fill: float) -> Tensor:
        """Add rows of any length as one constant."""
        table = np.full((len(rows), width), fill, dtype=self.values.dtype)
        for row, values in zip(table, rows, strict=True):
            row[: len(values)] = values
        graph = self.values.graph
        return Tensor(graph, graph.constant(table.ravel()), table.dtype)


def interpolate(values: Tensor, points: Sequence[tuple[Array, Array]]) -> Tensor:
    """Return `np.interp` of each column, with the points x and y of its own."""
    steps = Steps(values, [x for x, _ in points], "right")
    # The map is constant below the first point and from the last one.
    start = steps.take([np.append(x[0], x) for x, _ in points])
    width = steps.take([np.pad(np.diff(x), 1, constant_values=1) for x, _ in points])
    base = steps.take([np.append(y[0], y) for _, y in points])
    rise = steps.take([np.pad(np.diff(y), 1) for _, y in points])
    # Not by the slope, which may be infinite between very close points.
    return base + rise * ((values - start) / width)
