import numpy as np
import pytest
import torch
import torch.nn.functional as F

from sklearn_calib.losses import AURCLoss, FocalLoss, aurc_loss, regularized_aurc_loss

REFERENCE = "loss_aurc"
ENTROPY = "the code takes the entropy of clipped logits, ours of the probabilities"
NOT_FOLLOWED = {
    "alphas": "weights alone; they are in test_recorded_weights",
    "small-EmAURCLoss-NegEntropy": ENTROPY,
    "large-EmAURCLoss-NegEntropy": ENTROPY,
    "binary-EmAURCLoss-NegEntropy": ENTROPY,
}
SCORES = {
    "MSP": "msp",
    "SoftmaxMargin": "margin",
    "MaxLogit": "max_logit",
    "l2_norm": "l2_norm",
    "NegGiniScore": "negative_gini",
}
# By the authors' class. In the last case it applies softmax twice.
WEIGHTS = {
    "EmAURCLoss": "harmonic",
    "LnAURCLoss": "log",
    "SeleLoss": "sele",
    "CalibWeightedRisk": "harmonic",
}


def twice_softmax(logits):
    return logits.softmax(1).softmax(1).amax(1)


def random_batch(n_samples, *, seed=0):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(n_samples, 4, generator=generator, dtype=torch.float64)
    return logits, torch.randint(4, (n_samples,), generator=generator)


def test_recorded(recorded, assert_recorded):
    author = recorded["id"].split("-")[1]
    confidence = SCORES[recorded["params"]["score"]]
    if author == "CalibWeightedRisk":
        confidence = twice_softmax
    assert_recorded(recorded, AURCLoss(confidence=confidence, weights=WEIGHTS[author]))


@pytest.mark.parametrize(
    ("name", "weights"), [("em", "harmonic"), ("ln", "log"), ("sele", "sele")]
)
def test_recorded_weights(reference, name, weights):
    data = reference(REFERENCE)
    (case,) = (case for case in data["expected"] if case["id"] == "alphas")
    n = case["values"]["n"]
    # All samples have the same loss; more confident ones have larger weights.
    logits = torch.zeros(n, 2, dtype=torch.float64)
    values = aurc_loss(
        logits,
        torch.zeros(n).long(),
        confidence=lambda z: torch.arange(len(z)).to(z),
        weights=weights,
        reduction="none",
    )
    weight = values.numpy() / np.log(2)
    np.testing.assert_allclose(weight, case["values"][name], **data["tolerance"])


def test_mean_of_the_risks_at_every_coverage():
    logits, target = random_batch(50)
    order = logits.softmax(1).amax(1).argsort(descending=True)
    losses = F.cross_entropy(logits, target, reduction="none")[order]
    risks = losses.cumsum(0) / torch.arange(1, 51)
    torch.testing.assert_close(aurc_loss(logits, target), risks.mean())


@pytest.mark.parametrize("weights", ["log", "harmonic", "sele"])
def test_equals_the_regularized_loss_with_hard_ranks(weights):
    batch = random_batch(30)
    params = {"weights": weights, "base": FocalLoss(gamma=1.0), "confidence": "margin"}
    expected = regularized_aurc_loss(*batch, lambd=1, ranks="hard", **params)
    assert torch.equal(aurc_loss(*batch, **params), expected)


@pytest.mark.parametrize("weights", ["log", "harmonic", "sele"])
def test_ties_have_the_mean_of_their_ranks(weights):
    """With the mean rank all samples have the same weight."""
    target = torch.tensor([0, 1, 2, 0, 1])
    logits = torch.tensor([[1.0, 0.0, 0.0]]).double().repeat(5, 1)
    values = aurc_loss(logits, target, weights=weights, reduction="none")
    harmonic = 1 / 4 + 1 / 5 + 1 / 3
    expected = {"log": np.log(2), "harmonic": harmonic, "sele": 0.6}[weights]
    ratio = values / F.cross_entropy(logits, target, reduction="none")
    np.testing.assert_allclose(ratio, expected, rtol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_ties_to_within_rounding(dtype):
    """A network may return logits that differ in the last bit for equal samples."""
    noise = torch.tensor([0.0, 2.0, -2.0], dtype=dtype) * torch.finfo(dtype).eps
    logits = torch.tensor([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]], dtype=dtype)
    logits[:, 0] += noise
    target = torch.tensor([0, 0, 0])
    assert logits.softmax(1).amax(1).unique().numel() > 1
    values = aurc_loss(logits, target, reduction="none")
    torch.testing.assert_close(values, values[[0, 0, 0]], rtol=0.1, atol=0)
