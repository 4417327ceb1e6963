"""Numpy-like expressions of ONNX operators, for graphs and arrays of any library."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np


class Graph(Protocol):
    """What applies operators, which are named and defined as those of ONNX.

    A value is the name of a result in an ONNX graph, a node of a torch.fx graph, or an
    array.
    """

    def constant(self, values: Any) -> Any:
        """Return the value of a numpy array or number."""

    def add(self, op_type: str, inputs: Sequence[Any], **options: Any) -> Any:
        """Return the value of an operator."""


class Tensor:
    """Array in a graph; its methods return new arrays."""

    # Otherwise, numpy would apply an operator to each of its own elements.
    __array_ufunc__ = None

    def __init__(self, graph: Graph, value: Any, dtype: Any) -> None:
        self.graph = graph
        self.value = value
        self.dtype = np.dtype(dtype)

    def __add__(self, other: Any) -> Tensor:
        return node("Add", self, other)

    def __mul__(self, other: Any) -> Tensor:
        return node("Mul", self, other)

    __radd__, __rmul__ = __add__, __mul__

    def __sub__(self, other: Any) -> Tensor:
        return node("Sub", self, other)

    def __rsub__(self, other: Any) -> Tensor:
        return node("Sub", other, self)

    def __truediv__(self, other: Any) -> Tensor:
        return node("Div", self, other)

    def __rtruediv__(self, other: Any) -> Tensor:
        return node("Div", other, self)

    def __matmul__(self, other: Any) -> Tensor:
        return node("MatMul", self, other)

    def __neg__(self) -> Tensor:
        return node("Neg", self)

    def __gt__(self, other: Any) -> Tensor:
        return node("Greater", self, other, dtype=bool)

    def __lt__(self, other: Any) -> Tensor:
        return node("Less", self, other, dtype=bool)

    def __ge__(self, other: Any) -> Tensor:
        return node("GreaterOrEqual", self, other, dtype=bool)

    def __and__(self, other: Tensor) -> Tensor:
        return node("And", self, other)

    def astype(self, dtype: Any) -> Tensor:
        return self if self.dtype == dtype else self.cast(dtype)

    def cast(self, dtype: Any) -> Tensor:
        """Convert to a dtype, even if the present one is not known."""
        return node("Cast", self, dtype=dtype, to=np.dtype(dtype))

    def max(self) -> Tensor:
        return node("ReduceMax", self, axes=[1])

    def sum(self) -> Tensor:
        return node("ReduceSum", self, axes=[1])

    def mean(self) -> Tensor:
        return node("ReduceMean", self, axes=[1])

    def argmax(self) -> Tensor:
        """Return the first column with the largest value, of shape (n_samples, 1)."""
        return node("ArgMax", self, dtype=np.int64, axis=1)

    def columns(self, indices: Sequence[int]) -> Tensor:
        return node("Gather", self, np.array(indices), axis=1)


def node(op_type: str, *inputs: Any, dtype: Any = None, **options: Any) -> Tensor:
    """Return the result of an operator, in the dtype of the last floating input.

    Arrays of floats and Python numbers become constants of this dtype; other arrays
    keep theirs.
    """
    tensors = [each for each in inputs if isinstance(each, Tensor)]
    like = next((t for t in tensors[::-1] if t.dtype.kind == "f"), tensors[-1])

    def value_of(value: Any) -> Any:
        if isinstance(value, Tensor):
            return value.value
        if isinstance(value, np.ndarray) and value.dtype.kind != "f":
            return like.graph.constant(value)
        return like.graph.constant(np.asarray(value, dtype=like.dtype))

    output = like.graph.add(op_type, [value_of(value) for value in inputs], **options)
    return Tensor(like.graph, output, like.dtype if dtype is None else dtype)


def where(condition: Tensor, value: Any, other: Any) -> Tensor:
    return node("Where", condition, value, other)


def maximum(value: Tensor, other: Any) -> Tensor:
    return node("Max", value, other)


def minimum(value: Tensor, other: Any) -> Tensor:
    return node("Min", value, other)


def exp(value: Tensor) -> Tensor:
    return node("Exp", value)


def log(value: Tensor) -> Tensor:
    return node("Log", value)


def hstack(values: Sequence[Tensor]) -> Tensor:
    return node("Concat", *values, axis=1) if len(values) > 1 else values[0]


def round_to(value: Tensor, decimals: int) -> Tensor:
    """Return rounded values; halves are rounded to even, as by `np.round`."""
    return node("Round", value * 10.0**decimals) / 10.0**decimals


def log1p(value: Tensor) -> Tensor:
    """Return log(1 + x) in full precision for small x, by Kahan's formula."""
    total = 1 + value
    is_tiny = node("Equal", total, 1.0, dtype=bool)
    # Not divided by 0, so that gradients are finite.
    difference = where(is_tiny, 1.0, total - 1)
    return where(is_tiny, value, log(total) * (value / difference))


def softplus(value: Tensor) -> Tensor:
    """Return log(1 + exp(x)) without overflow."""
    return maximum(value, 0.0) + log1p(exp(-node("Abs", value)))


def expit(value: Tensor) -> Tensor:
    # Without overflow, so that gradients are finite.
    small = exp(-node("Abs", value))
    return where(value >= 0.0, 1.0, small) / (1 + small)
