"""Every loss under torch.compile, the transforms of torch.func and on meta tensors."""

import pytest
import torch
from torch.func import grad, jacrev, vmap

from sklearn_calib.losses import AURCLoss, PerLabelLoss

LABELS = torch.tensor([0, 1, 2, 2])
WEIGHT = torch.tensor([1.0, 2.0, 0.0, 3.0])

all_losses = pytest.mark.losses
per_sample = pytest.mark.losses(where=lambda loss: loss.is_per_sample)
needs_values = pytest.mark.losses(where=lambda loss: loss.needs_values)


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


def one_graph(loss):
    torch.compiler.reset()
    return torch.compile(loss, backend="eager", fullgraph=True)


def is_default(loss):
    """Return whether the loss has its default parameters, as compiling is slow."""
    return repr(loss) == repr(type(loss)())


@pytest.mark.slow
@pytest.mark.losses(where=lambda loss: is_default(loss) and not loss.needs_values)
def test_loss_is_one_graph(loss):
    for target, weight in zip(targets(loss), (WEIGHT, None), strict=False):
        compiled = value_and_grad(loss, target, weight, one_graph)
        torch.testing.assert_close(compiled, value_and_grad(loss, target, weight))


def test_per_label_loss_is_one_graph():
    target = torch.eye(3)[LABELS]
    loss = PerLabelLoss(base="focal")
    compiled = value_and_grad(loss, target, WEIGHT, one_graph)
    torch.testing.assert_close(compiled, value_and_grad(loss, target, WEIGHT))


@pytest.mark.filterwarnings("ignore")  # torch warns of graph breaks
def test_the_rest_of_a_loss_is_compiled():
    """The compiled graph is split where values are needed."""
    torch.compiler.reset()
    loss, logits = AURCLoss(), random_logits()
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


def test_second_derivative_by_transforms():
    loss, logits = PerLabelLoss(base="focal"), random_logits()
    target = torch.eye(3)[LABELS]
    expected = torch.autograd.functional.hessian(lambda z: loss(z, target), logits)
    result = jacrev(grad(lambda z: loss(z, target)))(logits)
    torch.testing.assert_close(result, expected)


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


@needs_values
def test_meta_tensors_have_no_values(loss):
    with pytest.raises(TypeError, match="logits must have values, which are ranked"):
        loss(random_logits().to("meta"), LABELS.to("meta"))
