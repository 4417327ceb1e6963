"""Variational calibration error: the authors' numbers, the bound, and odd input."""

from functools import partial

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier

from sklearn_calib.calibrators import (
    IsotonicCalibration,
    TemperatureScaling,
)
from sklearn_calib.metrics import variational_calibration_error

RECALIBRATIONS = {each: eval(each) for each in ("GaussianNB()", "LogisticRegression()")}
NORMS = {"l1": 1, "l2": 2, "max": np.inf}
ALL_NORMS = pytest.mark.parametrize("norm", NORMS)


class PowerScaling(ClassifierMixin, BaseEstimator):
    """A recalibration that does not depend on the labels."""

    def __init__(self, power=1.0):
        self.power = power

    def fit(self, X, y, sample_weight=None):  # noqa: ARG002
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        return scaled(X, self.power)


def scaled(proba, power):
    """Return powers of probabilities that sum to one."""
    proba = proba**power
    return proba / proba.sum(axis=1, keepdims=True)


def draw(rng, n_samples, n_classes=3, power=0.5):
    """Draw labels, and probabilities whose powers are the true probabilities."""
    proba = rng.dirichlet(np.ones(n_classes), size=n_samples)
    below = rng.uniform(size=(n_samples, 1)) >= scaled(proba, power).cumsum(axis=1)
    return below[:, :-1].sum(axis=1), proba


