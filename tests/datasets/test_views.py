"""Feature corruption and image augmentation: distributions of the views."""

import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation
from scipy.stats import binom, chisquare, kstest
from sklearn.base import clone

from sklearn_calib import NeuralClassifier
from sklearn_calib.datasets import FeatureCorruption, ImageAugmentation

TABLE = torch.arange(4000.0).view(1000, 4)
IMAGES = torch.rand(50, 3, 9, 7, generator=torch.Generator().manual_seed(0)).double()
STILL = {"min_area": 1, "flip": 0, "jitter": 0}
# The first stage in the code of SupCon and of RefCal.
AUTHORS = ImageAugmentation(
    min_area=0.2, max_ratio=4 / 3, jitter=0.4, hue=0.1, grey=0.2
)

both = pytest.mark.parametrize(
    ("augment", "X"),
    [(FeatureCorruption(), TABLE), (ImageAugmentation(), IMAGES), (AUTHORS, IMAGES)],
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


@both
def test_target_is_a_tensor(augment, X):
    with pytest.raises(TypeError, match=r"target must be a torch.Tensor, got ndarray"):
        augment(X, np.zeros(len(X)))


@both
def test_views_of_a_batch(augment, X):
    """With targets, the views are samples, of which each keeps its target."""
    target, weight = torch.eye(len(X)), torch.arange(len(X))
    drawn = torch.stack(views(augment, X))
    generator = torch.Generator().manual_seed(0)
    samples, soft, weights = augment(X, target, weight, generator=generator)
    for number, view in enumerate(drawn):
        assert torch.equal(samples[number::2], view)
        assert torch.equal(soft[number::2], target)
        assert torch.equal(weights[number::2], weight)
    assert augment(X, target)[2] is None


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


@pytest.mark.parametrize("area", [0.25, 0.8])
def test_aspect_ratio(area):
    """The slopes of two ramps are the sides of the crop, which fits into the image."""
    ramp = torch.linspace(-1, 1, 15).double().expand(15, 15)
    images = torch.stack([ramp, ramp.T]).expand(1000, 2, 15, 15)
    augment = ImageAugmentation(**{**STILL, "min_area": area, "max_ratio": 2})
    view = views(augment, images)[0].numpy()
    width = (view[:, 0, 7, 8] - view[:, 0, 7, 6]) * 3.5
    height = (view[:, 1, 8, 7] - view[:, 1, 6, 7]) * 3.5
    # The ramps cover 7 of 7.5 pixels on each side of the centre.
    assert (abs(view[:, 0, 7, 7]) <= (1 - width) * 7.5 / 7 + 1e-6).all()
    assert (abs(view[:, 1, 7, 7]) <= (1 - height) * 7.5 / 7 + 1e-6).all()
    assert area <= (width * height).min() < area + 0.05
    most = np.log(np.minimum(2, 1 / (width * height)))
    position = np.log(width / height) / most
    assert abs(position).max() <= 1 + 1e-5
    assert kstest(position, "uniform", (-1, 2)).pvalue > 0.01


def test_padded_crops():
    """By brute force: each view is one of all windows of the padded image, flipped."""
    augment = ImageAugmentation(min_area=1, padding=2, jitter=0, n_views=500)
    image = IMAGES[0]
    padded = np.pad(image, [(0, 0), (2, 2), (2, 2)])
    windows = [padded[:, i : i + 9, j : j + 7] for i in range(5) for j in range(5)]
    windows = np.stack([*windows, *(window[:, :, ::-1] for window in windows)])
    drawn = torch.stack(views(augment, image[None]))
    distance = abs(drawn.numpy() - windows).max((2, 3, 4))
    assert distance.min(1).max() < 1e-6
    counts = np.bincount(distance.argmin(1), minlength=50)
    assert chisquare(counts).pvalue > 0.01


def test_hue():
    """SciPy's rotation about the axis of grey, by an angle found from one pixel."""
    view = views(ImageAugmentation(**STILL, hue=0.1), IMAGES)[0]
    pixels, rotated = (each.flatten(2).mT.numpy() for each in (IMAGES, view))
    across, along = [1, -1, 0] / np.sqrt(2), [1, 1, -2] / np.sqrt(6)
    phase = [np.arctan2(each[:, 0] @ along, each[:, 0] @ across)
             for each in (pixels, rotated)]  # fmt: skip
    angle = (phase[1] - phase[0] + np.pi) % (2 * np.pi) - np.pi
    axis = np.full(3, 1 / np.sqrt(3))
    for before, after, turned in zip(pixels, rotated, angle, strict=True):
        expected = Rotation.from_rotvec(turned * axis).apply(before)
        np.testing.assert_allclose(after, expected, atol=1e-6)
    assert abs(angle).max() < 0.2 * np.pi
    assert angle.min() < -0.15 * np.pi
    assert angle.max() > 0.15 * np.pi


def test_grey():
    mean = IMAGES.mean(1, keepdim=True).expand_as(IMAGES)
    for view in views(ImageAugmentation(**STILL, hue=0.5, grey=1), IMAGES):
        torch.testing.assert_close(view, mean)
    some = views(ImageAugmentation(**STILL, grey=0.3, n_views=20), IMAGES)
    some = torch.stack(some)
    is_grey = (some[:, :, 0] == some[:, :, 1]).all((2, 3))
    low, high = binom(1000, 0.3).interval(0.999)
    assert low <= is_grey.sum() <= high
    torch.testing.assert_close(some[~is_grey], IMAGES.expand_as(some)[~is_grey])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_authors_settings(dtype):
    for images in (IMAGES[:1], 100 * IMAGES - 50, 0 * IMAGES):
        view = AUTHORS(images.to(dtype))
        assert view.dtype == dtype
        assert view.isfinite().all()
        assert abs(view).max() <= 4 * abs(images).max()


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
    ("augment", "message"),
    [
        (FeatureCorruption(1.5), "'corruption_rate' parameter of FeatureCor.* Got 1.5"),
        (ImageAugmentation(min_area=0), r"'min_area' .* range \(0.0, 1.0\]. Got 0"),
        (ImageAugmentation(max_ratio=0.5), r"'max_ratio' .* range \[1.0, inf\)"),
        (ImageAugmentation(padding=1.0), "'padding' .* must be an int .* Got 1.0"),
        (ImageAugmentation(flip=-1), r"'flip' .* range \[0.0, 1.0\]. Got -1"),
        (ImageAugmentation(jitter=1.0), r"'jitter' .* range \[0.0, 1.0\). Got 1.0"),
        (ImageAugmentation(hue=0.6), r"'hue' .* range \[0.0, 0.5\]. Got 0.6"),
        (ImageAugmentation(grey=None), "'grey' .* must be a float .* Got None"),
        (ImageAugmentation(n_views=0), r"'n_views' .* range \[1, 10000\]. Got 0"),
        (FeatureCorruption(), r"X must be a table .*got .*Use ImageAugment"),
        (ImageAugmentation(), r"X must be images.*got.*Use FeatureCorrupt"),
    ],
)
def test_bad_input(augment, message):
    with pytest.raises(ValueError, match=message):
        augment(torch.ones(2, 3, 4))


