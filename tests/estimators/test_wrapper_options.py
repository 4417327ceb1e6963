"""Parallel training, progress, held-out data for fit, groups, and cv="prefit"."""

import pickle
import re
from functools import cache

import numpy as np
import pytest
import sklearn
from joblib import parallel_config
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    LeaveOneGroupOut,
    ShuffleSplit,
    StratifiedGroupKFold,
    StratifiedKFold,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

from sklearn_calib import (
    CalibratedClassifier,
    PredictionSetClassifier,
    SelectiveClassifier,
    TemperatureScaling,
)

X, Y = make_classification(
    600, n_features=10, n_informative=5, n_classes=3, flip_y=0.2, random_state=0
)
GROUPS = np.arange(600) % 5
CALIBRATED = CalibratedClassifier(GaussianNB(), TemperatureScaling(), cv=3)
both_wrappers = pytest.mark.parametrize(
    "wrapper",
    [
        CALIBRATED,
        SelectiveClassifier(GaussianNB(), coverage=0.8, abstain_label=-1),
        PredictionSetClassifier(GaussianNB()),
    ],
    ids=["calibrated", "selective", "sets"],
)


@pytest.fixture(autouse=True)
def threads():
    """Use threads: processes take seconds to import all."""
    with parallel_config("threading"):
        yield


@pytest.mark.parametrize(
    "model",
    [
        CALIBRATED,
        clone(CALIBRATED).set_params(ensemble=False),
        CalibratedClassifier(LogisticRegression(), None, ensemble=True),
        CalibratedClassifier(
            FrozenEstimator(GaussianNB().fit(X, Y)), TemperatureScaling(), ensemble=True
        ),
        SelectiveClassifier(LogisticRegression(), coverage=0.8, abstain_label=-1),
        SelectiveClassifier(GaussianNB(), max_risk=0.45, abstain_label=-1),
        PredictionSetClassifier(GaussianNB()),
    ],
    ids=["ensemble", "one", "none", "frozen", "coverage", "max_risk", "sets"],
)
def test_parallel_training_gives_the_same_model(model):
    weight, model = np.arange(600) % 3, clone(model).set_params(cv=2)
    expected = clone(model).fit(X, Y, sample_weight=weight)
    parallel = clone(model).set_params(n_jobs=2).fit(X, Y, sample_weight=weight)
    np.testing.assert_array_equal(parallel.predict_proba(X), expected.predict_proba(X))
    np.testing.assert_array_equal(parallel.predict(X), expected.predict(X))


@both_wrappers
def test_parallel_training_keeps_the_configuration(wrapper):
    """scikit-learn's settings, such as routing, are those of the calling process."""
    with sklearn.config_context(enable_metadata_routing=True):
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        estimator = GaussianNB().set_fit_request(sample_weight=True)
        model = clone(wrapper).set_params(n_jobs=2, cv=GroupKFold(3))
        model.set_params(estimator=make_pipeline(scaler, estimator))
        parallel = clone(model).fit(X, Y, sample_weight=GROUPS + 1.0, groups=GROUPS)
        expected = clone(model).set_params(n_jobs=1)
        expected.fit(X, Y, sample_weight=GROUPS + 1.0, groups=GROUPS)
    np.testing.assert_array_equal(parallel.predict_proba(X), expected.predict_proba(X))


@both_wrappers
def test_verbose_reports_progress(wrapper, capfd):
    model = clone(wrapper).set_params(cv=3)
    model.fit(X, Y)
    quiet = capfd.readouterr()
    assert not quiet.out + quiet.err
    model.set_params(verbose=1).fit(X, Y)
    told = capfd.readouterr()
    # Two repeats; the folds and all samples; the folds.
    n_fits = {"CalibratedClassifier": 6, "SelectiveClassifier": 4}
    n_fits = n_fits.get(type(wrapper).__name__, 3)
    assert f"{n_fits} out of   {n_fits} | elapsed:" in told.out + told.err


def test_cache_does_not_depend_on_jobs(tmp_path):
    model = clone(CALIBRATED).set_params(memory=tmp_path, cv=2, n_repeats=1)
    for params in ({}, {"n_jobs": 2}, {"verbose": 1}, {"calibrator": None}):
        model.set_params(**params, ensemble=True).fit(X, Y)
    assert len(list(tmp_path.rglob("output.pkl"))) == 1


