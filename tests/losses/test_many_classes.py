"""Memory of the losses for many classes."""

import copy

import pytest
import torch
from torch.nn.functional import one_hot
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from sklearn_calib.losses import PerLabelLoss

N_SAMPLES, N_CLASSES = 4, 2000


class Largest(TorchDispatchMode):
    """Record the size of the largest tensor of all operations, in elements."""

    n_elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for value in tree_leaves(result):
            if isinstance(value, torch.Tensor):
                size = value.untyped_storage().nbytes() // value.element_size()
                self.n_elements = max(self.n_elements, size)
        return result


def largest_tensor(loss, target):
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(N_SAMPLES, N_CLASSES, generator=generator, requires_grad=True)
    with Largest() as largest:
        copy.deepcopy(loss).eval()(logits, target).mean().backward()
    return largest.n_elements


def test_the_largest_tensor_is_recorded():
    with Largest() as largest:
        torch.ones(30, 1) @ torch.ones(1, 70)
    assert largest.n_elements == 2100


@pytest.mark.losses
def test_no_loss_has_a_tensor_of_pairs_of_classes(loss):
    largest = largest_tensor(loss, torch.arange(N_SAMPLES))
    # Kernel losses have the differences of all pairs of samples, for each class.
    assert largest <= N_SAMPLES * N_SAMPLES * N_CLASSES


def test_per_label_losses_have_no_tensor_of_pairs_of_labels():
    largest = largest_tensor(PerLabelLoss(), one_hot(torch.arange(4), N_CLASSES))
    assert largest <= 2 * N_SAMPLES * N_CLASSES
