"""Laws that every metric obeys, whatever it measures."""

from functools import partial
from warnings import catch_warnings, simplefilter

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.exceptions import UndefinedMetricWarning

from sklearn_calib.metrics import (
    augrc_loss,
    aurc_loss,
    classwise_calibration_error,
    coverage_at_risk,
    excess_aurc_loss,
    expected_calibration_error,
    failure_auroc_score,
    kde_calibration_error,
    kernel_calibration_error,
    ks_calibration_error,
    maximum_calibration_error,
    post_processing_gap,
    proper_calibration_error,
    refinement_error,
    risk_at_coverage,
    root_brier_score_loss,
    smooth_calibration_error,
    smooth_expected_calibration_error,
)


def failure_auroc_or_chance(y_true, y_proba, **options):
    """Return one half where all predictions are right, or all are wrong."""
    with catch_warnings():
        simplefilter("ignore", UndefinedMetricWarning)
        value = failure_auroc_score(y_true, y_proba, **options)
    return 0.5 if np.isnan(value) else value


# Metrics of a matrix of probabilities, with settings known to be delicate. Of these 0
# is best.
ERRORS = {
    "ece": expected_calibration_error,
    "ece-quantile": partial(expected_calibration_error, strategy="quantile"),
    "ece-l2": partial(expected_calibration_error, norm="l2"),
    "ece-one-bin": partial(expected_calibration_error, n_bins=1),
    "ece-many-bins": partial(expected_calibration_error, n_bins=1000),
    "ece-cube-root": partial(expected_calibration_error, n_bins="cube_root"),
    "ece-sweep": partial(expected_calibration_error, n_bins="sweep"),
    "ece-debiased": partial(expected_calibration_error, reduce_bias=True),
    "ece-debiased-l2": partial(
        expected_calibration_error, reduce_bias=True, norm="l2", strategy="quantile"
    ),
    "ece-isotonic": partial(expected_calibration_error, strategy="isotonic"),
    "ece-classwise": partial(expected_calibration_error, mode="classwise"),
    "mce": maximum_calibration_error,
    "mce-quantile": partial(maximum_calibration_error, strategy="quantile", n_bins=4),
    "mce-isotonic": partial(maximum_calibration_error, strategy="isotonic"),
    "classwise": classwise_calibration_error,
    "classwise-quantile": partial(classwise_calibration_error, strategy="quantile"),
    "classwise-isotonic": partial(classwise_calibration_error, strategy="isotonic"),
    "classwise-debiased": partial(classwise_calibration_error, reduce_bias=True),
    "classwise-l2": partial(classwise_calibration_error, norm="l2"),
    "classwise-max": partial(classwise_calibration_error, norm="max"),
    "classwise-sum": partial(classwise_calibration_error, average="sum"),
    "aurc": aurc_loss,
    "aurc-population": partial(aurc_loss, estimator="population"),
    "aurc-trapezoid": partial(aurc_loss, estimator="trapezoid"),
    "aurc-entropy": partial(aurc_loss, confidence="negative_entropy"),
    "augrc": augrc_loss,
    "excess-aurc": excess_aurc_loss,
    "proper-isotonic": partial(
        proper_calibration_error, loss="brier", recalibration="isotonic"
    ),
    "risk-at-coverage": partial(risk_at_coverage, coverage=0.8),
    "gap-squared": partial(post_processing_gap, loss="squared"),
    "gap-log": post_processing_gap,
    "kde": kde_calibration_error,
    "kde-classwise": partial(kde_calibration_error, mode="classwise", bandwidth=0.1),
    "kde-canonical": partial(kde_calibration_error, mode="canonical", bandwidth=0.1),
    "kde-l2": partial(kde_calibration_error, norm="l2"),
    "kernel": kernel_calibration_error,
    "kernel-gaussian": partial(kernel_calibration_error, kernel="gaussian"),
    "kernel-top-label": partial(
        kernel_calibration_error, mode="top_label", bandwidth=0.5
    ),
    "ks": ks_calibration_error,
    "root-brier": root_brier_score_loss,
    "smooth-weights": smooth_calibration_error,
    "smooth": smooth_expected_calibration_error,
    "smooth-narrow": partial(smooth_expected_calibration_error, bandwidth=0.01),
    "smooth-classwise": partial(smooth_expected_calibration_error, mode="classwise"),
}
# What is better high, or has no bound.
OTHERS = {
    "aurc-log": partial(aurc_loss, loss="log"),
    "coverage-at-risk": partial(coverage_at_risk, max_risk=0.3),
    "failure-auroc": failure_auroc_or_chance,
    "refinement": refinement_error,
    "refinement-bins": partial(refinement_error, loss="brier", recalibration="bins"),
    "refinement-brier": partial(refinement_error, loss="brier"),
}
METRICS = ERRORS | OTHERS
# Their temperature is mixed with equal probabilities by the effective number of
# samples, which does not change with the scale of the weights.
SCALE_FREE = {OTHERS["refinement"], OTHERS["refinement-brier"]}
all_errors = pytest.mark.parametrize("metric", ERRORS.values(), ids=ERRORS)
all_metrics = pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)

