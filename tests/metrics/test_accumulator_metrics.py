"""Metrics from the cells of an accumulator differ from the functions by little."""

from functools import cache, partial

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from sklearn.metrics import brier_score_loss, roc_auc_score

from sklearn_calib.metrics import (
    CalibrationAccumulator,
    augrc_loss,
    aurc_loss,
    classwise_calibration_error,
    coverage_at_risk,
    ece_interval,
    excess_aurc_loss,
    expected_calibration_error,
    failure_auroc_score,
    hosmer_lemeshow_test,
    kde_calibration_error,
    kernel_calibration_error,
    ks_calibration_error,
    maximum_calibration_error,
    proper_calibration_error,
    refinement_error,
    risk_at_coverage,
    root_brier_score_loss,
    score_decomposition,
    smooth_calibration_error,
    smooth_expected_calibration_error,
    spiegelhalter_test,
)

# The bounds on the absolute difference that the documentation states.
TOP_LABEL = {
    "aurc": (aurc_loss, {}, 5e-5),
    "aurc of the population": (aurc_loss, {"estimator": "population"}, 5e-5),
    "aurc by trapezoids": (aurc_loss, {"estimator": "trapezoid"}, 5e-5),
    "excess aurc": (excess_aurc_loss, {}, 5e-5),
    "augrc": (augrc_loss, {}, 1e-5),
    "failure auroc": (failure_auroc_score, {}, 5e-5),
    "risk at coverage": (risk_at_coverage, {"coverage": 0.8}, 1e-3),
    "coverage at risk": (coverage_at_risk, {"max_risk": 0.3}, 5e-3),
    "ks": (ks_calibration_error, {"mode": "top_label"}, 1e-4),
    "smooth ece": (smooth_expected_calibration_error, {"mode": "top_label"}, 1e-5),
    "smooth error": (smooth_calibration_error, {"mode": "top_label"}, 1e-5),
    "isotonic": (
        expected_calibration_error,
        {"mode": "top_label", "strategy": "isotonic"},
        1e-3,
    ),
    "other bins": (
        expected_calibration_error,
        {"mode": "top_label", "n_bins": 40},
        0.01,
    ),
    "kernel": (
        kernel_calibration_error,
        {"mode": "top_label", "bandwidth": 0.2},
        1e-5,
    ),
    "kde": (kde_calibration_error, {"mode": "top_label"}, 1e-4),
    "spiegelhalter": (spiegelhalter_test, {"mode": "top_label"}, 1e-3),
}
POSITIVE = {
    "decomposition": (score_decomposition, {}, 1e-3),
    "bins": (score_decomposition, {"recalibration": "bins"}, 1e-3),
    "proper": (proper_calibration_error, {"loss": "brier"}, 1e-3),
    "refinement": (refinement_error, {}, 1e-3),
    "root brier": (root_brier_score_loss, {}, 1e-5),
    "kernel": (kernel_calibration_error, {"bandwidth": 0.2}, 1e-5),
    "aurc": (aurc_loss, {}, 5e-5),
    "aurc of the log loss": (aurc_loss, {"loss": "log"}, 1e-4),
    "brier": (brier_score_loss, {}, 1e-6),
    "auroc": (roc_auc_score, {}, 1e-4),
}


def problem(seed, n_classes, scale, weighted=False, n_samples=1000):
    """Return overconfident predictions, some of them 0 and 1."""
    rng = np.random.default_rng(seed)
    logits = scale * rng.standard_normal((n_samples, n_classes))
    codes = (logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=1)
    proba = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    proba[:20] = np.eye(n_classes)[codes[:20]]
    return codes, proba, rng.uniform(0.5, 2, n_samples) if weighted else None


def chunked(y_true, y_proba, weight, mode="top_label", **params):
    """Return the accumulator of three chunks."""
    labels = range(2 if y_proba.ndim == 1 else y_proba.shape[1])
    data = (y_true, y_proba) if weight is None else (y_true, y_proba, weight)
    chunks = zip(*(np.array_split(each, 3) for each in data), strict=True)
    return CalibrationAccumulator.from_batches(
        chunks, labels=labels, mode=mode, **params
    )


