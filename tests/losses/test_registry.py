"""A loss that is not registered or exported fails here, with the row to add."""

import pkgutil
import re
from importlib import import_module

import pytest

from sklearn_calib import losses
from sklearn_calib.losses import CalibrationLoss, FocalLoss, get_loss, get_loss_names


def test_names_are_sorted():
    assert get_loss_names() == sorted(get_loss_names())


def test_a_copy_of_the_names():
    get_loss_names().clear()
    assert get_loss("focal") is FocalLoss


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "focl",
            r"one of \['a.*\], got 'focl'\. Did you mean 'focal'\?",
        ),
        ("crossentropy", r"Did you mean 'cross_entropy'\?"),
        ("xyz", r"got 'xyz'\.$"),
        (None, r"got None\.$"),
        (["focal"], r"got \['focal'\]\."),
    ],
)
def test_unknown_name(name, message):
    with pytest.raises(ValueError, match=message):
        get_loss(name)


def snake_case(name):
    """Return the function's name of a class, or the key with the suffix _loss."""
    starts = r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])"
    return re.sub(starts, "_", name).lower()


def loss_classes():
    """Return the losses that the room defines, exported and registered or not."""
    return [
        value
        for module in pkgutil.iter_modules(losses.__path__, f"{losses.__name__}.")
        for value in vars(import_module(module.name)).values()
        if isinstance(value, type)
        and issubclass(value, CalibrationLoss)
        and value is not CalibrationLoss
        and value.__module__ == module.name
        and not value.__name__.startswith("_")
    ]


def registered_name(loss):
    """Return the name of a loss: its class's up to underscores, or None."""
    words = loss.__name__.removesuffix("Loss").lower()
    names = [*get_loss_names(), *get_loss_names(multilabel=True)]
    return next((n for n in names if n.replace("_", "") == words), None)


@pytest.mark.parametrize("loss", loss_classes())
def test_registered(loss):
    name = registered_name(loss)
    assert name, (
        "add this row to _LOSSES in sklearn_calib/losses/_registry.py:\n"
        f'    "{snake_case(loss.__name__).removesuffix("_loss")}": {loss.__name__},'
    )
    assert get_loss(name) is loss


@pytest.mark.parametrize("loss", loss_classes())
def test_exported(loss):
    for name in (loss.__name__, f"{registered_name(loss)}_loss"):
        assert name in losses.__all__, (
            "add this row to __all__ in sklearn_calib/losses/__init__.py, and an "
            f'import:\n    "{name}",'
        )
        assert hasattr(losses, name)


def test_exports_are_sorted():
    assert losses.__all__ == sorted(losses.__all__)
