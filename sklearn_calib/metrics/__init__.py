"""Metrics for calibration, selective prediction and out-of-distribution detection.

For errors, losses and risks, lower is better. For scores and coverages, higher is
better.
"""

from sklearn_calib.metrics._accumulator.accumulator import CalibrationAccumulator
from sklearn_calib.metrics._calibration_errors.binned_error import (
    classwise_calibration_error,
    expected_calibration_error,
    maximum_calibration_error,
)
from sklearn_calib.metrics._calibration_errors.cumulated_error import (
    cutoff_calibration_error,
    ks_calibration_error,
)
from sklearn_calib.metrics._calibration_errors.integrated_index import (
    integrated_calibration_index,
)
from sklearn_calib.metrics._calibration_errors.kde_error import kde_calibration_error
from sklearn_calib.metrics._calibration_errors.kernel_error import (
    kernel_calibration_error,
)
from sklearn_calib.metrics._calibration_errors.known_posterior import (
    overconfidence,
    underconfidence,
)
from sklearn_calib.metrics._calibration_errors.lipschitz_error import (
    post_processing_gap,
    smooth_calibration_error,
)
from sklearn_calib.metrics._calibration_errors.smooth_ece import (
    smooth_expected_calibration_error,
)
from sklearn_calib.metrics._calibration_errors.truthful_errors import (
    averaged_two_bin_error,
    quantile_squared_error,
)
from sklearn_calib.metrics._calibration_errors.variational_error import (
    variational_calibration_error,
)
from sklearn_calib.metrics._decisions.decision_curve import (
    net_benefit_curve,
    net_benefit_score,
)
from sklearn_calib.metrics._decisions.decision_loss import (
    calibration_decision_loss,
)
from sklearn_calib.metrics._decisions.expected_cost import expected_cost_loss
from sklearn_calib.metrics._groups.group_metrics import per_group, worst_group
from sklearn_calib.metrics._groups.multicalibration_error import multicalibration_error
from sklearn_calib.metrics._groups.per_label_metric import per_label
from sklearn_calib.metrics._hypothesis_tests.calibration_belt import (
    calibration_belt_test,
)
from sklearn_calib.metrics._hypothesis_tests.calibration_slope import calibration_slope
from sklearn_calib.metrics._hypothesis_tests.consistency import consistency_test
from sklearn_calib.metrics._hypothesis_tests.hosmer_lemeshow import hosmer_lemeshow_test
from sklearn_calib.metrics._hypothesis_tests.kernel_significance import (
    kernel_calibration_test,
)
from sklearn_calib.metrics._hypothesis_tests.recalibration import recalibration_test
from sklearn_calib.metrics._hypothesis_tests.spiegelhalter import spiegelhalter_test
from sklearn_calib.metrics._hypothesis_tests.tcal import tcal_test
from sklearn_calib.metrics._intervals.bootstrap import bootstrap_interval
from sklearn_calib.metrics._intervals.ece_interval import (
    ece_consistency_bound,
    ece_interval,
)
from sklearn_calib.metrics._model_selection.difference import difference_test
from sklearn_calib.metrics._model_selection.metric_scorers import (
    get_scorer,
    get_scorer_names,
)
from sklearn_calib.metrics._model_selection.one_se_rule import (
    lowest_error_within_one_se,
)
from sklearn_calib.metrics._proper_scores.root_brier import root_brier_score_loss
from sklearn_calib.metrics._proper_scores.score_parts import (
    proper_calibration_error,
    refinement_error,
    score_decomposition,
)
from sklearn_calib.metrics._selective.aurc_metrics import (
    augrc_loss,
    aurc_loss,
    excess_aurc_loss,
)
from sklearn_calib.metrics._selective.failure_detection import failure_auroc_score
from sklearn_calib.metrics._selective.ood_detection import (
    fpr_at_tpr,
    ood_aupr_score,
    ood_auroc_score,
    ood_detection_error,
)
from sklearn_calib.metrics._selective.risk_coverage_curve import (
    coverage_at_risk,
    risk_at_coverage,
    risk_coverage_curve,
)
from sklearn_calib.metrics._selective.set_coverage import (
    class_coverage_error,
    mean_set_size_loss,
    set_coverage_score,
    size_stratified_coverage_error,
)

__all__ = [
    "CalibrationAccumulator",
    "augrc_loss",
    "aurc_loss",
    "averaged_two_bin_error",
    "bootstrap_interval",
    "calibration_belt_test",
    "calibration_decision_loss",
    "calibration_slope",
    "class_coverage_error",
    "classwise_calibration_error",
    "consistency_test",
    "coverage_at_risk",
    "cutoff_calibration_error",
    "difference_test",
    "ece_consistency_bound",
    "ece_interval",
    "excess_aurc_loss",
    "expected_calibration_error",
    "expected_cost_loss",
    "failure_auroc_score",
    "fpr_at_tpr",
    "get_scorer",
    "get_scorer_names",
    "hosmer_lemeshow_test",
    "integrated_calibration_index",
    "kde_calibration_error",
    "kernel_calibration_error",
    "kernel_calibration_test",
    "ks_calibration_error",
    "lowest_error_within_one_se",
    "maximum_calibration_error",
    "mean_set_size_loss",
    "multicalibration_error",
    "net_benefit_curve",
    "net_benefit_score",
    "ood_aupr_score",
    "ood_auroc_score",
    "ood_detection_error",
    "overconfidence",
    "per_group",
    "per_label",
    "post_processing_gap",
    "proper_calibration_error",
    "quantile_squared_error",
    "recalibration_test",
    "refinement_error",
    "risk_at_coverage",
    "risk_coverage_curve",
    "root_brier_score_loss",
    "score_decomposition",
    "set_coverage_score",
    "size_stratified_coverage_error",
    "smooth_calibration_error",
    "smooth_expected_calibration_error",
    "spiegelhalter_test",
    "tcal_test",
    "underconfidence",
    "variational_calibration_error",
    "worst_group",
]
