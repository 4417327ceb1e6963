import copy

import pytest
import torch

from sklearn_calib.losses import CRLLoss, brier_loss, crl_loss, cross_entropy_loss

REFERENCE = "loss_crl"
NOT_FOLLOWED = {}


def float64(values):
    return torch.tensor(values, dtype=torch.float64)


def random_batch(n_samples=8, n_classes=3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(n_samples, n_classes, generator=generator).double()
    return logits, torch.randint(n_classes, (n_samples,), generator=generator)


def random_history(n_samples, *, n_epochs=6):
    correct = torch.arange(n_samples) % n_epochs
    return torch.stack([correct, torch.full_like(correct, n_epochs)], 1)


def recorded_arguments(values):
    """Return the recorded history as numbers of correct and of all predictions."""
    correct = torch.tensor(values["history"]).long()
    total = torch.full_like(correct, values["max_correctness"])
    return {
        "history": torch.stack([correct, total], 1),
        "indices": torch.tensor(values["index"]).long(),
    }


def test_recorded(recorded, assert_recorded):
    params = recorded["params"]
    confidence = {"softmax": "msp", "margin": "margin"}[params["rank_target"]]
    arguments = recorded_arguments(recorded["values"])
    lambd = params["rank_weight"]
    assert_recorded(
        recorded,
        lambda *batch: crl_loss(
            *batch, lambd=lambd, confidence=confidence, **arguments
        ),
    )


def test_known_values():
    """By hand: differences in k (.75, -.5, -.25) and in s (.25, .25, -.5)."""
    proba = float64([[0.75, 0.25], [0.5, 0.5], [0.25, 0.75]])
    logits, target = proba.log(), torch.tensor([0, 1, 0])
    score = float64([[0.9, 0.1], [0.65, 0.35], [0.4, 0.6]])
    values = crl_loss(
        logits,
        target,
        history=torch.tensor([[3, 4], [0, 4], [2, 4]]),
        indices=torch.arange(3),
        confidence=lambda _: score[:, 0],
        lambd=2.0,
        reduction="none",
    )
    expected = -proba.gather(1, target[:, None])[:, 0].log() + float64([1.0, 1.5, 0.0])
    torch.testing.assert_close(values, expected)


def test_ignored_samples_and_their_comparisons():
    """As above; the second sample is compared with neither of the others."""
    logits = float64([[0.75, 0.25], [0.5, 0.5], [0.25, 0.75]]).log()
    score = float64([0.9, 0.65, 0.8])
    values = crl_loss(
        logits.T[None],
        torch.tensor([[0, 7, 0]]),
        history=torch.tensor([[3, 4], [0, 4], [2, 4]]),
        indices=torch.arange(3)[None],
        confidence=lambda _: score,
        lambd=2.0,
        ignore_index=7,
        reduction="none",
    )
    # From the third to the first, k grows by 0.25 and s by 0.1. The weight of this
    # comparison is 1 / (2 / 3), as two of three samples are left.
    ranking = float64([[0, 0, 2 * (0.25 - 0.1) * 1.5]])
    torch.testing.assert_close(values, ranking - float64([[0.75, 1, 0.25]]).log())


def test_history_of_dense_targets():
    """Two samples have two pixels each, one of which is ignored."""
    loss = CRLLoss(ignore_index=2)
    loss.start_history(2)
    logits = torch.eye(3)[[0, 1, 1, 2]].reshape(2, 2, 3).movedim(2, 1)
    target, indices = torch.tensor([[0, 0], [1, 2]]), torch.tensor([[0, 0], [1, 1]])
    loss.record(logits, target, indices=indices)
    assert loss.history.tolist() == [[1, 2], [1, 1]]
    # The history happens to have the shape of the target, and stays as it is.
    value = loss(logits, target, indices=indices)
    rows = logits.movedim(1, 2).flatten(0, 1)
    assert value == loss(rows, target.flatten(), indices=indices.flatten())


@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_entropy_is_scaled_by_the_number_of_classes(n_classes):
    """Uniform and certain predictions differ by 1, the range of the correctness."""
    logits = torch.zeros(2, n_classes).double()
    logits[1, 0] = 1e3
    target = torch.zeros(2, dtype=torch.int64)
    arguments = {
        "history": torch.tensor([[4, 4], [0, 4]]),
        "indices": torch.arange(2),
        "confidence": "negative_entropy",
    }
    value = crl_loss(logits, target, **arguments) - cross_entropy_loss(logits, target)
    torch.testing.assert_close(value, float64(2.0))


@pytest.mark.parametrize(
    "history",
    [
        torch.zeros(8, 2, dtype=torch.int64),
        torch.full((8, 2), 5),
        torch.tensor([[0, 3]]).expand(8, 2),
    ],
    ids=["unseen", "always correct", "always wrong"],
)
def test_nothing_to_rank(history):
    logits, target = random_batch()
    logits.requires_grad_()
    value = crl_loss(logits, target, history=history, indices=torch.arange(8))
    value.backward()
    torch.testing.assert_close(value, cross_entropy_loss(logits, target))
    assert torch.isfinite(logits.grad).all()


def test_counts_differ():
    """The proportion of correct predictions; 0 for a sample without predictions."""
    logits, target = random_batch(3)
    history = torch.tensor([[1, 2], [0, 0], [4, 8], [8, 8], [0, 1]])
    twin = torch.tensor([[4, 8], [0, 8], [4, 8], [8, 8], [0, 8]])
    indices = torch.tensor([0, 1, 3])
    torch.testing.assert_close(
        crl_loss(logits, target, history=history, indices=indices),
        crl_loss(logits, target, history=twin, indices=indices),
    )


def test_lowest_proportion_is_scaled_to_zero():
    logits, target = random_batch(3)
    first = torch.tensor([[1, 2], [2, 2], [3, 4]])
    second = torch.tensor([[0, 2], [2, 2], [1, 2]])
    torch.testing.assert_close(
        crl_loss(logits, target, history=first, indices=torch.arange(3)),
        crl_loss(logits, target, history=second, indices=torch.arange(3)),
    )


def test_composition():
    logits, target = random_batch()
    arguments = {"history": random_history(8), "indices": torch.arange(8)}
    ranking = crl_loss(logits, target, **arguments) - cross_entropy_loss(logits, target)
    value = crl_loss(logits, target, base="brier", lambd=0.5, **arguments)
    torch.testing.assert_close(value, brier_loss(logits, target) + 0.5 * ranking)
    assert ranking > 0.1


def test_weights_are_repetitions_on_average_over_orders():
    """On average over the orders of a batch, without comparisons with itself."""
    logits, target = random_batch(4)
    history, order = random_history(4), torch.tensor([0, 1, 2, 3])
    weight = float64([1, 0, 2, 3])

    def ranking(order, **kwargs):
        batch = logits[order], target[order]
        arguments = {"history": history, "indices": order}
        value = crl_loss(*batch, **arguments, reduction="sum", **kwargs)
        return value - cross_entropy_loss(*batch, reduction="sum", **kwargs)

    pairs = torch.cartesian_prod(order, order)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    value = sum(
        ranking(pair, sample_weight=weight[pair]) * weight[pair].mean()
        for pair in pairs
    )
    expected = sum(ranking(pair) * weight[pair].prod() for pair in pairs)
    torch.testing.assert_close(value, expected)


@pytest.mark.parametrize("confidence", ["msp", "margin", "negative_entropy"])
def test_gradient(confidence):
    logits, target = random_batch(6)
    logits.requires_grad_()
    arguments = {"history": random_history(6), "indices": torch.arange(6)}
    assert torch.autograd.gradcheck(
        lambda z: crl_loss(z, target, confidence=confidence, **arguments), logits
    )


def test_record():
    loss = CRLLoss()
    loss.start_history(4)
    logits = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], requires_grad=True)
    target, indices = torch.tensor([0, 0, 0]), torch.tensor([3, 0, 1])
    loss.record(logits, target, indices=indices)
    loss.record(logits[:2], 1 - target[:2], indices=indices[:2])
    assert loss.history.tolist() == [[1, 2], [1, 1], [0, 0], [1, 2]]
    assert not loss.history.requires_grad


