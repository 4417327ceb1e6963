"""Classifiers with logits, with probabilities, and with neither."""

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.datasets import make_classification
from sklearn.discriminant_analysis import (
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
)
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

from sklearn_calib import CalibratedClassifier, NeuralClassifier, TemperatureScaling
from sklearn_calib._sklearn.response import holds_logits
from sklearn_calib.calibrators import VennAbers


def make_data(n_samples=600, n_classes=3, **params):
    """Return a noisy problem, on which classifiers are overconfident."""
    return make_classification(
        n_samples,
        n_features=10,
        n_informative=5,
        n_redundant=0,
        n_classes=n_classes,
        flip_y=0.2,
        random_state=0,
        **params,
    )


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(
    "classifier",
    [
        HistGradientBoostingClassifier(max_iter=3),
        LinearDiscriminantAnalysis(),
        LogisticRegression(),
        QuadraticDiscriminantAnalysis(reg_param=0.1),
    ],
    ids=lambda classifier: type(classifier).__name__,
)
def test_softmax_of_known_logits_is_predict_proba(classifier, n_classes):
    X, y = make_data(n_classes=n_classes)
    classifier.fit(X, y)
    assert holds_logits(classifier)
    logits = classifier.decision_function(X)
    if n_classes == 2:
        logits = np.column_stack([np.zeros(len(X)), logits])
    np.testing.assert_allclose(
        softmax(logits, axis=1), classifier.predict_proba(X), rtol=1e-6
    )
    model = CalibratedClassifier(FrozenEstimator(classifier), TemperatureScaling())
    (pair,) = model.fit(X, y).calibrated_classifiers_
    expected = TemperatureScaling(from_logits=True).fit(logits, y)
    assert pair.calibrator.temperature_ == expected.temperature_


class Declared(GaussianNB):
    """Classifier that declares that its decision function returns logits."""

    decision_function_is_logits = True

    def decision_function(self, X):
        return self.predict_joint_log_proba(X)


def test_where_logits_are_known():
    X, y = make_data()
    binary = y > 0
    assert holds_logits(Declared().fit(X, y))
    assert holds_logits(make_pipeline(StandardScaler(), Declared()).fit(X, y))
    assert holds_logits(FrozenEstimator(LogisticRegression().fit(X, y)))
    search = GridSearchCV(make_pipeline(LogisticRegression()), {}, cv=2)
    assert holds_logits(FrozenEstimator(search.fit(X, y)))
    assert not holds_logits(LinearSVC().fit(X, y))
    assert not holds_logits(GaussianNB().fit(X, y))
    liblinear = LogisticRegression(solver="liblinear")
    assert holds_logits(liblinear.fit(X, binary))
    liblinear.classes_ = np.arange(3)  # one against the rest, in older releases
    assert not holds_logits(liblinear)


def test_logits_and_log_probabilities_give_the_same_temperature():
    X, y = make_data()
    by_logits, by_proba = (
        CalibratedClassifier(
            LogisticRegression(), TemperatureScaling(), response_method=method
        ).fit(X, y)
        for method in ("auto", "predict_proba")
    )
    np.testing.assert_allclose(by_logits.predict_proba(X), by_proba.predict_proba(X))
    assert by_logits.calibrated_classifiers_[0].calibrator.from_logits
    assert not by_proba.calibrated_classifiers_[0].calibrator.from_logits


class OneColumn(GaussianNB):
    """Classifier that returns the probabilities of the positive class only."""

    def predict_proba(self, X):
        return super().predict_proba(X)[:, 1]


def test_one_column_of_probabilities():
    X, y = make_data()
    one, two = (
        CalibratedClassifier(estimator, TemperatureScaling(), cv=2).fit(X, y > 0)
        for estimator in (OneColumn(), GaussianNB())
    )
    np.testing.assert_allclose(one.predict_proba(X), two.predict_proba(X), rtol=1e-9)


