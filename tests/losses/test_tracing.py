"""Every loss under torch.compile, the transforms of torch.func and on meta tensors."""

from functools import partial

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.func import grad, hessian, jacrev, vmap

from sklearn_calib.losses import (
    AURCLoss,
    DualFocalLoss,
    KDEECELoss,
    PerLabelLoss,
    RegularizedAURCLoss,
    get_loss,
    get_loss_names,
    soft_rank,
)
from sklearn_calib.losses._penalties import kde_ece

LABELS = torch.tensor([0, 1, 2, 2])
WEIGHT = torch.tensor([1.0, 2.0, 0.0, 3.0])

# Warnings of torch about its own code.
OF_TORCH = [
    "ignore:`torch.jit.script` is deprecated",
    "ignore:An output with one or more elements was resized",
    "ignore:.*should not be instantiated:DeprecationWarning",
]

all_losses = pytest.mark.losses
per_sample = pytest.mark.losses(where=lambda loss: loss.is_per_sample)


def random_logits():
    generator = torch.Generator().manual_seed(0)
    return torch.randn(4, 3, generator=generator, dtype=torch.float64)


def targets(loss):
    """Return class indices, and soft targets if the loss accepts them."""
    soft = 0.7 * torch.eye(3, dtype=torch.float64)[LABELS] + 0.1
    return [LABELS, soft] if loss.takes_probabilities else [LABELS]


def value_and_grad(loss, target, weight, make=lambda loss: loss):
    logits = random_logits().requires_grad_()
    value = make(loss)(logits, target, sample_weight=weight)
    value.backward()
    return value.detach(), logits.grad


def one_graph(loss, backend="eager"):
    torch.compiler.reset()
    return torch.compile(loss, backend=backend, fullgraph=True)


def is_default(loss):
    """Return whether the loss has its default parameters, as compiling is slow."""
    return repr(loss) == repr(type(loss)())


@pytest.mark.slow
@pytest.mark.losses(where=is_default)
@pytest.mark.filterwarnings(*OF_TORCH)
def test_loss_is_one_graph(loss):
    for target, weight in zip(targets(loss), (WEIGHT, None), strict=False):
        compiled = value_and_grad(loss, target, weight, one_graph)
        torch.testing.assert_close(compiled, value_and_grad(loss, target, weight))


def test_a_loss_can_be_made_inside_of_a_graph():
    def call(logits):
        return DualFocalLoss(gamma=2.0)(logits, LABELS)

    logits = random_logits()
    assert one_graph(call)(logits) == call(logits)


def test_all_registered_losses_are_compiled():
    """No loss is left out of the test above."""
    assert all(is_default(get_loss(name)()) for name in get_loss_names())


RANKING = [
    AURCLoss(weights="log"),
    RegularizedAURCLoss(),
    RegularizedAURCLoss(epsilon="auto", weights="harmonic"),
]


@pytest.mark.parametrize("loss", RANKING)
@pytest.mark.parametrize("weight", [pytest.param(None, marks=pytest.mark.slow), WEIGHT])
@pytest.mark.filterwarnings(*OF_TORCH)
def test_ranks_do_not_split_the_graph(loss, weight):
    """Neither the graph of values nor, with this backend, that of gradients."""
    one = partial(one_graph, backend="aot_eager_default_partitioner")
    compiled = value_and_grad(loss, LABELS, weight, one)
    torch.testing.assert_close(compiled, value_and_grad(loss, LABELS, weight))


@pytest.mark.parametrize("loss", RANKING)
def test_transforms_of_losses_that_rank(loss):
    """A batch is ranked as a set, so that vmap runs over several batches."""
    batches = torch.stack([random_logits(), 2 * random_logits()])
    weights = torch.stack([WEIGHT, WEIGHT + 1]).double()

    def value(logits, weight):
        return loss(logits, LABELS, sample_weight=weight)

    values = vmap(value)(batches, weights)
    grads = vmap(grad(value))(batches, weights)
    for logits, weight, *found in zip(batches, weights, values, grads, strict=True):
        logits.requires_grad_()
        expected = value(logits, weight)
        torch.testing.assert_close(found[0], expected)
        (gradient,) = torch.autograd.grad(expected, logits)
        torch.testing.assert_close(found[1], gradient)
        second = torch.autograd.functional.hessian(lambda z: value(z, weight), logits)  # noqa: B023
        torch.testing.assert_close(jacrev(grad(value))(logits, weight), second)


