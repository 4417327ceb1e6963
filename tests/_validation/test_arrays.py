"""Input is converted to an array, or raises an error because of its types."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.sparse import csr_array

from sklearn_calib._validation.arrays import as_array, as_numbers, check_numbers, shown
from sklearn_calib._validation.labels import as_labels


@pytest.mark.parametrize(
    "dtype", ["bool", "uint8", "int64", "float16", "float32", "float64", "longdouble"]
)
def test_numbers_are_returned_unchanged(dtype):
    array = np.ones((2, 3), dtype)
    assert check_numbers(array, "X") is array
    assert as_numbers(array, "X") is array
    frame = pd.DataFrame(np.ones((2, 3)))
    assert check_numbers(frame, "X") is frame
    sparse = csr_array(array.astype(float))
    assert check_numbers(sparse, "X") is sparse


def test_objects_that_are_numbers():
    values = [1, 2.5, Decimal("0.5"), Fraction(1, 4), np.float32(3), True, None]
    array = np.array(values, dtype=object)
    assert check_numbers(array, "X") is array
    found = as_numbers(array, "X")
    np.testing.assert_array_equal(found, [1, 2.5, 0.5, 0.25, 3, 1, np.nan])


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        (np.array(["0.5"]), ValueError, "could not convert string to float, got <U3"),
        (["0.5", 1.0], ValueError, "could not convert string"),
        (np.array([b"1", 2], object), ValueError, "convert string to float: b'1'"),
        (pd.DataFrame({"a": [1, 2], "b": ["x", "y"]}), ValueError, "float: 'x'"),
        (pd.Series(["x"], dtype="category"), ValueError, "float: 'x'"),
        (np.array([1j]), ValueError, "Complex data not supported, got complex128"),
        (np.array([1j, 2], object), ValueError, "Complex data not supported"),
        (np.zeros(2, "M8[s]"), TypeError, r"datetime64\[s\] is not numeric"),
        (np.zeros(2, "m8[s]"), TypeError, r"timedelta64\[s\] is not numeric"),
        (
            pd.DataFrame({"a": pd.date_range("2020", periods=2, tz="UTC")}),
            TypeError,
            "UTC.* is not numeric",
        ),
        (np.zeros(2, [("a", float)]), TypeError, "is not numeric"),
        (np.zeros(2, "V8"), TypeError, r"\|V8 is not numeric"),
        (np.array([{}], object), TypeError, "a string or a real number, not 'dict'"),
        ({1.0}, TypeError, "a string or a real number, not 'set'"),
        ([[1, 2], [3]], ValueError, "have rows of equal length: .*inhomog"),
        (torch.ones(2, device="meta"), TypeError, "convertible to numpy, got Tensor"),
    ],
)
def test_what_is_not_numbers(values, error, message):
    with pytest.raises(error, match=f"^X must .*{message}.*\\. "):
        check_numbers(values, "X")


def test_masks():
    array = np.ma.array([1.0, 2.0], mask=[True, False])
    for check in (check_numbers, as_array, as_labels):
        with pytest.raises(
            ValueError, match="w must not contain masked values, got 1 of 2"
        ):
            check(array, "w")
        check(np.ma.array([1.0, 2.0]), "w")
        check(np.ma.array([1.0, 2.0], mask=[False, False]), "w")


def test_gradients():
    tensor = torch.ones(2, requires_grad=True)
    np.testing.assert_array_equal(check_numbers(tensor, "X"), [1, 1])
    np.testing.assert_array_equal(as_array(3 * tensor, "X"), [3, 3])
    assert tensor.requires_grad


def test_bfloat16_is_widened():
    tensor = torch.tensor([0.1, 1e-30], dtype=torch.bfloat16, requires_grad=True)
    array = as_array(tensor, "X")
    assert array.dtype == np.float32
    np.testing.assert_array_equal(array, tensor.tolist())


def test_tensors_are_not_copied():
    tensor = torch.ones(2)
    assert np.shares_memory(check_numbers(tensor, "X"), tensor.numpy())


def test_labels():
    assert as_labels(np.array([1, 2], object), "y").dtype.kind == "i"
    assert as_labels(np.array([[1], [2]], object), "y").shape == (2, 1)
    assert as_labels(np.array([1.5, 2], object), "y").dtype.kind == "f"
    for large in ([2**70, 2], [2**63 + 1, -1]):
        assert as_labels(np.array(large, object), "y").tolist() == large
    assert as_labels(np.array(["a", "b"], object), "y").dtype.kind == "O"
    assert as_labels([], "y").size == 0
    for y in ({0, 1}, None, np.array(3)):
        with pytest.raises(ValueError, match="y should be a 1d array of labels, got"):
            as_labels(y, "y")
    for dtype in ("V8", [("a", int)]):
        with pytest.raises(TypeError, match="y must contain labels such as numbers"):
            as_labels(np.zeros(2, dtype), "y")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3, "3"),
        ("iris", "'iris'"),
        ([1, "a", None], "[1, 'a', None]"),
        ((0.5,), "(0.5,)"),
        ({"b": [1, 2]}, "{'b': [1, 2]}"),
        ([*range(10)], str([*range(10)])),
        ([*range(30_000)], "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, ...] (30000 in total)"),
        ({1: 2, **dict.fromkeys(range(11))}, "9: None, ...} (11 in total)"),
        (["x" * 100], "['xxxxxxxxxx"),
    ],
)
def test_values_in_messages(value, text):
    assert text in shown(value)


@pytest.mark.parametrize(
    "value",
    ["x" * 10**6, ["x" * 1000] * 100, [[[[0] * 99] * 99] * 99] * 99, np.ones(999)],
)
def test_long_values_in_messages(value):
    assert len(shown(value)) < 430
