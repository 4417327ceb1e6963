"""On a GPU everything is the same, but for rounding."""

import pickle

import numpy as np
import pytest
import torch
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import make_classification

from sklearn_calib import NeuralClassifier
from sklearn_calib.losses import PerLabelLoss, get_loss, get_loss_names
from sklearn_calib.metrics import expected_calibration_error

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="needs a CUDA device, torch sees none"
)


@pytest.fixture(scope="module")
def data():
    X, y = make_classification(
        n_samples=500, n_informative=8, n_classes=4, random_state=0
    )
    return X, np.array(["a", "b", "c", "d"])[y]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", get_loss_names())
def test_losses_equal_those_of_the_cpu(name, dtype):
    generator = torch.Generator().manual_seed(0)
    logits = 5 * torch.randn(64, 7, generator=generator, dtype=dtype)
    target = torch.randint(7, (64,), generator=generator)
    results = []
    for device in ("cpu", "cuda"):
        z = logits.detach().to(device).requires_grad_()
        value = get_loss(name)().to(device)(z, target.to(device))
        value.backward()
        assert value.device.type == device
        results.append((value.detach().cpu(), z.grad.cpu()))
    torch.testing.assert_close(results[1], results[0])


@pytest.mark.parametrize("loss", get_loss_names())
def test_training_comes_out_alike(data, loss):
    X, y = data
    net = NeuralClassifier(loss=loss, dtype="float64", max_epochs=5, random_state=0)
    on_cpu = clone(net).fit(X, y).predict_proba(X)
    net.set_params(device="cuda").fit(X, y, sample_weight=np.ones(len(X)))
    assert next(net.module_.parameters()).device.type == "cuda"
    np.testing.assert_allclose(net.predict_proba(X), on_cpu, atol=1e-6)


def test_runs_repeat_and_leave_the_state_alone(data):
    X, y = data
    net = NeuralClassifier(
        device="cuda", module__dropout=0.5, max_epochs=3, random_state=0
    )
    torch.cuda.manual_seed(1)
    before = torch.cuda.get_rng_state()
    first = clone(net).fit(X, y).predict_proba(X)
    torch.testing.assert_close(torch.cuda.get_rng_state(), before)
    np.testing.assert_allclose(clone(net).fit(X, y).predict_proba(X), first, atol=1e-6)


@pytest.mark.parametrize("device", ["cuda", "auto"])
def test_a_pickle_predicts_the_same(data, device):
    X, y = data
    net = NeuralClassifier(device=device, max_epochs=2, random_state=0).fit(X, y)
    assert next(net.module_.parameters()).device.type == "cuda"
    again = pickle.loads(pickle.dumps(net))
    np.testing.assert_allclose(again.predict_proba(X), net.predict_proba(X))


@pytest.mark.parametrize("dtype", [torch.int64, torch.float32])
def test_labels_equal_those_of_the_cpu(dtype):
    generator = torch.Generator().manual_seed(0)
    logits = 5 * torch.randn(64, 7, generator=generator)
    target = torch.randint(2, (64, 7), generator=generator).to(dtype)
    loss = PerLabelLoss(base="focal_calibration")
    value = loss(logits.cuda(), target.cuda())
    assert value.device.type == "cuda"
    torch.testing.assert_close(value.cpu(), loss(logits, target))


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
@pytest.mark.parametrize("mode", ["top_label", "classwise"])
def test_calibration_errors_are_measured_on_the_device(monkeypatch, mode, strategy):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    generator = torch.Generator().manual_seed(0)
    y_proba = torch.randn(20_000, 7, generator=generator).softmax(dim=1)
    y_true = torch.randint(7, (20_000,), generator=generator)
    options = {"mode": mode, "strategy": strategy}
    expected = expected_calibration_error(y_true.numpy(), y_proba.numpy(), **options)
    with config_context(array_api_dispatch=True):
        value = expected_calibration_error(y_true.cuda(), y_proba.cuda(), **options)
    assert value == pytest.approx(expected, rel=1e-9)
