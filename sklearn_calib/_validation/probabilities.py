"""Input validation: probabilities, labels, sample weights and names."""

import inspect
import warnings
from collections.abc import Callable, Iterable, Iterator
from difflib import get_close_matches
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn import get_config
from sklearn.utils import check_array
from sklearn.utils._array_api import _convert_to_numpy, device, get_namespace
from sklearn.utils._param_validation import (
    HasMethods,
    Interval as NumericInterval,
    Options,
    StrOptions,
    validate_params as validate_sklearn_params,
)
from sklearn.utils.validation import _check_sample_weight

from sklearn_calib._validation.arrays import (
    as_labels,
    as_numbers,
    check_in_memory,
    check_numbers,
    is_cpu_tensor,
    shown,
    without_gradient,
)
from sklearn_calib._validation.limits import (
    NEGLIGIBLE,
    ROW_SUM_TOLERANCE,
    check_range,
    check_row_sums,
    check_weight_range,
    tolerance_of,
    weight_factor,
)
from sklearn_calib._validation.types import Array, Floats, Function, Ints, Weights

__all__ = [
    "HasMethods",
    "Interval",
    "Options",
    "StrOptions",
    "as_proba_array",
    "as_proba_numbers",
    "check_dispatch",
    "check_proba",
    "check_proba_shape",
    "check_sample_weight",
    "convert_to_numpy",
    "device",
    "did_you_mean",
    "distinct_labels",
    "encode_labels",
    "get_namespace",
    "is_array_api",
    "one_column",
    "proba_blocks",
    "row_blocks",
    "validate_params",
    "warn_of_predicted_labels",
]

convert_to_numpy = _convert_to_numpy

# Number of elements of a block that fits in a second-level cache: 512 KiB of doubles.
BLOCK_SIZE = 65536

# With fewer samples, all probabilities may well be exactly 0 or 1.
FEWEST_LABELS = 10

# For up to about this many columns, numpy is faster on arrays in Fortran order.
FEW_COLUMNS = 20


class Interval(NumericInterval):
    """scikit-learn's `Interval`, except that booleans are not accepted as integers."""

    def is_satisfied_by(self, val: Any) -> bool:
        return not isinstance(val, bool) and super().is_satisfied_by(val)


def validate_params(
    constraints: Options, *, prefer_skip_nested_validation: bool
) -> Callable[[Function], Function]:
    """Return scikit-learn's decorator, with types that keep those of the function.

    The signature is read once instead of at each call.
    """
    validate = validate_sklearn_params(
        constraints, prefer_skip_nested_validation=prefer_skip_nested_validation
    )

    def decorate(function: Function) -> Function:
        setattr(function, "__signature__", inspect.signature(function))  # noqa: B010
        return validate(function)

    return decorate


def did_you_mean(name: object, names: Iterable[Any]) -> str:
    """Return " Did you mean 'x'?" for the closest of `names`, or an empty string."""
    close = get_close_matches(str(name), [str(known) for known in names], n=1)
    return f" Did you mean {close[0]!r}?" if close else ""


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
    if not get_config()["array_api_dispatch"] or is_read_in_place:
        return False
    return hasattr(array, "device") and get_namespace(array)[1]


def check_dispatch(array: Any, name: str, way_out: str = "Move it to the CPU.") -> None:
    """Raise TypeError for an array on another device where numpy is required."""
    if is_array_api(array):
        raise TypeError(
            f"{name} must be a numpy array or a tensor on the CPU here, even with "
            f"array_api_dispatch=True, got {type(array).__name__} on "
            f"{device(array)}. {way_out}"
        )


