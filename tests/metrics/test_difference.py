"""Level, power and intervals of the test of the difference between two models."""

from functools import partial

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.metrics import log_loss

from sklearn_calib.metrics import (
    aurc_loss,
    classwise_calibration_error,
    difference_test,
    expected_calibration_error,
    kernel_calibration_error,
    ks_calibration_error,
    maximum_calibration_error,
    ood_auroc_score,
    per_label,
    smooth_expected_calibration_error,
)
from sklearn_calib.metrics._draws import take_sample
from sklearn_calib.metrics._model_selection.difference import N_FOLDS, as_gap_error


def brier_score_loss(y_true, y_proba, *, sample_weight=None):
    """Return the Brier score, without the checks that make draws slow."""
    return np.average((y_true - y_proba) ** 2, weights=sample_weight)


METRICS = {
    "aurc": aurc_loss,
    "brier": brier_score_loss,
    "ece": partial(expected_calibration_error, n_bins=5),
    "ks": ks_calibration_error,
}
ERRORS = METRICS["ece"], METRICS["ks"]
all_metrics = pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)
compare = partial(difference_test, n_resamples=9, random_state=0)


def draw(rng, n_samples=100, temperatures=(1.0, 1.0), noise=0.0):
    """Draw labels and the predictions of two models with temperatures and noise."""
    logits = 2 * rng.normal(size=n_samples)
    y_true = rng.uniform(size=n_samples) < 1 / (1 + np.exp(-logits))
    said = [t * logits + noise * rng.normal(size=n_samples) for t in temperatures]
    return y_true, *(1 / (1 + np.exp(-one)) for one in said)


@pytest.mark.slow
@all_metrics
def test_level(metric):
    """With 9 draws, one in five exchangeable pairs has a p-value of at most 0.2.

    For calibration errors, it is at most one in five.
    """
    rng = np.random.default_rng(0)
    values = [
        compare(metric, *draw(rng, noise=1.0), random_state=seed).pvalue
        for seed in range(80)
    ]
    level = np.mean(np.array(values) <= 0.2)
    assert level <= 0.34
    if metric not in ERRORS:
        assert level == pytest.approx(0.2, abs=0.14)


def draw_blunter(rng, n_samples):
    """Draw labels and predictions of two calibrated models, a sharp and a blunt one."""
    blunt = rng.uniform(size=n_samples)
    sharp = rng.beta(2 * blunt, 2 * (1 - blunt))
    return rng.uniform(size=n_samples) < sharp, sharp, blunt


def draw_opposite(rng, n_samples):
    """Draw labels and predictions that are 0.1 too high and 0.1 too low."""
    truth = rng.uniform(0.1, 0.9, size=n_samples)
    return rng.uniform(size=n_samples) < truth, truth + 0.1, truth - 0.1


def draw_apart(rng, n_samples):
    """Draw labels and predictions: a few 0.3 too low, or all 0.05 too high."""
    truth = rng.uniform(0.1, 0.9, size=n_samples)
    few = truth - 0.3 * (truth > 0.9 - 0.8 / 6)
    return rng.uniform(size=n_samples) < truth, few, truth + 0.05


@pytest.mark.slow
@pytest.mark.parametrize("sample", [draw_blunter, draw_opposite, draw_apart])
@pytest.mark.parametrize(
    "metric",
    [
        expected_calibration_error,
        partial(expected_calibration_error, strategy="quantile"),
        classwise_calibration_error,
    ],
    ids=["uniform", "quantile", "classwise"],
)
@pytest.mark.parametrize("n_samples", [200, 1000])
def test_level_of_equal_errors(metric, n_samples, sample):
    """The level is 0.05, up to three standard errors; a permutation test has 0.42."""
    rng = np.random.default_rng(0)
    values = [compare(metric, *sample(rng, n_samples)).pvalue for _ in range(100)]
    assert np.mean(np.array(values) <= 0.05) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 100)


