"""Every loss, as a function and as a module, refuses invalid input."""

import inspect
import re
from fractions import Fraction

import numpy as np
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
        (torch.ones(1, 3), torch.tensor([255]), ValueError, r"samples as ignore_index"),
        (
            torch.ones(2, 3, 4),
            torch.tensor([1, 2]),
            ValueError,
            r"shape \(2, 4\) for logits of shape \(2, 3, 4\), got \(2,\)\. The clas",
        ),
    ],
)
def test_batch(name, logits, target, error, message):
    with pytest.raises(error, match=message):
        get_loss(name)()(logits, target)


@pytest.mark.parametrize(
    "name",
    [
        *("aucm", "aurc", "avuc", "crl", "dca", "kde_ece", "mmce", "regularized_aurc"),
        *("selective_aurc", "soft_binned_ece", "weighted_mmce"),
    ],
)
def test_probabilities_as_target(name):
    message = r"one class index for each row of logits, got \(2, 3\)\. Soft targets, "
    with pytest.raises(ValueError, match=message):
        get_loss(name)()(BATCH[0], torch.eye(3)[BATCH[1]])


@all_names
def test_one_hot_integers_as_target(name):
    with pytest.raises(ValueError, match=r"call target\.argmax\(1\)\.$"):
        get_loss(name)()(BATCH[0], torch.eye(3)[BATCH[1]].long())


def test_column_of_class_indices_as_target():
    with pytest.raises(ValueError, match=r"call target\.squeeze\(1\)\.$"):
        get_loss("cross_entropy")()(BATCH[0], BATCH[1][:, None])


@all_names
@pytest.mark.parametrize(
    ("weight", "error", "message"),
    [
        ([1.0, 1.0], TypeError, "sample_weight must be a torch.Tensor or None, got li"),
        (torch.ones(2, 1), ValueError, r"must have shape \(2,\), .*got \(2, 1\)"),
        (torch.ones(3), ValueError, r"must have shape \(2,\), .*got \(3,\)"),
        (
            torch.tensor([1, -1]),
            ValueError,
            r"got weights in \[-1, 1\]\. Use a",
        ),
        (
            torch.tensor([1, torch.nan]),
            ValueError,
            r"finite, got weights in \[nan, nan\]\. Use a w",
        ),
        (
            torch.tensor([torch.inf, 1]),
            ValueError,
            r"finite, got weights in \[1, inf\]\. Use a w",
        ),
    ],
)
def test_weight(name, weight, error, message):
    with pytest.raises(error, match=message):
        get_loss(name)()(*BATCH, sample_weight=weight)


@all_names
def test_ignored_samples(name):
    """The other samples and the weights are checked."""
    loss = get_loss(name)()
    with pytest.raises(ValueError, match=r"got values in \[0, 3\]"):
        loss(torch.ones(3, 3), torch.tensor([0, 3, -100]))
    with pytest.raises(ValueError, match=r"must have shape \(2,\), got \(3,\)"):
        loss(BATCH[0], torch.tensor([0, -100]), sample_weight=torch.ones(3))
    with pytest.raises(ValueError, match=r"must have shape \(2, 4\), got \(2,\)"):
        loss(torch.ones(2, 3, 4), torch.ones(2, 4).long(), sample_weight=torch.ones(2))
    with pytest.raises(TypeError, match=r"got torch.bool. Call target.long\(\)"):
        get_loss(name)(ignore_index=2)(BATCH[0], torch.tensor([True, False]))
    for value in ("a", True, 0.5, None):
        message = f"ignore_index must be an integer, got {value!r} of type"
        assert_refused(name, TypeError, message, ignore_index=value)


@pytest.mark.losses(where=lambda loss: loss.takes_probabilities)
def test_soft_targets_have_no_index_to_ignore(loss):
    """As in PyTorch."""
    loss = type(loss)(ignore_index=1)
    with pytest.raises(ValueError, match="negative for soft targets, got 1"):
        loss(BATCH[0], torch.eye(3)[BATCH[1]])


