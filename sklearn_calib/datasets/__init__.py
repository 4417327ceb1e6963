"""What the papers do to data before or while a network trains."""

from sklearn_calib.datasets._mixup import Mixup

__all__ = ["Mixup"]
