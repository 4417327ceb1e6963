"""Array API inputs are evaluated on their device."""

from functools import cache

import numpy as np
import pandas as pd
import pytest
import torch
from torch.overrides import TorchFunctionMode

from sklearn_calib.metrics import (
    CalibrationAccumulator,
    classwise_calibration_error,
    expected_calibration_error,
    integrated_calibration_index,
    maximum_calibration_error,
    score_decomposition,
    smooth_expected_calibration_error,
)

OPTIONS = [
    {},
    {"n_bins": 1},
    {"strategy": "quantile"},
    {"n_bins": "cube_root", "norm": "l2"},
    {"reduce_bias": True},
    {"strategy": "isotonic"},
    {"n_bins": "sweep"},
    {"mode": "classwise", "norm": "max"},
    {"mode": "classwise", "strategy": "quantile"},
]


def torch_array(values):
    """Return a tensor."""
    return torch.from_numpy(np.ascontiguousarray(values))


def strict_array(values):
    """Return an array of the strictest implementation of the standard."""
    return pytest.importorskip("array_api_strict").asarray(values)


@cache
def problem(n_classes=4, dtype=np.float64):
    """Return labels 3, 4, ..., probabilities on a grid with 0 and 1, and weights."""
    rng = np.random.default_rng(0)
    y_proba = rng.multinomial(40, rng.dirichlet(np.ones(n_classes), 1200)) / 40
    return (
        rng.integers(n_classes, size=1200) + 3,
        y_proba.astype(dtype),
        rng.random(1200),
    )


class NoLargeCopies(TorchFunctionMode):
    """Raise an error if more values are converted to numpy than are allowed.

    Class-wise errors copy a few sums, other errors two or three numbers per sample.
    """

    def __init__(self, most=1000):
        super().__init__()
        self.most = most

    def __torch_function__(self, function, types, args=(), kwargs=None):
        name = getattr(function, "__name__", "")
        leaves = {"__array__", "__dlpack__", "cpu", "numpy", "tolist"}
        if name in leaves and args[0].numel() > self.most:
            raise AssertionError(f"{name} of {args[0].numel()} values")
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("array", [torch_array, strict_array])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.usefixtures("elsewhere")
def test_equal_to_numpy(array, dtype, weighted, options):
    y_true, y_proba, weight = problem(dtype=dtype)
    options = options | ({"sample_weight": weight} if weighted else {})
    expected = expected_calibration_error(y_true, y_proba, **options)
    if weighted:
        options |= {"sample_weight": array(weight)}
    most = 1000 if options.get("mode") == "classwise" else len(y_true)
    with NoLargeCopies(most):
        value = expected_calibration_error(array(y_true), array(y_proba), **options)
    assert isinstance(value, float)
    assert value == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("array", [torch_array, strict_array])
@pytest.mark.parametrize("factor", [7, 1e6, 1e-6])
@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
@pytest.mark.usefixtures("elsewhere")
def test_scale_of_weights_does_not_matter(array, factor, strategy):
    y_true, y_proba, weight = problem()
    value = expected_calibration_error(
        array(y_true),
        array(y_proba),
        strategy=strategy,
        sample_weight=array(weight * factor),
    )
    expected = expected_calibration_error(
        y_true, y_proba, strategy=strategy, sample_weight=weight
    )
    assert value == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("n_bins", [7, "cube_root"])
@pytest.mark.usefixtures("elsewhere")
def test_number_of_bins_is_returned(n_bins):
    y_true, y_proba, _ = problem()
    options = {"n_bins": n_bins, "return_n_bins": True}
    value = expected_calibration_error(
        torch_array(y_true), torch_array(y_proba), **options
    )
    expected = expected_calibration_error(y_true, y_proba, **options)
    assert value == (pytest.approx(expected[0], rel=1e-10), expected[1])


@pytest.mark.usefixtures("elsewhere")
def test_most_bins():
    """Each bin of the classes takes a pass over the data."""
    y_true, y_proba, _ = problem()
    tensors = torch_array(y_true), torch_array(y_proba)
    with pytest.raises(ValueError, match=r"n_bins must be at most 1024 .* got 10{9}\."):
        classwise_calibration_error(*tensors, n_bins=10**9)
    value = expected_calibration_error(*tensors, n_bins=10**9)
    assert value == expected_calibration_error(y_true, y_proba, n_bins=10**9)


