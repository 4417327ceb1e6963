"""Properties that every loss has; a new loss is tested automatically."""

import copy
import inspect
import pickle
import warnings
from functools import cache

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given
from sklearn.base import clone

from sklearn_calib import losses
from sklearn_calib.losses import (
    ACLSLoss,
    AdaDualFocalLoss,
    AdaFocalLoss,
    AUCMLoss,
    AvUCLoss,
    ConfidencePenaltyLoss,
    CrossEntropyLoss,
    DCALoss,
    DualFocalLoss,
    FocalCalibrationLoss,
    FocalLoss,
    InverseFocalLoss,
    KDEECELoss,
    LabelRelaxationLoss,
    LogitNormLoss,
    MaxSupLoss,
    MbLSLoss,
    MDCALoss,
    MMCELoss,
    RegularizedAURCLoss,
    SampleDependentFocalLoss,
    SoftBinnedECELoss,
    WeightedMMCELoss,
    get_loss,
    get_loss_names,
)


def quiet(loss, **params):
    """Return a loss, ignoring the warning that its gamma is too large."""
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        return loss(**params)


# Equal to cross-entropy.
CROSS_ENTROPIES = [
    ACLSLoss(lambd=0),
    AdaDualFocalLoss(gamma_initial=0),
    AdaFocalLoss(gamma_initial=0),
    CrossEntropyLoss(),
    LabelRelaxationLoss(alpha=0),
    MaxSupLoss(lambd=0),
    DualFocalLoss(gamma=0),
    DualFocalLoss(gamma=0, competitor=0.2),
    FocalCalibrationLoss(gamma=0, lambd=0),
    FocalLoss(gamma=0),
    InverseFocalLoss(gamma=0),
    KDEECELoss(lambd=0),
    ConfidencePenaltyLoss(lambd=0),
    MbLSLoss(lambd=0),
    MDCALoss(lambd=0),
    MMCELoss(lambd=0),
    RegularizedAURCLoss(lambd=0),
    SampleDependentFocalLoss(gammas=(0, 0)),
]

# Depend on the predicted class, which is the first of tied classes.
WITH_CORRECTNESS = (
    *(AvUCLoss, DCALoss, KDEECELoss),
    *(MMCELoss, SoftBinnedECELoss, WeightedMMCELoss),
)

# Not 0 for a certain and correct prediction: it cannot be reached, it is penalised, or
# the loss depends on the other samples of the batch, one per class.
NEVER_ZERO = (
    *(ACLSLoss, AvUCLoss, ConfidencePenaltyLoss, KDEECELoss),
    *(LogitNormLoss, MaxSupLoss, MbLSLoss),
)

# Change if a constant is added to all logits of a sample, unlike the others.
WITH_ORIGIN = (ACLSLoss, LogitNormLoss)

# The losses of conftest.py, or those that a function selects.
all_losses = pytest.mark.losses


def with_reduction(loss, reduction):
    return quiet(type(loss), **{**loss.get_params(), "reduction": reduction}).eval()


