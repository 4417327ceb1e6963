"""Spline logistic regression of one class, and of all classes together."""

import numpy as np
import pytest
from scipy.interpolate import CubicHermiteSpline, CubicSpline
from scipy.optimize import minimize
from scipy.special import expit, log_expit, log_softmax
from sklearn.linear_model import LogisticRegression

from sklearn_calib._numerics.sample_blocks import array_blocks
from sklearn_calib._solvers import spline_logistic
from sklearn_calib._solvers.spline_logistic import (
    evaluate_curve,
    fit_curve,
    fit_joint_curve,
)


def wavy(x):
    """True log-odds, which increase with x in waves."""
    return x + np.sin(2 * x) / 2


def draw(n_samples, seed=0, curve=wavy):
    rng = np.random.default_rng(seed)
    x = rng.normal(scale=2, size=n_samples)
    return x, (rng.random(n_samples) < expit(curve(x))).astype(float)


def objective(values, knots, x, y, center, strength):
    """Return the penalised log loss of a natural spline with the given values."""
    spline = CubicSpline(knots, values, bc_type="natural")
    odds = spline(x)
    loss = -np.sum(y * log_expit(odds) + (1 - y) * log_expit(-odds))
    # The second derivative is linear between two knots.
    left, right = spline(knots[:-1], 2), spline(knots[1:], 2)
    rough = np.diff(knots) @ (left**2 + left * right + right**2) / 3
    return loss + strength * rough / 2 + center(values)


def fit_free(x, y, weight, n_knots, precision=None):
    """Return a curve that may decrease."""
    options = {"is_monotone": False, "precision": precision}
    return fit_curve(x, y, weight, n_knots=n_knots, **options)[0]


def test_the_curve_minimises_the_penalised_log_loss():
    """The strength is given, and the linear part is free."""
    x, y = draw(400)
    knots, values, _ = fit_free(x, y, np.ones(400), 6, np.array([1e-12, 3.0]))
    # Roughness is measured in units of the standard deviation.
    strength = 3.0 * x.std() ** 3
    arguments = knots, x, y, lambda _: 0.0, strength
    best = minimize(objective, knots, arguments, "BFGS", options={"gtol": 1e-6})
    assert best.fun == pytest.approx(objective(values, *arguments), abs=1e-4)
    assert values == pytest.approx(best.x, abs=0.02)


# Priors are negligible.
NO_PRIORS = np.full(2, 1e-9)


@pytest.fixture
def precise(monkeypatch):
    """Let fits converge to rounding errors."""
    monkeypatch.setattr(spline_logistic, "LITTLE", 0.0)


@pytest.mark.usefixtures("precise")
@pytest.mark.parametrize("n_knots", [2, 7])
def test_without_priors_it_is_logistic_regression_on_natural_splines(n_knots):
    x, y = draw(2000)
    weight = np.random.default_rng(1).integers(1, 4, 2000)
    knots, values, slopes = fit_free(x, y, weight, n_knots, NO_PRIORS)
    assert len(knots) == n_knots
    basis = CubicSpline(knots, np.eye(n_knots), bc_type="natural")
    model = LogisticRegression(C=np.inf, fit_intercept=False, tol=1e-10, max_iter=1000)
    (coef,) = model.fit(basis(x), y, sample_weight=weight).coef_
    assert values == pytest.approx(coef, abs=1e-5)
    assert slopes == pytest.approx(basis(knots, 1) @ coef, abs=1e-5)


@pytest.mark.usefixtures("precise")
def test_without_priors_it_agrees_with_splinecalib(reference):
    """The author's basis and log loss, with knots at our quantiles."""
    recorded = reference("cal_log_odds_spline")
    inputs, expected = recorded["inputs"], recorded["expected"]
    x, y = np.array(inputs["fit_log_odds"]), np.array(inputs["fit_labels"], float)
    n_knots = len(inputs["knots"])
    curve = fit_free(x, y, np.ones(len(x)), n_knots, NO_PRIORS)
    assert curve[0] == pytest.approx(inputs["knots"], rel=1e-12)
    proba = expit(evaluate_curve(curve, np.array(inputs["test_log_odds"])))
    assert proba == pytest.approx(expected["proba"], abs=1e-5)


def test_the_curve_is_smooth():
    """Its second derivative is continuous, and zero at both ends."""
    x, y = draw(1000)
    curve = fit_free(x, y, np.ones(1000), 12)
    second = CubicHermiteSpline(*curve).derivative(2)
    assert np.abs(second(curve[0][[0, -1]])) == pytest.approx(0, abs=1e-6)
    inner = curve[0][1:-1]
    assert second(inner - 1e-9) == pytest.approx(second(inner + 1e-9), abs=1e-5)


