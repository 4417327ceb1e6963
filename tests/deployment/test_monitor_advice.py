"""The diagnosis of CalibrationMonitor names the cause and the time of a change."""

from copy import deepcopy
from functools import cache

import numpy as np
import pytest

from sklearn_calib.deployment import CalibrationMonitor


def draw(rng, logits):
    """Return labels whose probabilities are the softmax of logits, and these."""
    proba = np.exp(logits - logits.max(axis=1, keepdims=True))
    proba /= proba.sum(axis=1, keepdims=True)
    y = (rng.random((len(proba), 1)) > proba.cumsum(axis=1)).sum(axis=1)
    return y.clip(max=proba.shape[1] - 1), proba


def sharpen(proba, power):
    sharp = proba**power
    return sharp / sharp.sum(axis=1, keepdims=True)


def tilt(p, odds):
    """Return a probability whose odds are multiplied."""
    return p * odds / (1 - p + p * odds)


CAUSES = ["priors", "temperature", "refit"]


def changed(rng, cause, n_classes):
    """Return labels and predictions of a batch of about 200 samples after a change."""
    scale = 1.5 if n_classes == 2 else 4
    n = 2000 if cause == "priors" else 200
    y, proba = draw(rng, scale * rng.normal(size=(n, n_classes)))
    if cause == "priors":
        odds = np.linspace(0.1, 1, n_classes)
        chosen = np.flatnonzero(rng.random(n) < odds[y])[:200]
        return y[chosen], proba[chosen]
    if cause == "temperature":
        return y, sharpen(proba, 1.7)
    # Neither: overconfident in the middle, and underconfident near the ends.
    top = np.ones(n, int) if n_classes == 2 else proba.argmax(axis=1)
    p = proba[np.arange(n), top]
    true = tilt(p, np.exp(1.5 * np.sin(2 * np.log(p / (1 - p).clip(1e-9)))))
    # The other classes keep their relative probabilities.
    others = np.where(np.arange(n_classes) == top[:, None], 0, proba)
    other, _ = draw(rng, np.log(others + 1e-300))
    return np.where(rng.random(n) < true, top, other), proba


@cache
def unchanged(mode, n_classes, seed):
    """Return a monitor after the ten batches before a change, and the generator."""
    rng = np.random.default_rng(seed)
    monitor = CalibrationMonitor(labels=range(n_classes), mode=mode)
    scale = 1.5 if n_classes == 2 else 4
    for _ in range(10):
        monitor.update(*draw(rng, scale * rng.normal(size=(200, n_classes))))
    return monitor, rng


def advised(mode, cause, n_classes, seed):
    """Return the diagnosis ten batches after the alarm; the change is at batch 10."""
    monitor, rng = deepcopy(unchanged(mode, n_classes, seed))
    for batch in range(10, 60):
        monitor.update(*changed(rng, cause, n_classes))
        if monitor.is_alarm_ and batch == monitor.alarm_at_ + 10:
            break
    return monitor.diagnose()


PROBLEMS = [("positive", 2), ("top_label", 6), ("classwise", 6)]


@pytest.mark.parametrize("cause", CAUSES)
def test_advice_names_the_cause(cause):
    for mode, n_classes in PROBLEMS[:2]:
        found = advised(mode, cause, n_classes, seed=0)
        assert found.advice == cause, mode
        assert abs(found.change_point - 10) <= 3, mode


@pytest.mark.parametrize(("mode", "n_classes"), PROBLEMS)
def test_no_samples_are_no_evidence_for_any_cause(mode, n_classes):
    """Marginal likelihoods are averages, of which none is preferred a priori."""
    monitor = CalibrationMonitor(labels=range(n_classes), mode=mode).update([], [])
    evidence = [*monitor.diagnose().log_evidence.values()]
    np.testing.assert_allclose(evidence, 0, atol=1e-12)


def overconfident_above(rng, n, level):
    """Return labels, and predictions that are too confident above a level."""
    proba = draw(rng, 4 * rng.normal(size=(n, 6)))[1]
    is_above = proba.max(axis=1, keepdims=True) > level
    true = np.where(is_above, sharpen(proba, 0.35), proba)
    return draw(rng, np.log(true))[0], proba


def test_labels_judge_the_advice():
    """A temperature repairs overconfidence, but not of the most confident alone."""
    for level, expected in ((0, "temperature"), (0.75, "refit")):
        rng = np.random.default_rng(0)
        monitor = CalibrationMonitor(labels=list("abcdef"))
        batches = [overconfident_above(rng, 200, level) for _ in range(6)]
        for codes, proba in batches:
            monitor.update(np.array([*"abcdef"])[codes], proba)
        codes, proba = map(np.concatenate, zip(*batches, strict=True))
        plain = monitor.diagnose()
        found = monitor.diagnose(np.array([*"abcdef"])[codes], proba)
        assert plain.advice == "temperature"
        assert found.advice == expected
        assert plain.log_losses == {}
        assert [*found.log_losses] == ["temperature", "refit"]
        assert plain[:3] == found[:3]


def test_labels_to_judge_by_are_checked():
    rng = np.random.default_rng(0)
    y, proba = overconfident_above(rng, 500, 0)
    monitor = CalibrationMonitor(labels=range(6)).update(y, proba)
    assert monitor.is_alarm_
    with pytest.raises(ValueError, match="passed together, got no y_proba"):
        monitor.diagnose(y)
    with pytest.raises(ValueError, match="at least 5 samples, got 4"):
        monitor.diagnose(y[:4], proba[:4])
    with pytest.raises(ValueError, match="y_true must"):
        monitor.diagnose(y + 1, proba)


def test_labels_are_checked_before_an_alarm():
    monitor = CalibrationMonitor(labels=[0, 1]).update([0, 1], [0.1, 0.9])
    with pytest.raises(ValueError, match="got 3 labels and 2 rows"):
        monitor.diagnose([0, 1, 1], [0.1, 0.9])
    with pytest.raises(ValueError, match="must contain only the labels"):
        monitor.diagnose([0, 2], [0.1, 0.9])


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "n_classes"), PROBLEMS)
@pytest.mark.parametrize("cause", CAUSES)
def test_advice_names_the_cause_in_most_streams(mode, n_classes, cause):
    found = [advised(mode, cause, n_classes, seed) for seed in range(1, 31)]
    assert np.mean([each.advice == cause for each in found]) >= 0.8
    errors = [abs(each.change_point - 10) for each in found if each.change_point]
    assert np.median(errors) <= 1