def random_batch(n_samples=6, n_classes=4, *, seed=0, dtype=torch.float64):
    """Return logits of moderate size, without ties, and class indices."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(n_samples, n_classes, generator=generator, dtype=dtype)
    target = torch.randint(n_classes, (n_samples,), generator=generator)
    return 2 * logits, target


def value_and_grad(loss, logits, target, **kwargs):
    logits = logits.clone().requires_grad_()
    value = loss(logits, target, **kwargs)
    value.sum().backward()
    return value.detach(), logits.grad


@st.composite
def batches(draw):
    """Draw labels, and logits that are multiples of 1/8, so that shifts are exact.

    Ties and confident wrong predictions are frequent.
    """
    n_samples, n_classes = draw(st.integers(1, 5)), draw(st.integers(2, 5))
    cells = st.integers(-80, 80) | st.integers(-3, 3)
    n_cells = n_samples * n_classes
    flat = draw(st.lists(cells, min_size=n_cells, max_size=n_cells))
    labels = st.integers(0, n_classes - 1)
    target = draw(st.lists(labels, min_size=n_samples, max_size=n_samples))
    logits = torch.tensor(flat, dtype=torch.float64).reshape(n_samples, n_classes) / 8
    return logits, torch.tensor(target)


@st.composite
def batches_and_orders(draw, axis):
    """Draw a batch, and an order of its samples or of its classes."""
    logits, target = draw(batches())
    order = draw(st.permutations(range(logits.shape[axis])))
    return logits, target, torch.tensor(order)


@st.composite
def batches_and_shifts(draw):
    return *draw(batches()), draw(st.integers(-100, 100))


def for_drawn(strategy):
    """Run a law for examples that are drawn once for all losses.

    If it fails, it is run as a test of Hypothesis, which searches for a small example.
    """

    @cache
    def examples():
        found = []
        given(strategy)(lambda example: found.append(example))()
        return found

    def decorate(law):
        def run(loss):
            try:
                for example in examples():
                    law(loss, *example)
            except Exception:
                given(strategy)(lambda example: law(loss, *example))()
                raise

        run.__name__, run.__doc__ = law.__name__, law.__doc__
        return run

    return decorate


@all_losses
def test_reductions(loss):
    """ "none" has one value per sample, and mean and sum are its mean and its sum."""
    batch = random_batch()
    values = with_reduction(loss, "none")(*batch)
    assert values.shape == (6,)
    torch.testing.assert_close(with_reduction(loss, "mean")(*batch), values.mean())
    torch.testing.assert_close(with_reduction(loss, "sum")(*batch), values.sum())


@all_losses
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_weights_are_repetitions(loss, reduction):
    """A sample of weight 2 counts as two samples."""
    logits, target = random_batch()
    weight = torch.tensor([1, 0, 3, 1, 2, 1])
    loss = with_reduction(loss, reduction)
    value, grad = value_and_grad(loss, logits, target, sample_weight=weight)

    index = torch.repeat_interleave(torch.arange(6), weight)
    repeated, each = value_and_grad(loss, logits[index], target[index])
    expected = torch.zeros_like(logits).index_add(0, index, each)
    torch.testing.assert_close(value, repeated)
    torch.testing.assert_close(grad, expected)


@all_losses
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_weights_of_one_change_nothing(loss, reduction):
    logits, target = random_batch()
    loss = with_reduction(loss, reduction)
    torch.testing.assert_close(
        loss(logits, target, sample_weight=torch.ones(6)), loss(logits, target)
    )


@all_losses
def test_weights_of_zero(loss):
    """All samples of a batch may have weight zero."""
    value, grad = value_and_grad(loss, *random_batch(), sample_weight=torch.zeros(6))
    assert value == 0
    assert (grad == 0).all()


def with_ignored(loss, ignore_index):
    """Return a loss, and a batch whose samples 1 and 4 are ignored and have no logits.

    The second result is the batch of the other samples.
    """
    params = {**loss.get_params(), "ignore_index": ignore_index}
    loss = quiet(type(loss), **params).eval()
    logits, target = random_batch()
    logits[[1, 4]], target[[1, 4]] = torch.nan, ignore_index
    keep = torch.tensor([0, 2, 3, 5])
    return loss, (logits, target), (logits[keep], target[keep]), keep


@all_losses
@pytest.mark.parametrize("ignore_index", [-100, 255])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_ignored_samples_change_nothing(loss, ignore_index, reduction):
    """The loss and its gradients are those of the other samples."""
    loss, batch, others, keep = with_ignored(loss, ignore_index)
    loss.reduction = reduction
    for weight in (None, torch.tensor([1, 2, 0, 3, 1, 2])):
        of_others = None if weight is None else weight[keep]
        value, grad = value_and_grad(loss, *batch, sample_weight=weight)
        expected, each = value_and_grad(loss, *others, sample_weight=of_others)
        if reduction == "none":
            expected = torch.zeros(6).double().index_add(0, keep, expected)
        torch.testing.assert_close(value, expected)
        expected = torch.zeros_like(grad).index_add(0, keep, each)
        torch.testing.assert_close(grad, expected)
        assert (grad[[1, 4]] == 0).all()


@all_losses
def test_class_to_ignore(loss):
    """The ignored index may be that of a class, which is one of the outputs."""
    loss = with_ignored(loss, 2)[0]
    logits, target = random_batch()
    keep = target != 2
    value, grad = value_and_grad(loss, logits, target)
    expected, each = value_and_grad(loss, logits[keep], target[keep])
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(grad[keep], each)


@all_losses
def test_all_samples_are_ignored(loss):
    """The mean is NaN, the sum and the gradients are 0, as for PyTorch's losses."""
    logits, target = random_batch()[0], torch.full((6,), -100)
    for function in (loss, torch.nn.functional.cross_entropy):
        value, grad = value_and_grad(function, logits, target)
        assert value.isnan()
        assert (grad == 0).all()
    assert with_reduction(loss, "sum")(logits, target) == 0


