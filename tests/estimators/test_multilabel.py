"""CalibratedClassifier for multilabel problems."""

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.datasets import make_multilabel_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, log_loss, make_scorer
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.svm import LinearSVC

from sklearn_calib import CalibratedClassifier, SelectiveClassifier, TemperatureScaling
from sklearn_calib.calibrators import (
    IsotonicCalibration,
    PerLabelCalibrator,
    PlattScaling,
    VectorScaling,
)
from sklearn_calib.metrics import per_label

X, Y = make_multilabel_classification(
    600, n_features=10, n_classes=3, allow_unlabeled=True, random_state=0
)
PER_LABEL = PerLabelCalibrator(TemperatureScaling())


@pytest.mark.parametrize(
    "estimator",
    [
        OneVsRestClassifier(GaussianNB()),
        MultiOutputClassifier(GaussianNB()),
        ClassifierChain(GaussianNB()),
        RandomForestClassifier(10, random_state=0),
        MLPClassifier(max_iter=3, random_state=0),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("ensemble", [True, False])
def test_probabilities_of_each_label(estimator, ensemble):
    """An array of labels, or a list with an array of two classes for each label."""
    train, test = slice(0, 400), slice(400, None)
    plain, model = (
        CalibratedClassifier(estimator, each, cv=2, ensemble=ensemble)
        for each in (None, PER_LABEL)
    )
    before = plain.fit(X[train], Y[train]).predict_proba(X[test])
    proba = model.fit(X[train], Y[train]).predict_proba(X[test])
    assert before.shape == proba.shape == (200, 3)
    assert per_label(log_loss, Y[test], proba) < per_label(
        log_loss, Y[test], np.clip(before, 1e-9, 1 - 1e-9)
    )
    np.testing.assert_array_equal(model.predict(X[test]), proba > 0.5)
    assert model.score(X[test], Y[test]) == accuracy_score(Y[test], proba > 0.5)
    np.testing.assert_array_equal(model.classes_, [[0, 1]] * 3)


def test_held_out_predictions_are_calibrated_by_label():
    cv = KFold(3)
    model = CalibratedClassifier(
        OneVsRestClassifier(GaussianNB()), PER_LABEL, cv=cv, ensemble=False
    )
    weight = np.arange(600) % 3
    (pair,) = (
        model.set_params(estimator=RandomForestClassifier(5, random_state=0))
        .fit(X, Y, weight)
        .calibrated_classifiers_
    )
    held_out, rows = [], []
    for train, test in cv.split(X):
        forest = RandomForestClassifier(5, random_state=0)
        forest.fit(X[train], Y[train], weight[train])
        held_out.append(
            np.column_stack([p[:, 1] for p in forest.predict_proba(X[test])])
        )
        rows.append(test)
    rows = np.concatenate(rows)
    expected = PerLabelCalibrator(TemperatureScaling())
    expected.fit(np.concatenate(held_out), Y[rows], weight[rows])
    np.testing.assert_allclose(
        [each.temperature_ for each in pair.calibrator.calibrators_],
        [each.temperature_ for each in expected.calibrators_],
    )


def test_containers_frozen_and_search():
    classifier = OneVsRestClassifier(GaussianNB())
    model = CalibratedClassifier(classifier, PER_LABEL, cv=2, n_repeats=1)
    expected = model.fit(X, Y).predict_proba(X)
    for y in (Y.tolist(), pd.DataFrame(Y), csr_array(Y), Y.astype(bool)):
        model.fit(X, y)
        np.testing.assert_array_equal(model.predict_proba(X), expected)
    frozen = FrozenEstimator(classifier.fit(X[:200], Y[:200]))
    model = CalibratedClassifier(frozen, PER_LABEL).fit(X[200:], Y[200:])
    direct = PerLabelCalibrator(TemperatureScaling())
    direct.fit(frozen.predict_proba(X[200:]), Y[200:])
    np.testing.assert_array_equal(
        model.predict_proba(X), direct.predict_proba(frozen.predict_proba(X))
    )
    scorer = make_scorer(
        lambda y, proba: -per_label(log_loss, y, proba), response_method="predict_proba"
    )
    grid = {"calibrator__calibrator": [TemperatureScaling(), IsotonicCalibration()]}
    model.set_params(estimator=classifier, cv=2, n_repeats=1)
    search = GridSearchCV(model, grid, scoring=scorer, cv=2, error_score="raise")
    assert search.fit(X, Y).predict_proba(X).shape == (600, 3)


def test_labels_that_a_fold_does_not_have():
    """A forest then has one column for the label, of the class that it knows."""
    y = Y.copy()
    y[:, 0] = np.arange(600) < 200
    y[:, 2] = 1
    model = CalibratedClassifier(
        RandomForestClassifier(5, random_state=0), None, cv=KFold(3), ensemble=True
    )
    proba = model.fit(X, y).predict_proba(X)
    assert (proba[:, 2] == 1).all()
    first = model.calibrated_classifiers_[0].predict_proba(X)
    assert (first[:, 0] == 0).all()


def test_margins_of_labels():
    estimator = OneVsRestClassifier(LinearSVC(random_state=0))
    calibrator = PerLabelCalibrator(PlattScaling())
    model = CalibratedClassifier(estimator, calibrator, ensemble=False, cv=3).fit(X, Y)
    assert per_label(log_loss, Y, model.predict_proba(X)) < 0.45
    model.set_params(calibrator=PER_LABEL)
    with pytest.raises(ValueError, match=r"Margins.*PlattScaling, "):
        model.fit(X, Y)


def test_few_errors_of_all_folds_together():
    y = Y.copy()
    y[:, 1] = X[:, 0] > np.median(X[:, 0])
    y[::86, 1] = 1 - y[::86, 1]
    model = CalibratedClassifier(
        OneVsRestClassifier(LogisticRegression(C=1e5)), PER_LABEL, cv=3, n_repeats=1
    )
    with pytest.warns(UserWarning, match=r"about 10 misclassified .* got [5-9] for"):
        model.fit(X, y)


@pytest.mark.parametrize(
    ("calibrator", "y", "message"),
    [
        (TemperatureScaling(), Y, r"multilabel, got Temp.*PerLabelCalibrator\(Temp"),
        (VectorScaling(), Y, "multilabel, got Vec.*argmax"),
        (LogisticRegression(), Y, "multilabel, got Logistic"),
        (PER_LABEL, Y[:, 0], "if y contains one label for each sample, got Per"),
        (PER_LABEL, Y + 1, "y must contain only zeros and ones"),
        (PER_LABEL, Y * 0.5, "y must contain only zeros and ones"),
        (PER_LABEL, np.where(Y, np.nan, 1), "NaN"),
        (PER_LABEL, Y[:100], "inconsistent numbers of samples"),
        (PER_LABEL, Y.astype(str), "y"),
    ],
)
def test_bad_input(calibrator, y, message):
    model = CalibratedClassifier(OneVsRestClassifier(GaussianNB()), calibrator)
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)


def test_selective_classifier_needs_one_label():
    model = SelectiveClassifier(
        OneVsRestClassifier(GaussianNB()), coverage=0.5, abstain_label=-1
    )
    with pytest.raises(ValueError, match="1d array"):
        model.fit(X, Y)