def test_a_monotone_curve_does_not_decrease():
    """At n = 100, several unconstrained curves decrease somewhere."""
    grid, decreasing = np.linspace(-9, 9, 3001), 0
    for seed in range(20):
        x, y = draw(100, seed, lambda x: np.sin(3 * x))
        both = [
            evaluate_curve(
                fit_curve(x, y, np.ones(100), n_knots=9, is_monotone=each)[0], grid
            )
            for each in (False, True)
        ]
        decreasing += np.diff(both[0]).min() < 0
        assert np.diff(both[1]).min() >= -1e-9
    assert decreasing >= 5


@pytest.mark.parametrize(("scale", "weight"), [(1e-5, 1), (1e3, 1), (1, 1e6)])
def test_a_monotone_curve_does_not_decrease_at_any_scale(scale, weight):
    """The constrained steps must be exact, however large the step without limits."""
    x, y = draw(300, curve=lambda x: np.sin(3 * x))
    (knots, values, slopes), _ = fit_curve(
        x * scale, y, np.full(300, weight), n_knots=100, is_monotone=True
    )
    assert np.diff(values).min() >= 0
    assert slopes.min() >= 0
    # The middle control points of the slope.
    most = 3 * np.diff(values) / np.diff(knots)
    assert (slopes[:-1] + slopes[1:] <= most * (1 + 1e-12)).all()


def test_a_constraint_that_does_not_bind_changes_nothing():
    x, y = draw(5000, curve=lambda x: x)
    free, monotone = (
        fit_curve(x, y, np.ones(5000), n_knots=9, is_monotone=each)[0]
        for each in (False, True)
    )
    assert np.diff(free[1]).min() > 0
    assert monotone[1] == pytest.approx(free[1], abs=0.01)


def test_functions_of_close_knots_are_finite():
    """Their roughness differs by more than rounding errors."""
    for seed in range(20):
        gaps = 10.0 ** np.random.default_rng(seed).uniform(-9, 0, size=16)
        knots = np.cumsum(gaps)
        at_knots = spline_logistic.make_functions(knots, knots, gaps, expit(knots))
        assert np.isfinite(at_knots).all()


def test_many_values_are_averaged_almost_without_loss(monkeypatch):
    x, y = draw(20_000)
    grid = np.linspace(-6, 6, 101)
    curves = []
    for most in (8192, 10**6):
        monkeypatch.setattr(spline_logistic, "MAX_VALUES", most)
        curve, _ = fit_curve(x, y, np.ones(20_000), n_knots=20, is_monotone=True)
        curves.append(expit(evaluate_curve(curve, grid)))
    assert curves[0] == pytest.approx(curves[1], abs=1e-3)


def bent(x):
    """True scores of log-probabilities: a floor for small ones."""
    return x + np.logaddexp(0, -x - 4)


def draw_classes(n_samples, seed=0, n_classes=5, curve=bent):
    """Return predicted log-probabilities, labels, and true probabilities."""
    rng = np.random.default_rng(seed)
    x = log_softmax(3 * rng.normal(size=(n_samples, n_classes)), axis=1)
    scores = curve(x)
    y = (scores + rng.gumbel(size=x.shape)).argmax(axis=1)
    return x, y, np.exp(log_softmax(scores, axis=1))


def test_the_joint_curve_maximises_the_likelihood(monkeypatch):
    """Without priors, the curve has the smallest log loss of all natural splines."""
    monkeypatch.setattr(spline_logistic, "LITTLE", 0.0)
    # The curve may decrease.
    slopes = 1e-9 * np.eye(1, 4)
    monkeypatch.setattr(spline_logistic, "slopes_between", lambda *_: slopes)
    monkeypatch.setattr(spline_logistic, "without_decreases", lambda curve: curve)
    x, y, _ = draw_classes(1000)
    (knots, values, _), _ = fit_joint_curve(array_blocks(x, y), 5, NO_PRIORS)
    # The least value is fixed, as a constant changes no probability.
    basis = CubicSpline(knots, np.eye(5)[:, 1:], bc_type="natural")(x)

    def loss(coef):
        return -log_softmax(basis @ coef, axis=1)[np.arange(1000), y].sum()

    start = knots[1:] - knots[0]
    best = minimize(loss, start, method="BFGS", options={"gtol": 1e-4})
    assert loss(values[1:] - values[0]) == pytest.approx(best.fun, abs=1e-6)
    assert values[1:] - values[0] == pytest.approx(best.x, abs=2e-3)


def test_the_joint_curve_is_a_natural_spline_that_does_not_decrease():
    x, y, _ = draw_classes(500, curve=lambda x: bent(np.maximum(x, -6)))
    curve, _ = fit_joint_curve(array_blocks(x, y), 12)
    grid = np.linspace(curve[0][0], curve[0][-1], 2001)
    assert np.diff(CubicHermiteSpline(*curve)(grid)).min() >= 0
    second = CubicHermiteSpline(*curve).derivative(2)
    assert second(curve[0][[0, -1]]) == pytest.approx([0, 0], abs=1e-6)
