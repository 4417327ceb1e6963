"""The calibration error with kernels: recorded, by hand, and against the loss."""

import numpy as np
import pytest
import torch
from scipy.special import softmax

from sklearn_calib.losses import kde_ece_loss
from sklearn_calib.metrics import kde_calibration_error

MODES = ["top_label", "classwise", "canonical"]


def random_problem(seed=0, n_samples=50, n_classes=3):
    rng = np.random.default_rng(seed)
    logits = 2 * rng.normal(size=(n_samples, n_classes))
    return logits, rng.integers(0, n_classes, size=n_samples)


def test_recorded(reference):
    recorded = reference("metric_kde_ece")
    for case in recorded["expected"]:
        inputs = recorded["inputs"][case["input"]]
        proba, labels = np.clip(inputs["probs"], 1e-7, 1 - 1e-7), inputs["labels"]
        params = case["params"]
        mode = params["mc_type"].replace("marginal", "classwise")
        value = kde_calibration_error(
            labels,
            proba,
            bandwidth=params["bandwidth"],
            norm=f"l{params['p']}",
            mode=mode,
            labels=range(proba.shape[1]),
        )
        assert value == pytest.approx(case["values"]["value"], rel=1e-6), case["id"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("bandwidth", ["auto", 0.02, 1.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_equals_the_loss(mode, bandwidth, weighted):
    logits, y = random_problem()
    weight = np.arange(50) % 3 / 2 if weighted else None
    penalties = [
        kde_ece_loss(
            torch.tensor(logits),
            torch.tensor(y),
            lambd=lambd,
            mode=mode,
            bandwidth=bandwidth,
            sample_weight=None if weight is None else torch.tensor(weight),
        )
        for lambd in (1.0, 0.0)
    ]
    value = kde_calibration_error(
        y, softmax(logits, axis=1), mode=mode, bandwidth=bandwidth, sample_weight=weight
    )
    expected = (penalties[0] - penalties[1]).item()
    assert value == pytest.approx(expected, rel=1e-5)


def test_two_samples_see_each_other():
    value = kde_calibration_error([1, 0], [0.8, 0.3])
    assert value == pytest.approx((0.8 + 0.7) / 2)


def test_far_samples_count():
    """They count if no closer samples exist, although their kernels underflow."""
    value = kde_calibration_error([1, 0, 0], [0.999999, 1e-6, 1e-5], bandwidth=1e-4)
    assert value == pytest.approx((0.999999 + 1e-6 + 1e-5) / 3, rel=1e-9)


@pytest.mark.parametrize("n_samples", [1, 2])
def test_few_samples(n_samples):
    proba = np.full((n_samples, 2), [0.9, 0.1])
    assert kde_calibration_error([0, 1], [[0.9, 0.1]] * 2) == pytest.approx(0.5)
    for mode in MODES:
        value = kde_calibration_error([0] * n_samples, proba, labels=[0, 1], mode=mode)
        expected = (n_samples - 1) * 0.1 * (1 if mode == "top_label" else 2)
        assert value == pytest.approx(expected)


def test_bandwidth_follows_the_predictions():
    """Predictions far from the corners of the simplex need a wide kernel."""
    rng = np.random.default_rng(0)
    spread = rng.dirichlet(np.full(3, 2.0), size=100)
    corners = np.eye(3)[rng.integers(0, 3, size=100)]
    options = {"mode": "canonical", "return_bandwidth": True}
    wide, narrow = (
        kde_calibration_error(np.arange(100) % 3, proba, **options)[1]
        for proba in (spread, corners)
    )
    assert narrow == 0.001 < wide < 1


@pytest.mark.parametrize("mode", MODES)
def test_bandwidth_is_returned(mode):
    """The error is the same for the chosen bandwidth, and different for another."""
    logits, y = random_problem()
    data, options = (y, softmax(logits, axis=1)), {"mode": mode}
    value = kde_calibration_error(*data, **options)
    error, chosen = kde_calibration_error(*data, return_bandwidth=True, **options)
    assert value == error == kde_calibration_error(*data, bandwidth=chosen, **options)
    options |= {"bandwidth": chosen / 3, "return_bandwidth": True}
    error, returned = kde_calibration_error(*data, **options)
    assert returned == chosen / 3
    assert error != value


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bandwidth": 0}, "The 'bandwidth' parameter.*Got 0"),
        ({"bandwidth": 5e-324}, "The 'bandwidth' parameter.*Got 5e-324"),
        ({"bandwidth": "scott"}, "The 'bandwidth' parameter.*Got 'scott'"),
        ({"norm": "max"}, "The 'norm' parameter.*Got 'max'"),
        ({"mode": "marginal"}, "The 'mode' parameter.*Got 'marginal'"),
        ({"mode": "positive"}, "requires two classes"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        kde_calibration_error([0, 1, 2], np.eye(3), **options)
