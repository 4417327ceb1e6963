import numpy as np
import pytest
import torch

from sklearn_calib.losses import AUCMLoss, aucm_loss

# Recorded cases in which the authors' code has a parenthesis in the wrong place.
NOT_FOLLOWED = {"v2-0.0-0.0-0.0", "v2-0.7-0.3-0.5", "v2-0.9-0.1--0.2"}


def float64(values, **kwargs):
    return torch.tensor(values, dtype=torch.float64, **kwargs)


def logits_of(score):
    """Return two logits per score whose softmax has the score for class 1."""
    return torch.stack([torch.zeros_like(score), score.logit()], 1)


def random_batch(n_samples=20, n_classes=2):
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(n_samples, n_classes, generator=generator).double()
    return logits, torch.randint(n_classes, (n_samples,), generator=generator)


def recorded_prior(params):
    if params["version"] == "v2":
        return None
    return "batch" if params["imratio"] == "batch" else params["imratio"]


def test_recorded(reference):
    """Values and gradients as functions of the scores, also for a, b and alpha."""
    data = reference("loss_aucm")
    batch = data["inputs"]["binary"]
    names = {c["id"] for c in data["expected"] if c["input"] == "binary"} - NOT_FOLLOWED
    assert len(names) == 6
    for case in data["expected"]:
        if case["id"] not in names:
            continue
        params, values = case["params"], case["values"]
        score = float64(batch["scores"], requires_grad=True)
        learned = {
            n: float64(params[n], requires_grad=True) for n in ("a", "b", "alpha")
        }
        loss = aucm_loss(
            logits_of(score),
            torch.tensor(batch["labels"]),
            margin=params["margin"],
            prior=recorded_prior(params),
            **learned,
        )
        loss.backward()
        ours = [loss.item(), *score.grad, *(p.grad for p in learned.values())]
        grads = [values[f"grad_{name}"] for name in learned]
        expected = [values["loss"], *values["grad"], *grads]
        np.testing.assert_allclose(ours, expected, **data["tolerance"])


def test_recorded_multilabel(reference):
    """Each label is a binary problem with its own a, b and alpha."""
    data = reference("loss_aucm")
    (case,) = (c for c in data["expected"] if c["id"] == "multilabel-v1")
    batch, params = data["inputs"]["multilabel"], case["params"]
    score = float64(batch["scores"], requires_grad=True)
    labels = torch.tensor(batch["labels"])
    losses = [
        aucm_loss(
            logits_of(score[:, k]),
            labels[:, k],
            prior="batch",
            **{name: float64(params[name][k]) for name in ("a", "b", "alpha")},
        )
        for k in range(labels.shape[1])
    ]
    loss = torch.stack(losses).mean()
    loss.backward()
    np.testing.assert_allclose(loss.item(), case["values"]["loss"], **data["tolerance"])
    np.testing.assert_allclose(
        score.grad.numpy(), case["values"]["grad"], **data["tolerance"]
    )


def test_closed_form():
    """By NumPy: variances in both classes and the squared shortfall of the margin."""
    logits, target = random_batch()
    score, label = logits.softmax(1)[:, 1].numpy(), target.numpy()
    up, down = score[label == 1], score[label == 0]
    lack = max(0, 0.8 + down.mean() - up.mean())
    expected = up.var() + down.var() + lack**2
    ours = aucm_loss(logits, target, margin=0.8)
    assert ours.item() == pytest.approx(expected, rel=1e-12)
    rate = label.mean()
    ours = aucm_loss(logits, target, margin=0.8, prior="batch")
    assert ours.item() == pytest.approx(rate * (1 - rate) * expected, rel=1e-12)


