"""Plots with the interface of scikit-learn's displays. They need matplotlib."""

from sklearn_calib.displays._curves.belt_display import CalibrationBeltDisplay
from sklearn_calib.displays._curves.decision_display import DecisionCurveDisplay
from sklearn_calib.displays._curves.histogram_display import ConfidenceHistogramDisplay
from sklearn_calib.displays._curves.monitor_display import MonitorDisplay
from sklearn_calib.displays._curves.risk_coverage_display import RiskCoverageDisplay
from sklearn_calib.displays._curves.set_display import PredictionSetDisplay
from sklearn_calib.displays._reliability.classwise_display import (
    ClasswiseReliabilityDisplay,
)
from sklearn_calib.displays._reliability.corp_display import CorpReliabilityDisplay
from sklearn_calib.displays._reliability.group_display import GroupReliabilityDisplay
from sklearn_calib.displays._reliability.reliability_display import ReliabilityDisplay
from sklearn_calib.displays._reliability.smooth_display import SmoothReliabilityDisplay
from sklearn_calib.displays._training.confidence_dynamics import (
    ConfidenceDynamicsDisplay,
)
from sklearn_calib.displays._training.gamma_dynamics import GammaDynamicsDisplay
from sklearn_calib.displays._training.loss_curve_display import LossCurveDisplay

__all__ = [
    "CalibrationBeltDisplay",
    "ClasswiseReliabilityDisplay",
    "ConfidenceDynamicsDisplay",
    "ConfidenceHistogramDisplay",
    "CorpReliabilityDisplay",
    "DecisionCurveDisplay",
    "GammaDynamicsDisplay",
    "GroupReliabilityDisplay",
    "LossCurveDisplay",
    "MonitorDisplay",
    "PredictionSetDisplay",
    "ReliabilityDisplay",
    "RiskCoverageDisplay",
    "SmoothReliabilityDisplay",
]
