"""On a GPU everything is the same, but for rounding."""

import pickle

import numpy as np
import pytest
import torch
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import make_classification

from sklearn_calib import NeuralClassifier
from sklearn_calib.calibrators import get_calibrator, get_calibrator_names
from sklearn_calib.losses import (
    AURCLoss,
    PerLabelLoss,
    get_loss,
    get_loss_names,
)
from sklearn_calib.metrics import (
    CalibrationAccumulator,
    aurc_loss,
    expected_calibration_error,
    score_decomposition,
)

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


@pytest.mark.filterwarnings("ignore")  # of few samples
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", get_calibrator_names())
def test_calibrators_predict_on_the_device(monkeypatch, name, dtype):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(2000, 4, generator=generator, dtype=dtype)
    labels = torch.randint(4, (2000,), generator=generator)
    model = get_calibrator(name)(from_logits=True).fit(logits, labels)
    expected = model.predict_proba(logits)
    with config_context(array_api_dispatch=True):
        proba, predicted = (
            method(logits.cuda()) for method in (model.predict_proba, model.predict)
        )
        again = get_calibrator(name)(from_logits=True).fit(logits.cuda(), labels.cuda())
    module = model.to_torch().cuda()(logits.cuda())
    assert {each.device.type for each in (proba, predicted, module)} == {"cuda"}
    assert proba.dtype == module.dtype == dtype
    np.testing.assert_array_equal(again.predict_proba(logits), expected)
    # In single precision, a sample may be on the other side of the edge of a bin.
    for found in (proba, module):
        gap = np.abs(found.cpu().numpy() - expected).max(axis=1)
        assert np.quantile(gap, 0.99) < (1e-4 if dtype == torch.float32 else 1e-10)


@pytest.mark.parametrize("mode", ["top_label", "classwise"])
def test_accumulators_on_the_device(monkeypatch, mode):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    generator = torch.Generator().manual_seed(0)
    y_proba = torch.randn(20_000, 7, generator=generator).double().softmax(dim=1)
    y_true = torch.randint(7, (20_000,), generator=generator)
    one, other = (CalibrationAccumulator(labels=range(7), mode=mode) for _ in range(2))
    one.update(y_true.numpy(), y_proba.numpy())
    with config_context(array_api_dispatch=True):
        other.update(y_true.cuda(), y_proba.cuda())
        aurc = aurc_loss(y_true.cuda(), y_proba.cuda())
        parts = score_decomposition(y_true.cuda(), y_proba.cuda())
    assert parts == score_decomposition(y_true, y_proba)
    assert aurc == pytest.approx(aurc_loss(y_true, y_proba), rel=1e-10)
    assert other.compute() == pytest.approx(one.compute(), rel=1e-10)
    assert other.scores() == pytest.approx(one.scores(), rel=1e-10)


def test_soft_ranks_do_not_split_the_graph():
    logits = torch.randn(32, 5, device="cuda", requires_grad=True)
    target = torch.randint(5, (32,), device="cuda")
    compiled = torch.compile(AURCLoss(), backend="aot_eager", fullgraph=True)
    values = [loss(logits, target) for loss in (compiled, AURCLoss())]
    torch.testing.assert_close(*values)
    torch.testing.assert_close(*(torch.autograd.grad(v, logits) for v in values))
