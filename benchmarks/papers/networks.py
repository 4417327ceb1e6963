"""Networks of the papers for images of 32 x 32 pixels, and small networks.

All have the parameters `n_channels` and `n_classes`, and return logits. With
`n_classes=None`, they return embeddings, except for those of timm and for texts.
"""

from itertools import pairwise

import torch
from torch import nn

from sklearn_calib.datasets import ImageAugmentation

CROP_AND_FLIP = ImageAugmentation(min_area=1, padding=4, jitter=0, n_views=1)


def convolve(n_inputs, n_outputs, size, stride=1):
    """Convolution with padding, which keeps the image size for stride 1."""
    return nn.Conv2d(n_inputs, n_outputs, size, stride, size // 2, bias=False)


def activate(n_channels):
    """Batch normalisation and ReLU."""
    return nn.Sequential(nn.BatchNorm2d(n_channels), nn.ReLU(inplace=True))


class Residual(nn.Module):
    """Residual block: sum of a body and a shortcut, after layers common to both."""

    def __init__(self, body, shortcut=None, *, shared=None, last=None):
        super().__init__()
        self.body, self.shortcut, self.shared, self.last = (
            nn.Identity() if part is None else part
            for part in (body, shortcut, shared, last)
        )

    def forward(self, images):
        """Return the sum."""
        images = self.shared(images)
        return self.last(self.body(images) + self.shortcut(images))


def make_basic(n_inputs, width, stride):
    """Basic block: two convolutions, each before normalisation (He et al., 2016)."""
    layers = [convolve(n_inputs, width, 3, stride), activate(width)]
    layers += [convolve(width, width, 3), nn.BatchNorm2d(width)]
    return _make_residual(layers, n_inputs, width, stride)


def make_bottleneck(n_inputs, width, stride):
    """Bottleneck block: a convolution with `width` channels between two of size 1."""
    n_inner = width // 4
    layers = [convolve(n_inputs, n_inner, 1), activate(n_inner)]
    layers += [convolve(n_inner, n_inner, 3, stride), activate(n_inner)]
    layers += [convolve(n_inner, width, 1), nn.BatchNorm2d(width)]
    return _make_residual(layers, n_inputs, width, stride)


def _make_residual(layers, n_inputs, width, stride):
    """Return a block that ends in ReLU, with a projection if the shapes differ."""
    shortcut = None
    if stride != 1 or n_inputs != width:
        projection = convolve(n_inputs, width, 1, stride)
        shortcut = nn.Sequential(projection, nn.BatchNorm2d(width))
    return Residual(nn.Sequential(*layers), shortcut, last=nn.ReLU(inplace=True))


def make_preactivated(n_inputs, width, stride):
    """Pre-activation block: normalisation before convolution (He et al., 2016b)."""
    layers = [convolve(n_inputs, width, 3, stride)]
    layers += [activate(width), convolve(width, width, 3)]
    if stride == 1 and n_inputs == width:
        return Residual(nn.Sequential(activate(n_inputs), *layers))
    shortcut = convolve(n_inputs, width, 1, stride)
    return Residual(nn.Sequential(*layers), shortcut, shared=activate(n_inputs))


class ResNet(nn.Sequential):
    """Residual network. Each stage except the first halves the image size."""

    def __init__(
        self, n_channels, n_classes, make_block, depths, widths, n_first, preact=False
    ):
        layers = [convolve(n_channels, n_first, 3)]
        layers += [] if preact else [activate(n_first)]
        n_inputs = n_first
        for stage, (depth, width) in enumerate(zip(depths, widths, strict=True)):
            strides = [1 if stage == 0 else 2] + [1] * (depth - 1)
            for stride in strides:
                layers.append(make_block(n_inputs, width, stride))
                n_inputs = width
        layers += [activate(n_inputs)] if preact else []
        super().__init__(*layers, *_make_head(n_inputs, n_classes))


def _make_head(n_inputs, n_classes):
    """Global average pooling, followed by a linear layer if there are classes."""
    pooling = nn.AdaptiveAvgPool2d(1), nn.Flatten()
    return pooling if n_classes is None else (*pooling, nn.Linear(n_inputs, n_classes))


class ResNet50(ResNet):
    """ResNet-50 whose first convolution is 3 x 3, without pooling after it."""

    def __init__(self, n_channels, n_classes):
        widths = (256, 512, 1024, 2048)
        super().__init__(
            n_channels, n_classes, make_bottleneck, (3, 4, 6, 3), widths, 64
        )


class ResNet110(ResNet):
    """ResNet-110 for CIFAR (He et al., 2016): three stages of 18 basic blocks."""

    def __init__(self, n_channels, n_classes):
        super().__init__(n_channels, n_classes, make_basic, [18] * 3, (16, 32, 64), 16)


class ResNet110Bottleneck(ResNet):
    """ResNet-110 of the focal papers' code: a ResNet-50 with more blocks."""

    def __init__(self, n_channels, n_classes):
        widths = (256, 512, 1024, 2048)
        super().__init__(
            n_channels, n_classes, make_bottleneck, (3, 4, 26, 3), widths, 64
        )


class PreResNet56(ResNet):
    """Pre-activation ResNet-56: three stages of nine blocks."""

    def __init__(self, n_channels, n_classes):
        widths = (16, 32, 64)
        super().__init__(
            n_channels, n_classes, make_preactivated, [9] * 3, widths, 16, preact=True
        )


class WideResNet28x10(ResNet):
    """Wide ResNet-28-10 (Zagoruyko and Komodakis, 2016)."""

    def __init__(self, n_channels, n_classes):
        widths = (160, 320, 640)
        super().__init__(
            n_channels, n_classes, make_preactivated, [4] * 3, widths, 16, preact=True
        )


class WideResNet26x10(ResNet):
    """Wide ResNet of the focal papers' code, without pre-activation."""

    def __init__(self, n_channels, n_classes):
        widths = (160, 320, 640)
        super().__init__(n_channels, n_classes, make_basic, [4] * 3, widths, 16)


class DenseLayer(nn.Module):
    """Dense layer: append `growth` channels, after an optional bottleneck."""

    def __init__(self, n_inputs, growth, bottleneck):
        layers = [activate(n_inputs)]
        if bottleneck:
            layers += [convolve(n_inputs, 4 * growth, 1), activate(4 * growth)]
            n_inputs = 4 * growth
        super().__init__()
        self.body = nn.Sequential(*layers, convolve(n_inputs, growth, 3))

    def forward(self, images):
        """Return the input concatenated with the new channels."""
        return torch.cat([images, self.body(images)], 1)


class DenseNet(nn.Sequential):
    """DenseNet: dense blocks, then convolution and pooling (Huang et al., 2017)."""

    def __init__(
        self, n_channels, n_classes, depths, growth, n_first, *, bottleneck, keep
    ):
        n_inputs = n_first
        layers = [convolve(n_channels, n_first, 3)]
        for block, depth in enumerate(depths):
            if block > 0:
                n_kept = int(n_inputs * keep)
                layers += [activate(n_inputs), convolve(n_inputs, n_kept, 1)]
                layers += [nn.AvgPool2d(2)]
                n_inputs = n_kept
            for _ in range(depth):
                layers.append(DenseLayer(n_inputs, growth, bottleneck))
                n_inputs += growth
        super().__init__(*layers, activate(n_inputs), *_make_head(n_inputs, n_classes))


class DenseNet40(DenseNet):
    """DenseNet-40 with growth rate 12, without bottlenecks and compression."""

    def __init__(self, n_channels, n_classes):
        super().__init__(
            n_channels, n_classes, [12] * 3, 12, 16, bottleneck=False, keep=1.0
        )


class DenseNet121(DenseNet):
    """DenseNet-121 with growth rate 32, whose first convolution is 3 x 3."""

    def __init__(self, n_channels, n_classes):
        depths = (6, 12, 24, 16)
        super().__init__(
            n_channels, n_classes, depths, 32, 64, bottleneck=True, keep=0.5
        )


class _FromTimm(nn.Module):
    """Untrained network of timm. Images are resized to the size that it expects."""

    name, size = None, None

    def __init__(self, n_channels, n_classes):
        from timm import create_model

        super().__init__()
        self.network = create_model(
            self.name, in_chans=n_channels, num_classes=n_classes
        )

    def forward(self, images):
        """Return the logits of the resized images."""
        return self.network(nn.functional.interpolate(images, self.size))


class EfficientViTM1(_FromTimm):
    """EfficientViT-M1."""

    name, size = "efficientvit_m1", 224


class ResNet18(_FromTimm):
    """ResNet-18 for ImageNet."""

    name, size = "resnet18", 224


class Prepared(nn.Module):
    """Network by name, with augmentation and half precision during training.

    Logits for evaluation are not rounded, since rounding would cause ties.
    """

    def __init__(self, n_classes, network, n_channels=None, augment=False, half=False):
        super().__init__()
        shape = {} if n_channels is None else {"n_channels": n_channels}
        self.network = globals()[network](n_classes=n_classes, **shape)
        self.augment, self.half = augment, half

    def forward(self, images):
        """Return the logits in single precision."""
        if self.augment and self.training:
            images = CROP_AND_FLIP(images).squeeze(1)
        half = self.half and self.training
        with torch.autocast(images.device.type, torch.bfloat16, enabled=half):
            return self.network(images).float()


class SmallNet(nn.Sequential):
    """Small ConvNet: three stages with one convolution, and a fully connected layer.

    Fast on a CPU: pooling comes before normalisation, and channels are last.
    """

    def __init__(self, n_channels, n_classes, widths=(16, 32, 64), n_hidden=256):
        pairs = pairwise((n_channels, *widths))
        layers = [layer for pair in pairs for layer in self._stage(*pair)]
        layers += [nn.AdaptiveAvgPool2d(4), nn.Flatten()]
        layers += [nn.Linear(16 * widths[-1], n_hidden, bias=False)]
        layers += [nn.BatchNorm1d(n_hidden), nn.ReLU()]
        layers += [] if n_classes is None else [nn.Linear(n_hidden, n_classes)]
        super().__init__(*layers)
        self.to(memory_format=torch.channels_last)

    def forward(self, images):
        """Return the logits, of shape (n_samples, n_classes)."""
        return super().forward(images.contiguous(memory_format=torch.channels_last))

    @staticmethod
    def _stage(n_inputs, n_filters):
        """Convolution, pooling, normalisation and ReLU."""
        return convolve(n_inputs, n_filters, 3), nn.MaxPool2d(2), *activate(n_filters)


class GlobalPoolingCNN(nn.Module):
    """Word vectors, one convolution, and the maximum over the text."""

    def __init__(self, n_classes, n_words=20_000, width=32, n_filters=64):
        super().__init__()
        self.words = nn.Embedding(n_words, width, padding_idx=0)
        self.convolution = nn.Conv1d(width, n_filters, 5, padding=2)
        self.head = nn.Linear(n_filters, n_classes)

    def forward(self, numbers):
        """Return the logits of texts, which are integer codes in any dtype."""
        vectors = self.words(numbers.long()).transpose(1, 2)
        return self.head(self.convolution(vectors).relu().amax(2))
