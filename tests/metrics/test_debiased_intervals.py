"""Debiased intervals of calibration errors."""

from functools import partial

import numpy as np
import pytest

from sklearn_calib.metrics import (
    bootstrap_interval,
    classwise_calibration_error,
    ece_interval,
    expected_calibration_error,
    kde_calibration_error,
    kernel_calibration_error,
    ks_calibration_error,
    maximum_calibration_error,
    per_label,
    post_processing_gap,
    proper_calibration_error,
    smooth_calibration_error,
    smooth_expected_calibration_error,
)

ERRORS = {
    "classwise": classwise_calibration_error,
    "classwise-sum": partial(classwise_calibration_error, average="sum"),
    "ece": expected_calibration_error,
    "ece-debiased": partial(expected_calibration_error, reduce_bias=True),
    "ece-isotonic": partial(expected_calibration_error, strategy="isotonic"),
    "ece-l2": partial(partial(expected_calibration_error, norm="l2"), n_bins=5),
    "ece-sweep": partial(expected_calibration_error, n_bins="sweep"),
    "gap-log": post_processing_gap,
    "gap-squared": partial(post_processing_gap, loss="squared"),
    "kde": partial(kde_calibration_error, bandwidth=0.02),
    "kde-auto": kde_calibration_error,
    "kde-canonical": partial(kde_calibration_error, mode="canonical", bandwidth=0.1),
    "kde-l2": partial(kde_calibration_error, norm="l2", bandwidth=0.02),
    "kernel": kernel_calibration_error,
    "kernel-squared": partial(kernel_calibration_error, squared=True),
    "kernel-debiased": partial(kernel_calibration_error, reduce_bias=True),
    "ks": ks_calibration_error,
    "mce": partial(maximum_calibration_error, strategy="quantile", n_bins=5),
    "proper-brier": partial(
        proper_calibration_error, loss="brier", recalibration="isotonic"
    ),
    "proper-log": proper_calibration_error,
    "smooth": smooth_expected_calibration_error,
    "smooth-classwise": partial(smooth_expected_calibration_error, mode="classwise"),
    "smooth-weights": smooth_calibration_error,
}
all_errors = pytest.mark.parametrize("metric", ERRORS.values(), ids=ERRORS)


def draw(rng, shift=0.0, n_samples=150):
    """Draw labels, and probabilities that are too high by `shift`."""
    proba = rng.uniform(0.02, 1, size=n_samples)
    return (rng.uniform(size=n_samples) < proba - shift).astype(int), proba


def draw_classes(rng, n_samples=90, n_classes=3):
    proba = rng.dirichlet(np.ones(n_classes), size=n_samples)
    labels = (rng.uniform(size=(n_samples, 1)) > proba.cumsum(axis=1)).sum(axis=1)
    return labels, proba


@pytest.mark.slow
@all_errors
def test_intervals_of_calibrated_predictions_contain_zero(metric):
    """They also contain the estimate, which is biased."""
    low, high = bootstrap_interval(
        metric,
        *draw(np.random.default_rng(0)),
        n_resamples=40,
        random_state=0,
    )
    value = metric(*draw(np.random.default_rng(0)))
    assert low <= 0
    assert low <= value <= high


@pytest.mark.slow
@all_errors
def test_errors_that_are_clear_are_above_zero(metric):
    y_true, y_proba = draw(np.random.default_rng(0), shift=0.5)
    interval = bootstrap_interval(
        metric, y_true, y_proba, n_resamples=40, random_state=0
    )
    assert 0 < interval[0] <= metric(y_true, y_proba) <= interval[1]


@pytest.mark.slow
@pytest.mark.parametrize("shift", [0, 0.03, 0.15])
def test_coverage_of_an_error_without_bins(shift):
    """At a level of 0.9, in 100 samples; 0.81 is three standard errors below."""
    rng, proba = np.random.default_rng(0), np.linspace(0.02, 1, 20_001)
    mean_gap = np.cumsum(proba - np.maximum(proba - shift, 0)) / len(proba)
    held = 0
    for seed in range(100):
        low, high = bootstrap_interval(
            ks_calibration_error,
            *draw(rng, shift, 200),
            confidence_level=0.9,
            n_resamples=50,
            random_state=seed,
        )
        held += low <= mean_gap.max() <= high
    assert held >= 81


@pytest.mark.parametrize(
    ("metric", "options"),
    [
        (expected_calibration_error, {}),
        (partial(expected_calibration_error, norm="l2"), {"norm": "l2"}),
        (maximum_calibration_error, {"norm": "max"}),
        (partial(classwise_calibration_error, n_bins=4), {"n_bins": 4}),
    ],
)
def test_errors_with_bins_use_ece_interval(metric, options):
    data = draw_classes(np.random.default_rng(0))
    if "n_bins" in options:
        options = options | {"mode": "classwise"}
    assert bootstrap_interval(metric, *data, random_state=0) == ece_interval(
        *data, **options, random_state=0
    )


def test_no_interval_for_other_orders():
    data = draw_classes(np.random.default_rng(0))
    with pytest.raises(ValueError, match=r'norm must be "l1", .*, got 3'):
        bootstrap_interval(partial(expected_calibration_error, norm=3), *data)


@pytest.mark.parametrize(("norm", "factor"), [("l1", 3), ("l2", 3**0.5), ("max", 1)])
def test_sum_over_classes(norm, factor):
    data = draw_classes(np.random.default_rng(0))
    ends = [
        bootstrap_interval(
            partial(classwise_calibration_error, norm=norm, average=average),
            *data,
            random_state=0,
        )
        for average in ("mean", "sum")
    ]
    assert ends[1] == pytest.approx(factor * np.array(ends[0]))


def test_other_errors_with_bins_are_resampled():
    """These are stratified ones, and those of multilabel problems."""
    rng = np.random.default_rng(0)
    data, options = draw(rng, 0.5), {"n_resamples": 30, "random_state": 0}
    low, high = bootstrap_interval(
        expected_calibration_error, *data, stratify=True, **options
    )
    assert 0 < low < expected_calibration_error(*data) < high
    proba = rng.uniform(size=(150, 3))
    labels = (rng.uniform(size=(150, 3)) < proba).astype(int)
    metric = partial(per_label, partial(expected_calibration_error, n_bins=5))
    assert bootstrap_interval(metric, labels, proba, **options)[0] == 0
    assert bootstrap_interval(metric, 1 - labels, proba, **options)[0] > 0.2


def test_debiased_on_request():
    """The method can be chosen for an error that is not of this package."""

    def error(y_true, y_proba, *, sample_weight):
        return abs(np.average(y_true - y_proba, weights=sample_weight))

    options = {"n_resamples": 200, "random_state": 0}
    for shift, is_zero in ((0, True), (0.3, False)):
        data = draw(np.random.default_rng(0), shift)
        low, _ = bootstrap_interval(error, *data, method="debiased", **options)
        assert (low == 0) == is_zero