@pytest.mark.parametrize(
    ("metric", "error"),
    [
        (partial(expected_calibration_error, strategy="quantile"), 0.375),
        (partial(expected_calibration_error, norm="l2"), np.sqrt(0.174375)),
        (partial(expected_calibration_error, norm=3), np.cbrt(0.272109375 / 3)),
        (partial(classwise_calibration_error, average="sum"), 0.75),
        (maximum_calibration_error, 0.6),
        (ks_calibration_error, 0.375),
    ],
)
def test_bounds_of_an_error(metric, error):
    """The upper bound is the error itself. Both are equal for significant gaps."""
    calibrated = mean_bounds(metric, ratio=1)
    off = mean_bounds(metric, ratio=0.25, size=(60, 200))
    assert calibrated[0] == pytest.approx(0, abs=0.02)
    assert 0.04 < calibrated[1] < 0.13
    assert off == pytest.approx([error, error], abs=0.015)


def mean_bounds(metric, ratio, size=(120, 100)):
    """Return the bounds of an error if `ratio` of the predicted negatives occur."""
    rng = np.random.default_rng(0)
    said = rng.choice([0.2, 0.5, 0.8], size=size)
    y_true = (rng.uniform(size=said.shape) > ratio * (1 - said)).astype(int)
    ones, bounds = np.ones(size[1]), []
    for labels, proba in zip(y_true, said, strict=True):
        sample = take_sample(metric, labels, proba, [0, 1], None, stratify=False)
        bounded, fold = as_gap_error(sample), rng.integers(N_FOLDS, size=size[1])
        bounds.append((bounded.lower(ones, fold), bounded.upper(ones)))
        assert bounds[-1][1] == pytest.approx(sample.measure())
    return np.mean(bounds, axis=0)


@all_metrics
def test_power(metric):
    """Noise increases the loss, and overconfident noise the calibration error."""
    rng = np.random.default_rng(0)
    y_true, good, _ = draw(rng, n_samples=800)
    noisy = 1 / (1 + np.exp(-3 * rng.normal(size=800)))
    test = compare(metric, y_true, good, noisy)
    assert test.statistic == metric(y_true, good) - metric(y_true, noisy)
    assert test.low <= test.high < 0
    less, greater = (
        compare(metric, y_true, good, noisy, alternative=side).pvalue
        for side in ("less", "greater")
    )
    assert greater == pytest.approx(1, abs=1e-6)
    if metric in ERRORS:
        assert test.pvalue == 2 * less < 1e-6
    else:  # the least of 9 draws, for either side
        assert (test.pvalue, less, greater) == (0.2, 0.1, 1)


@all_metrics
def test_of_a_model_and_itself(metric):
    y_true, proba, _ = draw(np.random.default_rng(0))
    test = compare(metric, y_true, proba, proba)
    assert test[:2] == (0, 1)
    assert test.low <= 0 <= test.high


@pytest.mark.slow
@all_metrics
def test_exchanged_models(metric):
    """The difference changes its sign."""
    y_true, a, b = draw(np.random.default_rng(0), temperatures=(1, 2))
    options = {"n_resamples": 200}
    one, other = (
        compare(metric, y_true, a, b, **options),
        compare(metric, y_true, b, a, **options),
    )
    assert one.statistic == -other.statistic
    assert one.pvalue == pytest.approx(other.pvalue, abs=0.1)
    width = one.high - one.low
    assert one.low == pytest.approx(-other.high, abs=0.2 * width)


@pytest.mark.slow
def test_interval_contains_the_difference():
    """The coverage is 0.9, up to three standard errors."""
    metric, rng = aurc_loss, np.random.default_rng(0)
    models = {"temperatures": (1.0, 1.6), "noise": 0.5}
    y_true, a, b = draw(rng, 200_000, **models)
    truth = metric(y_true, a) - metric(y_true, b)
    held = []
    for seed in range(50):
        test = compare(
            metric, *draw(rng, 200, **models), n_resamples=40,
            confidence_level=0.9, random_state=seed,
        )  # fmt: skip
        held.append(test.low <= truth <= test.high)
    assert np.mean(held) == pytest.approx(0.9, abs=0.13)


