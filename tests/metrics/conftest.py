"""Shared by the laws of the metrics: public names, their settings and their exceptions.

A public function whose first parameters are ``y_true`` and ``y_proba`` is held to the
laws, without being named here. A test of a module with a dict ``EXCUSED`` that has an
argument ``metric`` runs for each of its settings, one that has an argument
``default`` for the first only, but for those that ``EXCUSED`` names, by metric or by
setting, with the reason, under the name of the test.
"""

import inspect
from functools import partial, wraps

import numpy as np
import pytest

from sklearn_calib import metrics

# Options without which a metric cannot be called, and settings known to be delicate;
# the defaults of all others. What is drawn is drawn alike.
DRAWN = {"n_resamples": 5, "random_state": 0}
FEW_FOLDS = {"cv": 2}
SETTINGS = {
    "aurc_loss": [
        {},
        {"estimator": "population"},
        {"estimator": "trapezoid"},
        {"confidence": "negative_entropy"},
        {"loss": "log"},
    ],
    "calibration_slope": [{}, {"mode": "classwise"}, {"mode": "multinomial"}],
    "classwise_calibration_error": [
        {},
        {"strategy": "quantile"},
        {"strategy": "isotonic"},
        {"reduce_bias": True},
        {"norm": "l2"},
        {"norm": "max"},
        {"norm": 3},
        {"average": "sum"},
        {"n_bins": [0, 0.1, 0.5, 0.9, 1]},
    ],
    "coverage_at_risk": [{"max_risk": 0.3}],
    "ece_interval": [DRAWN, {**DRAWN, "mode": "classwise", "norm": "max"}],
    "expected_calibration_error": [
        {},
        {"strategy": "quantile"},
        {"norm": "l2"},
        {"norm": 1.5},
        {"n_bins": 1},
        {"n_bins": 1000},
        {"n_bins": "cube_root"},
        {"n_bins": "sweep"},
        {"n_bins": [0, 0.1, 0.5, 0.9, 1]},
        {"reduce_bias": True},
        {"reduce_bias": True, "norm": "l2", "strategy": "quantile"},
        {"strategy": "isotonic"},
        {"mode": "classwise"},
    ],
    "excess_aurc_loss": [{}, {"optimum": "finite"}],
    "hosmer_lemeshow_test": [
        DRAWN,
        {"method": "asymptotic"},
        {"method": "asymptotic", "variance": "bin", "mode": "top_label"},
    ],
    "integrated_calibration_index": [
        {},
        {"statistic": 0.9},
        {"statistic": "max", "monotone": True},
    ],
    "kde_calibration_error": [
        {},
        {"mode": "classwise", "bandwidth": 0.1},
        {"mode": "canonical", "bandwidth": 0.1},
        {"norm": "l2"},
    ],
    "kernel_calibration_error": [
        {},
        {"kernel": "gaussian"},
        {"mode": "top_label", "bandwidth": 0.5},
    ],
    "kernel_calibration_test": [DRAWN, {"method": "asymptotic"}],
    "maximum_calibration_error": [
        {},
        {"strategy": "quantile", "n_bins": 4},
        {"strategy": "isotonic"},
    ],
    "multicalibration_error": [
        {},
        {"scale": "noise"},
        {"mode": "classwise"},
    ],
    "net_benefit_score": [{"threshold": 0.2}],
    "post_processing_gap": [
        {},
        {"loss": "squared"},
        {"loss": "focal"},
        {"loss": "focal_calibration"},
    ],
    "proper_calibration_error": [{}, {"loss": "brier", "recalibration": "isotonic"}],
    "refinement_error": [
        {},
        {"loss": "brier", "recalibration": "bins"},
        {"loss": "brier"},
    ],
    "risk_at_coverage": [{"coverage": 0.8}],
    "risk_coverage_curve": [{}, {"loss": "log"}],
    "score_decomposition": [
        {},
        {"recalibration": "bins"},
        {"loss": "log", "recalibration": "temperature"},
    ],
    "smooth_calibration_error": [{}, {"mode": "classwise"}],
    "smooth_expected_calibration_error": [
        {},
        {"bandwidth": 0.01},
        {"mode": "classwise"},
    ],
    "recalibration_test": [DRAWN, {"method": "asymptotic"}],
    "tcal_test": [DRAWN, {**DRAWN, "mode": "top_label"}],
    "variational_calibration_error": [
        FEW_FOLDS,
        {**FEW_FOLDS, "norm": "l2"},
        {**FEW_FOLDS, "norm": "max"},
        {**FEW_FOLDS, "mode": "top_label"},
    ],
}


