"""Intervals from cells agree with those of all samples."""

from functools import partial

import numpy as np
import pytest

from sklearn_calib.metrics import (
    CalibrationAccumulator,
    aurc_loss,
    bootstrap_interval,
    ece_consistency_bound,
    expected_calibration_error,
    failure_auroc_score,
    ks_calibration_error,
    risk_at_coverage,
    score_decomposition,
    spiegelhalter_test,
)


def problem(n_samples=4000, weighted=False, temperature=2, seed=0):
    """Return overconfident predictions, and weights that depend on the confidence."""
    rng = np.random.default_rng(seed)
    logits = 3 * rng.standard_normal((n_samples, 3))
    gumbel = rng.gumbel(size=logits.shape)
    codes = (logits / temperature + gumbel).argmax(axis=1)
    proba = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    weight = 1e-3 * rng.exponential(size=n_samples) * (1 + proba.max(axis=1))
    return codes, proba, weight if weighted else None


def accumulate(y_true, y_proba, weight, **params):
    return CalibrationAccumulator(labels=range(3), **params).update(
        y_true, y_proba, weight
    )


@pytest.mark.parametrize(
    ("metric", "options", "method"),
    [
        (failure_auroc_score, {}, "auto"),
        (failure_auroc_score, {}, "percentile"),
        (failure_auroc_score, {}, "basic"),
        (risk_at_coverage, {"coverage": 0.7}, "auto"),
        (ks_calibration_error, {}, "auto"),
    ],
)
@pytest.mark.parametrize("weighted", [False, True])
def test_widths_are_those_of_the_samples(metric, options, method, weighted):
    """The weights are small and vary, so that they do not count samples."""
    data = problem(400, weighted=weighted, seed=4)
    low, high = accumulate(*data).interval(
        metric, method=method, n_resamples=150, random_state=0, **options
    )
    bound = partial(metric, **options) if options else metric
    expected = bootstrap_interval(
        bound,
        *data[:2],
        sample_weight=data[2],
        method=method,
        n_resamples=150,
        random_state=1,
    )
    width = expected[1] - expected[0]
    assert high - low == pytest.approx(width, rel=0.2)
    assert low == pytest.approx(expected[0], abs=0.15 * width)


def test_reproducible_and_of_own_bins():
    accumulator = accumulate(*problem(300))
    low, high = accumulator.interval(random_state=0, n_resamples=40)
    assert low < accumulator.compute() < high
    again = accumulator.interval(
        expected_calibration_error, random_state=0, n_resamples=40
    )
    assert again == (low, high)
    wider = accumulator.interval(confidence_level=0.99, random_state=0, n_resamples=40)
    assert wider[0] < low < high < wider[1]


def test_calibrated_predictions_have_the_lower_limit_0():
    for weighted in (False, True):
        accumulator = accumulate(*problem(300, weighted=weighted, temperature=1))
        for metric in (expected_calibration_error, ks_calibration_error):
            low, high = accumulator.interval(metric, random_state=0, n_resamples=60)
            assert low == 0
            assert high > accumulator.compute(metric)


def test_invalid_intervals():
    accumulator = accumulate(*problem(50), mode=["top_label", "classwise"])
    with pytest.raises(ValueError, match=r'mode must be .* got "classwise"'):
        accumulator.interval(mode="classwise")
    with pytest.raises(ValueError, match='method must be "debiased" or "auto"'):
        accumulator.interval(mode="top_label", method="bca")
    with pytest.raises(ValueError, match="The 'n_resamples' parameter"):
        accumulator.interval(mode="top_label", n_resamples=0)
    with pytest.raises(ValueError, match="confidence_level"):
        accumulator.interval(mode="top_label", confidence_level=1.0)
    two = CalibrationAccumulator(labels=[0, 1], mode="positive")
    with pytest.raises(TypeError, match="metric must return a number"):
        two.update([0, 1], [0.2, 0.7]).interval(score_decomposition)


@pytest.mark.slow
@pytest.mark.parametrize("metric", [failure_auroc_score, ks_calibration_error])
def test_coverage(metric):
    """The interval contains the value of many samples in about 90 % of 100 draws."""
    truth = accumulate(*problem(1_000_000, seed=99)).compute(metric)
    hits = 0
    for seed in range(100):
        low, high = accumulate(*problem(1000, seed=seed)).interval(
            metric, confidence_level=0.9, n_resamples=50, random_state=seed
        )
        hits += low <= truth <= high
    assert 80 <= hits <= 99


def test_aurc_has_an_interval():
    accumulator = accumulate(*problem(300))
    low, high = accumulator.interval(aurc_loss, n_resamples=40, random_state=0)
    assert low < accumulator.compute(aurc_loss) < high


@pytest.mark.parametrize("metric", [aurc_loss, ks_calibration_error])
def test_squares_of_weights_that_underflow(metric):
    y_true, y_proba, _ = problem(500)
    weight = np.where(np.arange(500) % 2, 1.0, 1e-200)
    options = {"method": "debiased", "n_resamples": 20, "random_state": 0}
    interval = accumulate(y_true, y_proba, weight).interval(metric, **options)
    odd = accumulate(y_true[1::2], y_proba[1::2], weight[1::2])
    np.testing.assert_allclose(interval, odd.interval(metric, **options), atol=0.02)


@pytest.mark.parametrize("options", [{}, {"norm": "l2"}, {"norm": "max"}], ids=str)
@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_consistency_bound_is_that_of_the_samples(options, strategy):
    """The standard deviation of either bound is about 3 %."""
    data = problem(500)
    draws = {"n_resamples": 250, "level": 0.9, "random_state": 0, **options}
    bound = accumulate(*data, strategy=strategy).consistency_bound(**draws)
    expected = ece_consistency_bound(data[1], strategy=strategy, **draws)
    assert bound == pytest.approx(expected, rel=0.1)


def test_consistency_bound_with_weights():
    """Half of the samples have nine tenths of the weight: 61 of 100 are effective."""
    codes, proba, _ = problem(2000)
    weight = 1e-3 * np.where(np.arange(2000) < 1000, 9.0, 1.0)
    draws = {"n_resamples": 200, "random_state": 0}
    bound = accumulate(codes, proba, weight).consistency_bound(**draws)
    plain = accumulate(codes, proba, None).consistency_bound(**draws)
    assert bound / plain == pytest.approx(np.sqrt(1 / 0.61), rel=0.1)


def test_consistency_bound_of_any_metric():
    accumulator = accumulate(*problem(500))
    draws = {"n_resamples": 50, "random_state": 0}
    bound = accumulator.consistency_bound(ks_calibration_error, **draws)
    assert 0 < bound < accumulator.compute(ks_calibration_error)
    assert bound == accumulator.consistency_bound(ks_calibration_error, **draws)
    assert bound > accumulator.consistency_bound(
        ks_calibration_error, level=0.1, **draws
    )
    with pytest.raises(ValueError, match="'level' parameter"):
        accumulator.consistency_bound(level=95)
    with pytest.raises(TypeError, match=r"metric must return a number, got"):
        accumulate(*problem(50)).consistency_bound(spiegelhalter_test)
    of_classes = accumulate(*problem(50), mode="classwise")
    with pytest.raises(ValueError, match="for consistency_bound, got"):
        of_classes.consistency_bound()
