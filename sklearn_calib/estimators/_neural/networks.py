"""Default networks of `NeuralClassifier`, and checks of all networks."""

import inspect
import warnings
from collections.abc import Callable, Sequence
from itertools import pairwise
from numbers import Integral, Real
from typing import Any

import numpy as np
from torch import Tensor, nn

from sklearn_calib._validation.arrays import shown
from sklearn_calib._validation.declarations import (
    COUNT,
    Interval,
    is_count,
    validate_params,
)

# Images with a side of 2**30 have one pixel after this number of stages.
MOST_STAGES = 30

# Columns with such values need a scaler.
LARGE = 10_000


class MLP(nn.Sequential):
    """Multilayer perceptron (MLP) with ReLU activations, for tabular data.

    Parameters
    ----------
    n_features : int
        Number of input features.

    n_classes : int or None
        Number of classes, which is the number of logits. With None the network is an
        encoder: it has no output layer and returns the last hidden units.

    hidden_sizes : sequence of int, default=(128, 128)
        Number of units of each hidden layer. An empty sequence makes a linear model.

    dropout : float, default=0.0
        Fraction of the hidden units dropped during training, in [0, 1].

    Examples
    --------
    >>> from sklearn_calib.estimators import MLP
    >>> MLP(4, 3, hidden_sizes=(8,))
    MLP(
      (0): Linear(in_features=4, out_features=8, bias=True)
      (1): ReLU()
      (2): Linear(in_features=8, out_features=3, bias=True)
    )
    """

    @validate_params(
        {
            "n_features": COUNT,
            "n_classes": [*COUNT, None],
            "hidden_sizes": ["array-like"],
            "dropout": [Interval(Real, 0, 1, closed="both")],
        }
    )
    def __init__(
        self,
        n_features: int,
        n_classes: int | None,
        hidden_sizes: Sequence[int] = (128, 128),
        dropout: float = 0.0,
    ) -> None:
        _check_sizes(hidden_sizes)
        layers = []
        for n_inputs, n_units in pairwise((n_features, *hidden_sizes)):
            layers += [nn.Linear(n_inputs, n_units), nn.ReLU()]
            if dropout:
                layers.append(nn.Dropout(dropout))
        if n_classes is not None:
            layers.append(nn.Linear((n_features, *hidden_sizes)[-1], n_classes))
        super().__init__(*layers)


def _check_sizes(hidden_sizes: Sequence[int]) -> None:
    """Raise ValueError unless all sizes are positive integers."""
    if not all(map(is_count, hidden_sizes)):
        raise ValueError(
            f"hidden_sizes must hold positive integers, got {shown(hidden_sizes)}. "
            "Pass the number of units of each hidden layer, such as (128, 128)."
        )


class ConvNet(nn.Module):
    """Small convolutional network for images of any height and width.

    Each stage halves the image and doubles the number of filters. The last feature maps
    are averaged over all positions (global average pooling), so images may have any
    size.

    Parameters
    ----------
    n_channels : int
        Number of channels of an image: 1 for grey, 3 for colour.

    n_classes : int or None
        Number of classes, which is the number of logits. With None the network is an
        encoder: it has no output layer and returns the averaged feature maps.

    n_filters : int, default=32
        Number of filters of the first stage.

    n_stages : int, default=3
        Number of stages, at most 30: convolution, batch normalisation, ReLU and max
        pooling.

    Examples
    --------
    >>> import torch
    >>> from sklearn_calib.estimators import ConvNet
    >>> ConvNet(n_channels=1, n_classes=10)(torch.zeros(2, 1, 28, 28)).shape
    torch.Size([2, 10])
    """

    @validate_params(
        {
            "n_channels": COUNT,
            "n_classes": [*COUNT, None],
            "n_filters": COUNT,
            "n_stages": [Interval(Integral, 0, MOST_STAGES, closed="both")],
        }
    )
    def __init__(
        self,
        n_channels: int,
        n_classes: int | None,
        n_filters: int = 32,
        n_stages: int = 3,
    ) -> None:
        super().__init__()
        widths = [n_channels] + [n_filters * 2**stage for stage in range(n_stages)]
        stages = [_stage(*pair) for pair in pairwise(widths)]
        self.features = nn.Sequential(*stages)
        self.classifier = (
            None if n_classes is None else nn.Linear(widths[-1], n_classes)
        )

    def forward(self, images: Tensor) -> Tensor:
        """Return the logits, of shape (n_samples, n_classes), or the embeddings."""
        embeddings = self.features(images).mean(dim=(2, 3))
        return embeddings if self.classifier is None else self.classifier(embeddings)


def _stage(n_inputs: int, n_filters: int) -> nn.Sequential:
    """Return convolution, batch normalisation, ReLU and max pooling, rounded up."""
    return nn.Sequential(
        nn.Conv2d(n_inputs, n_filters, kernel_size=3, padding=1, bias=False),
        nn.BatchNorm2d(n_filters),
        nn.ReLU(),
        nn.MaxPool2d(2, ceil_mode=True),
    )


def data_sizes(
    module: Callable[..., Any], shape: tuple[int, ...], n_classes: int
) -> dict[str, int]:
    """Return the sizes of the data that the constructor of a module takes.

    `shape` is that of one sample, and empty if the module has several inputs.
    """
    sizes = {"n_classes": n_classes, "num_classes": n_classes}
    if len(shape) in (1, 3):
        sizes["n_features" if len(shape) == 1 else "n_channels"] = shape[0]
    wanted = inspect.signature(module).parameters
    return {name: size for name, size in sizes.items() if name in wanted}


def warn_of_scale(module: Any, X: Any) -> None:
    """Warn of columns that are too large for a network that does not scale its input.

    Only the default network is known not to.
    """
    if module not in (None, MLP) or not isinstance(X, np.ndarray) or X.ndim != 2:
        return
    largest = np.maximum(X.max(axis=0), -X.min(axis=0))
    columns = np.flatnonzero(largest >= LARGE).tolist()
    if columns:
        warnings.warn(
            f"X should be scaled for a network, got values up to {largest.max():.3g} "
            f"in the columns {shown(columns)}. Put a StandardScaler before the "
            "network.",
            UserWarning,
        )


def warn_of_channels_last(shape: tuple[int, ...]) -> None:
    """Warn if the last dimension of an image seems to contain its channels."""
    n_channels, height, last = shape
    if last in (1, 3, 4) and min(n_channels, height) > 4:
        warnings.warn(
            "X must contain images of shape (n_samples, n_channels, height, width), "
            f"got (n_samples, {n_channels}, {height}, {last}), which looks like "
            f"{last} channels in the last dimension. The network has {n_channels} "
            "input channels. Use numpy.moveaxis(X, -1, 1) to put the channels first, "
            "or set module__n_channels if they are first already.",
            UserWarning,
        )
