import warnings

import numpy as np
import pytest
import torch
from scipy.special import lambertw

from sklearn_calib.losses import InverseFocalLoss, inverse_focal_loss

REFERENCE = "loss_inverse_focal"
CLIP = (
    "the code clips p_t at 1e-9 in the weight, ours does not: with gamma 3 the two "
    "rows whose p_t is 4e-44 differ by 3e-9 of their loss, more than the tolerance"
)
# Up to this gamma, the loss decreases in p_t.
GAMMA_MAX = 1 / lambertw(np.exp(-1)).real
NOT_FOLLOWED = {"edge-gamma3.0-mean": CLIP, "edge-gamma3.0-sum": CLIP}


@pytest.mark.parametrize(
    ("gamma", "logit", "expected"),
    [
        # mpmath with 50 digits: -(1 + p) ** gamma * log(p) with p = sigmoid(logit)
        (0.0, 40.0, 4.248354255291589e-18),
        (1.0, 0.0, 1.0397207708399179),
        (1.0, 40.0, 8.496708510583178e-18),
        (2.5, 3.0, 0.2588463543134793),
        (3.0, -2.0, 2.9818053996512788),
        (3.0, -40.0, 40.0),
        (3.5, -1.0, 3.0227120945862014),
    ],
)
def test_known_values(gamma, logit, expected):
    logits = torch.tensor([[logit, 0.0]], dtype=torch.float64)
    loss = inverse_focal_loss(logits, torch.tensor([0]), gamma=gamma)
    assert loss.item() == pytest.approx(expected, rel=1e-13, abs=0)


def test_recorded(recorded, assert_recorded):
    params = recorded["params"]
    assert_recorded(
        recorded, InverseFocalLoss(gamma=params["gamma"], reduction=params["reduction"])
    )


def slopes(gamma):
    """Return the derivative in the log-odds over a fine grid of p_t."""
    proba = torch.linspace(0.001, 0.999, 9999, dtype=torch.float64)
    logits = torch.stack([proba.logit(), torch.zeros_like(proba)], 1).requires_grad_()
    target = torch.zeros(len(proba), dtype=torch.int64)
    inverse_focal_loss(logits, target, gamma=gamma, reduction="sum").backward()
    return proba, logits.grad[:, 0]


def test_decreasing_up_to_gamma_max():
    _, slope = slopes(GAMMA_MAX)
    assert (slope < 1e-15).all()


def test_increasing_above_gamma_max():
    with pytest.warns(UserWarning, match=r"gamma must be at most 3\.591"):
        proba, slope = slopes(GAMMA_MAX + 1e-3)
    assert proba[slope > 0].mean() == pytest.approx(1 / GAMMA_MAX, abs=1e-3)


@pytest.mark.parametrize("gamma", [0, 3.59, GAMMA_MAX * (1 - 1e-15)])
def test_no_warning_up_to_gamma_max(gamma):
    inverse_focal_loss(torch.ones(1, 2), torch.tensor([0]), gamma=gamma)
    InverseFocalLoss(gamma=gamma)


def test_warning_just_above_gamma_max():
    with pytest.warns(UserWarning, match=r"gamma must be at most 3\.591"):
        InverseFocalLoss(gamma=GAMMA_MAX * (1 + 1e-15))


def test_module_warns_only_in_its_constructor():
    with pytest.warns(UserWarning, match=r"got 3\.6\. Around p_t = 0\.278") as caught:
        loss = InverseFocalLoss(gamma=3.6)
    assert [warning.filename for warning in caught] == [__file__]
    with warnings.catch_warnings(action="error"):
        loss(torch.ones(1, 2), torch.tensor([0]))