@pytest.mark.parametrize("prior", [None, "batch", 0.2])
@pytest.mark.parametrize("margin", [1.0, 0.01])
def test_solution_of_the_min_max_problem(prior, margin):
    """Gradient descent on a and b and ascent on alpha converge to the closed form."""
    logits, target = random_batch()
    a, b, alpha = (float64(v, requires_grad=True) for v in (0.9, 0.1, 0.3))
    alpha.register_hook(torch.neg)
    optimizer = torch.optim.SGD([a, b, alpha], lr=0.5 if prior is None else 2.0)
    for _ in range(25):
        optimizer.zero_grad()
        loss = aucm_loss(
            logits, target, margin=margin, prior=prior, a=a, b=b, alpha=alpha
        )
        loss.backward()
        optimizer.step()
        alpha.data.clamp_(min=0)
    expected = aucm_loss(logits, target, margin=margin, prior=prior)
    torch.testing.assert_close(loss.detach(), expected, rtol=1e-6, atol=1e-10)


@pytest.mark.parametrize("prior", [None, "batch", 0.25])
def test_more_classes(prior):
    """The mean over the one-vs-rest problems."""
    logits, target = random_batch(n_classes=4)
    proba = logits.softmax(1)
    losses = [
        aucm_loss(logits_of(proba[:, k]), (target == k).long(), prior=prior)
        for k in range(4)
    ]
    expected = torch.stack(losses).mean()
    torch.testing.assert_close(aucm_loss(logits, target, prior=prior), expected)


@pytest.mark.parametrize("label", [0, 1])
@pytest.mark.parametrize("prior", [None, "batch"])
def test_one_class(label, prior):
    """The loss is 0, where the authors' code computes 0 / 0."""
    logits, target = random_batch()
    logits.requires_grad_()
    loss = aucm_loss(logits, torch.full_like(target, label), prior=prior)
    loss.backward()
    assert loss == 0
    assert (logits.grad == 0).all()


def test_reductions():
    """Each sample has the loss of the batch."""
    logits, target = random_batch(5)
    value = AUCMLoss()(logits, target)
    expected = value.expand(5)
    torch.testing.assert_close(AUCMLoss(reduction="none")(logits, target), expected)
    torch.testing.assert_close(AUCMLoss(reduction="sum")(logits, target), 5 * value)


@pytest.mark.parametrize("bad", [0, 1, -0.1, float("nan"), "bat", [0.5]])
def test_bad_prior(bad):
    message = r"prior must be None, 'batch' or a float in \(0, 1\), got "
    with pytest.raises(ValueError, match=message):
        AUCMLoss(prior=bad)
    with pytest.raises(ValueError, match=message):
        aucm_loss(torch.ones(2, 2), torch.tensor([0, 1]), prior=bad)


def test_given_prior_is_finite():
    """A batch of one class has a loss, because the prior is given."""
    logits, _ = random_batch()
    logits.requires_grad_()
    aucm_loss(logits, torch.zeros(20, dtype=torch.int64), prior=0.1).backward()
    assert (logits.grad[:, 1] > 0).all()
    assert torch.isfinite(logits.grad).all()


@pytest.mark.parametrize("name", ["a", "b", "alpha"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_numbers_in_place_of_the_solution(name, n_classes):
    batch = random_batch(n_classes=n_classes)
    value = aucm_loss(*batch, **{name: 1})
    for same in (1.0, torch.tensor(1), torch.ones(1 if n_classes == 2 else 3)):
        assert torch.equal(aucm_loss(*batch, **{name: same}), value)


@pytest.mark.parametrize("name", ["a", "b", "alpha"])
@pytest.mark.parametrize(
    ("bad", "error", "message"),
    [
        *(
            (bad, TypeError, "must be a torch.Tensor, a number or None, got ")
            for bad in ("1", [1.0], np.ones(3), {}, 1j, True)
        ),
        (torch.ones(2), ValueError, r"have shape \(\) or \(3,\).* got \(2,\)"),
    ],
)
def test_bad_value_in_place_of_the_solution(name, bad, error, message):
    with pytest.raises(error, match=f"^{name} .*{message}"):
        aucm_loss(*random_batch(n_classes=3), **{name: bad})


def test_numbers_with_logits_that_are_a_negated_view():
    logits, target = torch.tensor([[0.5, 1.0], [2.0, 0.25]]), torch.tensor([0, 1])
    given = {"a": 0.5, "b": 0.25, "alpha": 0.125}
    value = aucm_loss(torch._neg_view(-logits), target, **given)
    torch.testing.assert_close(value, aucm_loss(logits, target, **given))
