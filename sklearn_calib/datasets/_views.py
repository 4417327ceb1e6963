"""Two views of each sample, for an encoder to learn what they have in common."""

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor

from sklearn_calib.datasets._tensors import check_tensors

# From the ends of an interval to a number in it for each image.
Uniform: TypeAlias = Callable[[float, float], Tensor]


@dataclass
class FeatureCorruption:
    """Two views of each row of a table: itself, and with many features replaced.

    For ``RefCalClassifier(augment=FeatureCorruption())``. Each feature of the second
    view is, with a probability of `corruption_rate`, that of another row of the batch,
    drawn for each feature anew: a value of the feature's own distribution, whatever
    the other features are [1]_.

    Parameters
    ----------
    corruption_rate : float, default=0.6
        Probability that a feature is replaced, in [0, 1].

    Raises
    ------
    TypeError
        If `corruption_rate` is no number, when the first batch comes.

    ValueError
        If it is out of range, or the batch is no table.

    Notes
    -----
    The paper replaces a random set of features of one size in each row, by values of
    the whole training set; here the size varies about it, and the values are those of
    a batch, which is itself a random draw of the training set.

    References
    ----------
    .. [1] D. Bahri, H. Jiang, Y. Tay and D. Metzler, "SCARF: Self-Supervised
       Contrastive Learning using Random Feature Corruption", ICLR 2022, algorithm 1.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.datasets import FeatureCorruption
    >>> FeatureCorruption()(torch.randn(5, 3)).shape
    torch.Size([5, 2, 3])
    """

    corruption_rate: float = 0.6

    def __call__(self, X: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Return the rows and their corrupted views.

        Parameters
        ----------
        X : Tensor of shape (N, n_features)
            Rows of a table.

        generator : torch.Generator, default=None
            What to draw from, on the device of X; None is torch's global one.

        Returns
        -------
        views : Tensor of shape (N, 2, n_features)
            The rows as they are, and corrupted.
        """
        _check_share("corruption_rate", self.corruption_rate)
        _check_dimensions(X, 2, "a table of shape (N, n_features)", "ImageAugmentation")
        on = X.device
        draws = torch.rand(X.shape, device=on, generator=generator)
        rows = torch.randint(len(X), X.shape, device=on, generator=generator)
        is_replaced, others = draws < self.corruption_rate, X.gather(0, rows)
        return torch.stack([X, torch.where(is_replaced, others, X)], dim=1)


@dataclass
class ImageAugmentation:
    """Random views of each image: cropped, flipped and with other colours.

    For ``RefCalClassifier(augment=ImageAugmentation())``, after [1]_. All images of a
    batch are augmented at once, each in its own way, by what torch has.

    Parameters
    ----------
    min_area : float, default=0.6
        A crop is a square part of the image, of at least this share of its area, in
        (0, 1], and is scaled back to the size of the image. 1 does not crop.

    flip : float, default=0.5
        Probability that left and right are swapped, in [0, 1]. Pass 0 for digits,
        letters and whatever else must not be mirrored.

    jitter : float, default=0.2
        How much brightness, contrast and, of three channels, saturation change, in
        [0, 1): contrast and saturation by a factor of 1 - jitter to 1 + jitter, and
        brightness by up to jitter times the deviation of the image's pixels, so that
        images need not lie in [0, 1]. 0 leaves the colours alone.

    n_views : int, default=2
        Views of each image, at least 1. A contrast needs two; a linear head that is
        trained by ``RefCalClassifier(augment_head=...)`` needs one.

    Raises
    ------
    TypeError
        If a parameter is no number, when the first batch comes.

    ValueError
        If a parameter is out of range, or the batch holds no images.

    Notes
    -----
    The defaults are for small networks that train for tens of epochs. Large ones that
    train for hundreds are given stronger views: crops of 0.2 of the area, colours that
    change by 0.4.

    References
    ----------
    .. [1] P. Khosla, P. Teterwak, C. Wang, A. Sarna, Y. Tian, P. Isola, A. Maschinot,
       C. Liu and D. Krishnan, "Supervised Contrastive Learning", NeurIPS 2020, section
       4.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.datasets import ImageAugmentation
    >>> ImageAugmentation(flip=0)(torch.rand(5, 1, 28, 28)).shape
    torch.Size([5, 2, 1, 28, 28])
    """

    min_area: float = 0.6
    flip: float = 0.5
    jitter: float = 0.2
    n_views: int = 2

    def __call__(self, X: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Return random views of each image.

        Parameters
        ----------
        X : Tensor of shape (N, n_channels, height, width)
            Images, floating point, of any scale.

        generator : torch.Generator, default=None
            What to draw from, on the device of X; None is torch's global one.

        Returns
        -------
        views : Tensor of shape (N, n_views, n_channels, height, width)
            The views.
        """
        for name in ("min_area", "flip", "jitter"):
            _check_share(name, getattr(self, name))
        if self.min_area == 0 or self.jitter == 1:
            raise ValueError(
                "min_area must be greater than 0 and jitter less than 1, got "
                f"{self.min_area!r} and {self.jitter!r}. The defaults are 0.6 "
                "and 0.2."
            )
        _check_n_views(self.n_views)
        shape = "images of shape (N, n_channels, height, width)"
        _check_dimensions(X, 4, shape, "FeatureCorruption")
        images = X.repeat_interleave(self.n_views, dim=0)

        def uniform(low: float, high: float) -> Tensor:
            """Draw one number for each view."""
            share = torch.rand(len(images), device=X.device, generator=generator)
            return (low + (high - low) * share).to(X.dtype)

        images = self._change_colours(self._crop_and_flip(images, uniform), uniform)
        return images.unflatten(0, (-1, self.n_views))

    def _crop_and_flip(self, images: Tensor, uniform: Uniform) -> Tensor:
        """Read each image on a grid of its own: a smaller, shifted, mirrored one."""
        side = uniform(self.min_area, 1).sqrt()
        left, top = (1 - side) * uniform(-1, 1), (1 - side) * uniform(-1, 1)
        mirror = torch.where(uniform(0, 1) < self.flip, -1.0, 1.0).to(images.dtype)
        zero = torch.zeros_like(side)
        rows = [side * mirror, zero, left, zero, side, top]
        maps, shape = torch.stack(rows, 1).view(-1, 2, 3), images.shape
        grid = F.affine_grid(maps, shape, align_corners=False)  # type: ignore[arg-type] # a torch.Size will do
        return F.grid_sample(
            images, grid, padding_mode="reflection", align_corners=False
        )

    def _change_colours(self, images: Tensor, uniform: Uniform) -> Tensor:
        """Change saturation, then contrast and brightness, about the mean colour."""

        def draw(low: float, high: float) -> Tensor:
            return uniform(low, high).view(-1, 1, 1, 1)

        if images.shape[1] == 3:
            grey = images.mean(1, keepdim=True)
            images = torch.lerp(grey, images, draw(1 - self.jitter, 1 + self.jitter))
        mean = images.mean((1, 2, 3), keepdim=True)
        deviation = (images - mean).square().mean((1, 2, 3), keepdim=True).sqrt()
        contrast = draw(1 - self.jitter, 1 + self.jitter)
        brightness = draw(-self.jitter, self.jitter) * deviation
        return torch.lerp(mean, images, contrast) + brightness


def _check_share(name: str, value: Any) -> None:
    """Raise an error unless the value is a number in [0, 1]."""
    if not isinstance(value, Real) or isinstance(value, bool):
        raise TypeError(
            f"{name} must be a number in [0, 1], got {value!r} of type "
            f"{type(value).__name__}. Leave it out for the default."
        )
    if not 0 <= value <= 1:  # type: ignore[operator] # numbers.Real has an order
        raise ValueError(
            f"{name} must be in [0, 1], got {value!r}. Leave it out for the default."
        )


def _check_n_views(value: Any) -> None:
    """Raise an error unless the value is an integer of at least 1."""
    is_count = isinstance(value, Integral) and not isinstance(value, bool)
    if not is_count or value < 1:
        raise (ValueError if is_count else TypeError)(
            f"n_views must be an integer of at least 1, got {value!r}. Leave it out "
            "for two views."
        )


def _check_dimensions(X: Any, n_dimensions: int, wanted: str, other: str) -> None:
    """Raise an error unless the batch has as many dimensions as are wanted."""
    check_tensors(X=X)
    if X.ndim != n_dimensions:
        raise ValueError(
            f"X must be {wanted}, got shape {tuple(X.shape)}. Use {other}, or a "
            "function of your own that returns (N, views, ...)."
        )
