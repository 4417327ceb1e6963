"""Values of the areas under the risk-coverage curves."""

from itertools import pairwise, permutations

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from scipy.special import softmax

from sklearn_calib import losses
from sklearn_calib.metrics import (
    augrc_loss,
    aurc_loss,
    excess_aurc_loss,
    failure_auroc_score,
)

WITH_TIES = {"edge", "exact"}


def as_problem(confidence, correct):
    """Return labels and two columns with these confidences of the predicted class."""
    confidence, correct = np.asarray(confidence), np.asarray(correct, dtype=bool)
    return np.where(correct, 0, 1), np.column_stack([confidence, 1 - confidence])


def clipped_log(codes, proba):
    """Return the log loss as defined in the recorded program."""
    return -np.log(np.clip(proba[np.arange(len(proba)), codes], 1e-9, 1))


def mean_area(losses):
    """Return the mean over k of the mean loss of the first k."""
    count = np.arange(1, losses.shape[-1] + 1)
    return np.mean(np.cumsum(losses, axis=-1) / count)


def harmonic_area(losses):
    """Return the mean of H_n - H_(n - r) times the loss, where the first has rank n."""
    n = losses.shape[-1]
    harmonic = np.append(0, np.cumsum(1 / np.arange(1, n + 1)))
    rank = np.arange(n, 0, -1)
    return np.mean((harmonic[n] - harmonic[n - rank]) * losses)


def population_area(losses):
    """Return the mean of -log(1 - r / (n + 1)) times the loss."""
    n = losses.shape[-1]
    return np.mean(-np.log(1 - np.arange(n, 0, -1) / (n + 1)) * losses)


AREAS = {
    "mean": mean_area,
    "harmonic": harmonic_area,
    "population": population_area,
}
all_areas = pytest.mark.parametrize("estimator", AREAS)


def cases(recorded, name):
    """Yield each recorded case of a program with its data."""
    for case in recorded["expected"]:
        if case["id"].endswith(name):
            inputs = recorded["inputs"][case["input"]]
            proba = np.array(inputs["probs"])
            options = {"labels": range(proba.shape[1])}
            yield case, (np.array(inputs["labels"]), proba), options


def test_mean_and_excess(reference):
    """The mean of risks of Moon et al. 2020."""
    for case, data, options in cases(reference("metric_aurc"), "crl"):
        if case["input"] not in WITH_TIES:
            for name, metric in {"aurc": aurc_loss, "eaurc": excess_aurc_loss}.items():
                value = metric(*data, **options)
                assert value == pytest.approx(case["values"][name], rel=1e-12)


def test_excess_over_the_best_order_of_the_samples():
    """The best order has all correct predictions before all wrong ones."""
    rng = np.random.default_rng(0)
    confidence = rng.integers(60, 99, size=997) / 100
    correct = rng.uniform(size=997) < confidence
    problem = as_problem(confidence, correct)
    wrong, risk = np.sort(~correct), np.mean(~correct)
    excess = {
        "finite": mean_area(wrong),
        "asymptotic": risk + (1 - risk) * np.log(1 - risk),
    }
    for optimum, best in excess.items():
        value = excess_aurc_loss(*problem, optimum=optimum)
        assert value == pytest.approx(aurc_loss(*problem) - best, rel=1e-12)
    # Weights count samples.
    weight = np.arange(997) % 3
    repeated = [np.repeat(each, weight, axis=0) for each in problem]
    value = excess_aurc_loss(*problem, optimum="finite", sample_weight=weight)
    assert value == pytest.approx(excess_aurc_loss(*repeated, optimum="finite"))


@given(st.integers(0, 9), st.integers(0, 9))
def test_excess_of_a_perfect_ranking(n_correct, n_wrong):
    n_samples = n_correct + n_wrong + 1
    problem = as_problem(
        np.linspace(0.9, 0.6, n_samples), np.arange(n_samples) <= n_correct
    )
    assert excess_aurc_loss(*problem, optimum="finite", labels=[0, 1]) == 0


