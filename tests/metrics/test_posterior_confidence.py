"""Over- and underconfidence: by hand, identities, and for networks and humans."""

from inspect import signature

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.special import softmax

from sklearn_calib import metrics
from sklearn_calib.calibrators import TemperatureScaling
from sklearn_calib.metrics import overconfidence, underconfidence

both = pytest.mark.parametrize(
    "metric",
    [
        getattr(metrics, name)
        for name in metrics.__all__
        if next(iter(signature(getattr(metrics, name)).parameters), "") == "posterior"
    ],
)
both_measures = pytest.mark.parametrize("measure", ["excess", "share"])


def draw_problem(seed, n_samples=20):
    rng = np.random.default_rng(seed)
    n_classes = rng.integers(2, 5)
    return rng.dirichlet(np.ones(n_classes), size=(2, n_samples))


@pytest.mark.parametrize(
    ("measure", "over", "under"), [("excess", 0.3 / 4, 0.5 / 4), ("share", 0.5, 0.25)]
)
def test_by_hand(measure, over, under):
    """The largest entries may be of different classes; equal entries are neither."""
    posterior = [[0.6, 0.3, 0.1], [0.5, 0.5, 0], [1, 0, 0], [0.2, 0.7, 0.1]]
    y_proba = [[0.8, 0.1, 0.1], [0.2, 0.2, 0.6], [0.5, 0.25, 0.25], [0.7, 0.2, 0.1]]
    value = overconfidence(posterior, y_proba, measure=measure)
    assert value == pytest.approx(over, rel=1e-12)
    value = underconfidence(posterior, y_proba, measure=measure)
    assert value == pytest.approx(under, rel=1e-12)


@given(seed=st.integers(0, 2**32 - 1))
def test_identities(seed):
    """Their difference, and the bound of Liang et al. 2025, appendix A.2."""
    posterior, y_proba = draw_problem(seed)
    over, under = (m(posterior, y_proba) for m in (overconfidence, underconfidence))
    means = y_proba.max(axis=1).mean() - posterior.max(axis=1).mean()
    assert over - under == pytest.approx(means, abs=1e-12)
    distance = np.linalg.norm(y_proba - posterior, axis=1).mean()
    assert over + under <= distance + 1e-12
    assert underconfidence(y_proba, posterior) == over


@both
@both_measures
def test_weights_are_repetitions(metric, measure):
    posterior, y_proba = draw_problem(0)
    times = np.arange(len(posterior)) % 4
    expected = metric(
        posterior.repeat(times, axis=0), y_proba.repeat(times, axis=0), measure=measure
    )
    value = metric(posterior, y_proba, measure=measure, sample_weight=times)
    assert value == pytest.approx(expected, rel=1e-12)
    assert value != metric(posterior, y_proba, measure=measure)


@both
@both_measures
def test_positive_class_alone(metric, measure):
    posterior, y_proba = np.random.default_rng(0).uniform(size=(2, 30))
    columns = [np.column_stack([1 - p, p]) for p in (posterior, y_proba)]
    value = metric(posterior, y_proba, measure=measure)
    assert type(value) is float
    assert value == metric(*columns, measure=measure)


@both
def test_true_probabilities_have_neither(metric):
    posterior = np.random.default_rng(0).dirichlet(np.ones(3), size=10)
    assert metric(posterior, posterior[:, ::-1]) == 0
    assert metric(posterior, posterior, measure="share") == 0


def test_humans_and_networks(shared_data):
    """About 51 human labels for each image, and published logits of a ResNet-110.

    The network is calibrated after temperature scaling, but humans are more confident
    for most images and less confident for some.
    """
    counts = shared_data("logits/cifar10h_human_counts.npz")["counts"]
    posterior = counts / counts.sum(axis=1, keepdims=True)
    data = shared_data("logits/cifar10_resnet110_kull.npz")
    logits = data["test_logits"].astype(np.float64)
    scaling = TemperatureScaling(from_logits=True)
    scaling.fit(data["val_logits"], data["val_labels"])
    for y_proba, over, under in (
        (softmax(logits, axis=1), 0.0395, 0.0109),
        (scaling.predict_proba(logits), 0.0275, 0.0373),
    ):
        assert overconfidence(posterior, y_proba) == pytest.approx(over, abs=1e-4)
        assert underconfidence(posterior, y_proba) == pytest.approx(under, abs=1e-4)


@both
@pytest.mark.parametrize(
    ("posterior", "y_proba", "options", "message"),
    [
        ([0, 1], np.eye(3)[:2], {}, r"posterior must have the shape.*\(2, 2\) and"),
        (np.eye(3), np.eye(2), {}, r"got \(3, 3\) and \(2, 2\)\. Pass class prob"),
        ([[2.0, 3.0]], [[0.5, 0.5]], {}, r"posterior must lie in \[0, 1\]"),
        ([[0.5, 0.5]], [[2.0, 3.0]], {}, r"y_proba must lie in \[0, 1\]"),
        (np.eye(2), np.eye(2), {"measure": "mean"}, "'measure' parameter.*Got 'mean'"),
        (np.eye(2), np.eye(2), {"sample_weight": [1, -1]}, "must be non-negative"),
    ],
)
def test_bad_input(metric, posterior, y_proba, options, message):
    with pytest.raises(ValueError, match=message):
        metric(posterior, y_proba, **options)
