"""`NeuralClassifier` inside scikit-learn's own tools."""

import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone, is_classifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.datasets import make_classification
from sklearn.ensemble import AdaBoostClassifier, BaggingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import log_loss
from sklearn.model_selection import cross_val_predict, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from sklearn_calib import NeuralClassifier


@pytest.fixture(scope="module")
def data():
    X, y = make_classification(
        n_samples=200, n_informative=6, n_classes=3, flip_y=0.1, random_state=0
    )
    return X, np.array(["no", "perhaps", "yes"])[y]


NET = NeuralClassifier(module__hidden_sizes=(8,), max_epochs=2, lr=0.03, random_state=0)


def test_is_a_classifier():
    assert is_classifier(NET)


def test_cross_val_predict(data):
    with joblib.parallel_config("threading", n_jobs=2):
        proba = cross_val_predict(NET, *data, method="predict_proba", cv=3)
    assert proba.shape == (200, 3)
    assert log_loss(data[1], proba) < np.log(3)


def test_pipeline_with_a_frame_of_mixed_columns(data):
    X, y = data
    frame = pd.DataFrame(X[:, :3], columns=list("abc"))
    frame["colour"] = np.where(X[:, 4] > 0, "red", "blue")
    columns = make_column_transformer(
        (StandardScaler(), ["a", "b", "c"]),
        (OneHotEncoder(sparse_output=False), ["colour"]),
    )
    pipe = make_pipeline(columns, NET)
    assert cross_val_score(pipe, frame, y, cv=2).shape == (2,)


METHODS = sorted(CalibratedClassifierCV._parameter_constraints["method"][0].options)


@pytest.mark.parametrize("method", METHODS)
def test_calibrated_classifier_cv_of_scikit_learn(data, method):
    X, y = data
    model = CalibratedClassifierCV(NET, method=method, cv=2).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)


@pytest.mark.skipif("temperature" not in METHODS, reason="new in scikit-learn 1.8")
@pytest.mark.parametrize("n_classes", [2, 3])
def test_scikit_learn_scales_the_logits(data, n_classes):
    """A prefit net and logits times 10 have the same calibrated probabilities."""
    X, y = data
    X, y = (X, y) if n_classes == 3 else (X[y != "yes"], y[y != "yes"])
    net = clone(NET).fit(X, y)
    sharp = clone(NET).fit(X, y)
    last = list(sharp.module_.children())[-1]
    last.weight.data *= 10
    last.bias.data *= 10
    calibrated = [
        CalibratedClassifierCV(FrozenEstimator(each), method="temperature").fit(X, y)
        for each in (net, sharp)
    ]
    proba = [each.predict_proba(X) for each in calibrated]
    np.testing.assert_allclose(*proba, atol=1e-4)


def test_ensembles_that_need_weights(data):
    for ensemble in (
        AdaBoostClassifier(NET, n_estimators=2),
        BaggingClassifier(NET, 2),
    ):
        assert ensemble.fit(*data).predict_proba(data[0]).shape == (200, 3)


def test_weights_are_routed(data):
    X, y = data
    weight = np.random.default_rng(0).uniform(size=200)
    with sklearn.config_context(enable_metadata_routing=True):
        net = clone(NET).set_fit_request(sample_weight=True)
        net.set_score_request(sample_weight=True)
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        routed = make_pipeline(scaler, net).fit(X, y, sample_weight=weight)
        scores = cross_validate(net, X, y, cv=2, params={"sample_weight": weight})
    plain = make_pipeline(StandardScaler(), NET)
    plain.fit(X, y, neuralclassifier__sample_weight=weight)
    np.testing.assert_array_equal(routed.predict_proba(X), plain.predict_proba(X))
    assert np.isfinite(scores["test_score"]).all()


def test_html_and_text_repr_name_the_loss():
    net = NeuralClassifier(loss="focal", loss__gamma=2.0)
    assert "focal" in repr(net)
    assert "focal" in net._repr_html_()
