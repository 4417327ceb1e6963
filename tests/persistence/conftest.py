"""Fitted calibrators of every kind, and a small network."""

import copy
import json
import warnings
from functools import cache

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_classification

from sklearn_calib import NeuralClassifier
from sklearn_calib.calibrators import (
    AutoCalibrator,
    DirichletCalibrator,
    IsotonicCalibration,
    MatrixScaling,
    MetaCal,
    PerLabelCalibrator,
    StructuredMatrixScaling,
    TemperatureScaling,
    VectorScaling,
    get_calibrator,
    get_calibrator_names,
)

SETTINGS = [
    DirichletCalibrator(diagonal=True, penalty="l2", lambd=[0.1, 1.0]),
    IsotonicCalibration(centered=True),
    MatrixScaling(penalty="odir", lambd=np.array([0.1, 1.0]), mu=np.float64(0.5)),
    StructuredMatrixScaling(lambd=1.0),
    VectorScaling(penalty="empirical_bayes"),
    # The threshold is infinite.
    MetaCal(coverage_accuracy=0.1, random_state=np.int64(0)),
]
CALIBRATORS = [
    *(get_calibrator(name)() for name in get_calibrator_names()),
    *SETTINGS,
]


def make_predictions(n_classes, dtype, n_samples=60):
    """Return probabilities with zeros, logits, and labels."""
    rng = np.random.default_rng(n_classes)
    logits = 2 * rng.normal(size=(n_samples, n_classes))
    codes = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    codes[:n_classes] = np.arange(n_classes)
    proba = np.exp(3 * logits) / np.exp(3 * logits).sum(axis=1, keepdims=True)
    proba[proba < 1e-5] = 0
    proba /= proba.sum(axis=1, keepdims=True)
    labels = np.array([f"label {k}" for k in range(n_classes)], dtype=object)
    return proba.astype(dtype), (3 * logits).astype(dtype), labels[codes]


def fit(calibrator, n_classes=3, dtype=np.float64, **params):
    """Return a fitted clone of a calibrator, and the data of the fit."""
    if params:
        return fit_clone(calibrator, n_classes, dtype, params)
    return copy.deepcopy(fit_once(calibrator, n_classes, dtype))


def fit_clone(calibrator, n_classes, dtype, params):
    proba, logits, y = make_predictions(n_classes, dtype)
    if isinstance(calibrator, AutoCalibrator):  # two of them make a choice
        pair = [TemperatureScaling(), IsotonicCalibration()]
        params = {"calibrators": pair, "cv": 2, **params}
    fitted = clone(calibrator).set_params(**params)
    X = logits if fitted.from_logits else proba
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fitted.fit(X, y), X


@cache
def fit_once(calibrator, n_classes, dtype):
    return fit_clone(calibrator, n_classes, dtype, {})


def fit_per_label():
    """Return a calibrator of multilabel data, and the data."""
    proba, _, y = make_predictions(3, np.float64)
    y = np.unique(y)[:, None] == y
    return PerLabelCalibrator(TemperatureScaling()).fit(proba, y.T), proba


@pytest.fixture(scope="session", name="fit")
def fixture_fit():
    return fit


@pytest.fixture(scope="session", name="fit_per_label")
def fixture_fit_per_label():
    return fit_per_label


@pytest.fixture(scope="session")
def through_json():
    """Return a function that writes a document as strict JSON, and reads it."""
    return lambda document: json.loads(json.dumps(document, allow_nan=False))


def pytest_generate_tests(metafunc):
    if "calibrator" in metafunc.fixturenames:
        metafunc.config.hold(metafunc, "calibrator", CALIBRATORS)


@pytest.fixture(scope="session")
def table():
    return make_classification(
        n_samples=90,
        n_features=6,
        n_informative=6,
        n_redundant=0,
        n_classes=3,
        random_state=0,
    )


@pytest.fixture(scope="session")
def net(table):
    """Return a small network that was fitted to the table."""
    net = NeuralClassifier(module__hidden_sizes=(4,), max_epochs=1, random_state=0)
    return net.fit(*table)
