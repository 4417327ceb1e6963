"""Parameter files are skorch's, and are written as a whole."""

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import make_classification

from sklearn_calib import NeuralClassifier

X, y = make_classification(n_samples=120, n_features=8, random_state=0)
NAMES = ["f_params", "f_optimizer", "f_criterion", "f_history"]


def fit(**params):
    net = NeuralClassifier(
        module__hidden_sizes=(5,),
        loss="adafocal",
        loss__n_bins=5,
        max_epochs=2,
        random_state=0,
        **params,
    )
    return net.fit(X, y)


@pytest.fixture(scope="module")
def net():
    return fit()


@pytest.mark.parametrize("use_safetensors", [False, True])
def test_files_come_back(net, use_safetensors, tmp_path):
    names = ["f_params", "f_criterion"] if use_safetensors else NAMES
    files = {name: tmp_path / name for name in names}
    net.save_params(**files, use_safetensors=use_safetensors)
    assert {path.name for path in tmp_path.iterdir()} == set(names)
    other = fit(batch_size=20)
    other.load_params(**files, use_safetensors=use_safetensors)
    np.testing.assert_array_equal(other.predict_proba(X), net.predict_proba(X))
    assert torch.equal(other.criterion_.gamma, net.criterion_.gamma)
    assert use_safetensors or other.history == net.history


def test_a_file_is_replaced_as_a_whole(net, monkeypatch, tmp_path):
    file = tmp_path / "net.pt"
    net.save_params(f_params=file)
    before = file.read_bytes()

    def fail(_, path):
        Path(path).write_bytes(b"PK")
        raise KeyboardInterrupt

    monkeypatch.setattr(torch, "save", fail)
    with pytest.raises(KeyboardInterrupt):
        net.save_params(f_params=file)
    assert file.read_bytes() == before
    assert list(tmp_path.iterdir()) == [file]
