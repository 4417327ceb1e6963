"""Calibration of margins, such as those of a support vector machine."""

from copy import deepcopy
from functools import cache

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_digits, make_classification
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import (
    LogisticRegression,
    Perceptron,
    RidgeClassifier,
    SGDClassifier,
)
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.utils.metaestimators import available_if

from sklearn_calib import CalibratedClassifier, TemperatureScaling
from sklearn_calib.calibrators import (
    AutoCalibrator,
    IsotonicCalibration,
    MatrixScaling,
    PerLabelCalibrator,
    PlattScaling,
    VennAbers,
    get_calibrator,
    get_calibrator_names,
)
from sklearn_calib.estimators._calibrated import fold_calibrators

CALIBRATORS = {name: get_calibrator(name) for name in get_calibrator_names()}
FOR_MARGINS = {
    name
    for name, kind in CALIBRATORS.items()
    if issubclass(kind, fold_calibrators.FOR_MARGINS)
}


def make_data(n_classes=3):
    return make_classification(
        300,
        n_features=10,
        n_informative=5,
        n_classes=n_classes,
        flip_y=0.2,
        random_state=0,
    )


@pytest.mark.parametrize("name", FOR_MARGINS)
def test_origin_and_unit_of_two_classes_do_not_matter(name):
    rng = np.random.default_rng(0)
    margin = 2 * rng.normal(size=300)
    y = margin + rng.logistic(size=300) > 0.5
    calibrator = CALIBRATORS[name](from_logits=True)
    expected = calibrator.fit(margin, y).predict_proba(margin)
    for unit, origin in [(0.3, 0), (1, 0.7), (0.5, -0.6)]:
        moved = unit * margin + origin
        proba = calibrator.fit(moved, y).predict_proba(moved)
        np.testing.assert_allclose(proba, expected, rtol=1e-9)


@pytest.mark.parametrize("load", [load_breast_cancer, load_digits])
@pytest.mark.parametrize(
    ("calibrator", "method", "largest", "mean"),
    [
        (PlattScaling(), "sigmoid", 1e-4, 1e-5),
        # Not mixed with the class frequencies there, and linear in the margin.
        (IsotonicCalibration(), "isotonic", 0.06, 0.01),
    ],
)
def test_agrees_with_scikit_learn(load, calibrator, method, largest, mean):
    X, y = load(return_X_y=True)
    folds = StratifiedKFold(2)
    model = CalibratedClassifier(SVC(), calibrator, cv=folds).fit(X[::4], y[::4])
    theirs = CalibratedClassifierCV(SVC(), method=method, cv=2).fit(X[::4], y[::4])
    difference = model.predict_proba(X[1::6]) - theirs.predict_proba(X[1::6])
    assert abs(difference).max() < largest
    assert abs(difference).mean() < mean


@cache
def data_and_classifiers(n_classes):
    """Return data, the classes of the samples as a mask, and classifiers."""
    X, codes = make_data(n_classes)
    y = np.array(["ant", "bee", "cat"])[codes]
    return (
        X,
        y,
        np.eye(n_classes, dtype=bool)[codes],
        [
            LinearSVC(random_state=0),
            make_pipeline(StandardScaler(), RidgeClassifier()),
            FrozenEstimator(Perceptron(random_state=0).fit(X, y)),
        ],
    )


@pytest.mark.filterwarnings("ignore:.* needs about .* misclassified:UserWarning")
@pytest.mark.parametrize("n_classes", [pytest.param(2, marks=pytest.mark.slow), 3])
@pytest.mark.parametrize("name", ["auto", *sorted(FOR_MARGINS), "any classifier"])
def test_every_calibrator_for_margins(name, n_classes, memory):
    X, y, truth, classifiers = data_and_classifiers(n_classes)
    log_prior = truth.mean(axis=0) @ np.log(truth.mean(axis=0))
    calibrator = LogisticRegression() if name == "any classifier" else name
    for estimator in classifiers:
        for ensemble in (True, False):  # "auto" is one of these
            params = {"ensemble": ensemble, "cv": 2, "n_repeats": 1, "memory": memory}
            model = CalibratedClassifier(estimator, calibrator, **params)
            proba = model.fit(X, y).predict_proba(X)
            np.testing.assert_allclose(proba.sum(axis=1), 1)
            assert np.log(proba[truth]).mean() > log_prior + 0.05


@pytest.mark.parametrize("calibrator", [IsotonicCalibration(), PlattScaling()])
def test_large_margins_keep_their_order(calibrator):
    """The sigmoid of a margin beyond 37 is rounded to one."""
    X, y = make_data(2)
    small = LinearSVC(random_state=0).fit(X, y)
    large = LinearSVC(random_state=0).fit(X, y)
    large.coef_ *= 1e6
    large.intercept_ *= 1e6
    expected, proba = (
        CalibratedClassifier(FrozenEstimator(each), calibrator).fit(X, y)
        for each in (small, large)
    )
    np.testing.assert_allclose(
        proba.predict_proba(X), expected.predict_proba(X), rtol=1e-6
    )


