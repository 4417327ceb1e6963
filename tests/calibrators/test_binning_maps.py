"""Histogram binning, scaling-binning, BBQ, ENIR and Venn-Abers: exact values."""

import numpy as np
import pytest
from scipy.optimize import isotonic_regression
from scipy.special import betaln, expit

from sklearn_calib.calibrators import (
    BBQ,
    ENIR,
    EnsembleTemperatureScaling,
    HistogramBinning,
    ScalingBinning,
    VennAbers,
)


def recorded_values(recorded):
    return {case["id"]: case["values"] for case in recorded["expected"]}


def binary_problem(recorded):
    inputs = recorded["inputs"]["binary"]
    names = "fit_scores", "fit_labels", "test_scores"
    return tuple(np.array(inputs[name]) for name in names)


def before_mixing(fitted, scores):
    """Return the values of the map of the second class."""
    return fitted._apply_maps(scores[:, None])[:, 0]


@pytest.mark.parametrize("n_bins", [5, 10])
def test_recorded_histograms(reference, n_bins):
    recorded = reference("cal_histogram_binning")
    scores, y, test = binary_problem(recorded)
    values = recorded_values(recorded)
    for strategy, name in (
        ("uniform", f"torch_uncertainty-{n_bins}"),
        ("quantile", f"verified-equalmass-{n_bins}"),
    ):
        fitted = HistogramBinning(n_bins=n_bins, strategy=strategy).fit(scores, y)
        expected = values[name]["test_probs"]
        # The first is clipped at 1e-6.
        np.testing.assert_allclose(before_mixing(fitted, test), expected, atol=1.1e-6)
    np.testing.assert_allclose(fitted.maps_[0][0], values[name]["edges"][:-1])
    proba = fitted.predict_proba(test)[:, 1]
    prior = (y.sum() + 1) / (len(y) + 2)
    expected = (len(y) * np.array(expected) + prior) / (len(y) + 1)
    np.testing.assert_allclose(proba, expected)


@pytest.mark.parametrize("n_bins", [5, 10])
def test_recorded_scaling_binning(reference, n_bins):
    recorded = reference("cal_histogram_binning")
    scores, y, test = binary_problem(recorded)
    fitted = ScalingBinning(n_bins=n_bins).fit(scores, y)
    expected = recorded_values(recorded)[f"verified-plattbinner-{n_bins}"]["test_probs"]
    np.testing.assert_allclose(fitted.predict_proba(test)[:, 1], expected, atol=1e-3)


def test_empty_bins_have_their_middle():
    fitted = HistogramBinning(n_bins=4, strategy="uniform").fit([0.1, 0.9], [0, 1])
    np.testing.assert_allclose(fitted.maps_[0][1], [0, 0.375, 0.625, 1])


@pytest.mark.parametrize("seed", range(20))
def test_venn_abers_is_isotonic_regression_with_one_more_sample(seed):
    """Including ties and samples with zero weight."""
    rng = np.random.default_rng(seed)
    score = rng.normal(size=rng.integers(1, 20)).round(1 if seed % 2 else 3)
    target = (rng.uniform(size=score.size) < expit(2 * score)).astype(float)
    weight = rng.integers(0, 3, size=score.size).astype(float)
    weight[0] = 1
    points = np.append(score, rng.normal(size=5))

    def regression(point, label):
        value, group = np.unique(np.append(score, point), return_inverse=True)
        mass = np.bincount(group, np.append(weight, 1))
        positives = np.bincount(group, np.append(weight * target, label))
        value, mass, positives = (a[mass > 0] for a in (value, mass, positives))
        fitted = isotonic_regression(positives / mass, weights=mass).x
        return fitted[value == point][0]

    low, high = (np.array([regression(s, y) for s in points]) for y in (0, 1))
    fitted = VennAbers()
    fitted.maps_ = [fitted._fit_map(score, target, weight)]
    proba = before_mixing(fitted, points)
    np.testing.assert_allclose(proba, high / (1 - low + high), rtol=1e-12)
    limits = np.hstack(fitted._limits(points[:, None])).T
    np.testing.assert_allclose(limits, [low, high], rtol=1e-12)


def test_venn_abers_is_never_certain():
    proba = (
        VennAbers().fit([0.1, 0.2, 0.8, 0.9], [0, 0, 1, 1]).predict_proba([0.0, 1.0])
    )
    # Isotonic regression with one more positive below two negatives is 1/3; p0 is 0.
    np.testing.assert_allclose(proba[:, 1], [1 / 3 / (1 + 1 / 3), 1 / (1 - 2 / 3 + 1)])


