import pytest
import torch

from sklearn_calib.losses import (
    MaxSupLoss,
    cross_entropy_loss,
    focal_loss,
    max_sup_loss,
    mbls_loss,
)


@pytest.mark.parametrize(
    ("lambd", "logits", "target", "expected"),
    [
        # mpmath with 50 digits: -log p_t + lambd * (max z - mean z)
        (0.1, (3.0, 1.0, 0.0), 0, 0.33651268622295232),
        (0.1, (3.0, 1.0, 0.0), 2, 3.3365126862229523),
        (0.25, (-4.0, 5.0), 0, 10.125123402189723),
        (1.0, (0.5, 0.5), 1, 0.69314718055994531),
        (0.1, (40.0, 0.0), 0, 2.0),
    ],
)
def test_known_values(lambd, logits, target, expected):
    logits = torch.tensor([logits], dtype=torch.float64)
    loss = max_sup_loss(logits, torch.tensor([target]), lambd=lambd)
    assert loss.item() == pytest.approx(expected, rel=1e-13, abs=0)


def test_label_smoothing_of_correct_predictions():
    """If the prediction is correct, the penalty is that of label smoothing."""
    generator = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(50, 4, generator=generator).double()
    correct, wrong = logits.argmax(1), logits.argmin(1)
    torch.testing.assert_close(
        max_sup_loss(logits, correct, lambd=0.2, reduction="none"),
        cross_entropy_loss(logits, correct, label_smoothing=0.2, reduction="none"),
    )
    smoothed = cross_entropy_loss(logits, wrong, label_smoothing=0.2, reduction="none")
    assert (max_sup_loss(logits, wrong, lambd=0.2, reduction="none") > smoothed).all()


def test_margin_of_zero():
    generator = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(50, 4, generator=generator).double()
    target = torch.randint(4, (50,), generator=generator)
    torch.testing.assert_close(
        max_sup_loss(logits, target, lambd=0.3),
        mbls_loss(logits, target, lambd=0.3, margin=0.0),
    )


def test_base():
    logits, target = torch.tensor([[2.0, 0.0, 1.0]]), torch.tensor([2])
    value = MaxSupLoss(lambd=0.5, base="focal", base__gamma=2.0)(logits, target)
    torch.testing.assert_close(value, focal_loss(logits, target, gamma=2.0) + 0.5)
