"""Folds, weights and memory of `CalibratedClassifier`."""

from functools import cache

import numpy as np
import pytest
import sklearn
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import make_classification
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    ShuffleSplit,
    StratifiedKFold,
    TimeSeriesSplit,
    cross_val_predict,
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


def make_data(n_samples=600, n_classes=3, **params):
    """Return noisy data on which classifiers are overconfident."""
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


def test_one_calibrator_sees_all_predictions_out_of_fold():
    X, y = make_data()
    weight = np.random.default_rng(0).uniform(size=len(y))
    cv = KFold(4, shuffle=True, random_state=0)
    model = CalibratedClassifier(
        GaussianNB(), TemperatureScaling(), cv=cv, ensemble=False
    ).fit(X, y, sample_weight=weight)
    proba = cross_val_predict(
        GaussianNB(),
        X,
        y,
        cv=cv,
        method="predict_proba",
        params={"sample_weight": weight},
    )
    expected = TemperatureScaling().fit(proba, y, weight)
    (pair,) = model.calibrated_classifiers_
    assert pair.calibrator.temperature_ == pytest.approx(expected.temperature_)
    np.testing.assert_array_equal(
        pair.estimator.theta_, GaussianNB().fit(X, y, weight).theta_
    )


def test_the_first_rows_may_never_be_held_out():
    """As in the order of time, with a gap before each fold."""
    X, y = make_data()
    weight = np.random.default_rng(0).integers(3, size=len(y)).astype(float)
    cv = TimeSeriesSplit(3, gap=10)
    model = CalibratedClassifier(
        GaussianNB(), TemperatureScaling(), cv=cv, ensemble=False
    ).fit(X, y, sample_weight=weight)
    splits = list(cv.split(X))
    proba = [
        GaussianNB().fit(X[train], y[train], weight[train]).predict_proba(X[test])
        for train, test in splits
    ]
    tests = np.concatenate([test for _, test in splits])
    expected = TemperatureScaling().fit(np.vstack(proba), y[tests], weight[tests])
    (pair,) = model.calibrated_classifiers_
    assert pair.calibrator.temperature_ == pytest.approx(expected.temperature_)
    np.testing.assert_array_equal(
        pair.estimator.theta_, GaussianNB().fit(X, y, weight).theta_
    )


def test_parts_may_overlap():
    """scikit-learn's cross_val_predict rejects these splits."""
    X, y = make_data()
    cv = ShuffleSplit(3, random_state=0)
    for ensemble in (False, True):
        model = CalibratedClassifier(
            GaussianNB(), TemperatureScaling(), cv=cv, ensemble=ensemble
        )
        assert model.fit(X, y).predict_proba(X).shape == (600, 3)


def test_texts_in_a_list():
    texts = ["a good one", "bad", "good good", "so bad", "good", "bad bad one"] * 5
    y = [1, 0, 1, 0, 1, 0] * 3 + [0, 0, 1, 0, 0, 1] * 2
    pipeline = make_pipeline(CountVectorizer(), LogisticRegression())
    model = CalibratedClassifier(pipeline, TemperatureScaling(), cv=3, n_repeats=1)
    model.fit(texts, y)
    good, bad = model.predict_proba(["good", "bad"])[:, 1]
    assert good > bad
    assert not hasattr(model, "n_features_in_")


def test_training_part_of_one_class():
    X, _ = make_data()
    names = np.repeat(["ant", "bee", "cat"], 200)
    model = CalibratedClassifier(GaussianNB(), TemperatureScaling(), cv=KFold(3))
    model.set_params(cv=[(np.arange(200), np.arange(300, 600))])
    with pytest.raises(
        ValueError, match=r"two classes .* only \['ant'\] in fold 0 of 1"
    ):
        model.fit(X, names)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("cv", [5, StratifiedKFold(5)])
@pytest.mark.parametrize(
    "model",
    [
        CalibratedClassifier(GaussianNB(), TemperatureScaling()),
        SelectiveClassifier(GaussianNB(), coverage=0.5),
        PredictionSetClassifier(GaussianNB()),
    ],
)
def test_more_folds_than_samples_of_a_class(model, cv):
    X, few = np.arange(12.0)[:, None] % 5, clone(model).set_params(cv=cv)
    message = r"cv must .* got 5 folds, and class 'ant' has 4\. Use cv=4 or fewer"
    with pytest.raises(ValueError, match=message):
        few.fit(X, np.repeat(["ant", "bee", "cat"], 4))
    # scikit-learn's own warning, which is not hidden.
    with pytest.warns(UserWarning, match="least populated class .* only 3 members"):
        few.fit(X, np.repeat(np.array(["ant", "bee", "cat"], object), [5, 4, 3]))


@pytest.mark.parametrize(
    ("cv", "message"),
    [
        ([], "cv must yield at least one fold, got none from list"),
        (np.array([]), "cv must yield at least one fold, got none from ndarray"),
        (b"five", "cv must yield the training and the test rows .* from bytes"),
        ([None], "cv must yield the training and the test rows .*NoneType.* from list"),
        ([(1.5, 2.5)], "cv must yield the training and the test rows of each fold"),
        ([([600], [0])], "cv must yield the training and .*600 is out of bounds"),
    ],
)
@pytest.mark.parametrize(
    "model",
    [
        CalibratedClassifier(GaussianNB(), TemperatureScaling()),
        CalibratedClassifier(GaussianNB(), TemperatureScaling(), ensemble=False),
        SelectiveClassifier(GaussianNB(), coverage=0.5, abstain_label=-1),
        PredictionSetClassifier(GaussianNB()),
    ],
    ids=["ensemble", "one calibrator", "selective", "sets"],
)
def test_folds_that_are_none(model, cv, message):
    with pytest.raises(ValueError, match=message):
        clone(model).set_params(cv=cv).fit(*make_data())