@both_wrappers
@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n_jobs": "all"}, "'n_jobs' parameter"),
        ({"n_jobs": 1.5}, "'n_jobs' parameter"),
        ({"n_jobs": 0}, "n_jobs == 0"),
        ({"verbose": -1}, "'verbose' parameter"),
    ],
)
def test_bad_jobs(wrapper, params, message):
    with pytest.raises(ValueError, match=message):
        clone(wrapper).set_params(**params).fit(X, Y)


class OfNotebook(GaussianNB):
    """Classifier that other processes cannot send back."""

    def fit(self, *_):
        raise pickle.PicklingError("Can't pickle <class '__main__.Net'>")


@both_wrappers
def test_a_class_of_a_notebook_in_parallel(wrapper):
    model = clone(wrapper).set_params(estimator=OfNotebook(), n_jobs=2)
    message = r"n_jobs must be 1 for OfNotebook, .* got 2: .*Net'>\. Put classes"
    with pytest.raises(ValueError, match=message):
        model.fit(X, Y)


class Booster(ClassifierMixin, BaseEstimator):
    """Classifier that stores the held-out data, like a boosting library."""

    def fit(self, X, y, eval_set=None, **params):
        self.eval_set_, self.params_, self.fitted_ = eval_set, params, (X, y)
        self.inner_ = GaussianNB().fit(X, y)
        self.classes_ = self.inner_.classes_
        return self

    def predict_proba(self, X):
        check_is_fitted(self)
        return self.inner_.predict_proba(X)


@pytest.mark.parametrize("n_jobs", [None, 2])
@pytest.mark.parametrize("calibrator", [TemperatureScaling(), None])
def test_held_out_part_of_each_fold(calibrator, n_jobs):
    cv = StratifiedKFold(3)
    model = CalibratedClassifier(
        Booster(),
        calibrator,
        cv=cv,
        ensemble=True,
        held_out_as="eval_set",
        n_jobs=n_jobs,
    )
    model.fit(X, Y, other=3)
    pairs = zip(cv.split(X, Y), model.calibrated_classifiers_, strict=True)
    for (train, test), pair in pairs:
        ((X_held_out, y_held_out),) = pair.estimator.eval_set_
        np.testing.assert_array_equal(X_held_out, X[test])
        np.testing.assert_array_equal(y_held_out, Y[test])
        np.testing.assert_array_equal(pair.estimator.fitted_[0], X[train])
        assert pair.estimator.params_ == {"other": 3}


def test_two_arguments_for_the_held_out_part():
    model = CalibratedClassifier(
        Booster(), TemperatureScaling(), held_out_as=("X_val", "y_val")
    ).fit(X.tolist(), Y)
    for pair in model.calibrated_classifiers_:
        held_out = pair.estimator.params_
        assert {len(held_out["X_val"]), len(held_out["y_val"])} == {150}
        assert pair.estimator.eval_set_ is None


@pytest.mark.skipif(
    tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 7),
    reason="HistGradientBoostingClassifier has X_val and y_val from 1.7 on",
)
def test_early_stopping_of_scikit_learn():
    booster = HistGradientBoostingClassifier(
        early_stopping=True, n_iter_no_change=2, max_iter=200, learning_rate=0.3
    )
    model = CalibratedClassifier(
        booster,
        TemperatureScaling(),
        cv=StratifiedKFold(2),
        held_out_as=("X_val", "y_val"),
    ).fit(X, Y)
    (train, test), _ = StratifiedKFold(2).split(X, Y)
    expected = clone(booster).fit(X[train], Y[train], X_val=X[test], y_val=Y[test])
    first = model.calibrated_classifiers_[0].estimator
    assert first.n_iter_ == expected.n_iter_ < 200
    np.testing.assert_array_equal(first.validation_score_, expected.validation_score_)


@pytest.mark.filterwarnings("ignore:y contains no samples of:UserWarning")
def test_held_out_part_has_no_classes_that_are_absent_from_the_training_part():
    """LightGBM and XGBoost reject labels that they were not trained with."""
    rows = np.arange(600)
    cv = [(rows[(rows < 300) & (Y < 2)], rows[300:])]
    model = CalibratedClassifier(
        Booster(), TemperatureScaling(), cv=cv, held_out_as="eval_set"
    ).fit(X, Y)
    (pair,) = model.calibrated_classifiers_
    assert set(pair.estimator.eval_set_[0][1]) == {0, 1}


