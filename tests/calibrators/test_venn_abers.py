"""The intervals of `VennAbers`: p0 and p1, also of `CalibratedClassifier`."""

from fractions import Fraction
from itertools import accumulate

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import expit, log_softmax
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.isotonic import IsotonicRegression
from sklearn.naive_bayes import GaussianNB

from sklearn_calib import CalibratedClassifier
from sklearn_calib.calibrators import IsotonicCalibration, VennAbers

pytestmark = pytest.mark.filterwarnings("ignore:VennAbers needs about")


def draw(n_samples=400, n_classes=3, random_state=0):
    """Return overconfident logits and their labels."""
    rng = np.random.default_rng(random_state)
    logits = rng.normal(size=(n_samples, n_classes))
    y = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    return 3 * logits, y


def test_interval_is_both_isotonic_regressions():
    """By scikit-learn, with the test sample labelled 0 and then 1."""
    rng = np.random.default_rng(0)
    proba, new = rng.uniform(size=50), rng.uniform(size=9)
    y = (rng.uniform(size=50) < proba**2).astype(int)
    expected = [
        [
            IsotonicRegression()
            .fit(np.append(proba, sample), np.append(y, label))
            .predict([sample])[0]
            for label in (0, 1)
        ]
        for sample in new
    ]
    interval = VennAbers().fit(proba, y).predict_interval(new)
    assert interval.shape == (9, 2, 2)
    assert_allclose(interval[:, 1], expected, rtol=1e-9)
    assert_allclose(interval[:, 0], 1 - np.array(expected)[:, ::-1], rtol=1e-9)


def test_interval_with_weights_and_ties():
    """By the max-min formula of isotonic regression, in exact arithmetic."""
    rng = np.random.default_rng(0)
    for scale in (0.01, 1.0, 100.0):
        weight = scale * rng.exponential(size=20)
        proba = rng.integers(1, 10, size=20) / 10
        y = (rng.uniform(size=20) < proba).astype(int)
        calibrator = VennAbers().fit(proba, y, sample_weight=weight)
        new = np.arange(21) / 20
        interval = calibrator.predict_interval(np.clip(new, 0.01, 0.99))[:, 1]
        expected = [
            [exact_value(proba, y, weight, sample, label) for label in (0, 1)]
            for sample in new
        ]
        assert_allclose(interval, expected, rtol=1e-12, atol=1e-14)


def exact_value(proba, y, weight, new, label):
    """Return the isotonic value at a new sample with that label and weight 1."""
    samples = [*zip(proba, y, weight, strict=True), (new, label, 1)]
    groups = sorted(set(proba) | {new})
    mass, positives = ([Fraction(0)] * (len(groups) + 1) for _ in range(2))
    for score, target, weight in samples:
        after = groups.index(score) + 1
        mass[after] += Fraction(weight)
        positives[after] += Fraction(weight) * int(target)
    mass, positives = list(accumulate(mass)), list(accumulate(positives))
    index = groups.index(new)
    return float(
        max(
            min(
                (positives[b] - positives[a]) / (mass[b] - mass[a])
                for b in range(index + 1, len(mass))
            )
            for a in range(index + 1)
        )
    )


def test_maps_contain_steps_only():
    logits, y = draw(2000, n_classes=2)
    score, p0, p1 = VennAbers(from_logits=True).fit(logits, y).maps_[0]
    assert len(p0) == len(p1) == len(score) + 1 < 400
    assert ((np.diff(p0) > 0) | (np.diff(p1) > 0)).all()


def test_probability_lies_in_the_interval_of_two_classes():
    logits, y = draw(n_classes=2)
    calibrator = VennAbers(from_logits=True).fit(logits, y)
    low, high = np.moveaxis(calibrator.predict_interval(logits), 2, 0)
    proba = calibrator.predict_proba(logits)
    assert (low <= proba + 1e-12).all()
    assert (proba <= high + 1e-12).all()
    assert_allclose(proba[:, 1], high[:, 1] / (1 - low[:, 1] + high[:, 1]))


