"""Classifiers of other libraries: all that use one read what it returns alike.

The classifiers differ in the order of their classes and in what their methods return,
and are otherwise one model. Its values are multiples of a power of two, so that no form
rounds them.
"""

import re
from functools import partial

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import torch
from scipy.special import softmax
from sklearn import preprocessing
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import make_classification
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier

from sklearn_calib import (
    CalibratedClassifier,
    NeuralClassifier,
    PredictionSetClassifier,
    SelectiveClassifier,
    TemperatureScaling,
)
from sklearn_calib._sklearn.response import predict_scores
from sklearn_calib.calibrators import (
    AutoCalibrator,
    BoostingCalibrator,
    IsotonicCalibration,
    PlattScaling,
)
from sklearn_calib.deployment import PriorShiftClassifier
from sklearn_calib.displays import ReliabilityDisplay
from sklearn_calib.evaluation import compare, evaluate_ood
from sklearn_calib.metrics import get_scorer, variational_calibration_error
from sklearn_calib.onnx import to_onnx
from sklearn_calib.persistence import from_dict, to_dict

pytestmark = [
    pytest.mark.filterwarnings("ignore:X has feature names:UserWarning"),
    pytest.mark.filterwarnings("ignore:y contains no samples of:UserWarning"),
]


def polars_frame(values, classes):
    polars = pytest.importorskip("polars", reason="a form of foreign predictions")
    return polars.DataFrame(values, schema=[f"{label}" for label in classes])


# What methods return, made from values (n_samples, n_classes) in the order of classes_.
MATRICES = {
    "array": lambda values, _: values,
    "float32": lambda values, _: values.astype(np.float32),
    "frame": lambda values, _: pd.DataFrame(values).add_prefix("column_"),
    "frame with labels": lambda values, labels: pd.DataFrame(values, columns=labels),
    "polars": polars_frame,
    "list": lambda values, _: values.tolist(),
    "tensor": lambda values, _: torch.from_numpy(values).requires_grad_(),
    "float16": lambda values, _: values.astype(np.float16),
}
# These are refused.
WRONG = {
    "frame in another order": lambda values, labels: pd.DataFrame(
        values, columns=np.roll(labels, 1)
    ),
    "one column too many": lambda values, _: np.insert(values, 0, 0, axis=1),
}
# Of the second of two classes.
COLUMNS = {
    "column": lambda value: value[:, None],
    "1-d": lambda value: value,
    "Series": lambda value: pd.Series(value, index=np.arange(len(value))[::-1]),
    "1-d list": lambda value: value.tolist(),
    "1-d tensor": torch.from_numpy,
}


class Foreign(ClassifierMixin, BaseEstimator):
    """Nearest class means, with probabilities in steps of 1/1024, and other scores."""

    def __init__(self, form="array", is_sorted=True, shrinkage=0.5):
        self.form = form
        self.is_sorted = is_sorted
        self.shrinkage = shrinkage

    def fit(self, X, y):
        labels = np.unique(y)
        means = np.array([X[y == label].mean(axis=0) for label in labels])
        self.means_ = self.shrinkage * means
        self.order_ = np.arange(len(labels))
        if not self.is_sorted:  # nor reversed, if there are three
            self.order_ = np.roll(self.order_, 1)
        self.classes_ = labels[self.order_]
        return self

    def predict(self, X):
        return np.sort(self.classes_)[self._sorted_scores(X).argmax(axis=1)]

    def _sorted_scores(self, X):
        scores = X @ self.means_.T - (self.means_**2).sum(axis=1) / 2
        return np.round(128 * scores) / 128

    def _formed(self, values):
        """Return values in the order of sorted labels in the classifier's form."""
        values = np.ascontiguousarray(values[:, self.order_])
        if self.form in COLUMNS:
            return COLUMNS[self.form](np.ascontiguousarray(values[:, 1]))
        return {**MATRICES, **WRONG}[self.form](values, self.classes_)


class WithProba(Foreign):
    def predict_proba(self, X):
        proba = np.round(1024 * softmax(self._sorted_scores(X), axis=1)) / 1024
        proba[:, -1] = 1 - proba[:, :-1].sum(axis=1)
        return self._formed(proba.clip(0, 1))


class WithMargins(Foreign):
    """A classifier that has a decision function only."""

    def decision_function(self, X):
        scores = self._sorted_scores(X)
        if scores.shape[1] == 2:  # zero for the first of classes_
            scores = scores - scores[:, self.order_[:1]]
        return self._formed(scores)


class WithLogits(WithMargins):
    decision_function_is_logits = True


# The last label is absent from the data.
LABELS = {2: np.array([3, 7, 5]), 3: np.array(["a", "b", "d", "c"])}