@pytest.mark.parametrize(
    ("program", "loss"), [("zhou-01", "zero_one"), ("zhou-ce", clipped_log)]
)
def test_weights(reference, program, loss):
    """The harmonic and the population weights of Zhou et al. 2025."""
    for case, data, options in cases(reference("metric_aurc"), program):
        if case["input"] in WITH_TIES:
            continue
        for estimator, name in {"harmonic": "em", "population": "ln"}.items():
            value = aurc_loss(*data, estimator=estimator, loss=loss, **options)
            assert value == pytest.approx(case["values"][name], rel=1e-12)


def test_trapezoid_and_generalised(reference):
    """The areas of fd-shifts, which interpolates linearly and multiplies by 1000."""
    for case, data, options in cases(reference("metric_aurc"), "fd-shifts"):
        area = aurc_loss(*data, estimator="trapezoid", **options)
        generalised = augrc_loss(*data, **options)
        expected = case["values"]["aurc"], case["values"]["augrc"]
        assert (1000 * area, 1000 * generalised) == pytest.approx(expected, rel=1e-12)


@all_areas
@pytest.mark.parametrize("name", sorted(WITH_TIES))
def test_recorded_values_with_ties(reference, name, estimator):
    """Recorded values are for one order of the ties, ours are the mean over all."""
    ((case, (y_true, proba), options),) = [
        found
        for found in cases(reference("metric_aurc"), "zhou-01")
        if found[0]["input"] == name
    ]
    rng = np.random.default_rng(0)
    confidence, wrong = proba.max(axis=1), proba.argmax(axis=1) != y_true
    area = AREAS[estimator]
    ours = aurc_loss(y_true, proba, estimator=estimator, **options)
    best = area(wrong[np.lexsort((wrong, -confidence))])
    worst = area(wrong[np.lexsort((~wrong, -confidence))])
    other = case["values"]["ln" if estimator == "population" else "em"]
    assert best < ours < worst
    assert best - 1e-12 < other < worst + 1e-12
    drawn = rng.random((4000, len(wrong)))
    orders = np.lexsort((drawn, np.broadcast_to(-confidence, drawn.shape)))
    assert ours == pytest.approx(area(wrong[orders]), rel=3e-3)


@all_areas
@given(st.lists(st.tuples(st.integers(0, 2), st.booleans()), min_size=1, max_size=6))
def test_mean_over_all_orders_of_ties(estimator, samples):
    """The reference is the mean over all permutations."""
    confidence = [(7 + level) / 10 for level, _ in samples]
    orders = [
        [not correct for _, correct in order]
        for order in permutations(samples)
        if all(a[0] >= b[0] for a, b in pairwise(order))
    ]
    problem = as_problem(confidence, [correct for _, correct in samples])
    expected = np.mean([AREAS[estimator](np.array(wrong)) for wrong in orders])
    value = aurc_loss(*problem, estimator=estimator, labels=[0, 1])
    assert value == pytest.approx(expected, rel=1e-12)


@all_areas
def test_many_samples(estimator):
    """Precision is not lost if 1 / k or log k is a difference of large numbers."""
    rng = np.random.default_rng(0)
    confidence = rng.uniform(0.5, 1, size=200_000)
    correct = rng.uniform(size=200_000) < confidence
    expected = AREAS[estimator](~correct[np.argsort(-confidence)])
    value = aurc_loss(*as_problem(confidence, correct), estimator=estimator)
    assert value == pytest.approx(expected, rel=1e-11)


def test_estimators_agree_in_the_limit():
    rng = np.random.default_rng(0)
    confidence = rng.uniform(0.5, 1, size=50_000)
    problem = as_problem(confidence, rng.uniform(size=50_000) < confidence)
    mean = aurc_loss(*problem)
    for estimator in ("population", "trapezoid"):
        value = aurc_loss(*problem, estimator=estimator)
        assert value != mean
        assert value == pytest.approx(mean, abs=1e-3)