def test_recorded_bayesian_binning(reference):
    """The results differ only by the histograms that the authors' code omits."""
    recorded = reference("cal_bbq")
    scores, y, test = binary_problem(recorded)
    expected = recorded_values(recorded)["matlab-BDeu2"]["model_average"]
    proba = before_mixing(BBQ().fit(scores, y), test)
    np.testing.assert_allclose(proba, expected, atol=1.2e-3)


def test_bayesian_binning_by_hand():
    """For 12 samples with three values, there are histograms of 1, 2 and 3 bins."""
    score, y = (
        np.repeat([0.2, 0.4, 0.9], 4),
        np.array([0, 0, 0, 1, 0, 1, 0, 1, 1, 1, 1, 0]),
    )
    evidence, value = [], []
    for bins in ([[0, 1, 2]], [[0, 1], [2]], [[0], [1], [2]]):
        edges = {0: (0, 0.3), 1: (0.3, 0.65), 2: (0.65, 1)}
        total, proba = 0.0, np.empty(3)
        for members in bins:
            middle = (edges[members[0]][0] + edges[members[-1]][1]) / 2
            inside = np.isin(score, np.array([0.2, 0.4, 0.9])[members])
            positives, n = y[inside].sum(), inside.sum()
            a, b = 2 * middle, 2 * (1 - middle)
            total += betaln(positives + a, n - positives + b) - betaln(a, b)
            q = (score[inside] @ y[inside] + middle) / (positives + 1)
            proba[members] = (positives + q) / (n + 1)
        evidence.append(total)
        value.append(proba)
    share = np.exp(evidence) / np.exp(evidence).sum()
    proba = BBQ().fit(score, y).predict_proba([0.2, 0.4, 0.9])[:, 1]
    np.testing.assert_allclose(proba, share @ value)


def test_recorded_mixtures(reference):
    recorded = reference("cal_mixnmatch")
    inputs = recorded["inputs"]["multiclass"]
    for objective, name in (("brier", "ets-mse"), ("nll", "ets-ce")):
        fitted = EnsembleTemperatureScaling(objective=objective, from_logits=True)
        fitted.fit(np.array(inputs["fit_logits"]), inputs["fit_labels"])
        expected = recorded_values(recorded)[name]
        assert fitted.temperature_ == pytest.approx(expected["temperature"], rel=1e-6)
        np.testing.assert_allclose(fitted.weights_, expected["weights"], atol=1e-5)
        proba = fitted.predict_proba(np.array(inputs["test_logits"]))
        np.testing.assert_allclose(proba, expected["test_probs"], atol=1e-6)


def test_mixture_ignores_samples_of_weight_zero():
    """Their true class may have a probability of zero, whose logarithm is infinite."""
    logits = np.array([[0, 1e8, 0], [2, 0, 1], [0, 2.0, 1], [2, 0, 1]])
    y, weight = [2, 0, 1, 2], np.array([0, 1, 1, 1])
    fitted = EnsembleTemperatureScaling(from_logits=True)
    weights = fitted.fit(logits, y, weight).weights_
    expected = fitted.fit(logits[1:], y[1:]).weights_
    np.testing.assert_allclose(weights, expected, atol=1e-9)


@pytest.mark.filterwarnings("ignore:The temperature")
def test_mixture_of_chances():
    """If labels are independent of logits, uniform probabilities get all the weight."""
    rng = np.random.default_rng(0)
    logits, y = 3 * rng.normal(size=(2000, 3)), rng.integers(0, 3, size=2000)
    fitted = EnsembleTemperatureScaling(from_logits=True).fit(logits, y)
    proba = fitted.predict_proba(logits)
    assert np.abs(proba - 1 / 3).max() < 0.1
    np.testing.assert_array_equal(proba.argmax(axis=1), logits.argmax(axis=1))


def test_near_isotonic_ensemble_by_hand():
    """The map is 0, 0.5, 1 where 0.4 and 0.6 have merged; no map is wrong with 0."""
    score, y = [0.2, 0.4, 0.6, 0.8], [0, 1, 0, 1]
    before, after = ENIR().fit(score, y).maps_[0]
    np.testing.assert_allclose(before, score)
    # A group of two with one positive, as predicted: one more sample. The other
    # predictions differ by 0.2.
    np.testing.assert_allclose(after, [0.2 * 0.8 / 1.8, 0.5, 0.5, (1 + 0.64) / 1.8])


def test_near_isotonic_ensemble_may_fall():
    """The map decreases, which isotonic regression cannot do."""
    rng = np.random.default_rng(0)
    score = rng.uniform(size=3000)
    true = np.where(score < 0.5, 0.8, 0.2)
    y = rng.uniform(size=3000) < true
    proba = ENIR().fit(score, y).predict_proba([0.25, 0.75])[:, 1]
    np.testing.assert_allclose(proba, [0.8, 0.2], atol=0.05)
