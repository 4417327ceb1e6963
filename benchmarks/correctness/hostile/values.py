"""Tables of hostile values for data, each made from a valid value.

A table maps the name of a value to the function that makes it and to a verdict:

- VALID: the result is finite, or as documented;
- SAME: the result is that of the valid value, in another form;
- INVALID: a clear error;
- NAN: a result that is not a number, or a clear error;
- OPEN: either a finite result or a clear error;
- ANY: any result or a clear error.
"""

import tempfile
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from scipy.sparse import coo_array, csr_array

VALID, SAME, INVALID = "valid", "same", "invalid"
NAN, OPEN, ANY = "nan", "open", "any"


class Hostile(NamedTuple):
    """Function that makes a value from a valid one, and its verdict."""

    make: object
    verdict: str


def table(**verdicts):
    """Return one table from dicts of functions by verdict."""
    return {
        name.replace("_", " "): Hostile(make, verdict)
        for verdict, makers in verdicts.items()
        for name, make in makers.items()
    }


def changed(array, value, *, dtype=None):
    """Return a copy with another second row, or another first number in it."""
    array = np.array(array, dtype=dtype)
    array[(1,) + (0,) * (array.ndim - 1)] = value
    return array


def masked(array, *, mask=True):
    """Return a masked array with the second value masked, or without mask."""
    result = np.ma.masked_array(array, mask=np.zeros(np.shape(array), bool))
    if mask:
        result[(1,) + (0,) * (result.ndim - 1)] = np.ma.masked
    return result


def mapped(array):
    """Return the same numbers as a memory-mapped file."""
    with tempfile.TemporaryFile() as file:
        array = np.asarray(array)
        result = np.memmap(file, array.dtype, "w+", shape=array.shape)
        result[:] = array
        return result


def read_only(array):
    array = np.array(array)
    array.setflags(write=False)
    return array


def ragged(array):
    """Return lists, with the second one too long."""
    rows = np.reshape(array, (len(array), -1)).tolist()
    rows[1] = [*rows[1], rows[1][0]]
    return rows


def as_objects(array, value):
    return changed(array, value, dtype=object)


def structured(array):
    array = np.asarray(array)
    return array.view([("field", array.dtype)])


def as_frame(array):
    """Return a DataFrame, or a Series for one column."""
    return pd.DataFrame(array) if np.ndim(array) == 2 else pd.Series(array)


def frame_with(array, value):
    return as_frame(as_objects(array, value))


# Invalid for every argument that is an array of numbers or labels.
NO_ARRAYS = {
    "nothing": lambda _: None,
    "word": lambda _: "hostile",
    "number": lambda _: 3.0,
    "dict": lambda a: {"values": np.asarray(a).tolist()},
    "function": lambda _: len,
    "empty": lambda a: np.asarray(a)[:0],
    "empty list": lambda _: [],
    "short": lambda a: np.asarray(a)[:-1],
    "three dimensions": lambda a: np.reshape(a, (len(a), -1, 1, 1)),
    "ragged": ragged,
    "complex": lambda a: np.asarray(a) + 0.5j,
    "masked": masked,
    "sparse": lambda a: csr_array(np.atleast_2d(a)),
    "sparse coordinates": lambda a: coo_array(np.atleast_2d(a)),
    "meta tensor": lambda a: torch.as_tensor(np.asarray(a)).to("meta"),
}
NO_NUMBERS = {
    "NaN": lambda a: changed(a, np.nan, dtype=float),
    "infinity": lambda a: changed(a, np.inf, dtype=float),
    "minus infinity": lambda a: changed(a, -np.inf, dtype=float),
    "None inside": lambda a: as_objects(a, None),
    "NA inside": lambda a: as_objects(a, pd.NA),
    "frame with NA": lambda a: frame_with(a, pd.NA),
    "word inside": lambda a: as_objects(a, "many"),
    "list inside": lambda a: as_objects(a, [1.0]),
    "frame of words": lambda a: as_frame(np.full(np.shape(a), "many")),
    "frame with a word": lambda a: frame_with(a, "many"),
    "strings": lambda a: np.asarray(a).astype(str),
    "bytes": lambda a: np.asarray(a).astype("S"),
    "string objects": lambda a: np.asarray(a).astype(str).astype(object),
    "frame of strings": lambda a: as_frame(np.asarray(a).astype(str)),
    "times": lambda a: np.asarray(a).astype("datetime64[s]"),
    "spans": lambda a: np.asarray(a).astype("timedelta64[s]"),
    "frame of times": lambda a: as_frame(np.asarray(a).astype("datetime64[s]")),
    "categories": lambda a: as_frame(np.asarray(a).astype(str)).astype("category"),
}
ROUNDED = {
    "float32": lambda a: np.asarray(a, np.float32),
    "float16": lambda a: np.asarray(a, np.float16),
}
SAME_NUMBERS = {
    "long double": lambda a: np.asarray(a, np.longdouble),
    "swapped bytes": lambda a: np.asarray(a).astype(">f8"),
    "Fortran": lambda a: np.asfortranarray(a),
    "backwards": lambda a: np.ascontiguousarray(np.asarray(a)[::-1])[::-1],
    "every other": lambda a: np.repeat(a, 2, axis=0)[::2],
    "read-only": read_only,
    "mapped": mapped,
    "list": lambda a: np.asarray(a).tolist(),
    "frame": as_frame,
    "nullable frame": lambda a: as_frame(a).convert_dtypes(),
    "objects": lambda a: np.asarray(a).astype(object),
    "tensor": lambda a: torch.as_tensor(np.asarray(a)),
    "tensor with grad": lambda a: torch.tensor(np.asarray(a, float)).requires_grad_(),
}
UNUSUAL = {
    "structured": structured,
    "mask without effect": lambda a: masked(a, mask=False),
    "decimals": lambda a: np.vectorize(Decimal, otypes=[object])(np.asarray(a, float)),
    "fractions": lambda a: np.vectorize(Fraction, otypes=[object])(np.asarray(a)),
    "bfloat16": lambda a: torch.as_tensor(np.asarray(a)).bfloat16(),
    "sparse tensor": lambda a: torch.as_tensor(np.asarray(a)).to_sparse(),
}


