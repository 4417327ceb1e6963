"""Thresholds on the confidence: ties, and whether the bound on the risk holds."""

import numpy as np
import pytest
from scipy.stats import binom

from sklearn_calib.estimators._selective.risks import resolve_risks
from sklearn_calib.estimators._selective.thresholds import (
    threshold_for_coverage,
    threshold_for_risk as threshold_for_risks,
)


def threshold_for_risk(confidence, wrong, max_risk, delta):
    """Return the threshold for the error rate alone."""
    risks = resolve_risks(max_risk, None, np.array([0, 1]))
    return threshold_for_risks(confidence, risks, [np.asarray(wrong, float)], delta)


@pytest.mark.parametrize(
    ("coverage", "threshold"),
    [(0.1, 0.9), (0.2, 0.9), (0.21, 0.5), (0.3, 0.5), (0.8, 0.5), (0.81, 0.1)],
)
def test_ties_are_accepted_together(coverage, threshold):
    confidence = np.repeat([0.1, 0.5, 0.9], [2, 6, 2])
    assert threshold_for_coverage(confidence, np.ones(10), coverage) == threshold


def test_coverage_is_met_exactly():
    """Rounding does not add a sample, although 0.07 * 100 is above 7."""
    confidence = np.random.default_rng(0).permutation(100)
    for k in range(1, 100):
        threshold = threshold_for_coverage(confidence, np.ones(100), k / 100)
        assert np.count_nonzero(confidence >= threshold) == k


def test_whole_level_is_for_all_samples_if_fewer_are_not_enough():
    """For n = 1000 samples without errors the limit is 1 - delta ** (1 / n)."""
    confidence = np.random.default_rng(0).uniform(size=1000)
    reachable = 1 - 0.05 ** (1 / 1000)
    threshold = threshold_for_risk(confidence, np.zeros(1000), reachable + 1e-9, 0.05)
    assert threshold == confidence.min()
    with pytest.raises(ValueError, match=r"The lowest here is 0\.003, "):
        threshold_for_risk(confidence, np.zeros(1000), reachable - 1e-9, 0.05)


@pytest.mark.parametrize(
    ("n_samples", "first", "level"),
    [
        (300, 110, 0.025),  # binom.cdf(1, 110, 0.05) <= 0.025 < binom.cdf(1, 109, 0.05)
        (4000, 125, 0.0125),  # binom.cdf(1, 125, 0.05) <= 0.0125
        (4000, 1000, 0.0125),  # a quarter
        (4000, 2000, 0.0125),  # one half
    ],
)
def test_first_tested_threshold(n_samples, first, level):
    """The test there rejects after as many errors as it may, and the rest is wrong."""
    allowed = int(binom.ppf(level, first, 0.05)) - 1
    assert (
        binom.cdf(allowed, first, 0.05) <= level < binom.cdf(allowed + 1, first, 0.05)
    )
    confidence, order = -np.arange(float(n_samples)), np.arange(n_samples)
    wrong = (order < allowed) | (order >= first)
    assert threshold_for_risk(confidence, wrong, 0.05, 0.05) == 1 - first
    wrong = (order <= allowed) | (order >= first)
    with pytest.raises(ValueError, match="must be a risk that some threshold can"):
        threshold_for_risk(confidence, wrong, 0.05, 0.05)


def test_tied_confidences_count_as_one_threshold():
    """With one test it is the Clopper-Pearson limit, 1 - delta ** (1 / n)."""
    data, reachable = (np.full(60, 0.5), np.zeros(60)), 1 - 0.05 ** (1 / 60)
    assert threshold_for_risk(*data, reachable + 1e-9, 0.05) == 0.5
    with pytest.raises(ValueError, match=r"The lowest here is 0\.0488, .* 60 held-out"):
        threshold_for_risk(*data, reachable - 1e-9, 0.05)


