"""Calibrators of torch tensors and of arrays on other devices, and as torch modules."""

import pickle
import warnings
from functools import cache

import numpy as np
import pytest
import torch
from scipy.special import softmax
from torch.nn import Linear, Sequential

from sklearn_calib._validation.arrays import on_cpu
from sklearn_calib.calibrators import (
    HistogramBinning,
    MatrixScaling,
    PerLabelCalibrator,
    TemperatureAccumulator,
    TemperatureScaling,
    VectorScaling,
)

EXCUSED: dict[str, dict[str, str]] = {}
FEW = [TemperatureScaling(), VectorScaling(), MatrixScaling(), HistogramBinning()]


def make_data(n_classes=3, from_logits=True):
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(50, n_classes))
    y = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    return 3 * logits if from_logits else softmax(3 * logits, axis=1), y


@cache
def fitted(fresh, calibrator, n_columns=3, from_logits=True, dtype=None, labels=None):
    """Return a fitted calibrator, which tests must not change, and the predictions."""
    X, y = make_data(max(n_columns, 2), from_logits)
    X = (X if n_columns > 1 else X[:, 1:]).astype(dtype)
    with warnings.catch_warnings(action="ignore"):
        y = y if labels is None else np.array(labels)[y]
        return fresh(calibrator, from_logits=from_logits).fit(X, y), X


@pytest.mark.usefixtures("dispatch")
@pytest.mark.filterwarnings("ignore")
def test_tensors_on_the_cpu(fresh, calibrator):
    """The results are tensors, equal to the arrays bit for bit."""
    expected, X = fitted(fresh, calibrator)
    tensor, y = torch.from_numpy(X).requires_grad_(), torch.from_numpy(make_data()[1])
    model = fresh(calibrator, from_logits=True).fit(tensor, y)
    proba, labels = model.predict_proba(tensor), model.predict(tensor)
    assert (proba.dtype, proba.requires_grad) == (torch.float64, False)
    assert torch.is_tensor(labels)
    np.testing.assert_array_equal(proba.numpy(), expected.predict_proba(X))
    np.testing.assert_array_equal(labels.numpy(), expected.predict(X))


def test_without_dispatch_the_results_are_numpy_arrays():
    X, y = make_data()
    model = TemperatureScaling(from_logits=True).fit(torch.from_numpy(X), y)
    assert isinstance(model.predict_proba(torch.from_numpy(X)), np.ndarray)


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize("from_logits", [True, False])
@pytest.mark.parametrize("few", FEW)
@pytest.mark.parametrize("n_columns", [1, 2, 4])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_tensors_on_other_devices(fresh, few, from_logits, n_columns, dtype):
    model, X = fitted(fresh, few, n_columns, from_logits, dtype)
    tensor = torch.from_numpy(np.ascontiguousarray(X))
    proba, labels = model.predict_proba(tensor), model.predict(tensor)
    assert proba.dtype == tensor.dtype
    rtol = 1e-10 if dtype == np.float64 else 1e-4
    np.testing.assert_allclose(proba.numpy(), model.predict_proba(X), rtol=rtol)
    np.testing.assert_array_equal(labels.numpy(), model.predict(X))


@pytest.mark.filterwarnings("ignore")
def test_every_calibrator_of_arrays_on_another_device(fresh, calibrator, on_device):
    """Predictions stay there. Numpy cannot read them without a copy to the CPU."""
    expected, X = fitted(fresh, calibrator)
    given, y = on_device(X), on_device(make_data()[1])
    model = fresh(calibrator, from_logits=True).fit(given, y)
    proba, labels = model.predict_proba(given), model.predict(given)
    assert proba.device == labels.device == given.device
    np.testing.assert_allclose(on_cpu(proba), expected.predict_proba(X), rtol=1e-9)
    np.testing.assert_array_equal(on_cpu(labels), expected.predict(X))
    named, _ = fitted(fresh, calibrator, labels=("a", "b", "c"))
    assert named.predict(given).dtype.kind == "U"


def test_chunks_of_other_devices_are_copied(on_device):
    X, y = make_data()
    model, options = TemperatureScaling(from_logits=True), {"labels": range(3)}
    expected = model.fit(batches=lambda: iter([(X, y)]), **options).temperature_
    chunk = [on_device(part) for part in (X, y, np.ones(len(X)))]
    model.fit(batches=lambda: iter([chunk]), **options)
    assert model.temperature_ == pytest.approx(expected, rel=1e-9)
    sums = TemperatureAccumulator(from_logits=True, **options).update(*chunk)
    assert sums.calibrator().temperature_ == pytest.approx(expected, rel=1e-3)


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X: 3 * X, r"must lie in \[0, 1\].* set from_logits=True"),
        (lambda X: X / 2, "rows that sum to one"),
        (lambda X: X[:, :2], "expecting 3 features"),
        (lambda X: X * torch.nan, "NaN"),
        (lambda X: X + 0j, "Complex data not supported"),
        (lambda X: X[:0], "0 sample"),
    ],
)
def test_bad_input_on_other_devices(change, message):
    X, y = make_data(from_logits=False)
    model = TemperatureScaling().fit(X, y)
    with pytest.raises(ValueError, match=message):
        model.predict_proba(change(torch.from_numpy(X)))