def test_held_out_part_of_multilabel_data():
    labels = np.eye(3, dtype=int)[Y]
    recorded = []

    class Records(OneVsRestClassifier):
        def fit(self, X, y, eval_set):
            recorded.append(eval_set[0][1])
            return super().fit(X, y)

    model = CalibratedClassifier(
        Records(GaussianNB()),
        None,
        ensemble=True,
        n_repeats=1,
        held_out_as="eval_set",
    )
    model.fit(X, labels)
    np.testing.assert_array_equal(np.concatenate(recorded), labels)


class TwoArguments(Booster):
    """Classifier that stores the held-out data from two arguments."""

    def fit(self, X, y, X_val=None, y_val=None):
        return super().fit(X, y, eval_set=[(X_val, y_val)])


def scaled(classifier, **params):
    return Pipeline([("scale", StandardScaler()), ("last", classifier)], **params)


@pytest.mark.parametrize(
    ("estimator", "names"),
    [
        (scaled(Booster()), "last__eval_set"),
        (scaled(TwoArguments()), ("last__X_val", "last__y_val")),
        (GridSearchCV(scaled(Booster()), {}), "last__eval_set"),
        (Pipeline([("last", scaled(Booster()))]), "last__last__eval_set"),
        (scaled(Booster(), transform_input=["eval_set"]), "eval_set"),
        (scaled(TwoArguments(), transform_input=["y_val"]), ("X_val", "y_val")),
    ],
)
def test_held_out_part_that_a_pipeline_would_not_transform(estimator, names):
    model = CalibratedClassifier(estimator, TemperatureScaling(), held_out_as=names)
    message = rf"held_out_as must name data .* {re.escape(repr(names))}, .*outside"
    with pytest.raises(ValueError, match=message):
        model.fit(X, Y)


def test_the_ways_to_transform_the_held_out_part():
    options = {"cv": [(np.arange(300), np.arange(300, 600))]}
    inside = CalibratedClassifier(
        Booster(), TemperatureScaling(), held_out_as="eval_set", **options
    )
    model = scaled(inside).fit(X, Y)
    (pair,) = model[-1].calibrated_classifiers_
    expected = model[:-1].transform(X)[300:]
    np.testing.assert_array_equal(pair.estimator.eval_set_[0][0], expected)
    with sklearn.config_context(enable_metadata_routing=True):
        last = TwoArguments().set_fit_request(X_val=True, y_val=True)
        outside = CalibratedClassifier(
            scaled(last, transform_input=["X_val"]),
            TemperatureScaling(),
            held_out_as=("X_val", "y_val"),
            **options,
        ).fit(X, Y)
    (pair,) = outside.calibrated_classifiers_
    expected = StandardScaler().fit(X[:300]).transform(X[300:])
    np.testing.assert_array_equal(pair.estimator[-1].eval_set_[0][0], expected)


def test_a_pipeline_without_transformers_may_get_the_held_out_part():
    estimator = Pipeline([("first", "passthrough"), ("last", Booster())])
    model = CalibratedClassifier(
        estimator, TemperatureScaling(), held_out_as="last__eval_set"
    ).fit(X, Y)
    pair = model.calibrated_classifiers_[0]
    assert len(pair.estimator[-1].eval_set_[0][0]) == 150