@cache
def noisy_digits():
    """Return digits with noise, and a classifier that was trained with a part."""
    X, y = load_digits(return_X_y=True)
    X = X + np.random.default_rng(0).normal(scale=6, size=X.shape)
    return X, y, RidgeClassifier().fit(X[:500], y[:500])


@cache
def of_noisy_digits(calibrator, unit=1.0, origin=0.0):
    """Return the calibrated probabilities of the last digits."""
    X, y, ridge = noisy_digits()
    ridge = deepcopy(ridge)
    ridge.coef_ *= unit
    ridge.intercept_ = unit * (ridge.intercept_ + origin)
    model = CalibratedClassifier(FrozenEstimator(ridge), calibrator)
    return model.fit(X[500:1000], y[500:1000]).predict_proba(X[1000:])


def test_auto_calibrates_the_margins_of_many_classes_together():
    """One-vs-rest maps are underconfident after normalisation."""
    y = noisy_digits()[1][1000:]
    proba = of_noisy_digits("auto")
    assert abs(proba.max(axis=1).mean() - np.mean(proba.argmax(axis=1) == y)) < 0.04
    joint = log_loss(y, proba)
    for other in (PlattScaling(), VennAbers(), LogisticRegression()):
        assert joint < log_loss(y, of_noisy_digits(other)) - 0.01


def test_auto_does_not_depend_on_the_unit_and_common_origin_of_many_margins():
    expected = of_noisy_digits("auto")
    np.testing.assert_allclose(of_noisy_digits("auto", 1e6, 7), expected, rtol=1e-6)


def test_a_list_of_many_classes_is_averaged_jointly_too():
    maps = [PlattScaling(), IsotonicCalibration()]
    y, proba = noisy_digits()[1][1000:], of_noisy_digits(AutoCalibrator(maps))
    assert log_loss(y, proba) < log_loss(y, of_noisy_digits(PlattScaling())) - 0.01


@pytest.mark.filterwarnings("ignore:.* needs about .* misclassified:UserWarning")
def test_separable_margins_of_three_classes():
    """No temperature is best, and the classes of new samples are not certain."""
    y = np.repeat([0, 1, 2], 20)
    X = 8 * np.eye(3)[y] + np.random.default_rng(0).normal(size=(60, 3))
    frozen = FrozenEstimator(RidgeClassifier().fit(X, y))
    proba = CalibratedClassifier(frozen).fit(X, y).predict_proba(X)
    assert (proba.argmax(axis=1) == y).all()
    assert 0.9 < proba.max(axis=1).mean() < 0.999


def test_constant_margins():
    X, y = make_data(2)
    zero = LinearSVC(random_state=0).fit(X, y)
    zero.coef_ *= 0
    zero.intercept_ *= 0
    model = CalibratedClassifier(FrozenEstimator(zero), PlattScaling()).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], y.mean(), atol=0.01)


@pytest.mark.filterwarnings("ignore:.* needs about .* misclassified:UserWarning")
def test_an_auto_calibrator_works_like_its_name():
    X, y = make_data(2)
    frozen = FrozenEstimator(LinearSVC(random_state=0).fit(X, y))
    by_name, by_object, of_two = (
        CalibratedClassifier(frozen, each).fit(X, y)
        for each in (
            "auto",
            AutoCalibrator(),
            AutoCalibrator([PlattScaling(), IsotonicCalibration()], cv=3),
        )
    )
    np.testing.assert_array_equal(by_object.predict_proba(X), by_name.predict_proba(X))
    (auto,) = of_two.calibrated_classifiers_[0].calibrator.per_label_.calibrators_
    assert auto.cv == 3
    assert len(auto.weights_) == 3
    assert auto.weights_[0] == 0  # of the margins without a calibrator
    labels = np.column_stack([y, 1 - y])
    several = FrozenEstimator(OneVsRestClassifier(LinearSVC()).fit(X, labels))
    by_name, by_object = (
        CalibratedClassifier(several, each).fit(X, labels).predict_proba(X)
        for each in ("auto", PerLabelCalibrator(AutoCalibrator()))
    )
    np.testing.assert_array_equal(by_object, by_name)


UNFIT = {name: CALIBRATORS[name]() for name in {*CALIBRATORS} - FOR_MARGINS - {"auto"}}
UNFIT |= {"none": None, "auto of others": AutoCalibrator([TemperatureScaling()])}


@pytest.mark.parametrize("name", sorted(UNFIT))
def test_other_calibrators_say_which_accept_margins(name):
    X, y = make_data()
    message = "got LinearSVC.*are not logits.*PlattScaling.*IsotonicCalibration.*any cl"
    with pytest.raises(ValueError, match=message):
        CalibratedClassifier(LinearSVC(random_state=0), UNFIT[name]).fit(X, y)


def test_margins_in_the_cache_are_refused_too(tmp_path):
    X, y = make_data()
    params = {"cv": 2, "n_repeats": 1, "memory": tmp_path}
    model = CalibratedClassifier(LinearSVC(), PlattScaling(), **params).fit(X, y)
    with pytest.raises(ValueError, match=r"got LinearSVC.*are not logits"):
        model.set_params(calibrator=MatrixScaling()).fit(X, y)