def data(n_classes, n_samples=120):
    """Return samples of overlapping classes."""
    rng = np.random.default_rng(0)
    codes = np.arange(n_samples) % n_classes
    X = 1.5 * np.eye(3)[codes] + rng.normal(size=(n_samples, 3))
    return X, LABELS[n_classes][codes]


def by_label(model, values):
    return np.asarray(values)[:, np.argsort(model.classes_)]


def fitted(model, X, y):
    """Return the predictions of a wrapper, with columns in the order of the labels."""
    model = model.fit(X, y)
    codes = np.unique(np.append(model.predict(X), y), return_inverse=True)[1]
    return codes, by_label(model, model.predict_proba(X))


def frozen(wrap, classifier, X, y):
    return fitted(wrap(FrozenEstimator(clone(classifier).fit(X, y))), X, y)


def calibrated(calibrator, **params):
    params = {"cv": 2, "n_repeats": 1, **params}
    return lambda each: CalibratedClassifier(each, calibrator, **params)


def reliability(classifier, X, y):
    shown = ReliabilityDisplay.from_estimator(classifier, X, y, mode="top_label")
    plt.close(shown.figure_)
    return shown.prob_true, shown.prob_pred


def search(classifier, X, y):
    grid, options = {"shrinkage": [0.1, 0.6]}, {"cv": 2, "error_score": "raise"}
    model = GridSearchCV(classifier, grid, scoring="neg_root_brier", **options)
    return [model.fit(X, y).cv_results_["mean_test_score"]]


def prediction_sets(classifier, X, y):
    model = PredictionSetClassifier(classifier, cv=2, random_state=0).fit(X, y)
    return model.predict_pvalue(X), model.predict_proba(X)


TEMPERATURE = calibrated(TemperatureScaling())
SELECTIVE = partial(SelectiveClassifier, coverage=0.8, cv=2)
# Called with a classifier, samples and labels.
WRAPPERS = {
    "no calibrator": calibrated(None, ensemble=True),
    "temperature": TEMPERATURE,
    "temperature of one map": calibrated(TemperatureScaling(), ensemble=False),
    "isotonic": calibrated(IsotonicCalibration()),
    "auto": calibrated(AutoCalibrator([TemperatureScaling(), PlattScaling()], cv=2)),
    "platt": calibrated(PlattScaling()),
    "classifier": calibrated(LogisticRegression()),
    "selective": lambda each: SELECTIVE(each, abstain_label=-1),
    "prior shift": lambda each: PriorShiftClassifier(each, train_priors="balanced"),
}
USERS = {name: lambda c, X, y, w=w: fitted(w(c), X, y) for name, w in WRAPPERS.items()}
USERS |= {
    f"frozen, {name}": partial(frozen, WRAPPERS[name])
    for name in ("temperature", "selective", "prior shift")
}
USERS["calibrator"] = lambda c, X, y: fitted(calibrated(c)(LogisticRegression()), X, y)
USERS["prediction sets"] = prediction_sets
USERS["search"] = search
FITTED_USERS = {
    "compare": lambda c, X, y: compare({"a": c}, X, y, n_resamples=0).to_numpy(),
    "display": reliability,
    "out of distribution": lambda c, X, _: [*evaluate_ood(c, X, X + 1).values()],
    "scorer": lambda c, X, y: [get_scorer("neg_ece")(c, X, y)],
}
USERS |= {
    name: lambda c, X, y, f=f: f(c.fit(X, y), X, y) for name, f in FITTED_USERS.items()
}
USERS["recalibration"] = lambda c, X, y: [
    variational_calibration_error(
        y, softmax(X[:, : len(set(y))], axis=1), recalibration=c
    )
]


def plain(kind, n_classes):
    """Return the classifier that scikit-learn would have."""
    return kind("1-d" if kind is not WithProba and n_classes == 2 else "array")


@pytest.mark.parametrize(
    ("kind", "n_classes", "form"),
    [
        *((WithProba, n, form) for n in (2, 3) for form in MATRICES),
        *((WithMargins, 3, form) for form in MATRICES),
        *((kind, 2, form) for kind in (WithProba, WithMargins) for form in COLUMNS),
    ],
)
def test_all_forms_are_read_alike(kind, n_classes, form):
    X, y = data(n_classes)
    labels = LABELS[n_classes]
    sorted_one = plain(kind, n_classes).fit(X, y)
    for is_sorted in (True, False):
        classifier, from_logits = kind(form, is_sorted).fit(X, y), kind is WithMargins
        for classes in (labels[:-1], labels[-2::-1], labels, np.sort(labels)):
            found = predict_scores(classifier, X, from_logits, classes)
            wanted = predict_scores(sorted_one, X, from_logits, classes)
            assert type(found) is np.ndarray
            np.testing.assert_allclose(found, wanted, rtol=1e-6)
        own = predict_scores(classifier, X, from_logits)
        again = predict_scores(classifier, X, from_logits, classifier.classes_)
        np.testing.assert_array_equal(own, again)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *((name, WithProba) for name in USERS),
        *((name, WithLogits) for name in ("temperature", "classifier")),
        *((name, WithMargins) for name in ("isotonic", "platt", "classifier")),
    ],
)
@pytest.mark.parametrize(("n_classes", "form"), [(2, "column"), (3, "frame")])
def test_all_users_read_alike(name, kind, n_classes, form):
    X, y = data(n_classes)
    if "selective" in name:  # which abstains by a number
        y = np.unique(y, return_inverse=True)[1]
    found = USERS[name](kind(form, is_sorted=False), X, y)
    wanted = USERS[name](plain(kind, n_classes), X, y)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other)