def test_interval_of_many_classes_is_that_of_each_class_against_the_rest():
    logits, y = draw()
    X_test = log_softmax(draw(50, random_state=1)[0], axis=1)
    interval = VennAbers(from_logits=True).fit(logits, y).predict_interval(X_test)
    assert interval.shape == (50, 3, 2)
    for k in range(3):
        odds, test = (
            x[:, k] - np.logaddexp.reduce(np.delete(x, k, axis=1), axis=1)
            for x in (logits, X_test)
        )
        binary = VennAbers(from_logits=True).fit(odds, y == k)
        assert_allclose(interval[:, k], binary.predict_interval(test)[:, 1])
    assert (interval[:, :, 0] <= interval[:, :, 1]).all()


def test_interval_shrinks_with_the_number_of_samples():
    test = draw(500, random_state=1)[0]
    widths = [
        np.ptp(
            VennAbers(from_logits=True).fit(*draw(n)).predict_interval(test), axis=2
        ).mean()
        for n in (50, 500, 5000)
    ]
    assert widths[0] > 2 * widths[1] > 4 * widths[2] > 0


def test_interval_keeps_the_precision_and_takes_any_input():
    calibrator = VennAbers().fit([0.1, 0.4, 0.6, 0.9], ["a", "b", "a", "b"])
    proba = np.array([0.0, 0.2, 0.5, 0.8, 1.0])
    single = calibrator.predict_interval(proba.astype(np.float32))
    assert single.dtype == np.float32
    assert_allclose(calibrator.predict_interval(proba.tolist()), single, rtol=1e-6)
    assert_allclose(calibrator.predict_interval([0.2]), single[1:2], rtol=1e-6)
    with pytest.raises(NotFittedError):
        VennAbers().predict_interval(proba)
    with pytest.raises(ValueError, match="Input X contains NaN"):
        calibrator.predict_interval([0.1, np.nan])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:y contains no samples of")
def test_the_value_of_the_true_label_is_calibrated():
    """Among samples with a similar value, its mean is the frequency of the class."""
    rng = np.random.default_rng(0)
    values, labels = np.empty((500, 4)), np.empty((500, 4))
    for i in range(500):
        score = rng.normal(size=14)
        y = (rng.uniform(size=14) < expit(2 * score - 1)).astype(int)
        calibrator = VennAbers(from_logits=True)
        calibrator.fit(score[:10], y[:10], labels=[0, 1])
        interval = calibrator.predict_interval(score[10:])
        values[i] = interval[np.arange(4), 1, y[10:]]
        labels[i] = y[10:]
    values, labels = values.ravel(), labels.ravel()
    for part in np.array_split(np.argsort(values), 5):
        error = (labels - values)[part]
        assert abs(error.mean()) <= 4 * error.std() / np.sqrt(len(part))


def test_interval_of_a_frozen_classifier_is_that_of_its_calibrator():
    X, y = draw()
    frozen = FrozenEstimator(GaussianNB().fit(X[:100], y[:100]))
    model = CalibratedClassifier(frozen, VennAbers()).fit(X[100:], y[100:])
    calibrator = VennAbers().fit(frozen.predict_proba(X[100:]), y[100:])
    expected = calibrator.predict_interval(frozen.predict_proba(X))
    assert_allclose(model.predict_interval(X), expected)


def test_interval_of_an_ensemble_is_averaged():
    X, y = draw(n_classes=2)
    names = np.array(["no", "yes"])[y]
    model = CalibratedClassifier(GaussianNB(), VennAbers(), n_repeats=1).fit(X, names)
    expected = np.mean(
        [
            pair.calibrator.predict_interval(pair.estimator.predict_proba(X))
            for pair in model.calibrated_classifiers_
        ],
        axis=0,
    )
    assert_allclose(model.predict_interval(X), expected)


@pytest.mark.parametrize("calibrator", [None, IsotonicCalibration()])
def test_other_calibrators_have_no_interval(calibrator):
    model = CalibratedClassifier(GaussianNB(), calibrator, cv=3)
    assert not hasattr(model, "predict_interval")
    assert hasattr(model.set_params(calibrator=VennAbers()), "predict_interval")
    model.set_params(calibrator=calibrator).fit(*draw())
    with pytest.raises(AttributeError) as error:
        model.predict_interval([[0.0, 0.0, 0.0]])
    message = str(error.value.__cause__)
    assert f"got {calibrator!r}. Use predict_proba" in message