@pytest.mark.parametrize("params", [{"hue": 0.1}, {"grey": 0.1}])
def test_colours_of_grey_images(params):
    with pytest.raises(ValueError, match=r"X must have three .* got 1\. Omit"):
        ImageAugmentation(**params)(IMAGES[:, :1])


# In one stage.
X = IMAGES.float().numpy()
y = np.arange(50) % 3
NET = NeuralClassifier(
    module__n_filters=4, max_epochs=2, batch_size=20, dtype="float64", random_state=0
)


@pytest.mark.parametrize("n_views", [1, 2])
@pytest.mark.parametrize("loss", ["focal", "soft_binned_ece"])
def test_views_that_are_the_images_change_nothing(loss, n_views):
    """A loss that needs labels accepts views too, since their targets stay one-hot."""
    plain = clone(NET).set_params(loss=loss)
    still = ImageAugmentation(**STILL, n_views=n_views)
    augmented = clone(plain).set_params(batch_transform=still)
    weight = None if loss == "soft_binned_ece" else y + 1.0
    proba = plain.fit(X, y, sample_weight=weight).predict_proba(X)
    augmented.fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(augmented.predict_proba(X), proba, atol=1e-5)


def test_only_training_batches_are_augmented():
    """The weights stay, and a network for tables has no batch normalisation."""
    plain = NeuralClassifier(
        lr=1e-12, max_epochs=1, validation_fraction=0.3, random_state=0
    )
    corrupted = clone(plain).set_params(batch_transform=FeatureCorruption())
    rows = X[:, 0].reshape(50, -1)
    first, second = (net.fit(rows, y).history_[0] for net in (plain, corrupted))
    assert abs(first["train_loss"] - second["train_loss"]) > 1e-4
    np.testing.assert_allclose(first["valid_loss"], second["valid_loss"], rtol=1e-6)


def test_a_loss_with_a_history_is_refused():
    net = clone(NET).set_params(loss="crl", batch_transform=ImageAugmentation())
    with pytest.raises(ValueError, match=r"without indices\. Remove batch_tr"):
        net.fit(X, y)