@wraps(metrics.multicalibration_error)
def multicalibration_error(y_true, y_proba, **options):
    """Return the error with groups that go with the samples, whatever these are."""
    return metrics.multicalibration_error(y_true, y_proba, groups=y_true, **options)


# Metrics that need more than labels and probabilities.
FUNCTIONS = {"multicalibration_error": multicalibration_error}
# Public names that are not held to the laws, and why.
OF_A_METRIC = "takes a metric, which is held to the laws, as its first argument"
OF_SCORES = "ranks scores of two samples: the laws are in test_ood.py"
OF_SETS = "evaluates prediction sets: the laws are in test_set_coverage.py"
OF_POSTERIORS = "compares two posteriors: the laws are in test_posterior_confidence.py"
NOT_HELD = {
    "CalibrationAccumulator": "keeps sums, and is a class: see test_accumulator.py",
    "bootstrap_interval": OF_A_METRIC,
    "class_coverage_error": OF_SETS,
    "consistency_test": OF_A_METRIC,
    "difference_test": OF_A_METRIC,
    "ece_consistency_bound": "takes no labels",
    "fpr_at_tpr": OF_SCORES,
    "get_scorer": "looks up scorers, to which test_scorers.py holds all of them",
    "get_scorer_names": "lists scorers",
    "lowest_error_within_one_se": "chooses among results of a search",
    "mean_set_size_loss": OF_SETS,
    "ood_aupr_score": OF_SCORES,
    "ood_auroc_score": OF_SCORES,
    "ood_detection_error": OF_SCORES,
    "overconfidence": OF_POSTERIORS,
    "per_group": OF_A_METRIC,
    "per_label": OF_A_METRIC,
    "set_coverage_score": OF_SETS,
    "size_stratified_coverage_error": OF_SETS,
    "underconfidence": OF_POSTERIORS,
    "worst_group": OF_A_METRIC,
}


class Metric(partial):
    """A public metric with options, which returns one array of numbers."""

    def __call__(self, *args, **options):
        result = super().__call__(*args, **options)
        parts = result if isinstance(result, tuple) else (result,)
        return np.concatenate([np.ravel(part).astype(float) for part in parts])

    @property
    def name(self):
        return self.func.__name__

    @property
    def parameters(self):
        return inspect.signature(self.func).parameters

    def __str__(self):
        options = ", ".join(
            f"{name}={value!r}"
            for name, value in self.keywords.items()
            if name not in DRAWN | FEW_FOLDS
        )
        return f"{self.name}({options})" if options else self.name


def held():
    """Return the names of the public functions of labels and probabilities."""
    return [
        name
        for name in metrics.__all__
        if callable(thing := getattr(metrics, name))
        and list(inspect.signature(thing).parameters)[:2] == ["y_true", "y_proba"]
    ]


METRICS = [
    Metric(FUNCTIONS.get(name, getattr(metrics, name)), **options)
    for name in held()
    for options in SETTINGS.get(name, [{}])
]


def pytest_generate_tests(metafunc):
    excused = getattr(metafunc.module, "EXCUSED", None)
    if excused is None:
        return
    reasons = excused.get(metafunc.function.__name__, {})
    picked = [m for m in METRICS if not {m.name, str(m)} & {*reasons}]
    firsts = {metric.name: metric for metric in reversed(picked)}.values()
    if "metric" in metafunc.fixturenames:
        settings = [metric for metric in picked if metric not in firsts]
        metafunc.config.hold(metafunc, "metric", firsts, settings)
    elif "default" in metafunc.fixturenames:
        metafunc.config.hold(metafunc, "default", firsts)


@pytest.fixture(scope="session")
def known():
    """Return the names of all metrics that are held to the laws, and their settings."""
    return {metric.name for metric in METRICS} | {str(metric) for metric in METRICS}


@pytest.fixture(scope="session")
def not_held():
    """Return the public names that are not held to the laws, with the reasons."""
    return NOT_HELD