@pytest.mark.parametrize("ensemble", [True, False])
def test_class_missing_from_a_test_part(ensemble):
    X, y = make_data()
    rest = np.flatnonzero(y != 2)[:100]
    cv = [(np.setdiff1d(np.arange(600), rest), rest)]
    model = CalibratedClassifier(
        GaussianNB(), TemperatureScaling(), cv=cv, ensemble=ensemble
    ).fit(X, y)
    assert 2 in model.predict(X)


class Recorder(ClassifierMixin, BaseEstimator):
    """Classifier that stores the arguments of fit and counts its calls."""

    n_fits = 0

    def fit(self, X, y, sample_weight=None, **params):
        Recorder.n_fits += 1
        self.rows_, self.sample_weight_, self.params_ = X[:, 0], sample_weight, params
        self.inner_ = GaussianNB().fit(X, y)
        self.classes_ = self.inner_.classes_
        return self

    def predict_proba(self, X):
        return self.inner_.predict_proba(X)


def test_weights_and_parameters_are_cut_like_the_data():
    X, y = make_data()
    X[:, 0] = np.arange(600)
    weight, other = np.arange(600) + 1.0, [f"row {i}" for i in range(600)]
    model = CalibratedClassifier(Recorder(), TemperatureScaling())
    model.fit(X, y, sample_weight=weight, other=other, lr=0.1, name="net")
    for pair in model.calibrated_classifiers_:
        rows = pair.estimator.rows_
        np.testing.assert_array_equal(pair.estimator.sample_weight_, rows + 1)
        expected = {"other": [f"row {i:.0f}" for i in rows], "lr": 0.1, "name": "net"}
        assert pair.estimator.params_ == expected


def test_weights_for_a_classifier_that_takes_none():
    X, y = make_data()
    weight = np.where(y == 0, 5.0, 1.0)
    pipeline = make_pipeline(StandardScaler(), GaussianNB())
    model = CalibratedClassifier(pipeline, TemperatureScaling(), cv=2, n_repeats=1)
    with pytest.warns(UserWarning, match="used by .*: Pipeline does not support s"):
        half = model.fit(X, y, sample_weight=weight).predict_proba(X)
    model.fit(X, y, sample_weight=None, gaussiannb__sample_weight=weight)
    assert not np.allclose(half, model.predict_proba(X))
    frozen = FrozenEstimator(pipeline.fit(X, y))
    weighted = CalibratedClassifier(frozen, TemperatureScaling()).fit(X, y, weight)
    expected = TemperatureScaling().fit(pipeline.predict_proba(X), y, weight)
    (pair,) = weighted.calibrated_classifiers_
    assert pair.calibrator.temperature_ == expected.temperature_


def test_metadata_routing():
    X, y = make_data()
    weight = np.where(y == 0, 5.0, 1.0)
    groups = np.arange(600) % 4
    with sklearn.config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(
            StandardScaler().set_fit_request(sample_weight=False),
            GaussianNB().set_fit_request(sample_weight=True),
        )
        cv = sklearn.model_selection.GroupKFold(4)
        model = CalibratedClassifier(pipeline, TemperatureScaling(), cv=cv)
        model.fit(X, y, sample_weight=weight, groups=groups)
    first = GaussianNB().fit(
        StandardScaler().fit_transform(X[groups != groups[0]]),
        y[groups != groups[0]],
        weight[groups != groups[0]],
    )
    assert any(
        np.allclose(pair.estimator[-1].theta_, first.theta_)
        for pair in model.calibrated_classifiers_
    )
    assert len(model.calibrated_classifiers_) == 4


@cache
def scores_of_search(ensemble, memory):
    """Return the scores of three calibrators."""
    calibrators = [TemperatureScaling(objective="ece", n_bins=n) for n in (2, 5)]
    model = CalibratedClassifier(
        Recorder(), None, cv=2, n_repeats=1, ensemble=ensemble, memory=memory
    )
    search = GridSearchCV(
        model,
        {"calibrator": [*calibrators, TemperatureScaling()]},
        cv=2,
        scoring=lambda model, X, y: model.predict_proba(X)[y == 0, 0].mean(),
        refit=False,
        error_score="raise",
    )
    return search.fit(*make_data(150)).cv_results_["mean_test_score"]


@pytest.mark.parametrize("ensemble", [True, False])
@pytest.mark.parametrize("as_path", [True, False])
def test_memory_trains_once_for_all_calibrators(tmp_path, ensemble, as_path):
    expected = scores_of_search(ensemble, None)
    Recorder.n_fits = 0
    scores = scores_of_search(ensemble, tmp_path if as_path else str(tmp_path))
    assert Recorder.n_fits == 2 * (2 if ensemble else 3)
    np.testing.assert_array_equal(scores, expected)
    assert len(set(scores)) > 1
