"""Errors over chunks of data are equal to those of all data at once."""

import math
import pickle
from decimal import Decimal
from functools import reduce
from operator import add

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import accuracy_score, brier_score_loss, log_loss

from sklearn_calib.displays import ReliabilityDisplay
from sklearn_calib.metrics import (
    CalibrationAccumulator,
    classwise_calibration_error,
    expected_calibration_error,
)
from sklearn_calib.persistence import from_dict, to_dict

LABELS = ["a", "b", "c", "d"]
MEASURES = [
    {"norm": norm, "reduce_bias": reduce_bias}
    for norm, reduce_bias in [
        ("l1", False),
        ("l1", True),
        ("l2", False),
        ("l2", True),
        ("max", False),
        (1.5, False),
    ]
]


def problem(seed=0, n_samples=600, n_classes=4, dtype=np.float64):
    """Return labels, overconfident probabilities with zeros and ones, and weights."""
    rng = np.random.default_rng(seed)
    logits = 3 * rng.standard_normal((n_samples, n_classes))
    codes = (logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=1)
    proba = np.exp(logits)
    proba[: n_samples // 20] = np.eye(n_classes)[codes[: n_samples // 20]]
    proba /= proba.sum(axis=1, keepdims=True)
    weight = rng.uniform(size=n_samples)
    return np.array(LABELS[:n_classes])[codes], proba.astype(dtype), weight


def accumulate(settings, data, cuts):
    """Return one accumulator for each chunk of rows."""
    chunks = zip(*(np.split(each, cuts) for each in data), strict=True)
    return [
        CalibrationAccumulator(**settings).update(*chunk)
        for chunk in chunks
        if len(chunk[0])
    ]


def state(accumulator):
    """Return all numbers that an accumulator contains."""
    (cells,) = accumulator.cells_.values()
    return np.concatenate([*cells, accumulator.totals_], axis=None)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.integers(0, 200), max_size=6).map(sorted),
    st.randoms(use_true_random=False),
    st.sampled_from(["top_label", "classwise"]),
    st.sampled_from([np.float32, np.float64]),
    st.booleans(),
)
def test_chunks_and_their_order_do_not_matter(cuts, random, mode, dtype, weighted):
    y_true, y_proba, weight = problem(n_samples=200, dtype=dtype)
    data = (y_true, y_proba, weight) if weighted else (y_true, y_proba)
    parts = accumulate({"labels": LABELS, "mode": mode, "n_bins": 7}, data, cuts)
    random.shuffle(parts)
    total = reduce(add, parts)
    options = {"sample_weight": weight if weighted else None, "n_bins": 7}
    for measure in MEASURES:
        expected = expected_calibration_error(
            y_true, y_proba, mode=mode, labels=LABELS, **options, **measure
        )
        value = total.compute(**measure)
        assert value == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("mode", ["top_label", "classwise"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_given_edges(mode, dtype):
    """Lists and arrays are equal parameters, also in files, and other edges are not."""
    edges = np.array([0, 1e-5, 0.25, 0.5, 0.9, 1])
    bins, data = {"labels": LABELS, "mode": mode}, problem(dtype=dtype)
    one, other = accumulate({**bins, "n_bins": edges}, data, [250])
    total = from_dict(to_dict(one.set_params(n_bins=edges.tolist()) + other))
    options = {"sample_weight": data[2], "n_bins": edges, **bins}
    for measure in MEASURES:
        expected = expected_calibration_error(*data[:2], **options, **measure)
        assert total.compute(**measure) == pytest.approx(expected, rel=1e-9)
    with pytest.raises(ValueError, match="other must have the parameters"):
        total.merge(CalibrationAccumulator(**bins, n_bins=edges**2))


@pytest.mark.parametrize("mode", ["positive", "top_label", "classwise"])
def test_binary_as_one_column(mode):
    y_true, y_proba, _ = problem(n_classes=2)
    data = y_true, y_proba[:, 1]
    parts = accumulate({"labels": LABELS[:2], "mode": mode}, data, [1, 250])
    value = reduce(add, parts).compute()
    expected = expected_calibration_error(*data, labels=LABELS[:2], mode=mode)
    assert value == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
@pytest.mark.parametrize("weighted", [False, True])
def test_cells_of_a_class_are_those_of_its_column(strategy, weighted):
    """The chunks may be small."""
    y_true, y_proba, weight = problem(n_samples=100)
    data = (y_true, y_proba, weight) if weighted else (y_true, y_proba)
    settings = {"labels": LABELS, "strategy": strategy, "mode": "classwise"}
    every = reduce(add, accumulate(settings, data, range(1, 30)))
    for column, label in enumerate(LABELS):
        one = CalibrationAccumulator(
            labels=[False, True], strategy=strategy, mode="positive"
        ).update(y_true == label, y_proba[:, column], *data[2:])
        if strategy == "quantile":
            row = every.cells_["classwise"].rows(4, 4096)[column]
            cells = one.cells_["positive"]
            np.testing.assert_array_equal(row.place, cells.place)
            np.testing.assert_allclose(row.sums, cells.sums, atol=1e-12)
            continue
        # The cells of a class are its bins.
        row = every.cells_["classwise"].rows(4, 15)[column]
        weight, gap, correct = row.sums[:3]
        curve = one.reliability_curve()
        expected = [curve[name] for name in ("counts", "prob_pred", "prob_true")]
        found = np.full((3, 15), np.nan)
        found[:, row.place] = weight, (gap + correct) / weight, correct / weight
        found[0] = np.nan_to_num(found[0])
        np.testing.assert_allclose(found, expected, atol=1e-12)


def test_sum_over_classes():
    y_true, y_proba, _ = problem()
    accumulator = CalibrationAccumulator(labels=LABELS, mode="classwise")
    expected = classwise_calibration_error(y_true, y_proba, average="sum")
    value = accumulator.update(y_true, y_proba).compute(average="sum")
    assert value == pytest.approx(expected, rel=1e-12)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000), st.sampled_from(["uniform", "quantile"]))
