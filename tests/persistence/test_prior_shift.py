"""`PriorShiftClassifier` in files: around a calibrator, a network, and both."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

from sklearn_calib import CalibratedClassifier
from sklearn_calib.calibrators import VectorScaling
from sklearn_calib.deployment import PriorShiftClassifier
from sklearn_calib.metrics import CalibrationAccumulator
from sklearn_calib.persistence import from_dict, load, save, to_dict

NAMES = np.array(["ant", "bee", "cat"])
BY_LABEL = {"cat": 0.2, "ant": 0.7, "bee": 0.1}


@pytest.fixture(scope="module")
def data():
    """Return probabilities and labels."""
    rng = np.random.default_rng(0)
    codes = rng.integers(3, size=300)
    scores = np.exp(2 * np.eye(3)[codes] + rng.normal(size=(300, 3)))
    return scores / scores.sum(axis=1, keepdims=True), NAMES[codes]


def shift(estimator, **params):
    return PriorShiftClassifier(estimator, n_resamples=5, random_state=0, **params)


def assert_same(again, model, X):
    """Check the predictions and what is known, also after `adapt`."""
    for _ in range(2):
        np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
        for name in ("classes_", "train_priors_", "priors_", "n_features_in_"):
            np.testing.assert_array_equal(getattr(again, name), getattr(model, name))
        again, model = clone_fitted(again).adapt(X), clone_fitted(model).adapt(X)
        np.testing.assert_array_equal(again.priors_interval_, model.priors_interval_)


def clone_fitted(model):
    twin = clone(model)
    vars(twin).update(vars(model))
    return twin


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"priors": BY_LABEL},
        {"priors": pd.Series(BY_LABEL), "train_priors": "balanced"},
        {"priors": [0.5, 0.5, 0.0], "train_priors": BY_LABEL},
    ],
)
def test_around_a_calibrator(params, data, through_json):
    X, y = data
    model = shift(VectorScaling(), **params).fit(X, y)
    document = through_json(to_dict(model))
    again = from_dict(document)
    assert_same(again, model, X)
    assert to_dict(again) == document
    # Fitted again, it has the same priors.
    refitted = again.fit(X, y)
    np.testing.assert_allclose(refitted.priors_, model.priors_)
    np.testing.assert_allclose(refitted.train_priors_, model.train_priors_)


def test_after_adapt(data, through_json):
    X, y = data
    model = shift(VectorScaling()).fit(X, y).adapt(X[y != "ant"])
    again = from_dict(through_json(to_dict(model)))
    np.testing.assert_array_equal(again.priors_interval_, model.priors_interval_)
    assert_same(again, model, X)


def test_frozen(data, through_json):
    X, y = data
    calibrator = VectorScaling().fit(X, y)
    model = shift(FrozenEstimator(calibrator)).fit(X, y)
    again = from_dict(through_json(to_dict(model)))
    assert_same(again, model, X)
    assert again.estimator_ is again.estimator
    assert again.estimator.estimator.intercept_.tolist() == (
        calibrator.intercept_.tolist()
    )


# The network is trained for two epochs only.
@pytest.mark.filterwarnings("ignore:The predictions for 90 samples contain as little")
def test_networks(net, table, tmp_path):
    X, y = table
    frame = pd.DataFrame(X, columns=list("abcdef"))
    calibrated = CalibratedClassifier(clone(net), VectorScaling(), cv=2, n_repeats=1)
    for classifier in (clone(net), FrozenEstimator(net), calibrated):
        model = shift(classifier, priors=[0.1, 0.2, 0.7]).fit(X, y)
        save(model, tmp_path / "model")
        assert_same(load(tmp_path / "model"), model, X)
    save(model.fit(frame, y), tmp_path / "model")
    assert load(tmp_path / "model").feature_names_in_.tolist() == list("abcdef")


def test_a_part_that_cannot_be_saved_is_named(table):
    model = shift(LogisticRegression()).fit(*table)
    with pytest.raises(TypeError, match=r"object\.params\.estimator must be .* skops"):
        to_dict(model)
    calibrated = CalibratedClassifier(LogisticRegression(), None, cv=2)
    with pytest.raises(TypeError, match=r"estimator\.params\.estimator must be"):
        to_dict(shift(calibrated).fit(*table))


ACCUMULATOR = to_dict(CalibrationAccumulator(labels=["a", "b"]))["object"]
THREE = {"dtype": "float64", "shape": [3], "values": [0.5, 0.25, 0.25]}


@pytest.mark.parametrize(
    ("part", "name", "value", "message"),
    [
        ("state", "priors_", {**THREE, "values": [1.5, -0.25, -0.25]}, "priors_ must"),
        ("state", "priors_", {**THREE, "values": [0.5, 0.5, 0.5]}, "sum to 1, got 1.5"),
        ("state", "train_priors_", {**THREE, "values": [1.0, 0.0, 0.0]}, r"\(0, 1\]"),
        ("state", "priors_interval_", THREE, "priors_interval_ must be .* 2 dim"),
        ("state", "estimator_", ACCUMULATOR, "must be a classifier, got Calibration"),
        ("state", "estimator_", None, "estimator_ must be an object"),
        ("params", "estimator", "x", r"params\.estimator must be an object"),
        ("params", "is_frozen", 1, r"params\.is_frozen must be true or false"),
        ("params", "memory", "x", r"params must be .* got \['memory'\]"),
        ("params", "train_priors", "x", "'train_priors' parameter of PriorShift"),
    ],
)
def test_a_changed_file_is_refused(part, name, value, message, data):
    document = to_dict(shift(VectorScaling()).fit(*data))
    document["object"][part][name] = value
    with pytest.raises(ValueError, match=message):
        from_dict(document)


def test_other_classes_are_refused(data):
    X, y = data
    document = to_dict(shift(VectorScaling()).fit(X, y))
    other = VectorScaling().fit(X, np.char.upper(y))
    document["object"]["state"]["estimator_"] = to_dict(other)["object"]
    with pytest.raises(ValueError, match=r"classes_ must be \['ANT' 'BEE' 'CAT'\]"):
        from_dict(document)
