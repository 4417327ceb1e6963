import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given

from sklearn_calib.losses import (
    AdaFocalLoss,
    adafocal_loss,
    focal_loss,
    inverse_focal_loss,
)
from sklearn_calib.losses._focal.adafocal import updated_gamma

REFERENCE = "loss_adafocal"
SEQUENCES = ["small-lambda1", "edge-lambda1", "small-lambda8"]
RULE = {"lambd": 1.0, "gamma_max": 20.0, "gamma_min": -2.0, "switch": 0.2}
EDGES = [0.25, 0.5, 0.75]


def float64(values):
    return torch.tensor(values, dtype=torch.float64)


def recorded_case(reference, name):
    (case,) = (c for c in reference(REFERENCE)["expected"] if c["id"] == name)
    return case


def random_batch(n_samples=40):
    generator = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(n_samples, 4, generator=generator, dtype=torch.float64)
    return logits, torch.randint(4, (n_samples,), generator=generator)


@pytest.mark.parametrize(
    ("gamma", "logits", "target", "expected"),
    [
        # mpmath with 50 digits: (1 - p) ** gamma or (1 + p) ** -gamma, times -log(p)
        (3.0, (2.0, 1.0, 0.0), 0, 0.015291056324798973),
        (-2.0, (2.0, 1.0, 0.0), 1, 2.1808728464684908),
        (0.5, (0.0, 0.0), 0, 0.4901290717342736),
        (0.5, (40.0, 0.0, -1.0), 0, 1.4008860777885198e-26),
        (-2.0, (40.0, 0.0, -1.0), 0, 2.3244945778506311e-17),
        (20.0, (-40.0, 0.0), 0, 39.999999999999997),
        (-1.5, (0.0, 4.0, 3.0), 0, 4.4125948450550331),
    ],
)
def test_known_values(gamma, logits, target, expected):
    batch = float64([logits]), torch.tensor([target])
    loss = adafocal_loss(*batch, gamma=float64([gamma]), edges=float64([]))
    assert loss.item() == pytest.approx(expected, rel=1e-13, abs=0)


@pytest.mark.parametrize("case", SEQUENCES)
@pytest.mark.parametrize("stage", range(5))
def test_recorded_sequences(case, stage, reference):
    """With the edges of the authors' code, and gamma computed from its gaps."""
    recorded, data = recorded_case(reference, case), reference(REFERENCE)
    now, following = recorded["values"]["stages"][stage : stage + 2]
    loss = AdaFocalLoss(n_bins=15, reduction="sum").double()
    state = {"gamma": float64(now["gamma"]), "edges": float64(now["lower"][1:])}
    loss.load_state_dict(state)
    batch = data["inputs"][recorded["input"]]
    logits = float64(batch["logits"]).requires_grad_()
    value = loss(logits, torch.tensor(batch["labels"]))
    value.backward()
    # The authors' gradient is nan where p_t is 1 and gamma below 1; the true one is 0
    # to any precision there.
    grad = np.nan_to_num(np.array(now["grad"], dtype=float), nan=0.0)
    np.testing.assert_allclose(value.item(), now["loss"], **data["tolerance"])
    np.testing.assert_allclose(logits.grad, grad, **data["tolerance"])

    lambd = recorded["params"]["adafocal_lambda"]
    gap = float64(now["validation"]["gap"])
    gamma = updated_gamma(state["gamma"], gap, **RULE | {"lambd": lambd})
    np.testing.assert_allclose(gamma, following["gamma"], **data["tolerance"])


def test_recorded_update_rule(reference):
    """Six updates, with switches in both directions and both limits."""
    recorded = recorded_case(reference, "update-rule")
    gamma = torch.ones(4, dtype=torch.float64)
    for gap, expected in zip(*recorded["values"].values(), strict=True):
        gamma = updated_gamma(gamma, float64(gap), **RULE)
        np.testing.assert_allclose(gamma, expected, **recorded["tolerance"])


def test_update_rule():
    """By hand: mean confidences 0.65 and 0.85, accuracies 1 and 0.5."""
    loss = AdaFocalLoss(n_bins=2, lambd=4.0).double()
    proba = [[0.6, 0.4], [0.7, 0.3], [0.8, 0.2], [0.9, 0.1]]
    growth = np.exp(4 * 0.35)
    expected = [[1 / growth, growth], [-0.2, growth**2], [-0.2 * growth, 20.0]]
    for gamma in expected:
        record = loss.update([0, 0, 1, 0], proba)
        np.testing.assert_allclose(record["calibration_gap"], [-0.35, 0.35], atol=1e-7)
        np.testing.assert_allclose(record["gamma"], gamma, rtol=1e-6)
        np.testing.assert_allclose(loss.gamma, gamma, rtol=1e-6)


