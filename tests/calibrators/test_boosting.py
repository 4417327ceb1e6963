"""Gradient boosting from temperature-scaled predictions, with three packages."""

import pickle

import numpy as np
import pytest
from scipy.special import log_softmax, softmax
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.metrics import log_loss
from sklearn.naive_bayes import GaussianNB

from sklearn_calib import CalibratedClassifier
from sklearn_calib.calibrators import BoostingCalibrator, TemperatureScaling
from sklearn_calib.persistence import to_dict

REASON = "boosters are optional; the extra test has LightGBM and XGBoost"
ONE_SPLIT = {"max_depth": 1, "learning_rate": 0.5, "reg_lambda": 3.0}
SHALLOW = {"max_depth": 2, "learning_rate": 0.05, "reg_lambda": 30.0}


def lightgbm(n_trees=50, params=SHALLOW, **further):
    package = pytest.importorskip("lightgbm", reason=REASON)
    params = {**params, "n_jobs": 1, "verbosity": -1, **further}
    return package.LGBMClassifier(n_estimators=n_trees, num_leaves=4, **params)


def xgboost(n_trees=50, params=SHALLOW, **further):
    package = pytest.importorskip("xgboost", reason=REASON)
    params = {**params, "n_jobs": 1, **further}
    return package.XGBClassifier(n_estimators=n_trees, **params)


def catboost(n_trees=50, params=SHALLOW, **further):
    package = pytest.importorskip("catboost", reason=REASON)
    quiet = {"verbose": 0, "allow_writing_files": False, "thread_count": 1}
    exact = {"bootstrap_type": "No", "random_strength": 0}
    params = {**params, **quiet, **exact, **further}
    return package.CatBoostClassifier(n_estimators=n_trees, **params)


all_boosters = pytest.mark.parametrize("booster", [lightgbm, xgboost, catboost])


def predictions(n_classes, n_samples=3000, seed=0):
    """Return logits that are twice too large, with a step, and labels."""
    rng = np.random.default_rng(seed)
    logits = 2 * rng.normal(size=(n_samples, n_classes))
    truth = logits + 2 * (logits[:, :1] > 1) * np.eye(n_classes)[1]
    y = (truth + rng.gumbel(size=logits.shape)).argmax(axis=1)
    return 2 * logits, np.array(["a", "b", "c", "d", "e"])[:n_classes][y]


def one_step(logits, y, factor):
    """Return the log-probabilities, and scores of a tree that separates two rows.

    With one Newton step, the score of class k in a leaf is -0.5 G / (H + 3), where G
    is the sum of p_k - [y = k], and H is `factor` times the sum of p_k (1 - p_k).
    """
    start, codes = log_softmax(logits, axis=1), np.unique(y, return_inverse=True)[1]
    proba, scores = np.exp(start), np.zeros_like(logits)
    for row in np.unique(logits, axis=0):
        leaf = (logits == row).all(axis=1)
        gradient = (proba - np.eye(logits.shape[1])[codes])[leaf].sum(axis=0)
        hessian = factor * (proba * (1 - proba))[leaf].sum(axis=0)
        scores[leaf] = -0.5 * gradient / (hessian + 3)
    return start, scores


@pytest.mark.parametrize("weighted", [False, True])
@all_boosters
def test_one_tree_is_one_newton_step_from_the_temperature(booster, weighted):
    logits = np.repeat([[0, -1.0], [0, 3.0]], 100, axis=0)
    y = np.repeat([0, 1, 0, 1], [50, 50, 20, 80])
    # CatBoost multiplies the penalty by the mean weight.
    changed = {"reg_lambda": 1.5} if weighted and booster is catboost else {}
    calibrator = BoostingCalibrator(booster(1, ONE_SPLIT | changed), from_logits=True)
    if weighted:  # the same data, half of the repetitions as weights
        half = [*range(0, 200, 2), 0]
        calibrator.fit(logits[half], y[half], [2] * 100 + [0])
    else:
        calibrator.fit(logits, y)
    start, scores = one_step(logits / calibrator.temperature_, y, 1)
    wanted = softmax(start + scores * [0, 1], axis=1)
    np.testing.assert_allclose(calibrator.predict_proba(logits), wanted, rtol=1e-6)


