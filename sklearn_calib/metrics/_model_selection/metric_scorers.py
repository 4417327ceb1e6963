"""Scorers for scikit-learn's model selection. Greater is better for all of them."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

from numpy.typing import ArrayLike
from sklearn.metrics import (
    get_scorer as get_sklearn_scorer,
    get_scorer_names as get_sklearn_scorer_names,
)

from sklearn_calib._sklearn.scorer_objects import LabelledScorer
from sklearn_calib._validation.arrays import shown
from sklearn_calib._validation.declarations import did_you_mean, validate_params
from sklearn_calib._validation.types import Metric
from sklearn_calib.metrics._accumulator.cell_metrics import modes_of
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
from sklearn_calib.metrics._calibration_errors.lipschitz_error import (
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
from sklearn_calib.metrics._decisions.decision_loss import calibration_decision_loss
from sklearn_calib.metrics._decisions.expected_cost import expected_cost_loss
from sklearn_calib.metrics._groups.group_metrics import worst_group
from sklearn_calib.metrics._groups.multicalibration_error import multicalibration_error
from sklearn_calib.metrics._proper_scores.root_brier import root_brier_score_loss
from sklearn_calib.metrics._proper_scores.score_parts import (
    proper_calibration_error,
    refinement_error,
)
from sklearn_calib.metrics._selective.aurc_metrics import (
    augrc_loss,
    aurc_loss,
    excess_aurc_loss,
)
from sklearn_calib.metrics._selective.failure_detection import failure_auroc_score
from sklearn_calib.metrics._selective.risk_coverage_curve import (
    coverage_at_risk,
    risk_at_coverage,
)
from sklearn_calib.metrics._selective.set_coverage import (
    class_coverage_error,
    mean_set_size_loss,
    set_coverage_score,
    size_stratified_coverage_error,
)


@validate_params({"scoring": [str, callable]})
def get_scorer(
    scoring: str | Callable[..., float], *, pos_label: Any = None
) -> Callable[..., float]:
    """Get a scorer by name, from this package or from scikit-learn.

    Parameters
    ----------
    scoring : str or callable
        Name of a scorer, from :func:`get_scorer_names` or
        :func:`sklearn.metrics.get_scorer_names`. A callable is returned unchanged.

    pos_label : label, default=None
        Label of the positive class of a binary problem, for scorers of this package
        that evaluate its probability. By default, the second of `estimator.classes_`.

    Returns
    -------
    scorer : callable
        Scorer with the signature `scorer(estimator, X, y)`. Greater is better.

    Raises
    ------
    ValueError
        If no scorer has this name, or `pos_label` is passed for a scorer that does not
        evaluate the positive class.

    Warnings
    --------
    Never select a model by its calibration error alone: predicting the class
    frequencies for every sample is calibrated, and useless. Pass a proper score too,
    and select by :func:`lowest_error_within_one_se`.

    Notes
    -----
    Scorers call `predict_proba` and pass `labels=estimator.classes_` to the metric. A
    class may therefore be absent from the test data, but not from the training data.

    For two classes, scorers such as `neg_ece` evaluate the probability of the predicted
    class, as for more classes. Scorers named after future scorers of scikit-learn, such
    as `neg_l2_calibration_error`, evaluate the probability of the positive class, which
    is the second of `estimator.classes_` or `pos_label`.

    The scorer "neg_expected_cost" has no costs and is minus the error rate. For costs,
    use `make_scorer(expected_cost_loss, costs=costs, greater_is_better=False,
    response_method="predict_proba")`.

    Scorers of sets, such as "set_coverage", call `predict_set` instead, which
    classifiers such as :class:`~sklearn_calib.PredictionSetClassifier` have. Their
    errors compare coverages with the level 0.9, also if the classifier has another one.
    For another level, pass a function `scorer(estimator, X, y)` that calls the metric.

    Scorers of groups, such as `neg_multicalibration_error`, receive `groups` by
    metadata routing, which they always request. After
    `sklearn.set_config(enable_metadata_routing=True)`, use `cross_validate(...,
    scoring="neg_multicalibration_error", params={"groups": groups})`.

    `import sklearn_calib` registers the names with scikit-learn, so that
    `scoring="neg_ece"` works. The names are only known in processes that have imported
    the package. If a search is nested in a parallel one, pass the scorer instead of its
    name. If a new version of scikit-learn stores names elsewhere, the import warns, and
    `scoring` takes the scorers only.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn_calib.metrics import get_scorer
    >>> X, y = load_iris(return_X_y=True)
    >>> classifier = LogisticRegression(max_iter=1000).fit(X, y)
    >>> -1 <= get_scorer("neg_ece")(classifier, X, y) <= 0
    True
    """
    scorer: Any = scoring if callable(scoring) else find_scorer(scoring, "scoring")
    if pos_label is None:
        return scorer
    names = [
        name
        for name, known in _SCORERS.items()
        if known._kwargs.get("mode") is None
        and "positive" in modes_of(known._score_func)
    ]
    if scoring not in names:
        raise ValueError(
            f"pos_label must be None unless scoring is one of {names}, which evaluate "
            f"the positive class, got {shown(pos_label)} with "
            f"{shown(scoring)}. Use "
            "sklearn.metrics.make_scorer for other metrics with pos_label."
        )
    scorer._kwargs["pos_label"] = pos_label
    return scorer


def find_scorer(scoring: str, parameter: str) -> Callable[..., float]:
    """Return the scorer of a name; `parameter` is the argument's name in messages."""
    if scoring in _SCORERS:
        return deepcopy(_SCORERS[scoring])
    names = {*_SCORERS, *get_sklearn_scorer_names()}
    if scoring not in names:
        bare = {name.removeprefix("neg_"): name for name in names}
        near = did_you_mean(scoring, sorted(names), {**bare, **_SYNONYMS})
        raise ValueError(
            f"{parameter} must be the name of a scorer, got {shown(scoring)}."
            f"{near} Valid names are "
            f"{get_scorer_names()} and those of sklearn.metrics.get_scorer_names()."
        )
    return get_sklearn_scorer(scoring)


