"""Calibration belt test: published values, its distribution, and its level."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from scipy.special import expit, ndtri, xlogy
from scipy.stats import chi2
from sklearn.exceptions import UndefinedMetricWarning

from sklearn_calib._solvers.belt_polynomials import (
    belt,
    belt_sample,
    select_polynomial,
    survival,
)
from sklearn_calib.metrics import calibration_belt_test


def problem(n_samples, square=0.0, cube=0.0):
    """Return outcomes and predictions; the true log-odds are a polynomial in theirs."""
    rng = np.random.default_rng(0)
    x = rng.normal(scale=1.5, size=n_samples)
    true = expit(x + square * x**2 + cube * x**3)
    return rng.random(n_samples) < true, expit(x)


def log_likelihood(powers, y_true, beta):
    proba = expit(powers @ beta)
    return (xlogy(y_true, proba) + xlogy(1 - y_true, 1 - proba)).sum()


def maximum(powers, y_true):
    """Return the largest log-likelihood, by a general optimiser, and where it is."""

    def gradient(beta):
        return powers.T @ (expit(powers @ beta) - y_true)

    result = minimize(
        lambda beta: -log_likelihood(powers, y_true, beta),
        np.zeros(powers.shape[1]),
        jac=gradient,
        method="BFGS",
        options={"gtol": 1e-7},
    )
    return -result.fun, result.x


@pytest.mark.parametrize("number", [0, 1])
def test_published_pvalues(number, reference):
    """The vignette prints the statistic and the degree with the p-value."""
    case = reference("metric_calibration_belt")["published"][number]
    n_added = case["degree"] - (1 if case["validation"] == "external" else 2)
    df = 2 if case["validation"] == "external" else 1
    pvalue = survival(case["statistic"], n_added, df, 0.05)
    assert_allclose(pvalue, case["pvalue"], rtol=case["rtol"])


@pytest.mark.parametrize(
    ("degree", "square", "cube"), [(1, 0, 0), (2, 0.3, 0), (3, 0.3, -0.1)]
)
def test_statistic_is_that_of_a_general_optimiser(degree, square, cube):
    y_true, y_proba = problem(1500, square, cube)
    result = calibration_belt_test(y_true, y_proba)
    assert result.degree == degree
    x = np.log(y_proba / (1 - y_proba))
    best = maximum(x[:, None] ** np.arange(degree + 1), y_true)[0]
    null = np.log(np.where(y_true, y_proba, 1 - y_proba)).sum()
    assert_allclose(result.statistic, 2 * (best - null), rtol=1e-6)


def test_distribution_by_hand():
    """The sum of two chi-square variables, the second given that it is above k.

    With 2 degrees of freedom, P(T > t) is the integral of exp(-(t - z) / 2) times the
    density of z from k to t, plus P(z > t), divided by P(z > k) = 0.05.
    """
    k, t = chi2.isf(0.05, 1), np.array([4.0, 10.0, 40.0])
    integral = np.sqrt(2 / np.pi) * np.exp(-t / 2) * (np.sqrt(t) - np.sqrt(k))
    expected = (integral + chi2.sf(t, 1)) / 0.05
    assert_allclose(survival(t, 1, 2, 0.05), expected, rtol=1e-12)


@pytest.mark.parametrize("df", [1, 2])
def test_distribution_by_simulation(df):
    rng = np.random.default_rng(0)
    # Squares of normal variables beyond the quantiles of 0.15.
    added = ndtri(0.15 * rng.random((200_000, 3))) ** 2
    for n_added in range(4):
        values = added[:, :n_added].sum(axis=1) + rng.chisquare(df, 200_000)
        levels = np.array([0.9, 0.5, 0.1, 0.01])
        at = np.quantile(values, 1 - levels)
        error = 4 * np.sqrt(levels * (1 - levels) / 200_000)
        assert (np.abs(survival(at, n_added, df, 0.3) - levels) < error).all()


def test_internal_validation_starts_with_degree_two():
    y_true, y_proba = problem(400)
    external = calibration_belt_test(y_true, y_proba)
    internal = calibration_belt_test(y_true, y_proba, validation="internal")
    assert (external.degree, internal.degree) == (1, 2)
    assert_allclose(internal.pvalue, chi2.sf(internal.statistic, 1))


def test_options_of_the_selection():
    y_true, y_proba = problem(1500, 0.3, -0.1)
    assert calibration_belt_test(y_true, y_proba).degree == 3
    assert calibration_belt_test(y_true, y_proba, max_degree=2).degree <= 2
    strict = calibration_belt_test(y_true, y_proba, significance_level=1e-300)
    assert strict.degree == 1


@pytest.mark.parametrize("probability", [0.8, 0.95])
@pytest.mark.parametrize("seed", range(3))
def test_ends_of_the_belt_are_those_of_a_constrained_optimiser(seed, probability):
    """The largest and smallest polynomials in the region of the likelihood."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=60)
    y_true = rng.random(60) < expit(x + x**2 / 2)
    sample = belt_sample(expit(x), y_true, None)
    selected = select_polynomial(sample, "external", 4, 0.3)
    at = np.array([x.min(), 0.3, x.max()])
    ends = belt(sample, selected, at, probability)
    exponents = np.arange(selected.polynomial.degree + 1)
    powers = x[:, None] ** exponents
    best, start = maximum(powers, y_true)
    lowest = best - selected.quantile(probability) / 2
    inside = {
        "type": "ineq",
        "fun": lambda beta: log_likelihood(powers, y_true, beta) - lowest,
        "jac": lambda beta: powers.T @ (y_true - expit(powers @ beta)),
    }
    for number, sign in enumerate((-1, 1)):
        for point, end in zip(at, ends[number], strict=True):
            objective = -sign * point**exponents
            result = minimize(
                objective.__matmul__,
                start,
                jac=lambda _, objective=objective: objective,
                constraints=inside,
                method="SLSQP",
                options={"ftol": 1e-10, "maxiter": 1000},
            )
            expected = point**exponents @ result.x
            assert expit(end) == pytest.approx(expit(expected), abs=1e-5)


