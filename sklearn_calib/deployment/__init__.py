"""Deployment: classifiers on new data, and monitoring of their calibration."""

from sklearn_calib.deployment._density_ratio import DensityRatioEstimator
from sklearn_calib.deployment._label_shift import label_shift_calibration_error
from sklearn_calib.deployment._monitor import CalibrationMonitor
from sklearn_calib.deployment._performance import estimate_performance
from sklearn_calib.deployment._prior_shift import PriorShiftClassifier
from sklearn_calib.deployment._priors import adjust_priors, estimate_priors

__all__ = [
    "CalibrationMonitor",
    "DensityRatioEstimator",
    "PriorShiftClassifier",
    "adjust_priors",
    "estimate_performance",
    "estimate_priors",
    "label_shift_calibration_error",
]