def test_logits_and_probabilities_come_first():
    """Margins are used only if the classifier has neither."""
    X, y = make_data(2)
    log = SGDClassifier(loss="log_loss", random_state=0)
    for estimator, from_logits in [(LogisticRegression(), True), (log, False)]:
        model = CalibratedClassifier(estimator, PlattScaling(), cv=2, n_repeats=1).fit(
            X, y
        )
        (first, *_) = model.calibrated_classifiers_
        assert isinstance(first.calibrator, PlattScaling)
        assert first.calibrator.from_logits == from_logits


def test_margins_for_each_pair_of_classes():
    X, y = make_data()
    pairs = SVC(decision_function_shape="ovo")
    model = CalibratedClassifier(
        make_pipeline(pairs), PlattScaling(), cv=2, n_repeats=1
    )
    with pytest.raises(ValueError, match=r'got SVC .*_shape="ovo".*Set .*"ovr"'):
        model.fit(X, y)
    assert model.fit(X, y > 0).predict_proba(X).shape == (300, 2)


@pytest.mark.filterwarnings("ignore:.* needs about .* misclassified:UserWarning")
def test_search_over_classifiers_with_margins_and_with_probabilities():
    X, y = make_data()
    grid = {"steps": [[("one", LinearSVC(random_state=0))], [("one", SVC())]]}
    search = GridSearchCV(make_pipeline(LinearSVC()), grid, cv=2)
    model = CalibratedClassifier(search, PlattScaling(), cv=2, n_repeats=1).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)
    model = CalibratedClassifier(
        LinearSVC(random_state=0), TemperatureScaling(), cv=2, n_repeats=1
    )
    model.set_params(response_method="decision_function")
    assert model.fit(X, y).predict_proba(X).shape == (300, 3)


@pytest.mark.filterwarnings("ignore:.* needs about .* misclassified:UserWarning")
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("calibrator", [PlattScaling(), AutoCalibrator()])
def test_warning_names_a_class_without_held_out_samples(n_classes, calibrator):
    X, y = make_data(n_classes)
    y = np.array(["ant", "bee", "cat"])[y]
    frozen = FrozenEstimator(LinearSVC(random_state=0).fit(X, y))
    rest = y != "ant"
    model = CalibratedClassifier(frozen, calibrator)
    name = type(calibrator).__name__
    with pytest.warns(UserWarning, match=rf"no samples of \['ant'\]: {name}"):
        model.fit(X[rest], y[rest])
    assert model.predict_proba(X)[:, 0].mean() < 0.04


class Fickle(LinearSVC):
    """Classifier with probabilities if it was trained with three classes."""

    @available_if(lambda self: not hasattr(self, "classes_") or len(self.classes_) > 2)
    def predict_proba(self, X):
        return np.full((len(X), 3), 1 / 3)


@pytest.mark.filterwarnings("ignore:y contains no samples of:UserWarning")
def test_margins_in_some_folds_only():
    X, y = make_data()
    rows = np.arange(300)
    cv = [(rows[:150], rows[150:]), (rows[y < 2], rows[:150])]
    model = CalibratedClassifier(Fickle(random_state=0), PlattScaling(), cv=cv)
    with pytest.raises(
        ValueError, match=r"in all folds or in none, got prob.*, margins"
    ):
        model.fit(X, y)


class SometimesLogits(LogisticRegression):
    """Classifier that declares logits if it was trained with two classes."""

    @property
    def decision_function_is_logits(self):
        return len(self.classes_) == 2


@pytest.mark.filterwarnings("ignore:y contains no samples of:UserWarning")
def test_logits_in_some_folds_only():
    """All folds then have probabilities."""
    X, y = make_data()
    rows = np.arange(300)
    cv = [(rows[:150], rows[150:]), (rows[y < 2], rows[:150])]
    by_both, by_proba = (
        CalibratedClassifier(SometimesLogits(), PlattScaling(), cv=cv, **params)
        .fit(X, y)
        .predict_proba(X)
        for params in ({}, {"response_method": "predict_proba"})
    )
    np.testing.assert_allclose(by_both, by_proba, rtol=1e-6)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_intervals_of_margins(n_classes):
    X, y = make_classification(
        300, n_informative=6, n_classes=n_classes, random_state=0
    )
    model = CalibratedClassifier(LinearSVC(), VennAbers(), cv=3, n_repeats=1).fit(X, y)
    interval, proba = model.predict_interval(X), model.predict_proba(X)
    assert interval.shape == (300, n_classes, 2)
    assert (interval[..., 0] <= interval[..., 1]).all()
    if n_classes == 2:
        assert (interval[..., 0] <= proba).all()
        assert (proba <= interval[..., 1]).all()


def test_margins_without_calibrators_are_refused():
    X, y = make_classification(random_state=0)
    model = CalibratedClassifier(LinearSVC(), PlattScaling(), cv=3, n_repeats=1)
    model.fit(X, y)
    with pytest.raises(ValueError, match="Margins"):
        model.uncalibrated()
