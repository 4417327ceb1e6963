"""Equal probabilities remain equal; rounding does not change extreme values."""

import numpy as np
import pytest
from scipy.special import expit

from sklearn_calib.calibrators import (
    BBQ,
    ENIR,
    BetaCalibration,
    HistogramBinning,
    IsotonicCalibration,
    JointIsotonicCalibration,
    PlattScaling,
    QuadraticLogisticCalibration,
    ScalingBinning,
    VennAbers,
)


@pytest.mark.parametrize(
    "calibrator",
    [
        BBQ(),
        ENIR(),
        HistogramBinning(n_bins=10),
        HistogramBinning(n_bins=10, strategy="uniform"),
        IsotonicCalibration(),
        IsotonicCalibration(centered=True),
        ScalingBinning(),
        VennAbers(),
    ],
    ids=repr,
)
@pytest.mark.parametrize("n_votes", [10, 30])
def test_equal_probabilities_are_one_value(calibrator, n_votes):
    """For votes of trees, the result must not depend on the other classes at all."""
    rng = np.random.default_rng(0)
    X = (1 + rng.multinomial(n_votes - 3, np.ones(3) / 3, size=3000)) / n_votes
    y = (rng.uniform(size=(3000, 1)) > X.cumsum(axis=1)).sum(axis=1).clip(0, 2)
    fitted = calibrator.fit(X, y)
    probas = fitted._apply_maps(fitted._scores(fitted._as_logits(X)))
    for column, proba in zip(X.T, probas.T, strict=True):
        spread = [np.ptp(proba[column == value]) for value in np.unique(column)]
        assert max(spread) < 1e-9


def test_equal_probabilities_are_one_value_of_the_joint_map():
    X = np.array([[1, 4, 5], [4, 1, 5], [2, 4, 4], [5, 1, 4], [4, 3, 3]] * 20) / 10
    before, _ = JointIsotonicCalibration().fit(X, np.arange(100) % 3).map_
    assert np.diff(before).min() > 0.05


@pytest.mark.parametrize("scale", [1, 3])
def test_joint_map_keeps_the_top_class_in_single_precision(scale):
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(5000, 5)).astype(np.float32)
    y = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    X = scale * logits
    fitted = JointIsotonicCalibration(from_logits=True).fit(X[:1000], y[:1000])
    np.testing.assert_array_equal(fitted.predict(X), X.argmax(axis=1))
    np.testing.assert_allclose(fitted.predict_proba(X).sum(axis=1), 1, atol=1e-6)


@pytest.mark.parametrize(
    ("calibrator", "bound"),
    [
        (PlattScaling(), 1e-16),
        (BetaCalibration(), 1e-16),
        (QuadraticLogisticCalibration(), 1e-16),
        (ScalingBinning(), 1e-5),
        (BBQ(), 1e-5),
    ],
    ids=repr,
)
def test_neither_tail_of_two_classes_is_cut_off(calibrator, bound):
    """A smooth map can return less than the smallest 1 - p in double precision."""
    rng = np.random.default_rng(0)
    score = 30 * rng.normal(size=4000)
    y = rng.uniform(size=4000) < expit(score)
    fitted = calibrator.set_params(from_logits=True).fit(score, y)
    tails = fitted.predict_proba([-60.0, 60.0])[[0, 1], [1, 0]]
    assert (tails > 1e-60).all()
    assert (tails < bound).all()


@pytest.mark.parametrize("n_bins", [2, 5, 10, 20])
def test_probabilities_on_edges_are_in_the_bin_below(n_bins):
    """Bins have the same edges as those of the metrics."""
    edges = np.arange(1, n_bins) / n_bins
    X = np.concatenate([edges, edges + 0.01 / n_bins])
    y = np.arange(len(X)) >= len(edges)
    fitted = HistogramBinning(n_bins=n_bins, strategy="uniform").fit(X, y)
    below, above = np.split(fitted.predict_proba(X)[:, 1], 2)
    # The first bin contains one negative sample, the last one positive sample.
    assert below[0] < 0.4
    assert above[-1] > 0.6


def test_a_run_of_certain_correct_predictions_leaves_a_tail():
    """The second class cannot represent small differences from 1."""
    rng = np.random.default_rng(2)
    score = 100 * rng.normal(size=2000)
    y = (score > 0) ^ (rng.uniform(size=2000) < 0.001)
    fitted = BBQ(from_logits=True).fit(score, y)
    assert fitted.predict_proba([1e3, 1e4])[:, 0].min() > 1e-17
