"""Registry of the losses."""

import pytest

from sklearn_calib.losses import FocalLoss, get_loss, get_loss_names


def test_names_are_sorted():
    assert get_loss_names() == sorted(get_loss_names())


def test_names_are_a_copy():
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


@pytest.mark.parametrize("multilabel", ["yes", 2, None, [True]])
def test_multilabel_must_be_a_bool(multilabel):
    with pytest.raises(ValueError, match="'multilabel' parameter of get_loss_names"):
        get_loss_names(multilabel=multilabel)
