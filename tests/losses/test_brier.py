import pytest
import torch

from sklearn_calib.losses import brier_loss

REFERENCE = "loss_brier"
NOT_FOLLOWED = {}


@pytest.mark.parametrize(
    ("logit", "expected"),
    [
        # mpmath with 50 digits: 2 * (1 - p) ** 2 with p = sigmoid(logit)
        (0.0, 0.5),
        (3.0, 0.004498426893309296),
        (-3.0, 1.8147949341830423),
        (40.0, 3.60970277569083e-35),
        (-40.0, 2.0),
    ],
)
def test_known_values(logit, expected):
    logits = torch.tensor([[logit, 0.0]], dtype=torch.float64)
    loss = brier_loss(logits, torch.tensor([0]))
    assert loss.item() == pytest.approx(expected, rel=1e-14, abs=0)


def test_recorded(recorded, assert_recorded):
    assert_recorded(recorded, brier_loss)


def test_soft_target():
    """The squared distance of two distributions, by hand."""
    loss = brier_loss(torch.zeros(1, 2), torch.tensor([[0.9, 0.1]]))
    assert loss.item() == pytest.approx(0.32)