def test_merging_is_associative_and_commutative(seed, strategy):
    data = problem(seed, n_samples=90)
    a, b, c = accumulate({"labels": LABELS, "strategy": strategy}, data, [20, 50])
    before = state(a)
    np.testing.assert_array_equal(state(a + b), state(b + a))
    np.testing.assert_allclose(state((a + b) + c), state(a + (b + c)), atol=1e-13)
    np.testing.assert_array_equal(state(a), before)
    np.testing.assert_array_equal(state(a + clone(a)), before)
    np.testing.assert_array_equal(state(clone(a) + a), before)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 1000),
    st.integers(1, 40),
    st.sampled_from(["top_label", "classwise"]),
    st.sampled_from([1, 10, 1000]),
    st.booleans(),
)
def test_bins_of_equal_mass_keep_the_bound(seed, n_bins, mode, steepness, weighted):
    """This includes cells with many samples and several edges."""
    y_true, y_proba, weight = problem(seed)
    y_proba = y_proba ** (1 / steepness)
    y_proba /= y_proba.sum(axis=1, keepdims=True)
    weight = weight if weighted else None
    bins = {"n_bins": n_bins, "strategy": "quantile", "mode": mode, "labels": LABELS}
    accumulator = CalibrationAccumulator(**bins).update(y_true, y_proba, weight)
    expected = expected_calibration_error(y_true, y_proba, sample_weight=weight, **bins)
    difference = abs(accumulator.compute() - expected)
    assert difference <= accumulator.error_bound() + 1e-12


def test_bound_at_the_size_it_is_for():
    y_true, y_proba, _ = problem(n_samples=200_000)
    bins = {"strategy": "quantile", "labels": LABELS}
    accumulator = CalibrationAccumulator(**bins).update(y_true, y_proba)
    expected = expected_calibration_error(y_true, y_proba, **bins)
    assert accumulator.error_bound() < 0.02
    assert accumulator.compute() == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("mode", ["top_label", "classwise"])
