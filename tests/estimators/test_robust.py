"""`NeuralClassifier` in the hands of users: reloading, warm fits, odd numbers."""

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning

from sklearn_calib import NeuralClassifier
from sklearn_calib.estimators import MLP

SEEDED = {"random_state": 0, "max_epochs": 3}


@pytest.fixture(scope="module")
def table():
    X, y = make_classification(
        n_samples=240, n_features=8, n_informative=5, n_classes=3, random_state=0
    )
    return X, np.array(["cat", "dog", "eel"])[y]


def test_weights_of_a_trained_net_load_into_a_new_one(table, tmp_path):
    X, y = table
    trained = NeuralClassifier(MLP(8, 3), **SEEDED).fit(X, y)
    trained.save_params(f_params=tmp_path / "net.pt")
    net = NeuralClassifier(MLP(8, 3), **SEEDED).initialize()
    net.load_params(f_params=tmp_path / "net.pt")
    np.testing.assert_array_equal(net.predict_proba(X), trained.predict_proba(X))
    with pytest.raises(AttributeError, match="no attribute 'classes_' before it has"):
        net.predict(X)
    net.partial_fit(X, y, classes=np.unique(y))
    assert set(net.predict(X)) <= set(y)
    with pytest.raises(ValueError, match="module must be given to initialize without"):
        NeuralClassifier().initialize()


def test_parameters_set_after_a_fit_hold_for_a_warm_one(table):
    X, y = table
    net = NeuralClassifier(warm_start=True, random_state=0, max_epochs=2, lr=0.05)
    net.fit(X, y).set_params(dtype="float64").predict(X)
    net.set_params(early_stopping=True, n_iter_no_change=2, max_epochs=300).fit(X, y)
    assert "valid_log_loss" in net.history_[-1]
    assert len(net.history_) < 300


@pytest.mark.parametrize("scale", [1e40, 1e-50])
def test_weights_beyond_the_precision_are_refused(table, scale):
    X, y = table
    weight = np.full(len(X), scale)
    with pytest.raises(
        ValueError, match=r"in float32, got .* Divide them by their mean"
    ):
        NeuralClassifier(**SEEDED).fit(X, y, sample_weight=weight)
    net = NeuralClassifier(dtype="float64", **SEEDED).fit(X, y, sample_weight=weight)
    assert np.isfinite(net.predict_proba(X)).all()


def test_divergence_is_said(table):
    X, y = table
    with pytest.warns(ConvergenceWarning, match="Lower lr, or scale the features"):
        NeuralClassifier(lr=1e30, **SEEDED).fit(X, y)
