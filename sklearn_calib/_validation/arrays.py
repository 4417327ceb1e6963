"""Conversion of data of any library to arrays of numbers, in blocks of rows."""

import sys
from collections.abc import Iterator, Mapping
from decimal import Decimal
from numbers import Complex, Real
from reprlib import Repr
from typing import Any, TypeAlias

import numpy as np
from scipy.sparse import issparse
from sklearn import get_config
from sklearn.utils import _safe_indexing
from sklearn.utils._array_api import (
    _convert_to_numpy,
    device as device,
    get_namespace as get_namespace,
)

from sklearn_calib._validation.types import Array

# Type and message of an error to raise.
Problem: TypeAlias = tuple[type[Exception], str] | None

# Labels of different kinds cannot be sorted, and True would be equal to 1.
LABEL_KINDS = (bool | np.bool_, Real | Decimal, str, bytes, object)

# Collections of Dask that numpy would load as a whole, besides its arrays.
FRAMES = ("DataFrame", "Index", "Series")

# Of values in a message: how many of a list, how many levels of lists in lists, and how
# many characters of a string, of another value and in total.
MOST_VALUES, DEEPEST, LONGEST_STRING, LONGEST_VALUE, LONGEST_TEXT = 10, 3, 60, 200, 400

# Of a description of a fitted model.
MOST_LINES = 30

convert_to_numpy = _convert_to_numpy
safe_indexing = _safe_indexing

# Number of elements of a block that fits in a second-level cache: 512 KiB of doubles.
BLOCK_SIZE = 65536

# For up to about this many columns, numpy is faster on arrays in Fortran order.
FEW_COLUMNS = 20


def is_instance(value: Any, module: str, name: str) -> bool:
    """Whether a value is an instance of a library's class, without importing it."""
    return isinstance(value, getattr(sys.modules.get(module), name, ()))


