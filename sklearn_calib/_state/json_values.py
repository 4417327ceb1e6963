"""Numbers, strings and arrays as JSON values, exactly, and checked when they are read.

An array is an object with its dtype, its shape and its values in C order. Python writes
floats with as many digits as are needed to read the same float, so nothing is rounded.
JSON has neither NaN nor infinity.
"""

import math
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from sklearn_calib._validation.arrays import shown
from sklearn_calib._validation.types import Array

# The only number that is not finite and that a file may contain.
INFINITY = "infinity"

# The types of an array's values in a file, by dtype.
DTYPES: dict[str, tuple[type, ...]] = {
    "bool": (bool,),
    **{f"{sign}int{bits}": (int,) for sign in ("", "u") for bits in (8, 16, 32, 64)},
    **{f"float{bits}": (float, int) for bits in (16, 32, 64)},
    "str": (str,),
    "object": (bool, float, int, str),
}
MOST_DIMENSIONS = 32

# numpy uses the memory of the longest string for each string of an array.
MOST_TEXT = 10**8


def refuse(key: str, wanted: Any, value: Any) -> NoReturn:
    """Raise a ValueError that names the key."""
    raise ValueError(f"{key} must be {wanted}, got {shown(value)}.")


def check_object(
    value: Any, key: str, required: set[str], optional: set[str] | None = None
) -> None:
    """Raise ValueError unless a value is a JSON object with the given keys."""
    if not isinstance(value, dict):
        refuse(key, "an object", value)
    allowed = required | (optional or set())
    if unknown := sorted(value.keys() - allowed):
        refuse(key, f"an object with the keys {sorted(allowed)}", unknown)
    if missing := sorted(required - value.keys()):
        raise ValueError(f"{key} must have the keys {missing}, which are missing.")


def check_list(value: Any, key: str) -> list[Any]:
    """Return a value if it is a list, else raise a ValueError."""
    if not isinstance(value, list):
        refuse(key, "a list", value)
    return value


def write_value(
    value: Any,
    key: str,
    write_other: Callable[[Any, str], Any],
    tensors: dict[str, Array] | None,
) -> Any:
    """Return a value as a JSON value.

    Parameters
    ----------
    value : object
        A number, string, array, or list, tuple or dict of such values, or anything
        that `write_other` can write. A dict contains arrays.

    key : str
        Where the value is, for messages.

    write_other : callable
        Called for other values, with the value and its key.

    tensors : dict or None
        If not None, arrays of dicts are added to it, and the JSON contains their names.

    Returns
    -------
    value : object
        The JSON value. Tuples become lists.
    """
    if isinstance(value, np.ndarray | np.generic):
        return _write_array(np.asarray(value), key)
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        if math.isnan(value) or value == -math.inf:
            refuse(key, "a number to be saved", value)
        return INFINITY if value == math.inf else value
    if isinstance(value, list | tuple):
        return [
            write_value(each, f"{key}[{i}]", write_other, tensors)
            for i, each in enumerate(value)
        ]
    is_dict = isinstance(value, dict)
    if not (is_dict and all(isinstance(each, np.ndarray) for each in value.values())):
        return write_other(value, key)
    keys = {name: f"{key}.{name}" for name in value}
    if tensors is None:
        return {name: _write_array(each, keys[name]) for name, each in value.items()}
    tensors.update({keys[name]: each for name, each in value.items()})
    return {name: {"tensor": keys[name]} for name in value}


def _write_array(array: Array, key: str) -> dict[str, Any]:
    dtype = "str" if array.dtype.kind == "U" else array.dtype.name
    wanted = "an array of numbers, booleans or strings to be saved"
    if dtype not in DTYPES:
        refuse(key, wanted, array.dtype)
    values = array.ravel().tolist()
    for each in values if dtype == "object" else ():
        if type(each) not in DTYPES[dtype]:
            refuse(key, wanted, each)
    return {"dtype": dtype, "shape": list(array.shape), "values": values}


def read_array(value: Any, key: str, tensors: dict[str, Array]) -> Array:
    """Return an array with finite values, from JSON or from `tensors`."""
    if isinstance(value, dict) and value.keys() == {"tensor"}:
        name = value["tensor"]
        if not isinstance(name, str) or name not in tensors:
            wanted = "the name of a tensor that is not used elsewhere"
            refuse(f"{key}.tensor", wanted, name)
        array = tensors.pop(name)  # so that tensors without use are found
    else:
        array = _read_inline(value, key)
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ValueError(f"{key} must be finite, got NaN or infinity.")
    return array


def _read_inline(value: Any, key: str) -> Array:
    check_object(value, key, {"dtype", "shape", "values"})
    dtype, shape = value["dtype"], check_list(value["shape"], f"{key}.shape")
    values = check_list(value["values"], f"{key}.values")
    if not isinstance(dtype, str) or dtype not in DTYPES:
        refuse(f"{key}.dtype", f"one of {sorted(DTYPES)}", dtype)
    sizes = all(type(size) is int and size >= 0 for size in shape)
    if not sizes or len(shape) > MOST_DIMENSIONS:
        refuse(f"{key}.shape", "a list of non-negative integers", shape)
    if math.prod(shape) != len(values):
        refuse(f"{key}.shape", f"the shape of {len(values)} values", shape)
    wanted = f"finite and of dtype {dtype}"
    if dtype == "object":
        wanted = "finite numbers, booleans or strings"
    for each in values:
        if type(each) not in DTYPES[dtype] or _is_infinite(each):
            refuse(f"{key}.values", wanted, each)
    if dtype == "str" and len(values) * max(map(len, values), default=0) > MOST_TEXT:
        raise ValueError(
            f"{key}.values must be shorter, got strings that are too long."
        )
    try:
        with np.errstate(over="ignore"):  # becomes infinite, which is refused
            return np.array(values, dtype=dtype).reshape(shape)
    except (OverflowError, ValueError) as error:
        raise ValueError(f"{key}.values must be of dtype {dtype}: {error}.") from error


def _is_infinite(value: Any) -> bool:
    """Whether a value is NaN or infinity, such as 1e999 in JSON."""
    return isinstance(value, float) and not math.isfinite(value)


def read_value(
    value: Any, key: str, read_object: Callable[..., Any], tensors: dict[str, Array]
) -> Any:
    """Return a value written by `write_value`; objects are read by `read_object`."""
    if isinstance(value, list):
        return [
            read_value(each, f"{key}[{i}]", read_object, tensors)
            for i, each in enumerate(value)
        ]
    if _is_infinite(value):
        refuse(key, "finite", value)
    if not isinstance(value, dict):
        return value
    if "class" in value:
        return read_object(value, key, is_fitted=False)
    return read_array(value, key, tensors)[()]  # a numpy number, not a 0-d array