def test_early_stopping_without_the_held_out_part():
    lightgbm = pytest.importorskip("lightgbm")
    xgboost = pytest.importorskip("xgboost")
    for booster in (
        lightgbm.LGBMClassifier(early_stopping_round=5, n_estimators=1, verbose=-1),
        xgboost.XGBClassifier(early_stopping_rounds=5, n_estimators=1),
    ):
        message = rf'^held_out_as .* for {type(booster).__name__}: .*_as="eval_set"'
        with pytest.raises(ValueError, match=message):
            CalibratedClassifier(booster, TemperatureScaling()).fit(X[:60], Y[:60])


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"ensemble": False}, ValueError, "folds, got 'eval_set'.*set ensemble=True"),
        ({"calibrator": None}, ValueError, "set ensemble=True"),
        ({"held_out_as": ("X_val",)}, ValueError, r"as must be .*\('X_val',\)"),
        ({"held_out_as": ("X_val", 1)}, ValueError, "held_out_as must be .*'X_val', 1"),
        ({"held_out_as": True}, ValueError, "'held_out_as' parameter"),
        ({"estimator": GaussianNB()}, TypeError, "unexpected .* 'eval_set'"),
        (
            {"estimator": FrozenEstimator(GaussianNB().fit(X, Y)), "ensemble": True},
            ValueError,
            "that is not frozen",
        ),
    ],
)
def test_held_out_part_that_cannot_be_passed(params, error, message):
    model = CalibratedClassifier(
        Booster(), TemperatureScaling(), held_out_as="eval_set"
    )
    with pytest.raises(error, match=message):
        model.set_params(**params).fit(X, Y)
    with pytest.raises(TypeError, match=r"multiple values .* 'eval_set'"):
        CalibratedClassifier(
            Booster(), TemperatureScaling(), held_out_as="eval_set"
        ).fit(X, Y, eval_set=[(X, Y)])


@cache
def probas_of_groups(wrapper, cv):
    """Return probabilities if the splits are given, and if the groups are routed."""
    model = clone(wrapper).set_params(cv=list(cv.split(X, Y, GROUPS)))
    by_folds = model.fit(X, Y).predict_proba(X)
    with sklearn.config_context(enable_metadata_routing=True):
        model.set_params(cv=cv).fit(X, Y, groups=GROUPS)
    return model.predict_proba(X), by_folds


@both_wrappers
@pytest.mark.parametrize(
    "cv", [GroupKFold(3), StratifiedGroupKFold(3), LeaveOneGroupOut()]
)
@pytest.mark.parametrize("params", [{"groups": GROUPS}, {}], ids=["groups", "none"])
def test_groups_without_routing(wrapper, cv, params):
    model = clone(wrapper).set_params(cv=cv)
    message = (
        rf"{type(cv).__name__} without groups.*set_config\(enable_metadata_routing=True"
        r"\), and pass groups to fit, or .*cv=list\(cv\.split\(X, y, groups\)\)"
    )
    with pytest.raises(ValueError, match=message):
        model.fit(X, Y, **params)
    np.testing.assert_array_equal(*probas_of_groups(wrapper, cv))


class OptionalGroups(StratifiedKFold):
    """Splitter that works with groups and without them."""

    __metadata_request__split = {"groups": True}


@both_wrappers
def test_a_splitter_with_optional_groups(wrapper):
    model = clone(wrapper).set_params(cv=OptionalGroups(3))
    found = model.fit(X, Y).predict_proba(X)
    expected = model.set_params(cv=StratifiedKFold(3)).fit(X, Y).predict_proba(X)
    np.testing.assert_array_equal(found, expected)


def test_groups_of_a_search_inside_still_pass():
    search = GridSearchCV(
        GaussianNB(), {"var_smoothing": [1e-9, 1e-3]}, cv=GroupKFold(2)
    )
    model = CalibratedClassifier(search, TemperatureScaling(), cv=StratifiedKFold(2))
    assert model.fit(X, Y, groups=GROUPS).score(X, Y) > 0.5
    frozen = FrozenEstimator(GaussianNB().fit(X, Y))
    unused = CalibratedClassifier(frozen, TemperatureScaling(), cv=GroupKFold(3))
    assert unused.fit(X, Y).score(X, Y) > 0.5


@both_wrappers
def test_prefit_is_frozen(wrapper):
    model = clone(wrapper).set_params(cv="prefit", estimator=GaussianNB().fit(X, Y))
    with pytest.raises(ValueError, match=r"got 'prefit'.*FrozenEstimator\(estimator\)"):
        model.fit(X, Y)
    with pytest.raises(ValueError, match="'cv' parameter"):
        model.set_params(cv="other").fit(X, Y)


def test_overlapping_folds_in_parallel():
    model = clone(CALIBRATED).set_params(cv=ShuffleSplit(3, random_state=0))
    expected = clone(model).fit(X, Y).predict_proba(X)
    parallel = model.set_params(n_jobs=2).fit(X, Y).predict_proba(X)
    np.testing.assert_array_equal(parallel, expected)
