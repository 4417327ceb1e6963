"""to_dict and from_dict restore every calibrator, and reject other classes."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

from sklearn_calib import CalibratedClassifier, TemperatureScaling
from sklearn_calib.calibrators import (
    Calibrator,
    MetaCal,
    PerLabelCalibrator,
    PlattScaling,
)
from sklearn_calib.persistence import from_dict, to_dict


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("from_logits", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_probabilities_are_equal_bit_for_bit(
    calibrator, n_classes, from_logits, dtype, fit, through_json
):
    fitted, X = fit(calibrator, n_classes, dtype, from_logits=from_logits)
    document = through_json(to_dict(fitted))
    again = from_dict(document)
    for data in (X.astype(np.float32), X.astype(np.float64), X[:1]):
        np.testing.assert_array_equal(
            again.predict_proba(data), fitted.predict_proba(data)
        )
    np.testing.assert_array_equal(again.predict(X), fitted.predict(X))
    assert to_dict(again) == document


def attributes(value):
    """Return the attributes of an object, and of the calibrators among them."""
    if isinstance(value, list):
        return [attributes(each) for each in value]
    if not isinstance(value, Calibrator):
        return value
    own = {name: attributes(each) for name, each in vars(value).items()}
    return own | {"class": type(value)}


def test_every_fitted_attribute_is_saved(calibrator, fit, through_json):
    fitted, _ = fit(calibrator)
    again = from_dict(through_json(to_dict(fitted)))
    np.testing.assert_equal(attributes(again), attributes(fitted))
    assert repr(again) == repr(fitted)


def test_a_loaded_calibrator_can_be_fitted_again(fit, through_json):
    fitted, X = fit(TemperatureScaling())
    again = from_dict(through_json(to_dict(fitted)))
    assert clone(again).get_params() == fitted.get_params()
    y = np.where(np.arange(len(X)) % 4, fitted.predict(X), fitted.classes_[0])
    assert again.fit(X, y).temperature_ == clone(fitted).fit(X, y).temperature_


def test_per_label(fit_per_label, through_json):
    fitted, X = fit_per_label()
    document = through_json(to_dict(fitted))
    assert document["object"]["params"]["calibrator"]["state"] is None
    again = from_dict(document)
    np.testing.assert_array_equal(again.predict_proba(X), fitted.predict_proba(X))
    np.testing.assert_equal(again.classes_, fitted.classes_)


LABELS = [
    np.array([0, 1, 2]),
    np.array([0, 1, 2], dtype=np.uint8),
    np.array([-1.5, 0.1, 2.5]),
    np.array([0.1, 0.2, 0.3], dtype=np.float32),
    np.array(["b", "a", 'ü\n"']),
    np.array(["a", "b", "c"], dtype=object),
    np.array([2**80, 2**81, 3], dtype=object),
]


@pytest.mark.parametrize("labels", LABELS, ids=repr)
def test_labels(labels, through_json):
    proba = np.tile(np.eye(3)[[0, 1, 2, 0]] * 0.4 + 0.2, (10, 1))
    y = labels[np.tile([0, 1, 2, 1], 10)]
    fitted = TemperatureScaling().fit(proba, y, labels=labels)
    again = from_dict(through_json(to_dict(fitted)))
    assert again.classes_.dtype == fitted.classes_.dtype
    assert again.predict(proba).tolist() == fitted.predict(proba).tolist()
    assert list(map(type, again.classes_.tolist())) == list(map(type, labels.tolist()))


def test_booleans_and_one_column(through_json):
    y = np.tile([True, False], 20)
    fitted = PlattScaling().fit(np.where(y, 0.8, 0.3), y)
    again = from_dict(through_json(to_dict(fitted)))
    assert again.predict([0.9, 0.1]).tolist() == [True, False]


def test_names_of_columns(through_json):
    data = pd.DataFrame({"no": [0.2, 0.8, 0.6] * 10, "yes": [0.8, 0.2, 0.4] * 10})
    fitted = TemperatureScaling().fit(data, [1, 0, 1] * 10)
    again = from_dict(through_json(to_dict(fitted)))
    assert again.feature_names_in_.tolist() == ["no", "yes"]
    with pytest.raises(ValueError, match="feature names should match"):
        again.predict_proba(data[["yes", "no"]])


# A class of a user must not have a name in the table.
SameName = type("TemperatureScaling", (TemperatureScaling,), {})


@pytest.mark.parametrize(
    ("model", "error", "message"),
    [
        (TemperatureScaling(), NotFittedError, "not fitted yet"),
        (None, TypeError, "model must be .* got None"),
        (LogisticRegression(), TypeError, "skops or joblib"),
        (SameName(), TypeError, "model must be .* got TemperatureScaling"),
        (type("MetaCal", (MetaCal,), {})(), TypeError, "model must be"),
    ],
)
def test_what_cannot_be_saved(model, error, message):
    with pytest.raises(error, match=message):
        to_dict(model)


def test_a_part_that_cannot_be_saved_is_named(table):
    model = CalibratedClassifier(LogisticRegression(), None, cv=2).fit(*table)
    with pytest.raises(TypeError, match=r"object\.params\.estimator must be"):
        to_dict(model)
    X = [[0.4, 0.6], [0.7, 0.3], [0.8, 0.6], [0.4, 0.6]] * 20
    y = [[0, 1], [1, 0], [1, 1], [1, 0]] * 20
    model = PerLabelCalibrator(SameName()).fit(X, y)
    with pytest.raises(TypeError, match=r"object\.params\.calibrator must be"):
        to_dict(model)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"temperature_": np.nan}, r"object\.state\.temperature_ must be a number"),
        ({"temperature_": -1.0}, r"object\.state\.temperature_ must be a number > 0"),
        ({"temperature_": np.inf}, r"object\.state\.temperature_ must be a number > 0"),
        ({"classes_": np.array(["2020"], "M8")}, r"object\.state\.classes_ must be"),
    ],
)
def test_a_state_that_could_not_be_read_is_not_written(change, message, fit):
    fitted, _ = fit(TemperatureScaling())
    vars(fitted).update(change)
    with pytest.raises(ValueError, match=message):
        to_dict(fitted)


def test_a_changed_parameter_that_needs_another_fit(fit):
    fitted, _ = fit(TemperatureScaling(from_logits=True))
    with pytest.raises(ValueError, match=r"object\.state .* \['zero_replacement_'\]"):
        to_dict(fitted.set_params(from_logits=False))


def test_a_dict_is_not_a_parameter_of_a_file(fit):
    fitted, _ = fit(TemperatureScaling())
    for value in ({"a": 1}, {}, {"a": np.ones(2)}):
        with pytest.raises((TypeError, ValueError), match=r"params\.n_bins"):
            to_dict(fitted.set_params(n_bins=value))


def test_a_random_generator_is_not_a_parameter_of_a_file(fit):
    fitted, _ = fit(MetaCal(random_state=np.random.RandomState(0)))
    with pytest.raises(TypeError, match=r"params\.random_state must be .* RandomState"):
        to_dict(fitted)
