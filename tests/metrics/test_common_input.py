"""Laws on the input of every metric: labels, containers, precision, and bad input."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.utils.estimator_checks import _NotAnArray

# Few samples make sparse bins.
pytestmark = pytest.mark.filterwarnings("ignore:hosmer_lemeshow_test may reject")
# Exceptions by the name of a test, with the reason; see conftest.py.
EXCUSED = {
    "test_objects_that_are_only_converted_to_arrays": {
        "multicalibration_error": "pandas reads the groups"
    }
}
LABELS = np.array(["ash", "birch", "cedar", "date"])
CODES = np.arange(80) % 4
PROBA = np.random.default_rng(0).dirichlet(np.ones(4), size=80)


def test_labels_of_any_kind(metric):
    expected = metric(CODES, PROBA)
    assert_array_equal(metric(LABELS[CODES], PROBA), expected)
    objects = LABELS[CODES].astype(object)
    assert_array_equal(metric(objects, PROBA, labels=LABELS), expected)
    assert_array_equal(metric(CODES - 7, PROBA), expected)
    floats = CODES.astype(float)
    assert_array_equal(metric(floats, PROBA, labels=[0, 1, 2, 3]), expected)


def test_containers(metric):
    expected = metric(CODES, PROBA)
    assert_array_equal(metric(CODES.tolist(), PROBA.tolist()), expected)
    frame = pd.DataFrame(PROBA, columns=LABELS, index=np.arange(80) + 100)
    assert_allclose(metric(pd.Series(CODES), frame), expected, rtol=1e-12)
    fortran = np.asfortranarray(PROBA)
    assert_allclose(metric(CODES[:, None], fortran), expected, rtol=1e-12)


def test_objects_that_are_only_converted_to_arrays(metric):
    """They refuse all functions of numpy."""
    samples = {"y_true": CODES, "y_proba": PROBA}
    if "sample_weight" in metric.parameters:
        samples["sample_weight"] = np.linspace(1, 2, 80)
    wrapped = {name: _NotAnArray(values) for name, values in samples.items()}
    assert_array_equal(metric(**wrapped), metric(**samples))


@pytest.mark.parametrize("denominator", [16, 15])
def test_precision_does_not_matter(metric, denominator):
    """Equal decimals are in the same bins in both precisions, including edges."""
    counts = np.random.default_rng(0).multinomial(denominator, [0.6, 0.3, 0.1], 100)
    codes, proba = np.arange(100) % 3, counts / denominator
    value = metric(codes, proba.astype(np.float32))
    assert_allclose(value, metric(codes, proba), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_values_outside_of_0_and_1_by_rounding(metric, dtype):
    """Such values are clipped to [0, 1]."""
    proba = PROBA.copy()
    proba[::5] = np.eye(4)[CODES[::5]]
    off = proba.astype(dtype)
    off[::5] = np.where(proba[::5] == 1, 1.00001, [[1e-5], [-1e-5]] * 8)
    assert off.max() > 1 > off.min() + 1
    value = metric(CODES, off)
    assert np.isfinite(value).all()
    assert_array_equal(value, metric(CODES, off.clip(0, 1)))
    positive = off[:, 0]
    value = metric(CODES == 0, positive)
    assert np.isfinite(value).all()
    assert_array_equal(value, metric(CODES == 0, positive.clip(0, 1)))


def test_input_is_not_changed(metric):
    codes, proba, weight = CODES.copy(), PROBA.copy(), np.linspace(1, 2, 80)
    is_weighted = "sample_weight" in metric.parameters
    metric(codes, proba, **({"sample_weight": weight} if is_weighted else {}))
    assert_array_equal(codes, CODES)
    assert_array_equal(proba, PROBA)
    assert_array_equal(weight, np.linspace(1, 2, 80))


@pytest.mark.parametrize(
    ("names", "order", "message"),
    [
        (LABELS, [0, 1, 2, 3], None),
        (LABELS, [1, 0, 2, 3], r"y_proba = y_proba\[\['ash', 'birch', 'cedar', 'date'"),
        (["ash", "elm", "fir", "oak"], [0, 1, 2, 3], "or by none of them"),
        (["elm", "fir", "oak", "yew"], [1, 0, 2, 3], None),
        (range(4), [0, 1, 2, 3], None),
    ],
)
def test_names_of_columns(default, names, order, message):
    """Columns with the names of classes are in the order of the classes."""
    y_true = LABELS[CODES[:40]]
    frame = pd.DataFrame(PROBA[:40, order], columns=np.array(names)[order])
    if message is None:
        expected = default(y_true, frame.to_numpy())
        assert_allclose(default(y_true, frame), expected, rtol=1e-12)
    else:
        with pytest.raises(ValueError, match=message):
            default(y_true, frame)


def test_predicted_labels_are_told_once(metric):
    y_true, y_pred = CODES[:40] % 2, np.array([0, 1, 1, 0] * 10)
    expected = metric(y_true, y_pred.astype(float))
    for labels in (y_pred, y_pred > 0, y_pred[:, None]):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            value = metric(y_true, labels)
        told = [each for each in found if "predicted labels" in str(each.message)]
        assert len(told) == 1
        assert "y_proba" in str(told[0].message)
        assert_array_equal(value, expected)


def test_bad_input_is_refused(default, not_refused):
    assert not not_refused(default, default.parameters.keys())


def test_bad_options_are_refused(default):
    """The message of an invalid option contains its name."""
    for name in list(default.parameters)[2:]:
        with pytest.raises((TypeError, ValueError), match=rf"\b{name}\b"):
            default([0, 1], [[0.5, 0.5], [0.25, 0.75]], **{name: object()})
    numbers = {"n_bins": [0, 1.5], "bandwidth": [0.0, -1.0], "n_resamples": [0]}
    for name, values in numbers.items():
        for value in values if name in default.parameters else []:
            message = f"'{name}' parameter .* Got {re.escape(repr(value))}"
            with pytest.raises(ValueError, match=message):
                default([0, 1], [[0.5, 0.5], [0.25, 0.75]], **{name: value})
