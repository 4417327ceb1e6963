"""Figures in the way of scikit-learn's displays; matplotlib loads when one is drawn."""

from sklearn_calib.displays._reliability import ReliabilityDisplay

__all__ = ["ReliabilityDisplay"]
