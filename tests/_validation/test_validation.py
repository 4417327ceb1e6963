"""Input validation and its error messages."""

import numpy as np
import pandas as pd
import pytest

from sklearn_calib._validation.arrays import row_blocks
from sklearn_calib._validation.declarations import did_you_mean
from sklearn_calib._validation.labels import encode_labels
from sklearn_calib._validation.probabilities import (
    ROW_SUM_TOLERANCE,
    check_proba,
    check_sample_weight,
)
from sklearn_calib.calibrators._base.calibrator_names import CALIBRATORS
from sklearn_calib.losses._base.loss_names import LOSSES


def many_rows(*rows):
    """Return the rows after more valid rows than fit into one block."""
    return np.vstack([np.full((40_000, 2), 0.5), rows])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_check_proba_keeps_floats_without_a_copy(dtype):
    proba = np.array([[0.5, 0.5], [1.0, 0.0]], dtype=dtype)
    assert check_proba(proba) is proba


@pytest.mark.parametrize(
    "proba",
    [
        [[0, 1], [1, 0]],
        pd.DataFrame({"a": [0.25, 1.0], "b": [0.75, 0.0]}),
        np.asfortranarray([[0.25, 0.75], [1.0, 0.0]]),
        np.array([[0.25, 0.75], [1.0, 0.0]], dtype=np.float16),
    ],
    ids=["list", "pandas", "fortran", "float16"],
)
def test_check_proba_takes_what_holds_numbers(proba):
    checked = check_proba(proba)
    assert checked.dtype == np.float64
    np.testing.assert_array_equal(checked, np.asarray(proba))


@pytest.mark.parametrize(
    ("proba", "message"),
    [
        (
            many_rows([-7.2, 11.4]),
            r"must lie in \[0, 1\], got values in \[-7.2, 11.4\]",
        ),
        (many_rows([1.5, -0.5]), "Pass probabilities, not logits"),
        (many_rows([np.nan, 0.5]), "must be finite, got NaN"),
        (many_rows([np.inf, 0.0]), "must be finite, got infinity"),
        (many_rows([0.25, 0.25]), "got a row that sums to 0.5"),
        (many_rows([0.5, 0.5 + 2 * ROW_SUM_TOLERANCE]), "sum to one within 0.00035"),
        ([0.5, 0.5], r"\(n_samples, n_classes\).* got shape \(2,\)"),
        ([[0.5], [0.5]], r"at least two classes, got shape \(2, 1\)"),
        (np.full((2, 2, 2), 0.5), r"got shape \(2, 2, 2\)"),
        (np.empty((0, 2)), "0 sample"),
        (["a", "b"], "probabilities: could not convert string.* Pass .*predict_proba"),
    ],
)
def test_check_proba_refuses(proba, message):
    with pytest.raises(ValueError, match=message):
        check_proba(proba)


def test_check_proba_accepts_rounding():
    proba = np.array([[0.5, 0.5 + ROW_SUM_TOLERANCE / 2]])
    assert check_proba(proba) is proba


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_check_proba_takes_what_rounding_leaves_outside_for_the_end(dtype):
    given = many_rows([1.00001, 1e-5], [-1e-5, 1]).astype(dtype)
    proba = check_proba(given)
    assert proba.dtype == dtype
    np.testing.assert_array_equal(proba[:-2], given[:-2])
    np.testing.assert_array_equal(proba[-2:], np.array([[1, 1e-5], [0, 1]], dtype))
    assert given.max() > 1  # as it came
    with pytest.raises(ValueError, match=r"p must .* got values in \[0.5, 1.00036\]"):
        check_proba([0.5, 1.00036], name="p", allow_1d=True)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_check_proba_knows_the_next_number_of_half_precision(dtype):
    above = np.nextafter(np.float16(1), np.float16(2)).astype(dtype)
    assert above - 1 > ROW_SUM_TOLERANCE
    np.testing.assert_array_equal(check_proba([[above, 0]]), [[1, 0]])
    with pytest.raises(ValueError, match="must lie in"):
        check_proba([[float(above) + 1e-4, 0]])


