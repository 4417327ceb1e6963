"""Data transformations: corruptions, long tails, mixup and augmented views."""

from sklearn_calib.datasets._augmentation import (
    FeatureCorruption,
    ImageAugmentation,
    Mixup,
)
from sklearn_calib.datasets._corruptions import corrupt_images
from sklearn_calib.datasets._long_tailed import group_classes, make_long_tailed

__all__ = [
    "FeatureCorruption",
    "ImageAugmentation",
    "Mixup",
    "corrupt_images",
    "group_classes",
    "make_long_tailed",
]
