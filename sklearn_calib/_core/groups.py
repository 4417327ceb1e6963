"""Groups of samples, such as those defined by a sensitive feature."""

from collections.abc import Mapping, Set
from typing import Any

import numpy as np

from sklearn_calib._core.arrays import check_unmasked, without_gradient


def group_members(groups: Any, n_samples: int) -> dict[Any, Any]:
    """Return the indices of the samples of each group, by name or tuple of names."""
    import pandas as pd

    frame = _as_frame(groups)
    if len(frame) != n_samples:
        raise ValueError(
            "groups must contain one group for each sample, got "
            f"{len(frame)} groups and {n_samples} samples. Pass the groups of these "
            "samples."
        )
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
