"""Image corruptions, compared with their definitions."""

import colorsys
import re

import numpy as np
import pytest

from sklearn_calib.datasets import corrupt_images

RNG = np.random.default_rng(0)
COLOUR = RNG.uniform(size=(6, 3, 32, 32))
CORRUPTIONS = [
    "brightness",
    "contrast",
    "defocus_blur",
    "gaussian_blur",
    "gaussian_noise",
    "impulse_noise",
    "shot_noise",
    "speckle_noise",
]
all_names = pytest.mark.parametrize("name", CORRUPTIONS)


def change(name, severity, X=COLOUR):
    """Return the mean distance to the clean images."""
    return np.abs(corrupt_images(X, name, severity=severity, random_state=0) - X).mean()


@all_names
def test_severity_grows(name):
    changes = [change(name, severity) for severity in range(1, 6)]
    if name == "defocus_blur":
        # Up to a radius of 0.5, the disk is one pixel, so only the Gaussian blurs.
        assert changes[0] < changes[1] < changes[2]
    else:
        assert (np.diff(changes) > 0).all()
    assert changes[4] > 2 * changes[0] > 0


@all_names
@pytest.mark.parametrize("shape", [(5, 8, 9), (5, 1, 8, 9), (5, 3, 8, 9)])
def test_shape_range_and_dtype(name, shape):
    X = RNG.integers(256, size=shape, dtype=np.uint8)
    before = X.copy()
    for images in (X, X / 255, (X / 255).astype(np.float32)):
        corrupted = corrupt_images(images, name, severity=5, random_state=0)
        assert corrupted.shape == shape
        assert corrupted.dtype == images.dtype
        assert corrupted.min() >= 0
        assert corrupted.max() <= (255 if images.dtype == np.uint8 else 1)
    np.testing.assert_array_equal(X, before)


@all_names
def test_random_state_and_scale(name):
    X = RNG.integers(256, size=(4, 16, 16), dtype=np.uint8)
    corrupted = corrupt_images(X, name, severity=3, random_state=0)
    again = corrupt_images(X, name, severity=3, random_state=0)
    np.testing.assert_array_equal(corrupted, again)
    scaled = corrupt_images(X / 255, name, severity=3, random_state=0)
    np.testing.assert_array_equal(corrupted, (scaled * 255).astype(np.uint8))
    other = corrupt_images(X, name, severity=3, random_state=1)
    assert np.array_equal(corrupted, other) != name.endswith("noise")


@pytest.mark.parametrize("name", [n for n in CORRUPTIONS if not n.endswith("noise")])
def test_images_and_channels_do_not_mix(name):
    """The value in HSV is the maximum over all channels."""
    both = corrupt_images(COLOUR[:2], name, severity=5)
    for image, corrupted in zip(COLOUR[:2], both, strict=True):
        alone = corrupt_images(image[None], name, severity=5)[0]
        np.testing.assert_allclose(corrupted, alone, atol=1e-12)
        if name != "brightness":
            channels = corrupt_images(image, name, severity=5)
            np.testing.assert_allclose(corrupted, channels, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "severity", "deviation"),
    [
        ("gaussian_noise", 1, 0.04),
        ("gaussian_noise", 5, 0.1),
        ("speckle_noise", 3, 0.5 * 0.12),
        ("shot_noise", 4, np.sqrt(0.5 / 75)),
        ("impulse_noise", 5, 0.5 * np.sqrt(0.07)),
    ],
)
def test_deviation_of_noise(name, severity, deviation):
    """For 300 000 values of grey images, the sampling error is about 0.4 percent."""
    X = np.full((300, 32, 32), 0.5)
    noise = corrupt_images(X, name, severity=severity, random_state=0) - X
    assert noise.std() == pytest.approx(deviation, rel=0.02)
    assert abs(noise.mean()) < 0.001


def test_brightness_is_the_value_of_hsv():
    corrupted = corrupt_images(COLOUR, "brightness", severity=5)
    for pixel, bright in zip(COLOUR[0, :, 0].T, corrupted[0, :, 0].T, strict=True):
        hue, saturation, value = colorsys.rgb_to_hsv(*pixel)
        expected = colorsys.hsv_to_rgb(hue, saturation, min(value + 0.3, 1))
        np.testing.assert_allclose(bright, expected, atol=1e-12)
    black = corrupt_images(np.zeros((1, 3, 2, 2)), "brightness", severity=1)
    np.testing.assert_allclose(black, 0.05)


def test_contrast():
    corrupted = corrupt_images(COLOUR, "contrast", severity=5)
    mean = COLOUR.mean(axis=(2, 3), keepdims=True)
    np.testing.assert_allclose(corrupted - mean, 0.15 * (COLOUR - mean), atol=1e-12)


@pytest.mark.parametrize(
    ("severity", "inside", "beside"),
    [
        # exp(-1 / (2 sigma^2)) of 0.4, relative to the sum over -1, 0 and 1.
        (1, 0.9192242134934213, 0.040387893253289356),
        # With radius 1, the disk is five pixels, which sigma = 0.2 hardly smooths.
        (4, 0.2, 0.2),
    ],
)
def test_defocus_of_a_point(severity, inside, beside):
    X = np.zeros((1, 11, 11))
    X[0, 5, 5] = 1
    (image,) = corrupt_images(X, "defocus_blur", severity=severity)
    assert image.sum() == pytest.approx(1)
    np.testing.assert_allclose(image, image.T, atol=1e-12)
    along = image.sum(axis=1) if severity == 1 else image[5]
    assert along[5] == pytest.approx(inside, rel=1e-4)
    assert along[4] == pytest.approx(beside, rel=1e-4)


@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        (np.zeros((2, 64)), ValueError, r"X must be images.*got \(2, 64\).*Reshape"),
        (np.zeros((2, 32, 32, 3)), ValueError, r"1 or 3 channels, got .*transpose"),
        (np.zeros((0, 8, 8)), ValueError, r"got \(0, 8, 8\)"),
        (np.full((2, 8, 8), 255.0), ValueError, r"in \[0, 1\].*got values in \[255"),
        (np.full((2, 8, 8), np.nan), ValueError, r"must lie in \[0, 1\]"),
        (
            np.zeros((2, 8, 8), dtype=int),
            TypeError,
            "8-bit integers or floats, got int",
        ),
    ],
)
def test_bad_images(X, error, message):
    with pytest.raises(error, match=message):
        corrupt_images(X)


def test_bad_options():
    message = re.escape(f"name must be one of {CORRUPTIONS}, got 'gausian_noise'")
    with pytest.raises(ValueError, match=f"{message}.*mean 'gaussian_noise'"):
        corrupt_images(COLOUR, "gausian_noise")
    for severity in (0, 6, 1.5):
        with pytest.raises(ValueError, match="'severity' parameter"):
            corrupt_images(COLOUR, severity=severity)
