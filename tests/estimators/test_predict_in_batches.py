"""`predict` of a network takes the class of each mini-batch, without all logits."""

import numpy as np
import pytest
import torch

from sklearn_calib import NeuralClassifier
from sklearn_calib._torch.processes import concatenate_logits
from sklearn_calib.estimators import RefCalClassifier


class Rounded(torch.nn.Module):
    """Return rounded inputs as logits, of which many are equal."""

    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(1))

    def forward(self, X):
        return (X * self.scale).round()


@pytest.fixture(scope="module")
def net():
    """Return a network of 40 classes that returns its rounded input, and data."""
    X = np.random.default_rng(0).normal(size=(20_000, 40)).astype(np.float32)
    labels = np.array([f"class {k:02}" for k in range(40)])
    net = NeuralClassifier(Rounded, lr=1e-9, max_epochs=1, random_state=0)
    return net.fit(X[:400], np.tile(labels, 10)), X


@pytest.mark.parametrize("batch_size", [1, 77, 128, -1])
def test_classes_are_those_of_the_largest_probabilities(net, batch_size):
    net, X = net
    X = X[:150]
    net.set_params(batch_size=batch_size)
    proba = net.predict_proba(X)
    assert (proba == proba.max(axis=1, keepdims=True)).sum() > 2 * len(X)
    expected = net.classes_[proba.argmax(axis=1)]
    np.testing.assert_array_equal(net.predict(X), expected)
    assert net.score(X, expected) == 1


def test_memory_of_predict_and_score(net, peak_memory):
    net, X = net
    net.set_params(batch_size=128)
    y = np.repeat(net.classes_[:1], len(X))
    assert peak_memory(lambda: net.predict(X)) < 0.5 * X.nbytes
    assert peak_memory(lambda: net.score(X, y)) < 1.5 * X.nbytes
    # The result in double precision is twice the data.
    assert peak_memory(lambda: net.predict_proba(X)) < 2.5 * X.nbytes


def test_predictions_of_a_classifier_with_an_encoder():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(120, 5)), rng.integers(0, 3, 120)
    model = RefCalClassifier(
        refine__max_epochs=1, head__max_epochs=1, random_state=0
    ).fit(X, y)
    expected = model.classes_[model.predict_proba(X).argmax(axis=1)]
    np.testing.assert_array_equal(model.predict(X), expected)


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.bfloat16, torch.half]
)
def test_logits_of_any_precision(dtype):
    batches = [torch.tensor([[0.5, -2.0]], dtype=dtype), torch.ones(2, 2, dtype=dtype)]
    logits = concatenate_logits(batches)
    assert logits.dtype == np.float64
    np.testing.assert_array_equal(logits, [[0.5, -2], [1, 1], [1, 1]])


@pytest.mark.parametrize("shape", [(7,), (7, 2), (7, 2, 3), (0, 2)])
def test_outputs_of_any_shape(shape):
    """What is wrong with the shape, the caller says."""
    output = torch.rand(shape)
    np.testing.assert_array_equal(concatenate_logits(output.split(3)), output.double())


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (torch.nn.Linear(3, 1), r"logits of shape \(4, 2\), got shape \(4, 1\)"),
        (
            torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Flatten(0)),
            "module one row for each, got 8 rows for 4 samples",
        ),
    ],
)
def test_outputs_of_a_loaded_network_have_a_row_of_logits_for_each_sample(
    module, message
):
    net = NeuralClassifier(module).initialize(classes=["a", "b"])
    with pytest.raises(ValueError, match=message):
        net.predict_proba(np.ones((4, 3), np.float32))
