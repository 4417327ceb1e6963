"""The soft calibration objectives: soft-binned ECE and AvUC."""

import math

import pytest
import torch
import torch.nn.functional as F

from sklearn_calib.losses import (
    AvUCLoss,
    SoftBinnedECELoss,
    avuc_loss,
    soft_binned_ece_loss,
)
from sklearn_calib.metrics import expected_calibration_error

REFERENCE = "loss_soft_calibration"
NOT_FOLLOWED = {}


def penalty_of(recorded, n_classes):
    """Return the function and the parameters of a recorded case."""
    params, kind = recorded["params"], recorded["params"]["kind"]
    if kind == "AvUC":
        # The authors' threshold is in nats.
        threshold = params["entropy_threshold"] / math.log(n_classes)
        return avuc_loss, {"threshold": threshold, "temperature": None}
    if kind == "soft AvUC":
        threshold, temperature = params["theta"], params["temperature"]
        return avuc_loss, {"threshold": threshold, "temperature": temperature}
    if "decay_factor" in params:
        softness = {"decay": params["decay_factor"]}
    else:
        softness = {"temperature": params["temperature"]}
    label = kind.startswith("label")
    binning = {"binning": "label" if label else "bin", "squared": label}
    return soft_binned_ece_loss, {"n_bins": params["bins"], **softness, **binning}


def test_recorded(recorded, assert_recorded, reference):
    inputs = reference(REFERENCE)["inputs"][recorded["input"]]
    function, params = penalty_of(recorded, len(inputs["logits"][0]))

    def penalty(logits, target):
        return function(logits, target, **params) - F.cross_entropy(logits, target)

    assert_recorded(recorded, penalty)