def one_hot(array):
    """Return ones for the largest value of each row, or for values above one half."""
    array = np.asarray(array)
    if array.ndim == 1:
        return (array > 0.5).astype(float)
    return np.eye(array.shape[1])[array.argmax(axis=1)]


def ties(array):
    return np.full(
        np.shape(array), 1 / (np.shape(array)[1] if np.ndim(array) == 2 else 2)
    )


def nearly_one_hot(array, tiny):
    """Return probabilities with all but one tiny."""
    array = one_hot(array)
    rest = tiny * (array.shape[1] - 1 if array.ndim == 2 else 1)
    return np.where(array == 1, 1 - rest, tiny)


def softmax16(array):
    """Return probabilities that were computed in half precision."""
    logits = np.log(np.asarray(array)).astype(np.float16)
    if logits.ndim == 1:
        return np.asarray(array, np.float16)
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True, dtype=np.float16)


PROBABILITIES = table(
    same=SAME_NUMBERS,
    valid={
        "float32": ROUNDED["float32"],
        "float16": softmax16,
        "certain": one_hot,
        "certain integers": lambda a: one_hot(a).astype(int),
        "certainly wrong": lambda a: one_hot(-np.asarray(a) + (np.ndim(a) == 1)),
        "ties": ties,
        "denormal": lambda a: nearly_one_hot(a, 5e-324),
        "1e-300": lambda a: nearly_one_hot(a, 1e-300),
        "1e-17": lambda a: nearly_one_hot(a, 1e-17),
        "1e-12": lambda a: nearly_one_hot(a, 1e-12),
        "rounded": lambda a: np.round(a, 4),
        "minus zero": lambda a: np.where(one_hot(a) == 0, -0.0, 1.0),
    },
    invalid={
        **NO_ARRAYS,
        **NO_NUMBERS,
        "negative": lambda a: changed(a, -0.1),
        "above one": lambda a: changed(a, 1.1),
        "logits": lambda a: 5 * np.asarray(a) - 2,
        "no columns": lambda a: np.zeros((len(a), 0)),
    },
    open={**UNUSUAL, "booleans": lambda a: one_hot(a).astype(bool)},
)
# Valid for a matrix only.
MATRIX = table(
    invalid={
        "sums": lambda a: np.asarray(a) / 2,
        "one sum": lambda a: changed(a, 0.99),
        "one column": lambda a: np.asarray(a)[:, :1],
        "column more": lambda a: np.hstack([a, np.zeros((len(a), 1))]),
        "transposed": lambda a: np.asarray(a).T,
    },
)


def scaled(factor):
    return lambda a: np.asarray(a) * factor