def test_numbers_of_the_authors(reference):
    recorded = reference("metric_variational")
    for case in recorded["expected"]:
        proba, y, fold = map(np.array, recorded["inputs"][case["input"]].values())
        options = case["params"]
        options = {**options, "recalibration": RECALIBRATIONS[options["recalibration"]]}
        options["cv"] = [
            (np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(4)
        ]
        value = variational_calibration_error(y, proba, **options)
        assert value == pytest.approx(case["values"]["value"], rel=1e-9), case["id"]


@ALL_NORMS
@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_expectation_is_a_lower_bound(norm, n_classes):
    """It is the calibration error for the true probabilities as recalibration.

    Each sample has each class, with the true probabilities as weights.
    """
    _, proba = draw(np.random.default_rng(0), 40, n_classes)
    truth = scaled(proba, 0.5)
    error = np.linalg.norm(truth - proba, ord=NORMS[norm], axis=1).mean()
    every = np.arange(40 * n_classes)
    options = {"norm": norm, "cv": [(every, every)], "mode": "canonical"}
    expected = {}
    for power in (0.3, 0.5, 1.0, 2.0):
        expected[power] = variational_calibration_error(
            np.tile(range(n_classes), 40),
            proba.repeat(n_classes, axis=0),
            sample_weight=truth.ravel(),
            recalibration=PowerScaling(power),
            **options,
        )
    assert expected[0.5] == pytest.approx(error, rel=1e-12)
    assert max(expected.values()) <= error + 1e-12
    assert expected[1.0] == 0
    assert expected[2.0] < 0


def test_direction():
    """Predictions that are too far from 1/2 are overconfident."""
    y, proba = draw(np.random.default_rng(0), 1000, n_classes=2)
    measure = partial(variational_calibration_error, cv=2)
    for mode in ("positive", "top_label"):
        both, over, under = (
            measure(y, proba, mode=mode, direction=direction)
            for direction in ("both", "over", "under")
        )
        assert over + under == pytest.approx(both, rel=1e-12)
        assert over > 0.9 * both > 0.05
    sharper = scaled(proba, 0.2)
    assert measure(y, sharper, mode="top_label", direction="under") > 0.05


def test_binary_modes():
    """The sums over both columns are twice the error of the positive class."""
    y, proba = draw(np.random.default_rng(0), 300, n_classes=2)
    measure = partial(variational_calibration_error, cv=2)
    positive = measure(y, proba[:, 1])
    for norm, factor in {"l1": 2, "l2": 2**0.5, "max": 1}.items():
        value = measure(y, proba, norm=norm)
        assert value == pytest.approx(factor * positive, rel=1e-9)
    names = np.array(["no", "yes"])[y]
    assert measure(names, proba[:, 1], pos_label="yes") == positive


@pytest.mark.parametrize(
    "recalibration",
    ["spline", IsotonicCalibration(), TemperatureScaling(), LogisticRegression()],
)
def test_rare_classes(recalibration):
    """A class that the training samples of a fold, or all samples, lack."""
    y, proba = draw(np.random.default_rng(0), 100, n_classes=4)
    y[y == 3] = 0
    options = {"recalibration": recalibration, "labels": range(4), "cv": 2}
    values = [variational_calibration_error(y, proba, **options)]
    y[0] = 3
    values.append(variational_calibration_error(y, proba, **options))
    assert np.abs(values).max() <= 2
    certain = np.eye(4)[y]
    assert variational_calibration_error(y, certain, **options) == 0
    # The training samples have one label, which is then predicted with certainty.
    same = variational_calibration_error(np.zeros(9), proba[:9], **options)
    assert same == pytest.approx(2 * (1 - proba[:9, 0]).mean())


def test_weights():
    """Samples of weight zero count neither in training nor in testing."""
    rng = np.random.default_rng(0)
    y, proba = draw(rng, 200)
    kept = rng.uniform(size=200) < 0.7
    rows = np.flatnonzero(kept)
    for recalibration in ("spline", GaussianNB()):
        options = {"recalibration": recalibration, "sample_weight": kept * 2.0}
        value = variational_calibration_error(y, proba, cv=2, **options)
        options["sample_weight"] = np.full(len(rows), 2.0)
        few = variational_calibration_error(y[rows], proba[rows], cv=2, **options)
        assert value == pytest.approx(few, rel=1e-12)
        splits = [(rows[::2], rows[1::2])]
        given = variational_calibration_error(y, proba, cv=splits, **{
            **options, "sample_weight": kept * 2.0
        })  # fmt: skip
        more = [(np.r_[rows[::2], np.flatnonzero(~kept)], np.arange(200))]
        more[0] = more[0][0], np.r_[rows[1::2], np.flatnonzero(~kept)]
        again = variational_calibration_error(y, proba, cv=more, **{
            **options, "sample_weight": kept * 2.0
        })  # fmt: skip
        assert again == pytest.approx(given, rel=1e-12)


def test_splitters():
    y, proba = draw(np.random.default_rng(0), 200)
    splitter = KFold(4, shuffle=True, random_state=0)
    values = [
        variational_calibration_error(y, proba, recalibration=GaussianNB(), cv=cv)
        for cv in (splitter, list(splitter.split(proba, y)), 4, 4)
    ]
    assert values[0] == values[1] != values[2] == values[3]


def test_folds_of_one_sample_or_none():
    """The first fold has a single training row, and the second no test rows."""
    rng = np.random.default_rng(0)
    y, proba = rng.integers(2, size=30), rng.uniform(size=30)
    folds = [(0, 1), (np.arange(30), []), (np.arange(15), np.arange(15, 30))]
    error = variational_calibration_error(y, proba, cv=folds)
    expected = variational_calibration_error(y, proba, cv=folds[2:])
    # The first fold predicts the label of its training row.
    gain = np.sign(y[0] - proba[1]) * (y[1] - proba[1])
    assert error == pytest.approx((15 * expected + gain) / 16)


def test_refused():
    y, proba = draw(np.random.default_rng(0), 30)
    with pytest.raises(ValueError, match=r'direction must be "both".* got \'over\''):
        variational_calibration_error(y, proba, direction="over")
    with pytest.raises(ValueError, match="cv must yield test samples"):
        variational_calibration_error(y, proba, cv=[(np.arange(30), np.arange(0))])
    for cv in ([1, 2], [([0, 1], [30])], [(0, 1, 2)], GroupKFold(3)):
        message = rf"cv must yield the training .* {type(cv).__name__} raised"
        with pytest.raises(ValueError, match=message):
            variational_calibration_error(y, proba, cv=cv)
    with pytest.raises(ValueError, match="'C' parameter"):
        variational_calibration_error(y, proba, recalibration=LogisticRegression(C=-1))
    with pytest.raises(ValueError, match="'recalibration' parameter"):
        variational_calibration_error(y, proba, recalibration="temperature")
    with pytest.raises(ValueError, match=r"recalibration must .* KNeighbors"):
        variational_calibration_error(
            y, proba, recalibration=KNeighborsClassifier(), sample_weight=np.ones(30)
        )


def mean_error(recalibration, n_samples, n_draws, power=0.5, **options):
    """Return the mean over draws, its standard error, and the true error."""
    rng = np.random.default_rng(n_samples)
    values = [
        variational_calibration_error(
            *draw(rng, n_samples, power=power), recalibration=recalibration, **options
        )
        for _ in range(n_draws)
    ]
    _, proba = draw(rng, 100_000)
    change = scaled(proba, power) - proba
    norm = NORMS[options.get("norm", "l1")]
    true = np.linalg.norm(change, ord=norm, axis=1).mean()
    return np.mean(values), np.std(values, ddof=1) / np.sqrt(n_draws), true


@pytest.mark.slow
@ALL_NORMS
def test_the_bound_is_approached_from_below(norm):
    sizes = {100: 40, 3200: 8, 12800: 4}
    found = [
        mean_error("spline", n_samples, n_draws, power=0.75, norm=norm)
        for n_samples, n_draws in sizes.items()
    ]
    means, errors, true = np.transpose(found)
    assert (means <= true + 3 * errors).all()
    assert means[0] < 0.7 * true[0]
    assert means[-1] >= 0.95 * true[-1]


@pytest.mark.slow
def test_calibrated_predictions_have_the_mean_zero():
    """With stratified folds, the mean is positive."""
    mean, error, true = mean_error("spline", 100, 100, power=1.0)
    assert true == pytest.approx(0, abs=1e-12)
    assert abs(mean) < 3.5 * error < 0.05
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    biased, error, _ = mean_error("spline", 100, 100, power=1.0, cv=folds)
    assert biased > 3.5 * error
