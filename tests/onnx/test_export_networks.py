"""Networks as ONNX graphs, alone, calibrated and in pipelines."""

import numpy as np
import pytest
import torch
from sklearn.datasets import make_classification
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from sklearn_calib import (
    CalibratedClassifier,
    NeuralClassifier,
    RefCalClassifier,
    TemperatureScaling,
)
from sklearn_calib.calibrators import (
    BetaCalibration,
    PlattScaling,
    StructuredMatrixScaling,
)
from sklearn_calib.onnx import to_onnx

pytestmark = [
    pytest.mark.usefixtures("operators_of_onnx"),
    pytest.mark.slow,  # torch takes seconds to export a network
    pytest.mark.skipif(
        torch.__version__ < (2, 6), reason="torch.onnx.export needs torch 2.6"
    ),
]


@pytest.fixture(scope="module")
def data():
    """Return features and labels of two classes, for which logits are a difference."""
    return make_classification(200, 6, n_informative=6, n_redundant=0, random_state=0)


def double_net(**params):
    params = {"max_epochs": 2, "random_state": 0, "dtype": "float64", **params}
    return NeuralClassifier(**params)


def test_network_in_each_precision(largest_difference):
    X, y = make_classification(
        200, 6, n_informative=6, n_redundant=0, n_classes=3, random_state=0
    )
    names = np.array(["a", "b", "c"])[y]
    assert largest_difference(double_net().fit(X, names), X) < 1e-9
    single = double_net(dtype="float32").fit(X, y)
    assert largest_difference(single, X.astype(np.float32)) < 1e-5
    # A network in float32 is that also if the data are float64.
    assert largest_difference(single, X) < 1e-5


def test_network_of_images(largest_difference):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 2, 9, 8)).astype(np.float32), np.arange(40) % 3
    # onnxruntime has no convolution in float64.
    net = NeuralClassifier(max_epochs=1, random_state=0).fit(X, y)
    assert largest_difference(net, X[:7]) < 1e-5


class Attention(torch.nn.Module):
    """A module of a user, with dropout and two outputs."""

    def __init__(self, n_features, n_classes):
        super().__init__()
        self.embed = torch.nn.Linear(1, 8)
        self.layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.head = torch.nn.Linear(8 * n_features, n_classes)

    def forward(self, X):
        hidden = self.layer(self.embed(X[:, :, None])).flatten(1)
        return self.head(hidden), hidden


def test_network_of_a_user(data, largest_difference):
    X, y = data
    net = double_net(module=Attention, max_epochs=1).fit(X, y)
    calibrated = CalibratedClassifier(FrozenEstimator(net), BetaCalibration()).fit(X, y)
    assert largest_difference(calibrated, X) < 1e-9


class Sorted(torch.nn.Linear):
    """A module that torch cannot export, as its branch depends on the data."""

    def __init__(self, n_features, n_classes):
        super().__init__(n_features, n_classes)

    def forward(self, X):
        return super().forward(X if X.sum() > 0 else -X)


def test_network_that_torch_cannot_export(data):
    X, y = data
    net = double_net(module=Sorted, max_epochs=1).fit(X, y)
    with pytest.raises(ValueError, match="export can convert, got Sorted"):
        to_onnx(net, X)


def test_posterior(data, largest_difference):
    X, y = data
    net = double_net(loss="focal", loss__gamma=2, posterior=True).fit(X, y)
    assert largest_difference(net, X) < 1e-9
    # The calibrator gets the posterior, not the logits.
    calibrated = CalibratedClassifier(FrozenEstimator(net), PlattScaling()).fit(X, y)
    assert largest_difference(calibrated, X) < 1e-9
    other = double_net(loss="inverse_focal", posterior=True).fit(X, y)
    with pytest.raises(ValueError, match="posterior=True with InverseFocalLoss"):
        to_onnx(other, X)


def test_refcal(data, largest_difference):
    X, y = data
    params = {"refine__max_epochs": 1, "head__max_epochs": 1, "dtype": "float64"}
    model = RefCalClassifier(**params, random_state=0).fit(X, y)
    assert largest_difference(model, X) < 1e-9
    calibrated = CalibratedClassifier(FrozenEstimator(model), TemperatureScaling())
    assert largest_difference(calibrated.fit(X, y), X) < 1e-9


def test_pipeline_around_and_inside(data, largest_difference):
    """The logits of the network reach the calibrator through the pipeline."""
    X, y = data
    inside = make_pipeline(StandardScaler(), double_net())
    calibrated = CalibratedClassifier(inside, StructuredMatrixScaling(), cv=2)
    around = make_pipeline(FunctionTransformer(), calibrated).fit(X, y)
    assert around[-1].calibrated_classifiers_[0].from_logits
    assert largest_difference(around, X) < 1e-9
