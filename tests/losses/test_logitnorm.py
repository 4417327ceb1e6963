import numpy as np
import pytest
import torch

from sklearn_calib.losses import LogitNormLoss, logitnorm_loss

REFERENCE = "loss_logitnorm"
NOT_FOLLOWED = {}


@pytest.mark.parametrize(
    ("temperature", "logits", "target", "expected"),
    [
        # mpmath with 50 digits: -log softmax(z / ((|z| + 1e-7) * temperature))[target]
        (0.04, (3.0, 4.0), 1, 0.0067153491584031809),
        (0.04, (3.0, 4.0), 0, 5.0067152491584052),
        (1.0, (2.0, -1.0, 0.5), 2, 1.2366619982345452),
        (0.01, (-1.0, -1.0, -1.0), 0, 1.0986122886681097),
        (0.04, (1e-08, 0.0), 0, 0.098061666863974949),
    ],
)
def test_known_values(temperature, logits, target, expected):
    logits = torch.tensor([logits], dtype=torch.float64)
    loss = logitnorm_loss(logits, torch.tensor([target]), temperature=temperature)
    assert loss.item() == pytest.approx(expected, rel=1e-12, abs=0)


def test_recorded(recorded, assert_recorded, reference):
    assert recorded["params"]["eps"] == 1e-7
    logits = reference(REFERENCE)["inputs"][recorded["input"]]["logits"]
    # The authors' gradient of zero logits is 1e7 times as large.
    others = np.any(np.array(logits, dtype=float) != 0, axis=1)
    loss = LogitNormLoss(temperature=recorded["params"]["t"])
    assert_recorded(recorded, loss, merge=lambda grad: grad[others[: len(grad)]])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_norm_does_not_matter(dtype):
    logits = torch.tensor([[3.0, 4.0, -1.0]], dtype=dtype).mul(
        torch.tensor([[1e-3], [1.0], [1e9]])
    )
    values = logitnorm_loss(logits.to(dtype), torch.tensor([0, 0, 0]), reduction="none")
    torch.testing.assert_close(values, values[1:2].expand(3), rtol=1e-3, atol=0)


def test_gradient_of_zero_logits():
    """It is that of the cross-entropy of z / temperature."""
    logits = torch.zeros(1, 4, dtype=torch.float64, requires_grad=True)
    logitnorm_loss(logits, torch.tensor([1]), temperature=0.5).backward()
    expected = torch.tensor([[0.5, -1.5, 0.5, 0.5]]).double()
    torch.testing.assert_close(logits.grad, expected)


def test_soft_target():
    """Linear in the target."""
    logits = torch.tensor([[1.0, 2.0, 0.0]], dtype=torch.float64)
    target = torch.tensor([[0.25, 0.0, 0.75]], dtype=torch.float64)
    hard = [logitnorm_loss(logits, torch.tensor([k])) for k in (0, 2)]
    expected = 0.25 * hard[0] + 0.75 * hard[1]
    torch.testing.assert_close(logitnorm_loss(logits, target), expected)


@pytest.mark.parametrize("bad", [0, 0.0])
def test_temperature_of_zero(bad):
    message = (
        rf"temperature must be finite and > 0, got {bad}\. Use a small value, such"
    )
    with pytest.raises(ValueError, match=message):
        LogitNormLoss(temperature=bad)
    with pytest.raises(ValueError, match=message):
        logitnorm_loss(torch.ones(1, 2), torch.tensor([0]), temperature=bad)
