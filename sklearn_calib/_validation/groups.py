"""Groups of samples, such as those defined by a sensitive feature."""

from collections.abc import Mapping, Set
from numbers import Integral
from typing import Any

import numpy as np
from scipy.sparse import issparse

from sklearn_calib._validation.arrays import (
    as_array,
    check_unmasked,
    is_dict,
    is_instance,
    on_cpu,
    shown,
)
from sklearn_calib._validation.declarations import did_you_mean
from sklearn_calib._validation.labels import one_column
from sklearn_calib._validation.types import Array, Ints


def group_members(groups: Any, n_samples: int) -> dict[Any, Any]:
    """Return the indices of the samples of each group, by name or tuple of names."""
    frame = group_frame(groups, n_samples)
    values = distinct_values(frame)
    codes = encode_groups(frame, values)
    distinct, index = np.unique(codes, axis=0, return_inverse=True)
    columns = [[*known.tolist(), np.nan] for known in values]
    names: list[Any] = [
        tuple(column[code] for column, code in zip(columns, row, strict=True))
        for row in distinct.tolist()
    ]
    if len(columns) == 1:
        names = [name for (name,) in names]
    if "overall" in names:
        raise ValueError(
            'groups must not contain the name "overall", which stands for all samples '
            f"in the table, got {shown(names)}. Rename that group."
        )
    ends = np.cumsum(np.bincount(index.ravel()))[:-1]
    members = np.split(np.argsort(index.ravel(), kind="stable"), ends)
    return dict(zip(names, members, strict=True))


def group_frame(groups: Any, n_samples: int) -> Any:
    """Return groups as a DataFrame with one row for each of the samples."""
    frame = _as_frame(groups)
    if len(frame) != n_samples:
        raise ValueError(
            "groups must contain one group for each sample, got "
            f"{len(frame)} groups and {n_samples} samples. Pass the groups of these "
            "samples."
        )
    if not frame.shape[1]:
        raise ValueError(
            f"groups must have at least one column, got shape {frame.shape}. Pass the "
            "group of each sample."
        )
    return frame


def select_columns(X: Any, columns: Any) -> Any:
    """Return columns of X as a DataFrame of groups.

    Parameters
    ----------
    X : array-like, sparse matrix, DataFrame or dict
        Data with columns. A dict contains columns by name.

    columns : str, int or sequence of these
        Names of columns, or indices, which may be negative.
    """
    import pandas as pd

    wanted = columns if isinstance(columns, list | tuple) else [columns]
    if not wanted:
        raise ValueError(
            f"groups must be None or contain a column of X, got {shown(columns)}. Use "
            "None if there are no groups."
        )
    if is_instance(X, "pyarrow", "Table"):
        X = dict(zip(X.column_names, X.columns, strict=True))
    if not (is_dict(X) or hasattr(X, "shape")):
        X = as_array(X, "X")
    if not is_dict(X) and len(X.shape) != 2:
        raise ValueError(
            "X must have columns if groups are selected from them, got shape "
            f"{tuple(X.shape)}. Reshape your data, or use groups=None, and pass the "
            "groups to the methods."
        )
    names = list(X if is_dict(X) else getattr(X, "columns", range(X.shape[1])))
    if not names:  # scikit-learn's wording
        raise ValueError(
            f"Found array with 0 feature(s) (shape={X.shape}) while a minimum of 1 is "
            "required to select groups."
        )
    places = [_place(names, each) for each in wanted]
    # The names of several columns may be equal.
    return pd.concat([_column(X, names, place) for place in places], axis=1)


def _place(names: list[Any], wanted: Any) -> int:
    """Return the index of a column, from its name or index."""
    if isinstance(wanted, str) and wanted in names:
        return names.index(wanted)
    is_index = isinstance(wanted, Integral) and not isinstance(wanted, bool)
    if is_index and -len(names) <= wanted < len(names):
        return int(wanted) % len(names)
    known = [name for name in names if isinstance(name, str)]
    raise ValueError(
        f"groups must be columns of X, got {shown(wanted)}, and X has {len(names)} "
        f"columns {'with' if known else 'without'} names. Pass a name, an index, or a "
        f"list of these.{did_you_mean(wanted, known)}"
    )


def _column(X: Any, names: list[Any], place: int) -> Any:
    """Return a column as a Series with its name."""
    import pandas as pd

    if hasattr(X, "iloc"):
        return X.iloc[:, place].reset_index(drop=True)
    if issparse(X):
        values = X.tocsc()[:, [place]].toarray().ravel()
    else:
        values = X[names[place]] if is_dict(X) else X[:, place]
    return pd.Series(one_column(as_array(values, "X"), "X"), name=names[place])


def distinct_values(frame: Any) -> list[Array]:
    """Return the distinct values of each column, sorted and without missing values."""
    return [
        _sorted(_factorize(frame.iloc[:, j])[1].tolist()) for j in range(frame.shape[1])
    ]


def _sorted(values: list[Any]) -> Array:
    """Return sorted values as an array of objects."""
    try:
        values.sort()
    except TypeError:  # values of several types
        values.sort(key=lambda value: (type(value).__name__, str(value)))
    # From a list of tuples or intervals, numpy would make several dimensions.
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def encode_groups(frame: Any, values: list[Array]) -> Ints:
    """Return the index of each value of a DataFrame in the values of its column.

    A missing value has the index `len(values)` of its column, and an unknown one -1.
    """
    codes = np.empty(frame.shape, dtype=np.int64)
    for j, known in enumerate(values):
        index = {value: code for code, value in enumerate(known.tolist())}
        own, distinct = _factorize(frame.iloc[:, j])
        found = [index.get(value, -1) for value in distinct.tolist()]
        codes[:, j] = np.array([*found, len(known)])[own]
    return codes


def _factorize(column: Any) -> tuple[Ints, Any]:
    """Return the codes and the distinct values; missing values have the code -1."""
    try:
        return column.factorize()
    except TypeError as error:
        raise TypeError(
            "groups must contain hashable values, such as str or int, got "
            f"{error}. Convert them to str."
        ) from None


def _as_frame(groups: Any) -> Any:
    """Return groups as a DataFrame with one row for each sample."""
    import pandas as pd

    check_unmasked(groups, "groups")
    members = groups if isinstance(groups, list | tuple) else ()
    # pandas would interpret their items as columns.
    odd = [
        f"a {type(each).__name__}"
        for each in (groups, *members)
        if isinstance(each, Mapping | Set) or issparse(each)
    ]
    if groups is None or np.isscalar(groups):
        odd = [repr(groups)]
    if odd:
        raise TypeError(
            "groups must be array-like of shape (n_samples,) or (n_samples, "
            f"n_features), got {odd[0]}. Pass a list, an array or a DataFrame with a "
            "row for each sample."
        )
    lengths = {len(each) for each in members if isinstance(each, list | tuple)}
    if len(lengths) > 1:
        raise ValueError(
            "groups must have rows of equal length, got rows of "
            f"{' and '.join(map(str, sorted(lengths)))}. Pass one row for each sample."
        )
    try:
        return pd.DataFrame(on_cpu(groups))
    except ValueError as error:
        raise ValueError(
            "groups must have shape (n_samples,) or (n_samples, n_features), got "
            f"another shape: {error}. Pass one row for each sample."
        ) from None
