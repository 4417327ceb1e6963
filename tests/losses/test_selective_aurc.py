import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.datasets import make_classification

from sklearn_calib import NeuralClassifier
from sklearn_calib.losses import SelectiveAURCLoss, selective_aurc_loss

CASES = ["small-q0.25", "small-qNone", "binary-q0.25", "binary-qNone"]


def random_batch(n_samples=40, *, seed=0):
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(n_samples, 4, generator=generator, dtype=torch.float64)
    return logits, torch.randint(4, (n_samples,), generator=generator)


@pytest.mark.parametrize("case", CASES)
def test_recorded(case, reference):
    """Two batches; the loss of the second uses the histogram of both."""
    data = reference("loss_selective_au")
    (recorded,) = (each for each in data["expected"] if each["id"] == case)
    batch = data["inputs"][recorded["input"]]
    target = torch.tensor(batch["labels"])
    loss = SelectiveAURCLoss(quantile=recorded["params"]["conf_quantile"]).double()
    for call in recorded["values"]["calls"]:
        logits = torch.tensor(batch["logits"], dtype=torch.float64, requires_grad=True)
        value = loss(call["scale"] * logits, target)
        value.backward()
        np.testing.assert_allclose(value.item(), call["loss"], **data["tolerance"])
        np.testing.assert_allclose(logits.grad, call["grad"], **data["tolerance"])


def test_formula():
    """One sample above the quantile and one below, by hand."""
    p = np.array([[0.9, 0.1], [0.4, 0.6]])
    loss = selective_aurc_loss(
        torch.tensor(np.log(p)), torch.tensor([0, 0]), quantile=0.0, reduction="none"
    )
    centres = (np.array([57, 38]) + 0.5) / 64  # of the bins of 0.9 and 0.6
    rank = np.mean(1 / (1 + np.exp((centres - 0.6) / 0.05)))
    rank = max(rank, 1 / 3)
    np.testing.assert_allclose(loss, -np.log1p(-rank) * -np.log(p[:, 0]))


def test_every_rank_matters_with_quantile_1():
    """With a small bandwidth G is the fraction of less confident samples."""
    logits, target = random_batch()
    loss = selective_aurc_loss(
        logits, target, quantile=1.0, bandwidth=1e-5, reduction="none",
        histogram=torch.zeros(10**5),
    )  # fmt: skip
    score = logits.softmax(1).amax(1)
    below = (score[:, None] > score).double().mean(1) + 0.5 / 40
    expected = -torch.log1p(-below) * F.cross_entropy(logits, target, reduction="none")
    inside = (below > 1 / 41) & (below < 40 / 41)
    # The step of the bin that contains the score is between 0 and 1.
    torch.testing.assert_close(loss[inside], expected[inside], rtol=0.6, atol=0)


def test_histogram_is_kept_until_reset():
    first, second = random_batch(), random_batch(seed=1)
    loss = SelectiveAURCLoss().double()
    alone = loss(*second)
    loss.start_epoch()
    loss(*first)
    together = loss(*second)
    assert loss.histogram.sum() == 80
    assert together != alone
    loss.start_epoch()
    assert loss(*second) == alone


def test_histogram_changes_only_in_training_mode():
    loss = SelectiveAURCLoss()
    loss(*random_batch())
    before = loss.histogram.clone()
    loss.eval()(*random_batch(seed=1))
    assert torch.equal(loss.histogram, before)


def test_histogram_uses_sample_weights():
    loss = SelectiveAURCLoss()
    loss(*random_batch(3), sample_weight=torch.tensor([0.0, 2.0, 3.0]))
    assert loss.histogram.sum() == 5


def test_histogram_leaves_out_ignored_samples():
    loss = SelectiveAURCLoss(ignore_index=3)
    logits, target = random_batch()
    loss(logits, target)
    expected = SelectiveAURCLoss()
    expected(logits[target != 3], target[target != 3])
    assert torch.equal(loss.histogram, expected.histogram)


def test_estimator_resets_the_histogram_in_each_epoch():
    X, y = make_classification(n_samples=100, random_state=0)
    net = NeuralClassifier(loss="selective_aurc", max_epochs=3).fit(X, y)
    assert net.criterion_.histogram.sum() == 100


def test_gradcheck():
    logits, target = random_batch(8)
    assert torch.autograd.gradcheck(
        lambda z: selective_aurc_loss(z, target), logits.requires_grad_()
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_saturation(dtype):
    logits = torch.tensor([[1e4, 0.0], [0.0, 1e4]], dtype=dtype, requires_grad=True)
    loss = selective_aurc_loss(logits, torch.tensor([0, 0]))
    loss.backward()
    # Both confidences are 1, in the last bin, whose centre is 1 / 128 below.
    rank = 1 / (1 + math.exp(-1 / 128 / 0.05))
    assert loss.item() == pytest.approx(-math.log1p(-rank) * 1e4 / 2, rel=1e-5)
    assert torch.isfinite(logits.grad).all()


@pytest.mark.parametrize("confidence", ["max_logit", "negative_entropy"])
def test_confidences_outside_of_the_histogram(confidence):
    message = rf"\[0, 1\], or a callable, got '{confidence}'\. Use 'msp'"
    with pytest.raises(ValueError, match=f"^confidence must be one of .*{message}"):
        SelectiveAURCLoss(confidence=confidence)
    with pytest.raises(ValueError, match=r"confidence must return scores in \[0, 1\]"):
        selective_aurc_loss(*random_batch(), confidence=lambda z: z.amax(1) + 10)


@pytest.mark.parametrize(
    ("n_bins", "error"), [(0, ValueError), (1.5, TypeError), (True, TypeError)]
)
def test_bad_n_bins(n_bins, error):
    with pytest.raises(error, match=r"n_bins must be .*>= 1, got .* The paper uses 64"):
        SelectiveAURCLoss(n_bins=n_bins)


@pytest.mark.parametrize(
    ("bad", "error", "message"),
    [
        ([0.0, 1.0], TypeError, "must be a torch.Tensor or None, got list"),
        (torch.zeros(0), ValueError, r"have shape \(n_bins,\), .* got \(0,\)"),
        (torch.zeros(2, 2), ValueError, r"got \(2, 2\)"),
    ],
)
def test_bad_histogram(bad, error, message):
    with pytest.raises(error, match=f"^histogram .*{message}"):
        selective_aurc_loss(torch.ones(2, 2), torch.tensor([0, 1]), histogram=bad)


def test_logits_are_checked_first():
    with pytest.raises(
        TypeError, match=r"logits must be a torch\.Tensor, got NoneType"
    ):
        selective_aurc_loss(None, torch.tensor([0, 1]))
