"""Miscalibration, discrimination and uncertainty sum to the score."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import brier_score_loss, log_loss

from sklearn_calib.metrics import (
    proper_calibration_error,
    refinement_error,
    score_decomposition,
)

CASES = [
    ("log", "temperature", 4),
    ("brier", "temperature", 4),
    ("brier", "isotonic", 4),
    ("brier", "bins", 4),
    ("log", "isotonic", 2),
    ("log", "bins", 2),
]


def draw(n_classes, n_samples=300):
    """Return labels, overconfident probabilities, and weights."""
    rng = np.random.default_rng(0)
    proba = rng.dirichlet(np.ones(n_classes), n_samples)
    y = (proba.cumsum(axis=1) < rng.uniform(size=(n_samples, 1))).sum(axis=1)
    return y, proba**3 / (proba**3).sum(axis=1, keepdims=True), rng.uniform(size=len(y))


@pytest.mark.parametrize(("loss", "recalibration", "n_classes"), CASES)
def test_the_parts_sum_to_the_score(loss, recalibration, n_classes):
    y, proba, weight = draw(n_classes)
    options = {"loss": loss, "recalibration": recalibration, "sample_weight": weight}
    parts = score_decomposition(y, proba, **options)
    total = parts.miscalibration - parts.discrimination + parts.uncertainty
    assert parts.score == pytest.approx(total, rel=1e-12)
    score = log_loss(y, proba, sample_weight=weight)
    if loss == "brier":
        distance = ((proba - np.eye(n_classes)[y]) ** 2).sum(axis=1)
        score = np.average(distance, weights=weight)
    assert parts.score == pytest.approx(score, rel=1e-12)
    assert parts.miscalibration == proper_calibration_error(y, proba, **options)
    left = parts.uncertainty - parts.discrimination
    assert left == pytest.approx(refinement_error(y, proba, **options), rel=1e-12)


@pytest.mark.parametrize("loss", ["brier", "log"])
def test_two_classes_by_scikit_learn(loss):
    """The reference uses the isotonic fit and the class frequency."""
    y, proba, weight = draw(2)
    positive = proba[:, 1].round(2)
    fit = IsotonicRegression().fit_transform(positive, y, sample_weight=weight)
    frequency = np.full(len(y), np.average(y, weights=weight))
    score, factor = {"brier": (brier_score_loss, 2), "log": (log_loss, 1)}[loss]
    before, after, chance = (
        factor * score(y, each, sample_weight=weight)
        for each in (positive.clip(1e-3, 1 - 1e-3), fit, frequency)
    )
    parts = score_decomposition(
        y, positive.clip(1e-3, 1 - 1e-3), loss=loss, sample_weight=weight
    )
    expected = [before, before - after, chance - after, chance]
    np.testing.assert_allclose(parts, expected, rtol=1e-9)


def test_by_hand():
    """Two of four samples are positive, and the middle two are in the wrong order."""
    parts = score_decomposition([0, 1, 0, 1], [0.1, 0.4, 0.6, 0.9])
    np.testing.assert_allclose(parts, [0.37, 0.12, 0.25, 0.5], rtol=1e-12)
    parts = score_decomposition([0, 1, 0, 1], [0.1, 0.4, 0.6, 0.9], loss="log")
    assert parts.discrimination == pytest.approx(np.log(2) / 2, rel=1e-12)
    assert parts.uncertainty == pytest.approx(np.log(2), rel=1e-12)


@given(
    st.lists(
        st.tuples(st.integers(0, 8), st.booleans(), st.integers(0, 2)), min_size=1
    ),
    st.sampled_from(["log", "brier"]),
)
def test_no_part_of_corp_is_negative(samples, loss):
    level, y, weight = map(np.array, zip((4, True, 1), *samples, strict=True))
    options = {"loss": loss, "labels": [False, True], "sample_weight": weight}
    assert min(score_decomposition(y, level / 8, **options)) >= -1e-12


def test_class_frequencies_have_uncertainty_only():
    y = np.arange(90) % 3
    parts = score_decomposition(y, np.full((90, 3), 1 / 3))
    np.testing.assert_allclose(parts, [2 / 3, 0, 0, 2 / 3], atol=1e-12)