def check_unmasked(values: Any, name: str) -> None:
    """Raise ValueError for arrays with masked values, as the mask would be lost."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise ValueError(
            f"{name} must not contain masked values, got "
            f"{np.ma.count_masked(values)} of {values.size}. Fill them, or remove "
            "these samples."
        )


def is_empty(array: Any) -> bool:
    """Whether an array-like has no rows; other checks do not accept it."""
    if isinstance(array, list | tuple):
        return not array
    return getattr(array, "shape", ())[:1] == (0,)


def is_dict(X: Any) -> bool:
    """Return whether X contains several inputs by name."""
    # Sparse matrices in DOK format are mappings as well.
    return isinstance(X, Mapping) and not issparse(X)


def column_names(values: Any) -> list[Any]:
    """Return the names of the columns of a pandas or polars frame; otherwise, none."""
    is_frame = any(
        is_instance(values, library, "DataFrame") for library in ("pandas", "polars")
    )
    names = values.columns if is_frame else []
    return [name.item() if isinstance(name, np.generic) else name for name in names]


def is_dask_array(values: Any) -> bool:
    """Whether values are a Dask array."""
    return is_instance(values, "dask.array", "Array")


def has_dask_arrays(*arrays: Any) -> bool:
    """Whether one of the arrays is a Dask array."""
    return any(map(is_dask_array, arrays))


def check_in_memory(
    values: Any, name: str, way_out: str = "Call its method compute()."
) -> None:
    """Raise TypeError for Dask collections, all blocks of which numpy would load."""
    if isinstance(values, np.ndarray):
        return
    frames = (is_instance(values, "dask.dataframe", kind) for kind in FRAMES)
    if is_dask_array(values) or any(frames):
        raise TypeError(
            f"{name} must be in memory here, got a Dask {type(values).__name__}. "
            f"{way_out}"
        )


def is_tensor(values: Any) -> bool:
    """Whether values are a torch tensor on any device."""
    return is_instance(values, "torch", "Tensor")


def is_cpu_tensor(values: Any) -> bool:
    """Whether values are a torch tensor that numpy reads without a copy.

    numpy has a message for meta tensors, which have no values.
    """
    return is_tensor(values) and values.device.type in ("cpu", "meta")


def without_gradient(values: Any) -> Any:
    """Return a tensor detached from the autograd graph; other values are unchanged.

    numpy has no bfloat16, so it is converted to float32, which contains its values.
    """
    if not is_tensor(values):
        return values
    is_bfloat16 = values.dtype == sys.modules["torch"].bfloat16
    return values.detach().float() if is_bfloat16 else values.detach()


def as_array(values: Any, name: str) -> Array:
    """Return data of any library and device as a numpy array."""
    if type(values) is np.ndarray:
        return values
    if issparse(values):
        raise TypeError(
            f"{name} must be dense, got a sparse matrix. Use its toarray()."
        )
    check_unmasked(values, name)
    check_in_memory(values, name)
    try:
        return np.asarray(on_cpu(values))
    except ValueError as error:
        raise ValueError(
            f"{name} must have rows of equal length: {str(error).rstrip('.')}. Pad or "
            "truncate the rows."
        ) from None
    except (RuntimeError, TypeError) as error:
        raise TypeError(
            f"{name} must be convertible to numpy, got {type(values).__name__}: "
            f"{str(error).rstrip('.')}. Convert it to an array first."
        ) from None


def check_numbers(
    values: Any,
    name: str,
    *,
    content: str = "numbers",
    way_out: str = "Convert your data to numeric values explicitly.",
) -> Any:
    """Raise an error for data that are not real numbers, even if numpy converts them.

    Only types are checked, except for arrays of objects.

    Parameters
    ----------
    values : array-like or sparse matrix
        Data of any library.

    name : str
        Name of the argument in messages.

    content : str, default="numbers"
        Expected content, for messages.

    way_out : str
        Advice at the end of messages.

    Returns
    -------
    values : ndarray, DataFrame or sparse matrix
        Frames keep their column names; all other array-likes are returned as arrays.

    Raises
    ------
    ValueError
        If there are strings, masked or complex values, or rows of unequal length.

    TypeError
        If there are dates, durations or other objects.
    """
    if type(values) is np.ndarray and values.dtype.kind in "biuf":
        return values  # resampling checks arrays very often
    check_unmasked(values, name)
    if issparse(values):
        return values
    if not (isinstance(values, np.ndarray) or column_names(values)):
        values = as_array(values, name)
    is_frame = is_instance(values, "pandas", "DataFrame")
    dtypes = list(values.dtypes) if is_frame else [as_array(values, name).dtype]
    error = next(filter(None, map(_error_of_dtype, dtypes)), None)
    if error is None and any(dtype.kind == "O" for dtype in dtypes):
        error = _error_of_objects(as_array(values, name))
    if error is not None:
        kind, problem = error
        raise kind(f"{name} must contain {content}: {problem}. {way_out}")
    return values


def as_numbers(values: Any, name: str) -> Array:
    """Return data that `check_numbers` accepts as a numpy array, objects as float64."""
    array = as_array(check_numbers(values, name), name)
    return array.astype(np.float64) if array.dtype.kind == "O" else array


def _error_of_dtype(dtype: Any) -> Problem:
    """Return the type and message of the error for values of a dtype, or None."""
    if dtype.kind == "c":
        return ValueError, f"Complex data not supported, got {dtype}"
    if dtype.kind in "SUT":
        return ValueError, f"could not convert string to float, got {dtype}"
    if dtype.kind in "Mm" or issubclass(dtype.type, np.void):
        return TypeError, f"{dtype} is not numeric"
    return None


def _error_of_objects(array: Array) -> Problem:
    """Return the error for an array that may contain objects, or None."""
    if array.dtype.kind != "O":  # a pandas column of numeric categories
        return _error_of_dtype(array.dtype)
    for kind in types_of(array):
        if issubclass(kind, str | bytes):
            text = next(one for one in array.flat if isinstance(one, kind))
            return ValueError, f"could not convert string to float: {shown(text)}"
        if issubclass(kind, Complex) and not issubclass(kind, Real):
            return ValueError, f"Complex data not supported, got {kind.__name__}"
        if not issubclass(kind, Real | Decimal | np.bool_ | None):
            must = "float() argument must be a string or a real number"
            return TypeError, f"{must}, not {kind.__name__!r}"
    return None


def types_of(array: Array) -> set[type]:
    """Return the types of the objects in an array."""
    return set(map(type, array.ravel().tolist()))


def shown(value: Any) -> str:
    """Return the representation of a value for a message, shortened if it is long."""
    short = Repr()
    short.maxlevel = DEEPEST
    short.maxlist = short.maxtuple = short.maxset = short.maxdict = MOST_VALUES
    short.maxstring, short.maxother = LONGEST_STRING, LONGEST_VALUE
    text = shorten(short.repr(value))
    is_long = isinstance(value, list | tuple | set | dict) and len(value) > MOST_VALUES
    return f"{text} ({len(value)} in total)" if is_long else text


def shorten(text: str) -> str:
    """Return a text without its middle if it is long."""
    half = LONGEST_TEXT // 2
    return text if len(text) <= LONGEST_TEXT else f"{text[:half]} ... {text[-half:]}"


def first_lines(lines: list[str], rest: str) -> str:
    """Join at most `MOST_LINES` lines, the last of which counts those left out."""
    if len(lines) > MOST_LINES:
        n_more = len(lines) - MOST_LINES + 1
        lines = [*lines[: MOST_LINES - 1], f"... and {n_more} more lines: see {rest}"]
    return "\n".join(lines)


def first_line(error: Exception) -> str:
    """Return the first line of a library's message, without the mark at its end."""
    return shorten(str(error).strip().partition("\n")[0].rstrip(".:"))


