"""Samples of groups, such as those of a sensitive feature."""

from collections.abc import Mapping, Set

import numpy as np

from sklearn_calib._core.arrays import check_unmasked, without_gradient


def group_members(groups, n_samples):
    """Return the samples of each group, by its name or its tuple of names."""
    import pandas as pd

    frame = _as_frame(groups)
    if len(frame) != n_samples:
        raise ValueError(
            "groups must hold one group for each sample, got "
            f"{len(frame)} groups and {n_samples} samples. Pass those of the same "
            "samples."
        )
    try:
        codes, names = pd.MultiIndex.from_frame(frame).factorize(sort=True)
    except TypeError as error:
        raise TypeError(
            "groups must hold names that can be told apart and sorted, such as "
            f"str or int, got {error}. Convert them to str."
        ) from None
    if frame.shape[1] == 1:
        names = names.get_level_values(0)
    if "overall" in names.tolist():
        raise ValueError(
            'groups must not hold the name "overall", which all samples have in the '
            f"table, got {names.tolist()}. Rename that group."
        )
    return {name: np.flatnonzero(codes == code) for code, name in enumerate(names)}


def _as_frame(groups):
    """Return groups as a DataFrame, of which each row is a group."""
    import pandas as pd

    check_unmasked(groups, "groups")
    members = groups if isinstance(groups, list | tuple) else ()
    # pandas would take their items for columns.
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
            "groups must be of shape (n_samples,) or (n_samples, n_features), got an "
            f"array of another: {error}. Pass one row for each sample."
        ) from None