@all_losses
def test_dense_targets(loss):
    """Logits of shape (N, C, d1, d2) are N * d1 * d2 samples."""
    logits, target = random_batch(12)
    target[[3, 7]] = -100
    dense = logits.reshape(2, 3, 2, 4).permute(0, 3, 1, 2), target.reshape(2, 3, 2)
    weight = torch.arange(12)
    for reduction, shape in {"mean": (), "none": (2, 3, 2)}.items():
        loss = with_reduction(loss, reduction)
        value = loss(*dense, sample_weight=weight.reshape(2, 3, 2))
        expected = loss(logits, target, sample_weight=weight)
        assert torch.equal(value, expected.reshape(shape))
    if loss.takes_probabilities:
        soft = logits.softmax(1)
        value = loss(dense[0], soft.reshape(2, 3, 2, 4).permute(0, 3, 1, 2))
        assert torch.equal(value.flatten(), loss(logits, soft))


@all_losses
@for_drawn(batches_and_orders(axis=0))
def test_order_of_samples(loss, logits, target, order):
    """The value does not depend on it."""
    loss = with_reduction(loss, "none")
    torch.testing.assert_close(
        loss(logits[order], target[order]), loss(logits, target)[order]
    )


@all_losses
@for_drawn(batches_and_orders(axis=1))
def test_order_of_classes(loss, logits, target, order):
    """The value does not depend on it."""
    if isinstance(loss, WITH_CORRECTNESS):
        # Less than the step of the grid, so that no classes are tied.
        logits = logits + torch.arange(logits.shape[1]) / 64
    torch.testing.assert_close(
        loss(logits[:, order], order.argsort()[target]), loss(logits, target)
    )


@all_losses(where=lambda loss: not isinstance(loss, WITH_ORIGIN))
@for_drawn(batches_and_shifts())
def test_shift_of_logits(loss, logits, target, shift):
    """A constant added to all logits of a sample changes nothing."""
    torch.testing.assert_close(loss(logits + shift, target), loss(logits, target))


@all_losses(where=lambda loss: loss.get_params().get("penalty") != "entropy")
@for_drawn(batches())
def test_not_negative(loss, logits, target):
    assert (with_reduction(loss, "none")(logits, target) >= 0).all()


