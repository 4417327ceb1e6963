"""Values of smECE: recorded, by hand, and for probabilities of 0 and 1."""

from functools import partial

import numpy as np
import pytest
from scipy.special import softmax

from sklearn_calib.metrics import (
    expected_calibration_error,
    post_processing_gap,
    smooth_expected_calibration_error,
)


def test_recorded(reference):
    """The tolerance is the discretisation error of the recorded code."""
    recorded = reference("metric_smece")
    for case in recorded["expected"]:
        inputs = recorded["inputs"][case["input"]]
        proba, labels = np.array(inputs["probs"]), np.array(inputs["labels"])
        bandwidth = case["params"].get("sigma", "auto")
        options = {"bandwidth": bandwidth, "labels": range(proba.shape[1])}
        value = smooth_expected_calibration_error(labels, proba, **options)
        # The recorded code counts confidences of 1 by half.
        rel = 0.1 if case["input"] == "exact" else 1.5e-3
        assert value == pytest.approx(case["values"]["smece"], rel=rel), case["id"]
        assert (case["input"] == "exact") == (
            value != pytest.approx(case["values"]["smece"], rel=0.05)
        )


def test_predictions_of_one_count_in_full():
    """Half have confidence 1 and are correct in 8 of 10 cases, half are calibrated."""
    y_true = np.tile([1, 1, 1, 1, 0, 1, 1, 1, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0], 50)
    y_proba = np.tile(np.repeat([1.0, 0.5], 10), 50)
    assert smooth_expected_calibration_error(y_true, y_proba) == pytest.approx(
        0.1, abs=1e-6
    )


def test_one_sided_gap_is_the_gap():
    """If all confidences are too high, smoothing does not change the error."""
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(5000, 3))
    y = (0.3 * logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    proba = softmax(3 * logits, axis=1)
    gap = proba.max(axis=1).mean() - np.mean(proba.argmax(axis=1) == y)
    assert smooth_expected_calibration_error(y, proba) == pytest.approx(gap, rel=1e-3)


def test_calibrated_predictions_have_less_than_with_bins():
    rng = np.random.default_rng(0)
    y_proba = rng.uniform(size=10_000)
    y_true = rng.uniform(size=10_000) < y_proba
    value = smooth_expected_calibration_error(y_true, y_proba)
    assert 0 < value < 0.02 < expected_calibration_error(y_true, y_proba, n_bins=100)


@pytest.mark.parametrize("seed", range(5))
def test_bounds_the_gap_of_post_processing(seed):
    """smECE is at least half of smCE, which bounds the gap."""
    rng = np.random.default_rng(seed)
    y_proba = rng.uniform(size=300)
    y_true = rng.uniform(size=300) < y_proba**2
    gap = post_processing_gap(y_true, y_proba, loss="squared")
    assert gap <= 4 * smooth_expected_calibration_error(y_true, y_proba)


def test_continuous_where_bins_jump():
    y_true, y_proba = [0, 1, 1, 0], np.array([0.2, 0.4, 0.6, 0.9])
    moved = y_proba + 1e-9  # 0.2, 0.4 and 0.6 end bins
    value = smooth_expected_calibration_error(y_true, y_proba)
    assert smooth_expected_calibration_error(y_true, moved) == pytest.approx(
        value, abs=1e-7
    )


def test_modes():
    rng = np.random.default_rng(0)
    proba, y = rng.dirichlet(np.ones(3), size=100), rng.integers(0, 3, size=100)
    classes = [smooth_expected_calibration_error(y == k, proba[:, k]) for k in range(3)]
    value = smooth_expected_calibration_error(y, proba, mode="classwise")
    assert value == pytest.approx(np.mean(classes))
    top = smooth_expected_calibration_error(
        proba.argmax(axis=1) == y, proba.max(axis=1)
    )
    assert smooth_expected_calibration_error(y, proba) == top
    two, binary = proba[:, :2] / proba[:, :2].sum(axis=1, keepdims=True), y % 2
    positive = smooth_expected_calibration_error(binary, two[:, 1])
    assert smooth_expected_calibration_error(binary, two, mode="positive") == positive


def test_bandwidth_is_returned():
    """The chosen bandwidth is equal to the error, and each class has a bandwidth."""
    rng = np.random.default_rng(0)
    proba, y = rng.dirichlet(np.ones(3), size=100), rng.integers(0, 3, size=100)
    measure = partial(smooth_expected_calibration_error, return_bandwidth=True)
    error, bandwidth = measure(y, proba)
    assert error == smooth_expected_calibration_error(y, proba)
    assert isinstance(bandwidth, float)
    assert bandwidth == pytest.approx(error, abs=1e-9)
    assert measure(y, proba, bandwidth=0.1)[1] == 0.1
    classes = [measure(y == k, proba[:, k])[1] for k in range(3)]
    error, bandwidths = measure(y, proba, mode="classwise")
    assert error == pytest.approx(np.mean(classes), abs=1e-9)
    np.testing.assert_array_equal(bandwidths, classes)


@pytest.mark.parametrize("bandwidth", [0, -1.0, 1.5, 1e-5, "cube", None])
def test_bad_bandwidth(bandwidth):
    with pytest.raises(ValueError, match=rf"'bandwidth'.*Got {bandwidth!r}"):
        smooth_expected_calibration_error([0, 1], [0.2, 0.7], bandwidth=bandwidth)