def get_scorer_names() -> list[str]:
    """Get the names of the scorers that this package adds to scikit-learn.

    Returns
    -------
    names : list of str
        Sorted names for :func:`get_scorer`.

    Examples
    --------
    >>> from sklearn_calib.metrics import get_scorer_names
    >>> "neg_ece" in get_scorer_names()
    True
    """
    return sorted(_SCORERS)


def _positive(metric: Metric, **options: Any) -> LabelledScorer:
    """Return the scorer of a metric for which greater is better."""
    return LabelledScorer(metric, 1, options, response_method="predict_proba")


def _negative(metric: Metric, **options: Any) -> LabelledScorer:
    """Return the scorer of a metric for which lower is better."""
    return LabelledScorer(metric, -1, options, response_method="predict_proba")


def _of_sets(metric: Metric, sign: int) -> LabelledScorer:
    """Return the scorer of a metric of prediction sets."""
    return LabelledScorer(metric, sign, {}, response_method="predict_set")


def _worst_group_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    groups: ArrayLike,
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    **options: Any,
) -> float:
    """Return the ECE of the worst group; scorers need a function with a name."""
    options |= {"groups": groups, "labels": labels, "sample_weight": sample_weight}
    return worst_group(expected_calibration_error, y_true, y_proba, **options)


# The public name, which the scorer shows.
_worst_group_error.__name__ = "worst_group"


# Options of scikit-learn's future calibration_error, which evaluates the positive
# class. This is the default of `mode` for binary problems.
_COMING = {"n_bins": "cube_root", "strategy": "quantile"}

# What others call the metrics of scorers, for messages.
_SYNONYMS = {
    "brier": "neg_brier_score",
    "brier_score_loss": "neg_brier_score",
    "calibration_error": "neg_ece",
    "cross_entropy": "neg_log_loss",
    "expected_calibration_error": "neg_ece",
    "maximum_calibration_error": "neg_mce",
    "neg_brier": "neg_brier_score",
    "neg_expected_calibration_error": "neg_ece",
    "neg_maximum_calibration_error": "neg_mce",
    "neg_nll": "neg_log_loss",
    "nll": "neg_log_loss",
}

