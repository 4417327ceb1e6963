"""Level, power and edge cases of the consistency test."""

from functools import partial

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.metrics import log_loss

from sklearn_calib.metrics import (
    classwise_calibration_error,
    consistency_test,
    expected_calibration_error,
    ks_calibration_error,
    ood_auroc_score,
    per_label,
)

METRICS = {
    "classwise": classwise_calibration_error,
    "ece": partial(expected_calibration_error, n_bins=5),
    "ks": ks_calibration_error,
    "log-loss": log_loss,
}
all_metrics = pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)
NAMES = np.array(["ash", "birch", "cedar"])


def draw(rng, n_samples=60, temperature=1.0):
    """Draw labels, calibrated probabilities and temperature-scaled probabilities."""
    proba = rng.dirichlet(np.ones(3), size=n_samples)
    uniform = rng.uniform(size=(n_samples, 1))
    codes = (uniform >= proba.cumsum(axis=1)[:, :-1]).sum(axis=1)
    said = proba**temperature
    return NAMES[codes], said / said.sum(axis=1, keepdims=True)


def pvalue(metric, y_true, y_proba, **options):
    options = {"n_resamples": 9, "random_state": 0, "labels": NAMES} | options
    return consistency_test(metric, y_true, y_proba, **options).pvalue


@pytest.mark.slow
@all_metrics
def test_level(metric):
    """With 9 draws, one in five calibrated samples has a p-value of at most 0.2."""
    rng = np.random.default_rng(0)
    values = [pvalue(metric, *draw(rng), random_state=seed) for seed in range(80)]
    assert np.mean(np.array(values) <= 0.2) == pytest.approx(0.2, abs=0.14)


@all_metrics
def test_power(metric):
    """With logits 2.5 times as large, 400 samples always have the least p-value."""
    rng = np.random.default_rng(0)
    for _ in range(5):
        assert pvalue(metric, *draw(rng, 400, temperature=2.5)) == 1 / 10


def test_result():
    y_true, y_proba = draw(np.random.default_rng(0))
    test = partial(consistency_test, n_resamples=99, random_state=0)
    result = test(ks_calibration_error, y_true, y_proba)
    null = result.null_distribution
    assert result.statistic == ks_calibration_error(y_true, y_proba)
    assert len(null) == 99
    greater = (1 + (null >= result.statistic).sum()) / 100
    less = (1 + (null <= result.statistic).sum()) / 100
    assert result.pvalue == pytest.approx(greater)
    sides = {"less": less, "two-sided": 2 * min(less, greater)}
    for alternative, expected in sides.items():
        options = {"alternative": alternative, "n_jobs": 2}
        with parallel_config("threading"):
            other = test(ks_calibration_error, y_true, y_proba, **options)
        assert other.pvalue == pytest.approx(expected)


def test_all_draws_count_where_a_class_is_rare():
    """Draws without this class count too, although `labels` is not passed."""
    y_proba = np.tile([0.98, 0.01, 0.01], (20, 1))
    y_true = NAMES[np.arange(20) % 3]
    options = {"n_resamples": 99, "random_state": 0}
    result = consistency_test(ks_calibration_error, y_true, y_proba, **options)
    assert len(result.null_distribution) == 99


def test_equal_values_are_as_extreme():
    """If only one outcome is possible, the p-value is 1."""
    result = consistency_test(
        ks_calibration_error, [0, 1, 1], [0.0, 1.0, 1.0], n_resamples=99
    )
    assert result[:2] == (0, 1)
    wrong = consistency_test(
        ks_calibration_error, [1, 1, 1], [0.0, 1, 1], labels=[0, 1], n_resamples=99
    )
    assert wrong.pvalue == 1 / 100


def test_of_several_labels():
    """The labels are drawn independently."""
    rng = np.random.default_rng(0)
    y_proba = rng.uniform(size=(300, 3))
    y_true = (rng.uniform(size=(300, 3)) < y_proba).astype(int)
    test = partial(
        consistency_test, partial(per_label, ks_calibration_error), y_true,
        n_resamples=49, random_state=0,
    )  # fmt: skip
    assert test(y_proba).pvalue > 0.05
    assert test(y_proba**2).pvalue == 0.02


def test_metrics_of_scores_raise_an_error():
    with pytest.raises(TypeError, match=r"metric must take labels .*ood_auroc"):
        consistency_test(ood_auroc_score, [0.1, 0.2], [0.3, 0.4])


def test_labels_in_a_partial():
    """They are also used for the drawn labels."""
    y_true, y_proba = draw(np.random.default_rng(0))
    order, draws = [2, 0, 1], {"n_resamples": 9, "random_state": 0}
    named, columns = {"labels": NAMES[order]}, y_proba[:, order]
    expected = consistency_test(ks_calibration_error, y_true, columns, **named, **draws)
    metric = partial(ks_calibration_error, **named)
    result = consistency_test(metric, y_true, columns, **draws)
    assert result[:2] == expected[:2]
    assert (result.null_distribution == expected.null_distribution).all()


@pytest.mark.parametrize(
    ("value", "exception", "message"),
    [
        (np.nan, ValueError, "metric must be finite for the sample, got NaN"),
        (np.inf, ValueError, "metric must be finite for the sample, got infinity"),
        (np.zeros(2), TypeError, "metric must return a number, got ndarray"),
        (None, TypeError, "metric must return a number, got NoneType"),
    ],
)
def test_a_metric_that_is_not_a_number_raises_an_error(value, exception, message):
    with pytest.raises(exception, match=message):
        consistency_test(lambda *_, **__: value, [0, 1], [0.1, 0.9])


def test_labels_are_required_if_a_class_is_absent():
    def mean_gap(y_true, y_proba, sample_weight):
        return np.average(y_proba - y_true, weights=sample_weight)

    with pytest.raises(ValueError, match="y_true must contain 2 distinct labels"):
        consistency_test(mean_gap, [0, 0, 0], [0.1, 0.2, 0.3])
