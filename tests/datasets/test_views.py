"""Feature corruption and image augmentation: distributions of the views."""

import numpy as np
import pytest
import torch
from scipy.stats import binom

from sklearn_calib.datasets import FeatureCorruption, ImageAugmentation

TABLE = torch.arange(4000.0).view(1000, 4)
IMAGES = torch.rand(50, 3, 9, 7, generator=torch.Generator().manual_seed(0)).double()
STILL = {"min_area": 1, "flip": 0, "jitter": 0}

both = pytest.mark.parametrize(
    ("augment", "X"), [(FeatureCorruption(), TABLE), (ImageAugmentation(), IMAGES)]
)


def views(augment, X, seed=0):
    return augment(X, generator=torch.Generator().manual_seed(seed)).unbind(1)


@both
def test_repeatable(augment, X):
    first, second = views(augment, X)
    assert first.shape == second.shape == X.shape
    assert first.dtype == X.dtype
    assert not torch.equal(first, second)
    assert torch.equal(second, views(augment, X)[1])
    assert not torch.equal(second, views(augment, X, seed=1)[1])
    state = torch.get_rng_state()
    views(augment, X)
    assert torch.equal(state, torch.get_rng_state())


@both
def test_global_generator(augment, X):
    state = torch.get_rng_state()
    first = augment(X)
    torch.set_rng_state(state)
    assert torch.equal(augment(X), first)


def test_one_view_of_a_row_is_the_row():
    assert torch.equal(views(FeatureCorruption(), TABLE)[0], TABLE)


def test_corrupted_fraction():
    """Of 4000 values, 1 in 1000 is replaced by itself."""
    corrupted = views(FeatureCorruption(corruption_rate=0.6), TABLE)[1]
    low, high = binom(4000, 0.6 * 0.999).interval(0.999)
    assert low <= (corrupted != TABLE).sum() <= high


def test_corrupted_cells_are_of_their_own_column():
    """Values are replaced independently, by those of rows of equal probability."""
    corrupted = views(FeatureCorruption(corruption_rate=1), TABLE)[1]
    assert (corrupted % 4 == torch.arange(4)).all()
    rows = corrupted.div(4, rounding_mode="floor")
    assert (rows != rows[:, :1]).any(1).float().mean() > 0.98
    assert abs(rows.mean() - 499.5) < 5 * 289 / np.sqrt(4000)
    correlation = np.corrcoef(rows.T.numpy())[~np.eye(4, dtype=bool)]
    assert abs(correlation).max() < 0.15


def test_no_corruption():
    first, second = views(FeatureCorruption(corruption_rate=0), TABLE)
    assert torch.equal(first, second)


def test_images_may_be_left_alone():
    for view in views(ImageAugmentation(**STILL), IMAGES):
        torch.testing.assert_close(view, IMAGES)


def test_number_of_views():
    for n_views in (1, 3):
        augment = ImageAugmentation(n_views=n_views)
        first, *others = drawn = views(augment, IMAGES)
        assert len(drawn) == n_views
        assert all(each.shape == IMAGES.shape for each in drawn)
        assert not any(torch.equal(first, other) for other in others)


def test_flip():
    for view in views(ImageAugmentation(**{**STILL, "flip": 1}), IMAGES):
        torch.testing.assert_close(view, IMAGES.flip(3))
    some, others = views(ImageAugmentation(**{**STILL, "flip": 0.5}), IMAGES)
    is_flipped = [
        torch.allclose(a, b.flip(2)) for a, b in zip(some, IMAGES, strict=True)
    ]
    assert 10 < sum(is_flipped) < 40
    assert not torch.allclose(some, others)


