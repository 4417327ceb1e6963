"""Soft targets: the loss is its mean over the labels."""

import pytest
import torch

from sklearn_calib.losses import (
    ACLSLoss,
    BrierLoss,
    FocalLoss,
    MDCALoss,
    brier_loss,
    cross_entropy_loss,
    focal_calibration_loss,
    focal_loss,
    mdca_loss,
)

all_losses = pytest.mark.losses


def soft_batch(n_samples=5):
    """Return logits and soft targets: one-hot, with a zero, and all positive."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(n_samples, 4, generator=generator, dtype=torch.float64)
    soft = torch.rand(n_samples, 4, generator=generator, dtype=torch.float64)
    soft[0], soft[1, 2] = torch.eye(4)[3], 0.0
    return 2 * logits, soft / soft.sum(1, keepdim=True)


def with_reduction(loss, reduction):
    loss = type(loss)(**{**loss.get_params(), "reduction": reduction})
    return loss.eval()


def value_and_grad(loss, logits, target):
    logits = logits.clone().requires_grad_()
    value = loss(logits, target)
    value.sum().backward()
    return value.detach(), logits.grad


@all_losses(where=lambda loss: loss.is_per_sample)
def test_per_sample_losses_accept_soft_targets(loss):
    assert loss.takes_probabilities


@all_losses(where=lambda loss: loss.is_per_sample)
@pytest.mark.filterwarnings("ignore:gamma must be at most")
def test_mean_over_the_labels(loss):
    """For the Brier loss, the constant 1 - sum(target ** 2) is subtracted."""
    logits, soft = soft_batch()
    loss = with_reduction(loss, "none")
    labels = [torch.full((5,), label) for label in range(4)]
    each = [value_and_grad(loss, logits, label) for label in labels]
    value, grad = value_and_grad(loss, logits, soft)
    expected = (soft * torch.stack([value for value, _ in each], 1)).sum(1)
    if isinstance(loss, BrierLoss):
        expected = expected - (1 - soft.square().sum(1))
    torch.testing.assert_close(value, expected)
    expected = soft.unsqueeze(2) * torch.stack([grad for _, grad in each], 1)
    torch.testing.assert_close(grad, expected.sum(1))


@all_losses(where=lambda loss: loss.takes_probabilities)
@pytest.mark.filterwarnings("ignore:gamma must be at most")
def test_reductions(loss):
    batch, weight = soft_batch(), torch.tensor([1.0, 0, 3, 1, 2])
    values = with_reduction(loss, "none")(*batch, sample_weight=weight)
    assert values.shape == (5,)
    total = with_reduction(loss, "sum")(*batch, sample_weight=weight)
    torch.testing.assert_close(total, values.sum())
    mean = with_reduction(loss, "mean")(*batch, sample_weight=weight)
    torch.testing.assert_close(mean, values.sum() / 7)


# ACLS treats the largest logit as a constant, and gamma_cal its weight.
@all_losses(
    where=lambda loss: (
        loss.takes_probabilities
        and not isinstance(loss, ACLSLoss)
        and loss.get_params().get("gamma_cal") is None
    )
)
def test_gradient(loss):
    logits, soft = soft_batch(3)
    logits.requires_grad_()
    assert torch.autograd.gradcheck(lambda z: loss(z, soft), logits)


@all_losses(where=lambda loss: loss.takes_probabilities)
@pytest.mark.parametrize("scale", [0.0, 50.0, 1e4])
def test_finite_at_extreme_logits(loss, scale):
    """Mixtures of two labels, with correct, wrong and tied predictions."""
    logits = scale * torch.tensor([[1, 0, 0], [0, 0, 1], [1, 1, 0], [-1, 0, 1.0]])
    soft = torch.tensor([[0.3, 0.7, 0], [1, 0, 0], [0.5, 0.5, 0], [0.2, 0, 0.8]])
    value, grad = value_and_grad(loss, logits, soft)
    assert value.dtype == torch.float32
    assert torch.isfinite(value)
    assert torch.isfinite(grad).all()


@all_losses(where=lambda loss: loss.takes_probabilities)
def test_bad_probabilities(loss):
    logits, soft = soft_batch()
    with pytest.raises(ValueError, match="must be probabilities that sum to one, got"):
        loss(logits, 2 * soft)
    with pytest.raises(ValueError, match=r"For class indices call target\.squeeze"):
        loss(logits, torch.zeros(5, 1, dtype=torch.int64))


def half_batch(dtype, n_classes):
    """Return logits and a softmax in half precision whose row sums are rounded."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(32, n_classes, generator=generator)
    return logits, (2 * logits).to(dtype).softmax(1)


