"""Metrics of calibration and of selective prediction: true labels, then probabilities.

An error or a loss is better low.
"""

from sklearn_calib.metrics._bootstrap import bootstrap_interval
from sklearn_calib.metrics._calibration_error import (
    classwise_calibration_error,
    expected_calibration_error,
    maximum_calibration_error,
)
from sklearn_calib.metrics._refit import lowest_error_within_one_se
from sklearn_calib.metrics._risk_coverage import (
    aurc_loss,
    excess_aurc_loss,
    risk_coverage_curve,
)
from sklearn_calib.metrics._scorers import get_scorer, get_scorer_names
from sklearn_calib.metrics._uncertainty import ece_consistency_bound, ece_interval

__all__ = [
    "aurc_loss",
    "bootstrap_interval",
    "classwise_calibration_error",
    "ece_consistency_bound",
    "ece_interval",
    "excess_aurc_loss",
    "expected_calibration_error",
    "get_scorer",
    "get_scorer_names",
    "lowest_error_within_one_se",
    "maximum_calibration_error",
    "risk_coverage_curve",
]
