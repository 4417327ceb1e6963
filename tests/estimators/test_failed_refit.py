"""A failed fit does not change a fitted estimator."""

import copy
from functools import cache

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from skorch.callbacks import Callback

import sklearn_calib
from sklearn_calib import (
    CalibratedClassifier,
    NeuralClassifier,
    PredictionSetClassifier,
    RefCalClassifier,
    SelectiveClassifier,
    TemperatureScaling,
)

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(60, 4)), np.array(list("abc"))[np.arange(60) % 3]
X += 3 * np.eye(3, 4)[np.arange(60) % 3]
# What a failing fit is given: another width, with names, and other labels.
OTHER = pd.DataFrame(RNG.normal(size=(30, 6)), columns=list("uvwxyz"))
LABELS = np.array(list("AB"))[np.arange(30) % 2]

ESTIMATORS = [
    CalibratedClassifier(LogisticRegression(), TemperatureScaling(), cv=2),
    CalibratedClassifier(LogisticRegression(), TemperatureScaling(), ensemble=False),
    CalibratedClassifier(LogisticRegression(), None),
    SelectiveClassifier(LogisticRegression(), coverage=0.8, abstain_label="none", cv=2),
    PredictionSetClassifier(LogisticRegression(), cv=2),
    SelectiveClassifier(LogisticRegression(), max_risk=0.3, abstain_label="none", cv=2),
    NeuralClassifier(max_epochs=1, random_state=0),
    NeuralClassifier(
        max_epochs=2,
        validation_fraction=0.2,
        refit=True,
        random_state=0,
        dtype="float64",
    ),
    RefCalClassifier(refine__max_epochs=1, head__max_epochs=1, random_state=0),
]
all_estimators = pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
META = (CalibratedClassifier, PredictionSetClassifier, SelectiveClassifier)


def failures(estimator):
    """Return data, weights and parameters with which a fit fails."""
    data = {"X": OTHER, "y": LABELS}
    yield "weights", {}, {**data, "sample_weight": -np.ones(30)}, ValueError
    yield "number of weights", {}, {**data, "sample_weight": np.ones(3)}, ValueError
    yield "one class", {}, {**data, "y": np.zeros(30)}, ValueError
    yield "continuous", {}, {**data, "y": OTHER["u"]}, ValueError
    yield "kinds of labels", {}, {**data, "y": [0, "a"] * 15}, TypeError
    yield "length of y", {}, {**data, "y": LABELS[:7]}, ValueError
    yield "NaN", {}, {**data, "X": OTHER.where(OTHER < 1)}, ValueError
    if isinstance(estimator, META):
        yield "cv", {"cv": "many"}, data, ValueError
        yield "estimator", {"estimator": Raises()}, data, MemoryError
        yield (
            "interruption",
            {"estimator": Raises(KeyboardInterrupt)},
            data,
            (KeyboardInterrupt),
        )
    if isinstance(estimator, SelectiveClassifier):
        yield "abstention", {"abstain_label": "A"}, data, ValueError
    if isinstance(estimator, CalibratedClassifier):
        yield "calibrator", {"calibrator": "none"}, data, ValueError


class Raises(LogisticRegression):
    """Fail in fit."""

    def __init__(self, error=MemoryError):
        super().__init__()
        self.error = error

    def fit(self, X, y, sample_weight=None):  # noqa: ARG002
        raise self.error


class FailForSix(Callback):
    """Fail after an epoch on six features."""

    def __init__(self, error):
        self.error = error

    def on_epoch_end(self, net, **kwargs):
        if net.n_features_in_ == 6:
            raise self.error


class WrongForSix(torch.nn.Linear):
    """Return one logit too many for six features."""

    def __init__(self, n_features, n_classes):
        super().__init__(n_features, n_classes + (n_features == 6))


def state_of(estimator):
    """Return the attributes, which must stay the same objects."""
    return {name: id(value) for name, value in vars(estimator).items()}


