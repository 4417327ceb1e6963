import pytest
import torch

from sklearn_calib.losses import (
    AdaDualFocalLoss,
    AdaFocalLoss,
    ada_dual_focal_loss,
    dual_focal_loss,
)

REFERENCE = "loss_adadualfocal"
OTHER_LOSS = "another loss, whose gamma does not depend on validation data"
NOT_FOLLOWED = {"small-sd53": OTHER_LOSS, "edge-sd53": OTHER_LOSS}


def float64(values):
    return torch.tensor(values, dtype=torch.float64)


@pytest.mark.parametrize(
    ("gamma", "logits", "target", "expected"),
    [
        # mpmath with 50 digits, d = p_t - q:
        # (1 - d) ** gamma or (1 + d) ** -gamma, times -log(p)
        (3.0, (2.0, 1.0, 0.0), 0, 0.079318187520151426),
        (-2.0, (2.0, 1.0, 0.0), 1, 1.876799369075183),
        (0.5, (0.0, 0.0), 0, 0.4901290717342736),
        (0.5, (40.0, 0.0, -1.0), 0, 1.8431416007424696e-26),
        (-2.0, (40.0, 0.0, -1.0), 0, 2.3244945778506311e-17),
        (20.0, (-40.0, 0.0), 0, 39.999999999999997),
        (-1.5, (1.0, 0.5, 0.0), 0, 0.89343804645920857),
    ],
)
def test_known_values(gamma, logits, target, expected):
    batch = float64([logits]), torch.tensor([target])
    loss = ada_dual_focal_loss(*batch, gamma=float64([gamma]), edges=float64([]))
    assert loss.item() == pytest.approx(expected, rel=1e-13, abs=0)


def test_recorded(recorded, assert_recorded):
    def merge(grad):
        """Two classes are tied at q in row 5; either may have the gradient."""
        if recorded["input"] == "edge":
            grad = grad.copy()
            grad[5, 2] += grad[5, 3]
            grad[5, 3] = 0
        return grad

    params = recorded["params"]
    loss = AdaDualFocalLoss(n_bins=5, reduction=params["reduction"]).double()
    state = {"gamma": float64(params["gamma"]), "edges": float64(params["lower"][1:])}
    loss.load_state_dict(state)
    assert_recorded(recorded, loss, merge=merge)


def test_gamma_is_that_of_the_bin_of_p_t_minus_q():
    """p_t is 0.665 and p_t - q is 0.421."""
    logits, target = float64([[2.0, 1.0, 0.0]]), torch.tensor([0])
    for edge, gamma in ((0.43, 2.0), (0.41, 5.0)):
        loss = ada_dual_focal_loss(
            logits, target, gamma=float64([2.0, 5.0]), edges=float64([edge])
        )
        expected = dual_focal_loss(logits, target, gamma=gamma)
        torch.testing.assert_close(loss, expected)


def test_learns_as_adafocal():
    dual, single = AdaDualFocalLoss(lambd=5.0), AdaFocalLoss(n_bins=15, lambd=5.0)
    generator = torch.Generator().manual_seed(0)
    for _ in range(3):
        proba = torch.randn(60, 3, generator=generator).double().softmax(1).numpy()
        target = torch.randint(3, (60,), generator=generator).numpy()
        assert dual.update(target, proba) == single.update(target, proba)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("gamma", [0.0, 0.5, 20.0, 1e6, 1e18, -2.0, -100.0])
@pytest.mark.parametrize("scale", [0.0, 1e-8, 1.0, 14.0, 40.0, 88.0, 200.0, 1e4])
def test_finite_at_saturation(dtype, gamma, scale):
    logits = scale * torch.tensor([[1, 0, 0], [-1, 0, 0], [1, 1, 0]], dtype=dtype)
    logits.requires_grad_()
    gamma = torch.tensor([gamma], dtype=dtype)
    edges = torch.tensor([], dtype=dtype)
    loss = ada_dual_focal_loss(
        logits, torch.tensor([0, 0, 1]), gamma=gamma, edges=edges
    )
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(logits.grad).all()


def test_gradient():
    """Both signs of gamma in one batch."""
    generator = torch.Generator().manual_seed(5)
    logits = 2 * torch.randn(4, 4, generator=generator, dtype=torch.float64)
    target = torch.arange(4)
    state = {"gamma": float64([0.5, -2.0, 3.0]), "edges": float64([0.05, 0.4])}
    proba = logits.softmax(1)
    p_true = proba[range(4), target]
    below = torch.where(proba < p_true[:, None], proba, 0.0).amax(1)
    bins = torch.bucketize(p_true - below, state["edges"])
    assert set(bins.tolist()) == {0, 1, 2}

    def values(logits):
        return ada_dual_focal_loss(logits, target, reduction="none", **state)

    logits.requires_grad_()
    assert torch.autograd.gradcheck(values, logits)
    assert torch.autograd.gradgradcheck(values, logits)
