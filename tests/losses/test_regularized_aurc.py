import numpy as np
import pytest
import torch
import torch.nn.functional as F

from sklearn_calib import NeuralClassifier
from sklearn_calib.losses import (
    CrossEntropyLoss,
    FocalLoss,
    RegularizedAURCLoss,
    focal_loss,
    regularized_aurc_loss,
    soft_rank,
)
from sklearn_calib.losses._ranking.aurc import auto_epsilon

REFERENCE = "loss_r_aurc"
NOT_FOLLOWED = {}


def twice_softmax(logits):
    return logits.softmax(1).softmax(1).amax(1)


def random_batch(n_samples, *, seed=0):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(n_samples, 4, generator=generator, dtype=torch.float64)
    return logits, torch.randint(4, (n_samples,), generator=generator)


def test_recorded(recorded, assert_recorded):
    """The authors' code applies softmax twice unless it is given probabilities."""
    params = recorded["params"]
    variant = (
        {"epsilon": params["regularization_strength"]}
        if params["weight_grad"]
        else {"ranks": "hard", "weights": "harmonic"}
    )
    confidence = "msp" if params["input_is_softmax"] else twice_softmax
    assert_recorded(
        recorded,
        RegularizedAURCLoss(lambd=params["gamma"], confidence=confidence, **variant),
    )


@pytest.mark.parametrize("epsilon", [0.01, 0.05, 1.0])
def test_gradient_of_the_paper(epsilon):
    """Equation 40, with the full Jacobian of the ranks."""
    logits, target = random_batch(12)
    logits.requires_grad_()
    regularized_aurc_loss(logits, target, lambd=1.0, epsilon=epsilon).backward()

    proba = logits.detach().softmax(1)
    score, top = proba.max(1)
    rank = soft_rank(score, epsilon=epsilon)
    jacobian = torch.autograd.functional.jacobian(
        lambda g: soft_rank(g, epsilon=epsilon), score
    )
    losses = F.cross_entropy(logits.detach(), target, reduction="none")
    by_loss = -torch.log(1 - rank / 13)[:, None] * (proba - F.one_hot(target, 4))
    # dw/dr = 1 / (n + 1 - r), and dg/dz = g (1[top] - p).
    by_score = jacobian.T @ (losses / (13 - rank))
    by_rank = (by_score * score)[:, None] * (F.one_hot(top, 4) - proba)
    torch.testing.assert_close(logits.grad, (by_loss + by_rank) / 12)


@pytest.mark.parametrize("scale", [1.0, 50.0])
@pytest.mark.parametrize("ranks", ["soft", "hard"])
def test_one_softmax_serves_loss_and_confidence(ranks, scale):
    """The default gives the same result as separate loss and confidence."""
    logits, target = random_batch(20)
    gradients = []
    for confidence in ("msp", lambda logits: logits.softmax(1).amax(1)):
        each = (scale * logits).requires_grad_()
        loss = RegularizedAURCLoss(confidence=confidence, ranks=ranks)(each, target)
        loss.backward()
        gradients.append((loss.detach(), each.grad))
    torch.testing.assert_close(*gradients, rtol=1e-12, atol=1e-14)


def test_lambd_interpolates():
    batch = random_batch(20)
    risk = focal_loss(*batch, gamma=2.0)
    base = FocalLoss(gamma=2.0, reduction="sum")
    area = regularized_aurc_loss(*batch, lambd=1, base=base)
    for lambd in (0, 0.3, 1):
        value = regularized_aurc_loss(*batch, lambd=lambd, base=base)
        torch.testing.assert_close(value, (1 - lambd) * risk + lambd * area)
    assert base.reduction == "sum"


@pytest.mark.parametrize(
    ("weights", "expected"), [("log", np.log(2)), ("harmonic", 1), ("sele", 1)]
)
@pytest.mark.parametrize("ranks", ["soft", "hard"])
def test_batch_of_one(ranks, weights, expected):
    logits, target = random_batch(1)
    loss = RegularizedAURCLoss(lambd=1, ranks=ranks, weights=weights)
    expected *= F.cross_entropy(logits, target)
    torch.testing.assert_close(loss(logits, target), expected)


def test_hard_ranks_are_the_limit():
    batch = random_batch(30)
    for weights in ("log", "harmonic", "sele"):
        soft = regularized_aurc_loss(*batch, epsilon=1e-9, weights=weights)
        hard = regularized_aurc_loss(*batch, ranks="hard", weights=weights)
        torch.testing.assert_close(soft, hard, rtol=1e-12, atol=0)


