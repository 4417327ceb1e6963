import numpy as np
import pytest
import torch

from sklearn_calib.losses import (
    SampleDependentFocalLoss,
    dual_focal_loss,
    focal_loss,
    sample_dependent_focal_loss,
)

REFERENCE = "loss_focal_flsd"
NOT_FOLLOWED = {
    "get_gamma": "a helper of the authors that their loss does not call: it tells how "
    "they came to 5 and 3, which are rounded from it",
}


@pytest.mark.parametrize(
    ("logit", "expected"),
    [
        # mpmath with 50 digits: the focal loss, p = sigmoid(logit), gamma 5 below 0.2
        (-2.0, 1.1275404134067648),
        (-1.0, 0.5131068442773801),
        (0.0, 0.08664339756999316),
        (2.0, 0.0002149899600111477),
        (40.0, 3.257488532207521e-70),
    ],
)
def test_known_values(logit, expected):
    logits = torch.tensor([[logit, 0.0]], dtype=torch.float64)
    loss = sample_dependent_focal_loss(logits, torch.tensor([0]))
    assert loss.item() == pytest.approx(expected, rel=1e-13, abs=0)


def test_recorded(recorded, assert_recorded):
    """The authors' code has a third interval above 0.5."""
    params = recorded["params"]
    loss = SampleDependentFocalLoss(
        gammas=(5, 3, params["gamma"]),
        thresholds=(0.2, 0.5),
        reduction=params["reduction"],
    )
    assert_recorded(recorded, loss)


@pytest.mark.parametrize("name", ["small", "edge"])
def test_recorded_dual(reference, name):
    """DualFocal-SD uses p_t - q instead of p_t."""
    data = reference("loss_adadualfocal")
    (case,) = (c for c in data["expected"] if c["id"] == f"{name}-sd53")
    batch, grad = data["inputs"][name], np.array(case["values"]["grad"], dtype=float)
    logits = torch.tensor(batch["logits"], dtype=torch.float64, requires_grad=True)
    loss = SampleDependentFocalLoss(competitor="largest", reduction="sum")
    value = loss(logits, torch.tensor(batch["labels"]))
    value.backward()
    np.testing.assert_allclose(value.item(), case["values"]["loss"], rtol=1e-9)
    ours = logits.grad.numpy()
    if name == "edge":
        # Two classes are tied at q in row 5; either may have the gradient.
        ours[5, 2:4] = ours[5, 2:4].sum()
        grad[5, 2:4] = grad[5, 2:4].sum()
    np.testing.assert_allclose(ours, grad, **data["tolerance"])


@pytest.mark.parametrize("competitor", ["largest", 2, "mean", 0.1])
def test_one_gamma_is_dual_focal(competitor):
    generator = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(50, 4, generator=generator)
    target = torch.randint(4, (50,), generator=generator)
    torch.testing.assert_close(
        sample_dependent_focal_loss(
            logits, target, gammas=(2.5, 2.5), competitor=competitor
        ),
        dual_focal_loss(logits, target, gamma=2.5, competitor=competitor),
    )


def test_third_interval_equals_the_paper_with_gamma_3():
    generator = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(50, 4, generator=generator)
    target = torch.randint(4, (50,), generator=generator)
    paper = sample_dependent_focal_loss(logits, target)
    code = sample_dependent_focal_loss(
        logits, target, gammas=(5, 3, 3), thresholds=(0.2, 0.5)
    )
    assert torch.equal(paper, code)


def test_threshold_belongs_to_the_interval_above():
    """Two equal logits have a probability of exactly one half."""
    logits, target = torch.zeros(1, 2), torch.tensor([0])
    loss = sample_dependent_focal_loss(
        logits, target, gammas=(4.0, 1.0), thresholds=[0.5]
    )
    assert torch.equal(loss, focal_loss(logits, target, gamma=1.0))


@pytest.mark.parametrize("param", ["gammas", "thresholds"])
def test_schedule_of_wrong_type(param):
    with pytest.raises(
        TypeError, match=rf"{param} must be a tuple or a list, got 0\.5"
    ):
        SampleDependentFocalLoss(**{param: 0.5})


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"gammas": (5.0, -1.0)}, r"gammas\[1\] must be finite and >= 0, got -1\.0"),
        ({"gammas": (5.0,)}, r"one more value than thresholds, got \(5\.0,\) and"),
        ({"competitor": "second"}, r"competitor must be one of \('largest', 2, 3,"),
        ({"thresholds": (0.0,)}, r"be increasing and in \(0, 1\), got \(0\.0,\)"),
        ({"thresholds": (1.0,)}, r"be increasing and in \(0, 1\), got \(1\.0,\)"),
        ({"thresholds": (float("nan"),)}, "be increasing and in"),
        ({"thresholds": [None]}, r"be increasing and in \(0, 1\), got \[None\]"),
        ({"thresholds": ["0.2"]}, "be increasing and in"),
        (
            {"gammas": (1, 2, 3), "thresholds": (0.5, 0.2)},
            r"be increasing and in \(0, 1\), got \(0\.5, 0\.2\)",
        ),
    ],
)
def test_bad_schedule(params, message):
    with pytest.raises(ValueError, match=message):
        SampleDependentFocalLoss(**params)
    with pytest.raises(ValueError, match=message):
        sample_dependent_focal_loss(torch.ones(1, 2), torch.tensor([0]), **params)
