"""Names of columns that are class labels, and predicted labels as probabilities."""

import warnings
from itertools import product

import numpy as np
import pandas as pd
import pytest

from sklearn_calib._validation.probabilities import check_proba
from sklearn_calib._validation.samples import check_columns

NUMBERS = [0, 1], [False, True], [0.0, 1.0], np.array([0, 1], "i1")
TEXTS = ["0", "1"]
VALUES = np.array([[0.2, 0.8], [0.3, 0.7]])


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        *((TEXTS, names) for names in ([1, 0], np.array(["1", "0"]))),
        *product([[1, 0]], ([0, 1], TEXTS)),
        (["1", "0"], TEXTS),
        (["column_1", "column_0"], ["column_0", "column_1"]),
        *product(NUMBERS, ([1, 0], ["1", "0"], [True, False], [1.0, 0.0])),
    ],
)
def test_numbers_in_another_order_are_refused(labels, names):
    """The code in the message reorders them; default names may be positions, too."""
    y_proba = pd.DataFrame(VALUES, columns=names)
    with pytest.raises(ValueError, match="in the order of the labels") as error:
        check_columns(y_proba, None, labels)
    message, scope = str(error.value), {"y_proba": y_proba}
    assert "np." not in message
    are_default = [*map(str, names)] in (TEXTS, ["column_0", "column_1"])
    assert ("Pass y_proba.to_numpy() if they already are" in message) == are_default
    exec(message.partition("eorder them: ")[2].removesuffix("."), scope)
    np.testing.assert_array_equal(scope["y_proba"], VALUES[:, ::-1])
    check_columns(scope["y_proba"], None, labels)


@pytest.mark.parametrize("labels", [*NUMBERS, TEXTS, [1, 2], ["1", "2"], ["a", "b"]])
@pytest.mark.parametrize(
    "names", [[0, 1], ["0", "1"], ["column_0", "column_1"], ["x", "y"], [None, np.nan]]
)
def test_default_and_other_names_pass(labels, names):
    check_columns(pd.DataFrame(VALUES, columns=names), None, labels)


def test_default_numbers_are_not_labels_that_are_texts():
    check_columns(pd.DataFrame(VALUES), None, ["1", "0"])


@pytest.mark.parametrize("names", [["a", "x"], ["x", "a"], ["a", "a"], ["b", 1]])
def test_some_of_the_labels_are_refused(names):
    with pytest.raises(ValueError, match=r"or by none of them.*y_proba\.to_numpy\(\)"):
        check_columns(pd.DataFrame(VALUES, columns=names), ["a", "b"], None)


def test_single_columns_pass():
    """Their name may be that of either class."""
    check_columns(pd.DataFrame({"a": [0.5]}), ["a", "b"], None)
    check_columns(pd.Series([0.5], name="a"), ["a", "b"], None)


def test_many_names_are_shortened():
    labels = [f"class number {k}" for k in range(1000)]
    with pytest.raises(ValueError, match=r"y_proba = y_proba\[\[\*labels\]\]") as error:
        check_columns(pd.DataFrame(np.eye(1000), columns=labels[::-1]), None, labels)
    assert len(str(error.value)) < 1000


def test_polars():
    polars = pytest.importorskip("polars", reason="needs polars")
    frame = polars.DataFrame({"m": [0.2], "b": [0.8]})
    with pytest.raises(ValueError, match=r"y_proba\[\['b', 'm'\]\]"):
        check_columns(frame, ["m", "b"], None)
    check_columns(frame[["b", "m"]], ["m", "b"], None)
    check_columns(polars.DataFrame(VALUES), None, ["m", "b"])


LABELS = [0, 1, 1, 0, 1, 0, 0, 1, 1, 1]


@pytest.mark.parametrize(
    "proba",
    [
        LABELS,
        np.array(LABELS) > 0,
        np.array(LABELS, "u1"),
        np.array(LABELS, object),
        np.zeros((10, 1), int),
        pd.Series(LABELS, dtype="Int64"),
        pd.Series(LABELS, dtype="boolean"),
        pd.DataFrame({"a": LABELS}, dtype="Int8"),
    ],
)
def test_predicted_labels_are_told(proba):
    with pytest.warns(UserWarning, match=r"Pass predict_proba\(X\)\[:, 1\] instead"):
        check_proba(proba, allow_1d=True)


@pytest.mark.parametrize(
    "proba",
    [
        LABELS[:9],
        np.array(LABELS, float),
        np.array(LABELS, np.float16),
        np.array(LABELS, float).astype(object),
        np.eye(2, dtype=int)[LABELS],
    ],
)
def test_probabilities_of_0_and_1_are_not(proba):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_proba(proba, allow_1d=True)