@pytest.mark.slow
@pytest.mark.parametrize(
    "temperatures", [(1.0, 1.0), (1.0, 1.5), (1.5, 2.0)], ids=["0-0", "0-1", "1-2"]
)
def test_interval_of_calibration_errors(temperatures):
    """The interval is conservative, whether or not a model is calibrated."""
    rng = np.random.default_rng(0)
    metric = partial(expected_calibration_error, n_bins=10)
    y_true, a, b = draw(rng, 200_000, temperatures)
    truth = metric(y_true, a) - metric(y_true, b)
    for seed in range(10):
        sample = draw(rng, 300, temperatures)
        test = compare(metric, *sample, n_resamples=100, random_state=seed)
        assert test.low - 0.01 <= truth <= test.high + 0.01


def test_interval_of_an_error_far_from_zero():
    """The interval is that of the mean of the residuals with their known signs."""
    rng = np.random.default_rng(0)
    truth = rng.uniform(0.3, 0.8, size=4000)
    y_true = rng.uniform(size=4000) < truth
    residual = truth + 0.2 - y_true
    spread = 1.96 * residual.std() / np.sqrt(4000)
    test = compare(
        expected_calibration_error, y_true, truth + 0.2, y_true.astype(float),
        n_resamples=400,
    )  # fmt: skip
    expected = residual.mean() - spread, residual.mean() + spread
    assert test[2:] == pytest.approx(expected, abs=0.15 * spread)


@pytest.mark.parametrize("metric", ERRORS, ids=["ece", "ks"])
def test_interval_agrees_with_the_p_value(metric):
    """The interval does not contain 0 if the test rejects at the same level."""
    rng = np.random.default_rng(0)
    for temperature in (1.0, 1.5, 2.0, 3.0):
        sample = draw(rng, 400, (1.0, temperature))
        test = compare(metric, *sample, n_resamples=399, confidence_level=0.9)
        if abs(test.pvalue - 0.1) > 0.02:
            assert (test.low <= 0 <= test.high) == (test.pvalue > 0.1)


@pytest.mark.parametrize(
    "metric",
    [
        smooth_expected_calibration_error,
        kernel_calibration_error,
        partial(expected_calibration_error, strategy="isotonic"),
        partial(expected_calibration_error, n_bins="sweep"),
        partial(per_label, ks_calibration_error),
    ],
)
def test_errors_without_a_test_raise(metric):
    with pytest.raises(ValueError, match=r"metric must be .*bootstrap_interval"):
        compare(metric, *draw(np.random.default_rng(0)))


@pytest.mark.parametrize("side", ["two-sided", "greater"])
def test_the_p_value_is_never_zero(side):
    """The gaps are so clear that the normal probability underflows."""
    y_true, wrong = np.arange(2000) % 2, np.full(2000, 0.99)
    wrong[1::2] = 0.01
    right = np.full(2000, 0.5)
    test = compare(ks_calibration_error, y_true, wrong, right, alternative=side)
    assert 0 < test.pvalue < 1e-300


def test_one_sample_is_not_significant():
    test = compare(ks_calibration_error, [1], [0.5], [0.4], labels=[0, 1])
    assert test.pvalue == 1
    assert test.low < 0 < test.high


def test_shapes_and_labels():
    """Matrices, string labels and weights, and the order of rows in the interval."""
    rng = np.random.default_rng(0)
    names = np.array(["ash", "birch", "cedar"])
    a, b = rng.dirichlet(np.ones(3), size=(2, 90))
    codes = np.arange(90) % 3
    options = {"labels": names, "sample_weight": np.linspace(1, 2, 90)}
    test = compare(aurc_loss, names[codes], a, b, **options)
    assert test.statistic == aurc_loss(names[codes], a, **options) - aurc_loss(
        names[codes], b, **options
    )
    with parallel_config("threading"):
        assert test == compare(aurc_loss, names[codes], a, b, n_jobs=2, **options)


