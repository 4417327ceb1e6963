"""Data transformations: corruptions, long tails, mixup and augmented views."""

from typing import TYPE_CHECKING

from sklearn_calib._lazy_names import lazy_names

if TYPE_CHECKING:  # editors and type checkers cannot follow lazy loading
    from sklearn_calib.datasets._augmentation import (
        FeatureCorruption as FeatureCorruption,
        ImageAugmentation as ImageAugmentation,
        Mixup as Mixup,
    )
    from sklearn_calib.datasets._corruptions import corrupt_images as corrupt_images
    from sklearn_calib.datasets._long_tailed import (
        group_classes as group_classes,
        make_long_tailed as make_long_tailed,
    )

_HOMES = {
    "FeatureCorruption": "sklearn_calib.datasets._augmentation",
    "ImageAugmentation": "sklearn_calib.datasets._augmentation",
    "Mixup": "sklearn_calib.datasets._augmentation",
    "corrupt_images": "sklearn_calib.datasets._corruptions",
    "group_classes": "sklearn_calib.datasets._long_tailed",
    "make_long_tailed": "sklearn_calib.datasets._long_tailed",
}

__all__ = sorted(_HOMES)

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
