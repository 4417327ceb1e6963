"""Scaled weights do not change the value, unless weights count samples."""

import inspect
import warnings
from functools import cache

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import UndefinedMetricWarning

from sklearn_calib import metrics
from sklearn_calib.metrics import (
    CalibrationAccumulator,
    expected_calibration_error,
    root_brier_score_loss,
)

FACTORS = [7, 1e-6, 1e6]
SEED = {"random_state": 0, "n_resamples": 8}
N_SAMPLES, N_CLASSES = 120, 3


@cache
def problem():
    """Return codes, probabilities and weights, with ties and empty bins."""
    rng = np.random.default_rng(0)
    codes = np.arange(N_SAMPLES) % N_CLASSES
    proba = np.round(rng.dirichlet(np.full(N_CLASSES, 0.4), size=N_SAMPLES), 2)
    proba = (proba + 0.01) / (proba + 0.01).sum(axis=1, keepdims=True)
    return codes, proba, rng.uniform(0.5, 2, size=N_SAMPLES)


BINS = [{"strategy": "quantile"}, {"norm": "l2"}, {"norm": 3}, {"n_bins": 150}]
ISOTONIC = {"strategy": "isotonic"}
GROUPS = np.arange(N_SAMPLES) % 7
# Options of each metric; None represents the defaults.
SETTINGS = {
    "aurc_loss": [{"estimator": "trapezoid"}],
    "augrc_loss": [None, {"loss": "log"}],
    "calibration_belt_test": [None],
    "calibration_slope": [None, {"mode": "classwise"}, {"mode": "multinomial"}],
    "classwise_calibration_error": [None, *BINS, ISOTONIC, {"norm": "max"}],
    "coverage_at_risk": [{"max_risk": 0.3}],
    "ece_consistency_bound": [SEED, {**SEED, "strategy": "quantile"}],
    "ece_interval": [
        SEED,
        {**SEED, "strategy": "quantile", "norm": "l2"},
        {**SEED, "norm": "max", "mode": "classwise"},
        {**SEED, "mode": "classwise"},
    ],
    "expected_calibration_error": [None, *BINS, ISOTONIC, {"mode": "classwise"}],
    "failure_auroc_score": [None, {"confidence": "margin"}],
    "kernel_calibration_error": [None, {"mode": "top_label", "kernel": "gaussian"}],
    "maximum_calibration_error": [None, {"strategy": "quantile"}, ISOTONIC],
    "multicalibration_error": [
        {"groups": GROUPS},
        {"groups": GROUPS, "scale": "noise"},
    ],
    "net_benefit_score": [{"threshold": 0.2}],
    "overconfidence": [None, {"measure": "share"}],
    "underconfidence": [None, {"measure": "share"}],
    "post_processing_gap": [None, {"loss": "squared"}, {"loss": "focal"}],
    "recalibration_test": [SEED],
    "proper_calibration_error": [
        None,
        {"loss": "brier"},
        {"loss": "brier", "recalibration": "isotonic"},
        {"loss": "brier", "recalibration": "bins"},
        {"loss": "brier", "recalibration": "bins", "strategy": "quantile"},
    ],
    "refinement_error": [None, {"loss": "brier", "recalibration": "bins"}],
    "risk_at_coverage": [{"coverage": 0.7}],
    "risk_coverage_curve": [None, {"loss": "log"}],
    "score_decomposition": [None, {"loss": "log", "recalibration": "temperature"}],
    "smooth_expected_calibration_error": [None, {"mode": "classwise"}],
    "spiegelhalter_test": [None, {"mode": "top_label"}],
    # Functions of metrics.
    "bootstrap_interval": [{**SEED, "metric": root_brier_score_loss}],
    "consistency_test": [{**SEED, "metric": metrics.ks_calibration_error}],
    "difference_test": [{**SEED, "metric": root_brier_score_loss}],
    "per_group": [{"metric": expected_calibration_error, "groups": GROUPS}],
    "worst_group": [{"metric": expected_calibration_error, "groups": GROUPS}],
    "per_label": [{"metric": expected_calibration_error}],
}
# Metrics that treat weights as numbers of samples, as their docstrings say. The number
# of bins, the bias or the area depends on the number of samples.
REPETITIONS = {
    "aurc_loss": [None, {"estimator": "harmonic"}, {"estimator": "population"}],
    "classwise_calibration_error": [{"reduce_bias": True}, {"n_bins": "cube_root"}],
    "excess_aurc_loss": [None, {"optimum": "finite"}],
    "expected_calibration_error": [
        {"reduce_bias": True},
        {"reduce_bias": True, "norm": "l2"},
        {"n_bins": "sweep"},
        {"n_bins": "cube_root", "strategy": "quantile"},
    ],
    "integrated_calibration_index": [None, {"statistic": 0.9}],
    "kde_calibration_error": [None, {"mode": "canonical"}, {"bandwidth": 0.1}],
    "kernel_calibration_error": [{"reduce_bias": True, "squared": True}],
    "variational_calibration_error": [{"cv": 2}],
    "ece_interval": [{**SEED, "n_bins": "cube_root"}, {**SEED, "n_bins": "sweep"}],
}
AREAS = {"aurc_loss", "excess_aurc_loss"}