def half_rows(n_classes=3):
    """Return rows that do not sum to one, as they were rounded to half precision."""
    if n_classes > 3:
        return np.full((2, n_classes), 1 / n_classes, dtype=np.float16)
    rng = np.random.default_rng(0)
    proba = rng.dirichlet(np.ones(n_classes), 1000).astype(np.float16)
    off = np.abs(proba.sum(axis=1, dtype=np.float64) - 1)
    return proba[[off.argmax(), 0, 1]]


@pytest.mark.parametrize("n_classes", [3, 1000])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_check_proba_knows_the_rounding_of_half_precision(n_classes, dtype):
    """This includes values converted to float32, such as outputs of networks."""
    proba = half_rows(n_classes)
    total = proba.sum(axis=1, dtype=np.float64)
    assert np.abs(total - 1).max() > ROW_SUM_TOLERANCE
    np.testing.assert_array_equal(check_proba(proba.astype(dtype)), proba)


@pytest.mark.parametrize(
    "proba",
    [
        half_rows() + np.array([[1e-6, 0, 0]]),  # not rounded to half precision
        np.array([[0.5, 0.25, 0.2421875]]),  # 0.8 % off, beyond three times eps
        np.full((2, 1024), 2.0**-10) * np.array([[1.0], [1.015625]]),
        np.zeros((1, 2000)),  # though 2000 * eps is above one
    ],
)
def test_check_proba_refuses_what_half_precision_does_not_explain(proba):
    with pytest.raises(ValueError, match="rows that sum to one within"):
        check_proba(proba)


def test_check_proba_takes_the_positive_class_where_allowed():
    np.testing.assert_array_equal(check_proba([0.1, 0.9], allow_1d=True), [0.1, 0.9])
    np.testing.assert_array_equal(check_proba([[0.1], [1]], allow_1d=True), [0.1, 1])
    with pytest.raises(
        ValueError, match=r"p must lie in \[0, 1\], got values in \[0, 2\]"
    ):
        check_proba([0.0, 2.0], allow_1d=True, name="p")


@pytest.mark.parametrize(
    "values",
    [
        [3, 7, 3, 5],
        [-2, 1, 1, 10**12],
        [False, True, True],
        [2.0, 1.0, 3.0],
        ["b", "a", "c"],
        pd.Series(["b", "a", "c"], index=[5, 6, 7]),
        pd.Categorical(["b", "a", "c"]),
        np.array(["b", "a", "c"], dtype=object),
        np.array([200, 100, 200], dtype=np.uint8),
        np.array([-128, 127, 0], dtype=np.int8),
        np.array([2**63 + 5, 2**63, 2**64 - 1], dtype=np.uint64),
        np.array([5, 2**63, 7], dtype=np.uint64),
        np.array([7, 5, 7], dtype=object),
        np.array([2**70, 5, 7], dtype=object),
        np.array([0.5, 0.25, 0.5], dtype=object),
        np.array([True, False], dtype=object),
        [["b"], ["a"], ["c"]],
    ],
)
def test_encode_labels_sorts(values):
    """The result is that of np.unique, by counting for integers, else by hashing."""
    labels, expected = np.unique(np.ravel(np.asarray(values)), return_inverse=True)
    codes = encode_labels(values, n_classes=len(labels))
    assert codes.dtype == np.int64
    np.testing.assert_array_equal(codes, expected)
    codes = encode_labels(values, labels=labels, n_classes=len(labels))
    np.testing.assert_array_equal(codes, expected)


def test_encode_labels_takes_the_order_of_the_columns():
    codes = encode_labels(["b", "a", "b"], labels=["c", "b", "a"], n_classes=3)
    np.testing.assert_array_equal(codes, [1, 2, 1])
    codes = encode_labels([5, 4, 5], labels=np.array([6, 5, 4]), n_classes=3)
    np.testing.assert_array_equal(codes, [1, 2, 1])


