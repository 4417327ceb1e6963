"""Calibration decision loss: a linear program over tasks, and values by hand."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import linprog
from scipy.special import expit
from sklearn.isotonic import IsotonicRegression

from sklearn_calib.metrics import calibration_decision_loss


def gain_at(threshold, y_true, y_proba, weight):
    """Return the gain of the best other cut, for the task with a threshold.

    The trusting decision acts on the samples with at least the threshold as
    probability, or above it, as thresholds next to it do.
    """
    pay = weight * (y_true - threshold) / weight.sum()
    cuts = [*np.unique(y_proba), np.inf]
    best = max(pay[y_proba >= cut].sum() for cut in cuts)
    trusted = min(pay[y_proba >= threshold].sum(), pay[y_proba > threshold].sum())
    return best - trusted


def test_subnormal_probabilities_are_zero():
    y_true = np.arange(40) % 2
    tiny = np.linspace(0, 1, 40) * 1e-322
    expected = calibration_decision_loss(y_true, np.zeros(40))
    assert calibration_decision_loss(y_true, tiny) == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(5))
def test_largest_gain_by_a_linear_program(seed):
    """A task is a mixture of thresholds v, whose payoffs (1 - v) and v have bounds.

    For a mixture with the weights m, the payoff of an action is between 0 and 1 for
    both outcomes if the sums of m (1 - v) and of m v are at most 1.
    """
    rng = np.random.default_rng(seed)
    y_proba = rng.choice(np.linspace(0, 1, 11), size=25)
    y_true = rng.random(25) < y_proba ** rng.choice([0.4, 1, 3])
    weight = rng.integers(1, 4, size=25)
    # The gains are linear between these, up to the jumps that `gain_at` considers.
    at = np.unique(np.r_[y_proba, np.linspace(0, 1, 401)])
    gains = [gain_at(v, y_true, y_proba, weight) for v in at]
    program = linprog(-np.array(gains), A_ub=[1 - at, at], b_ub=[1, 1])
    value = calibration_decision_loss(y_true, y_proba, sample_weight=weight)
    assert_allclose(value, -program.fun, atol=2e-3)
    assert value >= -program.fun - 1e-9


@pytest.mark.parametrize(
    ("y_true", "y_proba", "expected"),
    [
        ([0, 1], [0.5, 0.5], 0),  # calibrated
        ([0, 1], [1.0, 0.0], 1),  # the opposite of the outcomes
        ([0, 0, 0, 1], [1.0, 1.0, 1.0, 1.0], 0.75),
        # The gains are 0.05 at the thresholds 0.2 and 0.6, and 0.025 at 0.9.
        ([0, 0, 1, 1], [0.2, 0.6, 0.6, 0.9], 0.1),
        # Within (0.2, 0.5), acting costs v - 0.2, so at 0.5 in the limit 0.3.
        ([0, 0, 0, 0, 1], [0.5] * 5, 0.6),
    ],
)
def test_values_by_hand(y_true, y_proba, expected):
    value = calibration_decision_loss(y_true, y_proba, labels=[0, 1])
    assert value == pytest.approx(expected)


def test_no_bounded_task_gains_more():
    """The Brier score is a task with payoffs in [0, 1], and so is the error rate."""
    rng = np.random.default_rng(0)
    x = rng.normal(scale=2, size=2000)
    y_true, y_proba = rng.random(2000) < expit(x - 1), expit(2 * x)
    value = calibration_decision_loss(y_true, y_proba)
    best = IsotonicRegression().fit(y_proba, y_true).predict(y_proba)
    brier = ((y_true - y_proba) ** 2).mean() - ((y_true - best) ** 2).mean()
    errors = gain_at(0.5, y_true, y_proba, np.ones(2000))
    assert value > brier > 0
    assert value >= 2 * errors > 0


def test_population_value():
    """Probabilities that are twice the true ones, uniform in [0, 1].

    At the threshold v, it is wrong to act on p from v to 2 v. The gain is the integral
    of v - p / 2 over these. The concave function is the largest chord at 1 / 2.
    """
    rng = np.random.default_rng(0)
    y_proba = rng.random(200_000)
    y_true = rng.random(200_000) < y_proba / 2
    v = np.linspace(0, 1, 1001)
    high = np.minimum(2 * v, 1)
    gain = v * (high - v) - (high**2 - v**2) / 4
    low, up = v[v <= 0.5], v[v >= 0.5]
    chords = [
        np.interp(0.5, [a, b], [gain_a, gain_b]) if a < b else gain_a
        for a, gain_a in zip(low[::10], gain[v <= 0.5][::10], strict=True)
        for b, gain_b in zip(up[::10], gain[v >= 0.5][::10], strict=True)
    ]
    expected = 2 * max(chords)
    value = calibration_decision_loss(y_true, y_proba)
    assert value == pytest.approx(expected, abs=0.004)