@pytest.mark.parametrize("name", USERS)
def test_all_users_refuse_columns_in_another_order(name):
    X, y = data(3)
    y = np.unique(y, return_inverse=True)[1] + 5 if "selective" in name else y
    message = r"^WithProba.predict_proba\(X\) must have its columns in the order of"
    with pytest.raises(ValueError, match=message):
        USERS[name](WithProba("frame in another order"), X, y)


class ListOfClasses(WithProba):
    """A classifier whose classes are a list of floats."""

    def fit(self, X, y):
        super().fit(X, y)
        self.classes_ = self.classes_.astype(float).tolist()
        return self


@pytest.mark.parametrize("name", USERS)
def test_all_users_take_a_list_of_classes(name):
    X, y = data(2)
    found, wanted = (USERS[name](c(), X, y) for c in (ListOfClasses, WithProba))
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other)


def test_what_does_not_match_the_classes_is_refused():
    X, y = data(3)
    methods = {WithProba: "predict_proba", WithMargins: "decision_function"}
    must = r"must have a column for each class in classes_, \['a', 'b', 'd'\], got "
    for form, shape in (("one column too many", "120, 4"), ("1-d", "120,")):
        for kind, method in methods.items():
            classifier = kind(form).fit(X, y)
            with pytest.raises(ValueError, match=f"{method} of .* {must}.*{shape}"):
                predict_scores(classifier, X, kind is WithMargins)
    classifier = WithProba().fit(X, y)
    with pytest.raises(ValueError, match="must have classes_ that are labels of y"):
        predict_scores(classifier, X, False, np.array([0, 1, 2]))


@pytest.mark.parametrize("form", ["array", "frame", "polars", "tensor"])
def test_labels_of_multilabel_problems(form):
    """One array of all labels, or for each label one of both classes in any order."""
    proba = np.arange(8).reshape(4, 2) / 8
    formed, both = MATRICES[form], [np.array([0, 1]), np.array([1, 0])]
    pairs = [np.column_stack([1 - p, p]) for p in proba.T]
    pairs[1] = np.ascontiguousarray(pairs[1][:, ::-1])
    for returned in (formed(proba, "ab"), [formed(pair, "ab") for pair in pairs]):
        classifier = WithProba()
        classifier.classes_, classifier.predict_proba = both, lambda _, r=returned: r
        found = predict_scores(classifier, proba, False, both)
        np.testing.assert_array_equal(found, proba)


# `compare` averages over the labels.
@pytest.mark.parametrize("name", sorted({*FITTED_USERS} - {"compare"}))
def test_multilabel_classifiers_are_refused_where_one_label_is_needed(name):
    X, y = data(2)
    labels = np.column_stack([y == 7, X[:, 0] > 0])
    with pytest.raises(ValueError, match="must predict one label for each sample"):
        USERS[name](KNeighborsClassifier(), X, labels.astype(int))


class OneVsAll(WithProba):
    def predict_proba(self, X):
        return 0.5 * super().predict_proba(X)


class Normalised(OneVsAll):
    def predict_proba(self, X):
        return preprocessing.normalize(super().predict_proba(X), norm="l1")


def test_half_precision_is_named():
    """Naive Bayes keeps the precision of X, and its logarithms are large."""
    X, y = data(3)
    half = (X + 9).astype(np.float16)
    for scale, got in ((1, "a row that sums to"), (300, "NaN")):
        with (
            np.errstate(all="ignore"),
            pytest.raises(ValueError, match=f"got {got}.*half .* Pass X as float32"),
        ):
            TEMPERATURE(GaussianNB()).fit(scale * half, y)