@pytest.mark.parametrize("array", [torch_array, strict_array])
@pytest.mark.parametrize("mode", [None, "positive", "top_label", "classwise"])
@pytest.mark.parametrize("columns", [1, [1], [0, 1]], ids=str)
@pytest.mark.usefixtures("elsewhere")
def test_binary(array, mode, columns):
    y_true, y_proba, _ = problem(n_classes=2)
    y_proba = y_proba[:, columns]
    value = expected_calibration_error(array(y_true), array(y_proba), mode=mode)
    expected = expected_calibration_error(y_true, y_proba, mode=mode)
    assert value == pytest.approx(expected, rel=1e-10)


@pytest.mark.usefixtures("elsewhere")
def test_other_errors():
    y_true, y_proba, _ = problem()
    tensors = torch_array(y_true), torch_array(y_proba)
    for error in (
        maximum_calibration_error,
        classwise_calibration_error,
        lambda *data: classwise_calibration_error(*data, average="sum"),
    ):
        most = len(y_true) if error is maximum_calibration_error else 1000
        with NoLargeCopies(most):
            value = error(*tensors)
        assert value == pytest.approx(error(y_true, y_proba), rel=1e-10)


@pytest.mark.usefixtures("elsewhere")
def test_labels_may_be_numpy_or_in_another_order():
    y_true, y_proba, _ = problem()
    labels = [4, 3, 6, 5]
    expected = expected_calibration_error(y_true, y_proba, labels=labels)
    names = np.array(list("abcdefg"))
    for y, order in [
        (torch_array(y_true), labels),
        (y_true, labels),
        (names[y_true], names[labels]),
    ]:
        value = expected_calibration_error(y, torch_array(y_proba), labels=order)
        assert value == pytest.approx(expected, rel=1e-10)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
@pytest.mark.usefixtures("elsewhere")
def test_gradients_are_detached(strategy):
    y_true, y_proba, weight = problem()
    tensors = [torch_array(each).requires_grad_() for each in (y_proba, weight)]
    value = expected_calibration_error(
        torch_array(y_true), tensors[0], sample_weight=tensors[1], strategy=strategy
    )
    expected = expected_calibration_error(
        y_true, y_proba, sample_weight=weight, strategy=strategy
    )
    assert value == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("other", [np.asarray, list, pd.Series], ids=str)
@pytest.mark.usefixtures("elsewhere")
def test_labels_and_weights_may_be_of_other_types(other):
    y_true, y_proba, weight = map(np.copy, problem())
    y_true.flags.writeable = weight.flags.writeable = False
    value = expected_calibration_error(
        other(y_true), torch.from_numpy(y_proba), sample_weight=other(weight)
    )
    expected = expected_calibration_error(y_true, y_proba, sample_weight=weight)
    assert value == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("array", [torch_array, strict_array])
@pytest.mark.usefixtures("elsewhere")
def test_labels_in_one_column_and_those_of_columns(array):
    y_true, y_proba, _ = problem()
    value = expected_calibration_error(
        array(y_true[:, None]), array(y_proba), labels=array(np.arange(3, 7))
    )
    expected = expected_calibration_error(y_true, y_proba)
    assert value == pytest.approx(expected, rel=1e-10)


@pytest.mark.usefixtures("elsewhere")
def test_half_precision_is_that_of_numpy():
    """This includes values at the edges of bins."""
    y_true, y_proba = [0, 1, 1] * 16, (np.arange(48) % 16 / 15).astype(np.float16)
    value = expected_calibration_error(y_true, torch.from_numpy(y_proba))
    assert value == pytest.approx(expected_calibration_error(y_true, y_proba))


@pytest.mark.usefixtures("elsewhere")
def test_options_for_numpy_only_raise_an_error():
    y_true, y_proba, _ = problem()
    with pytest.raises(TypeError, match=r"y_proba must be .*, got Tensor on cpu\."):
        score_decomposition(y_true, torch_array(y_proba))


def test_the_guard_sees_copies():
    with NoLargeCopies(), pytest.raises(AssertionError, match="of 2000 values"):
        torch.zeros(2000).numpy()


