"""Image corruptions at five severities, with the constants of CIFAR-10-C."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.ndimage import convolve, gaussian_filter
from sklearn.utils import check_random_state

from sklearn_calib._validation.arrays import row_blocks, shown
from sklearn_calib._validation.declarations import (
    Interval,
    did_you_mean,
    validate_params,
)
from sklearn_calib._validation.types import Array, Floats, Seed

# Each function takes images of shape (n, c, h, w) in [0, 1], the constant of the
# severity and a random state. The returned values may be outside [0, 1].


def _gaussian_noise(images: Floats, scale: float, rng: np.random.RandomState) -> Floats:
    return images + rng.normal(scale=scale, size=images.shape)


def _shot_noise(images: Floats, photons: float, rng: np.random.RandomState) -> Floats:
    return rng.poisson(images * photons) / photons


def _impulse_noise(images: Floats, amount: float, rng: np.random.RandomState) -> Floats:
    """Replace values by 0 or 1, with equal probabilities."""
    is_replaced = rng.random_sample(images.shape) <= amount
    return np.where(is_replaced, rng.random_sample(images.shape) <= 0.5, images)


def _speckle_noise(images: Floats, scale: float, rng: np.random.RandomState) -> Floats:
    return images + images * rng.normal(scale=scale, size=images.shape)


def _gaussian_blur(images: Floats, sigma: float, _: Any) -> Floats:
    return gaussian_filter(images, sigma, axes=(2, 3), mode="nearest")


def _defocus_blur(
    images: Floats, radius_and_sigma: tuple[float, float], _: Any
) -> Floats:
    """Blur with a disk that is smoothed by a 3 x 3 Gaussian kernel."""
    radius, sigma = radius_and_sigma
    along, across = np.mgrid[-3:4, -3:4]
    disk = (along**2 + across**2 <= radius**2).astype(np.float64)
    kernel = gaussian_filter(disk / disk.sum(), sigma, radius=1, mode="constant")
    return convolve(images, kernel[None, None], mode="mirror")


def _brightness(images: Floats, change: float, _: Any) -> Floats:
    """Increase the value in HSV, with hue and saturation unchanged."""
    value = images.max(axis=1, keepdims=True)
    brighter = np.minimum(value + change, 1)
    # Black has no hue or saturation, and becomes grey.
    ratio = np.divide(brighter, value, out=np.zeros_like(value), where=value > 0)
    return np.where(value > 0, images * ratio, brighter)


def _contrast(images: Floats, factor: float, _: Any) -> Floats:
    mean = images.mean(axis=(2, 3), keepdims=True)
    return (images - mean) * factor + mean


# The function of each corruption and its constants for severities 1 to 5.
CORRUPTIONS: dict[str, tuple[Callable[..., Floats], list[Any]]] = {
    "brightness": (_brightness, [0.05, 0.1, 0.15, 0.2, 0.3]),
    "contrast": (_contrast, [0.75, 0.5, 0.4, 0.3, 0.15]),
    "defocus_blur": (
        _defocus_blur,
        [(0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1, 0.2), (1.5, 0.1)],
    ),
    "gaussian_blur": (_gaussian_blur, [0.4, 0.6, 0.7, 0.8, 1]),
    "gaussian_noise": (_gaussian_noise, [0.04, 0.06, 0.08, 0.09, 0.1]),
    "impulse_noise": (_impulse_noise, [0.01, 0.02, 0.03, 0.05, 0.07]),
    "shot_noise": (_shot_noise, [500, 250, 100, 75, 50]),
    "speckle_noise": (_speckle_noise, [0.06, 0.1, 0.12, 0.16, 0.2]),
}


@validate_params(
    {
        "X": ["array-like"],
        "name": [str],
        "severity": [Interval(Integral, 1, 5, closed="both")],
        "random_state": ["random_state"],
    }
)
def corrupt_images(
    X: ArrayLike,
    name: str = "gaussian_noise",
    *,
    severity: int = 1,
    random_state: Seed = None,
) -> Array:
    """Corrupt images with noise or blur, or change their brightness or contrast.

    Corrupted images test the robustness and calibration of a classifier under
    distribution shift.

    Parameters
    ----------
    X : array-like of shape (n_samples, height, width) or \
            (n_samples, n_channels, height, width)
        Images of one or three channels: 8-bit integers, or floats in [0, 1].

    name : str, default="gaussian_noise"
        Name of the corruption: "brightness", "contrast", "defocus_blur",
        "gaussian_blur", "gaussian_noise", "impulse_noise", "shot_noise" or
        "speckle_noise".

    severity : int, default=1
        Severity of the corruption, from 1 to 5.

    random_state : int, RandomState instance or None, default=None
        Controls the noise. Pass an int for reproducible results.

    Returns
    -------
    X : ndarray
        Corrupted images, with the shape and dtype of the input.

    Raises
    ------
    ValueError
        If `name` is unknown, `X` does not contain images, or its floats are not in
        [0, 1].

    TypeError
        If `X` contains neither 8-bit integers nor floats.

    Notes
    -----
    These are eight of the nineteen corruptions of CIFAR-10-C [1]_, with the constants
    of the authors' code, which differ from those of ImageNet-C. They are designed for
    images of 32 by 32 pixels. Speckle noise and Gaussian blur belong to the four
    corruptions that [1]_ reserves for validation. The other eleven need JPEG files,
    photographs of frost, or libraries for images, and are not included: take them from
    the published CIFAR-10-C, or from the package imagecorruptions.

    Corrupted 8-bit images are rounded down, as in the authors' code. For defocus blur
    and brightness, images of one channel are treated as grey images of three channels.

    References
    ----------
    .. [1] D. Hendrycks and T. Dietterich, "Benchmarking Neural Network Robustness to
       Common Corruptions and Perturbations", ICLR 2019.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.datasets import corrupt_images
    >>> X = np.full((100, 32, 32), 0.5)
    >>> noisy = corrupt_images(X, "gaussian_noise", severity=5, random_state=0)
    >>> round(float(noisy.std()), 3)
    0.1
    """
    if name not in CORRUPTIONS:
        raise ValueError(
            f"name must be one of {list(CORRUPTIONS)}, got {shown(name)}."
            f"{did_you_mean(name, CORRUPTIONS)}"
        )
    X = _check_images(X)
    scale = 255 if X.dtype == np.uint8 else 1
    corrupt, constants = CORRUPTIONS[name]
    rng = check_random_state(random_state)
    images = X if X.ndim == 4 else X[:, None]
    corrupted = np.empty_like(images)
    for rows in row_blocks(len(images), images[0].size):
        block = corrupt(images[rows] / scale, constants[severity - 1], rng)
        corrupted[rows] = np.clip(block, 0, 1) * scale
    return corrupted.reshape(X.shape)


def _check_images(X: ArrayLike) -> Array:
    """Return images as an array; raise an error if they are not valid."""
    X = np.asarray(X)
    if X.ndim not in (3, 4) or (X.ndim == 4 and X.shape[1] not in (1, 3)) or not X.size:
        raise ValueError(
            "X must be images of shape (n_samples, height, width) or (n_samples, "
            f"n_channels, height, width) with 1 or 3 channels, got {X.shape}. Reshape "
            "rows of pixels, and use X.transpose(0, 3, 1, 2) if the channels are last."
        )
    if X.dtype == np.uint8:
        return X
    if X.dtype.kind != "f":
        raise TypeError(
            f"X must contain 8-bit integers or floats, got {X.dtype}. Use X.astype("
            "numpy.uint8) for values from 0 to 255, or divide them by 255."
        )
    low, high = X.min(), X.max()
    if not (low >= 0 and high <= 1):
        raise ValueError(
            f"X must lie in [0, 1] if it contains floats, got values in [{low:.3g}, "
            f"{high:.3g}]. Divide by 255, and standardise after the corruption."
        )
    return X