def check_proba(proba: Any, *, name: str = "y_proba", allow_1d: bool = False) -> Floats:
    """Return probabilities as a float array after checking all values.

    Values that rounding has left outside of [0, 1] are clipped; the array is only
    copied if there are any.

    Parameters
    ----------
    proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Probabilities; a 1-d array contains those of the positive class.

    name : str, default="y_proba"
        Name of the argument in messages.

    allow_1d : bool, default=False
        Whether to accept the probabilities of the positive class alone, with shape
        (n_samples,) or (n_samples, 1).

    Returns
    -------
    proba : ndarray of shape (n_samples, n_classes) or (n_samples,)
        Probabilities in [0, 1], in float32 if the input is, otherwise in float64. A
        single column is returned as a 1-d array.

    Raises
    ------
    ValueError
        If the shape is wrong, a value is not in [0, 1], or a row does not sum to one.
        The tolerance is `ROW_SUM_TOLERANCE`; for values that are exact in half
        precision (float16 or bfloat16), it is `n_classes` times its eps, at most 0.01.
    """
    proba = as_proba_array(proba, name=name, allow_1d=allow_1d)
    for _ in proba_blocks(proba, name=name):
        pass
    return proba


def as_proba_array(
    proba: Any, *, name: str = "y_proba", allow_1d: bool = False
) -> Floats:
    """Return probabilities as `check_proba`; row sums are left to `proba_blocks`."""
    proba = check_proba_shape(proba, name=name, allow_1d=allow_1d)
    return _within_range(proba, name)


def check_proba_shape(
    proba: Any, *, name: str = "y_proba", allow_1d: bool = False
) -> Floats:
    """Return probabilities as a float array without checking the values."""
    accumulator = "a CalibrationAccumulator with it"
    check_dispatch(proba, name, f"Move it to the CPU, or update {accumulator}.")
    check_in_memory(proba, name, f"Update {accumulator}, or call compute().")
    way_out = "Pass the output of predict_proba, not of predict."
    numbers = check_numbers(proba, name, content="probabilities", way_out=way_out)
    proba = numbers if is_float_array(numbers) else _as_floats(numbers, name, way_out)
    if allow_1d and (proba.ndim == 1 or proba.shape[1:] == (1,)):
        warn_of_predicted_labels(numbers, name)
        return proba.reshape(-1)
    if proba.ndim == 2 and proba.shape[1] > 1:
        return proba
    also = ", or (n_samples,) for those of the positive class" if allow_1d else ""
    raise ValueError(
        f"{name} must be probabilities of shape (n_samples, n_classes) with at least "
        f"two classes{also}, got shape {proba.shape}. Pass the output of predict_proba."
    )


def _as_floats(numbers: Any, name: str, way_out: str) -> Floats:
    """Return numbers as a float array of any shape."""
    try:
        return check_array(
            numbers,
            dtype=[np.float64, np.float32],
            ensure_2d=False,
            allow_nd=True,
            ensure_all_finite=False,
            input_name=name,
        )
    except ValueError as error:
        raise ValueError(
            f"{name} must contain probabilities: {str(error).rstrip('.')}. {way_out}"
        ) from None


def is_float_array(values: Any) -> bool:
    """Return whether `check_array` would return the values as they are.

    Resampling calls a metric so often that `check_array` takes half of its time.
    """
    is_plain = type(values) is np.ndarray and values.ndim > 0 and values.size > 0
    return is_plain and values.dtype in (np.float64, np.float32)


def warn_of_predicted_labels(
    values: Any, name: str, response: str = "predict_proba(X)[:, 1]"
) -> bool:
    """Warn if a single column contains predicted labels; return whether it does.

    These are booleans, or the integers 0 and 1. Floats may well be probabilities, such
    as those of fully grown trees.
    """
    values = np.asarray(without_gradient(values))
    kind, is_column = values.dtype.kind, values.shape[1:] in ((), (1,))
    if kind not in "biuO" or not is_column or values.size < FEWEST_LABELS:
        return False
    if kind == "O" and not all(isinstance(v, Integral | np.bool_) for v in values.flat):
        return False
    if values.min() < 0 or values.max() > 1:
        return False
    warn_of_labels(name, response)
    return True


def warn_of_labels(name: str, response: str = "predict_proba(X)[:, 1]") -> None:
    """Warn of an argument that contains predicted labels."""
    warnings.warn(
        f"{name} must contain probabilities, got only integers 0 and 1 or booleans, "
        f"which look like predicted labels. Pass {response} instead of predict(X); if "
        "they are probabilities, convert them to float.",
        UserWarning,
    )