def test_without_dispatch_cpu_tensors_are_converted_to_numpy():
    y_true, y_proba, _ = problem()
    value = expected_calibration_error(torch_array(y_true), torch_array(y_proba))
    assert value == expected_calibration_error(y_true, y_proba)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda y, p: (y, 2 * p), r"y_proba must lie in \[0, 1\]"),
        (lambda y, p: (y, p / 2), "y_proba must have rows that sum to one"),
        (lambda y, p: (y, p[:, :, None]), "y_proba must be probabilities of shape"),
        (lambda y, p: (y[:-1], p), "y_true must contain one label for each row"),
        (lambda y, p: (y % 2, p), "y_true must contain 4 distinct labels"),
        (lambda _, p: (p > 0, p), "y_true should be a 1d array, got an array of shape"),
        (lambda y, p: (y, p[:, :0]), "y_proba must be probabilities of shape"),
    ],
)
@pytest.mark.usefixtures("elsewhere")
def test_bad_input_has_the_messages_of_numpy(change, message):
    y_true, y_proba, _ = problem()
    data = change(torch_array(y_true), torch_array(y_proba))
    with pytest.raises(ValueError, match=message):
        expected_calibration_error(*data)


@pytest.mark.parametrize("array", [torch_array, strict_array])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.usefixtures("elsewhere")
def test_values_outside_of_0_and_1_by_rounding(options, dtype, array):
    """Such values are clipped to [0, 1], as in numpy."""
    codes = np.arange(60) % 2
    proba = np.linspace(0.01, 0.99, 120).reshape(60, 2).astype(dtype)
    proba[:, 1] = 1 - proba[:, 0]
    proba[::5] = np.where(codes[::5, None] == [0, 1], 1.00001, [[1e-5], [-1e-5]] * 6)
    for given in (proba, proba[:, 1]):
        value = expected_calibration_error(array(codes), array(given), **options)
        expected = expected_calibration_error(codes, given.clip(0, 1), **options)
        assert value == pytest.approx(expected, rel=1e-6)
        with pytest.raises(ValueError, match=r"got values in \[.*, 1\.0004\]"):
            expected_calibration_error(
                array(codes), array(np.where(given > 1, dtype(1.0004), given))
            )


@pytest.mark.usefixtures("elsewhere")
def test_inputs_that_are_not_numbers():
    y_true, y_proba, weight = map(torch_array, problem())
    with pytest.raises(ValueError, match=r"y_proba must .* Complex data not"):
        expected_calibration_error(y_true, y_proba + 0j)
    with pytest.raises(ValueError, match=r"sample_weight .* Complex data not supp"):
        expected_calibration_error(y_true, y_proba, sample_weight=weight + 0j)
    with pytest.raises(TypeError, match=r"y_true must contain only .* got booleans"):
        expected_calibration_error(y_true > 3, y_proba, labels=[0, 1, 2, 3])


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
@pytest.mark.usefixtures("elsewhere")
def test_rows_of_low_precision_sum_to_one_as_far_as_they_can(name):
    y_true = torch.arange(60) % 3
    logits = torch.randn(60, 3, generator=torch.Generator().manual_seed(0))
    proba = torch.softmax(logits, dim=1).to(getattr(torch, name))
    assert (proba.double().sum(dim=1) - 1).abs().max() > 2e-4
    expected = expected_calibration_error(y_true, torch.softmax(logits, dim=1))
    found = expected_calibration_error(y_true, proba)
    assert abs(found - expected) < 0.05
    with pytest.raises(ValueError, match="rows that sum to one"):
        expected_calibration_error(y_true, 0.95 * proba)


@pytest.mark.usefixtures("elsewhere")
def test_bad_options():
    y_true, y_proba, weight = map(torch_array, problem())
    data = y_true, y_proba
    with pytest.raises(ValueError, match=r"strategy must be .* Convert them to numpy"):
        classwise_calibration_error(*data, strategy="isotonic")
    with pytest.raises(ValueError, match='mode="positive" requires two'):
        expected_calibration_error(*data, mode="positive")
    with pytest.raises(ValueError, match="sample_weight must have shape"):
        expected_calibration_error(*data, sample_weight=weight[1:])
    for wrong in (-weight, weight * torch.nan, weight * torch.inf):
        with pytest.raises(ValueError, match="non-negative, finite and not all"):
            expected_calibration_error(*data, sample_weight=wrong)


