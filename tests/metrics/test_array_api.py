"""A wide matrix is checked and reduced on its device; one number per sample is copied.

That all metrics accept arrays of other devices is tested in test_tensors.py.
"""

from functools import cache

import numpy as np
import pandas as pd
import pytest
import torch
from torch.overrides import TorchFunctionMode

from sklearn_calib.metrics import (
    CalibrationAccumulator,
    aurc_loss,
    expected_calibration_error,
    maximum_calibration_error,
    smooth_expected_calibration_error,
)


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


def accumulated(y_true, y_proba, sample_weight=None):
    accumulator = CalibrationAccumulator(labels=range(3, 7))
    return accumulator.update(y_true, y_proba, sample_weight).compute()


class NoLargeCopies(TorchFunctionMode):
    """Raise an error if more values are converted to numpy than there are samples."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        name = getattr(function, "__name__", "")
        leaves = {"__array__", "__dlpack__", "cpu", "numpy", "tolist"}
        if name in leaves and args[0].numel() > 1200:
            raise AssertionError(f"{name} of {args[0].numel()} values")
        return function(*args, **(kwargs or {}))


@pytest.mark.filterwarnings("error")
@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "metric",
    [
        aurc_loss,
        expected_calibration_error,
        maximum_calibration_error,
        smooth_expected_calibration_error,
        accumulated,
    ],
)
def test_one_number_per_sample_is_copied(metric, dtype, weighted):
    y_true, y_proba, weight = map(np.copy, problem(dtype=dtype))
    options = {"sample_weight": weight} if weighted else {}
    expected = metric(y_true, y_proba, **options)
    options = {k: torch.from_numpy(each) for k, each in options.items()}
    y_true, y_proba = torch.from_numpy(y_true), torch.from_numpy(y_proba)
    with NoLargeCopies():
        value = metric(y_true, y_proba.requires_grad_(), **options)
    assert isinstance(value, float)
    assert value == pytest.approx(expected, rel=1e-10)


def test_the_guard_sees_copies():
    with NoLargeCopies(), pytest.raises(AssertionError, match="of 2000 values"):
        torch.zeros(2000).numpy()


@pytest.mark.parametrize("other", [np.asarray, list, pd.Series], ids=str)
def test_labels_and_weights_may_be_of_other_types(other, on_device):
    y_true, y_proba, weight = problem()
    labels, names = [4, 3, 6, 5], np.array(list("abcdefg"))
    options = {"labels": labels, "sample_weight": weight}
    expected = expected_calibration_error(y_true, y_proba, **options)
    for y, order in [
        (other(y_true), labels),
        (other(names[y_true]), names[labels]),
        (on_device(y_true[:, None]), on_device(labels)),
    ]:
        options = {"labels": order, "sample_weight": other(weight)}
        value = expected_calibration_error(y, on_device(y_proba), **options)
        assert value == pytest.approx(expected, rel=1e-10)


def test_without_dispatch_cpu_tensors_are_converted_to_numpy():
    y_true, y_proba, _ = map(np.copy, problem())
    tensors = torch.from_numpy(y_true), torch.from_numpy(y_proba)
    value = expected_calibration_error(*tensors)
    assert value == expected_calibration_error(y_true, y_proba)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda y, p: (y, 2 * p), r"y_proba must lie in \[0, 1\]"),
        (lambda y, p: (y, p / 2), "y_proba must have rows that sum to one"),
        (lambda y, p: (y, p + 0j), r"y_proba must .* Complex data not"),
        (lambda y, p: (y, p[:, :, None]), "y_proba must be probabilities of shape"),
        (lambda y, p: (y, p[:0]), r"y_proba must .* Found array with 0 sample"),
        (lambda y, p: (y[:-1], p), "y_true must contain one label for each row"),
        (lambda y, p: (y % 2, p), "y_true must contain 4 distinct labels"),
        (lambda _, p: (p > 0, p), "y_true should be a 1d array, got an array of shape"),
    ],
)
def test_bad_input_has_the_messages_of_numpy(change, message, on_device):
    data = map(on_device, change(*problem()[:2]))
    with pytest.raises(ValueError, match=message):
        expected_calibration_error(*data)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_values_outside_of_0_and_1_by_rounding(dtype, on_device):
    """Such values are clipped to [0, 1], as in numpy."""
    codes, proba = np.arange(60) % 3, np.full((60, 3), 1 / 3, dtype=dtype)
    proba[::5] = np.where(codes[::5, None] == range(3), 1.00001, -5e-6)
    value = expected_calibration_error(codes, on_device(proba))
    expected = expected_calibration_error(codes, proba.clip(0, 1))
    assert value == pytest.approx(expected, rel=1e-6)
    proba[proba > 1] = 1.0004
    with pytest.raises(ValueError, match=r"got values in \[.*, 1\.0004\]"):
        expected_calibration_error(codes, on_device(proba))


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


def test_integers_may_be_probabilities(on_device):
    y_true, proba = np.arange(30) % 3, np.eye(3, dtype=int)[np.arange(30) // 10]
    value = expected_calibration_error(on_device(y_true), on_device(proba))
    assert value == expected_calibration_error(y_true, proba)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
@pytest.mark.parametrize("mode", ["top_label", "classwise", ["top_label", "classwise"]])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_accumulators_of_arrays_on_another_device(
    n_classes, mode, strategy, weighted, on_device
):
    options = {"labels": [4, 3, 6, 5][:n_classes], "mode": mode, "strategy": strategy}
    expected = CalibrationAccumulator(**options)
    found = CalibrationAccumulator(**options)
    y_true, y_proba, weight = problem(n_classes)
    for rows in (slice(500), slice(500, None)):
        chunk = [y_true[rows], y_proba[rows], weight[rows]][: 3 if weighted else 2]
        expected.update(*chunk)
        found.update(*map(on_device, chunk))
    found.update(*map(on_device, (y_true[:0], y_proba[:0])))
    found.update(*map(on_device, (y_true, y_proba, 0 * weight)))
    for each in [mode] if isinstance(mode, str) else mode:
        value = found.compute(mode=each)
        assert value == pytest.approx(expected.compute(mode=each), rel=1e-10)
    assert found.scores() == pytest.approx(expected.scores(), rel=1e-10)


def test_groups_may_be_on_another_device(on_device):
    y_true, y_proba, _ = problem()
    for move in (np.asarray, on_device):
        accumulator = CalibrationAccumulator(labels=range(3, 7))
        data = map(move, (y_true, y_proba))
        accumulator.update(*data, groups=move(y_true % 2))
        found = [each.compute() for each in accumulator.groups_.values()]
        if move is np.asarray:
            expected = found
    assert found == pytest.approx(expected, rel=1e-10)