def known_penalty(function, **params):
    """Return the penalty on three correct predictions and a wrong one."""
    rows = [[2, 0, 0], [0, 1, 0], [0, 0.5, -1], [1.5, 1, 0]]
    batch = torch.tensor(rows, dtype=torch.float64), torch.tensor([0, 1, 0, 0])
    return (function(*batch, **params) - F.cross_entropy(*batch)).item()


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        # mpmath with 50 digits
        ({}, 0.023634315948751279),
        ({"n_bins": 5, "temperature": 0.25}, 0.028481096646499738),
        ({"n_bins": 1, "temperature": 0.25}, 0.028596902180463348),
        ({"temperature": 2**-10}, 0.03228713521365726),
        ({"binning": "bin"}, 0.021812816188861379),
        ({"binning": "bin", "n_bins": 5, "temperature": 0.25}, 0.018651925329691377),
        ({"binning": "bin", "decay": 80}, 0.023245391048776224),
        ({"binning": "bin", "decay": 80, "squared": False}, 0.1524643927242562),
        ({"n_bins": 1, "temperature": 0.25, "squared": False}, 0.16910618610938913),
    ],
)
def test_known_values_of_soft_binned_ece(params, expected):
    penalty = known_penalty(soft_binned_ece_loss, **params)
    assert penalty == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        # mpmath with 50 digits
        ({}, 1.0819888393688838),
        ({"threshold": 0.25, "temperature": 0.125}, 1.3347167842491636),
        ({"temperature": None}, 1.5802457125906809),
        ({"threshold": 0.75, "temperature": None}, 0.81528764764535495),
    ],
)
def test_known_values_of_avuc(params, expected):
    assert known_penalty(avuc_loss, **params) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("binning", ["bin", "label"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_sharp_bins(binning, dtype):
    """Confidences far from all centres still belong to a bin."""
    logits = torch.tensor([[0.3, 0.0], [5.0, 0.0], [0.0, 0.0]], dtype=dtype)
    logits.requires_grad_()
    loss = SoftBinnedECELoss(binning=binning, temperature=1e-12, n_bins=3)
    value = loss(logits, torch.tensor([0, 1, 1]))
    value.backward()
    assert torch.isfinite(value)
    assert torch.isfinite(logits.grad).all()


@pytest.mark.parametrize("binning", ["bin", "label"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_second_derivatives_of_nearly_empty_bins(binning, dtype):
    logits = torch.tensor([[9.0, 0.0], [0.0, 8.0]], dtype=dtype)
    loss = SoftBinnedECELoss(decay=80, binning=binning)
    hessian = torch.autograd.functional.hessian(
        lambda z: loss(z, torch.tensor([0, 0])), logits
    )
    assert hessian.isfinite().all()


def test_sharp_bins_are_the_bins_of_the_metric():
    """In the limit of sharp bins the error is that of the metric."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(200, 3, generator=generator, dtype=torch.float64)
    target = torch.randint(3, (200,), generator=generator)
    params = {"binning": "bin", "n_bins": 10, "temperature": 1e-7, "squared": False}
    soft = soft_binned_ece_loss(logits, target, **params)
    error = expected_calibration_error(
        target.numpy(), logits.softmax(1).numpy(), n_bins=10, norm="l2"
    )
    assert (soft - F.cross_entropy(logits, target)).item() == pytest.approx(error)


@pytest.mark.parametrize("temperature", [None, 0.01, 1.0, 10.0])
def test_avuc_rewards_certain_correct_and_uncertain_wrong_predictions(temperature):
    correct, wrong = torch.tensor([0, 1]), torch.tensor([1, 1])
    certain, uncertain = [5.0, 0.0], [0.1, 0.0]

    def penalty(first, target):
        batch = torch.tensor([first, [0.0, 4.0]]), target
        value = avuc_loss(*batch, temperature=temperature)
        return value - F.cross_entropy(*batch)

    assert penalty(certain, correct) < penalty(uncertain, correct)
    assert penalty(uncertain, wrong) < penalty(certain, wrong)


def test_threshold_of_zero():
    """Every prediction is uncertain, with both thresholds."""
    batch = torch.tensor([[9.0, 0.0], [0.0, 4.0]]), torch.tensor([0, 1])
    for temperature in (None, 1.0):
        loss = avuc_loss(*batch, threshold=0, temperature=temperature)
        # `good` is 0, so that the denominator of the ratio is 1e-5.
        assert loss - F.cross_entropy(*batch) > 5


@pytest.mark.parametrize("temperature", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("size", [0.0, 1e-8, 1e-4])
def test_avuc_is_finite_close_to_uniform(temperature, size):
    logits = size * torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, -1.0]])
    logits.requires_grad_()
    value = AvUCLoss(temperature=temperature)(logits, torch.tensor([0, 2]))
    value.backward()
    assert torch.isfinite(value)
    assert torch.isfinite(logits.grad).all()


@pytest.mark.parametrize(
    ("loss", "params", "error", "message"),
    [
        (SoftBinnedECELoss, {"n_bins": 0}, ValueError, "n_bins must be >= 1, got 0"),
        (SoftBinnedECELoss, {"n_bins": 1.5}, TypeError, "integer >= 1, got 1.5 of ty"),
        (SoftBinnedECELoss, {"n_bins": True}, TypeError, "n_bins must be an integer"),
        (SoftBinnedECELoss, {"decay": 1}, ValueError, "> 1, or None, got 1. The auth"),
        (SoftBinnedECELoss, {"decay": -1}, ValueError, "got -1. The authors use 80"),
        (SoftBinnedECELoss, {"decay": "80"}, TypeError, "decay must be a number, "),
        (SoftBinnedECELoss, {"binning": "bins"}, ValueError, "Did you mean 'bin'?"),
        (SoftBinnedECELoss, {"squared": "no"}, ValueError, "squared must be one of"),
        (AvUCLoss, {"threshold": 1}, ValueError, r"threshold must be in \[0, 1\), got"),
        (AvUCLoss, {"temperature": 0}, ValueError, "0, or None, got 0. Use a small"),
    ],
)
def test_bad_parameters(loss, params, error, message):
    with pytest.raises(error, match=message):
        loss(**params)
    function = {AvUCLoss: avuc_loss, SoftBinnedECELoss: soft_binned_ece_loss}[loss]
    with pytest.raises(error, match=message):
        function(torch.ones(1, 2), torch.tensor([0]), **params)
