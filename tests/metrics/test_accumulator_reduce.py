"""Accumulators of many workers: empty ones, sums, JSON, batches."""

import copy
import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from sklearn_calib.metrics import CalibrationAccumulator, expected_calibration_error
from sklearn_calib.persistence import from_dict, load, save, to_dict

LABELS = ["a", "b", "c"]


def problem(n_samples=200, seed=0, dtype=np.float64):
    """Return labels, overconfident probabilities and weights, some of them zero."""
    rng = np.random.default_rng(seed)
    logits = 3 * rng.standard_normal((n_samples, 3))
    codes = (logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=1)
    proba = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    weight = rng.integers(4, size=n_samples)
    return np.array(LABELS)[codes], proba.astype(dtype), weight


def new(**params):
    return CalibrationAccumulator(labels=LABELS, **params)


def through_json(accumulator):
    """Return the accumulator after writing it to JSON and reading it."""
    return from_dict(json.loads(json.dumps(to_dict(accumulator), allow_nan=False)))


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.integers(0, 200), max_size=8),
    st.sampled_from(["uniform", "quantile"]),
    st.randoms(use_true_random=False),
)
def test_any_split_gives_the_same_sum(cuts, strategy, random):
    """Chunks may be empty, or have no weight, and pass through JSON."""
    data = problem()
    whole = new(strategy=strategy).update(*data)
    ends = [0, *sorted(cuts), 200]
    chunks = [[each[start:end] for each in data] for start, end in pairwise(ends)]
    random.shuffle(chunks)
    parts = [through_json(new(strategy=strategy).update(*chunk)) for chunk in chunks]
    total = sum(parts)
    assert total.compute() == pytest.approx(whole.compute(), rel=1e-9)
    assert total.scores() == pytest.approx(whole.scores(), rel=1e-9)


def test_sum_returns_a_copy():
    one = new().update(*problem())
    before = copy.deepcopy(vars(one))
    sum([one]).update(*problem(seed=1))
    np.testing.assert_equal(vars(one), before)
    with pytest.raises(TypeError, match="other must be a CalibrationAccumulator, got"):
        sum([one], start=1)


@pytest.mark.parametrize(
    ("y_true", "y_proba", "weight"),
    [
        ([], np.empty((0, 3)), None),
        (np.array([], dtype=object), np.empty((0, 3), np.float32), []),
        ([], [], None),
        (["a"], [[0.2, 0.3, 0.5]], [0.0]),
        (["a", "b"], np.full((2, 3), 1 / 3), np.zeros(2, int)),
    ],
)
def test_chunks_without_samples_or_weight_add_nothing(y_true, y_proba, weight):
    assert to_dict(new().update(y_true, y_proba, weight)) == to_dict(new())
    one = new().update(*problem())
    before = to_dict(one)
    assert to_dict(one.update(y_true, y_proba, weight)) == before


@pytest.mark.parametrize(
    ("y_true", "y_proba", "weight", "match"),
    [
        (["z"], [[0.2, 0.3, 0.5]], [0.0], r"got also \['z'\]"),
        (["a"], [[0.2, 0.3, 0.6]], [0.0], "rows that sum to one"),
        (["a"], [[0.2, 0.3, 0.5]], [0.0, 0.0], "sample_weight.shape"),
        ([], [[0.2, 0.3, 0.5]], None, "."),
        (["a"], np.empty((0, 3)), None, "y_proba must contain probabilities"),
    ],
)
def test_chunks_without_weight_are_checked(y_true, y_proba, weight, match):
    with pytest.raises(ValueError, match=match):
        new().update(y_true, y_proba, weight)


def test_batches():
    data = problem()
    batches = zip(*(np.array_split(each, 7) for each in data), strict=True)
    one = CalibrationAccumulator.from_batches(batches, labels=LABELS, n_bins=9)
    expected = expected_calibration_error(*data[:2], sample_weight=data[2], n_bins=9)
    assert one.compute() == pytest.approx(expected, rel=1e-12)
    empty = CalibrationAccumulator.from_batches([], labels=LABELS)
    assert to_dict(empty) == to_dict(new())