def test_range_of_the_weights():
    """The default of the authors makes the weights nearly equal."""
    losses = dict.fromkeys(("soft", "auto", "hard"))
    confidence = torch.linspace(0.1, 1, 128, dtype=torch.float64)
    for name, params in {
        "soft": {},
        "auto": {"epsilon": "auto"},
        "hard": {"ranks": "hard"},
    }.items():
        values = regularized_aurc_loss(
            torch.zeros(128, 2, dtype=torch.float64),
            torch.zeros(128).long(),
            lambd=1.0,
            confidence=lambda _: confidence,
            reduction="none",
            **params,
        )
        losses[name] = [round(v.item() / np.log(2), 3) for v in values.aminmax()]
    assert losses == {
        "soft": [0.563, 0.843],
        "auto": [0.293, 1.371],
        "hard": [0.008, 4.860],
    }


@pytest.mark.parametrize("n", [8, 128, 1024])
@pytest.mark.parametrize("scale", [0.25, 1.0, 50.0])
def test_auto_epsilon_keeps_half_of_the_ranks(n, scale):
    score = scale * torch.linspace(0, 1, n, dtype=torch.float64)
    ranks = soft_rank(score, epsilon=auto_epsilon(score))
    assert (ranks.max() - ranks.min()).item() == pytest.approx(n / 2, rel=0.15)


def test_auto_epsilon_learns_from_a_start_where_all_confidences_are_close():
    """Three classes with smooth probabilities, from features of small scale."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 5))
    logits = 2 * X @ rng.normal(size=(5, 3))
    y = (logits + rng.gumbel(size=logits.shape)).argmax(1)
    assert (logits.argmax(1) == y).mean() == 0.866
    net = NeuralClassifier(
        loss="regularized_aurc",
        loss__epsilon="auto",
        max_epochs=5,
        lr=0.01,
        random_state=0,
    )
    assert net.fit(0.1 * X, y).score(0.1 * X, y) > 0.84


def test_auto_epsilon_is_bounded_and_constant():
    equal = torch.full((10,), 0.7, dtype=torch.float64, requires_grad=True)
    assert auto_epsilon(equal) == pytest.approx(2 * 0.2 / 10)
    logits, target = random_batch(10)
    epsilon = auto_epsilon(logits.softmax(1).amax(1))
    gradients = []
    for value in (epsilon, "auto"):
        each = logits.clone().requires_grad_()
        regularized_aurc_loss(each, target, epsilon=value).backward()
        gradients.append(each.grad)
    torch.testing.assert_close(*gradients, rtol=1e-12, atol=0)


def test_soft_ranks_lower_the_confidence_of_mistakes():
    """Compared with hard ranks, the gradient also raises the other confidences."""
    logits = torch.tensor([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]], dtype=torch.float64)
    gradients = []
    for ranks in ("soft", "hard"):
        each = logits.clone().requires_grad_()
        loss = regularized_aurc_loss(each, torch.tensor([0, 1, 0]), ranks=ranks)
        loss.backward()
        gradients.append(each.grad[:, 0])
    push = gradients[0] - gradients[1]
    torch.testing.assert_close(push / push[1], torch.tensor([-0.5, 1, -0.5]).double())
    assert push[1] > 0


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"lambd": 1.5}, ValueError, r"lambd must be in \[0, 1\], got 1.5"),
        (
            {"epsilon": 0},
            ValueError,
            "epsilon must be finite and > 0, or 'auto', got 0",
        ),
        (
            {"epsilon": "aut"},
            TypeError,
            "epsilon must be a number, .* or 'auto', got 'a",
        ),
        ({"ranks": "sof"}, ValueError, "ranks must be one of .*Did you mean 'soft'"),
        ({"weights": "ln"}, ValueError, "weights must be one of 'harmonic', 'log', 's"),
    ],
)
def test_bad_parameters(params, error, message):
    with pytest.raises(error, match=message):
        RegularizedAURCLoss(**params)
    with pytest.raises(error, match=message):
        regularized_aurc_loss(*random_batch(3), **params)


def test_negative_weight():
    weight = torch.tensor([1.0, -1.0])
    with pytest.raises(ValueError, match="must be non-negative and finite"):
        regularized_aurc_loss(*random_batch(2), sample_weight=weight)


def test_subclass_of_cross_entropy_may_override_forward():
    class Doubled(CrossEntropyLoss):
        def forward(self, logits, target, sample_weight=None):
            return 2 * super().forward(logits, target, sample_weight)

    batch = 2 * torch.eye(3), torch.tensor([0, 1, 1])
    loss = RegularizedAURCLoss(base=Doubled())
    torch.testing.assert_close(loss(*batch), 2 * RegularizedAURCLoss()(*batch))
