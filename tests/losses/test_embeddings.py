"""Losses of embeddings: SupCon, the refinement loss, and the bound between them."""

import copy
import pickle

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given
from sklearn.base import clone
from torch.nn.functional import normalize

from sklearn_calib import losses
from sklearn_calib.losses import (
    RefinementLoss,
    SupConLoss,
    refinement_loss,
    supcon_loss,
)

REFERENCE = "loss_supcon"
NOT_FOLLOWED = {}
# How many of the recorded views have another one of their label.
N_ANCHORS = {"two_views": 24, "one_view": 7, "lonely": 5}

LOSSES = [SupConLoss(), SupConLoss(temperature=0.5), RefinementLoss()]
both = pytest.mark.parametrize("loss", LOSSES, ids=repr)


def random_batch(n_samples=6, n_views=2, width=4, *, seed=0):
    """Return unit vectors of shape (n_samples, n_views, width) and three labels."""
    generator = torch.Generator().manual_seed(seed)
    vectors = torch.randn(n_samples, n_views, width, generator=generator).double()
    return normalize(vectors, dim=-1), torch.arange(n_samples) % 3


def with_reduction(loss, reduction):
    return type(loss)(**{**loss.get_params(), "reduction": reduction})


@st.composite
def batches(draw):
    """Draw unit vectors, often equal or opposite, and their labels."""
    n_rows, width = draw(st.integers(2, 8)), draw(st.integers(1, 4))
    cells = st.integers(-1, 1) | st.floats(-1, 1)
    flat = draw(
        st.lists(cells, min_size=n_rows * width, max_size=n_rows * width).map(
            lambda cells: torch.tensor(cells, dtype=torch.float64)
        )
    )
    rows = flat.view(n_rows, width)
    rows[rows.norm(dim=1) < 0.1] = 1.0
    labels = st.lists(st.integers(0, 2), min_size=n_rows, max_size=n_rows)
    return normalize(rows), torch.tensor(draw(labels))


def test_recorded(recorded, reference):
    """Values and gradients through the normalisation, which is not part of the loss.

    In the authors' mean, anchors without a positive count as 0; here they are ignored.
    """
    data = reference(REFERENCE)
    batch, params = data["inputs"][recorded["input"]], recorded["params"]
    features = torch.tensor(batch["features"], dtype=torch.float64, requires_grad=True)
    labels = torch.tensor(batch["labels"])
    target = labels if params["labels"] else torch.arange(len(labels))
    loss = SupConLoss(
        temperature=params["temperature"],
        base_temperature=params["base_temperature"],
        reduction="sum",
    )
    embeddings = normalize(features, dim=-1)
    total = loss(embeddings, target)
    (total / embeddings.shape[:2].numel()).backward()

    n_anchors = (with_reduction(loss, "none")(embeddings, target) != 0).sum()
    assert n_anchors == N_ANCHORS[recorded["input"]]
    mean = with_reduction(loss, "mean")(embeddings, target)
    torch.testing.assert_close(mean, total / n_anchors)
    values = recorded["values"]
    expected = values["loss"] * embeddings[..., 0].numel()
    np.testing.assert_allclose(total.item(), expected, **data["tolerance"])
    np.testing.assert_allclose(features.grad, values["grad"], **data["tolerance"])


def test_base_temperature_is_a_factor():
    batch = random_batch()
    scaled = supcon_loss(*batch, temperature=0.1, base_temperature=0.07)
    torch.testing.assert_close(scaled, supcon_loss(*batch) / 0.7)


def test_refinement_by_definition():
    """The definition, sample by sample."""
    embeddings, target = random_batch(n_samples=7)
    rows, labels = embeddings.flatten(0, 1), target.repeat_interleave(2)
    expected = []
    for i, row in enumerate(rows):
        half = 0.5 * (row - rows).square().sum(1)
        positive = [half[j] for j in range(14) if j != i and labels[j] == labels[i]]
        negative = [half[j] for j in range(14) if labels[j] != labels[i]]
        expected.append(min(positive) - min(negative))
    values = refinement_loss(embeddings, target, reduction="none")
    torch.testing.assert_close(values, torch.stack(expected).view(7, 2))


