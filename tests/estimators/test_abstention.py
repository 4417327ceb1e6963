"""Thresholds on the confidence: ties, the bound of the risk, and whether it holds."""

import numpy as np
import pytest
from scipy.stats import binom

from sklearn_calib.estimators._abstention import (
    risk_upper_bound,
    threshold_for_coverage,
    threshold_for_risk,
)


@pytest.mark.parametrize(
    ("coverage", "threshold"),
    [(0.1, 0.9), (0.2, 0.9), (0.21, 0.5), (0.3, 0.5), (0.8, 0.5), (0.81, 0.1)],
)
def test_ties_are_accepted_together(coverage, threshold):
    confidence = np.repeat([0.1, 0.5, 0.9], [2, 6, 2])
    assert threshold_for_coverage(confidence, np.ones(10), coverage) == threshold


def test_coverage_is_met_exactly():
    """Not one sample more because of rounding: 0.07 * 100 is above 7."""
    confidence = np.random.default_rng(0).permutation(100)
    for k in range(1, 100):
        threshold = threshold_for_coverage(confidence, np.ones(100), k / 100)
        assert np.count_nonzero(confidence >= threshold) == k


@pytest.mark.parametrize("n_wrong", [0, 1, 7, 19])
@pytest.mark.parametrize("delta", [0.05, 1e-4])
def test_bound_inverts_the_binomial_tail(n_wrong, delta):
    bound = risk_upper_bound(n_wrong, 20, delta)
    assert binom.cdf(n_wrong, 20, bound) == pytest.approx(delta, rel=1e-9)
    assert risk_upper_bound(20, 20, delta) == 1


def test_level_is_shared_among_the_looks():
    """Without an error, and for all of n = 1000: 1 - (delta / 10) ** (1 / n)."""
    confidence = np.random.default_rng(0).uniform(size=1000)
    threshold, bound = threshold_for_risk(confidence, np.zeros(1000), 0.5, 0.05)
    assert threshold == confidence.min()
    assert bound == pytest.approx(1 - 0.005 ** (1 / 1000), rel=1e-12)


def test_tied_confidences_count_as_one_threshold():
    """One look: the exact limit of Clopper and Pearson, 1 - delta ** (1 / n)."""
    threshold, bound = threshold_for_risk(np.full(60, 0.5), np.zeros(60), 0.05, 0.05)
    assert threshold == 0.5
    assert bound == pytest.approx(1 - 0.05 ** (1 / 60), rel=1e-12)


# The error rate at a confidence c, uniform in [0, 1], and the mean of it above c.
ERROR_RATES = {
    "falling": (lambda c: 0.6 * (1 - c), lambda c: 0.3 * (1 - c)),
    "steep": (lambda c: 1.0 * (c < 0.5), lambda c: max(0, 0.5 - c) / (1 - c)),
    "never low enough": (lambda c: 0.1001 + 0 * c, lambda _: 0.1001),
    "rising": (lambda c: 0.3 * c, lambda c: 0.15 * (1 + c)),
}


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.05, 0.3])
@pytest.mark.parametrize("n_samples", [100, 1000])
@pytest.mark.parametrize("rates", ERROR_RATES.values(), ids=ERROR_RATES)
def test_guarantee(rates, n_samples, delta):
    """The true risk exceeds what was asked in at most delta of the draws."""
    error_rate, risk_above = rates
    rng = np.random.default_rng(0)
    n_draws, n_broken = 500, 0
    for _ in range(n_draws):
        confidence = rng.uniform(size=n_samples)
        wrong = rng.uniform(size=n_samples) < error_rate(confidence)
        try:
            threshold, bound = threshold_for_risk(confidence, wrong, 0.1, delta)
        except ValueError:  # nothing is said, nothing is broken
            continue
        assert bound <= 0.1
        n_broken += risk_above(threshold) > bound
    assert n_broken <= binom.isf(1e-3, n_draws, delta)