def as_proba_numbers(proba: Any, name: str) -> Array:
    """Return numbers as an array, predicted labels as floats after a warning."""
    proba = as_numbers(proba, name)
    is_labels = warn_of_predicted_labels(proba, name)
    return proba.astype(np.float64) if is_labels else proba


def _within_range(proba: Floats, name: str) -> Floats:
    """Clip values outside of [0, 1] by rounding errors; raise ValueError for others."""
    # As unsigned integers, the bits of floats from 0 to 1 have the same order as the
    # floats, and those of all other floats (and of -0.0) are larger. One maximum takes
    # half the time of a minimum and a maximum.
    bits, one = proba.view(f"u{proba.itemsize}"), np.ones(1, proba.dtype)
    if bits.max() <= one.view(bits.dtype)[0]:
        return proba
    low, high = proba.min(), proba.max()
    if low >= 0 and high <= 1:
        return proba
    n_classes = 2 if proba.ndim == 1 else proba.shape[1]
    tolerance = tolerance_of(proba[(proba < 0) | (proba > 1)], n_classes)
    check_range(low, high, name, tolerance)
    return proba.clip(0, 1)


def proba_blocks(
    proba: Floats, *, name: str = "y_proba"
) -> Iterator[tuple[slice, Floats]]:
    """Yield slices of rows and these rows, after checking their sums.

    `proba` is the output of `as_proba_array`. Blocks with few columns are copies in
    Fortran order, others are in C order.
    """
    for rows in row_blocks(len(proba), proba[0].size):
        block = proba[rows]
        if block.ndim == 2:
            few = block.shape[1] <= FEW_COLUMNS
            block = np.asarray(block, order="F" if few else "C")
            totals = np.einsum("ij->i", block)
            low, high = totals.min(), totals.max()
            if max(1 - low, high - 1) > ROW_SUM_TOLERANCE:
                off = block[np.abs(totals - 1) > ROW_SUM_TOLERANCE]
                check_row_sums(low, high, name, tolerance_of(off, off.shape[1]))
        yield rows, block


def check_sample_weight(sample_weight: ArrayLike | None, X: Any) -> Weights:
    """Return non-negative weights as a float array, one for each row of `X`, or None.

    Extreme weights are scaled, see `weight_factor`, and negligible ones become zero.
    """
    if sample_weight is None:
        return None
    weight: Any = check_numbers(sample_weight, "sample_weight")
    is_checked = (
        is_float_array(weight)
        and type(X) is np.ndarray
        and weight.shape == X.shape[:1]
        and weight.flags.c_contiguous
        and np.isfinite(weight).all()
        and weight.any()
    )
    if not is_checked:
        weight = _check_sample_weight(weight, X)
    low, high = weight.min(), weight.max()
    check_weight_range(low, high)
    weight, factor = weight.astype(np.float64, copy=False), weight_factor(high)
    least = high * NEGLIGIBLE
    if low < least:
        weight = np.where(weight < least, 0, weight)
    return weight if factor == 1 else weight * factor


