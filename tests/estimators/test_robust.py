"""`NeuralClassifier`: reloading, warm starts, extreme numbers."""

import numpy as np
import pytest
import torch
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning
from skorch.callbacks import LRScheduler

from sklearn_calib import NeuralClassifier
from sklearn_calib.estimators import MLP

SEEDED = {"random_state": 0, "max_epochs": 2}


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
    with pytest.raises(AttributeError, match="no attribute 'classes_' before it is"):
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


@pytest.mark.parametrize("scale", [1e5, 1e-5])
def test_weights_of_any_scale_are_proportions(table, scale):
    X, y = table
    weight = 1 + np.arange(len(X)) % 3.0
    net = NeuralClassifier(**SEEDED)
    expected = net.fit(X, y, sample_weight=weight).predict_proba(X)
    scaled = net.fit(X, y, sample_weight=scale * weight).predict_proba(X)
    np.testing.assert_allclose(scaled, expected, rtol=1e-4)


def test_weights_beyond_the_precision_are_refused(table):
    X, y = table
    weight = np.where(np.arange(len(X)) % 2, 1.0, 1e-50)
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


@pytest.mark.parametrize("optimizer", [torch.optim.Adam, torch.optim.SGD])
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
@pytest.mark.parametrize("goes_on", [False, True], ids=["new", "goes on"])
def test_divergence_in_the_last_step_is_said(table, optimizer, method, goes_on):
    """The loss of the only batch was computed before the step."""
    X, y = table
    net = NeuralClassifier(
        optimizer=optimizer, max_epochs=1, batch_size=-1, warm_start=True
    )
    if goes_on:
        net.fit(X, y)
    labels = {"classes": np.unique(y)} if method == "partial_fit" else {}
    net.set_params(lr=1e30)
    with pytest.warns(
        ConvergenceWarning, match=r"in the last step of epoch \d, and the"
    ):
        getattr(net, method)(X, y, **labels)
    assert np.isfinite(net.history_[-1, "train_loss"])
    assert np.isnan(net.predict_proba(X)).any()


def test_large_weights_are_no_divergence(table):
    X, y = table
    module = torch.nn.Linear(8, 3)
    torch.nn.init.constant_(module.weight, 1e9)
    net = NeuralClassifier(module, lr=1e-9, **SEEDED).fit(X, y)
    assert np.isfinite(net.predict_proba(X)).all()


def test_without_a_best_epoch_refit_is_left_out(table):
    X, y = table
    net = NeuralClassifier(
        lr=1e30, early_stopping=True, n_iter_no_change=2, refit=True, **SEEDED
    )
    with pytest.warns(ConvergenceWarning) as warned:
        net.fit(X, y)
    first, second = [str(each.message) for each in warned]
    assert first.startswith("The training loss is nan after epoch 2, and the prob")
    assert second.startswith("refit was skipped, because valid_log_loss was not finite")
    assert len(net.history_) == 2
    assert not hasattr(net, "validation_history_")


def test_divergence_after_the_best_epoch(table):
    """The weights from before the divergence are kept."""
    X, y = table
    net = NeuralClassifier(
        early_stopping=True,
        n_iter_no_change=2,
        max_epochs=9,
        random_state=0,
        callbacks=[
            LRScheduler("LambdaLR", lr_lambda=lambda epoch: [1, 1e35][epoch == 2])
        ],
    )
    with pytest.warns(ConvergenceWarning, match=r"loss is nan after epoch \d\. Lower"):
        net.fit(X, y)
    assert np.isfinite(net.predict_proba(X)).all()
