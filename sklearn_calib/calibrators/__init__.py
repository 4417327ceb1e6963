"""Post-hoc calibrators: from what a classifier said to calibrated probabilities."""

from sklearn_calib.calibrators._base import Calibrator
from sklearn_calib.calibrators._bbq import BBQ
from sklearn_calib.calibrators._beta import BetaCalibration
from sklearn_calib.calibrators._dirichlet import DirichletCalibrator
from sklearn_calib.calibrators._enir import ENIR
from sklearn_calib.calibrators._ensemble_temperature import EnsembleTemperatureScaling
from sklearn_calib.calibrators._focal_temperature import (
    FocalPosterior,
    FocalTemperatureScaling,
)
from sklearn_calib.calibrators._histogram import HistogramBinning, ScalingBinning
from sklearn_calib.calibrators._isotonic import (
    IsotonicCalibration,
    JointIsotonicCalibration,
)
from sklearn_calib.calibrators._joint_beta import JointBetaCalibration
from sklearn_calib.calibrators._matrix import MatrixScaling
from sklearn_calib.calibrators._metacal import MetaCal
from sklearn_calib.calibrators._per_label import PerLabelCalibrator
from sklearn_calib.calibrators._platt import PlattScaling
from sklearn_calib.calibrators._quadratic_logistic import QuadraticLogisticCalibration
from sklearn_calib.calibrators._registry import get_calibrator, get_calibrator_names
from sklearn_calib.calibrators._spline import SplineCalibration
from sklearn_calib.calibrators._structured import (
    StructuredMatrixScaling,
    StructuredVectorScaling,
)
from sklearn_calib.calibrators._temperature import TemperatureScaling
from sklearn_calib.calibrators._vector import VectorScaling
from sklearn_calib.calibrators._venn_abers import VennAbers

__all__ = [
    "BBQ",
    "ENIR",
    "BetaCalibration",
    "Calibrator",
    "DirichletCalibrator",
    "EnsembleTemperatureScaling",
    "FocalPosterior",
    "FocalTemperatureScaling",
    "HistogramBinning",
    "IsotonicCalibration",
    "JointBetaCalibration",
    "JointIsotonicCalibration",
    "MatrixScaling",
    "MetaCal",
    "PerLabelCalibrator",
    "PlattScaling",
    "QuadraticLogisticCalibration",
    "ScalingBinning",
    "SplineCalibration",
    "StructuredMatrixScaling",
    "StructuredVectorScaling",
    "TemperatureScaling",
    "VectorScaling",
    "VennAbers",
    "get_calibrator",
    "get_calibrator_names",
]
