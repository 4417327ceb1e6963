"""Post-hoc calibrators: from what a classifier said to calibrated probabilities."""

from sklearn_calib.calibrators._base import Calibrator
from sklearn_calib.calibrators._focal_temperature import (
    FocalPosterior,
    FocalTemperatureScaling,
)
from sklearn_calib.calibrators._per_label import PerLabelCalibrator
from sklearn_calib.calibrators._registry import get_calibrator, get_calibrator_names
from sklearn_calib.calibrators._temperature import TemperatureScaling

__all__ = [
    "Calibrator",
    "FocalPosterior",
    "FocalTemperatureScaling",
    "PerLabelCalibrator",
    "TemperatureScaling",
    "get_calibrator",
    "get_calibrator_names",
]