def test_bad_input():
    y_true, a, b = draw(np.random.default_rng(0))
    both = np.column_stack([1 - b, b])
    with pytest.raises(ValueError, match=r"shape of y_proba_a, got \(100, 2\) and"):
        difference_test(log_loss, y_true, a, both)
    for name, changed in {
        "y_proba_a": (2 - a, b),
        "y_proba_b": (a, b + np.inf),
    }.items():
        with pytest.raises(ValueError, match=f"{name} must "):
            difference_test(log_loss, y_true, *changed)
    with pytest.raises(TypeError, match=r"metric must take labels .*ood_auroc"):
        difference_test(ood_auroc_score, y_true, a, b)


@pytest.mark.parametrize(
    ("value", "exception", "message"),
    [
        (np.nan, ValueError, "metric must be finite for the sample, got NaN"),
        (np.zeros(2), TypeError, "metric must return a number, got ndarray"),
    ],
)
def test_metric_must_return_a_number(value, exception, message):
    with pytest.raises(exception, match=message):
        difference_test(lambda *_, **__: value, *draw(np.random.default_rng(0)))


def test_labels_in_a_partial():
    y_true, a, b = draw(np.random.default_rng(0))
    given = {"labels": [1, 0]}
    for metric in (aurc_loss, expected_calibration_error):
        assert compare(metric, y_true, a, b, **given) == compare(
            partial(metric, **given), y_true, a, b
        )


@pytest.mark.parametrize(
    ("name", "metric"),
    [
        ("neg_aurc", aurc_loss),
        ("neg_ece", partial(expected_calibration_error, mode="top_label")),
        ("neg_log_loss", log_loss),
        ("accuracy", lambda y, p, sample_weight: accuracy(y, p > 0.5, sample_weight)),
    ],
)
def test_names_of_scorers(name, metric):
    """The sign is that of the metric, for either form of binary probabilities."""
    y_true, a, b = draw(np.random.default_rng(0), noise=1.0)
    expected = compare(metric, y_true, a, b)
    both = [np.column_stack([1 - p, p]) for p in (a, b)]
    for probas in ([a, b], both):
        np.testing.assert_allclose(compare(name, y_true, *probas), expected)


def accuracy(y_true, y_pred, weight):
    return np.average(y_true == y_pred, weights=weight)


def test_given_edges():
    rng = np.random.default_rng(0)
    y_true, proba = rng.integers(2, size=80), rng.uniform(size=80)
    data, seed = (y_true, proba, proba**2), {"random_state": 0}
    results = [
        difference_test(expected_calibration_error, *data, n_bins=n_bins, **seed)
        for n_bins in (np.arange(16) / 15, 15)
    ]
    np.testing.assert_array_equal(*results)


def test_names_of_scorers_with_string_labels():
    rng, names = np.random.default_rng(0), np.array(["pear", "fig", "plum"])
    a, b = rng.dirichlet(np.ones(3), size=(2, 60))
    y_true = names[rng.integers(3, size=60)]
    for name in ("accuracy", "neg_ece", "neg_l2_calibration_error"):
        test = compare(name, y_true, a, b, labels=names)
        assert test.low <= test.high


def test_unknown_name_of_a_scorer():
    sample = draw(np.random.default_rng(0))
    with pytest.raises(ValueError, match=r"metric must be the name .*mean 'neg_ece'"):
        compare("neg_ecce", *sample)
    with pytest.raises(ValueError, match=r"metric must be a loss.*'smooth_expected"):
        compare("neg_smooth_ece", *sample)
    with pytest.raises(ValueError, match="y_proba_b must have the shape"):
        compare("neg_ece", sample[0], sample[1], sample[2][:5])
