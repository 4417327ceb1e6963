import pytest
import torch

from sklearn_calib.losses import (
    LabelRelaxationLoss,
    cross_entropy_loss,
    label_relaxation_loss,
)


@pytest.mark.parametrize(
    ("alpha", "logit", "expected"),
    [
        # mpmath with 50 digits: KL((1 - alpha, alpha) || (p, 1 - p)) below 1 - alpha,
        # p = sigmoid(logit)
        (0.1, 0.0, 0.36806420716849707),
        (0.1, 2.0, 0.0018450376515242569),
        (0.1, 3.0, 0.0),
        (0.1, -40.0, 35.674917026608552),
        (0.25, 1.0, 0.00092654289941448376),
        (0.01, 4.5, 4.621049374647587e-5),
        (0.5, -1.0, 0.12011450695827752),
        (0.0, 40.0, 4.248354255291589e-18),
    ],
)
def test_known_values(alpha, logit, expected):
    logits = torch.tensor([[logit, 0.0]], dtype=torch.float64)
    loss = label_relaxation_loss(logits, torch.tensor([0]), alpha=alpha)
    assert loss.item() == pytest.approx(expected, rel=1e-12, abs=0)


def random_batch():
    generator = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(200, 5, generator=generator).double()
    return logits, torch.randint(5, (200,), generator=generator)


def test_projection():
    """KL divergence to the projection, which is a constant in the gradient."""
    logits, target = random_batch()
    logits.requires_grad_()
    proba = logits.softmax(1)
    p_true = proba.gather(1, target[:, None])
    nearest = (0.1 * proba / (1 - p_true)).scatter(1, target[:, None], 0.9).detach()
    divergence = (nearest * (nearest / proba).log()).sum(1)
    expected = torch.where(p_true[:, 0] >= 0.9, 0.0, divergence)
    ours = label_relaxation_loss(logits, target, alpha=0.1, reduction="none")
    torch.testing.assert_close(ours, expected)
    assert 0 < (ours == 0).sum() < 200
    (grad,) = torch.autograd.grad(ours.sum(), logits, retain_graph=True)
    (expected_grad,) = torch.autograd.grad(expected.sum(), logits)
    torch.testing.assert_close(grad, expected_grad)


@pytest.mark.parametrize("alpha", [0.01, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_around_the_bound(alpha, dtype):
    """The loss is not negative, and it and its gradient are 0 above 1 - alpha."""
    bound = torch.tensor(1 - alpha, dtype=dtype).logit()
    steps = 10 * torch.finfo(dtype).eps * torch.arange(-50, 51).to(dtype)
    logits = torch.stack([bound + steps, torch.zeros(101, dtype=dtype)], 1)
    logits.requires_grad_()
    target = torch.zeros(101, dtype=torch.int64)
    values = label_relaxation_loss(logits, target, alpha=alpha, reduction="none")
    values.sum().backward()
    assert (values >= 0).all()
    assert values.max() < 1e-6
    assert (logits.grad[:, 0] <= 0).all()
    assert (logits.grad[-30:] == 0).all()


def test_tiny_alpha_is_cross_entropy():
    batch = random_batch()
    loss = LabelRelaxationLoss(alpha=1e-12)
    torch.testing.assert_close(loss(*batch), cross_entropy_loss(*batch))


def test_bad_alpha():
    with pytest.raises(ValueError, match=r"alpha must be in \[0, 1\), got 1\. Pass 0"):
        LabelRelaxationLoss(alpha=1)
