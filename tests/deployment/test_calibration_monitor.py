"""CalibrationMonitor: e-values by hand, their expectation, and its use."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from sklearn_calib.deployment import CalibrationMonitor
from sklearn_calib.metrics import (
    classwise_calibration_error,
    expected_calibration_error,
)

SHIFTS = [s * a for a in (0.125, 0.25, 0.5, 1, 2) for s in (-1, 1)]
SLOPES = [math.exp(s * a) for a in (0.125, 0.25, 0.5, 1) for s in (-1, 1)]


def binary(**options):
    return CalibrationMonitor(labels=[0, 1], mode="positive", **options)


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


def test_e_values_by_hand():
    """Three samples, one at a time, with a loop over starts and alternatives."""
    p, y = [0.3, 0.9, 0.35], [1, 0, 1]
    # Four bins: the first and the third sample are in the same one.
    others = [
        *((1 / 24, lambda i, b=b: p[i] ** b / (p[i] ** b + (1 - p[i]) ** b))
          for b in SLOPES),
        *((1 / 30, lambda i, a=a: tilt(p[i], math.exp(a))) for a in SHIFTS),
        *((1 / 120, lambda i, a=a, low=low: tilt(p[i], math.exp(a))
           if low < p[i] <= low + 0.25 else p[i])
          for a in SHIFTS for low in (0, 0.25, 0.5, 0.75)),
    ]  # fmt: skip
    assert sum(weight for weight, _ in others) == pytest.approx(1)
    monitor = binary(n_bins=4)
    for t in range(3):
        monitor.update([y[t]], [p[t]])
        expected = 1 / math.log2(t + 3)
        for start in range(t + 1):
            weight = 1 / math.log2(start + 2) - 1 / math.log2(start + 3)
            for prior, q in others:
                ratios = [
                    q(i) / p[i] if y[i] else (1 - q(i)) / (1 - p[i])
                    for i in range(start, t + 1)
                ]
                expected += weight * prior * math.prod(ratios)
        # The tolerance of 1.2e-7 makes it a little smaller.
        assert monitor.e_value_ == pytest.approx(expected, rel=1e-6)
    assert not monitor.is_alarm_
    assert monitor.p_value_ == pytest.approx(min(1, 1 / monitor.e_value_))


def test_one_sample_at_one_half_is_no_evidence():
    """Both outcomes are equally likely, and so are positive and negative shifts."""
    for y in (0, 1):
        assert binary().update([y], [0.5]).e_value_ == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize(
    ("mode", "options"),
    [
        ("positive", {}),
        ("top_label", {"n_bins": 3}),
        ("classwise", {"n_bins": 2}),
        ("classwise", {"tolerance": 0.1}),
        ("top_label", {"tolerance": 0.02}),
    ],
)
def test_expected_e_value_is_one(mode, options):
    """Exactly, over all labels of three samples in batches of one and two.

    The last prediction depends on the first label.
    """
    rng = np.random.default_rng(0)
    n_classes = 2 if mode == "positive" else 3
    proba = rng.dirichlet(np.ones(n_classes), 4)
    proba[1] = np.eye(n_classes)[0]
    total = certain = 0.0
    for y in itertools.product(range(n_classes), repeat=3):
        rows = proba[[0, 1, 2 if y[0] else 3]]
        chance = rows[np.arange(3), y].prod()
        monitor = CalibrationMonitor(labels=range(n_classes), mode=mode, **options)
        for batch in ([0], [1, 2]):
            monitor.update(np.array(y)[batch], rows[batch])
        total += chance * monitor.e_value_
        certain += chance
    assert certain == pytest.approx(1)
    assert total <= 1 + 1e-12
    if not options.get("tolerance"):
        assert total > 1 - 1e-4


@pytest.mark.parametrize(
    "p", [0, 1e-12, 1e-7, 3e-7, 0.001, 0.3, 0.5, 0.96, 1 - 1e-9, 1], ids=str
)
def test_expected_e_value_within_the_tolerance(p):
    """At most one for all true probabilities that are near enough, with weights too."""
    for tolerance, weight in itertools.product([0, 0.05, 0.5], [1, 0.3]):
        values = [
            binary(tolerance=tolerance).update([y], [p], [weight]).e_value_
            for y in (0, 1)
        ]
        assert np.isfinite(values).all()
        for true in (max(p - tolerance, 0), p, min(p + tolerance, 1)):
            assert (1 - true) * values[0] + true * values[1] <= 1 + 1e-12


def test_impossible_events_are_strong_evidence():
    monitors = [
        binary().update([1], [0.0]),
        CalibrationMonitor(labels=range(3)).update([1], [[1.0, 0, 0]]),
        CalibrationMonitor(labels=range(3), mode="classwise").update([1], [[1, 0, 0]]),
    ]
    for monitor in monitors:
        assert monitor.is_alarm_
        assert monitor.e_value_ < 1e4


@pytest.fixture(scope="module")
def stream():
    """Return batches of three classes; from batch 12 on, they are overconfident."""
    rng = np.random.default_rng(0)
    batches = [draw(rng, 2 * rng.normal(size=(100, 3))) for _ in range(40)]
    return [
        (y, proba if i < 12 else sharpen(proba, 2))
        for i, (y, proba) in enumerate(batches)
    ]


def monitored(stream, **options):
    monitor = CalibrationMonitor(labels=range(3), **options)
    for batch in stream:
        monitor.update(*batch)
    return monitor


@pytest.mark.parametrize("mode", ["top_label", "classwise"])
def test_alarm_and_diagnosis(stream, mode):
    monitor = monitored(stream[:12], mode=mode)
    assert not monitor.is_alarm_
    assert monitor.alarm_at_ is None
    before = monitor.diagnose()
    assert before[:2] == (None, 1200)
    assert before.advice == "none"
    p_values = [monitor.p_value_]
    for batch in stream[12:]:
        monitor.update(*batch)
        p_values.append(monitor.p_value_)
    assert (np.diff(p_values) <= 0).all()
    assert monitor.is_alarm_
    assert 12 <= monitor.alarm_at_ <= 20
    assert p_values[monitor.alarm_at_ - 11] <= 0.05 < p_values[monitor.alarm_at_ - 12]
    found = monitor.diagnose()
    assert abs(found.change_point - 12) <= 2
    assert found.advice == "temperature"
    assert found.n_samples == 100 * (40 - found.change_point)
    data = [
        np.concatenate(part) for part in zip(*stream[found.change_point :], strict=True)
    ]
    metric = {
        "top_label": expected_calibration_error,
        "classwise": classwise_calibration_error,
    }[mode]
    assert found.calibration_error == pytest.approx(metric(*data))


def test_e_value_can_fall_but_the_alarm_stays(stream):
    rng = np.random.default_rng(0)
    monitor = monitored(stream[12:24])
    highest = monitor.e_value_
    for _ in range(10):
        monitor.update(*draw(rng, 2 * rng.normal(size=(400, 3))))
    assert monitor.e_value_ < highest
    assert monitor.is_alarm_
    assert monitor.p_value_ <= 1 / highest


@pytest.mark.parametrize("mode", ["top_label", "classwise"])
def test_order_and_batches(stream, mode):
    """The order within a batch does not matter, nor how sums are made."""
    y, proba = stream[0]
    order = np.random.default_rng(0).permutation(len(y))
    one = CalibrationMonitor(labels=range(3), mode=mode).update(y, proba)
    other = clone(one).update(y[order], proba[order])
    assert other.e_value_ == pytest.approx(one.e_value_, rel=1e-9)
    single = clone(one)
    for i in range(len(y)):
        single.update(y[i : i + 1], proba[i : i + 1])
    assert_allclose(
        [*single.diagnose().log_evidence.values()],
        [*one.diagnose().log_evidence.values()],
        rtol=1e-9,
    )
    assert single.diagnose().calibration_error == pytest.approx(
        one.diagnose().calibration_error
    )
    assert (single.n_batches_, single.n_samples_) == (100, 100)


def test_large_batches_are_computed_in_blocks():
    rng = np.random.default_rng(0)
    y, proba = draw(rng, rng.normal(size=(20_000, 3)))
    whole = CalibrationMonitor(labels=range(3)).update(y, proba)
    parts = [clone(whole).update(y[k::7], proba[k::7]) for k in range(7)]
    assert sum(parts).e_value_ == pytest.approx(whole.e_value_, rel=1e-9)


def test_merged_monitors(stream):
    """Workers with parts of each batch, and the monitor of all samples."""
    parts = [[(y[k::3], proba[k::3]) for y, proba in stream] for k in range(3)]
    few = sum(monitored(part[:8]) for part in parts)
    whole = monitored(stream[:8])
    assert few.e_value_ == pytest.approx(whole.e_value_)
    assert few.p_value_ == pytest.approx(whole.p_value_)
    # More batches than are stored separately.
    total, whole = sum(monitored(part) for part in parts), monitored(stream)
    assert total.n_batches_ == whole.n_batches_ == 40
    assert total.n_samples_ == whole.n_samples_ == 4000
    assert_allclose(
        [*total.diagnose().log_evidence.values()],
        [*whole.diagnose().log_evidence.values()],
    )
    assert total.diagnose()[:2] == whole.diagnose()[:2]
    difference = math.log(whole.e_value_) - math.log(total.e_value_)
    assert 0 <= difference < 1.5
    assert total.alarm_at_ >= whole.alarm_at_
    # Merging again, and going on.
    again = total.update([], []) + monitored([([], [])] * 41)
    assert again.e_value_ == pytest.approx(total.e_value_, rel=1e-6)


def test_merging_with_nothing_and_with_others(stream):
    monitor = monitored(stream[:3])
    empty = clone(monitor)
    assert (empty + monitor).e_value_ == monitor.e_value_
    assert (monitor + empty).e_value_ == monitor.e_value_
    (empty + monitor).update(*stream[3])
    assert monitor.n_batches_ == 3
    with pytest.raises(ValueError, match="same number of batches, 3, got 2"):
        monitor.merge(monitored(stream[:2]))
    with pytest.raises(ValueError, match="other must have the parameters"):
        monitor.merge(monitored(stream[:3], alpha=0.01))
    with pytest.raises(TypeError, match="other must be a CalibrationMonitor"):
        monitor.merge(3)


def test_memory_does_not_depend_on_the_number_of_batches():
    monitor, rng = binary(n_bins=2), np.random.default_rng(0)
    for p in rng.random(150):
        monitor.update([int(rng.random() < p)], [p])
    assert monitor.n_batches_ == monitor.n_samples_ == 150
    assert len(monitor.blocks_) <= 8 * math.log2(150 / 8) + 8
    history = monitor.history()
    assert history["batch"][-1] == 149
    spans = np.diff(history["batch"], prepend=-1)
    ages = 149 - history["batch"]
    assert (spans <= ages / 7 + 1).all()
    assert_array_equal(history["n_samples"], spans)


def test_history(stream):
    monitor = monitored([*stream[:3], ([], []), *stream[3:6]])
    history = monitor.history()
    assert_array_equal(history["batch"], range(7))
    assert_array_equal(history["n_samples"], [100, 100, 100, 0, 100, 100, 100])
    assert math.exp(history["log_e_value"][-1]) == monitor.e_value_
    y, proba = stream[1]
    confidence = proba.max(axis=1)
    assert history["confidence"][1] == pytest.approx(confidence.mean())
    assert history["accuracy"][1] == (proba.argmax(axis=1) == y).mean()
    variance = (confidence * (1 - confidence)).sum()
    assert history["deviation"][1] == pytest.approx(math.sqrt(variance) / 100)
    assert np.isnan(history["accuracy"][3])


def test_tolerance():
    """A difference within the tolerance is never found, a larger one is."""
    rng = np.random.default_rng(0)
    p = rng.uniform(0.1, 0.9, 20_000)
    for shift, tolerance, is_found in [(0.03, 0, True), (0.03, 0.04, False),
                                       (0.08, 0.04, True)]:  # fmt: skip
        y = (rng.random(len(p)) < p - shift).astype(int)
        monitor = binary(tolerance=tolerance)
        for start in range(0, len(p), 1000):
            monitor.update(y[start : start + 1000], p[start : start + 1000])
        assert monitor.is_alarm_ == is_found


def test_weights(stream):
    y, proba = stream[12]
    some = (np.arange(100) % 3 > 0).astype(float)
    one = CalibrationMonitor(labels=range(3)).update(y, proba, some)
    other = clone(one).update(y[some > 0], proba[some > 0])
    assert one.e_value_ == pytest.approx(other.e_value_)
    assert one.diagnose().calibration_error == pytest.approx(
        other.diagnose().calibration_error
    )
    none = clone(one).update(y, proba, np.zeros(100))
    assert none.e_value_ == pytest.approx(1)
    assert np.isnan(none.diagnose().calibration_error)
    half = clone(one).update(y, proba, np.full(100, 0.5))
    twice = clone(one).update(np.tile(y, 2), np.tile(proba, (2, 1)), np.full(200, 0.5))
    assert half.e_value_ < twice.e_value_
    assert twice.e_value_ == pytest.approx(clone(one).update(y, proba).e_value_)


def test_data_of_any_kind(stream):
    codes, proba = stream[0]
    names = np.array(["rose", "iris", "aster"])
    y = names[codes]
    monitor = CalibrationMonitor(labels=names, mode="classwise")
    expected = clone(monitor).update(y, proba).e_value_
    for data in [
        (y.tolist(), proba.tolist()),
        (pd.Series(y), pd.DataFrame(proba, columns=names)),
        (y.astype(object), np.asfortranarray(proba)),
    ]:
        assert clone(monitor).update(*data).e_value_ == pytest.approx(expected)
    order = [2, 0, 1]
    other = CalibrationMonitor(labels=names[order], mode="classwise")
    assert other.update(y, proba[:, order]).e_value_ == pytest.approx(expected)
    single = clone(monitor).update(y, proba.astype(np.float32)).e_value_
    assert single == pytest.approx(expected, rel=1e-3)
    # On the edges of the bins.
    coarse = np.eye(3, dtype=np.float32)[codes] * np.float32(0.4) + np.float32(0.2)
    found = clone(monitor).update(y, coarse).diagnose().calibration_error
    assert found == pytest.approx(classwise_calibration_error(y, coarse, labels=names))
    positive = np.linspace(0.01, 0.99, 50)
    is_positive = np.arange(50) % 2
    one = binary().update(is_positive, positive)
    two = binary().update(is_positive, np.column_stack([1 - positive, positive]))
    assert two.e_value_ == pytest.approx(one.e_value_)


@pytest.mark.parametrize(
    ("data", "options", "match"),
    [
        ((["c"], [[0.5, 0.5]]), {}, "'c'"),
        ((["a"], [[0.5, np.nan]]), {}, "y_proba must be finite"),
        ((["a"], [[0.5, 0.2]]), {}, "y_proba"),
        ((["a", "b"], [[0.5, 0.5]]), {}, "one label for each row"),
        ((["a"], [[0.5, 0.5]], [1.5]), {}, "sample_weight must be at most 1, got 1.5"),
        ((["a"], [[0.5, 0.5]], [1e40]), {}, "sample_weight must be at most 1"),
        ((["a"], [[0.5, 0.5]], [-1]), {}, "sample_weight must be non-negative"),
        ((["a"], [[0.2, 0.3, 0.5]]), {}, "labels"),
        ((["a"], [[0.5, 0.5]]), {"alpha": 1}, "alpha"),
        ((["a"], [[0.5, 0.5]]), {"tolerance": -0.1}, "tolerance"),
        ((["a"], [[0.5, 0.5]]), {"n_bins": 0}, "n_bins"),
        ((["a"], [[0.5, 0.5]]), {"mode": "all"}, "mode"),
        (
            (["a"], [[0.2, 0.3, 0.5]]),
            {"labels": ["a", "b", "c"], "mode": "positive"},
            "requires two classes",
        ),
        # Before the first label is known.
        (([], []), {"labels": []}, r"at least two labels, got \[\]"),
        (([], []), {"labels": ["a", "a"]}, "labels must contain 2 distinct labels"),
    ],
)
def test_bad_input(data, options, match):
    monitor = CalibrationMonitor(**{"labels": ["a", "b"], **options})
    with pytest.raises(ValueError, match=match):
        monitor.update(*data)
    with pytest.raises(NotFittedError, match="Call 'update'"):
        _ = monitor.e_value_


def test_a_bad_batch_is_not_added(stream):
    monitor = monitored(stream[:2])
    before = monitor.e_value_
    with pytest.raises(ValueError, match="7"):
        monitor.update([7], [[0.2, 0.3, 0.5]])
    assert (monitor.n_batches_, monitor.e_value_) == (2, before)
    monitor.alpha = 0.5
    with pytest.raises(ValueError, match="Parameters must not change"):
        monitor.update(*stream[0])