@pytest.mark.parametrize(
    ("batches", "error", "match"),
    [
        (problem()[1:], TypeError, "batches must be .* got ndarray for batch 0"),
        ([problem()[:1]], ValueError, "batches must have .* got 1 for batch 0"),
        ([(*problem(), 0)], ValueError, "batches must have .* got 4 for batch 0"),
    ],
)
def test_other_batches(batches, error, match):
    with pytest.raises(error, match=match):
        CalibrationAccumulator.from_batches(batches, labels=LABELS)


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (["a", "b", "c"], np.array(["a", "b", "c"])),
        (range(3), np.arange(3)),
        (np.array([2.5, 0.1, 1]), np.array([2.5, 0.1, 1])),
        (np.array([True, False]), np.array([True, False])),
        (np.array(["x", "y"], dtype=object), np.array(["x", "y"], dtype=object)),
    ],
)
@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_json_round_trip(labels, classes, strategy, tmp_path):
    rng = np.random.default_rng(0)
    proba = rng.dirichlet(np.ones(len(classes)), size=50).astype(np.float32)
    y_true = np.resize(classes, 50)
    for mode in ("top_label", "classwise"):
        one = CalibrationAccumulator(labels=labels, strategy=strategy, mode=mode)
        one.update(y_true, proba, rng.uniform(size=50))
        again = through_json(one)
        assert to_dict(again) == to_dict(one)
        assert again.compute() == one.compute()
        assert (again + one).compute() == pytest.approx(one.compute(), rel=1e-12)
        save(one, tmp_path / "state.json")
        assert to_dict(load(tmp_path / "state.json")) == to_dict(one)


def test_half_precision_has_its_own_tolerance():
    """Rows in bfloat16 miss one by up to 0.004, in float16 by up to 0.0005."""
    import torch

    y_true, proba, _ = problem(2000)
    expected = new().update(y_true, proba).compute()
    for dtype in (torch.float16, torch.bfloat16):
        half = torch.tensor(proba).to(dtype).float().numpy()
        off = np.abs(half.sum(axis=1) - 1).max()
        assert off > 3.5e-4
        assert new().update(y_true, half).compute() == pytest.approx(expected, abs=2e-3)
    with pytest.raises(ValueError, match=r"rows that sum to one within 0\.00035"):
        new().update(y_true, proba * 0.998)


def test_groups():
    """Each group has an accumulator, in any split of the samples."""
    y_true, y_proba, weight = problem()
    groups = np.resize(["old", "young", "young"], 200)
    parts = []
    for rows in (slice(0, 0), slice(0, 70), slice(70, 71), slice(71, 200)):
        chunk = y_true[rows], y_proba[rows], weight[rows]
        parts.append(through_json(new().update(*chunk, groups=groups[rows])))
    total = sum(parts)
    whole = new().update(y_true, y_proba, weight)
    assert total.compute() == pytest.approx(whole.compute(), rel=1e-12)
    assert sorted(total.groups_) == ["old", "young"]
    for name, group in total.groups_.items():
        rows = groups == name
        alone = new().update(y_true[rows], y_proba[rows], weight[rows])
        assert group.compute() == pytest.approx(alone.compute(), rel=1e-12)
        assert group.scores() == pytest.approx(alone.scores())


def test_groups_are_checked_before_anything_is_added():
    y_true, y_proba, weight = problem(3)
    one = new().update(y_true, y_proba, weight + 1, groups=[1, np.nan, 1])
    one.update(y_true, y_proba, groups=[1, np.nan, np.nan])
    assert list(one.groups_) == [1, None]
    before = copy.deepcopy(one)
    y_true[2] = "z"
    with pytest.raises(ValueError, match=r"got also \['z'\]"):
        one.update(y_true, y_proba, groups=["a", "a", "b"])
    with pytest.raises(ValueError, match="groups must contain one group for each"):
        one.update(y_true[:2], y_proba[:2], groups=["a"])
    with pytest.raises(ValueError, match="y_true must contain one label for each row"):
        one.update(y_true[:2], y_proba, groups=["a", "b"])
    assert list(one.groups_) == [1, None]
    assert one.scores() == before.scores()


def test_groups_of_two_columns_are_not_saved():
    y_true, y_proba, _ = problem(2)
    one = new().update(y_true, y_proba, groups=[["a", "x"], ["b", "x"]])
    assert list(one.groups_) == [("a", "x"), ("b", "x")]
    with pytest.raises(ValueError, match=r"groups must be a single .*\('a', 'x'"):
        to_dict(one)