@pytest.mark.parametrize("estimator", ["mean", "harmonic", "trapezoid"])
def test_uninformative_confidence_gives_the_error_rate(estimator):
    problem = as_problem([0.7] * 10, [True] * 8 + [False] * 2)
    assert aurc_loss(*problem, estimator=estimator) == pytest.approx(0.2)
    assert augrc_loss(*problem) == pytest.approx(0.1)


@pytest.mark.parametrize("n_wrong", [1, 10, 40, 100])
def test_perfect_ranking_has_almost_no_excess(n_wrong):
    """The excess of n samples is at most r / n, with the error rate r."""
    correct = np.arange(100) < 100 - n_wrong
    problem = as_problem(np.linspace(1, 0.6, 100), correct)
    excess = excess_aurc_loss(*problem, labels=[0, 1])
    assert -1e-15 <= excess <= n_wrong / 100 / 100


@pytest.mark.parametrize(
    ("weights", "metric", "options"),
    [
        ("harmonic", aurc_loss, {"estimator": "mean"}),
        ("harmonic", aurc_loss, {"estimator": "harmonic"}),
        ("log", aurc_loss, {"estimator": "population"}),
        ("sele", augrc_loss, {}),
    ],
)
def test_same_as_the_loss(weights, metric, options):
    """This holds without ties. The weights of the AUGRC are smaller by half a rank."""
    rng = np.random.default_rng(0)
    logits, codes = rng.normal(size=(50, 4)), rng.integers(4, size=50)
    batch = torch.from_numpy(logits), torch.from_numpy(codes)
    expected = losses.aurc_loss(*batch, weights=weights).item()
    if weights == "sele":
        expected -= losses.cross_entropy_loss(*batch).item() / (2 * len(codes))
    value = metric(codes, softmax(logits, axis=1), loss="log", **options)
    assert value == pytest.approx(expected, rel=1e-12)


@given(
    st.lists(st.tuples(st.integers(0, 9), st.booleans()), min_size=2, max_size=30),
    st.data(),
)
def test_generalised_area_is_that_of_the_roc_curve(samples, data):
    """r (1 - r) (1 - a) + r**2 / 2, with or without ties, in Traub et al. 2024."""
    correct = [True, False] + [correct for _, correct in samples]
    confidence = [0.75, 0.75] + [0.6 + level / 25 for level, _ in samples]
    weight = data.draw(
        st.lists(st.floats(0.1, 5), min_size=len(correct), max_size=len(correct))
    )
    problem, options = as_problem(confidence, correct), {"sample_weight": weight}
    error = np.average(~np.array(correct), weights=weight)
    auroc = failure_auroc_score(*problem, **options)
    expected = error * (1 - error) * (1 - auroc) + error**2 / 2
    assert augrc_loss(*problem, **options) == pytest.approx(expected, rel=1e-12)


@all_areas
def test_weights_that_are_not_integers(estimator):
    problem, options = as_problem([0.9, 0.8], [True, False]), {"estimator": estimator}
    with pytest.raises(ValueError, match=r"at least 1.* got a sum of 0\.5\. Multiply"):
        aurc_loss(*problem, sample_weight=[0.25, 0.25], **options)


def test_scale_of_weights_where_it_does_not_matter():
    problem = as_problem([0.9, 0.8, 0.7], [True, False, True])
    for metric, options in [
        (aurc_loss, {"estimator": "trapezoid"}),
        (augrc_loss, {}),
    ]:
        expected = metric(*problem, **options)
        value = metric(*problem, sample_weight=[1e-3] * 3, **options)
        assert value == pytest.approx(expected, rel=1e-12)


def test_unknown_estimator():
    with pytest.raises(ValueError, match=r"'estimator' parameter .* Got 'em'"):
        aurc_loss([0, 1], [0.2, 0.8], estimator="em")
