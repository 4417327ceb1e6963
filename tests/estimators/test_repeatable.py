"""The same seed gives the same network, also for resumed runs."""

import threading

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import make_classification
from skorch.callbacks import Checkpoint, LoadInitState

from sklearn_calib import NeuralClassifier
from sklearn_calib.estimators import MLP

X, y = make_classification(
    n_samples=200, n_informative=6, n_classes=3, flip_y=0.2, random_state=0
)
# Dropout and shuffling draw random numbers in every epoch.
NET = NeuralClassifier(module__dropout=0.5, max_epochs=3, random_state=3)


@pytest.fixture(scope="module")
def whole_run():
    return clone(NET).fit(X, y).predict_proba(X)


def test_same_seed_same_network(whole_run):
    torch.manual_seed(99)
    np.testing.assert_array_equal(clone(NET).fit(X, y).predict_proba(X), whole_run)


def test_other_seed_other_network(whole_run):
    other = clone(NET).set_params(random_state=4).fit(X, y)
    assert np.abs(other.predict_proba(X) - whole_run).max() > 1e-3


def test_global_state_is_left_alone():
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    clone(NET).fit(X, y).predict_proba(X)
    torch.testing.assert_close(torch.rand(3), expected)


def test_a_network_on_the_cpu_does_not_seed_other_devices(monkeypatch):
    seeds = []
    monkeypatch.setattr(torch, "manual_seed", seeds.append)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    NeuralClassifier(max_epochs=1, random_state=0).fit(X, y)
    assert seeds == []


def test_without_a_seed_torch_decides():
    results = []
    for _ in range(2):
        torch.manual_seed(5)
        net = clone(NET).set_params(random_state=None).fit(X, y)
        results.append(net.predict_proba(X))
    np.testing.assert_array_equal(*results)


def test_warm_start_goes_on(whole_run):
    net = clone(NET).set_params(warm_start=True, max_epochs=2).fit(X, y)
    net.set_params(max_epochs=1).fit(X, y)
    np.testing.assert_allclose(net.predict_proba(X), whole_run, rtol=1e-12)


def test_a_run_resumed_from_a_checkpoint_equals_a_whole_one(whole_run, tmp_path):
    checkpoint = Checkpoint(monitor=None, dirname=tmp_path)
    clone(NET).set_params(max_epochs=2, callbacks=[checkpoint]).fit(X, y)
    resumed = clone(NET).set_params(
        max_epochs=1, callbacks=[LoadInitState(Checkpoint(dirname=tmp_path))]
    )
    resumed.fit(X, y)
    assert len(resumed.history_) == 3
    np.testing.assert_allclose(resumed.predict_proba(X), whole_run, rtol=1e-12)


def test_threads_do_not_draw_from_each_other(whole_run):
    nets = [clone(NET) for _ in range(3)]
    threads = [threading.Thread(target=net.fit, args=(X, y)) for net in nets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for net in nets:
        np.testing.assert_array_equal(net.predict_proba(X), whole_run)


class TooWide(MLP):
    """A network with too many outputs."""

    def __init__(self, n_features, dropout):
        super().__init__(n_features, 7, dropout=dropout)


def test_an_error_in_training_leaves_no_trace(whole_run):
    net = clone(NET)
    with pytest.raises(ValueError, match="with n_classes=3, got shape"):
        net.set_params(module=TooWide).fit(X, y)
    net.set_params(module=None)
    np.testing.assert_array_equal(net.fit(X, y).predict_proba(X), whole_run)