def test_history_is_saved():
    """The history is part of checkpoints and copies, with which training continues."""
    loss, batch = CRLLoss(lambd=2.0), random_batch()
    loss.start_history(8)
    loss.record(*batch, indices=torch.arange(8))
    resumed = CRLLoss(lambd=2.0)
    resumed.load_state_dict(copy.deepcopy(loss.state_dict()))
    for twin in (resumed, copy.deepcopy(loss)):
        twin.record(*random_batch(seed=1), indices=torch.arange(8))
        assert twin.history[:, 1].tolist() == [2] * 8
    assert loss.history[:, 1].tolist() == [1] * 8
    loss.start_history(3)
    assert loss.history.tolist() == [[0, 0]] * 3


def test_training_ranks_the_confidences():
    """It lowers the confidence of random labels more than cross-entropy does."""
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(300, 2, generator=generator)
    target = (features[:, 0] > 0).long()
    noisy = features[:, 1] > 0
    coin = torch.randint(2, (300,), generator=generator)
    target = torch.where(noisy, coin, target)

    def confidence_gap(lambd):
        torch.manual_seed(0)
        net = torch.nn.Sequential(
            torch.nn.Linear(2, 128), torch.nn.ReLU(), torch.nn.Linear(128, 2)
        )
        loss = CRLLoss(lambd=lambd)
        loss.start_history(300)
        optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
        for _ in range(20):
            for indices in torch.randperm(300).split(100):
                logits = net(features[indices])
                optimizer.zero_grad()
                loss(logits, target[indices], indices=indices).backward()
                optimizer.step()
                loss.record(logits, target[indices], indices=indices)
        confidence = net(features).softmax(1).amax(1)
        return confidence[~noisy].mean() - confidence[noisy].mean()

    assert confidence_gap(lambd=2.0) > confidence_gap(lambd=0.0)