_SCORERS = {
    "coverage_at_5_percent_risk": _positive(coverage_at_risk, max_risk=0.05),
    "failure_auroc": _positive(failure_auroc_score),
    "neg_adaptive_ece": _negative(
        expected_calibration_error, mode="top_label", strategy="quantile"
    ),
    "neg_augrc": _negative(augrc_loss),
    "neg_aurc": _negative(aurc_loss),
    "neg_averaged_two_bin": _negative(averaged_two_bin_error, mode="classwise"),
    "neg_brier_refinement": _negative(
        refinement_error, loss="brier", recalibration="isotonic"
    ),
    "neg_calibration_decision": _negative(calibration_decision_loss, mode="top_label"),
    "neg_class_coverage_error": _of_sets(class_coverage_error, -1),
    "neg_classwise_adaptive_ece": _negative(
        classwise_calibration_error, strategy="quantile"
    ),
    "neg_classwise_ece": _negative(classwise_calibration_error),
    "neg_cutoff_error": _negative(cutoff_calibration_error, mode="top_label"),
    "neg_debiased_ece": _negative(
        expected_calibration_error, mode="top_label", reduce_bias=True
    ),
    "neg_debiased_l2_calibration_error": _negative(
        expected_calibration_error, norm="l2", reduce_bias=True, **_COMING
    ),
    "neg_e50": _negative(integrated_calibration_index, statistic=0.5),
    "neg_e90": _negative(integrated_calibration_index, statistic=0.9),
    "neg_ece": _negative(expected_calibration_error, mode="top_label"),
    "neg_emax": _negative(integrated_calibration_index, statistic="max"),
    "neg_excess_aurc": _negative(excess_aurc_loss),
    "neg_expected_cost": _negative(expected_cost_loss),
    "neg_ici": _negative(integrated_calibration_index),
    "neg_isotonic_ece": _negative(
        expected_calibration_error, mode="top_label", strategy="isotonic"
    ),
    "neg_kde_ece": _negative(kde_calibration_error, mode="top_label"),
    "neg_kernel_calibration_error": _negative(kernel_calibration_error),
    "neg_ks_error": _negative(ks_calibration_error, mode="top_label"),
    "neg_l1_calibration_error": _negative(expected_calibration_error, **_COMING),
    "neg_l2_calibration_error": _negative(
        expected_calibration_error, norm="l2", **_COMING
    ),
    "neg_max_calibration_error": _negative(
        expected_calibration_error, norm="max", **_COMING
    ),
    "neg_mce": _negative(maximum_calibration_error, mode="top_label"),
    "neg_mean_set_size": _of_sets(mean_set_size_loss, -1),
    "neg_multicalibration_error": _negative(multicalibration_error),
    # The default, log loss with temperature scaling, may be negative.
    "neg_proper_calibration": _negative(
        proper_calibration_error, loss="brier", recalibration="isotonic"
    ),
    "neg_quantile_squared": _negative(quantile_squared_error, mode="classwise"),
    "neg_refinement": _negative(refinement_error),
    "neg_risk_at_80_percent_coverage": _negative(risk_at_coverage, coverage=0.8),
    "neg_root_brier": _negative(root_brier_score_loss),
    "neg_size_stratified_coverage_error": _of_sets(size_stratified_coverage_error, -1),
    "neg_smooth_calibration_error": _negative(
        smooth_calibration_error, mode="top_label"
    ),
    "neg_smooth_ece": _negative(smooth_expected_calibration_error, mode="top_label"),
    "neg_sweep_ece": _negative(
        expected_calibration_error,
        mode="top_label",
        n_bins="sweep",
        strategy="quantile",
    ),
    "neg_variational_calibration": _negative(
        variational_calibration_error, mode="canonical"
    ),
    "neg_worst_group_debiased_ece": _negative(
        _worst_group_error, mode="top_label", reduce_bias=True
    ),
    # The name of "failure_auroc" in the literature on refinement.
    "refinement_auc": _positive(failure_auroc_score),
    "set_coverage": _of_sets(set_coverage_score, 1),
}