@pytest.mark.usefixtures("elsewhere")
def test_warnings_and_overflow_on_other_devices():
    X, y = make_data()
    model = TemperatureScaling(from_logits=True).fit(X, y)
    with pytest.warns(UserWarning, match="look like probabilities"):
        model.predict_proba(torch.from_numpy(softmax(X, axis=1)))
    model.temperature_ = 1e-310
    with pytest.raises(ValueError, match="do not overflow"):
        model.predict_proba(torch.from_numpy(X))


class OwnScaling(TemperatureScaling):
    """A calibrator of a user, whose map needs numpy arrays."""

    def _calibrate(self, logits):
        scaled = np.exp(logits / self.temperature_)
        return scaled / scaled.sum(axis=1, keepdims=True)


class OtherScaling(TemperatureScaling):
    """A calibrator of a user, whose map is the inherited one."""


@pytest.mark.usefixtures("elsewhere")
def test_calibrators_without_a_map_on_other_devices():
    X, y = make_data()
    own = OwnScaling(from_logits=True).fit(X, y)
    with pytest.raises(TypeError, match=r"map of OwnScaling must consist of operators"):
        own.predict_proba(torch.from_numpy(X))
    with pytest.raises(TypeError, match="got: operand 'Symbol' does not support"):
        own.to_torch()
    other = OtherScaling(from_logits=True).fit(X, y)
    proba = other.predict_proba(torch.from_numpy(X)).numpy()
    np.testing.assert_allclose(proba, own.predict_proba(X), rtol=1e-12)


@pytest.mark.parametrize("array", [torch.from_numpy, None])
def test_multilabel_arrays(array, on_device):
    X, y = make_data()
    array = array or on_device
    given = array(X), array(np.eye(3, dtype=int)[y])
    model = PerLabelCalibrator(TemperatureScaling(from_logits=True)).fit(*given)
    proba, labels = model.predict_proba(given[0]), model.predict(given[0])
    assert proba.device == labels.device == given[0].device
    np.testing.assert_array_equal(on_cpu(proba), model.predict_proba(X))
    np.testing.assert_array_equal(on_cpu(labels), model.predict(X))