@pytest.mark.parametrize(
    ("y", "labels", "message"),
    [
        ([0, 2, 2], None, r"contain 3 distinct labels.* got \[0, 2\]. Pass labels="),
        (range(12), None, r"got \[0, 1, 2, .*9, \.\.\.\] \(12 in total\)"),
        ([0, 1, 7], [0, 1, 2], r"got also \[7\]. Pass labels=estimator.classes_"),
        (["a", "d"], ["a", "b", "c"], r"got also \['d'\]"),
        ([0, 1], [0, 1], r"labels must contain 3 distinct labels.* got \[0, 1\]"),
        ([0, 1], [0, 1, 1], r"labels must contain 3 distinct labels"),
        ([0.0, np.nan], None, "not contain missing values, got NaN"),
        (
            [[1, 0], [0, 1]],
            None,
            r"should be a 1d array, got an array of shape \(2, 2\)",
        ),
    ],
)
def test_encode_labels_refuses(y, labels, message):
    with pytest.raises(ValueError, match=message):
        encode_labels(y, labels=labels, n_classes=3)


def test_encode_labels_refuses_labels_of_two_kinds():
    with pytest.raises(TypeError, match=r"got int and str\. Convert them to str"):
        encode_labels(np.array(["a", 1], dtype=object), n_classes=2)


@pytest.mark.parametrize(
    ("y", "kinds"),
    [
        ([1, "0", 2], "int and str"),
        ([True, 0, 2], "bool and int"),
        (["a", np.nan, "b"], "float and str"),
        (["a", None, "b"], "NoneType and str"),
        ([0, pd.NA, 1], "NAType and int"),
        (pd.Series([0, pd.NA, 1], dtype=object), "NAType and int"),
    ],
)
def test_encode_labels_refuses_mixed_labels(y, kinds):
    """This includes types that numpy would convert to a common one."""
    with pytest.raises(TypeError, match=rf"one type.* got {kinds}\. Convert"):
        encode_labels(y, n_classes=3)


def test_encode_labels_refuses_booleans_of_three_classes():
    y = np.array([True, False])
    assert encode_labels(y, labels=[0, 1], n_classes=2).tolist() == [1, 0]
    with pytest.raises(TypeError, match=r"y_true must .*\[0, 1, 2\], got booleans"):
        encode_labels(y, labels=[0, 1, 2], n_classes=3)


def test_check_sample_weight():
    assert check_sample_weight(None, [[1], [2]]) is None
    weight = check_sample_weight([1, 2], [[1], [2]])
    assert weight.dtype == np.float64
    with pytest.raises(ValueError, match="non-negative, finite and not all zero, got"):
        check_sample_weight([-1, 2], [[1], [2]])
    with pytest.raises(ValueError, match=r"non-zero|not all zero"):
        check_sample_weight([0, 0], [[1], [2]])
    with pytest.raises(ValueError, match="NaN"):
        check_sample_weight([np.nan, 1], [[1], [2]])
    with pytest.raises(ValueError, match="expected"):
        check_sample_weight([1, 1, 1], [[1], [2]])
    assert (check_sample_weight([1e-300, 2e-300], [[1], [2]]) > 0).all()


def test_did_you_mean():
    assert did_you_mean("neg_ec", ["neg_ece", "accuracy"]) == " Did you mean 'neg_ece'?"
    assert did_you_mean("0", [0, 1]) == " Did you mean 0?"
    assert did_you_mean("zzz", ["neg_ece", "accuracy"]) == ""
    assert did_you_mean("Roc-AUC", ["rocket", "ROC_AUC"]) == " Did you mean 'ROC_AUC'?"


@pytest.mark.parametrize("registry", [CALIBRATORS, LOSSES])
def test_names_of_other_packages(registry):
    classes = {registry.class_name(name): name for name in registry.names()}
    for other, name in {**classes, **registry.synonyms}.items():
        with pytest.raises(ValueError, match=rf"Did you mean '{name}'\?"):
            registry.get(other.upper())


@pytest.mark.parametrize("shape", [(1, 10**6), (10, 3), (100_000, 7)])
def test_row_blocks_cover_every_row_once(shape):
    covered = [
        row for rows in row_blocks(*shape) for row in range(*rows.indices(10**6))
    ]
    assert covered == list(range(shape[0]))