def test_rows_that_do_not_sum_to_one():
    """What the message says works, and is not said where it would not."""
    X, y = data(3)
    way_out = re.escape('normalize(super().predict_proba(X), norm="l1").')
    with pytest.raises(ValueError, match=f"subclass of OneVsAll .*{way_out}"):
        TEMPERATURE(OneVsAll()).fit(X, y)
    found, wanted = (TEMPERATURE(c()).fit(X, y) for c in (Normalised, WithProba))
    np.testing.assert_allclose(found.predict_proba(X), wanted.predict_proba(X))
    for wrong in (0, np.nan):
        classifier = WithProba().fit(X, y)
        classifier.predict_proba = lambda X, wrong=wrong: np.full((len(X), 3), wrong)
        with pytest.raises(ValueError, match=r"must .*, got ") as error:
            predict_scores(classifier, X, False)
        assert not re.search("subclass|logits", str(error.value))


# Boosters that name their classes -----------------------------------------------------


class CatBoostClassifier(ClassifierMixin, BaseEstimator):
    """A stand-in that adds nothing to the offsets, which are those of its classes."""

    def __init__(self, class_names=None):
        self.class_names = class_names

    def fit(self, X, y, baseline):
        self.classes_ = np.array(self.class_names or np.unique(y))
        values = baseline.reshape(len(X), -1)[:, -1]
        self.is_right_ = np.corrcoef(values, y == self.classes_[-1])[0, 1] > 0
        return self

    def predict(self, X, prediction_type):
        assert prediction_type == "RawFormulaVal"
        return np.full(len(X), 0.0 if self.is_right_ else 10.0)


CatBoostClassifier.__module__ = "catboost.core"


def test_boosting_calibrator_orders_the_classes():
    X, y = data(2)
    proba = WithProba().fit(X, y).predict_proba(X)
    calibrator = BoostingCalibrator(CatBoostClassifier(class_names=(7, 3)))
    wanted = TemperatureScaling().fit(proba, y).predict_proba(proba)
    found = calibrator.fit(proba, y).predict_proba(proba)
    np.testing.assert_allclose(found, wanted)


@pytest.mark.slow
def test_catboost():
    """Wrappers are as accurate with classes in either order."""
    package = pytest.importorskip("catboost", reason="CatBoost is optional")

    def booster(**params):
        return package.CatBoostClassifier(
            n_estimators=30, verbose=0, allow_writing_files=False, **params
        )

    X, y = make_classification(900, 6, random_state=0)
    for wrap in (
        *(WRAPPERS[name] for name in ("no calibrator", "temperature", "prior shift")),
        lambda each: WRAPPERS["selective"](each).set_params(coverage=1),
        lambda each: PredictionSetClassifier(each, cv=2),
        lambda each: calibrated(BoostingCalibrator(each))(GaussianNB()),
        lambda each: calibrated(each)(GaussianNB()),
    ):
        for params in ({}, {"class_names": (1, 0)}):
            model = wrap(booster(**params)).fit(X[:600], y[:600])
            assert np.mean(model.predict(X[600:]) == y[600:]) > 0.85


# Files --------------------------------------------------------------------------------


def test_a_wrapper_is_saved_with_classes_in_another_order():
    X, y = data(3)
    net = NeuralClassifier(max_epochs=1, device="cpu")
    net.fit(X.astype(np.float32), y)
    net.classes_inferred_ = net.classes_[[2, 0, 1]]  # as `initialize` may set them
    inner = calibrated(None)(FrozenEstimator(net))
    model = PriorShiftClassifier(inner, priors=[0.2, 0.2, 0.6]).fit(X, y)
    again = from_dict(to_dict(model))
    assert again.estimator_.classes_.tolist() == ["d", "a", "b"]
    assert again.classes_.tolist() == ["a", "b", "d"]
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


def reverse(linear):
    """Let a fitted classifier have its classes in the reversed order."""
    sign = -1 if len(linear.classes_) == 2 else 1
    for name in ("classes_", "coef_", "intercept_"):
        flipped = getattr(linear, name)[::-1]
        setattr(linear, name, flipped if name == "classes_" else sign * flipped)


def test_export_with_classes_in_another_order():
    pytest.importorskip("skl2onnx", reason="needs the extra onnx")
    pytest.importorskip("onnxruntime", reason="needs the extra onnx")
    linear = LogisticRegression()
    X, y = data(2)
    models = [wrap(linear).fit(X, y) for wrap in (TEMPERATURE, calibrated(linear))]
    models += [PriorShiftClassifier(linear, train_priors="balanced").fit(*data(3))]
    pairs = [pair for each in models[:2] for pair in each.calibrated_classifiers_]
    parts = [pair.estimator for pair in pairs] + [models[2].estimator_]
    parts += [pair.calibrator.classifier_ for pair in models[1].calibrated_classifiers_]
    wanted = [model.predict_proba(X) for model in models]
    for part in parts:
        reverse(part)
    for model, proba in zip(models, wanted, strict=True):
        np.testing.assert_allclose(model.predict_proba(X), proba)
        to_onnx(model, X)  # compares the predictions
