"""A decision threshold inside a wrapper is an error, and outside it is used."""

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.experimental import enable_halving_search_cv  # noqa: F401 - enables it
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    HalvingGridSearchCV,
    TunedThresholdClassifierCV,
    train_test_split,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_calib import (
    CalibratedClassifier,
    PredictionSetClassifier,
    SelectiveClassifier,
    TemperatureScaling,
)

X, Y = make_classification(
    2000, n_features=10, n_informative=5, weights=[0.8], flip_y=0.1, random_state=0
)
Y = np.array(["healthy", "sick"])[Y]
X, X_TEST, Y, Y_TEST = train_test_split(X, Y, random_state=0)
FIXED = FixedThresholdClassifier(GaussianNB(), threshold=0.05, pos_label="sick")
OF_TUNED = {"scoring": "balanced_accuracy", "cv": 2, "thresholds": 20}
TUNED = TunedThresholdClassifierCV(GaussianNB(), **OF_TUNED)
INSIDE = {
    "fixed": FIXED,
    "tuned": TUNED,
    "prefit": FrozenEstimator(FIXED.fit(X, Y)),
    "pipeline": make_pipeline(StandardScaler(), TUNED),
    "prefit pipeline": FrozenEstimator(make_pipeline(FIXED).fit(X, Y)),
    "search": GridSearchCV(FIXED, {"estimator__var_smoothing": [1e-9, 1e-3]}, cv=2),
    "halving search": HalvingGridSearchCV(FIXED, {"threshold": [0.1]}, cv=2),
    "chosen": GridSearchCV(make_pipeline(GaussianNB()), {"gaussiannb": [FIXED]}, cv=2),
}


@pytest.mark.parametrize("name", INSIDE)
@pytest.mark.parametrize(
    ("wrapper", "way_out"),
    [
        (
            CalibratedClassifier(GaussianNB(), TemperatureScaling()),
            r"TunedThresholdClassifierCV\(CalibratedClassifier\(",
        ),
        (CalibratedClassifier(GaussianNB(), None), "Apply the threshold to"),
        (
            SelectiveClassifier(GaussianNB(), coverage=0.8),
            "Pass the classifier without",
        ),
        (
            SelectiveClassifier(GaussianNB(), max_risk=0.2),
            "Pass the classifier without",
        ),
        (PredictionSetClassifier(GaussianNB()), "Pass the classifier without"),
    ],
    ids=["calibrated", "not calibrated", "coverage", "max_risk", "sets"],
)
def test_threshold_inside_is_an_error(wrapper, way_out, name):
    kind = "Tuned" if name in {"tuned", "pipeline"} else "Fixed"
    message = f"must not have a decision threshold, got {kind}Threshold.*{way_out}"
    with pytest.raises(ValueError, match=message):
        wrapper.set_params(estimator=INSIDE[name], cv=2).fit(X[:300], Y[:300])


def test_threshold_outside_applies_to_calibrated_probabilities():
    calibrated = CalibratedClassifier(
        GaussianNB(), TemperatureScaling(), cv=2, n_repeats=1
    )
    proba = calibrated.fit(X, Y).predict_proba(X_TEST)
    model = FixedThresholdClassifier(calibrated, threshold=0.05, pos_label="sick")
    is_sick = model.fit(X, Y).predict(X_TEST) == "sick"
    np.testing.assert_array_equal(is_sick, proba[:, 1] >= 0.05)
    assert is_sick.sum() > 1.5 * (proba[:, 1] > 0.5).sum()


def test_tuned_threshold_outside_is_as_good():
    """Also as the message says for a fitted threshold classifier."""
    alone = TUNED.fit(X, Y).score(X_TEST, Y_TEST)
    outside = TunedThresholdClassifierCV(
        CalibratedClassifier(GaussianNB(), TemperatureScaling(), ensemble=False, cv=2),
        **OF_TUNED,
    )
    assert outside.fit(X, Y).score(X_TEST, Y_TEST) == pytest.approx(alone, abs=0.03)
    fitted = FrozenEstimator(TUNED.estimator_)
    model = CalibratedClassifier(fitted, TemperatureScaling()).fit(X_TEST, Y_TEST)
    assert model.predict_proba(X).shape == (1500, 2)


def test_threshold_around_a_pipeline_of_a_wrapper():
    pipeline = make_pipeline(
        StandardScaler(), CalibratedClassifier(LogisticRegression(), None, cv=2)
    )
    model = FixedThresholdClassifier(pipeline, threshold=0.1, pos_label="sick")
    counts = (model.fit(X, Y).predict(X_TEST) == "sick").sum()
    assert counts == (pipeline.fit(X, Y).predict_proba(X_TEST)[:, 1] >= 0.1).sum()


def test_calibrator_with_a_threshold_is_refused():
    model = CalibratedClassifier(GaussianNB(), FIXED)
    with pytest.raises(ValueError, match="calibrator must not have a decision thresh"):
        model.fit(X, Y)
