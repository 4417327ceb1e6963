import pytest
import torch

from sklearn_calib.losses import (
    FocalCalibrationLoss,
    brier_loss,
    focal_calibration_loss,
    focal_loss,
)

REFERENCE = "loss_fcl"
GRADIENT = (
    "a variant whose gate carries gradient; ours is constant, as in the case of the "
    "same name without NoDetach, whose value is the same"
)
NOT_FOLLOWED = {
    "small-SAFCLNoDetach": GRADIENT,
    "binary-SAFCLNoDetach": GRADIENT,
    "edge-SAFCLNoDetach": GRADIENT,
}


@pytest.mark.parametrize(
    ("params", "logit", "expected"),
    [
        # mpmath with 50 digits, u = 1 - sigmoid(logit): focal + lambd * gate * d with
        # d = 2 * u ** 2 for l2, 2 * u for l1, and gate = u ** gamma_cal
        ({}, 0.0, 0.6732867951399863),
        ({"norm": "l1"}, 3.0, 0.09496102967963056),
        ({"lambd": 0.5, "gamma_cal": 1.5}, -1.0, 1.0359345688010348),
        ({"gamma": 3, "lambd": 2}, 40.0, 7.21940555138166e-35),
        (
            {"gamma": 0.5, "norm": "l1", "gamma_cal": 0.5},
            40.0,
            2.6269532288089563e-26,
        ),
    ],
)
def test_known_values(params, logit, expected):
    logits = torch.tensor([[logit, 0.0]], dtype=torch.float64)
    loss = focal_calibration_loss(logits, torch.tensor([0]), **params)
    assert loss.item() == pytest.approx(expected, rel=1e-13, abs=0)


def test_recorded(recorded, assert_recorded):
    params = recorded["params"]
    loss = FocalCalibrationLoss(
        gamma=params["gamma_focal"],
        lambd=params["lam"],
        gamma_cal=params.get("gamma_cal"),
        reduction=params["reduction"],
    )
    assert_recorded(recorded, loss)


def test_sum_of_its_parts():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(20, 5, generator=generator)
    target = torch.randint(5, (20,), generator=generator)
    torch.testing.assert_close(
        focal_calibration_loss(logits, target, gamma=1.5, lambd=0.7),
        focal_loss(logits, target, gamma=1.5) + 0.7 * brier_loss(logits, target),
    )


def test_l1_is_the_sum_of_absolute_differences():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(20, 5, generator=generator)
    target = torch.randint(5, (20,), generator=generator)
    distance = (logits.softmax(1) - torch.eye(5)[target]).abs().sum(1).mean()
    torch.testing.assert_close(
        focal_calibration_loss(logits, target, norm="l1"),
        focal_loss(logits, target, gamma=2.0) + distance,
    )


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"norm": "l3"}, ValueError, "norm must be one of 'l1', 'l2', got 'l3'"),
        ({"gamma_cal": -1}, ValueError, "gamma_cal must be finite and >= 0, got -1"),
        ({"gamma_cal": "1"}, TypeError, "gamma_cal must be a number, .* got '1' of"),
    ],
)
def test_bad_parameters(params, error, message):
    with pytest.raises(error, match=message):
        FocalCalibrationLoss(**params)
    with pytest.raises(error, match=message):
        focal_calibration_loss(torch.ones(1, 2), torch.tensor([0]), **params)
