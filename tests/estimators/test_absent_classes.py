"""Classes that are absent from the training part or from the test part of a fold."""

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.datasets import make_classification
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils import shuffle

from sklearn_calib import (
    CalibratedClassifier,
    PredictionSetClassifier,
    SelectiveClassifier,
    TemperatureScaling,
)
from sklearn_calib._sklearn.response import align_columns, predict_scores
from sklearn_calib.calibrators import (
    AutoCalibrator,
    HistogramBinning,
    PerLabelCalibrator,
    PlattScaling,
    get_calibrator,
    get_calibrator_names,
)

NAMES = np.array(["ant", "bee", "cat", "dog"])
ABSENT = "y contains no samples of some classes in the training part of a fold: "
EACH_FOLD = r"\['ant'\] in fold 0, \['bee'\] in fold 1, \['cat'\] in fold 2 of 3"


def make_data(n_samples=600, n_classes=3):
    """Return noisy data and labels in random order."""
    X, y = make_classification(
        n_samples,
        n_features=10,
        n_informative=5,
        n_classes=n_classes,
        flip_y=0.2,
        random_state=0,
    )
    return X, NAMES[y]


def folds_without_a_class(y):
    """Return three folds, of which each is trained without one class."""
    rows = np.arange(len(y))
    return [
        (rows[(rows % 3 != fold) & (y != NAMES[fold])], rows[rows % 3 == fold])
        for fold in range(3)
    ]


@pytest.mark.parametrize("ensemble", [True, False])
def test_warning_names_label_and_fold(ensemble):
    X, y = make_data()
    cv = folds_without_a_class(y)
    model = CalibratedClassifier(
        GaussianNB(), TemperatureScaling(), cv=cv, ensemble=ensemble
    )
    with pytest.warns(UserWarning, match=ABSENT + EACH_FOLD):
        model.fit(X, y)
    assert model.classes_.tolist() == ["ant", "bee", "cat"]
    proba = model.predict_proba(X)
    assert (proba > 0).all()
    np.testing.assert_allclose(proba.sum(axis=1), 1)


RARE = {
    "no calibrator": None,
    "any classifier": LogisticRegression(),
} | {name: get_calibrator(name)() for name in get_calibrator_names()}
RARE["auto"] = AutoCalibrator([TemperatureScaling(), PlattScaling()], cv=2)


X, Y = make_data(100)
DATA_WITH_A_DOG = shuffle(np.vstack([X, X[:1]]), np.append(Y, "dog"), random_state=0)


@pytest.mark.filterwarnings("ignore:The least populated class:UserWarning")
@pytest.mark.filterwarnings("ignore:y contains no samples of .'dog'.:UserWarning")
@pytest.mark.filterwarnings("ignore:.* needs about .* misclassified:UserWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", RARE)
@pytest.mark.parametrize("ensemble", [True, False])
@pytest.mark.parametrize("classifier", [GaussianNB(), LogisticRegression()])
def test_a_class_of_one_sample_works_with_every_calibrator(
    classifier, ensemble, name, memory
):
    """One fold is trained without the class, and the others are tested without it."""
    X, y = DATA_WITH_A_DOG
    params = {"ensemble": ensemble, "cv": 2, "n_repeats": 1, "memory": memory}
    model = CalibratedClassifier(classifier, RARE[name], **params)
    if name == "no calibrator" and not ensemble:
        model.fit(X, y)  # has no folds
    else:
        with pytest.warns(UserWarning, match=ABSENT + r"\['dog'\] in fold . of 2"):
            model.fit(X, y)
    proba = model.predict_proba(X)
    assert proba.shape == (101, 4)
    assert (proba[:, :3] > 0).all()
    np.testing.assert_allclose(proba.sum(axis=1), 1, rtol=1e-6)


@pytest.mark.filterwarnings("ignore:y contains no samples of:UserWarning")
@pytest.mark.parametrize(
    ("estimator", "from_logits"),
    [
        (GaussianNB(), False),
        (LogisticRegression(), True),
        (make_pipeline(StandardScaler(), LogisticRegression()), True),
    ],
)
def test_absent_class_has_smallest_probability_of_the_row(estimator, from_logits):
    X, y = make_data()
    cv = folds_without_a_class(y)[1:2]
    model = CalibratedClassifier(estimator, TemperatureScaling(), cv=cv).fit(X, y)
    (pair,) = model.calibrated_classifiers_
    known = pair.estimator.predict_proba(X)
    smallest = np.where(known > 0, known, 1).min(axis=1)
    expected = np.column_stack([known[:, 0], smallest, known[:, 1]])
    expected /= expected.sum(axis=1, keepdims=True)
    scores = predict_scores(pair.estimator, X, from_logits, model.classes_)
    proba = softmax(scores, axis=1) if from_logits else scores
    np.testing.assert_allclose(proba, expected, rtol=1e-9)
    calibrator = TemperatureScaling(from_logits=from_logits)
    tested = cv[0][1]
    calibrator.fit(scores[tested], y[tested], labels=model.classes_)
    assert pair.calibrator.temperature_ == pytest.approx(calibrator.temperature_)