# Their diagonal approximations of the second derivatives of the softmax.
@pytest.mark.parametrize(("booster", "factor"), [(lightgbm, 3 / 2), (xgboost, 2)])
def test_one_step_of_three_classes(booster, factor):
    logits = np.repeat([[0, -1.0, 2.0], [1.5, 1.0, 0]], 100, axis=0)
    y = np.repeat([0, 1, 2, 0, 1, 2], [50, 20, 30, 20, 70, 10])
    calibrator = BoostingCalibrator(booster(1, ONE_SPLIT), from_logits=True)
    calibrator.fit(logits, y)
    start, scores = one_step(logits / calibrator.temperature_, y, factor)
    wanted = softmax(start + scores, axis=1)
    np.testing.assert_allclose(calibrator.predict_proba(logits), wanted, rtol=1e-6)


@pytest.mark.parametrize("n_classes", [2, 3, 5])
@all_boosters
def test_it_corrects_what_a_temperature_cannot(booster, n_classes):
    X, y = predictions(n_classes)
    X_test, y_test = predictions(n_classes, seed=1)
    losses = {}
    for calibrator in [
        TemperatureScaling(from_logits=True),
        BoostingCalibrator(booster(), from_logits=True),
    ]:
        proba = calibrator.fit(X, y).predict_proba(X_test)
        assert calibrator.classes_.tolist() == sorted(set(y))
        losses[type(calibrator)] = log_loss(y_test, proba)
    assert losses[BoostingCalibrator] < losses[TemperatureScaling] - 0.01


@all_boosters
def test_a_class_without_samples_keeps_its_probability(booster):
    X, y = predictions(4)
    some = y != "c"
    calibrator = BoostingCalibrator(booster(), from_logits=True)
    with pytest.warns(UserWarning, match=r"y contains no samples of \['c'\]"):
        calibrator.fit(X[some], y[some], labels=list("abcd"))
    proba = calibrator.predict_proba(X)
    scaled = softmax(X / calibrator.temperature_, axis=1)
    np.testing.assert_allclose(proba[:, 2], scaled[:, 2])
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    assert np.abs(proba - scaled).max() > 0.05


@all_boosters
def test_two_of_three_classes_are_binary(booster):
    X, y = predictions(3)
    some = y != "a"
    calibrator = BoostingCalibrator(booster(), from_logits=True)
    with pytest.warns(UserWarning, match=r"no samples of \['a'\]"):
        calibrator.fit(X[some], y[some], labels=list("abc"))
    weight = some.astype(float)
    again = clone(calibrator)
    with pytest.warns(UserWarning, match=r"no samples of \['a'\]"):
        again.fit(X, y, weight)
    assert calibrator.estimator_.n_features_in_ == 1
    scaled = softmax(X / calibrator.temperature_, axis=1)
    proba = calibrator.predict_proba(X)
    np.testing.assert_allclose(proba[:, 0], scaled[:, 0])
    np.testing.assert_allclose(again.predict_proba(X), proba, rtol=1e-5)


@all_boosters
def test_float32_and_few_samples(booster):
    X, y = predictions(3, 1500)
    calibrator = BoostingCalibrator(booster(), from_logits=True)
    wanted = calibrator.fit(X, y).predict_proba(X)
    proba = calibrator.fit(X.astype(np.float32), y).predict_proba(X.astype(np.float32))
    assert proba.dtype == np.float32
    assert np.quantile(np.abs(proba - wanted), 0.99) < 1e-3
    few = np.concatenate([np.flatnonzero(y == label)[:2] for label in "abc"])
    proba = calibrator.fit(X[few], y[few]).predict_proba(X)
    assert proba.min() > 0
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    with pytest.raises(ValueError, match=r"at least two classes, got only \['a'\]"):
        calibrator.fit(X[y == "a"], y[y == "a"], labels=list("abc"))


@all_boosters
def test_monotone_constraints_preserve_the_order_of_two_classes(booster):
    X, y = predictions(2)
    increasing = {lightgbm: [1], xgboost: (1,), catboost: "(1)"}
    estimator = booster(monotone_constraints=increasing[booster])
    calibrator = BoostingCalibrator(estimator, from_logits=True).fit(X, y)
    proba = calibrator.predict_proba(X)[:, 1]
    assert np.diff(proba[np.argsort(X[:, 1] - X[:, 0])]).min() > -1e-12


