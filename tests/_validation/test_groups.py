"""Groups as codes, and columns of X."""

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import coo_matrix, csr_array

from sklearn_calib._validation.groups import (
    distinct_values,
    encode_groups,
    group_frame,
    group_members,
    select_columns,
)


def test_codes_of_known_missing_and_unknown_values():
    frame = group_frame([["b", 2], ["a", None], [None, 1], ["b", 1]], 4)
    values = distinct_values(frame)
    assert [each.tolist() for each in values] == [["a", "b"], [1, 2]]
    expected = [[1, 1], [0, 2], [2, 0], [1, 0]]
    np.testing.assert_array_equal(encode_groups(frame, values), expected)
    new = group_frame([["c", 1.0], [np.nan, "1"], ["b", True]], 3)
    np.testing.assert_array_equal(
        encode_groups(new, values), [[-1, 0], [2, -1], [1, 0]]
    )
    with pytest.raises(TypeError, match=r"must contain hashable values.*'list'"):
        encode_groups(group_frame([[["b"], 1], ["b", 1]], 2), values)
    mixed = distinct_values(group_frame(np.array([2, "b", 10, "a"], dtype=object), 4))
    assert mixed[0].tolist() == [10, 2, "a", "b"]
    assert distinct_values(group_frame([None, np.nan], 2))[0].size == 0


def test_members_are_sorted_with_missing_values_last():
    groups = [["b", None], ["a", 2], ["b", 1], [None, 1], ["a", None], ["a", 2]]
    members = group_members(pd.DataFrame(groups).convert_dtypes(), 6)
    assert [str(name) for name in members] == [
        *("('a', 2)", "('a', nan)", "('b', 1)", "('b', nan)", "(nan, 1)")
    ]
    assert [rows.tolist() for rows in members.values()] == [[1, 5], [4], [2], [0], [3]]


def test_many_groups_take_linear_time():
    members = group_members(np.arange(20_000)[::-1], 20_000)
    assert members[0].tolist() == [19_999]


@pytest.mark.parametrize("groups", [None, "site", 3, np.float32(3), {"a": [1]}, [{1}]])
def test_groups_must_be_array_like(groups):
    with pytest.raises(TypeError, match="groups must be array-like of shape"):
        group_frame(groups, 1)


@pytest.mark.parametrize(
    "X",
    [
        np.arange(6.0).reshape(3, 2),
        np.arange(6.0).reshape(3, 2).tolist(),
        coo_matrix(np.arange(6.0).reshape(3, 2)),
        csr_array(np.arange(6.0).reshape(3, 2)),
        pd.DataFrame(np.arange(6.0).reshape(3, 2), columns=["a", "b"], index=[5, 5, 5]),
        pd.DataFrame(np.arange(6.0).reshape(3, 2), columns=["a", "a"]),
        {"a": [0.0, 2.0, 4.0], "b": np.array([1.0, 3.0, 5.0])},
    ],
)
def test_columns_of_tables_of_every_kind(X):
    found = select_columns(X, [1, -2])
    np.testing.assert_array_equal(found, np.arange(6).reshape(3, 2)[:, ::-1])
    if isinstance(X, pd.DataFrame | dict):
        assert select_columns(X, ("a", 0)).columns.tolist() == ["a", "a"]


@pytest.mark.parametrize(
    ("library", "kind"), [("polars", "DataFrame"), ("pyarrow", "table")]
)
def test_columns_of_other_libraries(library, kind):
    table = getattr(pytest.importorskip(library), kind)({"a": [1, 2], "b": ["x", None]})
    frame = select_columns(table, ["b", 0])
    assert frame.columns.tolist() == ["b", "a"]
    assert frame["b"].isna().tolist() == [False, True]


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (["a text", "another"], "X must have columns .* shape"),
        (np.zeros((2, 3, 4)), r"X must have columns .*\(2, 3, 4\).* Reshape your"),
        (np.zeros((2, 0)), r"0 feature\(s\) \(shape=\(2, 0\)\)"),
        (np.zeros((2, 3)), "groups must be columns of X, got 3, and X has 3 columns"),
        ({"a": [1, 2]}, "groups must be columns of X, got 3, .* 1 columns with names"),
        # An integer is an index, and not the name of a column.
        (pd.DataFrame({3: [1, 2]}), r"got 3, .* columns without names\..* these\.$"),
    ],
)
def test_no_such_column(X, message):
    with pytest.raises(ValueError, match=message):
        select_columns(X, 3)
