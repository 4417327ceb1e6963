"""Multinomial recalibration: values of a general optimiser, and the tests."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import linprog, minimize
from scipy.special import softmax
from scipy.stats import chi2
from sklearn.exceptions import UndefinedMetricWarning

import sklearn_calib.metrics._hypothesis_tests.recalibration as module
from sklearn_calib.metrics import (
    calibration_belt_test,
    calibration_slope,
    recalibration_test,
)

SLOPES, INTERCEPTS = np.array([0.6, 1.4]), np.array([0.5, -0.3])


def problem(n_samples=600, seed=0):
    """Return classes a, b and c; slopes and intercepts are relative to class b."""
    rng = np.random.default_rng(seed)
    x = rng.normal(scale=1.5, size=(n_samples, 2))
    true = softmax(np.insert(INTERCEPTS + SLOPES * x, 1, 0, axis=1), axis=1)
    codes = (rng.random((n_samples, 1)) > true.cumsum(axis=1)).sum(axis=1)
    y_proba = softmax(np.insert(x, 1, 0, axis=1), axis=1)
    return np.array(["a", "b", "c"])[codes], y_proba


def independent_fit(y_true, y_proba, weight, fixed_slopes):
    """Return the minimum of the log loss by a quasi-Newton method, and where it is."""
    x = np.log(y_proba[:, [0, 2]] / y_proba[:, [1]])
    codes = np.searchsorted(["a", "b", "c"], y_true)

    def log_loss(parameters):
        slopes = 1 if fixed_slopes else parameters[2:]
        scores = np.insert(parameters[:2] + slopes * x, 1, 0, axis=1)
        return -weight @ np.log(softmax(scores, axis=1)[np.arange(len(x)), codes])

    start = np.zeros(2) if fixed_slopes else np.array([0, 0, 1, 1.0])
    return minimize(log_loss, start, method="BFGS", options={"gtol": 1e-5})


@pytest.mark.parametrize("weighted", [False, True])
def test_multinomial_slopes_are_those_of_a_general_optimiser(weighted):
    y_true, y_proba = problem()
    weight = np.random.default_rng(1).uniform(size=600) if weighted else np.ones(600)
    result = calibration_slope(
        y_true, y_proba, mode="multinomial", reference="b", sample_weight=weight
    )
    line = independent_fit(y_true, y_proba, weight, fixed_slopes=False)
    assert_allclose(result.intercept, line.x[:2], atol=1e-5)
    assert_allclose(result.slope, line.x[2:], atol=1e-5)
    shift = independent_fit(y_true, y_proba, weight, fixed_slopes=True)
    assert_allclose(result.in_the_large, shift.x, atol=1e-5)


def test_multinomial_intervals_by_numerical_derivatives():
    """The information is the second difference of the log loss at its minimum."""
    y_true, y_proba = problem()
    result = calibration_slope(y_true, y_proba, mode="multinomial", reference="b")
    best = np.concatenate([result.intercept, result.slope])
    x = np.log(y_proba[:, [0, 2]] / y_proba[:, [1]])
    codes = np.searchsorted(["a", "b", "c"], y_true)

    def log_loss(parameters):
        scores = np.insert(parameters[:2] + parameters[2:] * x, 1, 0, axis=1)
        return -np.log(softmax(scores, axis=1)[np.arange(len(x)), codes]).sum()

    steps = 1e-3 * np.eye(4)
    information = [
        [
            log_loss(best + a + b)
            - log_loss(best + a - b)
            - log_loss(best - a + b)
            + log_loss(best - a - b)
            for a in steps
        ]
        for b in steps
    ]
    errors = np.sqrt(np.linalg.inv(np.array(information) / 4e-6).diagonal())
    half = 1.959964 * errors
    ends = np.stack([best - half, best + half], axis=1)
    found = np.concatenate([result.intercept_interval, result.slope_interval])
    assert_allclose(found, ends, atol=1e-4)


def test_multinomial_of_two_classes_is_cox_recalibration():
    rng = np.random.default_rng(0)
    proba = rng.beta(1, 2, size=300)
    y_true = rng.random(300) < proba
    weight = rng.uniform(size=300)
    result = calibration_slope(y_true, proba, mode="multinomial", sample_weight=weight)
    expected = calibration_slope(y_true, proba, sample_weight=weight)
    for values, value in zip(result, expected, strict=True):
        assert_allclose(values[0], value, rtol=1e-6)


def test_statistic_is_twice_the_difference_of_log_losses():
    y_true, y_proba = problem()
    result = recalibration_test(y_true, y_proba, reference="b")
    line = independent_fit(y_true, y_proba, np.ones(600), fixed_slopes=False)
    codes = np.searchsorted(["a", "b", "c"], y_true)
    null = -np.log(y_proba[np.arange(600), codes]).sum()
    assert_allclose(result.statistic, 2 * (null - line.fun), rtol=1e-8)
    assert_allclose(result.pvalue, chi2.sf(result.statistic, 4))
    assert result.df == 4


def test_belt_with_a_straight_line_is_the_recalibration_test():
    rng = np.random.default_rng(0)
    proba = rng.beta(1, 2, size=300)
    y_true = rng.random(300) < proba**1.2
    belt = calibration_belt_test(y_true, proba)
    assert belt.degree == 1
    result = recalibration_test(y_true, proba)
    assert_allclose(result[:2], belt[:2], rtol=1e-8)
    columns = np.column_stack([1 - proba, proba])
    other = recalibration_test(y_true, columns, reference=True)
    assert_allclose(other, result, rtol=1e-8)


def test_top_label_compares_correct_and_wrong_predictions():
    y_true, y_proba = problem()
    is_correct = np.array(["a", "b", "c"])[y_proba.argmax(axis=1)] == y_true
    expected = recalibration_test(is_correct, y_proba.max(axis=1))
    result = recalibration_test(y_true, y_proba, mode="top_label")
    assert_allclose(result, expected, rtol=1e-9)


def test_reference_must_be_a_label():
    y_true, y_proba = problem()
    message = r"reference must be one of \['a', 'b', 'c'\], got 'd'"
    with pytest.raises(ValueError, match=message):
        recalibration_test(y_true, y_proba, reference="d")
    with pytest.raises(ValueError, match=message):
        calibration_slope(y_true, y_proba, mode="multinomial", reference="d")
    with pytest.raises(ValueError, match='reference must be None unless mode="multi'):
        calibration_slope(y_true, y_proba, mode="classwise", reference="a")
    with pytest.raises(ValueError, match='reference must be None with mode="top_label'):
        recalibration_test(y_true, y_proba, mode="top_label", reference="a")


def test_absent_class_has_no_estimate():
    y_true, y_proba = problem()
    seen = y_true != "c"
    data, labels = (y_true[seen], y_proba[seen]), ["a", "b", "c"]
    with pytest.warns(UndefinedMetricWarning, match="a class is absent"):
        result = calibration_slope(*data, mode="multinomial", labels=labels)
    assert np.isnan(np.ravel(result.slope_interval)).all()
    with pytest.warns(
        UndefinedMetricWarning, match="recalibration test is not defined"
    ):
        assert np.isnan(recalibration_test(*data, labels=labels).pvalue)


@pytest.mark.parametrize(
    "y_proba",
    [
        np.tile([0.2, 0.5, 0.3], (6, 1)),
        np.repeat([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]], 2, axis=0),
    ],
)
def test_slopes_do_not_exist(y_proba):
    y_true = [0, 0, 1, 1, 2, 2]
    with pytest.warns(UndefinedMetricWarning, match="are equal or separate"):
        result = calibration_slope(y_true, y_proba, mode="multinomial")
    assert np.isnan(result.slope).all()
    assert np.isfinite(result.in_the_large).all()


def test_slopes_of_perfect_predictions_do_not_exist():
    with pytest.warns(UndefinedMetricWarning, match="are equal or separate"):
        result = recalibration_test([0, 1, 2], np.eye(3))
    assert np.isnan(result.pvalue)


def is_separable(codes, y_proba):
    """Whether some scores are at least as large at the true class, and larger once."""
    x = np.log(y_proba / y_proba[:, :1])
    terms = np.eye(3)[:, 1:] * np.stack([x**0, x])[..., None]
    scores = np.concatenate(list(terms), axis=-1)
    margins = scores[np.arange(len(x)), codes][:, None] - scores
    rows = margins.reshape(-1, 4)
    best = linprog(-rows.sum(axis=0), -rows, np.zeros(len(rows)), bounds=(-1, 1))
    return best.fun < -1e-7


def test_separable_classes_by_a_linear_program():
    """Few samples often have no estimate, and otherwise may have a large one."""
    rng = np.random.default_rng(0)
    found, expected = [], []
    for _ in range(25):
        n_samples = rng.integers(3, 9)
        codes, y_proba = np.arange(n_samples) % 3, rng.dirichlet([1, 1, 1], n_samples)
        expected.append(is_separable(codes, y_proba))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UndefinedMetricWarning)
            result = recalibration_test(codes, y_proba, method="asymptotic")
            found.append(np.isnan(result.pvalue))
    assert found == expected
    assert 4 < sum(found) < 21


@pytest.mark.parametrize("factor", [10, -100])
def test_extreme_predictions_have_an_estimate(factor):
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(300, 5))
    codes = (logits + rng.gumbel(size=(300, 5))).argmax(axis=1)
    y_proba = softmax(factor * logits, axis=1)
    result = calibration_slope(codes, y_proba, mode="multinomial")
    assert (factor * result.slope > 0.5).all()
    assert (np.abs(result.slope) < 0.2).all()
    assert recalibration_test(codes, y_proba, method="asymptotic").pvalue < 1e-100


def test_calibration_in_the_large_of_probabilities_near_0():
    y_true, y_proba = [0, 1, 0, 1], np.array([1, 2, 3, 4]) * 1e-15
    result = calibration_slope(y_true, y_proba, mode="multinomial")
    expected = calibration_slope(y_true, y_proba)
    assert_allclose(result.in_the_large, expected.in_the_large)


def test_an_impossible_class_is_certain_evidence():
    y_proba = [[0.5, 0.5, 0], [0.2, 0.3, 0.5], [0.1, 0.1, 0.8], [0.6, 0.2, 0.2]]
    assert recalibration_test([2, 0, 1, 2], y_proba) == (np.inf, 0, 4)


@pytest.mark.parametrize("reference", ["a", "b"])
def test_correct_certainty_is_no_evidence(reference):
    y_true, y_proba = problem(200)
    result = recalibration_test(y_true, y_proba, reference=reference)
    certain = np.arange(90) % 3
    labels = np.append(y_true, np.array(["a", "b", "c"])[certain])
    again = recalibration_test(
        labels, np.concatenate([y_proba, np.eye(3)[certain]]), reference=reference
    )
    assert_allclose(again, result, rtol=1e-7)


def few_samples(n_samples=60, n_classes=5, seed=1):
    """Return calibrated predictions with too few samples for asymptotics."""
    rng = np.random.default_rng(seed)
    y_proba = softmax(rng.normal(size=(n_samples, n_classes)), axis=1)
    cumulated = y_proba.cumsum(axis=1)
    return (rng.random((n_samples, 1)) > cumulated).sum(axis=1), y_proba


def test_null_distribution_of_few_samples_is_that_of_drawn_labels():
    y_true, y_proba = few_samples()
    result = recalibration_test(y_true, y_proba, n_resamples=199, random_state=0)
    expected = recalibration_test(y_true, y_proba, method="asymptotic")
    assert result.statistic == expected.statistic
    rng, drawn = np.random.default_rng(0), []
    for _ in range(100):
        uniform = rng.random((60, 1))
        again = (uniform > y_proba.cumsum(axis=1)).sum(axis=1)
        if len(np.unique(again)) == 5:
            other = recalibration_test(again, y_proba, method="asymptotic")
            drawn.append(other.statistic)
    share = np.mean(np.array(drawn) >= result.statistic)
    assert result.pvalue == pytest.approx(share, abs=0.12)
    assert (200 * result.pvalue) % 1 == pytest.approx(0, abs=1e-9)
    # Smaller p-values of the chi-square distribution reject too often.
    assert expected.pvalue < result.pvalue - 0.01
    few = {"n_resamples": 9, "random_state": 0}
    same = recalibration_test(y_true, y_proba, **few)
    assert same == recalibration_test(y_true, y_proba, **few)


def test_statistic_of_a_draw_is_that_of_the_fit():
    y_true, y_proba = few_samples()
    weight = np.random.default_rng(0).uniform(0.5, 1.5, size=60)
    ratios = module.log_ratios(y_proba, y_true, weight, 0, zeros_remain=True)
    null = module._null(ratios)
    inverse = np.linalg.inv(null.information)
    for codes in ((y_true + 1) % 5, y_true):
        data = module.log_ratios(y_proba, codes, weight, 0, zeros_remain=True)
        fit = module.fit_recalibration(data, slopes=True)
        expected = 2 * (module.log_loss_of_predictions(data) - fit.loss)
        found = module._likelihood_ratio(data, null, inverse)
        assert expected - 0.1 < found < expected + 1e-9


def test_weights_that_depend_on_the_predictions():
    """The chi-square distribution without correction is too wide."""
    y_true, y_proba = problem(600)
    weight = np.exp(3 * y_proba[:, 1])
    result = recalibration_test(y_true, y_proba, sample_weight=weight)
    effective = module.effective_weights(weight, 600)
    codes = np.searchsorted(["a", "b", "c"], y_true)
    data = module.log_ratios(y_proba, codes, effective, 0, zeros_remain=True)
    draws = module._null_draws(data, 400, np.random.RandomState(0))
    for tail in (0.5, 0.1):
        statistic = np.quantile(draws, 1 - tail)
        found = module._asymptotic_pvalue(statistic, data)
        assert found == pytest.approx(tail, abs=0.4 * tail)
    assert result.pvalue == module._asymptotic_pvalue(result.statistic, data)


@pytest.mark.slow
@pytest.mark.parametrize("has_zeros", [False, True])
def test_level_of_the_recalibration_test(has_zeros):
    rng = np.random.default_rng(0)
    rejected, n_draws = 0, 1000
    for _ in range(n_draws):
        y_proba = rng.dirichlet([1, 1, 1], size=500)
        if has_zeros:
            y_proba = rng.multinomial(10, y_proba) / 10
        y_true = (rng.random((500, 1)) > y_proba.cumsum(axis=1)).sum(axis=1)
        rejected += recalibration_test(y_true, y_proba).pvalue < 0.05
    assert 0.036 < rejected / n_draws < 0.067
