"""`reference_` of `CalibratedClassifier`: its held-out predictions."""

import pickle

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_calib import CalibratedClassifier
from sklearn_calib.calibrators import (
    IsotonicCalibration,
    PerGroupCalibrator,
    PlattScaling,
)

X, Y = make_classification(300, flip_y=0.2, random_state=0)
NAMES = np.array(["no", "yes"])[Y]
MODEL = make_pipeline(StandardScaler(), LogisticRegression())


@pytest.mark.parametrize("ensemble", [True, False])
def test_samples_are_held_out(ensemble):
    """A nearest neighbour knows the labels of its training samples."""
    y = np.random.default_rng(0).permutation(NAMES)
    neighbour = KNeighborsClassifier(1)
    model = CalibratedClassifier(neighbour, PlattScaling(), ensemble=ensemble)
    y_true, proba = model.fit(X, y).reference_
    np.testing.assert_array_equal(y_true, y)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    assert log_loss(y_true, proba) > 0.66
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.reference_[1], proba)


@pytest.mark.parametrize("ensemble", [True, False])
def test_calibrators_do_not_know_the_samples(ensemble):
    """An isotonic map of noise would look better than chance for its own samples."""
    y = np.random.default_rng(0).permutation(NAMES)
    isotonic = IsotonicCalibration()
    model = CalibratedClassifier(LogisticRegression(), isotonic, ensemble=ensemble)
    y_true, proba = model.fit(X, y).reference_
    assert log_loss(y_true, proba) > np.log(2)


def test_groups_keep_a_reference():
    groups = np.arange(300) % 2
    model = CalibratedClassifier(MODEL, PerGroupCalibrator(PlattScaling()))
    y_true, proba = model.fit(X, NAMES, groups=groups).reference_
    assert proba.shape == (300, 2)
    assert log_loss(y_true, proba) < 0.6


def test_averages_of_two_predictions_are_calibrated():
    y_true, proba = CalibratedClassifier(MODEL).fit(X, NAMES).reference_
    assert proba[:, 1].mean() == pytest.approx(Y.mean(), abs=0.01)
    losses = [
        log_loss(y_true, proba**power / (proba**power).sum(axis=1, keepdims=True))
        for power in (0.5, 1, 1.5)
    ]
    assert min(losses) == losses[1]


def test_weights():
    weight = np.arange(300) % 3.0
    model = CalibratedClassifier(LogisticRegression(), "temperature", ensemble=False)
    y_true, _, found = model.fit(X, NAMES, sample_weight=weight).reference_
    np.testing.assert_array_equal(found, weight)
    np.testing.assert_array_equal(y_true, NAMES)


def test_classifiers_without_a_reference():
    fitted = CalibratedClassifier(MODEL, PlattScaling()).fit(X, NAMES)
    frozen = CalibratedClassifier(FrozenEstimator(fitted), PlattScaling())
    plain = CalibratedClassifier(MODEL, PlattScaling(), n_repeats=1).fit(X, NAMES)
    uncalibrated = CalibratedClassifier(MODEL, None).fit(X, NAMES)
    labels = np.column_stack([Y, 1 - Y])
    multilabel = CalibratedClassifier(KNeighborsClassifier(), "temperature", cv=2)
    for model in (
        *(frozen.fit(X, NAMES), fitted.uncalibrated(), plain),
        *(uncalibrated, multilabel.fit(X, labels)),
    ):
        with pytest.raises(AttributeError, match="reference_ needs held-out predict"):
            _ = model.reference_
