"""Expressions that are computed at once, with the arrays of any library."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sklearn_calib._expressions.symbol import Symbol
from sklearn_calib._validation.arrays import device, get_namespace

# Operators of Python, which are the same for the arrays of all libraries.
SYMBOLS: dict[str, Callable[..., Any]] = {
    "Add": operator.add,
    "And": operator.and_,
    "Div": operator.truediv,
    "Equal": operator.eq,
    "Greater": operator.gt,
    "GreaterOrEqual": operator.ge,
    "Less": operator.lt,
    "LessOrEqual": operator.le,
    "MatMul": operator.matmul,
    "Mul": operator.mul,
    "Neg": operator.neg,
    "Not": operator.invert,
    "Or": operator.or_,
    "Pow": operator.pow,
    "Sub": operator.sub,
}
# Functions of the array API. The reductions are of each row.
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "Abs": lambda xp, x: xp.abs(x),
    "ArgMax": lambda xp, x, axis: xp.argmax(x, axis=axis, keepdims=True),
    "Cast": lambda xp, x, to: xp.astype(x, getattr(xp, to.name)),
    "Concat": lambda xp, *x, axis: xp.concat(x, axis=axis),
    "Exp": lambda xp, x: xp.exp(x),
    "Gather": lambda xp, x, index, axis=0: _gather(xp, x, index, axis),
    "Log": lambda xp, x: xp.log(x),
    "Max": lambda xp, x, other: xp.maximum(x, other),
    "Min": lambda xp, x, other: xp.minimum(x, other),
    "ReduceMax": lambda xp, x, axes: xp.max(x, axis=axes[0], keepdims=True),
    "ReduceMean": lambda xp, x, axes: xp.mean(x, axis=axes[0], keepdims=True),
    "ReduceSum": lambda xp, x, axes: xp.sum(x, axis=axes[0], keepdims=True),
    "Round": lambda xp, x: xp.round(x),
    "Where": lambda xp, condition, x, other: xp.where(condition, x, other),
}


class _Arrays:
    """Operators that are applied to the arrays of a library."""

    def __init__(self, like: Any) -> None:
        self.xp, _ = get_namespace(like)
        self.device = device(like)

    def constant(self, values: Any) -> Any:
        # A copy in the same order: torch warns of arrays that are not writeable, and
        # refuses negative strides.
        return self.xp.asarray(np.array(values), device=self.device)

    def add(self, op_type: str, inputs: Sequence[Any], **options: Any) -> Any:
        if op_type in SYMBOLS:
            return SYMBOLS[op_type](*inputs)
        return FUNCTIONS[op_type](self.xp, *inputs, **options)


def _gather(xp: Any, x: Any, index: Any, axis: int) -> Any:
    """Return the columns of an array, or the entries of a table at all indices."""
    if axis == 1:
        return xp.take(x, index, axis=1)
    taken = xp.take(x, xp.reshape(index, (-1,)), axis=0)
    return xp.reshape(taken, index.shape)


def evaluate(expression: Callable[[Symbol], Symbol], X: Any) -> Any:
    """Return an expression of an array of float32 or float64, on its device."""
    xp, _ = get_namespace(X)
    dtype = np.dtype("float32" if X.dtype == xp.float32 else "float64")
    return expression(Symbol(_Arrays(X), X, dtype, X.shape[1])).value
