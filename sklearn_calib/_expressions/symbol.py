"""Elementwise operations on numpy arrays, and on arrays in a graph of ONNX operators.

A numpy array is computed at once. A `Symbol` becomes a graph: of ONNX, of a torch
module, or of operators that are applied to the arrays of any library.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn, Protocol, TypeVar

import numpy as np
from scipy import special

from sklearn_calib._validation.types import Array, Floats


class Backend(Protocol):
    """What applies operators, which are named and defined as those of ONNX.

    A value is the name of a result in an ONNX graph, a node of a torch.fx graph, or an
    array.
    """

    def constant(self, values: Any) -> Any:
        """Return the value of a numpy array or number."""

    def add(self, op_type: str, inputs: Sequence[Any], **options: Any) -> Any:
        """Return the value of an operator."""


class Symbol:
    """Array in a graph, with the operators of a numpy array of two dimensions.

    Its methods return new arrays. The number of rows is not known, and the number of
    columns may be unknown. Reductions are of rows: `x.max(axis=1, keepdims=True)`.
    Columns are selected by `x[:, indices]`.
    """

    # Otherwise, numpy would apply an operator to each of its own elements.
    __array_ufunc__ = None
    # As for arrays of numpy, whose comparison is an array.
    __hash__ = None  # type: ignore[assignment] # `object` has a method here

    def __init__(
        self, graph: Backend, value: Any, dtype: Any, n_columns: int | None = None
    ) -> None:
        self.graph = graph
        self.value = value
        self.dtype = np.dtype(dtype)
        self.n_columns = n_columns

    @property
    def shape(self) -> tuple[None, Any]:
        return None, self.n_columns

    def with_columns(self, n_columns: int) -> Symbol:
        """Return the same array with a known number of columns."""
        return Symbol(self.graph, self.value, self.dtype, n_columns)

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("the values of an array in a graph are not known")

    __bool__ = __array__

    def __array_function__(self, function: Any, *_: Any) -> NoReturn:
        raise TypeError(f"numpy.{function.__name__} needs numpy arrays")

    def __add__(self, other: Any) -> Symbol:
        return node("Add", self, other)

    def __mul__(self, other: Any) -> Symbol:
        return node("Mul", self, other)

    __radd__, __rmul__ = __add__, __mul__

    def __sub__(self, other: Any) -> Symbol:
        return node("Sub", self, other)

    def __rsub__(self, other: Any) -> Symbol:
        return node("Sub", other, self)

    def __truediv__(self, other: Any) -> Symbol:
        return node("Div", self, other)

    def __rtruediv__(self, other: Any) -> Symbol:
        return node("Div", other, self)

    def __pow__(self, other: Any) -> Symbol:
        return node("Pow", self, other)

    def __rpow__(self, other: Any) -> Symbol:
        return node("Pow", other, self)

    def __matmul__(self, other: Array) -> Symbol:
        if np.ndim(other) != 2:
            raise TypeError("a matrix product needs arrays of two dimensions")
        return node("MatMul", self, other, n_columns=other.shape[1])

    def __neg__(self) -> Symbol:
        return node("Neg", self)

    def __abs__(self) -> Symbol:
        return node("Abs", self)

    def __gt__(self, other: Any) -> Symbol:
        return node("Greater", self, other, dtype=bool)

    def __lt__(self, other: Any) -> Symbol:
        return node("Less", self, other, dtype=bool)

    def __ge__(self, other: Any) -> Symbol:
        return node("GreaterOrEqual", self, other, dtype=bool)

    def __le__(self, other: Any) -> Symbol:
        return node("LessOrEqual", self, other, dtype=bool)

    def __eq__(self, other: Any) -> Symbol:  # type: ignore[override] # not a bool
        return node("Equal", self, other, dtype=bool)

    def __ne__(self, other: Any) -> Symbol:  # type: ignore[override] # not a bool
        return ~(self == other)

    def __and__(self, other: Any) -> Symbol:
        return node("And", self, other)

    def __or__(self, other: Any) -> Symbol:
        return node("Or", self, other)

    __rand__, __ror__ = __and__, __or__

    def __invert__(self) -> Symbol:
        return node("Not", self)

    def __getitem__(self, key: tuple[slice, slice | Sequence[int]]) -> Symbol:
        rows, columns = key
        if rows != slice(None):
            raise TypeError("rows cannot be selected in a graph")
        # Counted as numpy does, so that masks and negative indices work.
        n = self.n_columns
        indices = np.array(columns) if n is None else np.arange(n)[columns]
        if indices.ndim != 1:
            raise TypeError("columns are selected by x[:, indices], as in x[:, [0]]")
        return node("Gather", self, indices, n_columns=len(indices), axis=1)

    def astype(self, dtype: Any, *, copy: bool = True) -> Symbol:  # noqa: ARG002 - numpy's
        return self if self.dtype == dtype else self.cast(dtype)

    def cast(self, dtype: Any) -> Symbol:
        """Convert to a dtype, even if the present one is not known."""
        return node("Cast", self, dtype=dtype, to=np.dtype(dtype))

    def max(self, *, axis: int, keepdims: bool) -> Symbol:
        return self._reduced("ReduceMax", axis, keepdims)

    def sum(self, *, axis: int, keepdims: bool) -> Symbol:
        counted = self.astype(np.int64) if self.dtype == bool else self
        return counted._reduced("ReduceSum", axis, keepdims)

    def mean(self, *, axis: int, keepdims: bool) -> Symbol:
        return self._reduced("ReduceMean", axis, keepdims)

    def argmax(self, *, axis: int, keepdims: bool) -> Symbol:
        """Return the first column with the largest value."""
        _check_rows(axis, keepdims)
        return node("ArgMax", self, dtype=np.int64, n_columns=1, axis=1)

    def _reduced(self, op_type: str, axis: int, keepdims: bool) -> Symbol:
        _check_rows(axis, keepdims)
        return node(op_type, self, n_columns=1, axes=[1])


def _check_rows(axis: int, keepdims: bool) -> None:
    if axis not in (1, -1) or not keepdims:
        raise TypeError("a reduction needs axis=1 and keepdims=True")


# Operators whose result is a float also for integers and masks.
FLOATING = {"Div", "Exp", "Log", "ReduceMean"}
# Operators of masks, as numpy computes with booleans.
OF_MASKS = {"Add": "Or", "Max": "Or", "Min": "And", "Mul": "And"}

# Both kinds of arrays that a map is applied to.
Values = TypeVar("Values", Floats, Symbol)


def node(
    op_type: str,
    *inputs: Any,
    dtype: Any = None,
    n_columns: int | None = None,
    **options: Any,
) -> Symbol:
    """Return the result of an operator, in the dtype that numpy would compute in.

    This is the dtype of the widest floating input; Python numbers and arrays become
    constants of it. The result has as many columns as the widest input by default.
    """
    if op_type == "Where":
        inputs = inputs[0], *_promoted(inputs[1:])
    elif op_type != "Gather":
        inputs = (*_promoted(inputs, is_float=op_type in FLOATING),)
    if all(_dtype(each).kind == "b" for each in inputs):
        op_type = OF_MASKS.get(op_type, op_type)
    tensors = [each for each in inputs if isinstance(each, Symbol)]
    like = next((each for each in tensors if each.dtype.kind == "f"), tensors[-1])

    def value_of(value: Any) -> Any:
        if isinstance(value, Symbol):
            return value.value
        if isinstance(value, np.ndarray) and value.dtype.kind != "f":
            return like.graph.constant(value)
        return like.graph.constant(np.asarray(value, dtype=like.dtype))

    if n_columns is None:
        widths: list[Any] = [
            each.n_columns if isinstance(each, Symbol) else (1, *np.shape(each))[-1]
            for each in inputs
        ]
        n_columns = None if None in widths else max(widths)
    output = like.graph.add(op_type, [value_of(value) for value in inputs], **options)
    return Symbol(like.graph, output, like.dtype if dtype is None else dtype, n_columns)


def _promoted(values: Sequence[Any], *, is_float: bool = False) -> list[Any]:
    """Return arrays in one dtype: the widest float, else integers, else booleans."""
    dtypes = [_dtype(each) for each in values]
    if len(values) == 1 and not is_float:
        return [*values]
    if is_float or any(each.kind == "f" for each in dtypes):
        tensors = [each.dtype for each in values if isinstance(each, Symbol)]
        floats = [each for each in tensors if each.kind == "f"]
        dtype = max(floats, key=lambda each: each.itemsize, default=np.dtype(float))
    elif all(each.kind == "b" for each in dtypes):
        return [*values]
    else:
        dtype = np.dtype(np.int64)
    return [
        each.astype(dtype) if isinstance(each, Symbol) else np.asarray(each, dtype)
        for each in values
    ]


def _dtype(value: Any) -> Any:
    """Return the dtype of an array or number; raise TypeError for anything else."""
    dtype = value.dtype if isinstance(value, Symbol) else np.asarray(value).dtype
    if dtype.kind not in "biuf":
        raise TypeError(f"{value!r} is not an array of numbers")
    return dtype


# Operations on both kinds of arrays ---------------------------------------------------


def where(condition: Any, value: Any, other: Any) -> Any:
    """Return `value` where the condition is true, and `other` elsewhere."""
    if not _is_in_graph(condition, value, other):
        return np.where(condition, value, other)
    if not _is_in_graph(value, other):
        value = 0.0 * condition + value
    return node("Where", condition, value, other)


def maximum(value: Any, other: Any) -> Any:
    """Return the larger of two values."""
    if _is_in_graph(value, other):
        return node("Max", value, other)
    return np.maximum(value, other)


def minimum(value: Any, other: Any) -> Any:
    """Return the smaller of two values."""
    if _is_in_graph(value, other):
        return node("Min", value, other)
    return np.minimum(value, other)


def clip(value: Values, low: Any, high: Any) -> Values:
    """Return values between two limits."""
    if isinstance(value, Symbol):
        return minimum(maximum(value, low), high)
    return np.clip(value, low, high)


def exp(value: Values) -> Values:
    """Return the exponential function."""
    return node("Exp", value) if isinstance(value, Symbol) else np.exp(value)


def log(value: Values) -> Values:
    """Return the natural logarithm."""
    return node("Log", value) if isinstance(value, Symbol) else np.log(value)


def hstack(values: Sequence[Any]) -> Any:
    """Return the columns of several arrays next to each other."""
    if not _is_in_graph(*values):
        return np.hstack(values)
    if len(values) == 1:
        return values[0]
    widths = [each.shape[1] for each in values]
    n_columns = None if None in widths else sum(widths)
    return node("Concat", *values, n_columns=n_columns, axis=1)


def round_to(value: Values, decimals: int) -> Values:
    """Return rounded values; halves are rounded to even."""
    if isinstance(value, Symbol):
        return node("Round", value * 10.0**decimals) / 10.0**decimals
    return np.round(value, decimals)


def log1p(value: Values) -> Values:
    """Return log(1 + x), in full precision for small x."""
    if not isinstance(value, Symbol):
        return np.log1p(value)
    # Kahan's formula. Not divided by 0, so that gradients are finite.
    total = 1 + value
    is_tiny = total == 1.0
    difference = where(is_tiny, 1.0, total - 1)
    return where(is_tiny, value, log(total) * (value / difference))


def softplus(value: Values) -> Values:
    """Return log(1 + exp(x)) without overflow."""
    if isinstance(value, Symbol):
        return maximum(value, 0.0) + log1p(exp(-abs(value)))
    return np.logaddexp(0, value)


def log_expit(value: Values) -> Values:
    """Return the logarithm of the logistic function."""
    return -softplus(-value) if isinstance(value, Symbol) else special.log_expit(value)


def expit(value: Values) -> Values:
    """Return the logistic function 1 / (1 + exp(-x))."""
    if not isinstance(value, Symbol):
        return special.expit(value)
    # Without overflow, so that gradients are finite.
    small = exp(-abs(value))
    return where(value >= 0.0, 1.0, small) / (1 + small)


def _is_in_graph(*values: Any) -> bool:
    return any(isinstance(each, Symbol) for each in values)
