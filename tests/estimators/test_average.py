"""The average of classifiers that are trained on folds is calibrated."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.optimize import minimize_scalar
from sklearn.base import clone
from sklearn.datasets import make_classification, make_multilabel_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import (
    RepeatedStratifiedKFold,
    StratifiedKFold,
    TimeSeriesSplit,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from sklearn_calib import CalibratedClassifier
from sklearn_calib._expressions.rows import pool
from sklearn_calib.calibrators import PlattScaling, TemperatureScaling, VennAbers
from sklearn_calib.estimators._calibrated.average import fit_pool

X, Y = make_classification(
    900, n_features=10, n_informative=5, n_classes=3, flip_y=0.2, random_state=0
)
TRAIN, TEST = slice(0, 300), slice(300, None)
FOREST = RandomForestClassifier(5, max_depth=4, random_state=0)


def fitted(*arguments, **options):
    return CalibratedClassifier(*arguments, **options).fit(X[TRAIN], Y[TRAIN])


@cache
def fitted_to_margins():
    return fitted(LinearSVC(random_state=0))


def draw_members(n_samples, variance, n_members, seed=0):
    """Return calibrated probabilities of classifiers, and labels.

    The log-odds of the classifiers are the true ones plus independent errors.
    """
    rng = np.random.default_rng(seed)
    true = 2 * rng.normal(size=n_samples)
    y = (true + rng.logistic(size=n_samples) > 0).astype(int)
    errors = np.sqrt(variance) * rng.normal(size=(n_members, n_samples))
    logits = np.stack([np.zeros_like(errors), true + errors], axis=2)
    scaling = TemperatureScaling(from_logits=True)
    scaling.fit(np.concatenate(logits[:2]), np.tile(y, 2))
    return np.array([scaling.predict_proba(member) for member in logits]), y


def pool_of(members, y, n_members, weight=None):
    proba, rows = np.concatenate(members[:2]), np.tile(np.arange(len(y)), 2)
    labels = np.arange(members.shape[2])
    return fit_pool(proba, rows, y, weight, labels, n_members)


def temperature_of(*arguments):
    return pool_of(*arguments).temperature


@pytest.mark.parametrize("variance", [0.5, 4.0])
def test_pairs_tell_the_temperature_of_many(variance):
    members, y = draw_members(8_000, variance, 10)
    average = members.mean(axis=0)
    best = TemperatureScaling().fit(average, y).temperature_
    found = pool_of(members, y, 10)
    assert found.temperature == pytest.approx(best, abs=0.06)
    before = average.max(axis=1).mean() - np.mean(average.argmax(axis=1) == y)
    proba = pool(members, *found)
    after = proba.max(axis=1).mean() - np.mean(proba.argmax(axis=1) == y)
    assert abs(after) < 0.3 * abs(before)


def test_few_samples_do_not_leave_the_average_underconfident():
    """It is as well calibrated as its classifiers, in the mean of 20 draws."""

    def gap(proba, y):
        return proba.max(axis=1).mean() - np.mean(proba.argmax(axis=1) == y)

    added = []
    for seed in range(20):
        members, y = draw_members(1_200, 2.0, 8, seed)
        found = pool_of(members[:, :200], y[:200], 8)
        members, y = members[:, 200:], y[200:]
        single = np.mean([gap(member, y) for member in members])
        added.append(gap(pool(members, *found), y) - single)
    assert abs(np.mean(added)) < 0.008  # of -0.093 without calibration


def test_equal_members_are_an_average_already():
    members, y = draw_members(60, 0, 2)
    assert temperature_of(members, y, 10) > 0.999


def test_class_frequencies_stay():
    """A temperature alone would make rare classes rarer."""
    rng = np.random.default_rng(0)
    true = 2 * rng.normal(size=5000) - 4
    y = (true + rng.logistic(size=5000) > 0).astype(int)
    logits = true + 1.5 * rng.normal(size=(2, 5000))
    members = np.stack([np.zeros_like(logits), logits], axis=2)
    scaling = PlattScaling(from_logits=True)
    scaling.fit(np.concatenate(members), np.tile(y, 2))
    members = np.array([scaling.predict_proba(member) for member in members])
    frequency = members[:, :, 1].mean()
    found = pool_of(members, y, 6)
    assert found.temperature < 0.8
    assert pool(members, *found)[:, 1].mean() == pytest.approx(frequency, rel=1e-6)
    assert pool(members, found.temperature, 0)[:, 1].mean() < 0.95 * frequency


def test_perfect_averages_are_not_trusted():
    """A few rows without errors could have any temperature."""
    members = np.array([[[0.3, 0.7], [0.8, 0.2]] * 5, [[0.2, 0.8], [0.6, 0.4]] * 5])
    y = np.array([1, 0] * 5)
    assert 0.4 < temperature_of(members, y, 10) < 0.9


@given(st.integers(0, 2**32 - 1))
def test_laws_of_the_temperature(seed):
    members, y = draw_members(50, 1.0, 2, seed)
    expected = temperature_of(members, y, 6)
    assert 1 / 6 < expected <= 1
    order = np.random.default_rng(seed).permutation(50)
    assert temperature_of(members[:, order], y[order], 6) == pytest.approx(expected)
    assert temperature_of(members[:, :, ::-1], 1 - y, 6) == pytest.approx(expected)
    assert temperature_of(members[::-1], y, 6) == pytest.approx(expected)
    weight = 1.0 + np.arange(50) % 2
    repeated = np.repeat(np.arange(50), weight.astype(int))
    assert temperature_of(members[:, repeated], y[repeated], 6) == pytest.approx(
        temperature_of(members, y, 6, weight), abs=1e-5
    )


def test_default_has_better_averages_than_one_repeat():
    def gap_and_loss(seed, **options):
        tree = DecisionTreeClassifier(max_depth=6, random_state=seed)
        proba = fitted(tree, "temperature", **options).predict_proba(X[TEST])
        accuracy = np.mean(proba.argmax(axis=1) == Y[TEST])
        return proba.max(axis=1).mean() - accuracy, log_loss(Y[TEST], proba)

    before = np.mean([gap_and_loss(i, n_repeats=1, cv=5) for i in range(5)], axis=0)
    default = np.mean([gap_and_loss(i) for i in range(5)], axis=0)
    # The means of twenty trees: .035 instead of -.102, and .860 instead of .887.
    assert abs(default[0]) < abs(before[0]) / 2
    assert default[1] < before[1]


@pytest.mark.parametrize("n_repeats", [1, 2, 3])
def test_the_documented_formula(n_repeats):
    """Rebuilt from the Notes, with held-out predictions of classifiers trained here."""
    kept = (Y[TRAIN] == 0) | (np.arange(300) % 4 == 0)  # rare classes
    x, y = X[TRAIN][kept], Y[TRAIN][kept]
    weight = np.random.default_rng(0).uniform(0.5, 2, len(y))
    options = {"n_repeats": n_repeats}
    model = CalibratedClassifier(GaussianNB(), TemperatureScaling(), **options)
    model.fit(x, y, sample_weight=weight)
    folds = RepeatedStratifiedKFold(n_splits=4, random_state=0, **options)
    splits = list((folds if n_repeats > 1 else StratifiedKFold(4)).split(x, y))
    held_out, members = np.empty((n_repeats, len(y), 3)), []
    for k in range(n_repeats):
        own = splits[4 * k : 4 * k + 4]
        parts = [GaussianNB().fit(x[i], y[i], weight[i]) for i, _ in own]
        for part, (_, test) in zip(parts, own, strict=True):
            held_out[k, test] = part.predict_proba(x[test])
        scaling = TemperatureScaling().fit(held_out[k], y, sample_weight=weight)
        held_out[k] = scaling.predict_proba(held_out[k])
        proba = [part.predict_proba(X[TEST]) for part in parts]
        members += [scaling.predict_proba(each) for each in proba]
    found = model.predict_proba(X[TEST])
    if n_repeats == 1:
        np.testing.assert_allclose(found, np.mean(members, axis=0), rtol=1e-6)
        return
    first, second = held_out[:2]
    pi = np.average((first + second) / 2, axis=0, weights=weight)
    pair = ((first**0.5 + second**0.5) / 2) ** 2
    squares = [(each**2).sum(axis=1) for each in (first - pi, second - pi)]
    e = weight @ ((first - second) ** 2).sum(axis=1) / (weight @ sum(squares))

    def likelihood(p, t):
        q = pi * (p / pi) ** (1 / t)
        return weight @ np.log((q / q.sum(axis=1, keepdims=True))[np.arange(len(y)), y])

    def best(function, low, high):
        options = {"bounds": (low, high), "method": "bounded"}
        return minimize_scalar(lambda value: -function(value), **options).x

    s = best(lambda t: likelihood(first, t) + likelihood(second, t), 0.25, 4)
    rho = best(
        lambda r: (
            likelihood(pair, s * (1 - r / 2)) + e * np.log(r) + (1 - e) * np.log(1 - r)
        ),
        0,
        1,
    )
    temperature = 1 - rho * (1 - 1 / (4 * n_repeats))
    assert model.pool_temperature_ == pytest.approx(temperature, abs=2e-5)
    b = model.pool_offset_
    q = pair ** (1 / temperature) * np.exp(b)
    mean = np.average(q / q.sum(axis=1, keepdims=True), axis=0, weights=weight)
    np.testing.assert_allclose([*mean, b.sum()], [*pi, 0], atol=1e-5)
    q = np.mean(np.sqrt(members), axis=0) ** (2 / temperature) * np.exp(b)
    expected = q / q.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found, expected, atol=2e-5)


def test_the_result_is_the_average_with_the_temperature():
    model = fitted(FOREST, TemperatureScaling())
    assert len(model.calibrated_classifiers_) == 8
    assert 0.5 < model.pool_temperature_ < 0.98
    pairs = model.calibrated_classifiers_
    assert pairs[0].calibrator is pairs[3].calibrator is not pairs[4].calibrator
    roots = [pair.predict_proba(X[TEST]) ** 0.5 for pair in pairs]
    average = np.mean(roots, axis=0) ** 2
    expected = average ** (1 / model.pool_temperature_) * np.exp(model.pool_offset_)
    expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict_proba(X[TEST]), expected)
    np.testing.assert_allclose(
        model.predict_proba(X[TEST][:1]), expected[:1], err_msg="one row alone"
    )
    plain = model.uncalibrated()
    assert plain.pool_temperature_ == 1
    assert len(plain.calibrated_classifiers_) == 8


@pytest.mark.parametrize(
    "options",
    [
        {"n_repeats": 1},
        {"cv": StratifiedKFold(3)},
        {"cv": TimeSeriesSplit(2)},
        {"cv": [(np.arange(100), np.arange(100, 300))]},
        {
            "cv": [
                (np.arange(90), np.arange(90, 300)),
                (np.arange(90), np.arange(90, 150)),
            ]
        },
        {"ensemble": False},
    ],
)
def test_without_second_predictions_it_is_one(options):
    assert fitted(GaussianNB(), TemperatureScaling(), **options).pool_temperature_ == 1


def test_frozen_classifiers_are_not_repeated():
    frozen = FrozenEstimator(GaussianNB().fit(X[TEST], Y[TEST]))
    model = fitted(frozen, TemperatureScaling(), ensemble=True)
    temperatures = {
        pair.calibrator.temperature_ for pair in model.calibrated_classifiers_
    }
    assert len(temperatures) == 4
    assert model.pool_temperature_ == 1


def test_a_repeated_splitter_has_a_map_for_each_fold():
    folds = RepeatedStratifiedKFold(n_splits=2, n_repeats=2, random_state=0)
    model = fitted(FOREST, TemperatureScaling(), cv=folds)
    temperatures = {
        pair.calibrator.temperature_ for pair in model.calibrated_classifiers_
    }
    assert len(temperatures) == 4
    assert 0.5 < model.pool_temperature_ < 1


def test_each_label_has_a_temperature():
    X, Y = make_multilabel_classification(200, n_classes=3, random_state=0)
    model = CalibratedClassifier(FOREST, "platt").fit(X, Y)
    temperature = model.pool_temperature_
    assert temperature.shape == (3,)
    pairs = model.calibrated_classifiers_
    probas = np.array([pair.predict_proba(X) for pair in pairs])
    odds = (probas**0.5).mean(axis=0) ** 2 / ((1 - probas) ** 0.5).mean(axis=0) ** 2
    odds = odds ** (1 / temperature) * np.exp(model.pool_offset_)
    np.testing.assert_allclose(model.predict_proba(X), odds / (1 + odds))


def test_intervals_contain_the_probability_of_two_classes():
    y = np.array(["no", "yes", "yes"])[Y]
    model = CalibratedClassifier(FOREST, VennAbers()).fit(X[TRAIN], y[TRAIN])
    assert model.pool_temperature_ < 1
    low, high = np.moveaxis(model.predict_interval(X[TEST]), 2, 0)
    proba = model.predict_proba(X[TEST])
    assert (low <= proba).all()
    assert (proba <= high).all()


def test_explanation_in_words():
    text = fitted(GaussianNB(), TemperatureScaling(), n_repeats=1).explanation_
    assert text.startswith("Average of 4 classifiers, which is not calibrated again.")
    assert "Calibrator of classifiers 1 to 4: TemperatureScaling" in text
    model = fitted_to_margins()
    temperature = round(model.pool_temperature_, 3)
    assert f"calibrated with the temperature {temperature}." in model.explanation_
    assert "Calibrator of classifiers 5 to 8: VectorScaling(" in model.explanation_
    assert "of all margins, then: Weighted average" in model.explanation_
    assert "VennAbers(): log loss" in model.explanation_
    single = fitted(GaussianNB(), None).explanation_
    assert single == "One classifier. Calibrator: None"


def test_explanations_of_many_labels_are_short():
    y = np.random.default_rng(0).integers(2, size=(20, 3))
    model = CalibratedClassifier(KNeighborsClassifier(3), "platt", cv=2)
    text = model.fit(X[:20], y).explanation_
    assert "Calibrator of classifiers 1 to 4: labels 0 to 2: PlattScaling" in text
    pairs = model.calibrated_classifiers_
    for pair in pairs:  # of margins, "auto" has a fit for each label
        of_labels = pair.calibrator.calibrators_
        of_labels[:] = [TemperatureScaling(), PlattScaling()] * 20
    lines = model.explanation_.splitlines()
    assert len(lines) == 30
    assert lines[1].startswith("Calibrator of classifiers 1 to 4: label 0: Temp")
    assert lines[-1] == "... and 12 more lines: see calibrated_classifiers_"


def test_margins_are_calibrated_by_default():
    model = fitted_to_margins()
    loss = log_loss(Y[TEST], model.predict_proba(X[TEST]))
    platt = clone(model).set_params(calibrator=PlattScaling())
    platt.fit(X[TRAIN], Y[TRAIN])
    assert loss < log_loss(Y[TEST], platt.predict_proba(X[TEST])) + 0.02
    # The unit does not matter.
    logistic = fitted(LogisticRegression(), cv=2, n_repeats=1)
    assert "before calibration" in logistic.explanation_


def test_bad_repeats():
    with pytest.raises(ValueError, match="n_repeats"):
        fitted(GaussianNB(), n_repeats=0)
