"""Plots with the interface of scikit-learn's displays. They need matplotlib."""

from sklearn_calib.displays._calibration_belt import CalibrationBeltDisplay
from sklearn_calib.displays._classwise_reliability import ClasswiseReliabilityDisplay
from sklearn_calib.displays._confidence_dynamics import ConfidenceDynamicsDisplay
from sklearn_calib.displays._corp_reliability import CorpReliabilityDisplay
from sklearn_calib.displays._decision_curve import DecisionCurveDisplay
from sklearn_calib.displays._gamma_dynamics import GammaDynamicsDisplay
from sklearn_calib.displays._group_reliability import GroupReliabilityDisplay
from sklearn_calib.displays._monitor import MonitorDisplay
from sklearn_calib.displays._reliability import ReliabilityDisplay
from sklearn_calib.displays._risk_coverage import RiskCoverageDisplay
from sklearn_calib.displays._smooth_reliability import SmoothReliabilityDisplay

__all__ = [
    "CalibrationBeltDisplay",
    "ClasswiseReliabilityDisplay",
    "ConfidenceDynamicsDisplay",
    "CorpReliabilityDisplay",
    "DecisionCurveDisplay",
    "GammaDynamicsDisplay",
    "GroupReliabilityDisplay",
    "MonitorDisplay",
    "ReliabilityDisplay",
    "RiskCoverageDisplay",
    "SmoothReliabilityDisplay",
]
