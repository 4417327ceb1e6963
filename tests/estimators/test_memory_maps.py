"""Training data in read-only memory maps are not copied."""

import numpy as np
import pytest
from sklearn.base import clone
from skorch.dataset import Dataset
from torch import nn
from torch.utils.data import ConcatDataset

from sklearn_calib import NeuralClassifier

NET = NeuralClassifier(module__hidden_sizes=(8,), max_epochs=1, random_state=0)


@pytest.fixture
def mapped(tmp_path):
    """A read-only memory map of 1.6 MB, and labels."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(2000, 200)).astype(np.float32)
    rows.tofile(tmp_path / "X.bin")
    X = np.memmap(tmp_path / "X.bin", np.float32, mode="r", shape=rows.shape)
    return X, (rows[:, 0] > 0).astype(np.int64)


def test_a_memory_map_is_not_copied(mapped, peak_memory):
    X, y = mapped
    net = clone(NET).set_params(validation_fraction=0.1)
    twin = clone(net).fit(np.array(X), y)
    net.set_params(batch_size=200, early_stopping=True)
    assert peak_memory(lambda: net.fit(X, y)) < X.nbytes / 3
    assert peak_memory(lambda: net.predict_proba(X)) < X.nbytes / 3
    proba = net.set_params(**twin.get_params()).fit(X, y).predict_proba(X)
    np.testing.assert_array_equal(proba, twin.predict_proba(np.array(X)))


def test_a_memory_map_of_another_byte_order(mapped):
    X, y = mapped[0][:200], mapped[1][:200]
    net = NeuralClassifier(max_epochs=1, random_state=0)
    twin = clone(net).fit(X, y)
    net.fit(Dataset(X.astype(">f4"), y.astype(">i2")), classes=[0, 1])
    np.testing.assert_array_equal(net.predict_proba(X), twin.predict_proba(X))


def test_read_only_rows_of_a_dataset(mapped):
    X, y = mapped[0][:200], mapped[1][:200]
    rows = ConcatDataset([[({"input": X[i]}, y[i]) for i in range(200)]])
    net = NeuralClassifier(nn.Linear(200, 2), max_epochs=1, random_state=0)
    twin = clone(net).fit({"input": X}, y)
    net.fit(rows, classes=[0, 1])
    np.testing.assert_array_equal(net.predict_proba(rows), twin.predict_proba(rows))


def test_a_memory_map_of_bytes_is_converted_by_the_batch(mapped, peak_memory):
    X, y = mapped[0].view(np.uint8), mapped[1]
    net = clone(NET).set_params(batch_size=50).fit(X[:50], y[:50])  # loads modules
    data = Dataset(X, y)
    assert peak_memory(lambda: net.fit(data, classes=[0, 1])) < X.nbytes / 3