@cache
def recorded(seed, n_classes, scale, weighted=False, n_samples=1000):
    """Return predictions, their weights by name, and the accumulator of both."""
    y_true, y_proba, weight = problem(seed, n_classes, scale, weighted, n_samples)
    mode = "positive" if n_classes == 2 else "top_label"
    y_proba = y_proba[:, 1] if n_classes == 2 else y_proba
    given = {} if weight is None else {"sample_weight": weight}
    return y_true, y_proba, given, chunked(y_true, y_proba, weight, mode)


def check(metric, options, tolerance, y_true, y_proba, given, accumulator):
    """Compare with the metric of the samples; return the value and a partial."""
    expected = metric(y_true, y_proba, **options, **given)
    options = {name: each for name, each in options.items() if name != "mode"}
    value = accumulator.compute(metric, **options)
    np.testing.assert_allclose(value, expected, rtol=0, atol=tolerance)
    return value, partial(metric, **options)


@pytest.mark.parametrize("name", TOP_LABEL)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("scale", [1, 3, 8])
def test_metrics_of_the_predicted_class(name, weighted, scale):
    # These metrics are slow for many samples.
    n_samples = 500 if name in ("kde", "kernel", "smooth error") else 1000
    data = recorded(0, 4, scale, weighted, n_samples)
    value, bound = check(*TOP_LABEL[name], *data)
    assert data[-1].compute(bound) == value


@pytest.mark.parametrize("name", POSITIVE)
@pytest.mark.parametrize("scale", [1, 3])
def test_metrics_of_two_classes(name, scale):
    data = recorded(1, 2, scale)
    value, bound = check(*POSITIVE[name], *data)
    assert data[-1].compute(bound) == value


STATED = {
    "aurc": 2e-4,
    "augrc": 5e-5,
    "excess aurc": 2e-4,
    "failure auroc": 2e-4,
    "isotonic": 3e-3,
    "kde": 1e-4,
    "kernel": 5e-5,
    "ks": 1e-4,
    "risk at coverage": 3e-3,
    "smooth ece": 5e-5,
    "smooth error": 5e-5,
    "spiegelhalter": 3e-3,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", STATED)
def test_accuracy_that_the_notes_state(name):
    metric, options, _ = TOP_LABEL[name]
    for seed in range(100, 125):
        for scale in (0.3, 1, 3, 8):
            data = recorded(seed, 4, scale)
            value, bound = check(metric, options, STATED[name], *data)
    assert data[-1].compute(bound) == value


@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 10**6),
    st.sampled_from([aurc_loss, augrc_loss, excess_aurc_loss, failure_auroc_score]),
    st.sampled_from([0.01, 1, 4, 50]),
    st.booleans(),
    st.sampled_from(["top_label", "positive"]),
)
def test_bounds_of_metrics_of_the_order(seed, metric, scale, weighted, mode):
    """With a small scale, few cells contain all samples, and the bound is needed."""
    n_classes = 3 if mode == "top_label" else 2
    y_true, y_proba, weight = problem(seed, n_classes, scale, weighted, n_samples=300)
    accumulator = chunked(y_true, y_proba, weight, mode)
    expected = metric(y_true, y_proba, sample_weight=weight)
    difference = abs(accumulator.compute(metric) - expected)
    assert difference <= accumulator.error_bound(metric) + 1e-12


def test_bound_of_an_overconfident_classifier_is_tight():
    """All gaps have the same sign, so samples in other bins change nothing."""
    y_true, y_proba, _ = problem(0, 4, 3, n_samples=20_000)
    accumulator = chunked(y_true, y_proba, None, strategy="quantile")
    expected = expected_calibration_error(y_true, y_proba, strategy="quantile")
    assert accumulator.error_bound() < 1e-3
    difference = abs(accumulator.compute() - expected)
    assert difference <= accumulator.error_bound() + 1e-12