LABELS = np.array(["ash", "birch", "cedar", "date", "elm"])


@st.composite
def problems(draw):
    """Draw columns of the true classes, and probabilities with ties and edge hits."""
    n_samples, n_classes = draw(st.integers(1, 25)), draw(st.integers(2, 5))
    shape = (n_samples, n_classes)
    counts = draw(hnp.arrays(int, shape, elements=st.integers(0, 4)))
    counts[:, 0] += counts.sum(axis=1) == 0
    codes = draw(hnp.arrays(int, n_samples, elements=st.integers(0, n_classes - 1)))
    return codes, counts / counts.sum(axis=1, keepdims=True)


def random_problem(n_samples=200, n_classes=4):
    """Return a problem with every class, and neither ties nor edge hits."""
    rng = np.random.default_rng(0)
    codes = np.arange(n_samples) % n_classes
    return codes, rng.dirichlet(np.ones(n_classes), size=n_samples)


@all_metrics
@given(problem=problems())
def test_is_in_range(metric, problem):
    codes, proba = problem
    n_classes = proba.shape[1]
    value = metric(codes, proba, labels=range(n_classes))
    assert type(value) is float
    bounds = {
        "aurc-log": 37,
        "classwise-sum": n_classes,
        "gap-log": 4,
        "kde-canonical": 2,
        "kde-classwise": n_classes,
        "kernel": 2**0.5,
        "kernel-gaussian": 2**0.5,
        "kernel-top-label": 2**0.5,
        "proper-isotonic": 2,
        "refinement": 37,
        "refinement-bins": 2,
        "refinement-brier": 2,
        "root-brier": 2**0.5,
    }
    bound = {METRICS[name]: bound for name, bound in bounds.items()}.get(metric, 1)
    assert -1e-12 <= value <= bound + 1e-12


@all_metrics
@given(data=st.data(), problem=problems())
def test_order_of_rows_does_not_matter(metric, data, problem):
    codes, proba = problem
    labels = range(proba.shape[1])
    order = data.draw(st.permutations(range(len(codes))))
    assert metric(codes[order], proba[order], labels=labels) == pytest.approx(
        metric(codes, proba, labels=labels), abs=1e-12
    )


@all_metrics
@given(data=st.data(), problem=problems())
def test_weights_are_repetitions(metric, data, problem):
    """Zero is absence, two is the same sample twice, unless only shares count."""
    codes, proba = problem
    labels, most = range(proba.shape[1]), 1 if metric in SCALE_FREE else 3
    times = data.draw(hnp.arrays(int, len(codes), elements=st.integers(0, most)))
    times[0] = max(1, times[0])
    assert metric(codes, proba, labels=labels, sample_weight=times) == pytest.approx(
        metric(codes.repeat(times), proba.repeat(times, axis=0), labels=labels),
        abs=1e-12,
    )


@all_metrics
def test_weights_of_one_are_no_weights(metric):
    codes, proba = random_problem()
    ones = np.ones(len(codes))
    assert metric(codes, proba, sample_weight=ones) == pytest.approx(
        metric(codes, proba), rel=1e-12
    )


@all_metrics
def test_classes_in_another_order(metric):
    """Columns and labels that are permuted alike mean the same."""
    codes, proba = random_problem()
    order = [2, 0, 3, 1]
    assert metric(codes, proba[:, order], labels=order) == pytest.approx(
        metric(codes, proba), rel=1e-12
    )


@all_metrics
def test_labels_of_any_kind(metric):
    codes, proba = random_problem()
    expected = metric(codes, proba)
    assert metric(LABELS[codes], proba) == expected
    assert metric(LABELS[codes].astype(object), proba, labels=LABELS[:4]) == expected
    assert metric(codes - 7, proba) == expected
    assert metric(codes.astype(float), proba, labels=[0, 1, 2, 3]) == expected


@all_metrics
def test_containers(metric):
    codes, proba = random_problem()
    expected = metric(codes, proba)
    assert metric(codes.tolist(), proba.tolist()) == expected
    index = np.arange(len(codes)) + 100
    frame = pd.DataFrame(proba, columns=LABELS[:4], index=index)
    assert metric(pd.Series(codes), frame) == pytest.approx(expected, rel=1e-12)
    assert metric(codes[:, None], np.asfortranarray(proba)) == pytest.approx(
        expected, rel=1e-12
    )


