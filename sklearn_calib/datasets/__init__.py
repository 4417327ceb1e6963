"""Data transformations: corruptions, long tails, mixup and augmented views."""

from sklearn_calib.datasets._augmentation import Mixup
from sklearn_calib.datasets._corruptions import corrupt_images
from sklearn_calib.datasets._long_tailed import group_classes, make_long_tailed
from sklearn_calib.datasets._views import FeatureCorruption, ImageAugmentation

__all__ = [
    "FeatureCorruption",
    "ImageAugmentation",
    "Mixup",
    "corrupt_images",
    "group_classes",
    "make_long_tailed",
]