@given(batch=batches(), temperature=st.floats(0.01, 1.0))
def test_supcon_is_above_refinement(batch, temperature):
    """For each anchor, and so for sums and means, at temperatures up to 1."""
    upper = supcon_loss(*batch, temperature=temperature, reduction="none")
    lower = refinement_loss(*batch, reduction="none")
    is_anchor = lower != 0
    assert (upper[is_anchor] > lower[is_anchor]).all()


def test_supcon_need_not_be_above_refinement_at_a_high_temperature():
    rows = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [1.0, 0.0]], dtype=torch.float64)
    batch = rows, torch.tensor([0, 0, 1])
    upper = supcon_loss(*batch, temperature=10.0, reduction="none")
    expected = [0.1 + np.log(2 * np.cosh(0.1)), np.log(2), 0.0]
    np.testing.assert_allclose(upper, expected)
    assert refinement_loss(*batch, reduction="none").tolist() == [2.0, 0.0, 0.0]
    assert upper.sum() < refinement_loss(*batch, reduction="sum") == 2.0
    assert supcon_loss(*batch, temperature=1.0, reduction="sum") > 2.0


@both
def test_anchors_without_positives_are_ignored(loss):
    """They are still candidates for other anchors."""
    embeddings, target = random_batch(n_views=1)
    target[5] = 9  # and so is the third sample, the only other one of its label
    value = loss(embeddings, target)
    each = with_reduction(loss, "none")(embeddings, target)
    assert each[[2, 5]].abs().sum() == 0
    torch.testing.assert_close(value, each.sum() / 4)
    torch.testing.assert_close(
        with_reduction(loss, "sum")(embeddings, target), 4 * value
    )
    assert not torch.equal(value, loss(embeddings[:5], target[:5]))


@both
@pytest.mark.parametrize("n_samples", [1, 3])
def test_no_anchors(loss, n_samples):
    """Without anchors the loss is 0 and the gradient is not NaN."""
    embeddings, target = random_batch(n_samples, n_views=1)
    embeddings.requires_grad_()
    value = loss(embeddings, target)
    value.backward()
    assert value == 0
    assert (embeddings.grad == 0).all()


def test_one_class_has_no_refinement():
    embeddings, _ = random_batch()
    assert refinement_loss(embeddings, torch.zeros(6, dtype=torch.long)) == 0
    assert supcon_loss(embeddings, torch.zeros(6, dtype=torch.long)) > 0


@both
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_gradient(loss, reduction):
    """Finite differences, with a sample without a positive."""
    embeddings, target = random_batch(n_samples=4, n_views=1, width=2)
    loss = with_reduction(loss, reduction)
    embeddings.requires_grad_()
    assert torch.autograd.gradcheck(lambda z: loss(z, target), embeddings)
    assert torch.autograd.gradgradcheck(lambda z: loss(z, target), embeddings)


@both
@given(batch=batches(), data=st.data())
def test_order_changes_nothing(loss, batch, data):
    embeddings, target = batch
    order = torch.tensor(data.draw(st.permutations(range(len(target)))))
    loss = with_reduction(loss, "none")
    torch.testing.assert_close(
        loss(embeddings[order], target[order]), loss(embeddings, target)[order]
    )


@both
def test_views_are_equivalent_to_samples(loss):
    embeddings, target = random_batch()
    flat = embeddings.flatten(0, 1), target.repeat_interleave(2)
    assert torch.equal(loss(embeddings, target), loss(*flat))
    assert with_reduction(loss, "none")(embeddings, target).shape == (6, 2)