@all_metrics
@pytest.mark.parametrize("denominator", [16, 15])
def test_precision_does_not_matter(metric, denominator):
    """The same decimals are in the same bins, edges included."""
    counts = np.random.default_rng(0).multinomial(denominator, [0.6, 0.3, 0.1], 100)
    codes, proba = np.arange(100) % 3, counts / denominator
    assert metric(codes, proba.astype(np.float32)) == pytest.approx(
        metric(codes, proba), rel=1e-5, abs=1e-7
    )


@all_metrics
def test_input_is_not_changed(metric):
    codes, proba = random_problem()
    weight = np.linspace(1, 2, len(codes))
    before = [array.copy() for array in (codes, proba, weight)]
    metric(codes, proba, sample_weight=weight)
    for array, copy in zip((codes, proba, weight), before, strict=True):
        np.testing.assert_array_equal(array, copy)


@all_errors
def test_perfect_predictions_have_none(metric):
    codes = np.arange(30) % 3
    assert metric(codes, np.eye(3)[codes]) == 0


@all_errors
def test_certain_and_wrong_is_worst_where_there_is_a_worst(metric):
    """Excess AURC is none: the ranking is as good as any. AUGRC is one half.

    Of each class a third of the samples is wrong at either end, which a bandwidth that
    is as large smoothes out in part. Of the best increasing function, which is 1 / 3,
    two thirds of them are 1 / 3 away and one third 2 / 3.
    """
    codes = np.arange(30) % 3
    value = metric(codes, np.eye(3)[(codes + 1) % 3])
    least = {ERRORS["excess-aurc"]: 0, ERRORS["smooth-classwise"]: 0.39}
    least[ERRORS["classwise-isotonic"]] = 0.44
    assert value >= least.get(metric, 0.5)
    assert value == 0 or metric is not excess_aurc_loss


@all_metrics
def test_absent_class(metric):
    """It is an error to guess which, and no error to say."""
    codes, proba = random_problem(n_classes=3)
    codes = np.where(codes == 1, 2, codes)
    with pytest.raises(ValueError, match=r"got 2: 0, 2\. Pass labels="):
        metric(codes, proba)
    assert np.isfinite(metric(codes, proba, labels=[0, 1, 2]))


@all_metrics
def test_one_column_is_the_positive_class(metric):
    """(n, 1) is (n,), and both columns say the same as the second where classes do."""
    codes, proba = random_problem(n_classes=2)
    positive = proba[:, 1]
    value = metric(codes, positive)
    assert metric(codes, positive[:, None]) == value
    if "mode" not in getattr(metric, "keywords", {}) and metric in (
        aurc_loss,
        excess_aurc_loss,
        classwise_calibration_error,
    ):
        assert value == pytest.approx(metric(codes, proba), rel=1e-9)


@all_metrics
@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([np.nan, 0.5], "y_proba must be finite, got NaN"),
        ([-4.0, 5.0], r"must lie in \[0, 1\], got values in \[-4, 5\].*not logits"),
        ([0.5, 0.25], "rows that sum to one.*got a row that sums to 0.75"),
    ],
)
def test_bad_probabilities(metric, row, message):
    with pytest.raises(ValueError, match=message):
        metric([0, 1], [[0.5, 0.5], row])


@all_metrics
@pytest.mark.parametrize("value", [np.nan, 1.5])
def test_bad_probabilities_of_the_positive_class(metric, value):
    with pytest.raises(ValueError, match="y_proba must"):
        metric([0, 1], [0.5, value])


@all_metrics
@pytest.mark.parametrize(
    ("y_true", "options", "message"),
    [
        ([0, 1, 0], {}, "one label for each row of y_proba, got 3 labels and 2 rows"),
        ([0, 7], {"labels": [0, 1]}, r"only the labels \[0, 1\], got also \[7\]"),
        ([0, 1], {"labels": [0, 1, 2]}, "labels must hold 2 distinct labels"),
        ([0.0, np.nan], {}, "y_true must hold no missing values"),
        ([0, 1], {"sample_weight": [1, -1]}, "sample_weight must be non-negative"),
        ([0, 1], {"sample_weight": [1, np.nan]}, "sample_weight contains NaN"),
        ([0, 1], {"sample_weight": [1]}, "sample_weight.shape"),
        (None, {}, "'y_true' parameter"),
    ],
)
def test_bad_targets(metric, y_true, options, message):
    with pytest.raises(ValueError, match=message):
        metric(y_true, [[0.5, 0.5], [0.25, 0.75]], **options)


@pytest.mark.parametrize(
    "metric",
    [
        expected_calibration_error,
        maximum_calibration_error,
        classwise_calibration_error,
    ],
)
@pytest.mark.parametrize(
    ("name", "value"), [("n_bins", 0), ("n_bins", 1.5), ("strategy", "kmeans")]
)
def test_bad_bins(metric, name, value):
    with pytest.raises(ValueError, match=f"The '{name}' parameter .* Got {value!r}"):
        metric([0, 1], [0.2, 0.8], **{name: value})