def test_zero_is_not_the_smallest_positive_probability():
    proba = np.array([[0.0, 0.25, 0.75], [1.0, 0.0, 0.0], [1 / 3, 1 / 3, 1 / 3]])
    classes = np.arange(5)
    filled = align_columns(proba, [0, 1, 3], classes, False)
    # The predicted class of the second row is the only one with a vote.
    expected = [np.array([0, 1, 1, 3, 1]) / 6, np.eye(5)[0], np.ones(5) / 5]
    np.testing.assert_allclose(filled, expected)
    logits = np.array([[0.0, -2.0, 3.0]], dtype=np.float32)
    filled = align_columns(logits, [0, 1, 3], classes, True)
    np.testing.assert_array_equal(filled, [[0, -2, -2, 3, -2]])
    assert filled.dtype == np.float32


@pytest.mark.filterwarnings("ignore:y contains no samples of:UserWarning")
@pytest.mark.filterwarnings("ignore:.* needs about .* misclassified:UserWarning")
def test_binary_logits_and_margins_in_a_fold_of_two_classes():
    """A decision function of two classes has one column, and three classes three."""
    X, y = make_data()
    cv = folds_without_a_class(y)
    for estimator, calibrator in [
        (LogisticRegression(), TemperatureScaling()),
        (LinearSVC(random_state=0), PlattScaling()),
    ]:
        model = CalibratedClassifier(estimator, calibrator, cv=cv).fit(X, y)
        np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)


def test_selective_classifier_is_never_right_about_an_absent_class():
    X, y = make_data()
    bees = np.flatnonzero(y == "bee")
    cv = [(np.flatnonzero(y != "bee"), bees)]
    model = SelectiveClassifier(GaussianNB(), coverage=1, cv=cv)
    with pytest.warns(UserWarning, match=ABSENT + r"\['bee'\] in fold 0 of 1"):
        model.fit(X, y)
    assert model.risk_ == 1
    assert model.score(X[bees], y[bees]) > 0.5


def test_only_one_class_in_a_training_part():
    X, y = make_data()
    rows = np.flatnonzero(y == "ant")[:50], np.arange(600)
    for model in (
        CalibratedClassifier(RandomForestClassifier(), TemperatureScaling()),
        CalibratedClassifier(DummyClassifier(), TemperatureScaling(), ensemble=False),
        SelectiveClassifier(DummyClassifier(), coverage=0.5),
        PredictionSetClassifier(DummyClassifier()),
    ):
        with pytest.raises(
            ValueError, match=r"two classes .* only \['ant'\] in fold 0"
        ):
            model.set_params(cv=[rows]).fit(X, y)


def folds_of_one_class(y):
    """Return folds as of patients with one label each, four of each class."""
    rows, fold = np.arange(len(y)), np.arange(len(y)) % 4 + 4 * (y == y[0])
    return [(rows[fold != k], rows[fold == k]) for k in range(8)]


def test_folds_that_test_one_class_share_a_calibrator():
    X, y = make_data(100, 2)
    cv = folds_of_one_class(y)
    held_out = cross_val_predict(GaussianNB(), X, y, cv=cv, method="predict_proba")
    direct = HistogramBinning(n_bins=5).fit(held_out, y)
    model = CalibratedClassifier(GaussianNB(), HistogramBinning(n_bins=5), cv=cv)
    for pair in model.fit(X, y).calibrated_classifiers_:
        np.testing.assert_array_equal(
            pair.calibrator.predict_proba(held_out), direct.predict_proba(held_out)
        )


@pytest.mark.filterwarnings("ignore:.* needs about .* misclassified:UserWarning")
@pytest.mark.parametrize(
    "wrap",
    [
        lambda cv: CalibratedClassifier(LinearSVC(random_state=0), cv=cv),
        lambda cv: CalibratedClassifier(GaussianNB(), LogisticRegression(), cv=cv),
        lambda cv: SelectiveClassifier(GaussianNB(), coverage=1, cv=cv),
        lambda cv: PredictionSetClassifier(GaussianNB(), per_class=True, cv=cv),
    ],
)
def test_a_class_in_each_test_part_costs_no_accuracy(wrap):
    X, y = make_data(100, 2)
    model = wrap(folds_of_one_class(y)).fit(X, y)
    assert model.score(X, y) > 0.7
    if isinstance(model, PredictionSetClassifier):
        coverage = model.predict_set(X)[np.arange(100), (y == "bee").astype(int)]
        assert 0.85 < coverage.mean() < 1


def test_a_label_that_a_test_part_lacks():
    X, y = make_data(100, 2)
    y = np.column_stack([y == "bee", X[:, 0] > 0]).astype(int)
    cv = folds_of_one_class(y[:, 0])
    model = CalibratedClassifier(
        OneVsRestClassifier(GaussianNB()),
        PerLabelCalibrator(HistogramBinning(n_bins=5)),
        cv=cv,
    ).fit(X, y)
    assert ((model.predict(X) == y).mean(axis=0) > 0.7).all()