@pytest.mark.parametrize(
    ("delta", "threshold"),
    [
        # The p-values from the third threshold on are .104, .181, .263, .345, .148 and
        # .203. The third may have an error if .104 <= delta / 2.
        (0.20, None),
        (0.22, 6),  # .181 > .165, which ends the sequence, and .203 > .055
        (0.30, 5),  # .181 <= .225, and .263 > .225
        (0.36, 4),  # .263 <= .27, and .345 > .27
        (0.47, 1),  # .345 <= .3525, and .203 <= .47
    ],
)
def test_levels_are_passed_on_along_the_sequence(delta, threshold):
    data = np.arange(8.0, 0.0, -1.0), np.array([0, 0, 1, 1, 1, 1, 0, 1])
    if threshold is None:
        with pytest.raises(ValueError, match="must be a risk that some threshold can"):
            threshold_for_risk(*data, 0.8, delta)
    else:
        assert threshold_for_risk(*data, 0.8, delta) == threshold


def test_the_same_risk_everywhere_answers_all():
    """With 125 evenly spread errors, few confident samples are not enough."""
    wrong = np.arange(2000) % 16 == 8
    assert threshold_for_risk(np.arange(2000.0), wrong, 0.08, 0.05) == 0


# The error rate at a confidence c, which is uniform in [0, 1] or, with a number of
# values, rounded up to that many.
ERROR_RATES = {
    "falling": (lambda c: 0.6 * (1 - c), None),
    "steep": (lambda c: 1.0 * (c < 0.5), None),
    "never low enough": (lambda c: 0.1001 + 0 * c, None),
    "just low enough for half": (lambda c: np.where(c > 0.5, 0.1, 0.11), None),
    "rising": (lambda c: 0.3 * c, None),
    "in waves": (lambda c: 0.1 + 0.1 * np.sin(20 * c), None),
    "falling, ties": (lambda c: 0.6 * (1 - c), 6),
    "never low enough, ties": (lambda c: 0.1001 + 0 * c, 40),
    "rising, ties": (lambda c: 0.3 * c, 20),
}


def rounded(confidence, n_values):
    """Return the confidence rounded to a number of distinct values."""
    return np.ceil(n_values * confidence) / n_values if n_values else confidence


@pytest.mark.slow
@pytest.mark.usefixtures("no_lowest_limit")
@pytest.mark.parametrize("delta", [0.05, 0.3])
@pytest.mark.parametrize("n_samples", [30, 100, 1000])
@pytest.mark.parametrize("rates", ERROR_RATES.values(), ids=ERROR_RATES)
def test_guarantee(rates, n_samples, delta):
    """The true risk exceeds the bound in at most the fraction delta of the draws."""
    error_rate, n_values = rates
    every = rounded((np.arange(100_000) + 0.5) / 100_000, n_values)[::-1]
    risk_above = np.cumsum(error_rate(every)) / np.arange(1, 100_001)
    rng = np.random.default_rng(0)
    n_draws, n_broken = 500, 0
    for _ in range(n_draws):
        confidence = rounded(rng.uniform(size=n_samples), n_values)
        wrong = rng.uniform(size=n_samples) < error_rate(confidence)
        try:
            threshold = threshold_for_risk(confidence, wrong, 0.1, delta)
        except ValueError:  # nothing is said, nothing is broken
            continue
        n_accepted = np.searchsorted(-every, -threshold, side="right")
        n_broken += n_accepted > 0 and risk_above[n_accepted - 1] > 0.1 + 1e-9
    assert n_broken <= binom.isf(1e-3, n_draws, delta)


@pytest.mark.slow
@pytest.mark.usefixtures("no_lowest_limit")
@pytest.mark.parametrize(
    ("rate", "n_samples", "coverage"),
    [  # at least; in brackets that of a union bound over a binary search, 100 draws
        (0.05, 200, 0.2),  # (.02)
        (0.07, 2000, 0.25),  # (.05)
        (0.07, 10_000, 0.8),  # (.39)
    ],
)
def test_coverage_where_the_risk_is_the_same_everywhere(rate, n_samples, coverage):
    rng = np.random.default_rng(0)
    answered, n_draws = 0, 100
    for _ in range(n_draws):
        confidence = rng.uniform(size=n_samples)
        wrong = rng.uniform(size=n_samples) < rate
        try:
            threshold = threshold_for_risk(confidence, wrong, 0.08, 0.05)
        except ValueError:
            continue
        answered += np.mean(confidence >= threshold)
    assert answered / n_draws > coverage