def test_crop():
    """A crop of a ramp is a ramp: its slope gives the size, its mean the position."""
    ramp = torch.linspace(-1, 1, 51).double().expand(150, 1, 51, 51)
    view = views(ImageAugmentation(**{**STILL, "min_area": 0.25}), ramp)[0]
    inner = view[:, 0, 25, 10:41]
    side = (inner[:, -1] - inner[:, 0]) / (ramp[0, 0, 25, 40] - ramp[0, 0, 25, 10])
    torch.testing.assert_close(
        inner, inner[:, :1] + side[:, None] * (ramp[0, 0, 0, 10:41] - ramp[0, 0, 0, 10])
    )
    assert 0.5 <= side.min() < 0.55
    assert 0.95 < side.max() <= 1
    assert abs(side.square().mean() - 0.625) < 0.05
    place = view[:, 0].mean((1, 2))
    assert (abs(place) <= 1 - side + 0.02).all()
    assert place.min() < -0.3
    assert place.max() > 0.3


def test_jitter_of_grey_images():
    """Views are affine functions of the image, so any scale of pixels is allowed."""
    grey = 100 + 10 * IMAGES[:, :1]
    view = views(ImageAugmentation(**{**STILL, "jitter": 0.4}), grey)[0]
    mean, deviation = grey.mean((1, 2, 3)), grey.std((1, 2, 3), correction=0)
    factor = view.std((1, 2, 3), correction=0) / deviation
    shift = (view.mean((1, 2, 3)) - mean) / deviation
    for drawn, centre in ((factor, 1.0), (shift, 0.0)):
        assert (abs(drawn - centre) <= 0.4 + 1e-9).all()
        assert drawn.min() < centre - 0.3
        assert drawn.max() > centre + 0.3
    centred = (grey - mean.view(-1, 1, 1, 1)) * factor.view(-1, 1, 1, 1)
    rest = view - centred
    torch.testing.assert_close(rest, rest[:, :, :1, :1].expand_as(rest))


def test_jitter_of_colours():
    """Saturation changes the distance of the channels to their mean."""
    view = views(ImageAugmentation(**{**STILL, "jitter": 0.4}), IMAGES)[0]
    colour = view - view.mean(1, keepdim=True)
    expected = IMAGES - IMAGES.mean(1, keepdim=True)
    factor = colour[:, 0, 0, 0] / expected[:, 0, 0, 0]
    torch.testing.assert_close(colour, factor.view(-1, 1, 1, 1) * expected)
    assert (factor >= 0.36).all()
    assert (factor <= 1.96).all()


def test_constant_images():
    view = views(ImageAugmentation(), torch.ones(3, 3, 4, 4))[0]
    torch.testing.assert_close(view, torch.ones(3, 3, 4, 4))


@pytest.mark.parametrize(
    ("augment", "error", "message"),
    [
        (FeatureCorruption(1.5), ValueError, "corruption_rate must be in .*got 1.5. O"),
        (
            FeatureCorruption("1"),
            TypeError,
            "corruption_rate must be a number.*of type",
        ),
        (ImageAugmentation(flip=-1), ValueError, r"flip must be in \[0, 1\], got -1"),
        (ImageAugmentation(jitter=None), TypeError, "jitter must be a number.*None"),
        (ImageAugmentation(min_area=0), ValueError, "min_area must be greater than 0"),
        (
            ImageAugmentation(n_views=0),
            ValueError,
            "n_views must be a positive integer.*got 0",
        ),
        (
            ImageAugmentation(n_views=2.0),
            TypeError,
            "n_views must be a positive integer.*2.0",
        ),
        (
            ImageAugmentation(jitter=1.0),
            ValueError,
            "jitter less than 1, got 0.6 and 1",
        ),
        (
            FeatureCorruption(),
            ValueError,
            r"X must be a table .*got .*Use ImageAugment",
        ),
        (ImageAugmentation(), ValueError, r"X must be images.*got.*Use FeatureCorrupt"),
    ],
)
def test_bad_input(augment, error, message):
    with pytest.raises(error, match=message):
        augment(torch.ones(2, 3, 4))
