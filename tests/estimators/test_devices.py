"""`device="auto"`: a GPU if there is one."""

import pickle

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_iris

from sklearn_calib import NeuralClassifier, RefCalClassifier
from sklearn_calib.estimators._neural.placement import find_device

X, y = load_iris(return_X_y=True)
NET = NeuralClassifier(device="auto", max_epochs=2, random_state=0)


def test_a_gpu_comes_first(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert find_device("auto") == NET.device == "cuda"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert find_device("auto") == NET.device == "mps"
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert find_device("auto") == NET.device == "cpu"
    for device in ("cuda:1", torch.device("cpu"), None):
        assert find_device(device) is device


def test_it_trains_on_the_device_that_is_found():
    net = clone(NET).fit(X, y)
    assert next(net.module_.parameters()).device.type == find_device("auto")
    expected = clone(NET).set_params(device=find_device("auto")).fit(X, y)
    np.testing.assert_array_equal(net.predict_proba(X), expected.predict_proba(X))


def test_the_parameter_stays_auto(tmp_path):
    net = clone(NET).fit(X, y)
    net.save_params(tmp_path / "weights.pt")
    again = clone(NET).fit(X, y)
    again.load_params(tmp_path / "weights.pt")
    for twin in (net, again, clone(net), pickle.loads(pickle.dumps(net))):
        assert twin.get_params()["device"] == "auto"
        assert "device='auto'" in repr(twin)
    loaded = NeuralClassifier.__new__(NeuralClassifier)
    loaded.__setstate__(net.__getstate__())  # as skops does
    assert loaded.get_params()["device"] == "auto"
    for twin in (again, pickle.loads(pickle.dumps(net)), loaded):
        np.testing.assert_array_equal(twin.predict_proba(X), net.predict_proba(X))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_model_of_a_machine_with_a_gpu_is_loaded_without_one(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    data = pickle.dumps(clone(NET))
    monkeypatch.undo()
    net = pickle.loads(data).fit(X, y)
    assert next(net.module_.parameters()).device.type == find_device("auto")


def test_both_stages_of_refcal():
    quick = RefCalClassifier(
        device="auto", n_projection=4, refine__max_epochs=1, head__max_epochs=1
    )
    assert quick.fit(X, y).get_params()["device"] == "auto"
    assert next(quick.encoder_.parameters()).device.type == find_device("auto")
    assert quick.head_.get_params()["device"] == "auto"