LOGITS = table(
    same=SAME_NUMBERS,
    valid={
        **ROUNDED,
        **{f"times {f:g}": scaled(f) for f in (1e-300, 1e-8, 1e4, 1e15, 1e160, 1e300)},
        "zeros": lambda a: np.zeros(np.shape(a)),
        "certain": lambda a: 50 * one_hot(a),
        "far certain": lambda a: 1e6 * one_hot(a),
        "constant": lambda a: np.full(np.shape(a), 7.0),
        "far away": lambda a: np.asarray(a) + 1e15,
        "constant column": lambda a: np.asarray(a) * (np.arange(np.shape(a)[-1]) > 0),
        "float32 times 1e30": lambda a: np.asarray(a, np.float32) * np.float32(1e30),
    },
    invalid={**NO_ARRAYS, **NO_NUMBERS, "no columns": lambda a: np.zeros((len(a), 0))},
    open={**UNUSUAL, "largest": lambda a: np.sign(a) * np.finfo(float).max},
)
WEIGHTS = table(
    same=SAME_NUMBERS,
    valid={
        **ROUNDED,
        "nothing": lambda _: None,
        "integers": lambda a: np.arange(1, len(a) + 1) % 3 + 1,
        "with zeros": lambda a: np.asarray(a) * (np.arange(len(a)) % 4 > 0),
        **{
            f"times {f:g}": scaled(f)
            for f in (1e-308, 1e-300, 1e-100, 7.0, 1e100, 1e300, 1e307)
        },
        "denormal": lambda a: np.full(len(a), 5e-324),
        "wide": lambda a: np.asarray(a) * 10.0 ** (np.arange(len(a)) % 5 * 50 - 100),
    },
    invalid={
        **{k: v for k, v in NO_ARRAYS.items() if k not in ("nothing", "number")},
        **NO_NUMBERS,
        "negative": lambda a: changed(a, -1.0),
        "tiny negative": lambda a: changed(a, -5e-324),
        "zeros": lambda a: np.zeros(len(a)),
        "two columns": lambda a: np.column_stack([a, a]),
    },
    open={
        **UNUSUAL,
        "number": lambda _: 2.0,
        "column": lambda a: np.reshape(a, (-1, 1)),
        "booleans": lambda a: np.arange(len(a)) % 4 > 0,
        "1.7e308": lambda a: np.full(len(a), 1.7e308),
        **{f"one {w:g}": lambda a, w=w: changed(a, w) for w in (1e20, 1e200, 1e300)},
        "some denormal": lambda a: np.where(np.arange(len(a)) % 3, a, 5e-324),
    },
)
LABELS = table(
    same={
        "strings": lambda y: np.asarray(y).astype(str),
        "string objects": lambda y: np.asarray(y).astype(str).astype(object),
        "objects": lambda y: np.asarray(y).astype(object),
        "unsigned": lambda y: np.asarray(y).astype(np.uint64) + np.uint64(2**63),
        "int8": lambda y: np.asarray(y, np.int8),
        "large": lambda y: np.asarray(y) * 2**40 - 2**50,
        "negative": lambda y: np.asarray(y) - 7,
        "list": lambda y: np.asarray(y).tolist(),
        "read-only": read_only,
        "every other": lambda y: np.repeat(y, 2)[::2],
        "mapped": mapped,
        "series": as_frame,
        "nullable series": lambda y: as_frame(y).convert_dtypes(),
        "categories": lambda y: as_frame(np.asarray(y).astype(str)).astype("category"),
    },
    invalid={
        **NO_ARRAYS,
        **{k: v for k, v in NO_NUMBERS.items() if "inside" in k or "N" in k},
        "infinity": NO_NUMBERS["infinity"],
        "not a time": lambda y: changed(np.asarray(y).astype("datetime64[s]"), "NaT"),
        "two columns": lambda y: np.column_stack([y, y]),
        "one class": lambda y: np.zeros_like(y),
        "boolean inside": lambda y: as_objects(y, True),
        "dicts": lambda y: np.array([{}] * len(y), dtype=object),
    },
    open={
        "floats": lambda y: np.asarray(y, float),
        "half numbers": lambda y: np.asarray(y) + 0.5,
        "column": lambda y: np.reshape(y, (-1, 1)),
        "bytes": lambda y: np.asarray(y).astype("S"),
        "booleans": lambda y: np.asarray(y) > 0,
        "another class": lambda y: changed(y, 99),
        "times": NO_NUMBERS["times"],
        "spans": NO_NUMBERS["spans"],
        "tensor": SAME_NUMBERS["tensor"],
        "tensor with grad": SAME_NUMBERS["tensor with grad"],
        "mask without effect": UNUSUAL["mask without effect"],
        "decimals": UNUSUAL["decimals"],
        "tuples": lambda y: as_objects(y, (1, 2)),
    },
)