def test_own_bins_are_exact():
    y_true, y_proba, weight = problem(0, 4, 3, weighted=True)
    for mode in ("top_label", "classwise"):
        accumulator = chunked(y_true, y_proba, weight, mode, n_bins=7)
        options = {"n_bins": 7, "mode": mode, "sample_weight": weight}
        for metric in (expected_calibration_error, maximum_calibration_error):
            expected = metric(y_true, y_proba, **options)
            assert accumulator.compute(metric) == pytest.approx(expected, rel=1e-9)
        if mode == "classwise":
            value = accumulator.compute(classwise_calibration_error, average="sum")
            expected = accumulator.compute(average="sum")
            assert value == expected == 4 * accumulator.compute()


def test_each_class_of_smooth_ece():
    y_true, y_proba, _ = problem(0, 4, 3)
    accumulator = chunked(y_true, y_proba, None, "classwise", strategy="quantile")
    expected = smooth_expected_calibration_error(y_true, y_proba, mode="classwise")
    value = accumulator.compute(smooth_expected_calibration_error)
    assert value == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_several_modes_in_one_pass(strategy):
    y_true, y_proba, weight = problem(0, 2, 3, weighted=True)
    modes = ["top_label", "positive", "classwise"]
    every = chunked(y_true, y_proba, weight, modes, strategy=strategy)
    for mode in modes:
        one = chunked(y_true, y_proba, weight, mode, strategy=strategy)
        assert every.compute(mode=mode) == one.compute()
        assert every.error_bound(mode=mode) == one.error_bound()
    curve = every.reliability_curve(mode="positive")
    assert curve["ece"] == every.compute(mode="positive")
    with pytest.raises(ValueError, match=r"mode must be one of .* got None"):
        every.compute()


def test_cells_of_classes_are_sparse():
    y_true, y_proba, _ = problem(0, 50, 3, n_samples=200)
    accumulator = chunked(y_true, y_proba, None, "classwise", strategy="quantile")
    dense = 3 * 50 * 4096
    assert sum(each.size for each in accumulator.cells_["classwise"]) < dense / 10


@pytest.mark.parametrize(
    ("metric", "options", "error", "match"),
    [
        ("aurc_loss", {}, TypeError, "metric must be a function .* got 'aurc_loss'"),
        (hosmer_lemeshow_test, {}, TypeError, "metric must have .* sample_weight"),
        (
            ece_interval,
            {},
            TypeError,
            "'ece_interval' draws samples, .*. Use the method",
        ),
        (score_decomposition, {}, ValueError, 'metric must support mode="top'),
        (classwise_calibration_error, {}, ValueError, "metric must support mode="),
        (aurc_loss, {"loss": "log"}, ValueError, "loss must not be given, .* 'log'"),
        (ks_calibration_error, {"mode": "positive"}, ValueError, "mode must be one of"),
        (ks_calibration_error, {"labels": [0, 1]}, ValueError, "labels must not be"),
        (expected_calibration_error, {"norm": "l3"}, ValueError, "The 'norm' param"),
        (kernel_calibration_error, {}, ValueError, "bandwidth must be a number"),
        (risk_at_coverage, {"coverage": 2}, ValueError, "The 'coverage' parameter"),
    ],
)
def test_metrics_that_the_cells_do_not_determine(metric, options, error, match):
    accumulator = chunked(*problem(0, 3, 1))
    with pytest.raises(error, match=match):
        accumulator.compute(metric, **options)


def test_metrics_without_a_bound():
    accumulator = chunked(*problem(0, 3, 1))
    for metric, options in [
        (ks_calibration_error, {}),
        (aurc_loss, {"estimator": "trapezoid"}),
        (expected_calibration_error, {"norm": "l2"}),
    ]:
        with pytest.raises(ValueError, match=r"metric must be .* No bound is known"):
            accumulator.error_bound(metric, **options)


def test_other_metrics_of_classes_need_cells():
    accumulator = chunked(*problem(0, 3, 1), mode="classwise")
    with pytest.raises(ValueError, match='needs an accumulator with strategy="qua'):
        accumulator.compute(smooth_expected_calibration_error)


@pytest.mark.parametrize(
    "mode", [[], ["top_label", "top_label"], ["top"], [None], [["top"]]]
)
def test_invalid_modes(mode):
    with pytest.raises(ValueError, match="mode must be one or several of"):
        chunked(*problem(0, 3, 1), mode=mode)
