"""MbLS and the confidence penalties, which are recorded in the same file."""

import pytest
import torch

from sklearn_calib.losses import (
    ConfidencePenaltyLoss,
    FocalLoss,
    MbLSLoss,
    confidence_penalty_loss,
    mbls_loss,
)

REFERENCE = "loss_mbls"
NOT_FOLLOWED = {}


def test_recorded(recorded, assert_recorded, reference):
    params, kind = recorded["params"], recorded["id"].partition("-")[2]
    lambd = params["alpha"]
    if kind == "entropy":
        # The authors take the mean over the classes.
        lambd /= len(reference(REFERENCE)["inputs"][recorded["input"]]["logits"][0])
    if kind in ("entropy", "l1"):
        assert_recorded(recorded, ConfidencePenaltyLoss(penalty=kind, lambd=lambd))
    else:
        assert_recorded(recorded, MbLSLoss(margin=params["margin"], lambd=lambd))


@pytest.mark.parametrize(
    ("params", "logits", "expected"),
    [
        # mpmath with 50 digits; within the margin the loss is the base's
        ({}, [9.0, 0.0, 0.0], 0.0002467891532250189),
        ({}, [40.0, 0.0, 10.0], 1.6666666666667602),
        ({"margin": 2.0, "lambd": 1.5}, [3.0, 0.0, -1.0], 1.5658839037574293),
    ],
)
def test_known_values(params, logits, expected):
    logits = torch.tensor([logits], dtype=torch.float64)
    loss = mbls_loss(logits, torch.tensor([0]), **params)
    assert loss.item() == pytest.approx(expected, rel=1e-13, abs=0)


@pytest.mark.parametrize(
    ("penalty", "logit", "expected"),
    [
        # mpmath with 50 digits, two classes and lambd 0.5
        ("entropy", 0.0, 0.34657359027997264),
        ("entropy", 3.0, -0.04684513397947914),
        ("entropy", 9.0, -0.0004935744970764133),
        ("l1", 0.0, 0.6931471805599453),
        ("l1", -2.0, 2.507725089020855),
    ],
)
def test_known_values_of_confidence(penalty, logit, expected):
    logits = torch.tensor([[logit, 0.0]], dtype=torch.float64)
    params = {"penalty": penalty, "lambd": 0.5}
    loss = confidence_penalty_loss(logits, torch.tensor([0]), **params)
    assert loss.item() == pytest.approx(expected, rel=1e-13, abs=0)


@pytest.mark.parametrize("penalty", ["entropy", "l1"])
def test_least_confident_is_least_penalised(penalty):
    """The penalty increases on the path from uniform to certain predictions."""
    logits = torch.tensor([[0.0], [0.1], [1.0], [5.0]]) * torch.eye(3)[0]
    batch = logits, torch.tensor([0] * 4)
    both = ConfidencePenaltyLoss(penalty=penalty, lambd=1.0, reduction="none")(*batch)
    of_base = ConfidencePenaltyLoss(lambd=0.0, reduction="none")(*batch)
    assert ((both - of_base).diff() > 0).all()


@pytest.mark.parametrize("loss", [ConfidencePenaltyLoss, MbLSLoss])
def test_certainty_is_penalised(loss):
    """If the gradient of cross-entropy vanishes, the penalty reduces the distances."""
    logits = torch.tensor([[20.0, 0.0], [0.0, 15.0]]).double().requires_grad_()
    loss()(logits, torch.tensor([0, 1])).backward()
    assert (logits.grad.diagonal() > 0).all()
    assert (logits.grad.flip(1).diagonal() < 0).all()


def test_penalties_of_samples_compose():
    """Both are per-sample losses, so that one may be the base of the other."""
    generator = torch.Generator().manual_seed(0)
    batch = 9 * torch.randn(8, 3, generator=generator), torch.tensor([0, 1] * 4)
    loss = MbLSLoss(base="confidence_penalty", base__base="focal", base__penalty="l1")
    expected = (
        FocalLoss()(*batch)
        + (MbLSLoss()(*batch) - MbLSLoss(lambd=0)(*batch))
        + ConfidencePenaltyLoss(penalty="l1")(*batch)
        - ConfidencePenaltyLoss(lambd=0)(*batch)
    )
    torch.testing.assert_close(loss(*batch), expected)


def test_bad_penalty():
    message = r"penalty must be one of 'entropy', 'l1', got 'l2'\.$"
    with pytest.raises(ValueError, match=message):
        ConfidencePenaltyLoss(penalty="l2")
    with pytest.raises(ValueError, match=message):
        confidence_penalty_loss(torch.ones(1, 2), torch.tensor([0]), penalty="l2")
