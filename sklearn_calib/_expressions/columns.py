"""Operations with a table for each column: steps, interpolation, cubics, lines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
from scipy.interpolate import CubicHermiteSpline

from sklearn_calib._expressions.symbol import Symbol, Values, node
from sklearn_calib._numerics.binning import bin_index
from sklearn_calib._numerics.softmax import SCALE
from sklearn_calib._solvers.spline_logistic import Curve, evaluate_curve
from sklearn_calib._validation.types import Array, Floats

# x and y of points with a line between each two.
Points: TypeAlias = tuple[Array, Array]

Side: TypeAlias = Literal["left", "right"]

EPSILON = float(np.finfo(np.float64).eps)


def lookup(table: Array, index: Any) -> Any:
    """Return the entries of a table at the indices, which are an array of integers."""
    if not isinstance(index, Symbol):
        return table[index]
    return node("Gather", _constant(index, table), index, n_columns=index.n_columns)


def steps(
    values: Values, knots: Sequence[Array], tables: Sequence[Array], *, side: Side
) -> Values:
    """Return piecewise constant functions, one for each column.

    Parameters
    ----------
    values : array of shape (n_samples, n_columns)
        Values.

    knots : sequence of ndarray
        Sorted positions of the steps of each column.

    tables : sequence of ndarray
        Values between the steps of each column, one more than steps.

    side : {"left", "right"}
        Whether a value at a step belongs to the interval to its left or right.

    Returns
    -------
    result : array of shape (n_samples, n_columns)
    """
    if isinstance(values, Symbol):
        return Steps(values, knots, side).take(tables)
    return _by_column(
        lambda x, k, table: table[np.searchsorted(k, x, side=side)],
        *(values, knots, tables),
    )


def bins(values: Values, edges: Sequence[Array], tables: Sequence[Array]) -> Values:
    """Return the values of bins that contain their upper edges, for each column.

    In a graph, the edges are raised by a few ulps: they can be equal to a sample, which
    must not move to the next bin by rounding errors. A probability of 1 has none: an
    edge below it stays below it.
    """
    if isinstance(values, Symbol):
        limits = [np.where(e < 1, np.nextafter(1.0, 0.0), np.inf) for e in edges]
        raised = [
            np.minimum(own * (1 + 4 * EPSILON), limit)
            for own, limit in zip(edges, limits, strict=True)
        ]
        return Steps(values, raised, "left").take(tables)
    return _by_column(
        lambda x, own, table: table[bin_index(x, own)], values, edges, tables
    )


def interpolate(values: Values, points: Points | Sequence[Points]) -> Values:
    """Return piecewise linear functions, constant beyond their ends.

    Parameters
    ----------
    values : array of shape (n_samples, n_columns)
        Values.

    points : tuple of ndarray, or list of them
        x and y of the points, where x is sorted. A list has points for each column.

    Returns
    -------
    result : array of shape (n_samples, n_columns)
    """
    if isinstance(values, Symbol):
        return _interpolate(values, _for_each(points, values))
    if isinstance(points, tuple):
        return _interp(values, points)
    return _by_column(_interp, values, points)


def cubic(values: Values, curves: Curve | Sequence[Curve]) -> Values:
    """Return cubic curves, linear beyond the knots; a list has one for each column."""
    if isinstance(values, Symbol):
        return _cubic(values, _for_each(curves, values))
    if isinstance(curves, tuple):
        return evaluate_curve(curves, values.ravel()).reshape(values.shape)
    return _by_column(lambda x, curve: evaluate_curve(curve, x), values, curves)


def linear(inputs: Sequence[Any], maps: Sequence[Array]) -> Any:
    """Return a linear function of the inputs of each column, plus a constant.

    The last coefficient of a map is the constant.
    """
    if isinstance(inputs[0], Symbol):
        *slopes, constant = np.array(maps, dtype=np.float64).T
        terms = [each * slope for each, slope in zip(inputs, slopes, strict=True)]
        return sum(terms[1:], terms[0]) + constant
    ones = np.ones(len(inputs[0]))
    result = np.empty((len(ones), len(maps)))
    for k, coef in enumerate(maps):
        result[:, k] = np.column_stack([*(each[:, k] for each in inputs), ones]) @ coef
    return result


def _by_column(
    function: Callable[..., Floats], values: Floats, *tables: Sequence[Any]
) -> Floats:
    """Return a function of each column and its own tables, in C order."""
    result = np.empty(values.shape)
    for k, args in enumerate(zip(values.T, *tables, strict=True)):
        result[:, k] = function(*args)
    return result


def _for_each(table: Any, values: Symbol) -> Sequence[Any]:
    """Return a table for each column, given one for all of them or for each."""
    return [table] * values.shape[1] if isinstance(table, tuple) else table


def _interp(values: Floats, points: Points) -> Floats:
    """Return `np.interp` for points that may be subnormal numbers.

    The slope between them would overflow. Multiplying by a power of two is exact.
    """
    x, y = points
    return np.interp(SCALE * values, SCALE * x, y)


# Graphs -------------------------------------------------------------------------------


def _constant(like: Symbol, values: Array) -> Symbol:
    return Symbol(like.graph, like.graph.constant(values), values.dtype)


class Steps:
    """Piecewise constant functions in a graph, one for each column.

    The interval of each value is found by binary search. Its index is the number of
    knots below the value for the side "left", and of those up to it for "right".

    Parameters
    ----------
    values : Tensor
        Array of shape (n_samples, n_columns).

    knots : sequence of ndarray
        Sorted knots of each column.

    side : {"left", "right"}
        As in `np.searchsorted`.
    """

    def __init__(self, values: Symbol, knots: Sequence[Array], side: str) -> None:
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
            knot = self._gather(table, self.index + (offset + step))
            is_right = values > knot if side == "left" else values >= knot
            self.index = self.index + is_right.astype(np.int64) * step
            step //= 2

    def take(self, tables: Sequence[Array]) -> Symbol:
        """Return the values of the intervals, from a table for each column."""
        offset = self.width * np.arange(len(tables))
        return self._gather(self._table(tables, self.width, 0.0), self.index + offset)

    def _gather(self, table: Symbol, index: Symbol) -> Symbol:
        return node("Gather", table, index, n_columns=index.n_columns)

    def _table(self, rows: Sequence[Array], width: int, fill: float) -> Symbol:
        """Add rows of any length as one constant."""
        table = np.full((len(rows), width), fill, dtype=self.values.dtype)
        for row, values in zip(table, rows, strict=True):
            row[: len(values)] = values
        return _constant(self.values, table.ravel())


def _interpolate(values: Symbol, points: Sequence[Points]) -> Symbol:
    found = Steps(values, [x for x, _ in points], "right")
    # The map is constant below the first point and from the last one.
    start = found.take([np.append(x[0], x) for x, _ in points])
    width = found.take([np.pad(np.diff(x), 1, constant_values=1) for x, _ in points])
    base = found.take([np.append(y[0], y) for _, y in points])
    rise = found.take([np.pad(np.diff(y), 1) for _, y in points])
    # Not by the slope, which may be infinite between very close points.
    return base + rise * ((values - start) / width)


def _cubic(values: Symbol, curves: Sequence[Curve]) -> Symbol:
    found = Steps(values, [knots for knots, _, _ in curves], "right")
    x = values - found.take([np.append(knots[0], knots) for knots, _, _ in curves])
    # One row for each power, from the third down.
    inside = [CubicHermiteSpline(*curve).c for curve in curves]
    below = [[0, 0, slopes[0], values[0]] for _, values, slopes in curves]
    above = [[0, 0, slopes[-1], values[-1]] for _, values, slopes in curves]
    tables = [np.column_stack(each) for each in zip(below, inside, above, strict=True)]
    result = 0 * x
    for power in range(4):
        result = result * x + found.take([table[power] for table in tables])
    return result