def test_few_values_are_exact_in_bins_of_equal_mass(mode):
    y_true, y_proba, _ = problem()
    y_proba = np.random.default_rng(0).multinomial(20, y_proba) / 20
    bins = {"strategy": "quantile", "mode": mode, "labels": LABELS}
    accumulator = CalibrationAccumulator(**bins).update(y_true, y_proba)
    for measure in MEASURES:
        expected = expected_calibration_error(y_true, y_proba, **bins, **measure)
        assert accumulator.compute(**measure) == pytest.approx(expected, rel=1e-9)


def test_exact_bins_have_the_bound_0():
    accumulator = CalibrationAccumulator(labels=LABELS).update(*problem())
    assert accumulator.error_bound() == 0


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scores_are_those_of_scikit_learn(n_classes, dtype):
    y_true, y_proba, weight = problem(n_classes=n_classes, dtype=dtype)
    labels = LABELS[:n_classes]
    parts = accumulate({"labels": labels}, (y_true, y_proba, weight), [10, 500])
    scores = reduce(add, parts).scores()
    predicted = np.array(labels)[y_proba.argmax(axis=1)]
    distance = y_proba - (y_true[:, None] == labels)
    squares = (distance**2).sum(axis=1) / (2 if n_classes == 2 else 1)
    if n_classes == 2:
        assert np.average(squares, weights=weight) == pytest.approx(
            brier_score_loss(
                y_true, y_proba[:, 1], sample_weight=weight, pos_label="b"
            ),
            rel=1e-5,
        )
    assert scores == pytest.approx(
        {
            "accuracy": accuracy_score(y_true, predicted, sample_weight=weight),
            "mean_confidence": np.average(y_proba.max(axis=1), weights=weight),
            "brier_score_loss": np.average(squares, weights=weight),
            "log_loss": log_loss(y_true, y_proba, sample_weight=weight),
        },
        rel=1e-5 if dtype == np.float32 else 1e-12,
    )


def test_sums_keep_their_precision_at_1e8_samples():
    """The reference sums are rounded only once."""
    y_true, y_proba, _ = problem(n_samples=100_000, dtype=np.float32)
    chunk = CalibrationAccumulator(labels=LABELS, n_bins=1).update(y_true, y_proba)
    every = reduce(add, [chunk] * 1000)
    top = y_proba.max(axis=1).tolist()
    correct = np.array(LABELS)[y_proba.argmax(axis=1)] == y_true
    gap = math.fsum([*top, -int(correct.sum())])
    assert every.cells_["top_label"].sums[0].sum() == 1e8
    assert every.cells_["top_label"].sums[1].sum() == pytest.approx(
        1000 * gap, rel=1e-12
    )
    assert every.compute() == pytest.approx(chunk.compute(), rel=1e-12)


def test_workers_can_merge():
    data = problem()
    parts = accumulate({"labels": LABELS}, data, [300])
    again = pickle.loads(pickle.dumps(parts[0]))
    np.testing.assert_array_equal(state(again), state(parts[0]))
    work = pickle.dumps(CalibrationAccumulator(labels=LABELS).update)
    merged = [
        pickle.loads(pickle.dumps(pickle.loads(work)(*chunk)))
        for chunk in zip(*(np.split(each, [300]) for each in data), strict=True)
    ]
    np.testing.assert_array_equal(state(reduce(add, merged)), state(reduce(add, parts)))


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_diagram(strategy):
    y_true, y_proba, _ = problem()
    bins = {"strategy": strategy, "labels": LABELS}
    curve = CalibrationAccumulator(**bins).update(y_true, y_proba).reliability_curve()
    display = ReliabilityDisplay(**curve).plot()
    ax = display.ax_
    expected = ReliabilityDisplay.from_predictions(y_true, y_proba, **bins, ax=ax)
    tolerance = 1e-12 if strategy == "uniform" else 0.1
    for name in ("counts", "prob_true", "prob_pred", "bin_edges"):
        values = getattr(display, name)
        reference = getattr(expected, name)
        scale = len(y_true) if name == "counts" else 1
        np.testing.assert_allclose(values, reference, atol=tolerance * scale)