@all_losses
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("scale", [0.0, 1e-8, 1.0, 50.0, 200.0, 1e4])
@pytest.mark.parametrize("n_classes", [2, 3, 7])
def test_finite_at_extreme_logits(loss, dtype, scale, n_classes):
    """Correct, wrong and tied predictions, in each precision."""
    patterns = torch.tensor([[1, 0], [0, 1], [1, 1], [-1, 1], [-1, -1]], dtype=dtype)
    logits = torch.zeros(10, n_classes, dtype=dtype)
    logits[:, [0, -1]] = scale * torch.cat([patterns, patterns])
    target = torch.tensor([0] * 5 + [n_classes - 1] * 5)
    value, grad = value_and_grad(loss, logits, target)
    assert torch.isfinite(value)
    assert torch.isfinite(grad).all()
    if not isinstance(loss, WITH_ORIGIN):
        # A shift of all logits changes nothing: the gradients of a sample sum to 0.
        tolerance = 100 * torch.finfo(dtype).eps * grad.abs().max()
        assert (grad.sum(1).abs() <= tolerance).all()


@all_losses
def test_gradient_of_zero_logits(loss):
    """The first step from a last layer of zeros is not too large for the next ones."""
    logits, target = torch.zeros(6, 4), torch.tensor([0, 1, 2, 3, 3, 1])
    _, grad = value_and_grad(with_reduction(loss, "sum"), logits, target)
    assert 0.01 < grad.abs().max() < 50


@all_losses(where=lambda loss: not isinstance(loss, NEVER_ZERO))
def test_perfect_prediction(loss):
    """Only label smoothing penalises predictions that are certain and correct."""
    value, grad = value_and_grad(loss, 100 * torch.eye(3).double(), torch.arange(3))
    if loss.get_params().get("label_smoothing"):
        assert (grad.diagonal() > 0).all()
    else:
        assert value < 1e-40
        assert (grad.diagonal() <= 0).all()


def has_true_gradient(loss):
    """Return whether no term that depends on the logits is treated as a constant.

    Finite differences do not treat them as constants: the weight of gamma_cal, the
    automatic epsilon and the largest logit in ACLS. Tests of these losses cover them.
    """
    params = loss.get_params()
    is_auto = params.get("epsilon") == "auto"
    has_gate = params.get("gamma_cal") is not None
    return not (is_auto or has_gate or isinstance(loss, ACLSLoss))


@all_losses(where=has_true_gradient)
def test_gradient(loss):
    """First and second derivatives agree with finite differences.

    One prediction is wrong. Of losses of single samples, another one is enough.
    """
    n_samples, seed = (2, 2) if loss.is_per_sample else (3, 1)
    logits, target = random_batch(n_samples, n_classes=3, seed=seed)
    loss = with_reduction(loss, "none")
    logits.requires_grad_()
    assert torch.autograd.gradcheck(lambda z: loss(z, target), logits)
    assert torch.autograd.gradgradcheck(lambda z: loss(z, target), logits)


@pytest.mark.parametrize("loss", CROSS_ENTROPIES)
@for_drawn(batches())
def test_equal_to_cross_entropy(loss, logits, target):
    value, grad = value_and_grad(loss, logits, target)
    expected = logits.clone().requires_grad_()
    expected_value = torch.nn.functional.cross_entropy(expected, target)
    expected_value.backward()
    torch.testing.assert_close(value, expected_value.detach())
    torch.testing.assert_close(grad, expected.grad)


@all_losses
def test_function_equals_module(loss):
    (name,) = (name for name in get_loss_names() if get_loss(name) is type(loss))
    function = getattr(losses, f"{name}_loss")
    batch, params = random_batch(), loss.get_params()
    if learned := dict(loss.named_buffers()):
        # A function takes the learned state, but no parameters of the learning.
        accepted = params.keys() & inspect.signature(function).parameters.keys()
        params = {**learned, **{name: params[name] for name in accepted}}
    weight = torch.arange(6.0)
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        value = function(*batch, sample_weight=weight, **params)
    assert torch.equal(value, loss(*batch, sample_weight=weight))