def is_plain(values: Any) -> bool:
    """Whether values are a matrix of finite floats, as `check_array` returns them.

    Its checks take longer than a calibrator needs for few samples.
    """
    if type(values) is not np.ndarray or values.ndim != 2 or not values.size:
        return False
    if values.dtype not in (np.float64, np.float32):
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(values.sum()))


def read_only(array: Array) -> Array:
    """Return a view of an array that cannot be changed."""
    view = array.view()
    view.flags.writeable = False
    return view


def row_blocks(n_rows: int, n_columns: int, at_least: int = 1) -> Iterator[slice]:
    """Yield slices of consecutive rows that fit in the cache, or of `at_least` rows."""
    step = max(at_least, BLOCK_SIZE // max(1, n_columns))
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


def is_array_api(array: Any) -> bool:
    """Whether scikit-learn would dispatch on an array that numpy cannot read in place.

    Tensors on the CPU are not such arrays: the functions for numpy read their memory,
    and are faster than torch there.
    """
    is_read_in_place = isinstance(array, np.ndarray) or is_cpu_tensor(array)
    if is_read_in_place or not get_config()["array_api_dispatch"]:
        return False
    return hasattr(array, "device") and get_namespace(array)[1]


def as_real(array: Any, name: str) -> tuple[Any, Any, float]:
    """Return the namespace, an array of real numbers without gradient, and its eps."""
    xp, _ = get_namespace(array)
    if not xp.isdtype(array.dtype, ("bool", "integral", "real floating")):
        raise ValueError(
            f"{name} must contain real numbers: Complex data not supported, got "
            f"{array.dtype}. Convert your data to numeric values explicitly."
        )
    is_floating = xp.isdtype(array.dtype, "real floating")
    eps = float(xp.finfo(array.dtype).eps) if is_floating else 0.0
    return xp, without_gradient(array), eps


def on_cpu(array: Any) -> Any:
    """Return an array of another device as a numpy array, a tensor without gradient.

    Other values are unchanged.
    """
    array = without_gradient(array)
    if is_array_api(array):
        return convert_to_numpy(array, get_namespace(array)[0])
    return array