def test_one_bin_by_default():
    """Gamma is multiplied by exp(20 * gap), with the gap of all samples."""
    loss = AdaFocalLoss().double()
    proba, growth = [[0.6, 0.4], [0.7, 0.3], [0.2, 0.8]], np.exp(20 * (0.7 - 2 / 3))
    batch = random_batch()
    for gamma in (growth, growth**2):
        record = loss.update([0, 1, 1], proba)
        np.testing.assert_allclose(record["gamma"], [gamma], rtol=1e-5)
        assert record["bin_edges"] == [0, 1]
        expected = focal_loss(*batch, gamma=record["gamma"][0])
        torch.testing.assert_close(loss(*batch), expected)
    assert loss.update([0, 0, 1], proba)["gamma"] == [-0.2]  # by exp(-20 * 0.3)
    torch.testing.assert_close(loss(*batch), inverse_focal_loss(*batch, gamma=0.2))


@given(
    gamma=st.floats(0.2, 20) | st.floats(-2, -0.2),
    gap=st.floats(-1, 1),
    lambd=st.floats(0, 1e4),
)
def test_sign_of_the_gap(gamma, gap, lambd):
    """Overconfidence never lowers gamma, underconfidence never raises it."""
    after = updated_gamma(
        float64([gamma]), float64([gap]), **RULE | {"lambd": lambd}
    ).item()
    assert -2 <= after <= 20
    assert abs(after) >= 0.2
    assert (after - gamma) * gap >= 0


def test_a_gamma_of_zero_counts_as_focal():
    assert updated_gamma(float64([0.0]), float64([1.0]), **RULE) == -0.2


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("switch", [0.0, 0.1, 0.2, 0.3, 0.5, 0.7])
@pytest.mark.parametrize("sign", [-1, 1])
def test_a_gamma_at_the_switch_stays(dtype, switch, sign):
    """0.7 in single precision is below 0.7 in double."""
    gamma = torch.tensor([sign * switch], dtype=dtype)
    rule = RULE | {"switch": switch}
    after = updated_gamma(gamma, torch.zeros(1, dtype=dtype), **rule)
    assert after.dtype == dtype
    assert torch.equal(after, gamma)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("gamma", [1.0, -2.0])
