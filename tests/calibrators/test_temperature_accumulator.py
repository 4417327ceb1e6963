"""Temperature from sums of chunks: accuracy, merging, files, errors."""

import json
import pickle
import warnings
from functools import cache

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from sklearn_calib.calibrators import TemperatureAccumulator, TemperatureScaling
from sklearn_calib.persistence import from_dict, to_dict

LABELS = ["ant", "bee", "cat"]


def make_problem(seed, n_classes=None):
    """Return logits in float32 whose temperature is between 0.2 and 10, and labels."""
    rng = np.random.default_rng(seed)
    if n_classes is None:
        n_classes = int(np.exp(rng.uniform(np.log(2), np.log(1000))))
    shape = min(1000, 75_000 // n_classes), n_classes
    scale, spread = np.exp(rng.uniform(np.log(0.5), np.log(6))), rng.uniform(1, 3)
    true = scale * rng.normal(size=shape) * spread ** rng.normal(size=(shape[0], 1))
    codes = (true + rng.gumbel(size=shape)).argmax(axis=1)
    temperature = np.exp(rng.uniform(np.log(0.2), np.log(10)))
    return (temperature * true).astype(np.float32), codes


@cache
def relative_error(seed):
    logits, codes = make_problem(seed)
    labels = range(logits.shape[1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        exact = TemperatureScaling(from_logits=True).fit(logits, codes, labels=labels)
        sums = TemperatureAccumulator(labels=labels, from_logits=True)
        once = sums.update(logits, codes).calibrator()
    return abs(once.temperature_ / exact.temperature_ - 1)


@pytest.mark.parametrize(
    "seeds", [range(20), pytest.param(range(300), marks=pytest.mark.slow)]
)
def test_error_is_below_the_bound(seeds):
    assert max(map(relative_error, seeds)) < 1e-4


def make_parts(from_logits=True):
    """Return predictions, labels and weights of three classes."""
    logits, codes = make_problem(0, n_classes=3)
    logits = logits.astype(np.float64)
    weight = np.random.default_rng(1).uniform(size=len(codes))
    proba = np.exp(logits / 4) / np.exp(logits / 4).sum(axis=1, keepdims=True)
    return logits if from_logits else proba, np.array(LABELS)[codes], weight


@pytest.mark.filterwarnings("ignore:TemperatureScaling needs about")
@pytest.mark.parametrize("from_logits", [True, False])
def test_merged_parts_equal_the_whole(from_logits):
    X, y, weight = make_parts(from_logits)
    new = {"labels": LABELS, "from_logits": from_logits}
    whole = TemperatureAccumulator(**new).update(X, y, weight)
    one = TemperatureAccumulator(**new).update(X[:100], y[:100], weight[:100])
    two = TemperatureAccumulator(**new).update(X[100:], y[100:], weight[100:])
    empty = TemperatureAccumulator(**new).update(X[:0], y[:0])
    zero = TemperatureAccumulator(**new).update(X[:5], y[:5], np.zeros(5))
    sent = from_dict(json.loads(json.dumps(to_dict(two))))
    merged = empty + zero + pickle.loads(pickle.dumps(one)) + sent
    np.testing.assert_allclose(merged.sums_, whole.sums_, rtol=1e-12)
    assert len(pickle.dumps(one)) < 1000
    fitted = merged.calibrator()
    exact = TemperatureScaling(from_logits=from_logits).fit(X, y, weight)
    assert vars(fitted).keys() == vars(exact).keys()
    assert fitted.n_errors_ == pytest.approx(exact.n_errors_, rel=1e-12)
    np.testing.assert_allclose(
        fitted.predict_proba(X), exact.predict_proba(X), atol=1e-4
    )
    np.testing.assert_array_equal(fitted.predict(X), exact.predict(X))


@pytest.mark.filterwarnings("ignore:TemperatureScaling needs about")
def test_bounds_are_those_of_a_fit():
    """All predictions are correct, or all are wrong, or there is nothing to scale."""
    logits = np.random.default_rng(0).normal(size=(40, 4))
    for X, y in [
        (logits, logits.argmax(axis=1)),
        (0.1 * logits, logits.argmin(axis=1)),
        (0 * logits, np.arange(40) % 4),
    ]:
        with pytest.warns(ConvergenceWarning) as expected:
            exact = TemperatureScaling(from_logits=True).fit(X, y, labels=range(4))
        sums = TemperatureAccumulator(labels=range(4), from_logits=True).update(X, y)
        with pytest.warns(ConvergenceWarning) as found:
            fitted = sums.calibrator()
        assert fitted.temperature_ == pytest.approx(exact.temperature_, rel=1e-3)
        assert str(found[0].message)[:50] == str(expected[0].message)[:50]


def test_errors():
    X, y, weight = make_parts()
    sums = TemperatureAccumulator(labels=LABELS, from_logits=True)
    with pytest.raises(NotFittedError, match="does not contain any samples"):
        sums.calibrator()
    with pytest.raises(NotFittedError, match="does not contain any samples"):
        from_dict(to_dict(sums)).calibrator()
    with pytest.raises(ValueError, match="must not be zero for all samples"):
        TemperatureAccumulator(labels=LABELS, from_logits=True).update(
            X, y, 0 * weight
        ).calibrator()
    sums.update(X, y)
    before = sums.sums_
    for bad in (X * np.nan, X[:, :2], X[:-1]):
        with pytest.raises(ValueError, match=r"X|inconsistent|labels"):
            sums.update(bad, y)
    assert sums.sums_ is before
    with pytest.raises(ValueError, match=r"between 0.05 and 20, got.*batches"):
        TemperatureAccumulator(labels=LABELS, from_logits=True).update(
            1000 * X, y
        ).calibrator()
    with pytest.raises(ValueError, match=r"got zeros. Pass logits"):
        TemperatureAccumulator(labels=LABELS).update(np.eye(3), LABELS)
    with pytest.raises(TypeError, match="must be a TemperatureAccumulator, got int"):
        sums.merge(3)
    with pytest.raises(ValueError, match="other must have the parameters"):
        sums.merge(TemperatureAccumulator(labels=LABELS))


@pytest.mark.parametrize(
    "changed", [{"from_logits": False}, {"labels": ["x", "y", "z"]}]
)
def test_changed_parameters(changed):
    X, y, _ = make_parts()
    sums = TemperatureAccumulator(labels=LABELS, from_logits=True).update(X, y)
    sums = from_dict(to_dict(sums))
    sums.set_params(**changed)
    same = TemperatureAccumulator(**sums.get_params())
    for method in (sums.calibrator, lambda: to_dict(sums), lambda: same.merge(sums)):
        with pytest.raises(ValueError, match="Parameters must not change"):
            method()