def assert_refused(name, error, message, **params):
    """Check that both the constructor and the function raise the error."""
    with pytest.raises(error, match=message):
        get_loss(name)(**params)
    function = getattr(losses, f"{name}_loss")
    learned = dict(get_loss(name)().named_buffers())
    # A function takes the learned state, but no parameters of the learning.
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
    hint = "(Pass 0 to disable it|Use a small value|The auth)"
    message = rf"{param} must be .*, got {bad}\. {hint}"
    assert_refused(name, ValueError, message, **{param: bad})


@numbers
@pytest.mark.parametrize("bad", ["3", True, [1.0]])
def test_number_of_wrong_type(name, param, bad):
    message = f"{param} must be a number, .*, got {re.escape(repr(bad))} of type"
    assert_refused(name, TypeError, message, **{param: bad})


def outcome(name, **params):
    """Return the loss after an update, or the type of its error."""
    try:
        loss = get_loss(name)(**params)
    except ValueError as error:
        return type(error)
    loss.update([0, 2], BATCH[0].softmax(1))
    loss.start_history(2)
    kwargs = {"indices": torch.arange(2)} if loss.needs_indices else {}
    if loss.needs_indices:
        loss.record(*BATCH, **kwargs)
    target = torch.eye(3)[BATCH[1]] if loss.is_multilabel else BATCH[1]
    return loss(BATCH[0], target, **kwargs)


@numbers
@pytest.mark.filterwarnings("ignore:n_bins must be", "ignore:gamma must be at most")
@pytest.mark.parametrize(
    ("number", "same"),
    [(Fraction(1, 4), 0.25), (np.float32(0.25), 0.25)],
)
def test_numbers_of_any_kind(name, param, number, same):
    """Tensors do not accept fractions."""
    result, expected = outcome(name, **{param: number}), outcome(name, **{param: same})
    if isinstance(expected, type):
        assert result is expected
    else:
        torch.testing.assert_close(result, expected, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize(
    ("name", "param"),
    [
        (name, p)
        for name in get_loss_names()
        for p in get_loss(name)().get_params(False)
    ],
)
@pytest.mark.parametrize(
    "bad",
    [
        *(np.array([1.0, 2.0]), np.array([]), np.array(["a", "b"]), torch.ones(2)),
        *([None], ["hostile"], {}, {1}, 1j, b"hostile"),
    ],
)
def test_values_of_invalid_types(name, param, bad):
    """They raise the usual error, even if they cannot be hashed or compared."""
    message = rf"{param}(\[0\])? must "
    assert_refused(name, (TypeError, ValueError), message, **{param: bad})


@all_names
@pytest.mark.parametrize("position", [0, 1])
def test_devices(name, position):
    batch = list(BATCH)
    batch[position] = batch[position].to("meta")
    logits, target = (each.device for each in batch)
    message = f"target must be on the device of logits, {logits}, got {target}"
    with pytest.raises(ValueError, match=message):
        get_loss(name)()(*batch)


@pytest.mark.parametrize("name", ["ada_dual_focal", "adafocal", "calfocal"])
def test_bins_on_another_device(name):
    loss = get_loss(name)().to("meta")
    with pytest.raises(ValueError, match="edges must be on the device of logits, cpu"):
        loss(*BATCH)


@all_names
def test_unknown_keyword(name):
    """The message suggests the closest parameter."""
    first = next(iter(get_loss(name)().get_params(deep=False)))
    message = rf"{get_loss(name).__name__} got an unexpected keyword argument "
    message += rf"'{first}x'\. Did you mean '{first}'\?"
    with pytest.raises(TypeError, match=message):
        get_loss(name)(**{f"{first}x": 1})


@all_names
def test_reduction(name):
    message = r"reduction must be one of 'mean', 'none', 'sum', got 'men'\. Did you me"
    assert_refused(name, ValueError, message, reduction="men")
