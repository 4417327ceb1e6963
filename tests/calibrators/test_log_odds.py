"""Calibrators of two logits also take their difference, as of a decision function."""

import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from sklearn_calib import CalibratedClassifier, TemperatureScaling
from sklearn_calib.calibrators import PerGroupCalibrator, PlattScaling, VennAbers

EXCUSED: dict[str, dict[str, str]] = {}


def make_data(n_samples=50):
    rng = np.random.default_rng(0)
    odds = 3 * rng.normal(size=n_samples)
    return odds, (odds / 2 + rng.logistic(size=n_samples) > 0).astype(int)


def two_columns(odds):
    return np.column_stack([np.zeros_like(odds), odds])


@pytest.mark.filterwarnings("ignore")
def test_one_column_is_the_difference_of_two(calibrator, fresh):
    odds, y = make_data()
    fitted = fresh(calibrator, from_logits=True).fit(two_columns(odds), y)
    proba = fitted.predict_proba(two_columns(odds))
    for column in (odds, odds[:, None], odds.tolist(), pd.Series(odds)):
        np.testing.assert_array_equal(fitted.predict_proba(column), proba)
    np.testing.assert_array_equal(
        fitted.predict(odds), fitted.predict(two_columns(odds))
    )
    if type(calibrator).__name__ == "BoostingCalibrator":
        return  # it has no torch module
    module, tensor = fitted.to_torch(), torch.from_numpy(odds)
    expected = module(torch.from_numpy(two_columns(odds)))
    for column in (tensor, tensor[:, None]):
        torch.testing.assert_close(module(column), expected, rtol=0, atol=0)


@pytest.mark.usefixtures("elsewhere")
def test_one_column_of_other_arrays():
    odds, y = make_data()
    fitted = TemperatureScaling(from_logits=True).fit(two_columns(odds), y)
    found = fitted.predict_proba(torch.from_numpy(odds))
    np.testing.assert_allclose(found.numpy(), fitted.predict_proba(odds), rtol=1e-12)


def test_one_column_of_a_dask_array():
    da = pytest.importorskip("dask.array", reason="needs Dask")
    odds, y = make_data()
    fitted = TemperatureScaling(from_logits=True).fit(two_columns(odds), y)
    found = fitted.predict_proba(da.from_array(odds, chunks=30))
    np.testing.assert_array_equal(found.compute(), fitted.predict_proba(odds))


@pytest.mark.filterwarnings("ignore:.*misclassified samples")
def test_one_column_of_intervals_and_groups():
    odds, y = make_data()
    X = two_columns(odds)
    venn = VennAbers(from_logits=True).fit(X, y)
    np.testing.assert_array_equal(venn.predict_interval(odds), venn.predict_interval(X))
    groups = {"groups": y}
    grouped = PerGroupCalibrator(TemperatureScaling(), from_logits=True)
    grouped = grouped.fit(X, y, **groups)
    np.testing.assert_array_equal(
        grouped.predict_proba(odds, **groups), grouped.predict_proba(X, **groups)
    )


@pytest.mark.filterwarnings("ignore:.*misclassified samples")
@pytest.mark.parametrize(
    "model",
    [
        CalibratedClassifier(LogisticRegression(), TemperatureScaling(), cv=2),
        CalibratedClassifier(LogisticRegression(), LogisticRegression(), cv=2),
        CalibratedClassifier(LinearSVC(), PlattScaling(), cv=2),
    ],
)
def test_the_calibrator_of_a_binary_classifier(model):
    odds, y = make_data()
    X = two_columns(odds + y)
    pair = model.fit(X, y).calibrated_classifiers_[0]
    scores = pair.estimator.decision_function(X)
    for column in (scores, scores[:, None]):
        np.testing.assert_array_equal(
            pair.calibrator.predict_proba(column), pair.predict_proba(X)
        )


def test_probabilities_are_not_log_odds():
    odds, y = make_data()
    fitted = TemperatureScaling(from_logits=True).fit(two_columns(odds), y)
    p = 1 / (1 + np.exp(-odds))
    for proba in (p, p[:, None], np.column_stack([1 - p, p])):
        with pytest.warns(UserWarning, match="such as those of decision_function"):
            fitted.predict_proba(proba)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted.predict_proba(p[:9])  # may be log-odds
        fitted.predict_proba(odds)


def test_one_column_of_other_fits_is_refused():
    odds, y = make_data()
    X = two_columns(odds)
    proba = np.exp(X) / np.exp(X).sum(axis=1, keepdims=True)
    fitted = TemperatureScaling().fit(proba, y)
    with pytest.raises(ValueError, match="X has 1 features"):
        fitted.predict_proba(proba[:, 1])
    with pytest.raises(ValueError, match="must have the shape"):
        fitted.to_torch()(torch.from_numpy(proba[:, 1:]))
    three = TemperatureScaling(from_logits=True).fit(
        np.column_stack([X, odds]), y + 1, labels=[0, 1, 2]
    )
    with pytest.raises(ValueError, match="X has 1 features"):
        three.predict_proba(odds)
