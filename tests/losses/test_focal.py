import pytest
import torch

from sklearn_calib.losses import FocalLoss, focal_loss

REFERENCE = "loss_focal"
NOT_FOLLOWED = {}


@pytest.mark.parametrize(
    ("gamma", "logit", "expected"),
    [
        # mpmath with 50 digits: -(1 - p) ** gamma * log(p) with p = sigmoid(logit)
        (0.0, 0.0, 0.6931471805599453),
        (0.0, 40.0, 4.248354255291589e-18),
        (0.5, -3.0, 2.975418329650191),
        (0.5, 40.0, 8.75651076269652e-27),
        (2.0, 3.0, 0.00010928332449699753),
        (2.0, -40.0, 40.0),
        (10.0, 1.0, 6.201321412481124e-07),
    ],
)
def test_known_values(gamma, logit, expected):
    logits = torch.tensor([[logit, 0.0]], dtype=torch.float64)
    loss = focal_loss(logits, torch.tensor([0]), gamma=gamma)
    assert loss.item() == pytest.approx(expected, rel=1e-13, abs=0)


def test_recorded(recorded, assert_recorded):
    assert_recorded(recorded, FocalLoss(**recorded["params"]))


def test_repr():
    assert (
        repr(FocalLoss()) == "FocalLoss(gamma=3.0, ignore_index=-100, reduction='mean')"
    )
