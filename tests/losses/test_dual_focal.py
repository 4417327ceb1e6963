import numpy as np
import pytest
import torch

from sklearn_calib.losses import DualFocalLoss, dual_focal_loss, focal_loss

REFERENCE = "loss_dual_focal"
NOT_FOLLOWED = {"edge-q": "holds q itself, which test_recorded_q compares"}


@pytest.mark.parametrize(
    ("gamma", "logits", "target", "expected"),
    [
        # mpmath with 50 digits: -(1 - p_t + q) ** gamma * log(p_t)
        (1.0, (2.0, 1.0, 0.0), 0, 0.2362025675491721),
        (5.0, (2.0, 1.0, 0.0), 1, 0.6074923919765068),
        (5.0, (2.0, 1.0, 0.0), 2, 1.502171147714108),
        (2.0, (1.0, 1.0, 0.0), 0, 0.4631954311843409),
        (2.0, (0.0, 0.0, 0.0), 0, 0.4882721282969376),
        (0.5, (40.0, 0.0, -1.0), 0, 1.8431416007424696e-26),
    ],
)
def test_known_values(gamma, logits, target, expected):
    logits = torch.tensor([logits], dtype=torch.float64)
    loss = dual_focal_loss(logits, torch.tensor([target]), gamma=gamma)
    assert loss.item() == pytest.approx(expected, rel=1e-13, abs=0)


@pytest.mark.parametrize(
    ("competitor", "expected"),
    [
        # mpmath as above, gamma 2, for a true class with 5, 3 and 1 below it.
        ("largest", [0.605142914062741, 1.648121101431335, 2.665952433092135]),
        (2, [0.46865050099679556, 1.5213437915613923, 2.551642428623232]),
        (3, [0.39435103654329484, 1.4026907031932672, 2.551642428623232]),
        ("mean2", [0.5347191416154126, 1.5840983126262562, 2.665952433092135]),
        ("mean3", [0.48555978774614833, 1.522403745748112, 2.665952433092135]),
        ("mean", [0.4210163096113871, 1.522403745748112, 2.665952433092135]),
        (0.1, [0.4018203298142119, 1.6704905906441412, 3.1213853614727403]),
        (0, [0.29237243723012996, 1.3358546988013835, 2.551642428623232]),
    ],
)
def test_known_values_of_competitors(competitor, expected):
    logits = torch.tensor([2.0, 1.5, 1.0, 0.5, 0.0, -1.0], dtype=torch.float64)
    values = dual_focal_loss(
        logits.expand(3, -1),
        torch.tensor([0, 2, 4]),
        gamma=2,
        competitor=competitor,
        reduction="none",
    )
    assert values.tolist() == pytest.approx(expected, rel=1e-13, abs=0)


@pytest.mark.parametrize("competitor", ["largest", 2, 3, "mean", "mean2", "mean3"])
def test_nothing_below_the_true_class(competitor):
    logits, target = torch.tensor([[0.0, 0.0, 1.0]]), torch.tensor([1])
    torch.testing.assert_close(
        dual_focal_loss(logits, target, gamma=2, competitor=competitor),
        focal_loss(logits, target, gamma=2),
    )


def test_recorded(recorded, assert_recorded):
    def merge(grad):
        """Two classes are tied at q in row 5; either may have the gradient."""
        if recorded["input"] == "edge":
            grad = grad.copy()
            grad[5, 2] += grad[5, 3]
            grad[5, 3] = 0
        return grad

    assert_recorded(recorded, DualFocalLoss(**recorded["params"]), merge=merge)


def test_recorded_q(reference):
    """With gamma 1 the loss is -(1 - p_t + q) log(p_t), from which q is computed."""
    data = reference(REFERENCE)
    (values,) = (c["values"] for c in data["expected"] if c["id"] == "edge-q")
    batch, proba = data["inputs"]["edge"], np.array(values["p_label"])
    logits = torch.tensor(batch["logits"], dtype=torch.float64)
    loss = dual_focal_loss(
        logits, torch.tensor(batch["labels"]), gamma=1, reduction="none"
    )
    certain = proba == 1
    q = loss.numpy()[~certain] / -np.log(proba[~certain]) - 1 + proba[~certain]
    np.testing.assert_allclose(q, np.array(values["q"])[~certain], atol=1e-12)


def test_no_competitor_in_constant_zero():
    logits, target = torch.tensor([[1.0, 0.0, -1.0]]), torch.tensor([1])
    torch.testing.assert_close(
        dual_focal_loss(logits, target, gamma=2, competitor=0.0),
        focal_loss(logits, target, gamma=2),
    )


@pytest.mark.parametrize("competitor", [2, 3])
def test_more_competitors_than_classes(competitor):
    """With two classes there is at most one competitor, and q is 0."""
    logits, target = torch.tensor([[1.0, 0.0]]), torch.tensor([0])
    torch.testing.assert_close(
        dual_focal_loss(logits, target, competitor=competitor),
        focal_loss(logits, target, gamma=5.0),
    )


@pytest.mark.parametrize("bad", ["second", 4, -0.1, 1.5, float("nan"), None, [1]])
def test_bad_competitor(bad):
    message = r"competitor must be one of \('largest', 2, 3, 'mean2', 'mean3', 'mean'\)"
    with pytest.raises(ValueError, match=message):
        DualFocalLoss(competitor=bad)
    with pytest.raises(ValueError, match=message):
        dual_focal_loss(torch.ones(1, 2), torch.tensor([0]), competitor=bad)