@pytest.mark.parametrize(
    "loss", [SupConLoss(temperature=t) for t in (0.005, 100.0)] + [RefinementLoss()]
)
def test_finite_at_extremes(loss):
    """Equal and opposite vectors, in single precision."""
    rows = torch.tensor([[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [-1.0, 0.0]] * 2)
    rows.requires_grad_()
    value = loss(rows, torch.tensor([0, 1, 0, 1, 0, 0, 1, 1]))
    value.backward()
    assert torch.isfinite(value)
    assert torch.isfinite(rows.grad).all()


@both
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_is_widened(loss, dtype):
    embeddings, target = random_batch()
    embeddings = embeddings.to(dtype)
    value = loss(embeddings, target)
    assert value.dtype == torch.float32
    assert torch.equal(value, loss(embeddings.float(), target))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(value, loss(embeddings.float(), target))


@both
def test_copies(loss):
    batch = random_batch()
    twins = [clone(loss), copy.deepcopy(loss), pickle.loads(pickle.dumps(loss))]
    for twin in [
        *twins,
        eval(repr(loss), {n: getattr(losses, n) for n in losses.__all__}),
    ]:
        assert twin is not loss
        assert repr(twin) == repr(loss)
        assert torch.equal(twin(*batch), loss(*batch))


@both
@pytest.mark.parametrize(
    ("embeddings", "target", "error", "message"),
    [
        ([[1.0]], torch.tensor([0]), TypeError, "embeddings must be a torch.Tensor, g"),
        (
            torch.ones(2, 3),
            [0, 1],
            TypeError,
            "target must be a torch.Tensor, got list",
        ),
        (torch.ones(2, 3).long(), torch.tensor([0, 1]), TypeError, "floating point, g"),
        (
            torch.ones(2),
            torch.tensor([0, 1]),
            ValueError,
            r"\(N, d\) or \(N, views, d\), got shape \(2,\)\. Stack",
        ),
        (
            torch.ones(0, 3),
            torch.tensor([0]),
            ValueError,
            r"embeddings must be non-empty and have .*, got shape \(0, 3\)",
        ),
        (torch.ones(2, 3), torch.tensor([0]), ValueError, r"shape \(2,\).*got \(1,\)"),
        (
            torch.ones(2, 3),
            torch.ones(2),
            TypeError,
            "target must contain integers, got torch.float32",
        ),
    ],
)
def test_bad_batch(loss, embeddings, target, error, message):
    with pytest.raises(error, match=message):
        loss(embeddings, target)


@pytest.mark.parametrize("name", ["temperature", "base_temperature"])
@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (0, ValueError, "temperature must be finite and > 0.*, got 0. A common val"),
        (-1.0, ValueError, "temperature must be .*got -1.0"),
        (float("nan"), ValueError, "temperature must be .*got nan"),
        ("1", TypeError, "temperature must be a number.*got '1'"),
    ],
)
def test_bad_temperature(name, value, error, message):
    with pytest.raises(error, match=message):
        SupConLoss(**{name: value})
    with pytest.raises(error, match=message):
        supcon_loss(*random_batch(), **{name: value})


def test_bad_reduction():
    for make in (SupConLoss, RefinementLoss):
        with pytest.raises(ValueError, match=r"reduction must be one of .*'men'\. Did"):
            make(reduction="men")
    for function in (supcon_loss, refinement_loss):
        with pytest.raises(ValueError, match=r"reduction must be one of .*'men'\. Did"):
            function(*random_batch(), reduction="men")


def test_losses_of_embeddings_are_not_registered():
    """Losses of embeddings cannot be used for logits."""
    assert not {"supcon", "refinement"} & {*losses.get_loss_names()}


def value_and_gradient(loss, rows, target):
    rows = rows.detach().requires_grad_()
    value = loss(rows, target)
    return value.detach().double(), torch.autograd.grad(value, rows)[0].double()


@both
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_single_precision(loss, reduction):
    rows, target = random_batch()
    function = with_reduction(loss, reduction)
    result, gradient = value_and_gradient(function, rows.float(), target)
    expected, slopes = value_and_gradient(function, rows, target)
    torch.testing.assert_close(result, expected, rtol=1e-4, atol=0)
    torch.testing.assert_close(gradient, slopes, rtol=1e-4, atol=1e-6)


@both
def test_squares_of_diverged_embeddings(loss):
    embeddings, target = random_batch()
    with pytest.raises(ValueError, match="embeddings must be so small that no squ"):
        loss(1e30 * embeddings.float(), target)


@both
def test_devices(loss):
    embeddings, target = random_batch()
    message = "target must be on the device of embeddings, cpu, got meta"
    with pytest.raises(ValueError, match=message):
        loss(embeddings, target.to("meta"))
