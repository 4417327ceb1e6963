import pytest
import torch
import torch.nn.functional as F

from sklearn_calib import losses
from sklearn_calib.losses import (
    MMCELoss,
    WeightedMMCELoss,
    mmce_loss,
    weighted_mmce_loss,
)

REFERENCE = "loss_mmce"
NOT_FOLLOWED = {}


def test_recorded(recorded, assert_recorded):
    lambd = recorded["params"].get("lamda", 1.0)
    if recorded["id"].endswith("ce+mmce"):
        assert_recorded(recorded, MMCELoss(lambd=lambd))
        return
    function = weighted_mmce_loss if "weighted" in recorded["id"] else mmce_loss
    recorded_target = recorded["values"].get("labels")

    def penalty(logits, target):
        if recorded_target is not None:
            target = torch.tensor(recorded_target)
        return function(logits, target, lambd=lambd) - F.cross_entropy(logits, target)

    assert_recorded(recorded, penalty)


MIXED = [[2, 0, 0], [0, 1, 0], [0, 0.5, -1], [1.5, 1, 0]], [0, 1, 0, 0]
TIED = [[1, 0], [1, 0], [0, 1], [3, 0]], [0, 1, 1, 0]
CERTAIN = [[40, 0], [0, 40]], [0, 0]
ALL_RIGHT = [[2, 0], [0, 3]], [0, 1]


@pytest.mark.parametrize(
    ("batch", "square", "root", "weighted"),
    [
        # mpmath with 50 digits, pair by pair
        (MIXED, 0.015329256766726011, 0.12381137575653544, 0.24214435737512505),
        (TIED, 0.0018146608095644897, 0.042598835777101815, 0.542832175864997),
        (CERTAIN, 0.25, 0.5, 1.0),
        (ALL_RIGHT, 0.006476971517089551, 0.08047963417591776, 0.0),
    ],
    ids=["mixed", "tied", "certain", "all correct"],
)
def test_known_values(batch, square, root, weighted):
    logits, target = torch.tensor(batch[0], dtype=torch.float64), torch.tensor(batch[1])
    risk = F.cross_entropy(logits, target).item()

    def penalty(function, **params):
        # A large weight, so that the penalty is not lost to rounding in the sum.
        return (function(logits, target, lambd=1e3, **params).item() - risk) / 1e3

    assert penalty(mmce_loss) == pytest.approx(square, rel=1e-12)
    assert penalty(mmce_loss, squared=False) == pytest.approx(root, rel=1e-12)
    assert penalty(weighted_mmce_loss) == pytest.approx(weighted, rel=1e-12)


def test_sorted_sum_equals_the_sum_over_pairs():
    """Value and gradients agree with the sum over all pairs, also for ties."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(40, 3, generator=generator, dtype=torch.float64)
    logits[:12] = logits[12:24]
    target = torch.randint(3, (40,), generator=generator)
    logits.requires_grad_()
    confidence, predicted = logits.softmax(1).max(1)
    assert confidence.unique().numel() == 28
    error = (predicted == target).double() - confidence
    kernel = torch.exp(-(confidence.unsqueeze(1) - confidence).abs() / 0.4)
    expected = error @ kernel @ error / 40**2
    # A large weight, so that the penalty is not lost to rounding in the sum.
    value = mmce_loss(logits, target, lambd=1e3) - F.cross_entropy(logits, target)
    torch.testing.assert_close(value, 1e3 * expected)
    torch.testing.assert_close(
        torch.autograd.grad(value, logits), torch.autograd.grad(1e3 * expected, logits)
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("gap", [0.0, 1e-9, 1e-6, 1e-3])
@pytest.mark.parametrize(
    "loss", [MMCELoss(squared=False), WeightedMMCELoss()], ids=repr
)
def test_gradient_of_the_root_is_finite(loss, gap, dtype):
    """Errors of -1/2 and 1/2 at almost equal confidence nearly cancel."""
    logits = torch.tensor([[gap, 0.0], [0.0, gap]], dtype=dtype, requires_grad=True)
    loss(logits, torch.tensor([0, 0])).backward()
    # The root grows by 1 / (2 * 1e-5) times the square at most, and that by 2.
    assert logits.grad.abs().max() < 1e5


@pytest.mark.parametrize("function", [mmce_loss, weighted_mmce_loss])
def test_all_correct_or_all_wrong(function):
    logits = torch.tensor([[1.0, 0.0], [0.0, 2.0]])
    correct, wrong = torch.tensor([0, 1]), torch.tensor([1, 0])
    for target in (correct, wrong):
        penalty = function(logits, target) - F.cross_entropy(logits, target)
        assert (penalty == 0) == (function is weighted_mmce_loss)


def test_base():
    batch = torch.tensor([[1.0, 0.0], [0.0, 2.0]]), torch.tensor([0, 0])
    difference = mmce_loss(*batch, base="brier") - mmce_loss(*batch)
    expected = losses.brier_loss(*batch) - F.cross_entropy(*batch)
    torch.testing.assert_close(difference, expected)


@pytest.mark.parametrize("squared", ["no", None, 2])
def test_bad_squared(squared):
    message = rf"squared must be one of True, False, got {squared!r}\."
    with pytest.raises(ValueError, match=message):
        MMCELoss(squared=squared)
    with pytest.raises(ValueError, match=message):
        mmce_loss(torch.ones(1, 2), torch.tensor([0]), squared=squared)
