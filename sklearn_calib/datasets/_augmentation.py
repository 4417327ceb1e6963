"""Mixup, and random views of each sample for contrastive learning."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor

from sklearn_calib._validation.arrays import shown
from sklearn_calib._validation.declarations import (
    Interval,
    validate_parameter_constraints,
)

# For smaller values, both gamma variates of torch's Beta sampler may underflow, which
# gives 0.5.
SMALLEST_ALPHA = 0.01

FRACTION = [Interval(Real, 0, 1, closed="both")]

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


class _Augmentation:
    """Base class of augmentations, which draw views of the samples of a batch."""

    _parameter_constraints: dict[str, list[Any]]

    def __call__(
        self,
        X: Tensor,
        target: Tensor | None = None,
        sample_weight: Tensor | None = None,
        *,
        generator: torch.Generator | None = None,
    ) -> Any:
        """Return views of each sample, or with `target` a batch of all views.

        Parameters
        ----------
        X : Tensor of shape (N, ...)
            Rows of a table, or images.

        target : Tensor of shape (N,) or (N, C), default=None
            Labels or class probabilities. A map of labels is not cropped or flipped.

        sample_weight : Tensor of shape (N,), default=None
            Weights.

        generator : torch.Generator, default=None
            Random number generator on the device of `X`; None uses torch's global one.

        Returns
        -------
        views : Tensor of shape (N, n_views, ...), if `target` is None
            The views.

        batch : tuple (X, target, sample_weight), otherwise
            The views as N * n_views samples, with repeated targets and weights.
        """
        constraints, name = self._parameter_constraints, type(self).__name__
        validate_parameter_constraints(constraints, vars(self), name)
        views = self._draw(X, generator)
        if target is None:
            return views
        check_are_tensors(target=target)
        n_views = views.shape[1]
        if sample_weight is not None:
            sample_weight = sample_weight.repeat_interleave(n_views)
        target = target.repeat_interleave(n_views, dim=0)
        return views.flatten(0, 1), target, sample_weight

    def _draw(self, X: Tensor, generator: torch.Generator | None) -> Tensor:
        """Return the views, of shape (N, n_views, ...)."""
        raise NotImplementedError


@dataclass
class FeatureCorruption(_Augmentation):
    """Random feature corruption (SCARF): the original row and a corrupted view.

    Use it as ``RefCalClassifier(augment=FeatureCorruption())`` or as
    ``NeuralClassifier(batch_transform=FeatureCorruption())`` for tabular data. In the
    second view, each feature is replaced with probability `corruption_rate` by its
    value in a random row of the batch, which is a sample of the feature's marginal
    distribution [1]_.

    Parameters
    ----------
    corruption_rate : float, default=0.6
        Probability that a feature is replaced, in [0, 1].

    Raises
    ------
    ValueError
        If `corruption_rate` is invalid, or the batch is not a table. Raised when the
        first batch is transformed.

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

    _parameter_constraints = {"corruption_rate": FRACTION}

    corruption_rate: float = 0.6

    def _draw(self, X: Tensor, generator: torch.Generator | None) -> Tensor:
        _check_dimensions(X, 2, "a table of shape (N, n_features)", "ImageAugmentation")
        on = X.device
        draws = torch.rand(X.shape, device=on, generator=generator)
        rows = torch.randint(len(X), X.shape, device=on, generator=generator)
        is_replaced, others = draws < self.corruption_rate, X.gather(0, rows)
        return torch.stack([X, torch.where(is_replaced, others, X)], dim=1)