def test_belt_of_merged_probabilities():
    """The ends for 20,000 probabilities in cells are those for each of them."""
    y_true, y_proba = problem(20_000, square=0.2)
    sample = belt_sample(y_proba, y_true, None)
    selected = select_polynomial(sample, "external", 4, 0.05)
    at = np.array([-3.0, 0.0, 2.0])
    ends = belt(sample, selected, at, 0.95)
    exponents = np.arange(selected.polynomial.degree + 1)
    powers = sample.log_odds[:, None] ** exponents
    start = maximum(powers, y_true)[1]
    proba = expit(powers @ start)
    information = (powers.T * (proba * (1 - proba))) @ powers
    # For many samples, the region is close to an ellipsoid.
    norms = at[:, None] ** exponents
    half = np.linalg.solve(information, norms.T).T
    half = np.sqrt(selected.quantile(0.95) * (norms * half).sum(axis=1))
    middle = norms @ start
    assert_allclose(ends, [middle - half, middle + half], atol=0.03 * half.max())


def test_unequal_weights_are_worth_fewer_samples():
    y_true, y_proba = problem(500, square=0.2)
    some = np.arange(500) % 2 > 0
    result = calibration_belt_test(y_true, y_proba, sample_weight=3 * some)
    expected = calibration_belt_test(y_true[some], y_proba[some])
    assert_allclose(result, expected, rtol=1e-9)
    weight = np.random.default_rng(1).exponential(size=500)
    weighted = calibration_belt_test(y_true, y_proba, sample_weight=weight)
    assert weighted.statistic < calibration_belt_test(y_true, y_proba).statistic


@pytest.mark.parametrize(
    ("y_true", "y_proba"),
    [
        ([0, 0, 1, 1], [0.1, 0.3, 0.4, 0.9]),
        ([0, 1, 1, 1], [0.2, 0.2, 0.2, 0.2]),
        ([0], [0.2]),
        ([1, 1], [0.2, 0.6]),
        ([0, 0, 0, 0, 0], [0.1, 0.2, 0.5, 0.6, 0.95]),
    ],
)
def test_no_estimate(y_true, y_proba):
    with pytest.warns(UndefinedMetricWarning, match="belt test is not defined because"):
        result = calibration_belt_test(y_true, y_proba, labels=[0, 1])
    assert np.isnan(result).all()


def test_an_impossible_outcome_is_certain_evidence():
    y_true, y_proba = np.array([0, 1, 0, 1, 1]), np.array([0.2, 0.3, 0.7, 0.8, 0])
    result = calibration_belt_test(y_true, y_proba)
    assert result[:2] == (np.inf, 0)
    # So are outcomes for which the polynomial has no estimate.
    result = calibration_belt_test([0, 1, 0, 1], [1, 0, 1, 0])
    assert result == pytest.approx((np.inf, 0, 1))
    # Possible outcomes with the probabilities 0 and 1 are not.
    assert calibration_belt_test([0, 1, 0, 1, 0], y_proba).pvalue > 0.05


@pytest.mark.parametrize("validation", ["external", "internal"])
def test_correct_certainty_is_no_evidence(validation):
    """Samples with the probability 0 or 1 that are as predicted are ignored."""
    y_true, y_proba = problem(200, square=0.2)
    result = calibration_belt_test(y_true, y_proba, validation=validation)
    certain = np.arange(100) % 2
    data = np.append(y_true, certain), np.append(y_proba, certain)
    again = calibration_belt_test(*data, validation=validation)
    assert_allclose(again, result, rtol=1e-9)


def test_degree_is_limited_by_the_number_of_probabilities():
    rng = np.random.default_rng(0)
    y_proba = rng.choice([0.2, 0.5, 0.8], size=2000)
    y_true = rng.random(2000) < np.where(y_proba == 0.5, 0.9, 0.5)
    assert calibration_belt_test(y_true, y_proba).degree == 2


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True])
def test_level(weighted):
    """Calibrated predictions are rejected at 5 % as often as that."""
    rng = np.random.default_rng(0)
    rejected, n_draws = 0, 2000
    for _ in range(n_draws):
        y_proba = expit(rng.normal(scale=1.5, size=600))
        y_true = rng.random(600) < y_proba
        weight = rng.exponential(size=600) if weighted else None
        result = calibration_belt_test(y_true, y_proba, sample_weight=weight)
        rejected += result.pvalue < 0.05
    assert 0.04 < rejected / n_draws < 0.065


@pytest.mark.slow
def test_belt_contains_the_diagonal():
    """For calibrated predictions, in at least the confidence level of data sets."""
    rng = np.random.default_rng(0)
    inside, n_draws = np.zeros(2), 400
    for _ in range(n_draws):
        x = rng.normal(scale=1.5, size=500)
        sample = belt_sample(expit(x), rng.random(500) < expit(x), None)
        selected = select_polynomial(sample, "external", 4, 0.05)
        at = np.linspace(x.min(), x.max(), 20)
        for number, level in enumerate((0.8, 0.95)):
            low, high = belt(sample, selected, at, level)
            inside[number] += ((low <= at) & (at <= high)).all()
    assert (inside / n_draws > [0.75, 0.925]).all()
