"""Figures in the way of scikit-learn's displays; matplotlib loads when one is drawn."""

from sklearn_calib.displays._confidence_dynamics import ConfidenceDynamicsDisplay
from sklearn_calib.displays._gamma_dynamics import GammaDynamicsDisplay
from sklearn_calib.displays._reliability import ReliabilityDisplay
from sklearn_calib.displays._risk_coverage import RiskCoverageDisplay

__all__ = [
    "ConfidenceDynamicsDisplay",
    "GammaDynamicsDisplay",
    "ReliabilityDisplay",
    "RiskCoverageDisplay",
]