def test_a_refused_chunk_leaves_no_trace():
    y_true, y_proba, _ = problem()
    accumulator = CalibrationAccumulator(labels=LABELS).update(y_true, y_proba)
    before = state(accumulator)
    y_proba[-1] *= 2
    with pytest.raises(ValueError, match="y_proba must"):
        accumulator.update(y_true, y_proba)
    with pytest.raises(ValueError, match=r"got also \['z'\]"):
        accumulator.update(["z"], y_proba[:1])
    np.testing.assert_array_equal(state(accumulator), before)


@pytest.mark.parametrize(
    "change", [{"n_bins": 1}, {"mode": "positive"}, {"labels": ["b", "a"]}], ids=str
)
def test_sums_of_other_settings_are_not_mixed(change):
    y_true, y_proba, _ = problem(n_classes=2)
    accumulator = CalibrationAccumulator(labels=LABELS[:2]).update(y_true, y_proba)
    accumulator.set_params(**change)
    empty = clone(accumulator)
    for action in (
        lambda: accumulator.update(y_true, y_proba),
        lambda: empty.merge(accumulator),
        accumulator.compute,
    ):
        with pytest.raises(ValueError, match="Parameters must not change"):
            action()


@pytest.mark.parametrize(
    "form",
    [
        lambda weight: torch.tensor(weight, requires_grad=True),
        lambda weight: [Decimal(each) for each in weight],
        np.longdouble,
    ],
    ids=["tensor", "decimals", "long double"],
)
def test_weights_in_any_form(form):
    y_true, proba, weight = problem()
    one, other = (CalibrationAccumulator(labels=LABELS[:4]) for _ in range(2))
    one.update(y_true, proba, weight).update(y_true, proba)
    other.update(y_true, proba, form(weight)).update(y_true, proba)
    assert one.compute() == other.compute()


def test_bad_input():
    one = CalibrationAccumulator(labels=LABELS)
    with pytest.raises(TypeError, match=r"other must be .*, got int\. Pass arrays"):
        one.merge(3)
    with pytest.raises(ValueError, match=r"other must .*got .*'n_bins': 9.*Create all"):
        one.merge(CalibrationAccumulator(labels=LABELS, n_bins=9))
    with pytest.raises(ValueError, match="other must have the parameters"):
        one.merge(CalibrationAccumulator(labels=LABELS[::-1]))
    with pytest.raises(TypeError, match=r"y_proba must be array-like, got None\. Pass"):
        one.update(["a", "b"], None, groups=[0, 1])
    for batches in (None, 3, lambda: [problem()]):
        with pytest.raises(TypeError, match=r"batches must be an iterable .*, got"):
            CalibrationAccumulator.from_batches(batches, labels=LABELS)
    for method in (one.compute, one.scores, one.error_bound, one.reliability_curve):
        with pytest.raises(NotFittedError, match="does not contain any samples"):
            method()
    with pytest.raises(ValueError, match="The 'n_bins' parameter"):
        CalibrationAccumulator(labels=LABELS, n_bins=0).update(*problem())
    with pytest.raises(ValueError, match="reduce_bias must be False"):
        one.update(*problem()).compute(norm="max", reduce_bias=True)
    for mode in (np.array(["top_label", "positive"]), ["top_label"], 3, "positive"):
        with pytest.raises(ValueError, match=r"mode must be one of \['top_label'\]"):
            one.compute(mode=mode)
    with pytest.raises(ValueError, match=r'mode must be .* got "classwise"'):
        CalibrationAccumulator(labels=LABELS, mode="classwise").reliability_curve()
