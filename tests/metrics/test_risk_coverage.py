"""Values of risk, coverage and the area between them."""

from itertools import pairwise, permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sklearn_calib.metrics import aurc_loss, excess_aurc_loss, risk_coverage_curve


def as_problem(confidence, hit):
    """Return labels and two columns with these confidences of the predicted class."""
    confidence, hit = np.asarray(confidence), np.asarray(hit, dtype=bool)
    return np.where(hit, 0, 1), np.column_stack([confidence, 1 - confidence])


def area(hit):
    """Return the mean over k of the error rate of the first k."""
    return np.mean(np.cumsum(~np.asarray(hit)) / np.arange(1, len(hit) + 1))


def load(recorded, case):
    """Return the labels and the probabilities of a recorded case."""
    inputs = recorded["inputs"][case["input"]]
    return np.array(inputs["labels"]), np.array(inputs["probs"])


def test_recorded_values(reference):
    recorded = reference("metric_aurc")
    for case in recorded["expected"]:
        if case["input"] in {"edge", "exact"}:
            continue
        y_true, proba = load(recorded, case)
        values, labels = case["values"], range(proba.shape[1])
        ours = aurc_loss(y_true, proba, labels=labels)
        expected = values["aurc" if "aurc" in values else "em"]
        assert ours == pytest.approx(expected, rel=1e-12)
        if "eaurc" in values:
            ours = excess_aurc_loss(y_true, proba, labels=labels)
            assert ours == pytest.approx(values["eaurc"], rel=1e-12)


@pytest.mark.parametrize("name", ["edge", "exact"])
def test_recorded_values_with_ties(reference, name):
    """The recorded ones are for one order of the ties, ours is the mean over all."""
    recorded = reference("metric_aurc")
    rng = np.random.default_rng(0)
    for case in recorded["expected"]:
        if case["input"] != name:
            continue
        y_true, proba = load(recorded, case)
        confidence, hit = proba.max(axis=1), proba.argmax(axis=1) == y_true
        ours = aurc_loss(y_true, proba, labels=range(proba.shape[1]))
        best = area(hit[np.lexsort((~hit, -confidence))])
        worst = area(hit[np.lexsort((hit, -confidence))])
        other = case["values"]["aurc" if "aurc" in case["values"] else "em"]
        assert best < ours < worst
        assert best - 1e-12 < other < worst + 1e-12
        orders = [np.lexsort((rng.random(len(hit)), -confidence)) for _ in range(4000)]
        assert ours == pytest.approx(np.mean([area(hit[o]) for o in orders]), rel=3e-3)


@given(st.lists(st.tuples(st.integers(0, 2), st.booleans()), min_size=1, max_size=6))
def test_mean_over_all_orders_of_ties(samples):
    """Against all permutations, one by one."""
    confidence = [(7 + level) / 10 for level, _ in samples]
    orders = [
        [hit for _, hit in order]
        for order in permutations(samples)
        if all(a[0] >= b[0] for a, b in pairwise(order))
    ]
    problem = as_problem(confidence, [hit for _, hit in samples])
    expected = np.mean([area(hit) for hit in orders])
    assert aurc_loss(*problem, labels=[0, 1]) == pytest.approx(expected, rel=1e-12)


def test_many_samples():
    """No precision is lost where 1 / k is a difference of large numbers."""
    rng = np.random.default_rng(0)
    confidence = rng.uniform(0.5, 1, size=200_000)
    hit = rng.uniform(size=200_000) < confidence
    expected = area(hit[np.argsort(-confidence)])
    assert aurc_loss(*as_problem(confidence, hit)) == pytest.approx(expected, rel=1e-11)


def test_no_information_has_the_error_rate():
    problem = as_problem([0.7] * 10, [True] * 8 + [False] * 2)
    assert aurc_loss(*problem) == pytest.approx(0.2)


@pytest.mark.parametrize("n_wrong", [1, 10, 40, 100])
def test_perfect_ranking_has_almost_no_excess(n_wrong):
    """Of n samples it is at most r / n, with the error rate r."""
    hit = np.arange(100) < 100 - n_wrong
    problem = as_problem(np.linspace(1, 0.6, 100), hit)
    excess = excess_aurc_loss(*problem, labels=[0, 1])
    assert -1e-15 <= excess <= n_wrong / 100 / 100


def test_curve():
    problem = as_problem([0.9, 0.8, 0.8, 0.6], [True, True, False, False])
    coverage, risk, thresholds = risk_coverage_curve(*problem)
    np.testing.assert_allclose(coverage, [0.25, 0.75, 1])
    np.testing.assert_allclose(risk, [0, 1 / 3, 0.5])
    np.testing.assert_allclose(thresholds, [0.9, 0.8, 0.6])
    weighted = risk_coverage_curve(*problem, sample_weight=[0, 1, 1, 2])
    np.testing.assert_allclose(weighted, [[0.5, 1], [0.5, 0.75], [0.8, 0.6]])


def test_weights_that_are_no_repetitions():
    problem = as_problem([0.9, 0.8], [True, False])
    with pytest.raises(ValueError, match=r"at least 1.* got a sum of 0\.5\. Multiply"):
        aurc_loss(*problem, sample_weight=[0.25, 0.25])


@pytest.mark.parametrize("name", ["confidence", "loss"])
def test_bad_options(name):
    with pytest.raises(ValueError, match=f"'{name}' parameter .* Got 'nothing'"):
        aurc_loss([0, 1], [0.2, 0.8], **{name: "nothing"})
