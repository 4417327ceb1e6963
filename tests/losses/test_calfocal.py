import numpy as np
import pytest
import torch

from sklearn_calib.losses import CalFocalLoss, calfocal_loss, focal_loss

REFERENCE = "loss_calfocal"
NOT_FOLLOWED = {}


def float64(values):
    return torch.tensor(values, dtype=torch.float64)


@pytest.mark.parametrize(
    ("logits", "target", "lambd", "accuracy", "expected"),
    [
        # mpmath with 50 digits: -(1 - p) ** exp(lambd * (p - accuracy)) * log(p)
        ((2.0, 1.0, 0.0), 0, 10, 0.5, 0.0013476004876369872),
        ((2.0, 1.0, 0.0), 1, 10, 0.25, 1.0785582602726104),
        ((2.0, 1.0, 0.0), 2, 100, 0.25, 2.4076059388044386),
        ((4.0, 0.0), 0, 100, 0.75, 0.0),  # 6e-20798945774
    ],
)
def test_known_values_per_sample(logits, target, lambd, accuracy, expected):
    loss = calfocal_loss(
        float64([logits]),
        torch.tensor([target]),
        edges=float64([]),
        bin_confidence=float64([np.nan]),
        bin_accuracy=float64([accuracy]),
        lambd=lambd,
        per_sample=True,
    )
    assert loss.item() == pytest.approx(expected, rel=1e-13, abs=0)


def test_recorded(recorded, assert_recorded):
    params = recorded["params"]
    loss = CalFocalLoss(
        n_bins=5,
        lambd=params["lambda_"],
        per_sample=params["per_sample"],
        reduction=params["reduction"],
    ).double()
    state = {
        "edges": params["lower"][1:],
        "bin_confidence": params["confidence"],
        "bin_accuracy": params["accuracy"],
    }
    loss.load_state_dict({name: float64(values) for name, values in state.items()})
    assert_recorded(recorded, loss)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("lambd", [1, 100, 1e6])
@pytest.mark.parametrize("per_sample", [True, False])
@pytest.mark.parametrize("scale", [0.0, 1.0, 17.0, 40.0, 88.0, 1e4])
def test_finite_with_a_large_lambd(dtype, lambd, per_sample, scale):
    """exp(100) is infinite in single precision."""
    loss = CalFocalLoss(n_bins=2, lambd=lambd, per_sample=per_sample).to(dtype)
    record = loss.update([1, 1, 0, 0], [[0.9, 0.1], [0.8, 0.2], [0.6, 0.4], [0.7, 0.3]])
    assert np.isfinite(record.get("gamma", 0)).all()
    logits = scale * torch.tensor([[1, 0], [-1, 0], [1, 1]], dtype=dtype)
    logits.requires_grad_()
    value = loss(logits, torch.tensor([0, 0, 1]))
    value.backward()
    assert torch.isfinite(value)
    assert torch.isfinite(logits.grad).all()


def test_gamma_of_a_bin():
    """It depends on the last validation set only, unlike in AdaFocal."""
    loss = CalFocalLoss(n_bins=2, lambd=2.0, reduction="none")
    proba = [[0.6, 0.4], [0.7, 0.3], [0.8, 0.2], [0.9, 0.1]]
    for _ in range(2):
        record = loss.update([0, 0, 1, 0], proba)
        np.testing.assert_allclose(record["gamma"], np.exp([-0.7, 0.7]), rtol=1e-6)
    logits, target = torch.tensor([[0.0, 0.0], [2.0, 0.0]]), torch.tensor([0, 0])
    low, high = (
        focal_loss(logits, target, gamma=g, reduction="none") for g in record["gamma"]
    )
    torch.testing.assert_close(loss(logits, target), torch.stack([low[0], high[1]]))


def test_no_gamma_per_bin_with_one_per_sample():
    loss = CalFocalLoss(n_bins=1, per_sample=True)
    assert "gamma" not in loss.update([0, 1], [[0.6, 0.4], [0.8, 0.2]])


@pytest.mark.parametrize("lambd", [0, 1.0, 100.0])
def test_gamma_is_one_before_the_first_update(lambd):
    logits, target = torch.randn(20, 3), torch.arange(20) % 3
    torch.testing.assert_close(
        CalFocalLoss(lambd=lambd)(logits, target),
        focal_loss(logits, target, gamma=1.0),
    )


def test_gamma_per_sample_is_constant_in_the_gradient():
    logits = float64([[1.0, 0.0, -1.0]]).requires_grad_()
    target = torch.tensor([0])
    CalFocalLoss(n_bins=1, lambd=3.0, per_sample=True)(logits, target).backward()
    proba = logits.detach().softmax(1)[0, 0].item()
    expected = logits.detach().clone().requires_grad_()
    gamma = np.exp(3.0 * (proba - 0.5))
    focal_loss(expected, target, gamma=gamma).backward()
    torch.testing.assert_close(logits.grad, expected.grad)


@pytest.mark.parametrize("bad", [None, 1, "case1"])
def test_bad_per_sample(bad):
    with pytest.raises(TypeError, match=r"per_sample must be True or False, got .*F"):
        CalFocalLoss(per_sample=bad)


def test_bad_bins():
    with pytest.raises(
        ValueError, match=r"bin_accuracy must have shape \(2,\).*\(1,\)"
    ):
        calfocal_loss(
            torch.ones(1, 2),
            torch.tensor([0]),
            edges=torch.ones(1),
            bin_confidence=torch.ones(2),
            bin_accuracy=torch.ones(1),
        )
