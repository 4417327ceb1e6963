"""Losses of NaN, infinite and large logits, and of weights of any size."""

import pytest
import torch

from sklearn_calib.losses import (
    ACLSLoss,
    AURCLoss,
    KDEECELoss,
    LogitNormLoss,
    MaxSupLoss,
    MbLSLoss,
    MMCELoss,
    PerLabelLoss,
    RegularizedAURCLoss,
    SelectiveAURCLoss,
)

# A sample of weight m counts as m equal samples, so that the scale of the weights
# matters.
WITH_REPETITIONS = (AURCLoss, KDEECELoss, RegularizedAURCLoss, SelectiveAURCLoss)

LABELS = torch.tensor([1, 2, 3, 0])

all_losses = pytest.mark.losses
# Some settings with powers are not finite at large logits and weights.
defaults = pytest.mark.losses(where=lambda loss: repr(loss) == repr(type(loss)()))
bad_weights = pytest.mark.parametrize(
    "weight", [None, [1.0, 2.0, 3.0, 1.0], [0.0, 2.0, 3.0, 1.0]]
)
dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])


def random_logits(dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    return torch.randn(4, 4, generator=generator, dtype=dtype)


def with_reduction(loss, reduction):
    return type(loss)(**{**loss.get_params(), "reduction": reduction}).eval()


def targets(loss):
    """Return each kind of target that the loss takes."""
    one_hot = torch.eye(4)[LABELS]
    if loss.is_multilabel:
        return [one_hot.long(), one_hot]
    return [LABELS, 0.8 * one_hot + 0.05] if loss.takes_probabilities else [LABELS]


def assert_nan(loss, weight):
    weight = None if weight is None else torch.tensor(weight)
    each, *reduced = (with_reduction(loss, r) for r in ("none", "mean", "sum"))
    for target in targets(loss):
        for column in range(4):
            logits = random_logits()
            logits[0, column] = torch.nan
            assert each(logits, target, weight)[0].isnan()
            for one in reduced:
                assert one(logits, target, weight).isnan()


@all_losses
@bad_weights
@pytest.mark.filterwarnings("ignore:gamma must be at most")
def test_nan_logits_give_a_nan_loss(loss, weight):
    """For a NaN in any logit, even if the weight of the sample is 0."""
    assert_nan(loss, weight)


@bad_weights
@pytest.mark.parametrize(
    "loss",
    [PerLabelLoss(), *(c(base="label_relaxation") for c in (MMCELoss, PerLabelLoss))],
)
def test_nan_passes_a_base(loss, weight):
    assert_nan(loss, weight)


@all_losses
@pytest.mark.filterwarnings("ignore:gamma must be at most")
def test_infinite_logits(loss):
    """The loss has the limit for large logits, or is infinite, or NaN."""
    loss = with_reduction(loss, "none")
    # LogitNorm leaves a logit of -inf out of the norm.
    ends = (torch.inf,) if isinstance(loss, LogitNormLoss) else (torch.inf, -torch.inf)
    for end in ends:
        for column in range(4):
            logits = random_logits(torch.float64)
            logits[0, column] = end
            value = loss(logits, LABELS)[0]
            logits[0, column] = 1e6 if end > 0 else -1e6
            limit = loss(logits, LABELS)[0]
            assert value.isnan() or value.isinf() or value.isclose(limit)


def assert_masked_class(loss, targets):
    """Check that logits of -inf and of the smallest float have the same gradients."""
    gradients = []
    for mask in (torch.finfo(torch.float32).min, -torch.inf):
        generator = torch.Generator().manual_seed(0)
        logits = torch.randn(len(targets), 4, generator=generator)
        logits[:, 2] = mask
        value = loss(logits.requires_grad_(), targets)
        assert value.isfinite() or (value.isposinf() and penalises_distances(loss))
        gradients += torch.autograd.grad(value, logits)
    assert gradients[0].isfinite().all()
    assert gradients[0].any()
    torch.testing.assert_close(*gradients)


def penalises_distances(loss):
    """Return whether a loss is infinite for an infinite distance between two logits."""
    is_smoothed = loss.get_params().get("label_smoothing")
    return isinstance(loss, MaxSupLoss | MbLSLoss) or is_smoothed


# ACLS refuses such logits: their squared distances are out of range.
@all_losses(where=lambda loss: not isinstance(loss, ACLSLoss))
@pytest.mark.filterwarnings("ignore:gamma must be at most")
def test_masked_class(loss):
    loss, labels = with_reduction(loss, "sum"), torch.tensor([0, 1, 0, 3] * 8)
    assert_masked_class(loss, labels)
    if loss.takes_probabilities:
        assert_masked_class(loss, torch.eye(4)[labels])


@pytest.mark.parametrize("base", ["cross_entropy", "focal", "logitnorm"])
def test_masked_label(base):
    """A masked label leaves one of the two classes of its binary problem."""
    assert_masked_class(PerLabelLoss(base=base), torch.eye(4)[[0, 1, 0, 3]])


def test_masked_class_of_logitnorm():
    """The loss is that of the other classes, also if the mask is of half precision."""
    logits = random_logits().half()
    logits[:, 0] = torch.finfo(torch.float16).min
    value = LogitNormLoss()(logits, torch.tensor([1, 2, 3, 1]))
    others = LogitNormLoss()(logits[:, 1:], torch.tensor([0, 1, 2, 0]))
    torch.testing.assert_close(value, others)


@all_losses
@pytest.mark.filterwarnings("ignore:gamma must be at most")
def test_nan_does_not_change_the_state(loss):
    """A batch with NaN does not change the state of a loss."""
    loss = with_reduction(loss, "mean").train()
    before = {name: value.clone() for name, value in loss.named_buffers()}
    loss(torch.full((4, 4), torch.nan), LABELS)
    for name, value in loss.named_buffers():
        assert torch.equal(value, before[name])


@all_losses
@dtypes
@pytest.mark.parametrize("factor", [1e-6, 1e6])
def test_weights_of_any_size(loss, dtype, factor):
    """The mean depends on ratios of weights, unless weights count as repetitions."""
    logits, weight = random_logits(dtype), torch.tensor([1.0, 2.0, 0.0, 3.0]).double()
    value = loss(logits, LABELS, factor * weight)
    assert torch.isfinite(value)
    if not isinstance(loss, WITH_REPETITIONS):
        torch.testing.assert_close(value, loss(logits, LABELS, weight))
    (gradient,) = torch.autograd.grad(
        loss(logits.requires_grad_(), LABELS, factor * weight), logits
    )
    assert torch.isfinite(gradient).all()


@defaults
@dtypes
@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("weight", [1e-6, 1e6])
def test_one_weight_of_any_size(loss, dtype, reduction, weight):
    logits = random_logits(dtype).requires_grad_()
    weights = torch.tensor([1.0, weight, 1.0, 1.0]).double()
    value = with_reduction(loss, reduction)(logits, LABELS, weights)
    assert torch.isfinite(value)
    assert torch.isfinite(torch.autograd.grad(value, logits)[0]).all()


@defaults
@dtypes
@pytest.mark.parametrize("kind", ["random", "wrong"])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_large_logits(loss, dtype, kind, reduction):
    logits = random_logits() if kind == "random" else torch.eye(4)[LABELS - 1]
    logits = (1e4 * logits.to(dtype)).requires_grad_()
    value = with_reduction(loss, reduction)(logits, LABELS)
    assert torch.isfinite(value)
    assert torch.isfinite(torch.autograd.grad(value, logits)[0]).all()


def test_squares_of_diverged_logits():
    message = "logits must be so small that no square or sum exceeds .* got values up"
    with pytest.raises(ValueError, match=message):
        ACLSLoss()(1e30 * random_logits(), LABELS)


@all_losses
@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.int32])
def test_weights_of_another_precision(loss, kind):
    logits, weight = random_logits(), torch.tensor([1, 2, 0, 3])
    value = loss(logits, LABELS, weight.to(kind))
    assert torch.equal(value, loss(logits, LABELS, weight.float()))