@cache
def fit_of(estimator):
    return clone(estimator).fit(X, Y)


@all_estimators
def test_a_failed_fit_changes_nothing(estimator):
    fitted = copy.deepcopy(fit_of(estimator))
    proba, labels = fitted.predict_proba(X), fitted.predict(X)
    for how, params, data, error in failures(estimator):
        unfitted = clone(estimator).set_params(**params)
        with pytest.raises(error):
            unfitted.fit(**data)
        with pytest.raises(NotFittedError):
            unfitted.predict(X)
        own = fitted.get_params(deep=False)
        fitted.set_params(**params)
        before = state_of(fitted)
        with pytest.raises(error):
            fitted.fit(**data)
        assert state_of(fitted) == before, how
        fitted.set_params(**{name: own.get(name) for name in params})
        np.testing.assert_array_equal(fitted.predict_proba(X), proba, err_msg=how)
        np.testing.assert_array_equal(fitted.predict(X), labels, err_msg=how)


@all_estimators
def test_a_fit_after_a_failed_one_is_as_any(estimator):
    failed = clone(estimator)
    with pytest.raises(ValueError, match="sample_weight must be non-negative"):
        failed.fit(OTHER, LABELS, sample_weight=-np.ones(30))
    failed.fit(X, Y)
    np.testing.assert_array_equal(
        failed.predict_proba(X), fit_of(estimator).predict_proba(X)
    )
    assert not hasattr(failed, "feature_names_in_")


@pytest.mark.parametrize(
    ("params", "error"),
    [
        ({"module": WrongForSix}, ValueError),
        ({"callbacks": [FailForSix(MemoryError)]}, MemoryError),
        ({"callbacks": [FailForSix(ValueError)], "early_stopping": True}, ValueError),
    ],
)
def test_a_network_that_fails_while_it_trains(params, error):
    net = NeuralClassifier(max_epochs=2, validation_fraction=0.2, **params).fit(X, Y)
    before, proba = state_of(net), net.predict_proba(X)
    with pytest.raises(error):
        net.fit(OTHER, LABELS)
    assert state_of(net) == before
    np.testing.assert_array_equal(net.predict_proba(X), proba)


@pytest.mark.parametrize("kind", [NeuralClassifier, RefCalClassifier])
def test_a_failed_partial_fit_changes_nothing(kind):
    epochs = {"refine__max_epochs": 1} if kind is RefCalClassifier else {}
    net = kind(random_state=0, **epochs).partial_fit(X, Y, classes=list("abc"))
    before, proba = state_of(net), net.predict_proba(X)
    wider = OTHER.to_numpy()
    for data in [(wider, LABELS), (X, Y, ["a", "b"]), (X, Y, None, -np.ones(60))]:
        with pytest.raises(ValueError, match=r"features|classes|y must|sample_weight"):
            net.partial_fit(*data)
        assert state_of(net) == before
        np.testing.assert_array_equal(net.predict_proba(X), proba)


@pytest.mark.parametrize("estimator", ESTIMATORS[:5], ids=repr)
def test_names_of_features_are_those_of_the_last_fit(estimator):
    """Feature names are deleted by a fit to an array."""
    estimator = clone(estimator).fit(pd.DataFrame(X, columns=list("uvwx")), Y)
    assert estimator.feature_names_in_.tolist() == list("uvwx")
    estimator.fit(X[:, :3], Y)
    assert estimator.n_features_in_ == 3
    assert not hasattr(estimator, "feature_names_in_")


def test_every_estimator_is_tried():
    public = {
        each
        for name in sklearn_calib.__all__
        if isinstance(each := getattr(sklearn_calib, name), type)
        and issubclass(each, BaseEstimator)
        and each.__module__.startswith("sklearn_calib.estimators")
    }
    assert public == {type(estimator) for estimator in ESTIMATORS}
