"""Deployment: classifiers on new data whose class frequencies have changed."""

from sklearn_calib.deployment._prior_shift import PriorShiftClassifier
from sklearn_calib.deployment._priors import adjust_priors, estimate_priors

__all__ = ["PriorShiftClassifier", "adjust_priors", "estimate_priors"]
