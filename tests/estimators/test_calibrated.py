"""`CalibratedClassifier` with different classifiers and calibrators."""

import pickle

import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_classification
from sklearn.discriminant_analysis import (
    QuadraticDiscriminantAnalysis,
)
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import (
    GridSearchCV,
    StratifiedKFold,
    train_test_split,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks

from sklearn_calib import CalibratedClassifier, TemperatureScaling
from sklearn_calib.calibrators import (
    AutoCalibrator,
    MetaCal,
    get_calibrator,
    get_calibrator_names,
)

# The checks whose outcome hangs on the calibrator; the others ask about parameters and
# about what the classifier inside takes. All of them would take 3 s a calibrator.
CALIBRATOR_CHECKS = [
    estimator_checks.check_classifiers_classes,
    estimator_checks.check_classifiers_one_label_sample_weights,
    estimator_checks.check_classifiers_train,
    estimator_checks.check_dict_unchanged,
    estimator_checks.check_estimators_dtypes,
    estimator_checks.check_estimators_overwrite_params,
    estimator_checks.check_estimators_pickle,
    estimator_checks.check_f_contiguous_array_estimator,
    estimator_checks.check_fit2d_1feature,
    estimator_checks.check_fit2d_1sample,
    estimator_checks.check_fit_idempotent,
    estimator_checks.check_methods_sample_order_invariance,
    estimator_checks.check_methods_subset_invariance,
    estimator_checks.check_readonly_memmap_input,
    estimator_checks.check_sample_weight_equivalence_on_dense_data,
    estimator_checks.check_sample_weights_not_overwritten,
]


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


@parametrize_with_checks(
    [
        CalibratedClassifier(LogisticRegression(), TemperatureScaling(), cv=2),
        CalibratedClassifier(LogisticRegression(), None),
    ]
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_scikit_learn_checks(estimator, check):
    check(estimator.set_params(estimator__tol=0.1))


# Classifiers fitted to weights and to repetitions differ by what the solver leaves: it
# takes samples to the other side of a step. Of "auto", copies are in several folds.
STEPS = {"auto", "scaling_binning", "venn_abers"}
OF_EACH = [
    pytest.param(name, check, id=f"{name}-{check.__name__}")
    for name in get_calibrator_names()
    for check in CALIBRATOR_CHECKS
    if name not in STEPS or "weight_equivalence" not in check.__name__
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "check"), OF_EACH)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:y contains no samples of:UserWarning")
def test_scikit_learn_checks_of_a_calibrator(name, check):
    classifier = LogisticRegression(tol=0.1)
    params = {"cv": 2, "n_repeats": 1}
    estimator = CalibratedClassifier(classifier, get_calibrator(name)(), **params)
    check("CalibratedClassifier", estimator)


@pytest.mark.skipif(
    tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 8),
    reason="scikit-learn has temperature scaling from 1.8 on",
)
@pytest.mark.parametrize("ensemble", [True, False])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_equals_scikit_learn(n_classes, ensemble):
    X, y = make_data(n_classes=n_classes)
    ours = CalibratedClassifier(
        LogisticRegression(),
        TemperatureScaling(),
        ensemble=ensemble,
        cv=StratifiedKFold(2),
    )
    theirs = CalibratedClassifierCV(
        LogisticRegression(), method="temperature", ensemble=ensemble, cv=2
    )
    np.testing.assert_allclose(
        ours.fit(X, y).predict_proba(X), theirs.fit(X, y).predict_proba(X), rtol=1e-5
    )
    assert len(ours.calibrated_classifiers_) == (2 if ensemble else 1)