@all_boosters
def test_with_cross_validation(booster):
    X, y = make_classification(300, n_classes=3, n_informative=5, random_state=0)
    model = CalibratedClassifier(GaussianNB(), BoostingCalibrator(booster(10)), cv=2)
    proba = model.fit(X, y).predict_proba(X)
    again = pickle.loads(pickle.dumps(model)).predict_proba(X)
    np.testing.assert_array_equal(again, proba)
    changed = clone(model).set_params(calibrator__estimator__n_estimators=1)
    assert np.abs(changed.fit(X, y).predict_proba(X) - proba).max() > 0.01


@pytest.mark.parametrize(
    "estimator",
    [
        None,
        GradientBoostingClassifier(),
        GradientBoostingClassifier,
        TemperatureScaling(),
    ],
)
def test_unknown_estimators(estimator):
    X, y = predictions(2, 100)
    accepted = "lightgbm.LGBMClassifier, xgboost.XGBClassifier, catboost.CatBoost"
    with pytest.raises(TypeError, match=f"estimator must be an instance of {accepted}"):
        BoostingCalibrator(estimator, from_logits=True).fit(X, y)
    model = CalibratedClassifier(
        RandomForestClassifier(), BoostingCalibrator(estimator)
    )
    with pytest.raises(TypeError, match=f"estimator must be an instance of {accepted}"):
        model.fit(X, y)


@pytest.mark.parametrize(
    ("booster", "loss"),
    [
        (lightgbm, {"objective": "multiclassova"}),
        (xgboost, {"objective": "multi:softmax"}),
        (catboost, {"loss_function": "MultiClassOneVsAll"}),
    ],
)
def test_other_losses(booster, loss):
    X, y = predictions(3, 100)
    calibrator = BoostingCalibrator(booster(**loss), from_logits=True)
    with pytest.raises(ValueError, match=r"must minimise the log loss, got \w+='"):
        calibrator.fit(X, y)
    assert not hasattr(calibrator, "classes_")


@pytest.mark.parametrize(
    ("booster", "weights"),
    [
        (lightgbm, {"class_weight": "balanced"}),
        (lightgbm, {"is_unbalance": True}),
        (lightgbm, {"class_weight": np.array([1, 3])}),
        (xgboost, {"scale_pos_weight": 3}),
        (catboost, {"auto_class_weights": "Balanced"}),
        (catboost, {"class_weights": [1, 3]}),
    ],
)
def test_class_weights(booster, weights):
    """They are often copied from the classifier, and change the probabilities."""
    calibrator = BoostingCalibrator(booster(**weights), from_logits=True)
    with pytest.raises(ValueError, match="must not weight the classes, got "):
        calibrator.fit(*predictions(2, 100))


def test_few_errors():
    X, y = predictions(2, 300)
    right = np.array(["a", "b"])[X.argmax(axis=1)]
    right[:9] = y[:9]
    calibrator = BoostingCalibrator(lightgbm(), from_logits=True)
    with pytest.warns(UserWarning, match="needs about 10 misclassified samples"):
        calibrator.fit(X, right)


def test_subclasses_of_boosters_and_no_penalty():
    X, y = predictions(3, 300)
    own = type("OwnBooster", (type(lightgbm()),), {})(verbosity=-1, n_jobs=1)
    calibrator = BoostingCalibrator(own, from_logits=True)
    with pytest.warns(UserWarning, match="estimator has the penalty reg_lambda=0"):
        calibrator.fit(X, y)
    assert type(calibrator.estimator_) is type(own)


def test_batches():
    X, y = predictions(2, 300)
    chunks = [(X[:100], y[:100]), (X[100:], y[100:])]
    parts = BoostingCalibrator(lightgbm(), from_logits=True)
    parts.fit(batches=lambda: chunks, labels=["a", "b"])
    whole = BoostingCalibrator(lightgbm(), from_logits=True).fit(X, y)
    np.testing.assert_allclose(
        parts.predict_proba(X), whole.predict_proba(X), atol=1e-9
    )


def test_what_is_not_supported():
    X, y = predictions(2, 300)
    calibrator = BoostingCalibrator(lightgbm(), from_logits=True).fit(X, y)
    with pytest.raises(TypeError, match=r"model must be .* got BoostingCalibrator"):
        to_dict(calibrator)
    with pytest.raises(TypeError, match="map of BoostingCalibrator must consist"):
        calibrator.to_torch()
    pytest.importorskip("skl2onnx", reason="ONNX is optional")
    from sklearn_calib.onnx import to_onnx

    with pytest.raises(Exception, match="BoostingCalibrator"):
        to_onnx(calibrator, X)