@pytest.mark.parametrize("array", [torch_array, strict_array])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
@pytest.mark.parametrize("mode", ["top_label", "classwise", ["top_label", "classwise"]])
@pytest.mark.usefixtures("elsewhere")
def test_accumulators_of_arrays_on_other_devices(array, weighted, strategy, mode):
    if strategy == "quantile" and mode != "top_label":
        return
    options = {"labels": [4, 3, 6, 5], "mode": mode, "strategy": strategy}
    expected = CalibrationAccumulator(**options)
    found = CalibrationAccumulator(**options)
    y_true, y_proba, weight = problem()
    for rows in np.array_split(np.arange(len(y_true)), 3):
        chunk = [y_true[rows], y_proba[rows], weight[rows]][: 3 if weighted else 2]
        expected.update(*chunk)
        found.update(*map(array, chunk))
    each = [mode] if isinstance(mode, str) else mode
    for one in each:
        kind = {"mode": one} if len(each) > 1 else {}
        value = found.compute(**kind)
        assert value == pytest.approx(expected.compute(**kind), rel=1e-10)
    assert found.scores() == pytest.approx(expected.scores(), rel=1e-10)


@pytest.mark.parametrize("array", [torch_array, strict_array])
@pytest.mark.usefixtures("elsewhere")
def test_binary_accumulators_on_other_devices(array):
    y_true, y_proba, weight = problem(n_classes=2)
    expected = CalibrationAccumulator(labels=[3, 4], mode="positive")
    expected.update(y_true, y_proba[:, 1], weight)
    found = CalibrationAccumulator(labels=[3, 4], mode="positive")
    found.update(*map(array, (y_true[:0], y_proba[:0, 1])))
    found.update(*map(array, (y_true, y_proba[:, 1], 0 * weight)))
    found.update(*map(array, (y_true, y_proba[:, 1], weight)))
    assert found.compute() == pytest.approx(expected.compute(), rel=1e-10)
    metric = expected.compute(metric=smooth_expected_calibration_error)
    value = found.compute(metric=smooth_expected_calibration_error)
    assert value == pytest.approx(metric, rel=1e-10)


@pytest.mark.usefixtures("elsewhere")
def test_class_quantiles_are_not_accumulated_on_other_devices():
    accumulator = CalibrationAccumulator(
        labels=range(3, 7), mode="classwise", strategy="quantile"
    )
    with pytest.raises(TypeError, match="Move it to the CPU"):
        accumulator.update(*map(torch_array, problem()))


@pytest.mark.parametrize("array", [torch_array, strict_array])
@pytest.mark.parametrize("pos_label", [3, 4])
@pytest.mark.parametrize("columns", [slice(None), slice(1), 0])
@pytest.mark.parametrize(
    "metric",
    [
        classwise_calibration_error,
        expected_calibration_error,
        integrated_calibration_index,
    ],
)
@pytest.mark.usefixtures("elsewhere")
def test_positive_class(array, pos_label, columns, metric):
    y_true, y_proba, _ = (each[:50] for each in problem(n_classes=2))
    y_proba, options = y_proba[:, columns], {"pos_label": pos_label}
    expected = metric(y_true, y_proba, **options)
    for given in ({}, {"labels": [3, 4]}, {"labels": array(np.array([3, 4]))}):
        for labels in (y_true, array(y_true)):
            value = metric(labels, array(y_proba), **given, **options)
            assert value == pytest.approx(expected, rel=1e-9)
    names = np.array(["a", "b"])[y_true - 3]
    if y_proba.ndim == 1:
        with pytest.warns(UserWarning, match="The class is taken to be 'b'"):
            metric(names, array(y_proba))


@pytest.mark.usefixtures("elsewhere")
def test_second_label_is_accepted_in_every_mode():
    y_true, y_proba, _ = problem(n_classes=2)
    options = {"mode": "top_label", "pos_label": 4}
    expected = expected_calibration_error(y_true, y_proba, **options)
    data = torch_array(y_true), torch_array(y_proba)
    assert expected_calibration_error(*data, **options) == pytest.approx(expected)
    with pytest.raises(ValueError, match="pos_label must be None unless"):
        expected_calibration_error(*data, mode="top_label", pos_label=3)