@pytest.mark.parametrize(
    "estimator",
    [
        GaussianNB(),
        RandomForestClassifier(10, random_state=0),
        make_pipeline(StandardScaler(), QuadraticDiscriminantAnalysis()),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_repairs_overconfidence(estimator, n_classes):
    X, y = make_data(1400, n_classes=n_classes)
    X, X_test, y, y_test = train_test_split(X, y, random_state=0)
    before = CalibratedClassifier(estimator, None).fit(X, y).predict_proba(X_test)
    for ensemble in (False, True):
        model = CalibratedClassifier(
            estimator, TemperatureScaling(), ensemble=ensemble, cv=2, n_repeats=1
        ).fit(X, y)
        proba = model.predict_proba(X_test)
        np.testing.assert_allclose(proba.sum(axis=1), 1)
        assert log_loss(y_test, proba) < log_loss(y_test, before)


def test_without_calibrator_probabilities_are_unchanged():
    X, y = make_data()
    for estimator in (GaussianNB(), LogisticRegression()):
        plain = CalibratedClassifier(estimator, None).fit(X, y)
        expected = clone(estimator).fit(X, y).predict_proba(X)
        np.testing.assert_array_equal(plain.predict_proba(X), expected)
        assert plain.calibrated_classifiers_[0].calibrator is None
    options = {"cv": 3, "n_repeats": 1, "ensemble": True}
    ensemble = CalibratedClassifier(GaussianNB(), None, **options).fit(X, y)
    expected = [
        GaussianNB().fit(X[train], y[train]).predict_proba(X)
        for train, _ in StratifiedKFold(3).split(X, y)
    ]
    np.testing.assert_allclose(ensemble.predict_proba(X), np.mean(expected, axis=0))


def test_frozen_classifier_is_calibrated_on_all_data():
    X, y = make_data()
    X_train, X, y_train, y = train_test_split(X, y, random_state=0)
    frozen = FrozenEstimator(GaussianNB().fit(X_train, y_train))
    model = CalibratedClassifier(frozen, TemperatureScaling()).fit(X, y)
    (pair,) = model.calibrated_classifiers_
    expected = TemperatureScaling().fit(frozen.predict_proba(X), y)
    assert pair.calibrator.temperature_ == expected.temperature_
    assert pair.estimator is frozen
    folds = CalibratedClassifier(frozen, TemperatureScaling(), ensemble=True).fit(X, y)
    assert len(folds.calibrated_classifiers_) == 4
    np.testing.assert_array_equal(
        CalibratedClassifier(frozen, None).fit(X, y).predict_proba(X),
        frozen.predict_proba(X),
    )


def test_frozen_classifier_knows_its_classes():
    X, y = make_data()
    frozen = FrozenEstimator(GaussianNB().fit(X, y))
    some = y != 1
    model = CalibratedClassifier(frozen, TemperatureScaling()).fit(X[some], y[some])
    np.testing.assert_array_equal(model.classes_, [0, 1, 2])
    assert model.predict_proba(X).shape == (600, 3)
    with pytest.raises(ValueError, match=r"y must contain only .* got also \[3\]"):
        CalibratedClassifier(frozen, TemperatureScaling()).fit(X, y + 1)


def test_any_classifier_calibrates():
    """Logistic regression on log-probabilities is matrix scaling."""
    X, y = make_data(2000)
    names = np.array(["ant", "bee", "cat"])[y]
    model = CalibratedClassifier(
        GaussianNB(), LogisticRegression(max_iter=1000), cv=2, n_repeats=1
    )
    model.fit(X, names, sample_weight=np.arange(len(y)) % 3)
    assert set(model.predict(X)) == {"ant", "bee", "cat"}
    plain = CalibratedClassifier(GaussianNB(), None).fit(X, names)
    assert log_loss(names, model.predict_proba(X)) < log_loss(
        names, plain.predict_proba(X)
    )
    frozen = FrozenEstimator(GaussianNB().fit(X, names))
    kept = names != "bee"
    with pytest.warns(
        UserWarning, match=r"no samples of \['bee'\]: LogisticRegression"
    ):
        model = CalibratedClassifier(frozen, LogisticRegression()).fit(
            X[kept], names[kept]
        )
    proba = model.predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    np.testing.assert_array_equal(proba[:, 1], proba.min(axis=1))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_string_labels(n_classes):
    X, y = make_data(n_classes=n_classes)
    names = np.array(["ant", "bee", "cat"])[y]
    model = CalibratedClassifier(GaussianNB(), TemperatureScaling(), cv=2, n_repeats=1)
    proba = model.fit(X, y).predict_proba(X)
    predicted = np.array(["ant", "bee", "cat"])[model.predict(X)]
    model.fit(X, names.astype(object))
    np.testing.assert_array_equal(model.predict_proba(X), proba)
    np.testing.assert_array_equal(model.predict(X), predicted)
    np.testing.assert_array_equal(model.classes_, np.unique(names))


def test_pandas():
    X, y = make_data()
    frame = pd.DataFrame(X, columns=[f"feature_{i}" for i in range(10)]).sample(
        frac=1, random_state=0
    )
    target = pd.Series(y, name="class").loc[frame.index]
    model = CalibratedClassifier(
        LogisticRegression(), TemperatureScaling(), ensemble=False
    ).fit(frame, target)
    np.testing.assert_array_equal(model.feature_names_in_, frame.columns)
    assert model.n_features_in_ == 10
    expected = clone(model).fit(frame.to_numpy(), target.to_numpy())
    np.testing.assert_array_equal(
        model.predict_proba(frame), expected.predict_proba(frame.to_numpy())
    )


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_search_for_a_calibrator(n_jobs):
    X, y = make_data()
    pipeline = make_pipeline(
        StandardScaler(),
        CalibratedClassifier(GaussianNB(), TemperatureScaling(), cv=2, n_repeats=1),
    )
    name = "calibratedclassifier__"
    search = GridSearchCV(
        pipeline,
        [
            {name + "calibrator": [None, TemperatureScaling()]},
            {name + "calibrator__objective": ["nll", "ece"]},
            {name + "estimator__var_smoothing": [1e-9, 1e-1]},
        ],
        scoring="neg_log_loss",
        cv=2,
        n_jobs=n_jobs,
    )
    with joblib.parallel_config("threading"):
        search.fit(X, y)
    scores = search.cv_results_["mean_test_score"]
    assert scores[0] < scores[1] == scores[2]
    again = pickle.loads(pickle.dumps(search))
    np.testing.assert_array_equal(again.predict_proba(X), search.predict_proba(X))


class CountsFits(GaussianNB):
    """Classifier that records the sizes of the training data of its clones."""

    sizes = []

    def fit(self, X, y, sample_weight=None):
        self.sizes.append(len(y))
        return super().fit(X, y, sample_weight)


def mean_probability(model, X, y):
    """Score that differs between models with other probabilities."""
    return model.predict_proba(X)[y == 0, 0].mean()


@pytest.mark.parametrize(
    ("ensemble", "n_fits", "n_fits_of_none"),
    [("auto", 2, 1), (True, 2, 0), (False, 3, 1)],
)
def test_memory_serves_all_candidates(tmp_path, ensemble, n_fits, n_fits_of_none):
    """A search fits each fold once for any number of calibrators."""
    X, y = make_data(150)
    params = {"cv": 2, "n_repeats": 1, "ensemble": ensemble, "memory": tmp_path}
    classifier = CalibratedClassifier(CountsFits(), TemperatureScaling(), **params)
    calibrators = [TemperatureScaling(), MetaCal(), LogisticRegression(C=0.1, tol=0.1)]
    grid = [
        {"calibrator": [None, *calibrators]},
        {"calibrator": [TemperatureScaling()], "calibrator__objective": ["ece"]},
        {"calibrator": [MetaCal()], "calibrator__miscoverage": [0.2]},
    ]
    CountsFits.sizes.clear()
    search = GridSearchCV(classifier, grid, cv=2, scoring=mean_probability, refit=False)
    search.fit(X, y)
    assert len(search.cv_results_["params"]) == 6
    assert len(CountsFits.sizes) == 2 * (n_fits + n_fits_of_none)
    forgetful = clone(search).set_params(estimator__memory=None).fit(X, y)
    assert len(CountsFits.sizes) > 2 * (n_fits + n_fits_of_none) + 2 * 4 * n_fits
    for name in ("mean_test_score", "std_test_score"):
        np.testing.assert_array_equal(
            search.cv_results_[name], forgetful.cv_results_[name]
        )


def test_memory_serves_parallel_candidates(tmp_path):
    X, y = make_data(150)
    params = {"cv": 2, "n_repeats": 1, "memory": tmp_path}
    classifier = CalibratedClassifier(GaussianNB(), None, **params)
    grid = {"calibrator": [None, TemperatureScaling(), MetaCal(miscoverage=0.2)]}
    search = GridSearchCV(classifier, grid, cv=2, scoring=mean_probability, n_jobs=2)
    with joblib.parallel_config("threading"):
        search.fit(X, y)
    # None and the others of each fold, and the best of them on all data.
    assert len(list(tmp_path.rglob("output.pkl"))) == 2 * 2 + 1
    alone = clone(search).set_params(n_jobs=None, estimator__memory=None).fit(X, y)
    for name in ("mean_test_score", "std_test_score"):
        np.testing.assert_array_equal(search.cv_results_[name], alone.cv_results_[name])


@pytest.mark.parametrize("labels", ["int", "str"])
def test_memory_tells_data_and_classifiers_apart(tmp_path, labels):
    X, y = make_data(150)
    y = y.astype(labels)
    CountsFits.sizes.clear()
    remembers = CalibratedClassifier(
        CountsFits(),
        TemperatureScaling(),
        cv=3,
        n_repeats=1,
        memory=joblib.Memory(tmp_path),
    )
    first = remembers.fit(X, y).predict_proba(X)
    np.testing.assert_array_equal(clone(remembers).fit(X, y).predict_proba(X), first)
    assert len(CountsFits.sizes) == 3
    weight = np.arange(len(y)) % 2
    other = clone(remembers).set_params(estimator__var_smoothing=0.1)
    for model, arguments in [
        (clone(remembers), (X[::2], y[::2])),
        (clone(remembers), (X, y, weight)),
        (other, (X, y)),
        (clone(remembers).set_params(cv=4), (X, y)),
    ]:
        expected = clone(model).set_params(memory=None).fit(*arguments)
        np.testing.assert_array_equal(
            model.fit(*arguments).predict_proba(X), expected.predict_proba(X)
        )


def test_it_calibrates_by_default():
    X, y = make_data()
    model, auto = (
        CalibratedClassifier(GaussianNB(), cv=2, n_repeats=1),
        AutoCalibrator(),
    )
    expected = (
        CalibratedClassifier(GaussianNB(), auto, cv=2, n_repeats=1)
        .fit(X, y)
        .predict_proba(X)
    )
    np.testing.assert_array_equal(model.fit(X, y).predict_proba(X), expected)
    plain = clone(model).set_params(calibrator=None).fit(X, y).predict_proba(X)
    assert log_loss(y, expected) < log_loss(y, plain)


def test_calibrators_have_names():
    X, y = make_data()
    search = GridSearchCV(
        CalibratedClassifier(GaussianNB(), cv=2, n_repeats=1),
        {"calibrator": ["beta", "vector"]},
        cv=2,
    )
    found = search.fit(X, y).best_estimator_.calibrated_classifiers_[0].calibrator
    named = get_calibrator(search.best_params_["calibrator"])
    assert type(found) is named
    expected = clone(search.best_estimator_).set_params(calibrator=named())
    np.testing.assert_array_equal(
        search.predict_proba(X), expected.fit(X, y).predict_proba(X)
    )


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"calibrator": TemperatureScaling}, TypeError, "Pass an object such as"),
        ({"calibrator": 3}, TypeError, "the name of a calibrator .* got 3"),
        ({"calibrator": "temprature"}, ValueError, "Did you mean 'temperature'"),
        ({"calibrator": StandardScaler()}, TypeError, "fit and predict_proba"),
        ({"cv": "five"}, ValueError, "'cv' parameter"),
        ({"ensemble": "yes"}, ValueError, "'ensemble' parameter.*Got 'yes'"),
        ({"response_method": "logits"}, ValueError, "'response_method' parameter"),
        ({"memory": 3}, ValueError, "memory"),
    ],
)
def test_bad_parameters(params, error, message):
    X, y = make_data()
    with pytest.raises(error, match=message):
        CalibratedClassifier(GaussianNB(), None).set_params(**params).fit(X, y)


def test_bad_data():
    X, y = make_data()
    model = CalibratedClassifier(GaussianNB(), TemperatureScaling())
    with pytest.raises(NotFittedError):
        model.predict(X)
    with pytest.raises(ValueError, match=r"at least two classes, got one class: \[1\]"):
        model.fit(X, np.ones(600, dtype=int))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.fit(X, y[:-1])
    with pytest.raises(ValueError, match="Input X contains NaN"):
        model.fit(np.where(X > 2, np.nan, X), y)
    with pytest.raises(ValueError, match="y contains NaN"):
        model.fit(X, np.where(y > 1, np.nan, y))
    with pytest.raises(ValueError, match="sample_weight must be non-negative"):
        model.fit(X, y, sample_weight=y - 1.0)
