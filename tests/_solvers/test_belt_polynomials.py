"""Calibration belt: the distribution of its statistic, and its ends."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from scipy.special import expit, ndtri, xlogy
from scipy.stats import chi2

from sklearn_calib._solvers.belt_polynomials import (
    belt,
    belt_sample,
    select_polynomial,
    survival,
)


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
    values, levels = rng.chisquare(df, 200_000), np.array([0.9, 0.5, 0.1, 0.01])
    for n_added in range(4):
        if n_added:  # the square of a normal variable beyond the quantile of 0.15
            values += ndtri(0.15 * rng.random(200_000)) ** 2
        at = np.quantile(values, 1 - levels)
        error = 4 * np.sqrt(levels * (1 - levels) / 200_000)
        assert (np.abs(survival(at, n_added, df, 0.3) - levels) < error).all()


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
    rng = np.random.default_rng(0)
    x = rng.normal(scale=1.5, size=20_000)
    y_true = rng.random(20_000) < expit(x + 0.2 * x**2)
    sample = belt_sample(expit(x), y_true, None)
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


@pytest.mark.slow
def test_belt_contains_the_diagonal():
    """For calibrated predictions, in at least the confidence level of data sets."""
    rng = np.random.default_rng(0)
    inside, n_draws = np.zeros(2), 400
    for _ in range(n_draws):
        x = rng.normal(scale=1.5, size=200)
        sample = belt_sample(expit(x), rng.random(200) < expit(x), None)
        selected = select_polynomial(sample, "external", 4, 0.05)
        at = np.linspace(x.min(), x.max(), 20)
        for number, level in enumerate((0.8, 0.95)):
            low, high = belt(sample, selected, at, level)
            inside[number] += ((low <= at) & (at <= high)).all()
    assert (inside / n_draws > [0.75, 0.925]).all()