@pytest.mark.filterwarnings(*OF_TORCH)
def test_soft_ranks_in_one_graph():
    rows = random_logits().requires_grad_()
    found = one_graph(soft_rank)(rows, epsilon=0.3)
    expected = soft_rank(rows, epsilon=0.3)
    torch.testing.assert_close(found, expected)
    grads = [torch.autograd.grad(each[:, 0].sum(), rows) for each in (found, expected)]
    torch.testing.assert_close(*grads)


def test_traced_ranks_of_values_that_are_not_finite():
    """Values cannot be checked, and the ranks and their gradients are NaN."""
    values = torch.tensor([1.0, torch.nan, 2.0])
    gradient = grad(lambda v: soft_rank(v, epsilon=0.1)[0])(values)
    assert gradient.isnan().all()


def test_the_operator_of_soft_ranks():
    """torch's own check of shapes, dtypes and aliases."""
    values, epsilon = random_logits()[:, 0], torch.tensor(0.3, dtype=torch.float64)
    operator = torch.ops.sklearn_calib.soft_rank.default
    for weight in (None, WEIGHT.double()):
        torch.library.opcheck(operator, (values, epsilon, weight))


def test_per_label_loss_is_one_graph():
    target = torch.eye(3)[LABELS]
    loss = PerLabelLoss(base="focal")
    compiled = value_and_grad(loss, target, WEIGHT, one_graph)
    torch.testing.assert_close(compiled, value_and_grad(loss, target, WEIGHT))


@pytest.mark.filterwarnings("ignore")  # torch warns of graph breaks
def test_the_rest_of_a_loss_is_compiled(monkeypatch):
    """The compiled graph is split where values are needed."""
    monkeypatch.setattr(kde_ece, "BANDWIDTHS", (0.1, 0.5))
    torch.compiler.reset()
    loss, logits = KDEECELoss(bandwidth="auto"), random_logits()
    compiled = torch.compile(loss, backend="eager")(logits, LABELS)
    torch.testing.assert_close(compiled, loss(logits, LABELS))


def each_sample(loss, *weight):
    """Return the loss of one sample, a function of its logits and its target."""
    return lambda logits, target: loss(logits[None], target[None])


@per_sample
@pytest.mark.filterwarnings("ignore:gamma must be at most")
def test_vmap(loss):
    """Losses and gradients of all samples at once."""
    each = each_sample(loss)
    for target in targets(loss):
        logits = random_logits().requires_grad_()
        values = vmap(each)(logits, target)
        grads = vmap(grad(each))(logits, target)
        (expected,) = torch.autograd.grad(4 * loss(logits, target), logits)
        torch.testing.assert_close(values.mean(), loss(logits, target))
        torch.testing.assert_close(grads, expected)


@per_sample
def test_weights_in_vmap(loss):
    value = vmap(lambda z, y, w: loss(z[None], y[None], sample_weight=w[None]))
    logits = random_logits()
    values = value(logits, LABELS, torch.ones(4))
    torch.testing.assert_close(values.mean(), loss(logits, LABELS))


@per_sample
@pytest.mark.filterwarnings("ignore:gamma must be at most")
@pytest.mark.filterwarnings(*OF_TORCH)
def test_hessian_of_each_sample(loss):
    logits, one = random_logits(), each_sample(loss)
    found = vmap(hessian(one))(logits, LABELS)
    for z, y, second in zip(logits, LABELS, found, strict=True):
        expected = torch.autograd.functional.hessian(lambda v: one(v, y), z)  # noqa: B023
        torch.testing.assert_close(second, expected)


def test_second_derivative_by_transforms():
    loss, logits = PerLabelLoss(base="focal"), random_logits()
    target = torch.eye(3)[LABELS]
    expected = torch.autograd.functional.hessian(lambda z: loss(z, target), logits)
    result = jacrev(grad(lambda z: loss(z, target)))(logits)
    torch.testing.assert_close(result, expected)


def test_fake_tensors_have_a_shape():
    with FakeTensorMode():
        assert DualFocalLoss()(torch.randn(6, 3), torch.zeros(6, dtype=int)).shape == ()


@pytest.mark.losses(where=lambda loss: not loss.needs_values)
@pytest.mark.filterwarnings("ignore:gamma must be at most")
def test_meta_tensors_have_a_shape(loss):
    loss = type(loss)(**loss.get_params(deep=False)).eval().to("meta")
    logits = random_logits().to("meta").requires_grad_()
    for target in targets(loss):
        for weight in (None, WEIGHT.to("meta")):
            value = loss(logits, target.to("meta"), sample_weight=weight)
            assert value.is_meta
            assert value.shape == ()
            (gradient,) = torch.autograd.grad(value, logits)
            assert gradient.shape == logits.shape
