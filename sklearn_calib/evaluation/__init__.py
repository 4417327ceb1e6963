"""Evaluation of fitted classifiers by several metrics at once, as tables."""

from sklearn_calib.evaluation._comparison import compare
from sklearn_calib.evaluation._dataset_comparison import compare_datasets
from sklearn_calib.evaluation._ood_evaluation import evaluate_ood
from sklearn_calib.evaluation._report import calibration_report
from sklearn_calib.evaluation._risk_report import risk_report

__all__ = [
    "calibration_report",
    "compare",
    "compare_datasets",
    "evaluate_ood",
    "risk_report",
]