@pytest.mark.parametrize("from_logits", [True, False])
@pytest.mark.parametrize("n_columns", [1, 4])
def test_torch_modules(fresh, calibrator, from_logits, n_columns):
    """Gradients are finite, if the map is not piecewise constant."""
    model, X = fitted(fresh, calibrator, n_columns, from_logits)
    module, tensor = model.to_torch(), torch.from_numpy(X).requires_grad_()
    proba = module(tensor)
    expected = model.predict_proba(X)
    np.testing.assert_allclose(proba.detach(), expected, rtol=0, atol=1e-10)
    if proba.requires_grad:
        (gradient,) = torch.autograd.grad(proba[:, 0].sum(), tensor)
        assert gradient.isfinite().all()
    copied = pickle.loads(pickle.dumps(module))
    torch.testing.assert_close(copied(tensor), proba, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("few", FEW[:3])
def test_precision_of_torch_modules(fresh, few, dtype):
    model, X = fitted(fresh, few)
    tensor = torch.from_numpy(X).to(dtype)
    expected = model.predict_proba(tensor.double().numpy())
    for module in (model.to_torch(), model.to_torch().to(dtype)):
        proba = module(tensor)
        assert proba.dtype == dtype
        atol = 10 * torch.finfo(dtype).eps
        np.testing.assert_allclose(proba.double(), expected, rtol=0, atol=atol)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_extreme_and_tied_logits_of_torch_modules(fresh, calibrator, dtype):
    """Probabilities and gradients are finite."""
    module = fitted(fresh, calibrator)[0].to_torch().to(dtype)
    rows = [[0, 0, 0], [2, 2, 1], [120, 0, 1], [0, 800, 1], [0, 1, 1e4], [-1e4, 0, 0]]
    logits = torch.tensor(rows, dtype=dtype, requires_grad=True)
    proba = module(logits)
    assert ((proba >= 0) & (proba <= 1)).all()
    torch.testing.assert_close(proba.sum(dim=1), torch.ones(6, dtype=dtype))
    if proba.requires_grad:
        (gradient,) = torch.autograd.grad(proba[:, 0].sum(), logits)
        assert gradient.isfinite().all()


@pytest.mark.parametrize("few", FEW[:3])
def test_gradients_of_torch_modules(fresh, few):
    model, X = fitted(fresh, few)
    module = model.to_torch()
    torch.autograd.gradcheck(module, torch.from_numpy(X[:5]).requires_grad_())


def test_torch_module_of_integers():
    X, y = make_data()
    model = TemperatureScaling(from_logits=True).fit(X, y)
    logits = torch.tensor([[3, 0, 1]])
    expected = torch.from_numpy(model.predict_proba(logits))
    torch.testing.assert_close(model.to_torch()(logits), expected)


@pytest.mark.usefixtures("dispatch")
def test_meta_tensors_have_no_values():
    X, y = make_data()
    model = TemperatureScaling(from_logits=True).fit(X, y)
    with pytest.raises(TypeError, match="X must be convertible to numpy, got Tensor"):
        model.predict_proba(torch.from_numpy(X).to("meta"))


def test_torch_modules_show_the_calibrator():
    module = TemperatureScaling(from_logits=True).fit(*make_data()).to_torch()
    assert repr(module) == "CalibratorModule(TemperatureScaling)"
    assert not [*module.parameters()]


@pytest.mark.parametrize("few", FEW)
@pytest.mark.parametrize("n_columns", [1, 2, 3])
def test_shape_of_the_input_of_torch_modules(fresh, few, n_columns):
    """A 1-d tensor is one column, as in `predict_proba`."""
    model, X = fitted(fresh, few, n_columns)
    module, tensor = model.to_torch(), torch.from_numpy(X)
    if n_columns == 1:
        torch.testing.assert_close(module(tensor[:, 0]), module(tensor))
    elif n_columns == 3:  # of two logits, a column is their difference
        with pytest.raises(ValueError, match=rf"_samples, {n_columns}\), got \(50,\)"):
            module(tensor[:, 0])
    name = type(few).__name__
    for wrong in (tensor[None], tensor[0, 0], torch.hstack([tensor, tensor])):
        with pytest.raises(ValueError, match=f"input of {name} must have the shape"):
            module(wrong)


def test_torch_module_of_labels():
    X, y = make_data()
    model = PerLabelCalibrator(VectorScaling(from_logits=True))
    model.fit(X, np.eye(3, dtype=int)[y])
    proba = model.to_torch()(torch.from_numpy(X))
    np.testing.assert_allclose(proba, model.predict_proba(X), rtol=0, atol=1e-10)


@pytest.mark.parametrize("few", FEW)
def test_torch_export(fresh, few):
    """A network and its calibrator are one graph for any number of samples."""
    model, _ = fitted(fresh, few)
    network = Sequential(Linear(5, 3), model.to_torch())
    example = torch.randn(7, 5)
    shapes = ({0: torch.export.Dim.DYNAMIC},)
    program = torch.export.export(network, (example,), dynamic_shapes=shapes)
    exported = program.module()
    torch.testing.assert_close(exported(example), network(example))
    new = torch.randn(20, 5)
    expected = model.predict_proba(network[0](new).detach().double().numpy())
    np.testing.assert_allclose(exported(new).detach(), expected, atol=1e-6)


@pytest.mark.slow
def test_torch_export_of_all(fresh, calibrator, monkeypatch):
    # Each step of Newton's method is the same operators again.
    monkeypatch.setattr("sklearn_calib._expressions.replace_top.STEPS", 2)
    model, X = fitted(fresh, calibrator)
    module, tensor = model.to_torch(), torch.from_numpy(X)
    program = torch.export.export(module, (tensor,))
    torch.testing.assert_close(program.module()(tensor), module(tensor))
    check_compiled(module, tensor)


@pytest.mark.slow
def test_torch_export_of_one_column(fresh):
    model, X = fitted(fresh, TemperatureScaling(), 1)
    column, module = torch.from_numpy(X[:, 0]), model.to_torch()
    shapes = ({0: torch.export.Dim.DYNAMIC},)
    program = torch.export.export(module, (column,), dynamic_shapes=shapes)
    torch.testing.assert_close(program.module()(column[:9]), module(column[:9]))
    check_compiled(module, column)


def check_compiled(module, tensor):
    torch.compiler.reset()
    compiled = torch.compile(module, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(tensor), module(tensor))


@pytest.mark.slow
@pytest.mark.usefixtures("operators_of_onnx")
@pytest.mark.filterwarnings("ignore")  # of torch and onnxscript
@pytest.mark.parametrize("few", FEW)
def test_onnx_of_a_network_and_its_calibrator(fresh, few):
    pytest.importorskip("onnxscript")
    onnxruntime = pytest.importorskip("onnxruntime")
    network = Sequential(Linear(5, 3), fitted(fresh, few)[0].to_torch())
    example = torch.randn(7, 5)
    program = torch.onnx.export(
        network, (example,), dynamo=True, opset_version=18, verbose=False
    )
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
    (found,) = session.run(None, {session.get_inputs()[0].name: example.numpy()})
    np.testing.assert_allclose(found, network(example).detach(), atol=1e-6)
