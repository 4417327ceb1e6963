"""Groups of samples, such as those defined by a sensitive feature."""

from collections.abc import Mapping, Set
from typing import Any

import numpy as np

from sklearn_calib._core.arrays import check_unmasked, without_gradient
from sklearn_calib._core.typing import Array, Ints


def group_members(groups: Any, n_samples: int) -> dict[Any, Any]:
    """Return the indices of the samples of each group, by name or tuple of names."""
    import pandas as pd

    frame = group_frame(groups, n_samples)
    try:
        codes, names = pd.MultiIndex.from_frame(frame).factorize(sort=True)
    except TypeError as error:
        raise TypeError(
            "groups must contain names that can be compared and sorted, such as "
            f"str or int, got {error}. Convert them to str."
        ) from None
    if frame.shape[1] == 1:
        names = names.get_level_values(0)
    if "overall" in names.tolist():
        raise ValueError(
            'groups must not contain the name "overall", which stands for all samples '
            f"in the table, got {names.tolist()}. Rename that group."
        )
    return {name: np.flatnonzero(codes == code) for code, name in enumerate(names)}


def group_frame(groups: Any, n_samples: int) -> Any:
    """Return groups as a DataFrame with one row for each of the samples."""
    frame = _as_frame(groups)
    if len(frame) != n_samples:
        raise ValueError(
            "groups must contain one group for each sample, got "
            f"{len(frame)} groups and {n_samples} samples. Pass the groups of these "
            "samples."
        )
    return frame


def distinct_values(frame: Any) -> list[Array]:
    """Return the distinct values of each column, sorted and without missing values."""
    return [_sorted(frame.iloc[:, j].dropna()) for j in range(frame.shape[1])]


def _sorted(column: Any) -> Array:
    """Return the sorted distinct values of a column as an array of objects."""
    try:
        values = column.unique().tolist()
    except TypeError as error:
        raise TypeError(
            "groups must contain hashable values, such as str or int, got "
            f"{error}. Convert them to str."
        ) from None
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
        column = frame.iloc[:, j]
        try:
            own, distinct = column.factorize()
        except TypeError:  # a list, for example, is no known value
            codes[:, j] = -1
            continue
        found = [index.get(value, -1) for value in distinct.tolist()]
        codes[:, j] = np.array([*found, len(known)])[own]
    return codes


def _as_frame(groups: Any) -> Any:
    """Return groups as a DataFrame with one row for each sample."""
    import pandas as pd

    check_unmasked(groups, "groups")
    members = groups if isinstance(groups, list | tuple) else ()
    # pandas would interpret their items as columns.
    odd = [each for each in (groups, *members) if isinstance(each, Mapping | Set)]
    if odd:
        raise TypeError(
            "groups must be array-like of shape (n_samples,) or (n_samples, "
            f"n_features), got a {type(odd[0]).__name__}. Pass a list, an array or a "
            "DataFrame with a row for each sample."
        )
    lengths = {len(each) for each in members if isinstance(each, list | tuple)}
    if len(lengths) > 1:
        raise ValueError(
            "groups must have rows of equal length, got rows of "
            f"{' and '.join(map(str, sorted(lengths)))}. Pass one row for each sample."
        )
    try:
        return pd.DataFrame(without_gradient(groups))
    except ValueError as error:
        raise ValueError(
            "groups must have shape (n_samples,) or (n_samples, n_features), got "
            f"another shape: {error}. Pass one row for each sample."
        ) from None
