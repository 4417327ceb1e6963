"""Dask arrays block by block: lazy predictions, and sums that are added as a tree.

Dask is only imported for Dask arrays, which exist only if it is installed.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial, wraps
from typing import Any, cast

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from sklearn_calib._validation.arrays import (
    as_array,
    as_numbers,
    check_in_memory,
    is_dask_array,
)
from sklearn_calib._validation.labels import as_labels, one_column
from sklearn_calib._validation.probabilities import as_proba_numbers, warn_of_labels
from sklearn_calib._validation.types import Array, Function, Options

# Conversion of arrays in memory.
CONVERT = {
    "groups": as_array,
    "sample_weight": as_numbers,
    "y_proba": as_proba_numbers,
    "y_true": as_labels,
}


def maps_blocks(*, keeps_float32: bool = False) -> Callable[[Function], Function]:
    """Decorate `predict` or `predict_proba` such that Dask arrays are predicted lazily.

    Parameters
    ----------
    keeps_float32 : bool, default=False
        Whether probabilities for float32 input are float32. Otherwise, those of Dask
        arrays are always float64.
    """

    def decorate(method: Function) -> Function:
        @wraps(method)
        def mapping(self: Any, X: Any, **params: Any) -> Any:
            if not is_dask_array(X):
                check_in_memory(X, "X", "Pass an array: X.to_dask_array().")
                return method(self, X, **params)
            if params:
                raise TypeError(
                    "X must be in memory if other arguments are passed, got a Dask "
                    f"array and {sorted(params)}. Pass numpy arrays, or select groups "
                    "from the columns of X."
                )
            check_is_fitted(self)
            if X.ndim > 1:
                validate_data(self, X, reset=False, skip_check_array=True)
            keeps = keeps_float32 and X.dtype == np.float32
            empty = _empty(self.classes_, method.__name__, "f4" if keeps else "f8")
            return _map_blocks(mapping, self, X, empty)

        return cast(Function, mapping)

    return decorate


def _empty(classes: Any, method: str, dtype: str) -> Array:
    """Return the prediction of no samples; multilabel problems have a list of classes.

    Predictions of multilabel problems have one column for each label, others one for
    each class.
    """
    if method == "predict" and not isinstance(classes, list):
        return classes[:0]
    return np.empty((0, len(classes)), "i8" if method == "predict" else dtype)


def _map_blocks(method: Any, estimator: Any, X: Any, empty: Array) -> Any:
    """Return the predictions as a lazy Dask array with the blocks of rows of `X`."""
    from dask.array import blockwise

    # Otherwise, fitting the estimator again would change what is still to be computed.
    frozen = copy.copy(estimator)
    # Dask hashes functions of a module faster than those that are defined here.
    predict = partial(_predict_block, method, frozen, empty)
    new_axes = dict(enumerate(empty.shape[1:], start=X.ndim))
    options: Options = {"new_axes": new_axes, "concatenate": True, "meta": empty}
    return blockwise(predict, (0, *new_axes), X, tuple(range(X.ndim)), **options)


def _predict_block(method: Any, estimator: Any, empty: Array, rows: Any) -> Array:
    if not len(rows):
        return empty
    return method(estimator, rows).astype(empty.dtype, copy=False)


def sum_of_blocks(state_of: Callable[..., Any], arrays: dict[str, Any]) -> Any:
    """Return the sum of the states of all blocks of rows, added as a tree.

    Parameters
    ----------
    state_of : callable
        Returns the state of a block, called with a part of each array by name. States
        can be added.

    arrays : dict of str to Dask array, array-like or None
        Arrays of the same samples, at least one of them a Dask array.

    Raises
    ------
    TypeError, ValueError
        If `state_of` raises it. The message starts with the number of the block.
    """
    from dask.array import asarray, blockwise

    given = {
        name: _lazy_or_numpy(array, name)
        for name, array in arrays.items()
        if array is not None
    }
    lengths = [array.shape[0] for array in given.values()]
    # Dask arrays may have an unknown number of rows, NaN.
    if len({length for length in lengths if not np.isnan(length)}) > 1:
        raise ValueError(
            f"{' and '.join(given)} must have one row for each sample, got "
            f"{' and '.join(map(str, lengths))} rows. Pass them for the same samples."
        )

    # Rows have the index 0; the columns of each array have an index of their own.
    pairs: list[Any] = []
    for column, array in enumerate(given.values(), start=1):
        pairs += [asarray(array, chunks=-1), (0, column)[: array.ndim]]
    options: Options = {"concatenate": True, "meta": np.empty(0, object)}
    # The function is sent to the workers, without the arrays. Dask hashes a function of
    # a module faster than one that is defined here.
    state_array = partial(_state_array, state_of, [*given])
    states = blockwise(state_array, (0,), *pairs, adjust_chunks={0: 1}, **options)
    states = states.map_blocks(_raise_error, meta=np.empty(0, object))
    return states.sum().compute()


def _state_array(state_of: Callable[..., Any], names: list[str], *block: Any) -> Array:
    """Return the state of a block, or the error, in an array."""
    state = np.empty(1, object)
    try:
        state[0] = state_of(**dict(zip(names, block, strict=True)))
    except (TypeError, ValueError) as error:
        state[0] = error
    return state


def _raise_error(state: Array, block_id: tuple[int, ...]) -> Array:
    """Return the state of a block; raise its error with the number of the block."""
    error = state[0]
    if isinstance(error, TypeError | ValueError):
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"Block {block_id[0]} of the Dask arrays: {error}") from error
    return state


def lazy_columns(y_proba: Any) -> Any:
    """Return probabilities as a Dask or numpy array; a single column is flattened."""
    y_proba = _lazy_or_numpy(y_proba, "y_proba")
    is_column = y_proba.ndim == 2 and y_proba.shape[1] == 1
    return y_proba[:, 0] if is_column else y_proba


def labels_of_blocks(y_true: Any) -> Array:
    """Return the sorted distinct labels of a Dask array or an array-like."""
    from dask.array import unique

    values = _lazy_or_numpy(y_true, "y_true")
    return unique(values).compute() if is_dask_array(values) else np.unique(values)


def _lazy_or_numpy(values: Any, name: str) -> Any:
    """Return a Dask array unchanged, and other values as a numpy array."""
    is_vector = name in ("y_true", "sample_weight")
    if not is_dask_array(values):
        values = CONVERT[name](values, name)
    elif name == "y_proba" and values.dtype.kind in "biu" and not values.shape[2:]:
        if values.shape[1:] in ((), (1,)):
            warn_of_labels(name)  # other integers than 0 and 1 are refused
        values = values.astype(np.float64)
    if name == "y_true":
        return one_column(values)
    if values.ndim == 1 or (values.ndim == 2 and not is_vector):
        return values
    shape = "(n_samples,)" + " or (n_samples, n_columns)" * (not is_vector)
    raise ValueError(
        f"{name} must have shape {shape}, got {values.shape}. Pass one row for each "
        "sample."
    )