@dataclass
class ImageAugmentation(_Augmentation):
    """Image augmentation: views with random crops, flips and colour jitter.

    Use it as ``RefCalClassifier(augment=ImageAugmentation())``, similar to [1]_, or in
    one stage as ``NeuralClassifier(batch_transform=ImageAugmentation(n_views=1))``. All
    images of a batch are augmented in one pass, with separate random numbers.

    Parameters
    ----------
    min_area : float, default=0.6
        Minimum area of a crop relative to the image, in (0, 1]. A crop is resized to
        the size of the image. 1 disables cropping.

    max_ratio : float, default=1.0
        Maximum aspect ratio of a crop relative to the image, at least 1. The logarithm
        of the ratio is uniform between those of 1 / max_ratio and max_ratio, as far as
        the crop fits into the image.

    padding : int, default=0
        Number of zeros on each side of an image. The crop is shifted by up to as many
        pixels, by whole ones. Pass ``min_area=1, padding=4`` for padded crops of the
        original size.

    flip : float, default=0.5
        Probability of a horizontal flip, in [0, 1]. Pass 0 for digits, letters and
        other images that must not be mirrored.

    jitter : float, default=0.2
        Strength of the colour jitter, in [0, 1). Contrast and, for three channels,
        saturation change by a factor from 1 - jitter to 1 + jitter. Brightness changes
        by up to `jitter` times the standard deviation of the image's pixels, so images
        need not be in [0, 1]. 0 disables the jitter.

    hue : float, default=0.0
        Maximum rotation of the hue as a fraction of the colour circle, in [0, 0.5].
        Colours are rotated about the axis of grey in RGB space.

    grey : float, default=0.0
        Probability that an image becomes grey, in [0, 1]. Grey is the mean of the
        channels.

    n_views : int, default=2
        Number of views of each image, from 1 to 10,000. Contrastive losses need two;
        one stage and the linear head of ``RefCalClassifier(augment_head=...)`` need
        one.

    Raises
    ------
    ValueError
        If a parameter is invalid, or the batch does not contain images, with three
        channels for `hue` and `grey`. Raised when the first batch is transformed.

    Notes
    -----
    The defaults are meant for small networks that train for tens of epochs. The code of
    [1]_ and [2]_ trains large networks for hundreds of epochs with

    - ``ImageAugmentation(min_area=0.2, max_ratio=4 / 3, jitter=0.4, hue=0.1,
      grey=0.2)``, where the jitter is left out with probability 0.2,
    - ``ImageAugmentation(min_area=0.2, max_ratio=4 / 3, jitter=0, n_views=1)`` for the
      linear head.

    References
    ----------
    .. [1] P. Khosla, P. Teterwak, C. Wang, A. Sarna, Y. Tian, P. Isola, A. Maschinot,
       C. Liu and D. Krishnan, "Supervised Contrastive Learning", NeurIPS 2020, section
       4.
    .. [2] R. Hebbalaguppe, A. Shastry, S. S. Ghosal and C. Arora, "Enhancing DNN
       Reliability with Refinement and Calibration", ICLR Workshop on Trustworthy AI
       2026, section 4.1.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.datasets import ImageAugmentation
    >>> ImageAugmentation(flip=0)(torch.rand(5, 1, 28, 28)).shape
    torch.Size([5, 2, 1, 28, 28])
    """

    _parameter_constraints = {
        "min_area": [Interval(Real, 0, 1, closed="right")],
        "max_ratio": [Interval(Real, 1, None, closed="left")],
        "padding": [Interval(Integral, 0, None, closed="left")],
        "flip": FRACTION,
        "jitter": [Interval(Real, 0, 1, closed="left")],
        "hue": [Interval(Real, 0, 0.5, closed="both")],
        "grey": FRACTION,
        "n_views": [Interval(Integral, 1, MOST_VIEWS, closed="both")],
    }

    min_area: float = 0.6
    max_ratio: float = 1.0
    padding: int = 0
    flip: float = 0.5
    jitter: float = 0.2
    hue: float = 0.0
    grey: float = 0.0
    n_views: int = 2

    def _draw(self, X: Tensor, generator: torch.Generator | None) -> Tensor:
        shape = "images of shape (N, n_channels, height, width)"
        _check_dimensions(X, 4, shape, "FeatureCorruption")
        if (self.hue or self.grey) and X.shape[1] != 3:
            raise ValueError(
                "X must have three channels if hue or grey is above 0, got "
                f"{X.shape[1]}. Omit both."
            )
        images = X.repeat_interleave(self.n_views, dim=0)

        def uniform(low: float, high: float) -> Tensor:
            """Draw one uniform number for each view."""
            unit = torch.rand(len(images), device=X.device, generator=generator)
            return (low + (high - low) * unit).to(X.dtype)

        images = self._change_colours(self._crop_and_flip(images, uniform), uniform)
        return images.unflatten(0, (-1, self.n_views))

    def _crop_and_flip(self, images: Tensor, uniform: Uniform) -> Tensor:
        """Sample each image on a smaller, shifted and possibly mirrored grid."""
        side, shape, pad = uniform(self.min_area, 1).sqrt(), images.shape, self.padding
        x, y = uniform(-1, 1), uniform(-1, 1)
        mirror = torch.where(uniform(0, 1) < self.flip, -1.0, 1.0).to(images.dtype)
        width = height = side
        if self.max_ratio > 1:
            most = (-2 * side.log()).clamp(max=math.log(self.max_ratio))
            stretch = (most * uniform(-0.5, 0.5)).exp()
            width, height = side * stretch, side / stretch
        left, top = (1 - width) * x, (1 - height) * y
        if pad:
            images = F.pad(images, [pad] * 4)

            def pixels() -> Tensor:
                return uniform(-pad - 0.5, pad + 0.5).round()

            # In coordinates of the padded image, whose sides are 2 long.
            n_rows, n_columns = images.shape[2:]
            width, left = (part * (shape[3] / n_columns) for part in (width, left))
            height, top = (part * (shape[2] / n_rows) for part in (height, top))
            left, top = left + 2 * pixels() / n_columns, top + 2 * pixels() / n_rows
        zero = torch.zeros_like(side)
        rows = [width * mirror, zero, left, zero, height, top]
        maps = torch.stack(rows, 1).view(-1, 2, 3)
        grid = F.affine_grid(maps, shape, align_corners=False)  # type: ignore[arg-type] # torch.Size is fine
        return F.grid_sample(
            images, grid, padding_mode="reflection", align_corners=False
        )

    def _change_colours(self, images: Tensor, uniform: Uniform) -> Tensor:
        """Change hue and saturation, then contrast and brightness around the mean."""

        def draw(low: float, high: float) -> Tensor:
            return uniform(low, high).view(-1, 1, 1, 1)

        if images.shape[1] == 3:
            grey = images.mean(1, keepdim=True)
            if self.hue:
                # Rodrigues' formula for a rotation about the axis (1, 1, 1).
                angle = 2 * math.pi * draw(-self.hue, self.hue)
                across = (images.roll(1, 1) - images.roll(-1, 1)) / math.sqrt(3)
                images = torch.lerp(grey, images, angle.cos()) + across * angle.sin()
            saturation = draw(1 - self.jitter, 1 + self.jitter)
            if self.grey:
                saturation = saturation * (draw(0, 1) >= self.grey)
            images = torch.lerp(grey, images, saturation)
        mean = images.mean((1, 2, 3), keepdim=True)
        deviation = (images - mean).square().mean((1, 2, 3), keepdim=True).sqrt()
        contrast = draw(1 - self.jitter, 1 + self.jitter)
        brightness = draw(-self.jitter, self.jitter) * deviation
        return torch.lerp(mean, images, contrast) + brightness


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
