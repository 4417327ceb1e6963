"""Figures in the way of scikit-learn's displays; matplotlib loads when one is drawn."""

from sklearn_calib.displays._reliability import ReliabilityDisplay
from sklearn_calib.displays._risk_coverage import RiskCoverageDisplay

__all__ = ["ReliabilityDisplay", "RiskCoverageDisplay"]
