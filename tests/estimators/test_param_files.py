"""Parameter files that are damaged, incomplete or of another format."""

import io
import json
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import make_classification
from skorch.callbacks import Checkpoint, LoadInitState
from skorch.exceptions import NotInitializedError

from sklearn_calib import NeuralClassifier
from sklearn_calib.estimators import MLP

X, y = make_classification(n_samples=120, n_features=8, random_state=0)
NAMES = ["f_params", "f_optimizer", "f_criterion", "f_history"]


def fit(hidden_sizes=(5,), **params):
    net = NeuralClassifier(
        module__hidden_sizes=hidden_sizes,
        loss="adafocal",
        loss__n_bins=len(hidden_sizes) + 4,
        max_epochs=2,
        random_state=0,
        **params,
    )
    return net.fit(X, y)


@pytest.fixture(scope="module")
def net():
    return fit()


@pytest.fixture(scope="module")
def other():
    """Return a net whose files cannot be loaded, so that it stays as it is."""
    return fit()


DAMAGE = {
    "empty": lambda _: b"",
    "half": lambda content: content[: len(content) // 2],
    "garbage": lambda _: bytes(range(256)) * 20,
    "words": lambda _: b"hello",
    "pickle": lambda _: pickle.dumps(MLP),
    "list": lambda _: to_bytes([1, 2]),
    "empty dict": lambda _: to_bytes({"a": 1}),
}


def to_bytes(value):
    file = io.BytesIO()
    torch.save(value, file)
    return file.getvalue()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
@pytest.mark.parametrize("use_safetensors", [False, True])
def test_damaged_files_are_named(net, other, name, damage, use_safetensors, tmp_path):
    file = tmp_path / "of_the_net"
    net.save_params(**{name: file})
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(ValueError, match=rf"{name} must be a file that.*of_the_net'"):
        other.load_params(**{name: file}, use_safetensors=use_safetensors)
    with file.open("rb") as opened, pytest.raises(ValueError, match="of_the_net'"):
        other.load_params(**{name: opened}, use_safetensors=use_safetensors)


@pytest.mark.parametrize("name", ["f_params", "f_optimizer", "f_criterion"])
def test_files_of_another_network_are_named(net, name, tmp_path):
    net.save_params(**{name: tmp_path / "net.pt"})
    other = fit((4, 4))
    with pytest.raises(ValueError, match=r"net\.pt', which cannot be loaded"):
        other.load_params(**{name: tmp_path / "net.pt"})


@pytest.mark.parametrize("use_safetensors", [False, True])
def test_files_come_back(net, use_safetensors, tmp_path):
    names = ["f_params", "f_criterion"] if use_safetensors else NAMES
    files = {name: tmp_path / name for name in names}
    net.save_params(**files, use_safetensors=use_safetensors)
    assert {path.name for path in tmp_path.iterdir()} == set(names)
    other = fit(lr=0.1)
    other.load_params(**files, use_safetensors=use_safetensors)
    np.testing.assert_array_equal(other.predict_proba(X), net.predict_proba(X))
    assert torch.equal(other.criterion_.gamma, net.criterion_.gamma)
    assert use_safetensors or other.history == net.history


def test_a_damaged_checkpoint_of_skorch_is_named(tmp_path):
    checkpoint = Checkpoint(monitor=None, dirname=tmp_path)
    first = fit(callbacks=[LoadInitState(checkpoint), checkpoint])
    assert len(first.fit(X, y).history_) == 4
    file = tmp_path / "optimizer.pt"
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(ValueError, match=r"f_optimizer must be .*optimizer\.pt'"):
        first.fit(X, y)


def test_other_errors_of_load_params_are_those_of_skorch(net, tmp_path):
    with pytest.raises(FileNotFoundError):
        net.load_params(f_params=tmp_path / "nowhere.pt")
    with pytest.raises(AttributeError, match="to load 'f_extra' but for that to work"):
        net.load_params(f_extra=tmp_path / "nowhere.pt")
    with pytest.raises(NotInitializedError):
        NeuralClassifier().load_params(f_params=tmp_path / "nowhere.pt")


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


@pytest.mark.parametrize("name", ["params.pt", "optimizer.pt", "criterion.pt"])
def test_files_of_two_epochs_in_a_checkpoint_of_skorch(name, tmp_path):
    """A process may be killed after one file of a checkpoint was replaced."""
    checkpoint = Checkpoint(monitor=None, dirname=tmp_path)
    net = fit(callbacks=[checkpoint])
    kept = {path: path.read_bytes() for path in tmp_path.iterdir()}
    net.set_params(warm_start=True).fit(X, y)
    for path, content in kept.items():
        if path.name != name:
            path.write_bytes(content)
    match = rf"f_{name[:-3]} must be from the same epoch as f_history.*{name}'.* killed"
    with pytest.raises(ValueError, match=match):
        fit(callbacks=[LoadInitState(checkpoint)])
    (tmp_path / name).write_bytes(kept[tmp_path / name])
    assert len(fit(callbacks=[LoadInitState(checkpoint)]).history_) == 4


def test_files_in_another_folder_and_of_skorch_alone(tmp_path):
    """Files can be moved, and a history without checksums is accepted."""
    fit(callbacks=[Checkpoint(monitor=None, dirname=tmp_path / "one")])
    (tmp_path / "one").rename(tmp_path / "two")
    moved = LoadInitState(Checkpoint(dirname=tmp_path / "two"))
    resumed = fit(callbacks=[moved])
    file = tmp_path / "two" / "history.json"
    history = json.loads(file.read_text("utf-8"))
    assert "files" in history[-1]
    assert all("files" not in epoch for epoch in resumed.history_)
    del history[-1]["files"]
    file.write_text(json.dumps(history))
    (tmp_path / "two" / "optimizer.pt").unlink()
    resumed.save_params(f_optimizer=tmp_path / "two" / "optimizer.pt")
    assert len(fit(callbacks=[moved]).history_) == 4