def test_margins_are_refused_unless_declared():
    X, y = make_data()
    for calibrator in (TemperatureScaling(), None):
        model = CalibratedClassifier(LinearSVC(), calibrator)
        with pytest.raises(ValueError, match=r"got LinearSVC.*[Mm]argins.*not logits"):
            model.fit(X, y)
    model.set_params(
        calibrator=TemperatureScaling(), response_method="decision_function"
    )
    assert model.fit(X, y).predict_proba(X).shape == (600, 3)
    model.set_params(estimator=GaussianNB())
    with pytest.raises(ValueError, match="GaussianNB, which has no decision_function"):
        model.fit(X, y)
    with pytest.raises(ValueError, match="got SVC, which has no predict_proba"):
        CalibratedClassifier(make_pipeline(SVC()), TemperatureScaling()).fit(X, y)


def test_logits_of_a_neural_classifier():
    X, y = make_data()
    net = NeuralClassifier(max_epochs=2, lr=0.01, random_state=0)
    model = CalibratedClassifier(
        make_pipeline(StandardScaler(), net), TemperatureScaling(), cv=2
    ).fit(X, y)
    assert all(pair.calibrator.from_logits for pair in model.calibrated_classifiers_)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)
    assert model.score(X, y) > 0.5


class WithLogits(GaussianNB):
    """Classifier that has logits as TabPFN, and another decision function."""

    def predict_logits(self, X):
        return 3 * self.predict_joint_log_proba(X)

    def decision_function(self, X):
        return -self.predict_joint_log_proba(X)


def with_logits(*arguments, **options):
    options["response_method"] = "predict_logits"
    return CalibratedClassifier(*arguments, **options)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_predict_logits_has_a_column_for_each_class(n_classes):
    X, y = make_data(n_classes=n_classes)
    classifier = WithLogits().fit(X, y)
    model = with_logits(FrozenEstimator(classifier), TemperatureScaling()).fit(X, y)
    logits = classifier.predict_logits(X)
    expected = TemperatureScaling(from_logits=True).fit(logits, y)
    np.testing.assert_array_equal(
        model.predict_proba(X), expected.predict_proba(logits)
    )
    plain = model.uncalibrated()
    np.testing.assert_array_equal(plain.predict_proba(X), classifier.predict_proba(X))
    interval = model.set_params(calibrator=VennAbers()).fit(X, y).predict_interval(X)
    assert interval.shape == (600, n_classes, 2)


def test_predict_logits_of_folds_with_an_absent_class():
    X, y = make_data()
    present, rest = np.flatnonzero(y < 2), np.arange(600)
    model = with_logits(WithLogits(), TemperatureScaling(), cv=[(present, rest)])
    with pytest.warns(UserWarning, match="no samples of some classes"):
        model.fit(X, y)
    (pair,) = model.calibrated_classifiers_
    logits = pair.estimator.predict_logits(X)
    logits = np.column_stack([logits, logits.min(axis=1)])
    expected = pair.calibrator.predict_proba(logits)
    np.testing.assert_allclose(model.predict_proba(X), expected)


def test_predict_logits_is_used_on_request_only():
    X, y = make_data()
    by_proba, by_default = (
        CalibratedClassifier(WithLogits(), "platt", response_method=method).fit(X, y)
        for method in ("predict_proba", "auto")
    )
    np.testing.assert_array_equal(
        by_proba.predict_proba(X), by_default.predict_proba(X)
    )
    for estimator, message in [
        (GaussianNB(), "got GaussianNB, which has no predict_logits"),
        (
            make_pipeline(StandardScaler(), WithLogits()),
            "got Pipeline, which does not pass on predict_logits of WithLogits",
        ),
    ]:
        with pytest.raises(ValueError, match=message):
            with_logits(estimator).fit(X, y)
    calibrated = with_logits(WithLogits(), TemperatureScaling(), cv=2)
    inside = make_pipeline(StandardScaler(), calibrated)
    assert inside.fit(X, y).score(X, y) > 0.5


def test_a_frozen_classifier_of_another_device_is_calibrated(on_device):
    X, y = make_data(60)

    def predict(X, y):
        frozen = FrozenEstimator(LinearDiscriminantAnalysis().fit(X, y))
        return CalibratedClassifier(frozen, "temperature").fit(X, y).predict_proba(X)

    proba = predict(on_device(X), on_device(y))
    np.testing.assert_allclose(proba, predict(X, y), rtol=1e-9)
