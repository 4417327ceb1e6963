"""Groups that the folds of a classifier's wrapper do not divide."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, GroupKFold, StratifiedKFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

from sklearn_calib import (
    CalibratedClassifier,
    PredictionSetClassifier,
    SelectiveClassifier,
    TemperatureScaling,
)
from sklearn_calib.calibrators import PerGroupCalibrator, PerLabelCalibrator
from sklearn_calib.estimators._out_of_fold import make_splits


def draw_patients(sizes, seed):
    """Return samples of patients, whose number is the first feature."""
    rng = np.random.default_rng(seed)
    patients = np.repeat(np.arange(len(sizes)), sizes)
    mean = rng.normal(size=(len(sizes), 6))
    noise = rng.normal(size=(len(patients), 6))
    rest = 0.7 * rng.normal(size=len(sizes))
    logits = 2 * mean[:, 0] + mean[:, 1] * mean[:, 2] + rest
    y = (logits[patients] + 0.5 * noise[:, 0] > 0).astype(int)
    return np.column_stack([patients, mean[patients] + 0.3 * noise]), y, patients


X, Y, PATIENTS = draw_patients(np.full(40, 5), 0)
SCALING = TemperatureScaling()


class RefusesKnownPatients(ClassifierMixin, BaseEstimator):
    """Classifier that raises an error if it knows a patient whom it predicts."""

    def fit(self, X, y):
        self.classes_, self.patients_ = np.unique(y), set(X[:, 0])
        self.classifier_ = GaussianNB().fit(X[:, 1:], y)
        return self

    def predict_proba(self, X):
        assert self.patients_.isdisjoint(X[:, 0])
        return self.classifier_.predict_proba(X[:, 1:])


class TakesGroups(GaussianNB):
    def fit(self, X, y, groups=None):
        self.groups_ = groups
        return super().fit(X, y)


wrappers = pytest.mark.parametrize(
    "wrapper",
    [
        CalibratedClassifier(GaussianNB(), SCALING, cv=3),
        pytest.param(
            CalibratedClassifier(GaussianNB(), SCALING, cv=3, n_repeats=1),
            marks=pytest.mark.slow,
        ),
        CalibratedClassifier(GaussianNB(), SCALING, cv=3, ensemble=False),
        CalibratedClassifier(GaussianNB(), PerGroupCalibrator(SCALING), cv=3, groups=0),
        SelectiveClassifier(GaussianNB(), cv=3, coverage=0.8, abstain_label=-1),
        PredictionSetClassifier(GaussianNB(), cv=3),
    ],
    ids=["calibrated", "one_repeat", "one_classifier", "columns", "selective", "sets"],
)


@wrappers
def test_folds_do_not_divide_groups(wrapper):
    model = clone(wrapper).set_params(estimator=RefusesKnownPatients())
    model.fit(X, Y, groups=PATIENTS)
    with sklearn.config_context(enable_metadata_routing=True):
        model.fit(X, Y, groups=PATIENTS)
    with pytest.raises(AssertionError):
        model.fit(X, Y)


def test_none_is_five_folds():
    model = CalibratedClassifier(RefusesKnownPatients(), SCALING, cv=None)
    model.fit(X, Y, groups=PATIENTS)
    assert len(model.calibrated_classifiers_) == 5
    with pytest.raises(AssertionError):
        model.fit(X, Y)


@wrappers
def test_groups_of_any_kind(wrapper):
    model = clone(wrapper)
    expected = model.fit(X, Y, groups=PATIENTS).predict_proba(X)
    names = [f"patient {number:02d}" for number in PATIENTS]
    sites = np.column_stack([PATIENTS // 10, PATIENTS % 10])
    series = pd.Series(names, index=PATIENTS, dtype="category")
    for groups in (names, np.array(names), series, sites, PATIENTS / 10):
        found = model.fit(X, Y, groups=groups).predict_proba(X)
        np.testing.assert_array_equal(found, expected)
    with sklearn.config_context(enable_metadata_routing=True):
        found = model.fit(X, Y, groups=names).predict_proba(X)
    np.testing.assert_array_equal(found, expected)


@wrappers
def test_groups_may_be_none(wrapper):
    model = clone(wrapper)
    expected = model.fit(X, Y).predict_proba(X)
    found = model.fit(X, Y, groups=None).predict_proba(X)
    np.testing.assert_array_equal(found, expected)
    with sklearn.config_context(enable_metadata_routing=True):
        found = model.fit(X, Y, groups=None).predict_proba(X)
    np.testing.assert_array_equal(found, expected)


@wrappers
def test_bad_groups(wrapper):
    model = clone(wrapper)
    with pytest.raises(ValueError, match="got 5 groups and 200 samples"):
        model.fit(X, Y, groups=PATIENTS[:5])
    message = r"number of groups of each class, got . folds, .* has 2\. Use cv=2"
    with pytest.raises(ValueError, match=message):
        model.fit(X, Y, groups=PATIENTS % 2)


@wrappers
def test_a_classifier_that_takes_groups_too(wrapper):
    """Only metadata routing, or another cv, says who gets them."""
    search = GridSearchCV(GaussianNB(), {"var_smoothing": [0.1]}, cv=GroupKFold(2))
    inner = CalibratedClassifier(GaussianNB(), SCALING, cv=2)
    for classifier in (TakesGroups(), search, inner):
        name = type(classifier).__name__
        model = clone(wrapper).set_params(estimator=classifier)
        with pytest.raises(ValueError, match=f"both the folds and .* got {name}"):
            model.fit(X, Y, groups=PATIENTS)
        model.set_params(cv=StratifiedKFold(2)).fit(X, Y, groups=PATIENTS)
        with sklearn.config_context(enable_metadata_routing=True):
            if name == "TakesGroups":
                classifier.set_fit_request(groups=True)
            model.set_params(cv=2).fit(X, Y, groups=PATIENTS)


def test_without_folds_groups_are_not_used():
    frozen = FrozenEstimator(GaussianNB().fit(X, Y))
    for arguments in ((GaussianNB(), None), (frozen, SCALING)):
        model = CalibratedClassifier(*arguments)
        expected = model.fit(X, Y).predict_proba(X)
        found = model.fit(X, Y, groups=PATIENTS).predict_proba(X)
        np.testing.assert_array_equal(found, expected)


def test_multilabel_folds():
    classifier = OneVsRestClassifier(LogisticRegression())
    model = CalibratedClassifier(classifier, PerLabelCalibrator(SCALING), cv=2)
    y = np.column_stack([Y, X[:, 1] > 0]).astype(int)
    model.fit(X, y, groups=PATIENTS)
    assert np.all(model.pool_temperature_ < 1)
    for train, test in make_splits(2, X, y, [], n_repeats=2, groups=PATIENTS):
        assert set(PATIENTS[train]).isdisjoint(PATIENTS[test])


def test_draws_of_unequal_groups_differ():
    """Folds that are balanced by the size of groups would be the same in each draw."""
    rng = np.random.default_rng(0)
    sites = np.repeat(np.arange(12), rng.integers(1, 500, size=12))
    y = (rng.random(len(sites)) < rng.uniform(size=12)[sites]).astype(int)
    folds = make_splits(3, y[:, None], y, [0, 1], n_repeats=2, groups=sites)
    first, second = [t for _, t in folds[:3]], [t for _, t in folds[3:]]
    np.testing.assert_array_equal(np.sort(np.concatenate(second)), np.arange(len(y)))
    same = [max(len(np.intersect1d(a, b)) for b in second) for a in first]
    assert sum(same) / len(y) < 0.7


def slope(model, X, y):
    """Return the calibration slope of two classes."""
    proba = model.predict_proba(X)
    logits = np.log(proba[:, [1]] / proba[:, [0]])
    return LogisticRegression(C=np.inf).fit(logits, y).coef_.item()


@pytest.mark.slow
def test_average_is_calibrated_for_new_patients():
    tree = DecisionTreeClassifier(max_depth=6, random_state=0)
    X_test, y_test, _ = draw_patients(np.ones(3000, int), 100)
    slopes = []
    for seed in range(3):
        X, y, groups = draw_patients(np.full(300, 4), seed)
        folds = list(GroupKFold(5).split(X, y, groups))
        for cv, params in ((5, {"groups": groups}), (5, {}), (folds, {})):
            model = CalibratedClassifier(tree, SCALING, cv=cv)
            model.fit(X[:, 1:], y, **params)
            slopes.append(slope(model, X_test[:, 1:], y_test))
            assert (model.pool_temperature_ < 0.9) == (cv == 5)
    kept, divided, drawn_once = np.reshape(slopes, (3, 3)).mean(axis=0)
    assert 0.88 < kept < 1.12
    assert divided < 0.88
    assert drawn_once > 1.25