def test_needs_indices():
    assert CRLLoss.needs_indices


@pytest.mark.parametrize(
    ("indices", "error", "message"),
    [
        ([0, 1], TypeError, "indices must be a torch.Tensor of int64, got list"),
        (torch.ones(2), TypeError, "of int64, got torch.float32"),
        (torch.tensor([0]), ValueError, r"shape \(2,\), got \(1,\)\. Pass one"),
        (torch.tensor([0, 3]), ValueError, r"of 3 samples, got values in \[0, 3\]"),
        (torch.tensor([-1, 0]), ValueError, r"got values in \[-1, 0\]\. Call start_"),
    ],
)
def test_bad_indices(indices, error, message):
    loss, batch = CRLLoss(), (torch.ones(2, 2), torch.tensor([0, 1]))
    loss.start_history(3)
    with pytest.raises(error, match=message):
        loss(*batch, indices=indices)
    with pytest.raises(error, match=message):
        loss.record(*batch, indices=indices)
    with pytest.raises(error, match=message):
        crl_loss(*batch, indices=indices, history=loss.history)


def test_no_history():
    message = (
        r"in the history of 0 samples, got values in \[0, 1\]\. Call start_history"
    )
    batch, indices = (torch.ones(2, 2), torch.tensor([0, 1])), torch.arange(2)
    with pytest.raises(ValueError, match=message):
        crl_loss(*batch, indices=indices)
    with pytest.raises(ValueError, match=message):
        CRLLoss()(*batch, indices=indices)


def test_bad_confidence():
    with pytest.raises(ValueError, match="confidence must be one of"):
        CRLLoss(confidence="sure")


@pytest.mark.parametrize("indices", [None, torch.arange(2)])
@pytest.mark.parametrize(
    ("bad", "error", "message"),
    [
        ([[1, 2], [0, 2]], TypeError, "must be a torch.Tensor or None, got list"),
        (torch.ones(2), ValueError, r"have shape \(n_samples, 2\), .* got \(2,\)"),
        (torch.ones(2, 3), ValueError, r"got \(2, 3\)"),
    ],
)
def test_bad_history(indices, bad, error, message):
    """It is checked even if there are no indices."""
    batch = torch.ones(2, 2), torch.tensor([0, 1])
    with pytest.raises(error, match=f"^history .*{message}"):
        crl_loss(*batch, history=bad, indices=indices)
