"""Many metrics of fitted classifiers at once: tables for papers and benchmarks."""

from sklearn_calib.evaluation._compare import compare
from sklearn_calib.evaluation._ood import evaluate_ood

__all__ = ["compare", "evaluate_ood"]