def encode_labels(
    y: Any, *, labels: ArrayLike | None = None, n_classes: int, name: str = "y_true"
) -> Ints:
    """Return the column of each label, as int64 from 0 to n_classes - 1.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        Labels of any kind that can be sorted.

    labels : array-like of shape (n_classes,), default=None
        Class label of each column. By default, the sorted distinct values of `y`; there
        must be exactly `n_classes` of them.

    n_classes : int
        Number of columns.

    name : str, default="y_true"
        Name of `y` in messages.

    Returns
    -------
    codes : ndarray of shape (n_samples,), dtype int64
        Column indices.

    Raises
    ------
    ValueError
        If `y` contains labels that are not in `labels`, the number of labels is not
        `n_classes`, or `labels` contains duplicates.

    TypeError
        If labels of several types are mixed.
    """
    y = _label_array(y, name)
    present, codes = _distinct(y, name)
    if labels is None:
        _check_label_count(present, n_classes, name)
        return codes
    column = _columns_by_label(labels, n_classes)
    if n_classes > 2 and y.dtype.kind == "b":
        raise TypeError(
            f"{name} must contain only the labels {shown(list(column))}, got booleans, "
            "which are labels of binary problems. Pass the class label of each sample."
        )
    unknown = [label for label in present if label not in column]
    if unknown:
        way_out = (
            "Pass labels=estimator.classes_, and train the classifier on data that "
            "contain all classes."
            if name == "y_true"
            else "Remove these samples, or fit again with all classes."
        )
        raise ValueError(
            f"{name} must contain only the labels {shown(list(column))}, got also "
            f"{shown(unknown)}. {way_out}"
        )
    columns = np.array([column[label] for label in present], dtype=np.int64)
    in_place = np.array_equal(columns, np.arange(len(columns)))
    return codes if in_place else columns[codes]


def distinct_labels(y: Any, name: str) -> tuple[list[Any], Ints]:
    """Return the sorted distinct labels as a list, and each sample's index in it."""
    return _distinct(_label_array(y, name), name)


def _label_array(y: Any, name: str) -> Array:
    """Return labels as a 1-d array without missing values."""
    y = one_column(as_labels(y, name), name)
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        raise ValueError(
            f"{name} must not contain missing values, got NaN or infinity. Remove "
            "these samples."
        )
    return y


def one_column(y: Any, name: str = "y_true") -> Any:
    """Return a 1-d array of any library; a single column is flattened."""
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1:
        raise ValueError(
            f"{name} should be a 1d array, got an array of shape {tuple(y.shape)} "
            "instead. Pass one class label for each sample, not indicators."
        )
    return y


def _distinct(y: Array, name: str) -> tuple[list[Any], Ints]:
    """Return the sorted distinct labels as a list, and each sample's index in it."""
    if y.dtype.kind in "iub" and y.size:
        low, high = int(y.min()), int(y.max())
        fits = high <= np.iinfo(np.int64).max
        if fits and high - low < len(y) + 1000:
            return _distinct_integers(y, low)
    values = y.tolist()
    try:
        present = sorted(set(values))
    except TypeError as error:
        kinds = sorted({type(value).__name__ for value in values})
        raise TypeError(
            f"{name} must contain labels of one type that can be sorted, got "
            f"{' and '.join(kinds)}. Convert them to str, and remove missing values."
        ) from error
    index = {label: code for code, label in enumerate(present)}
    return present, np.fromiter(map(index.__getitem__, values), np.int64, len(values))


def _distinct_integers(y: Array, low: int) -> tuple[list[Any], Ints]:
    """Return the same for integers, by counting: forty times faster for 1e6 labels."""
    codes = y.astype(np.int64, copy=False)
    if low:
        codes = codes - low
    is_present = np.bincount(codes) > 0
    present = (np.flatnonzero(is_present) + low).tolist()
    if not is_present.all():
        codes = (np.cumsum(is_present) - 1)[codes]
    return present, codes


def _check_label_count(present: list[Any], n_classes: int, name: str) -> None:
    """Raise ValueError if the labels do not determine the columns."""
    if len(present) != n_classes:
        raise ValueError(
            f"{name} must contain {n_classes} distinct labels, one for each class of "
            f"the probabilities, got {shown(present)}. Pass labels= with the "
            "label of each column, such as estimator.classes_."
        )


def _columns_by_label(labels: Any, n_classes: int) -> dict[Any, int]:
    """Return a dict that maps each label to its column."""
    array = as_labels(labels, "labels")
    labels = array.tolist()
    if array.ndim == 1:
        _distinct(_label_array(array, "labels"), "labels")
        column = {label: code for code, label in enumerate(labels)}
        if len(labels) == len(column) == n_classes:
            return column
    raise ValueError(
        f"labels must contain {n_classes} distinct labels, one for each class of the "
        f"probabilities, got {shown(labels)}. Pass them in the order of the columns, "
        "such as estimator.classes_."
    )
