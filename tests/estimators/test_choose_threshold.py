"""The threshold of a guaranteed error rate, from arrays."""

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import binom
from sklearn.frozen import FrozenEstimator
from sklearn.naive_bayes import GaussianNB

from sklearn_calib.estimators import SelectiveClassifier, choose_threshold

RNG = np.random.default_rng(0)
CONFIDENCE = RNG.uniform(size=800)
CORRECT = RNG.uniform(size=800) < CONFIDENCE


@pytest.mark.parametrize("delta", [0.05, 0.3])
def test_equals_the_selective_classifier(delta):
    y = np.array(["no", "yes"])[RNG.integers(2, size=600)]
    X = RNG.normal(size=(600, 2)) + (y == "yes")[:, None]
    frozen = FrozenEstimator(GaussianNB().fit(X, y))
    model = SelectiveClassifier(frozen, max_risk=0.2, delta=delta).fit(X, y)
    correct, confidence = frozen.predict(X) == y, frozen.predict_proba(X).max(axis=1)
    threshold = choose_threshold(correct, confidence, max_risk=0.2, delta=delta)
    assert threshold == model.threshold_
    assert isinstance(threshold, float)


def test_the_accepted_samples_pass_the_binomial_test():
    """The last test has the whole level at most."""
    threshold = choose_threshold(CORRECT, CONFIDENCE, max_risk=0.3)
    accepted = threshold <= CONFIDENCE
    n_errors, n_samples = (~CORRECT[accepted]).sum(), accepted.sum()
    assert 0.3 < accepted.mean() < 0.7
    assert binom.cdf(n_errors, n_samples, 0.3) <= 0.05


def test_only_the_order_of_the_confidences_matters():
    threshold = choose_threshold(CORRECT, CONFIDENCE, max_risk=0.3)
    scaled = choose_threshold(CORRECT, 100 * CONFIDENCE - 7, max_risk=0.3)
    assert scaled == 100 * threshold - 7
    order = RNG.permutation(800)
    shuffled = choose_threshold(CORRECT[order], CONFIDENCE[order], max_risk=0.3)
    assert shuffled == threshold


@pytest.mark.parametrize(
    "kind", [list, pd.Series, torch.tensor, lambda a: pd.Series(a, index=a[::-1])]
)
def test_containers(kind):
    expected = choose_threshold(CORRECT, CONFIDENCE, max_risk=0.3)
    got = choose_threshold(kind(CORRECT), kind(CONFIDENCE), max_risk=0.3)
    assert got == expected
    assert choose_threshold(1.0 * CORRECT, CONFIDENCE, max_risk=0.3) == expected


def test_samples_to_accept_last_may_have_minus_infinity():
    confidence = np.append(CONFIDENCE, -np.inf)
    correct = np.append(CORRECT, False)
    threshold = choose_threshold(correct, confidence, max_risk=0.3)
    assert np.isfinite(threshold)
    assert choose_threshold(correct, confidence, max_risk=0.9) == -np.inf


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"correct": [0, 2]}, r"correct must contain True or False .* values \[0, 2\]"),
        ({"correct": [0, np.nan]}, r"True or False .* \[0.0, nan\]. Pass y_pred == "),
        ({"correct": [0, None]}, "correct must"),
        ({"correct": [[1, 0]]}, r"True or False .* shape \(1, 2\)"),
        ({"correct": []}, r"at least one sample, got an array of shape \(0,\)"),
        ({"correct": ["yes", "no"]}, "correct must contain numbers"),
        ({"confidence": [0.5]}, r"confidence must be one number per sample, .* \(1,\)"),
        ({"confidence": [0.5, np.nan]}, "confidence must not be NaN"),
        ({"max_risk": 0}, "'max_risk' parameter .* Got 0 "),
        ({"max_risk": 1.5}, "'max_risk' parameter .* Got 1.5"),
        ({"delta": 1.0}, "'delta' parameter .* Got 1.0"),
        ({}, "max_risk must be a risk that some threshold can guarantee, .* lowest"),
    ],
)
def test_bad_input(change, message):
    arguments = {"correct": [1, 0], "confidence": [0.8, 0.6], "max_risk": 0.1}
    with pytest.raises(ValueError, match=message):
        choose_threshold(**arguments | change)
