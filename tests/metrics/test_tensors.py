"""Metrics read the memory of tensors on the CPU, and copy arrays on other devices."""

import inspect

import numpy as np
import pytest
import torch

from sklearn_calib import metrics
from sklearn_calib.metrics import CalibrationAccumulator, bootstrap_interval

EXCUSED: dict[str, dict[str, str]] = {}


def problem(n_classes=3):
    rng = np.random.default_rng(0)
    y_proba = rng.dirichlet(np.ones(n_classes), 80)
    y_true = rng.integers(n_classes, size=80)
    return y_true, y_proba, rng.integers(1, 4, size=80).astype(float)


def tensors(*arrays):
    return [torch.from_numpy(each) for each in arrays]


@pytest.mark.filterwarnings("ignore:hosmer_lemeshow_test may reject")
@pytest.mark.usefixtures("dispatch")
def test_every_metric_of_tensors_is_that_of_arrays(metric):
    y_true, y_proba, weight = problem(2)
    has_weights = "sample_weight" in inspect.signature(metric.func).parameters
    options = {"sample_weight": weight} if has_weights else {}
    expected = metric(y_true, y_proba[:, 1], **options)
    y_true, y_proba = tensors(y_true, y_proba)
    options = {name: torch.from_numpy(each) for name, each in options.items()}
    value = metric(y_true, y_proba[:, 1].requires_grad_(), **options)
    np.testing.assert_array_equal(value, expected)


@pytest.mark.filterwarnings("ignore:hosmer_lemeshow_test may reject")
@pytest.mark.usefixtures("dispatch")
def test_every_metric_of_other_arrays_on_the_cpu_is_that_of_numpy(metric):
    asarray = pytest.importorskip("array_api_strict").asarray
    y_true, y_proba, weight = problem(2)
    has_weights = "sample_weight" in inspect.signature(metric.func).parameters
    options = {"sample_weight": weight} if has_weights else {}
    expected = metric(y_true, y_proba[:, 1], **options)
    options = {name: asarray(each) for name, each in options.items()}
    value = metric(asarray(y_true), asarray(y_proba[:, 1]), **options)
    np.testing.assert_array_equal(value, expected)


@pytest.mark.usefixtures("dispatch")
def test_metrics_of_other_arguments():
    y_true, y_proba, weight = problem()
    given = tensors(y_true, y_proba)
    for arrays, options in [((y_true, y_proba, weight), {}), ((*given, weight), {})]:
        *data, weights = arrays
        accumulator = CalibrationAccumulator(labels=range(3)).update(*data, weights)
        ece, draws = metrics.expected_calibration_error, {"n_resamples": 5}
        options |= {**draws, "random_state": 0}
        found = (
            accumulator.compute(),
            bootstrap_interval(ece, *data, **options),
            metrics.per_group(ece, *data, groups=data[0]).to_dict(),
            metrics.per_label(ece, (data[0] > 0)[:, None] * 1, data[1][:, :1]),
            metrics.ood_auroc_score(data[1][:, 0], data[1][:, 1]),
            metrics.overconfidence(data[1], data[1]),
        )
        if arrays[0] is y_true:
            expected = found
    assert repr(found) == repr(expected)


@pytest.mark.usefixtures("dispatch")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_widened(dtype):
    y_true, y_proba, _ = problem()
    tensor = torch.from_numpy(y_proba).to(dtype)
    for metric in (metrics.aurc_loss, metrics.smooth_expected_calibration_error):
        expected = metric(y_true, tensor.float().numpy())
        assert metric(y_true, tensor.requires_grad_()) == pytest.approx(expected)
        tensor = tensor.detach()
        assert expected == pytest.approx(metric(y_true, y_proba), abs=0.01)


@pytest.mark.filterwarnings("ignore:hosmer_lemeshow_test may reject")
@pytest.mark.filterwarnings("ignore:kernel_calibration_test may be")
def test_every_metric_of_arrays_on_another_device_is_that_of_numpy(metric, on_device):
    """Numpy cannot read them without a copy to the CPU."""
    has_weights = "sample_weight" in inspect.signature(metric.func).parameters
    for n_classes in (2, 3):
        y_true, y_proba, weight = problem(n_classes)
        y_proba = y_proba[:, 1] if n_classes == 2 else y_proba
        options = {"sample_weight": weight} if has_weights else {}
        expected = metric(y_true, y_proba, **options)
        options = {name: on_device(each) for name, each in options.items()}
        value = metric(on_device(y_true), on_device(y_proba), **options)
        np.testing.assert_allclose(value, expected, rtol=1e-10)
