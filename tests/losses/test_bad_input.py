"""Every loss, as a function and as a module, refuses what it cannot be right about."""

import inspect
import re

import pytest
import torch

from sklearn_calib import losses
from sklearn_calib.losses import get_loss, get_loss_names

BATCH = (torch.tensor([[1.0, 0.0, -1.0], [0.0, 2.0, 1.0]]), torch.tensor([0, 2]))

all_names = pytest.mark.parametrize("name", get_loss_names())


@all_names
@pytest.mark.parametrize(
    ("logits", "target", "error", "message"),
    [
        ([[1.0, 2.0]], [1], TypeError, "logits must be a torch.Tensor, got list"),
        (torch.ones(1, 2), [1], TypeError, "target must be a torch.Tensor, got list"),
        (torch.ones(1, 2).long(), torch.tensor([1]), TypeError, "floating point"),
        (torch.ones(2), torch.tensor([1, 0]), ValueError, r"C >= 2, got \(2,\)"),
        (torch.ones(3, 1), torch.tensor([0] * 3), ValueError, r"C >= 2, got \(3, 1\)"),
        (torch.ones(0, 3), torch.tensor([]).long(), ValueError, r"got \(0, 3\)"),
        (torch.ones(2, 3), torch.tensor([0]), ValueError, r"shape \(2,\).*got \(1,\)"),
        (torch.ones(1, 3), torch.tensor([3]), ValueError, r"\[0, 2\], .* in \[3, 3\]"),
        (torch.ones(1, 3), torch.tensor([-1]), ValueError, r"got values in \[-1, -1\]"),
        (torch.ones(1, 3), torch.tensor([1.0]), TypeError, "target.long()"),
        (torch.ones(1, 2), torch.tensor([True]), TypeError, "got torch.bool"),
    ],
)
def test_batch(name, logits, target, error, message):
    with pytest.raises(error, match=message):
        get_loss(name)()(logits, target)


@all_names
@pytest.mark.parametrize("position", [0, 1, 2], ids=["logits", "target", "weight"])
def test_sparse(name, position):
    batch = [*BATCH, torch.ones(2)]
    batch[position] = batch[position].to_sparse()
    name_of = ("logits", "target", "sample_weight")[position]
    message = rf"{name_of} must be dense, .*sparse_coo\. Call its method to_dense\(\)"
    with pytest.raises(TypeError, match=message):
        get_loss(name)()(*batch)


@pytest.mark.parametrize(
    "name",
    [
        *("aucm", "aurc", "avuc", "crl", "dca", "kde_ece", "mmce", "regularized_aurc"),
        *("selective_aurc", "soft_binned_ece", "weighted_mmce"),
    ],
)
def test_probabilities_as_target(name):
    message = r"one class index for each row of logits, got \(2, 3\)\. Only losses of "
    with pytest.raises(ValueError, match=message):
        get_loss(name)()(BATCH[0], torch.eye(3)[BATCH[1]])


@all_names
@pytest.mark.parametrize(
    ("weight", "error", "message"),
    [
        ([1.0, 1.0], TypeError, "sample_weight must be a torch.Tensor or None, got li"),
        (torch.ones(2, 1), ValueError, r"must have shape \(2,\), .*got \(2, 1\)"),
        (torch.ones(3), ValueError, r"must have shape \(2,\), .*got \(3,\)"),
        (torch.tensor([1, -1]), ValueError, "must be non-negative, got -1. Le"),
        (
            torch.tensor([1, torch.nan]),
            ValueError,
            "must be finite, got nan. Leave out",
        ),
        (
            torch.tensor([torch.inf, 1]),
            ValueError,
            "must be finite, got inf. Leave out",
        ),
        (
            torch.tensor([1j, 1]),
            TypeError,
            "must be real, got torch.complex64. Pass fl",
        ),
    ],
)
def test_weight(name, weight, error, message):
    with pytest.raises(error, match=message):
        get_loss(name)()(*BATCH, sample_weight=weight)


def assert_refused(name, error, message, **params):
    """Hold that neither the module can be made nor the function be called."""
    with pytest.raises(error, match=message):
        get_loss(name)(**params)
    function = getattr(losses, f"{name}_loss")
    learned = dict(get_loss(name)().named_buffers())
    # A function takes what a loss has learned, and no parameter of how it learns.
    if learned and not params.keys() <= inspect.signature(function).parameters.keys():
        return
    with pytest.raises(error, match=message):
        function(*BATCH, **learned, **params)


# May be negative or infinite; test_adafocal.py has their limits.
SIGNED = {"gamma_initial", "gamma_max", "gamma_min"}

# The parameters that are numbers, by their defaults.
numbers = pytest.mark.parametrize(
    ("name", "param"),
    [
        (name, param)
        for name in get_loss_names()
        for param, default in get_loss(name)().get_params(deep=False).items()
        if isinstance(default, float) and param not in SIGNED
    ],
)


@numbers
@pytest.mark.parametrize("bad", [-1, -1e-9, float("nan"), float("inf")])
def test_number_out_of_range(name, param, bad):
    message = (
        rf"{param} must be .*, got {bad}\. (0 switches it off|A small one|The auth)"
    )
    assert_refused(name, ValueError, message, **{param: bad})


@numbers
@pytest.mark.parametrize("bad", ["3", True, [1.0]])
def test_number_of_wrong_type(name, param, bad):
    message = f"{param} must be a number, .*, got {re.escape(repr(bad))} of type"
    assert_refused(name, TypeError, message, **{param: bad})


@all_names
def test_unknown_keyword(name):
    """The closest of the loss's own parameters is named."""
    first = next(iter(get_loss(name)().get_params(deep=False)))
    message = rf"{get_loss(name).__name__} got an unexpected keyword argument "
    message += rf"'{first}x'\. Did you mean '{first}'\?"
    with pytest.raises(TypeError, match=message):
        get_loss(name)(**{f"{first}x": 1})


@all_names
def test_reduction(name):
    message = r"reduction must be one of 'mean', 'none', 'sum', got 'men'\. Did you me"
    assert_refused(name, ValueError, message, reduction="men")
