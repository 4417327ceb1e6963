import pytest
import torch

from sklearn_calib.losses import (
    CrossEntropyLoss,
    DCALoss,
    FocalLoss,
    MDCALoss,
    dca_loss,
    mdca_loss,
)

REFERENCE = "loss_mdca"
NOT_FOLLOWED = {}


def find_base(params, n_classes):
    """Return the base of a recorded case."""
    kind = params.get("loss", "NLL").partition("+")[0]
    # The authors distribute alpha over the other classes, not over all classes.
    smoothing = params.get("alpha", 0) * n_classes / (n_classes - 1)
    bases = {
        "NLL": CrossEntropyLoss(),
        "FL": FocalLoss(gamma=params.get("gamma", 0)),
        "LS": CrossEntropyLoss(label_smoothing=smoothing),
    }
    return bases[kind]


def test_recorded(recorded, assert_recorded, reference):
    inputs = reference(REFERENCE)["inputs"][recorded["input"]]
    base = find_base(recorded["params"], len(inputs["logits"][0]))
    if recorded["id"].endswith("-MDCA") and "+" not in recorded["id"]:
        assert_recorded(recorded, lambda *batch: mdca_loss(*batch) - base(*batch))
        return
    loss = DCALoss if recorded["id"].endswith("+DCA") else MDCALoss
    assert_recorded(recorded, loss(lambd=recorded["params"]["beta"], base=base))


def test_known_values():
    """One class of three is absent, and all predictions are correct."""
    proba = torch.tensor(
        [[0.7, 0.2, 0.1], [0.3, 0.6, 0.1], [0.5, 0.4, 0.1]], dtype=torch.float64
    )
    batch = proba.log(), torch.tensor([0, 1, 0])
    risk = torch.nn.functional.cross_entropy(*batch).item()
    # The mean probabilities are (0.5, 0.4, 0.1), the frequencies (2/3, 1/3, 0); the
    # mean confidence is 0.6.
    gap = (1 / 6 + 1 / 15 + 1 / 10) / 3
    assert mdca_loss(*batch, lambd=2).item() - risk == pytest.approx(2 * gap)
    assert dca_loss(*batch, lambd=2).item() - risk == pytest.approx(0.8)


@pytest.mark.parametrize("loss", [DCALoss, MDCALoss])
def test_base_by_name_and_by_instance(loss):
    generator = torch.Generator().manual_seed(0)
    batch = torch.randn(9, 3, generator=generator), torch.tensor([0, 1, 2] * 3)
    by_name = loss(base="focal", base__gamma=1.5)(*batch)
    assert torch.equal(by_name, loss(base=FocalLoss(gamma=1.5))(*batch))
    assert not torch.equal(by_name, loss()(*batch))