@all_losses(where=lambda loss: loss.takes_probabilities)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.filterwarnings("ignore:gamma must be at most")
def test_half_precision(loss, dtype):
    """The tolerance of the row sums depends on the dtype, also under autocast."""
    for n_classes in (2, 4, 100):
        logits, soft = half_batch(dtype, n_classes)
        expected = loss(logits, soft.double() / soft.double().sum(1, keepdim=True))
        torch.testing.assert_close(loss(logits, soft), expected, rtol=0.01, atol=0)
        with torch.autocast("cpu", torch.bfloat16):
            value = loss(logits, soft @ torch.eye(n_classes, dtype=dtype))
        torch.testing.assert_close(value, expected, rtol=0.01, atol=0)
        for bad in (1.02 * soft, 1.001 * soft.float()):
            with pytest.raises(ValueError, match="probabilities that sum to one, got"):
                loss(logits, bad)


def test_known_values():
    """By hand: p = (3/4, 1/4)."""
    logits, soft = (
        torch.tensor([3.0, 1.0]).double().log()[None],
        torch.tensor([[0.4, 0.6]]),
    )
    log_p = torch.tensor([3 / 4, 1 / 4]).double().log()
    value = focal_loss(logits, soft, gamma=2.0)
    expected = -0.4 * log_p[0] / 16 - 0.6 * log_p[1] * 9 / 16
    torch.testing.assert_close(value, expected, rtol=1e-6, atol=0)
    value = mdca_loss(logits, soft) - cross_entropy_loss(logits, soft)
    torch.testing.assert_close(value.item(), 0.35, rtol=1e-6, atol=0)


def test_gradient_of_focal_calibration_with_soft_targets():
    """The two definitions of the distance differ by a constant."""
    logits, soft = soft_batch()
    _, both = value_and_grad(focal_calibration_loss, logits, soft)
    _, focal = value_and_grad(
        lambda *batch: focal_loss(*batch, gamma=2.0), logits, soft
    )
    _, brier = value_and_grad(brier_loss, logits, soft)
    torch.testing.assert_close(both, focal + brier)


def test_base_with_a_penalty_on_the_classes():
    logits, soft = soft_batch()
    loss = MDCALoss(lambd=2.0, base="focal", base__gamma=1.0)
    gap = (logits.softmax(1) - soft).mean(0).abs().mean()
    torch.testing.assert_close(
        loss(logits, soft), focal_loss(logits, soft, gamma=1.0) + 2 * gap
    )


def test_error_of_a_base_without_soft_targets_is_raised():
    class LabelsOnly(FocalLoss):
        def forward(self, logits, target, sample_weight=None):
            assert target.ndim == 1, "labels only"
            return super().forward(logits, target, sample_weight)

    with pytest.raises(AssertionError, match="labels only"):
        MDCALoss(base=LabelsOnly())(*soft_batch())


def test_errors_of_calls_name_the_loss():
    for target in (torch.tensor([0]), torch.tensor([[1.0, 0.0]])):
        with pytest.raises(TypeError, match=r"focal_loss.* unexpected keyword"):
            focal_loss(torch.zeros(1, 2), target, gama=1.0)
    with pytest.raises(TypeError, match=r"focal_loss\(\) takes 2 positional arguments"):
        focal_loss(torch.zeros(1, 2), torch.tensor([0]), 1.0)
