"""Mixup, and random views of each sample for contrastive learning."""

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor

from sklearn_calib._validation.arrays import shown

# For smaller values, both gamma variates of torch's Beta sampler may underflow, which
# gives 0.5.
SMALLEST_ALPHA = 0.01

# Function of the bounds of an interval that draws one number for each view.
Uniform: TypeAlias = Callable[[float, float], Tensor]

# Larger batches do not fit into memory.
MOST_VIEWS = 10_000


@dataclass
class Mixup:
    """Mixup: train on convex combinations of pairs of samples and their labels.

    Use it as ``NeuralClassifier(batch_transform=Mixup())``. Each batch is mixed with a
    random permutation of itself: a sample becomes ``lam * x_i + (1 - lam) * x_j``, and
    its label becomes the soft target ``lam * y_i + (1 - lam) * y_j`` [1]_. The mixing
    coefficient `lam` is drawn from Beta(alpha, alpha) once for each batch. Networks
    that are trained with mixup are less overconfident [2]_.

    All per-sample losses support soft targets. So do penalties, such as MDCA, that do
    not depend on which predictions are correct.

    Parameters
    ----------
    alpha : float, default=0.2
        Parameter of the Beta distribution, at least 0.01. For small values, most mixed
        samples are close to one of the two samples. With 1, `lam` is uniform in [0, 1].
        [2]_ uses 0.1 to 0.4.

    Raises
    ------
    TypeError
        If `alpha` is not a number. Raised when the first batch is mixed.

    ValueError
        If `alpha` is less than 0.01 or infinite. Raised when the first batch is mixed.

    References
    ----------
    .. [1] H. Zhang, M. Cisse, Y. N. Dauphin and D. Lopez-Paz, "mixup: Beyond Empirical
       Risk Minimization", ICLR 2018, equation 2.
    .. [2] S. Thulasidasan, G. Chennupati, J. Bilmes, T. Bhattacharya and S. Michalak,
       "On Mixup Training: Improved Calibration and Predictive Uncertainty for Deep
       Neural Networks", NeurIPS 2019.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.datasets import Mixup
    >>> X, target, _ = Mixup(alpha=0.4)(torch.randn(5, 3), torch.eye(5))
    >>> X.shape, target.shape
    (torch.Size([5, 3]), torch.Size([5, 5]))
    """

    alpha: float = 0.2

    def __call__(
        self, X: Tensor, target: Tensor, sample_weight: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return the mixed batch.

        Parameters
        ----------
        X : Tensor of shape (N, ...)
            Floating-point inputs.

        target : Tensor of shape (N, C)
            Class probabilities, or one-hot encoded labels.

        sample_weight : Tensor of shape (N,), default=None
            Non-negative weights. They are mixed like the inputs, and the two labels of
            a mixed sample are weighted accordingly.

        Returns
        -------
        X : Tensor of shape (N, ...)
            Mixed inputs.

        target : Tensor of shape (N, C)
            Mixed probabilities.

        sample_weight : Tensor of shape (N,) or None
            Mixed weights.
        """
        self._check_alpha()
        check_are_tensors(X=X, target=target)
        alpha = torch.tensor(float(self.alpha))
        lam = torch.distributions.Beta(alpha, alpha).sample().item()
        order = torch.randperm(len(X), device=X.device)

        def mix(values: Tensor) -> Tensor:
            return torch.lerp(values[order], values, lam)

        if sample_weight is None:
            return mix(X), mix(target), None
        weight = mix(sample_weight)
        weighted = mix(target * sample_weight.unsqueeze(1)) / weight.unsqueeze(1)
        # If both weights are zero, the weighted target is 0 / 0.
        target = torch.where(weight.unsqueeze(1) > 0, weighted, mix(target))
        return mix(X), target, weight

    def _check_alpha(self) -> None:
        """Raise an error unless alpha is a valid parameter of the Beta distribution."""
        if not isinstance(self.alpha, Real) or isinstance(self.alpha, bool):
            raise TypeError(
                f"alpha must be a number > 0, got {shown(self.alpha)} of type "
                f"{type(self.alpha).__name__}. The default is 0.2."
            )
        if not 0 < self.alpha < float("inf"):
            raise ValueError(
                f"alpha must be > 0 and finite, got {self.alpha!r}. The default is 0.2."
            )
        if self.alpha < SMALLEST_ALPHA:
            raise ValueError(
                f"alpha must be at least {SMALLEST_ALPHA}, got {self.alpha!r}, as the "
                "Beta distribution cannot be sampled for smaller values. Train without "
                "Mixup, which is nearly the same."
            )


@dataclass
class FeatureCorruption:
    """Random feature corruption (SCARF): the original row and a corrupted view.

    Use it as ``RefCalClassifier(augment=FeatureCorruption())`` for tabular data. In the
    second view, each feature is replaced with probability `corruption_rate` by its
    value in a random row of the batch, which is a sample of the feature's marginal
    distribution [1]_.

    Parameters
    ----------
    corruption_rate : float, default=0.6
        Probability that a feature is replaced, in [0, 1].

    Raises
    ------
    TypeError
        If `corruption_rate` is not a number. Raised when the first batch is
        transformed.

    ValueError
        If `corruption_rate` is out of range, or the batch is not a table.

    Notes
    -----
    [1]_ replaces the same number of features in each row, with values from the whole
    training set. Here, the number of replaced features is random, and the values are
    taken from the batch.

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
            Random number generator on the device of `X`; None uses torch's global one.

        Returns
        -------
        views : Tensor of shape (N, 2, n_features)
            The original rows and the corrupted rows.
        """
        _check_fraction("corruption_rate", self.corruption_rate)
        _check_dimensions(X, 2, "a table of shape (N, n_features)", "ImageAugmentation")
        on = X.device
        draws = torch.rand(X.shape, device=on, generator=generator)
        rows = torch.randint(len(X), X.shape, device=on, generator=generator)
        is_replaced, others = draws < self.corruption_rate, X.gather(0, rows)
        return torch.stack([X, torch.where(is_replaced, others, X)], dim=1)


@dataclass
class ImageAugmentation:
    """Image augmentation: views with random crops, flips and colour jitter.

    Use it as ``RefCalClassifier(augment=ImageAugmentation())``, similar to [1]_. All
    images of a batch are augmented in one pass, with separate random numbers.

    Parameters
    ----------
    min_area : float, default=0.6
        Minimum area of a crop relative to the image, in (0, 1]. A crop has the aspect
        ratio of the image and is resized to its size. 1 disables cropping.

    flip : float, default=0.5
        Probability of a horizontal flip, in [0, 1]. Pass 0 for digits, letters and
        other images that must not be mirrored.

    jitter : float, default=0.2
        Strength of the colour jitter, in [0, 1). Contrast and, for three channels,
        saturation change by a factor from 1 - jitter to 1 + jitter. Brightness changes
        by up to `jitter` times the standard deviation of the image's pixels, so images
        need not be in [0, 1]. 0 disables the jitter.

    n_views : int, default=2
        Number of views of each image, from 1 to 10,000. Contrastive losses need two;
        the linear head of ``RefCalClassifier(augment_head=...)`` needs one.

    Raises
    ------
    TypeError
        If a parameter is not a number. Raised when the first batch is transformed.

    ValueError
        If a parameter is out of range, or the batch does not contain images.

    Notes
    -----
    The defaults are meant for small networks that train for tens of epochs. Large
    networks that train for hundreds of epochs often use stronger augmentation, such as
    `min_area=0.2` and `jitter=0.4`.

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
            Floating-point images of any scale.

        generator : torch.Generator, default=None
            Random number generator on the device of `X`; None uses torch's global one.

        Returns
        -------
        views : Tensor of shape (N, n_views, n_channels, height, width)
            The views.
        """
        for name in ("min_area", "flip", "jitter"):
            _check_fraction(name, getattr(self, name))
        if self.min_area == 0 or self.jitter == 1:
            raise ValueError(
                "min_area must be greater than 0 and jitter less than 1, got "
                f"{shown(self.min_area)} and {shown(self.jitter)}. The defaults are "
                "0.6 and 0.2."
            )
        _check_n_views(self.n_views)
        shape = "images of shape (N, n_channels, height, width)"
        _check_dimensions(X, 4, shape, "FeatureCorruption")
        images = X.repeat_interleave(self.n_views, dim=0)

        def uniform(low: float, high: float) -> Tensor:
            """Draw one uniform number for each view."""
            unit = torch.rand(len(images), device=X.device, generator=generator)
            return (low + (high - low) * unit).to(X.dtype)

        images = self._change_colours(self._crop_and_flip(images, uniform), uniform)
        return images.unflatten(0, (-1, self.n_views))

    def _crop_and_flip(self, images: Tensor, uniform: Uniform) -> Tensor:
        """Sample each image on a smaller, shifted and possibly mirrored grid."""
        side = uniform(self.min_area, 1).sqrt()
        left, top = (1 - side) * uniform(-1, 1), (1 - side) * uniform(-1, 1)
        mirror = torch.where(uniform(0, 1) < self.flip, -1.0, 1.0).to(images.dtype)
        zero = torch.zeros_like(side)
        rows = [side * mirror, zero, left, zero, side, top]
        maps, shape = torch.stack(rows, 1).view(-1, 2, 3), images.shape
        grid = F.affine_grid(maps, shape, align_corners=False)  # type: ignore[arg-type] # torch.Size is fine
        return F.grid_sample(
            images, grid, padding_mode="reflection", align_corners=False
        )

    def _change_colours(self, images: Tensor, uniform: Uniform) -> Tensor:
        """Change the saturation, then contrast and brightness around the mean."""

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


def _check_fraction(name: str, value: Any) -> None:
    """Raise an error unless the value is a number in [0, 1]."""
    if not isinstance(value, Real) or isinstance(value, bool):
        raise TypeError(
            f"{name} must be a number in [0, 1], got {shown(value)} of type "
            f"{type(value).__name__}. Omit it to use the default."
        )
    if not 0 <= value <= 1:  # type: ignore[operator] # numbers.Real is ordered
        raise ValueError(
            f"{name} must be in [0, 1], got {shown(value)}. Omit it to use the default."
        )


def _check_n_views(value: Any) -> None:
    """Raise an error unless the value is an integer in the range."""
    is_count = isinstance(value, Integral) and not isinstance(value, bool)
    if not is_count or not 1 <= value <= MOST_VIEWS:
        raise (ValueError if is_count else TypeError)(
            f"n_views must be a positive integer up to {MOST_VIEWS}, got "
            f"{shown(value)}. The default is 2."
        )


def _check_dimensions(X: Any, n_dimensions: int, wanted: str, other: str) -> None:
    """Raise an error unless the batch has `n_dimensions` dimensions."""
    check_are_tensors(X=X)
    if X.ndim != n_dimensions:
        raise ValueError(
            f"X must be {wanted}, got shape {tuple(X.shape)}. Use {other}, or a "
            "custom function that returns a tensor of shape (N, n_views, ...)."
        )


def check_are_tensors(**values: Any) -> None:
    """Raise TypeError unless all values are tensors; the keywords are their names."""
    for name, value in values.items():
        if not isinstance(value, Tensor):
            raise TypeError(
                f"{name} must be a torch.Tensor, got {type(value).__name__}. Convert "
                "it with torch.as_tensor."
            )
