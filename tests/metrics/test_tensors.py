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


@pytest.mark.parametrize("move", [torch.from_numpy, None])
def test_metrics_of_other_arguments(move, on_device):
    ece, draws = metrics.expected_calibration_error, {"n_resamples": 5}
    draws |= {"random_state": 0}
    found = []
    for put in (np.asarray, move or on_device):
        y_true, y_proba, weight = map(put, problem())
        labels, sets = put((problem()[0] > 0)[:, None] * 1), put(problem()[1] > 0.2)
        scores, clusters = (y_proba[:, 0], y_proba[:, 1]), put(np.arange(80) % 60)
        results = (
            CalibrationAccumulator(labels=range(3))
            .update(y_true, y_proba, weight)
            .compute(),
            bootstrap_interval(ece, y_true, y_proba, clusters=clusters, **draws),
            metrics.consistency_test(ece, y_true, y_proba, **draws),
            metrics.difference_test(ece, y_true, y_proba, y_proba, **draws),
            metrics.ece_consistency_bound(y_proba, **draws),
            metrics.per_group(ece, y_true, y_proba, groups=y_true).to_dict(),
            metrics.per_label(ece, labels, y_proba[:, :1]),
            metrics.ood_auroc_score(*scores),
            metrics.overconfidence(y_proba, y_proba),
            metrics.set_coverage_score(y_true, sets),
        )
        found.append(repr(results))
    assert found[0] == found[1]


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