@all_losses
@pytest.mark.parametrize(
    "copier", [clone, copy.deepcopy, lambda loss: pickle.loads(pickle.dumps(loss))]
)
def test_copies(loss, copier):
    twin = quiet(lambda: copier(loss))
    assert twin is not loss
    assert type(twin) is type(loss)
    assert repr(twin) == repr(loss)
    assert twin.get_params(deep=False).items() <= twin.get_params().items()
    assert torch.equal(twin.eval()(*random_batch()), loss(*random_batch()))


@all_losses
def test_repr_can_be_evaluated(loss):
    twin = quiet(
        lambda: eval(repr(loss), {n: getattr(losses, n) for n in losses.__all__})
    )
    assert twin is not loss
    assert repr(twin) == repr(loss)
    assert torch.equal(twin.eval()(*random_batch()), loss(*random_batch()))


@all_losses
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_dtype_is_kept(loss, dtype):
    """float32 gives float32, and float64 gives float64."""
    logits, target = random_batch(dtype=dtype)
    weight = torch.ones(6, dtype=torch.float64)
    value, grad = value_and_grad(loss, logits, target, sample_weight=weight)
    assert value.dtype == grad.dtype == dtype


@all_losses
def test_single_precision(loss):
    logits, target = random_batch(dtype=torch.float32)
    loss = with_reduction(loss, "none")
    value, grad = value_and_grad(loss, logits, target)
    expected, expected_grad = value_and_grad(loss, logits.double(), target)
    torch.testing.assert_close(value.double(), expected, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(grad.double(), expected_grad, rtol=1e-5, atol=1e-6)


@all_losses
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_widened(loss, dtype):
    """Half precision is computed in float32."""
    logits, target = random_batch(dtype=torch.float32)
    logits = (10 * logits).to(dtype)
    value, grad = value_and_grad(loss, logits, target)
    expected, expected_grad = value_and_grad(loss, logits.float(), target)
    assert value.dtype == torch.float32
    assert torch.equal(value, expected)
    assert torch.equal(grad, expected_grad.to(dtype))


@all_losses
def test_autocast(loss):
    features, target = random_batch(dtype=torch.float32)
    layer = torch.nn.Linear(4, 3)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = layer(features)
        value = loss(logits, target % 3)
    value.backward()
    assert logits.dtype == torch.bfloat16
    assert value.dtype == torch.float32
    assert torch.isfinite(layer.weight.grad).all()


@all_losses(where=lambda loss: loss.is_per_sample)
def test_other_samples_change_nothing(loss):
    """Unless `is_per_sample` is False, a value depends on one sample only."""
    logits, target = random_batch()
    values = with_reduction(loss, "none")(logits, target)
    torch.testing.assert_close(loss(logits[2:3], target[2:3]), values[2])


@all_losses(where=lambda loss: not isinstance(loss, AUCMLoss))
def test_batch_of_one(loss):
    """The last batch of an epoch may have one sample."""
    logits, target = random_batch(n_samples=1)
    value, grad = value_and_grad(loss, logits, target)
    assert value > 0
    assert torch.isfinite(grad).all()
    assert grad[0, target[0]] < 0


@all_losses
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32])
def test_any_integer_target(loss, dtype):
    logits, target = random_batch()
    assert torch.equal(loss(logits, target.to(dtype)), loss(logits, target))


@all_losses(where=lambda loss: loss.takes_probabilities)
@for_drawn(batches())
def test_one_hot_target(loss, logits, target):
    one_hot = torch.eye(logits.shape[1])[target]
    value, grad = value_and_grad(loss, logits, one_hot)
    expected, expected_grad = value_and_grad(loss, logits, target)
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(grad, expected_grad)


@all_losses(where=lambda loss: not loss.takes_probabilities)
def test_soft_targets_are_refused(loss):
    """Only losses with `takes_probabilities` accept class probabilities."""
    logits, target = random_batch()
    message = r"one class index for each row of logits, got \(6, 4\)\. Soft targets, "
    with pytest.raises(ValueError, match=message):
        loss(logits, torch.eye(4)[target])