def takes_weights(name):
    """Whether a public function takes weights, directly or as options."""
    function = getattr(metrics, name)
    if inspect.isclass(function):
        return False
    return "sample_weight" in inspect.signature(function).parameters


NAMES = [name for name in metrics.__all__ if takes_weights(name)] + ["per_label"]


def cases(tables):
    """Return names and settings."""
    return [
        pytest.param(name, options or {}, id=f"{name}-{number}")
        for name in NAMES
        for number, options in enumerate(tables(name))
    ]


def invariant(name):
    return SETTINGS.get(name, [] if name in REPETITIONS else [None])


all_invariant = pytest.mark.parametrize(("name", "options"), cases(invariant))
all_settings = pytest.mark.parametrize(
    ("name", "options"),
    cases(lambda name: [*invariant(name), *REPETITIONS.get(name, [])]),
)
all_repetitions = pytest.mark.parametrize(
    ("name", "options"), cases(lambda name: REPETITIONS.get(name, []))
)


def measure(name, options, weight):
    """Return all numbers that a function returns, as one array."""
    codes, proba, _ = problem()
    options, function = dict(options), getattr(metrics, name)
    parameters = inspect.signature(function).parameters
    arguments = [options.pop("metric")] if "metric" in parameters else []
    if name == "per_label":
        codes = (codes[:, None] == np.arange(N_CLASSES)).astype(int)
    # Posteriors of samples, and the second of two models.
    other = proba[::-1].copy()
    if "posterior" in parameters:
        arguments += [other, proba]
    elif "y_true" not in parameters:
        arguments += [proba]
    elif "y_set" in parameters:
        arguments += [codes, proba > 0.2]
    elif "y_proba_b" in parameters:
        arguments += [codes, proba, other]
    else:
        arguments += [codes, proba]
    return numbers(function(*arguments, **options, sample_weight=weight))


def numbers(result):
    """Return a number, or several in tuples and tables, as one array."""
    if isinstance(result, tuple):
        return np.concatenate([numbers(each) for each in result])
    if isinstance(result, pd.DataFrame):
        return result.to_numpy(dtype=float).ravel()
    return np.ravel(np.asarray(result, dtype=float))


UNSCALED = {}


def unscaled(name, options):
    """Return the numbers with weights of factor 1, and without weights."""
    case = name, id(options)
    if case not in UNSCALED:
        weights = problem()[-1], None
        UNSCALED[case] = [measure(name, options, weight) for weight in weights]
    return UNSCALED[case]


@all_invariant
@pytest.mark.parametrize("factor", FACTORS)
def test_scale_does_not_matter(name, options, factor):
    *_, weight = problem()
    np.testing.assert_allclose(
        measure(name, options, weight * factor),
        unscaled(name, options)[0],
        rtol=1e-12,
        atol=1e-15,
    )


@all_invariant
@pytest.mark.parametrize("factor", [1e6, 1e-6])
def test_equal_weights_of_any_size_are_none(name, options, factor):
    np.testing.assert_allclose(
        measure(name, options, np.full(N_SAMPLES, factor)),
        unscaled(name, options)[1],
        rtol=1e-12,
        atol=1e-15,
    )


@all_invariant
def test_weights_of_six_orders_of_magnitude_are_measured(name, options):
    weight = np.logspace(0, -6, N_SAMPLES)
    assert np.isfinite(measure(name, options, weight)).all()


@all_settings
@pytest.mark.parametrize("factor", [1e3, 1e6])
def test_one_weight_exceeds_all_others(name, options, factor):
    """The value is finite, or undefined with a warning."""
    weight = problem()[-1].copy()
    weight[7] *= factor
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UndefinedMetricWarning)
        values = measure(name, options, weight)
    assert caught or np.isfinite(values).all()


@all_repetitions
@pytest.mark.parametrize("factor", [1e6, 1e-6])
def test_repetitions_of_any_number_are_measured(name, options, factor):
    """Small weights may raise an error if an estimate does not exist."""
    *_, weight = problem()
    weight = np.minimum(weight, 1) * factor
    if factor < 1 and (name in AREAS or options.get("squared")):
        with pytest.raises(ValueError, match=r"must sum to at least 1|more than one"):
            measure(name, options, weight)
    else:
        assert np.isfinite(measure(name, options, weight)).all()


@pytest.mark.parametrize("mode", ["top_label", "classwise"])
@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
@pytest.mark.parametrize("factor", FACTORS)
def test_chunks_keep_their_weights(mode, strategy, factor):
    """Chunks may be scaled differently, but their relative weights are kept."""
    codes, proba, weight = problem()
    weight = np.where(np.arange(N_SAMPLES) < 40, weight * 1e6, weight)

    def accumulate(weight, chunks):
        parts = [
            CalibrationAccumulator(labels=range(3), mode=mode, strategy=strategy)
            for _ in range(2)
        ]
        for number, rows in enumerate(chunks):
            parts[number % 2].update(codes[rows], proba[rows], weight[rows])
        whole = parts[0] + parts[1]
        return [whole.compute(), whole.error_bound(), *whole.scores().values()]

    rows = np.split(np.arange(N_SAMPLES), [40, 80])
    expected = accumulate(weight, rows)
    for chunks in (rows, rows[::-1]):
        np.testing.assert_allclose(
            accumulate(weight * factor, chunks), expected, rtol=1e-12
        )
