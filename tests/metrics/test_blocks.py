"""Metrics that are computed in blocks of rows: plain formulas, and their memory."""

from functools import cache

import numpy as np
import pytest
from scipy.stats import norm

from sklearn_calib.calibrators import IsotonicCalibration
from sklearn_calib.metrics import (
    hosmer_lemeshow_test,
    proper_calibration_error,
    refinement_error,
    score_decomposition,
    spiegelhalter_test,
)

BRIER = {"loss": "brier"}
# Largest memory as a multiple of the probabilities.
CASES = [
    (spiegelhalter_test, {}, 0.8),
    (refinement_error, {}, 0.8),
    (refinement_error, {**BRIER, "recalibration": "bins"}, 0.8),
    (proper_calibration_error, {**BRIER, "recalibration": "isotonic"}, 1.0),
    (score_decomposition, {}, 1.0),
    (hosmer_lemeshow_test, {"n_bins": 5, "n_resamples": 1}, 3.5),
]


@cache
def make_problem(n_samples, n_classes, dtype):
    """Return labels, overconfident probabilities in several blocks, and weights."""
    rng = np.random.default_rng(0)
    logits = 2 * rng.standard_normal((n_samples, n_classes))
    y = (logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=1)
    proba = np.exp(logits)
    proba /= proba.sum(axis=1, keepdims=True)
    return y, proba.astype(dtype), rng.integers(0, 3, n_samples) * rng.random(n_samples)


@pytest.mark.parametrize(("metric", "options", "limit"), CASES)
@pytest.mark.usefixtures("nothing_kept")
def test_memory(metric, options, limit, peak_memory):
    y, proba, _ = make_problem(20_000, 50, np.float32)
    used = peak_memory(lambda: metric(y, proba, **options))
    assert used < limit * proba.nbytes


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_classes", [2, 30])
def test_spiegelhalter_of_many_rows(n_classes, dtype):
    y, proba, weight = make_problem(80_000 // n_classes, n_classes, dtype)
    result = spiegelhalter_test(y, proba, sample_weight=weight)
    proba = proba.astype(np.float64)
    proba /= proba.sum(axis=1, keepdims=True)
    above = proba - (proba**2).sum(axis=1, keepdims=True)
    deviation = -weight @ above[np.arange(len(y)), y]
    z = deviation / np.sqrt(weight**2 @ (proba * above**2).sum(axis=1))
    np.testing.assert_allclose(result, [z, 2 * norm.sf(abs(z))], rtol=1e-9)


def test_impossible_label_in_the_last_block():
    y, proba, _ = make_problem(80_000 // 30, 30, np.float64)
    proba[-1], y[-1] = np.eye(30)[3], 4
    assert spiegelhalter_test(y, proba) == (np.inf, 0.0)


@pytest.mark.parametrize("recalibration", ["bins", "isotonic"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_classes", [2, 30])
def test_brier_score_of_many_rows(n_classes, dtype, recalibration):
    """Parts of the Brier score from recalibrated probabilities of one class a time."""
    y, proba, weight = make_problem(3_000, n_classes, dtype)
    parts = score_decomposition(
        y, proba, recalibration=recalibration, sample_weight=weight
    )
    truth = (y[:, None] == np.arange(n_classes)).astype(np.float64)
    after = np.empty_like(truth)
    for k in range(n_classes):
        after[:, k] = recalibrate(proba[:, k], truth[:, k], weight, recalibration)
    if n_classes == 2:
        after[:, 0] = 1 - after[:, 1]

    def score(proba):
        return np.average(((proba - truth) ** 2).sum(axis=1), weights=weight)

    before, left = score(proba), score(after)
    frequencies = score(np.average(truth, axis=0, weights=weight))
    expected = [before, before - left, frequencies - left, frequencies]
    np.testing.assert_allclose(parts, expected, rtol=1e-9)


def recalibrate(values, target, weight, how):
    """Return the frequency of a class in bins, or its isotonic regression."""
    if how == "bins":
        edges = (np.arange(1, 15) / 15).astype(values.dtype)
        group = np.searchsorted(edges, values)
        mass = np.bincount(group, weight)
        return (np.bincount(group, weight * target) / np.maximum(mass, 1e-300))[group]
    columns = np.column_stack([1 - values.astype(np.float64), values])
    fitted = IsotonicCalibration().fit(columns, target.astype(int), weight)
    return np.interp(values, *fitted.maps_[0])