def test_gamma_without_limit_stays_finite(dtype, gamma):
    loss = AdaFocalLoss(gamma_initial=gamma, gamma_max=float("inf"), lambd=100.0)
    loss = loss.to(dtype)
    for _ in range(5):
        loss.update([0, 0], [[0.0, 1.0], [0.0, 1.0]])
    assert loss.gamma.item() == pytest.approx(1e18)
    for _ in range(2):
        loss.update([1, 1], [[0.4, 0.6], [0.4, 0.6]])
    assert loss.gamma == torch.tensor(-0.2, dtype=dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("gamma", [0.0, 1e-3, 0.5, 20.0, 1e6, 1e18, -0.2, -2.0, -100.0])
@pytest.mark.parametrize("scale", [0.0, 1e-8, 1.0, 14.0, 40.0, 80.0, 88.0, 200.0, 1e4])
def test_finite_at_saturation(dtype, gamma, scale):
    logits = scale * torch.tensor([[1, 0, 0], [-1, 0, 0], [1, 1, 0]], dtype=dtype)
    logits.requires_grad_()
    gamma = torch.tensor([gamma], dtype=dtype)
    edges = torch.tensor([], dtype=dtype)
    target = torch.tensor([0, 0, 1])
    loss = adafocal_loss(logits, target, gamma=gamma, edges=edges, reduction="sum")
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(logits.grad).all()


def test_gradient():
    """Focal and inverse focal samples in one batch."""
    logits, target = (each[:4] for each in random_batch(7))
    state = {"gamma": float64([0.5, -2.0, 3.0, -0.2]), "edges": float64(EDGES)}
    bins = torch.bucketize(logits.softmax(1)[range(4), target], state["edges"])
    assert set(bins.tolist()) == {0, 1, 2, 3}

    def values(logits):
        return adafocal_loss(logits, target, reduction="none", **state)

    logits.requires_grad_()
    assert torch.autograd.gradcheck(values, logits)
    assert torch.autograd.gradgradcheck(values, logits)


@pytest.mark.parametrize("gamma", [0.0, 0.5, 3.0, -0.2, -2.0])
def test_one_gamma_is_the_focal_or_the_inverse_focal_loss(gamma):
    logits, target = random_batch()
    gammas, edges = torch.full((4,), gamma), float64(EDGES)
    values = adafocal_loss(logits, target, gamma=gammas, edges=edges, reduction="none")
    fixed = focal_loss if gamma >= 0 else inverse_focal_loss
    expected = fixed(logits, target, gamma=abs(gammas[0].item()), reduction="none")
    torch.testing.assert_close(values, expected)


def test_an_edge_belongs_to_the_bin_below():
    """Two equal logits have a probability of exactly one half."""
    logits, target = torch.zeros(1, 2), torch.tensor([0])
    gamma, half = torch.tensor([1.0, 2.0]), torch.tensor([0.5])
    below = adafocal_loss(logits, target, gamma=gamma, edges=half)
    above = adafocal_loss(
        logits, target, gamma=gamma, edges=half.nextafter(torch.zeros(1))
    )
    torch.testing.assert_close(below, focal_loss(logits, target, gamma=1.0))
    torch.testing.assert_close(above, focal_loss(logits, target, gamma=2.0))


def test_unused_bins_contain_no_sample():
    logits, target = random_batch()
    edges = float64([0.5, np.inf, np.inf])
    gamma = float64([1.0, 2.0, np.nan, np.nan])
    assert torch.isfinite(adafocal_loss(logits, target, gamma=gamma, edges=edges))


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"gamma_max": 0.1}, r"gamma_max must be in \[0\.2, inf\], got 0\.1\. The pap"),
        ({"gamma_max": float("nan")}, r"gamma_max must be in \[0\.2, inf\], got nan"),
        ({"gamma_min": 0}, r"gamma_min must be in \[-100, -0\.2\], got 0\. The pap"),
        ({"gamma_min": -1e3}, r"gamma_min must be in \[-100, -0\.2\], got -1000\.0"),
        ({"gamma_initial": 21}, r"gamma_initial must be in \[-2, 20\], got 21\. The"),
        ({"gamma_initial": -3}, r"gamma_initial must be in \[-2, 20\], got -3\. The"),
        ({"switch": -0.2}, "switch must be finite and >= 0, got -0.2. Pass 0 to"),
        ({"switch": 3}, r"gamma_min must be in \[-100, -3\], got -2\.0\. The paper"),
        ({"lambd": -1}, "lambd must be finite and >= 0, got -1. Pass 0 to disable"),
    ],
)
def test_bad_limits(params, message):
    with pytest.raises(ValueError, match=message):
        AdaFocalLoss(**params)


@pytest.mark.parametrize("name", ["gamma_max", "gamma_min", "gamma_initial"])
@pytest.mark.parametrize("bad", ["3", True, None, [1.0]])
def test_limits_of_wrong_type(name, bad):
    with pytest.raises(TypeError, match=rf"{name} must be a number, in \[.*, got "):
        AdaFocalLoss(**{name: bad})


def test_limits_at_their_bounds():
    loss = AdaFocalLoss(
        gamma_max=float("inf"), gamma_min=-0.2, switch=0.2, gamma_initial=-0.2
    )
    assert (loss.gamma == torch.tensor(-0.2)).all()


@pytest.mark.parametrize(
    ("gamma", "edges", "error", "message"),
    [
        ([1.0], torch.ones(0), TypeError, "gamma must be a torch.Tensor, got list"),
        (torch.ones(1), [], TypeError, "edges must be a torch.Tensor, got list"),
        (torch.ones(2), torch.ones(2), ValueError, r"gamma must .*\(3,\).*got \(2,\)"),
        (torch.ones(2), torch.ones(1, 1), ValueError, r"edges .*\(1,\).*got \(1, 1\)"),
    ],
)
def test_bad_bins(gamma, edges, error, message):
    with pytest.raises(error, match=message):
        adafocal_loss(torch.ones(1, 2), torch.tensor([0]), gamma=gamma, edges=edges)
