"""A calibrator of a user has everything that those of the package have."""

import json

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from sklearn_calib import CalibratedClassifier, load, save
from sklearn_calib._validation import arrays as validation
from sklearn_calib.calibrators import (
    AutoCalibrator,
    Calibrator,
    GroupCalibrator,
    PerGroupCalibrator,
    PerLabelCalibrator,
    PlattScaling,
    TemperatureScaling,
    TopLabelCalibrator,
    operations as op,
)
from sklearn_calib.persistence import from_dict, to_dict


class PriorMatching(Calibrator):
    """Shift the logits of each class until the mean probabilities are its frequency."""

    _parameter_constraints = {**Calibrator._parameter_constraints, "n_steps": [int]}
    _fitted = {"shift_": ("n_classes",), "rate_": float}

    def __init__(self, *, n_steps=20, from_logits=False):
        self.n_steps = n_steps
        self.from_logits = from_logits

    def _fit(self, data):
        self.shift_, self.rate_ = np.zeros(len(data.counts)), 1.0
        goal = (data.counts + 1) / (data.weight_sum + len(data.counts))
        for _ in range(self.n_steps):
            mean = sum(w @ self._calibrate(x) for x, _, w in data) / data.weight_sum
            self.shift_ = self.shift_ + self.rate_ * np.log(goal / mean)

    def _calibrate(self, logits):
        return op.softmax(logits + self.shift_)


class WithNumpy(PriorMatching):
    def _calibrate(self, logits):
        return np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)


class WithMasks(PriorMatching):
    def _calibrate(self, logits):
        n_positive = (logits > 0).sum(axis=1, keepdims=True)
        first = logits.argmax(axis=1, keepdims=True) / 2
        shift = first + n_positive * (logits[:, [-1]] > 0) * 2 + np.array([0, 1, 0])
        return op.softmax(op.minimum(9, logits + shift))


class Undescribed(PriorMatching):
    def _fit(self, data):
        super()._fit(data)
        self.extra_ = 1.0


RNG = np.random.default_rng(0)
LOGITS = 1.5 * RNG.normal(size=(400, 3))
Y = (LOGITS + np.array([1, 0, -1]) + RNG.gumbel(size=LOGITS.shape)).argmax(axis=1)
PROBA = op.softmax(LOGITS)
WEIGHT = RNG.integers(0, 3, size=400).astype(float)

pytestmark = pytest.mark.filterwarnings("ignore:X contains")


@pytest.fixture(scope="module", params=[True, False])
def fitted(request):
    """Return a fitted calibrator and its input."""
    X = LOGITS if request.param else PROBA
    return PriorMatching(from_logits=request.param).fit(X, Y), X


def test_weights_and_batches(fitted):
    model, X = fitted
    weighted = clone(model).fit(X, Y, WEIGHT)
    repeated = np.repeat(np.arange(400), WEIGHT.astype(int))
    for other in (
        clone(model).fit(X[repeated], Y[repeated]),
        clone(model).fit(
            batches=lambda: zip(
                *(np.split(array, 20) for array in (X, Y, WEIGHT)), strict=True
            ),
            labels=[0, 1, 2],
        ),
    ):
        np.testing.assert_allclose(
            other.predict_proba(X), weighted.predict_proba(X), rtol=1e-9
        )
    mean = np.average(weighted.predict_proba(X), axis=0, weights=WEIGHT)
    frequency = np.bincount(Y, WEIGHT) / WEIGHT.sum()
    np.testing.assert_allclose(mean, frequency, atol=0.01)


def test_torch_modules_and_other_devices(fitted, dispatch, monkeypatch):  # noqa: ARG001
    model, X = fitted
    expected = model.predict_proba(X)
    module = model.to_torch()
    np.testing.assert_allclose(module(torch.from_numpy(X)).numpy(), expected)
    monkeypatch.setattr(validation, "is_cpu_tensor", lambda _: False)
    found = model.predict_proba(torch.from_numpy(X))
    np.testing.assert_allclose(found.numpy(), expected)


def test_onnx(fitted):
    pytest.importorskip("skl2onnx", reason="ONNX is optional")
    from sklearn_calib.onnx import to_onnx

    model, X = fitted
    to_onnx(model, X, atol=1e-9)  # compares the probabilities
    whole = CalibratedClassifier(LogisticRegression(), clone(model), cv=2)
    to_onnx(whole.fit(LOGITS, Y), LOGITS, atol=1e-9)
    to_onnx(WithMasks(from_logits=True).fit(LOGITS, Y), LOGITS, atol=1e-9)
    with pytest.raises(ValueError, match="map of WithNumpy must consist of operators"):
        to_onnx(WithNumpy(from_logits=True).fit(LOGITS, Y), LOGITS)


def test_dask_blocks(fitted):
    da = pytest.importorskip("dask.array", reason="dask is optional")
    model, X = fitted
    lazy = model.predict_proba(da.from_array(X, chunks=(100, 3)))
    np.testing.assert_array_equal(lazy.compute(), model.predict_proba(X))


def test_a_map_with_numpy_is_told_the_operations():
    model = WithNumpy(from_logits=True).fit(LOGITS, Y)
    np.testing.assert_allclose(model.predict_proba(LOGITS), PROBA)
    with pytest.raises(TypeError, match="WithNumpy must consist of operators"):
        model.to_torch()
    nested = TopLabelCalibrator(model).fit(PROBA, Y)
    with pytest.raises(TypeError, match="map of TopLabelCalibrator must"):
        nested.to_torch()


def test_files(fitted, tmp_path):
    model, X = fitted
    save(model, tmp_path / "own.json")
    again = load(tmp_path / "own.json", classes=[PriorMatching])
    assert type(again) is PriorMatching
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    with pytest.raises(ValueError, match=r"got 'PriorMatching'.*classes=\[My"):
        load(tmp_path / "own.json")


@pytest.mark.parametrize("kind", [AutoCalibrator, TopLabelCalibrator])
def test_inside_another_calibrator(kind):
    own = PriorMatching(n_steps=3)
    inner = [own, TemperatureScaling()] if kind is AutoCalibrator else own
    model = kind(inner, from_logits=True).fit(LOGITS, Y)
    expected = model.predict_proba(LOGITS)
    again = from_dict(json.loads(json.dumps(to_dict(model))), classes=[PriorMatching])
    np.testing.assert_array_equal(again.predict_proba(LOGITS), expected)
    proba = model.to_torch()(torch.from_numpy(LOGITS)).numpy()
    np.testing.assert_allclose(proba, expected, rtol=1e-9)


def test_attributes_that_would_be_lost():
    model = Undescribed(from_logits=True).fit(LOGITS, Y)
    with pytest.raises(TypeError, match=r"_fitted must .*'extra_'.*\"extra_\": float"):
        to_dict(model)


def test_two_classes_of_one_name():
    other = type("PriorMatching", (PriorMatching,), {})
    models = [PriorMatching(), other()]
    model = AutoCalibrator(models, from_logits=True).fit(LOGITS, Y)
    with pytest.raises(TypeError, match="must be of a class that can be saved"):
        to_dict(model)


@pytest.mark.parametrize(
    "classes",
    [
        [PriorMatching()],
        [LogisticRegression],
        [TemperatureScaling],
        [PriorMatching, PriorMatching],
        ["PriorMatching"],
    ],
)
def test_classes_that_are_refused(classes):
    document = to_dict(PriorMatching().fit(PROBA, Y))
    with pytest.raises(TypeError, match="classes must contain subclasses of Calib"):
        from_dict(document, classes=classes)


@pytest.mark.parametrize("term", ["float", int, np.ndarray, np.zeros(3)])
def test_terms_that_are_no_type_of_an_attribute(term):
    kind = type("Described", (PriorMatching,), {"_fitted": {"shift_": term}})
    with pytest.raises(TypeError, match=r"_fitted must contain float .*, got"):
        kind().fit(PROBA, Y)


class Returning(TemperatureScaling):
    """A calibrator that returns a function of the logits."""

    _parameter_constraints = {
        **TemperatureScaling._parameter_constraints,
        "function": [callable],
    }

    def __init__(self, function=op.softmax, *, from_logits=True):
        super().__init__(from_logits=from_logits)
        self.function = function

    def _calibrate(self, logits):
        return self.function(logits)


class ReturningForGroups(GroupCalibrator):
    def __init__(self, function=op.softmax, *, from_logits=True):
        self.function = function
        self.calibrator = TemperatureScaling()
        self.from_logits = from_logits

    def _fit_groups(self, logits, codes, weight, groups):
        pass

    def _correct(self, logits, groups):  # noqa: ARG002
        return self.function(logits)


def in_place(logits):
    logits += 100
    return op.softmax(logits)


@pytest.mark.parametrize(
    ("function", "error", "found"),
    [
        (lambda x: op.softmax(x)[:, [0]], ValueError, r"shape \(400, 1\)"),
        (lambda x: op.softmax(x)[:, 0], ValueError, r"shape \(400,\)"),
        (lambda x: op.softmax(x).tolist(), TypeError, r"\[\["),
        (lambda _: None, TypeError, "None"),
        (lambda x: op.softmax(x) + 0j, ValueError, "complex128"),
        (lambda x: op.softmax(x) / 2, ValueError, r"rows that sum to one, got \["),
        (lambda x: 2 * op.softmax(x) - 1 / 3, ValueError, r"non-negative rows .*-0\."),
        (lambda x: op.softmax(x) * np.nan, ValueError, r"got \[nan, nan, nan\]"),
    ],
)
@pytest.mark.parametrize("kind", [Returning, ReturningForGroups])
def test_maps_that_return_no_probabilities(kind, function, error, found):
    options = {"groups": Y} if kind is ReturningForGroups else {}
    with pytest.raises(error, match=rf"{kind.__name__}\._c.* must .*{found}"):
        kind(function).fit(LOGITS, Y, **options)


@pytest.mark.parametrize(
    "fit",
    [
        lambda own: own.fit(batches=lambda: [(LOGITS, Y)], labels=range(3)),
        lambda own: own.partial_fit(LOGITS, Y, classes=range(3)),
        lambda own: AutoCalibrator([own], from_logits=True).fit(LOGITS, Y),
        lambda own: TopLabelCalibrator(own, from_logits=True).fit(LOGITS, Y),
        lambda own: PerGroupCalibrator(own).fit(PROBA, Y, groups=Y),
        lambda own: PerLabelCalibrator(own).fit(PROBA, np.eye(3, dtype=int)[Y]),
        lambda own: CalibratedClassifier(LogisticRegression(), own, cv=2).fit(PROBA, Y),
    ],
)
def test_each_fit_tries_the_map(fit):
    with pytest.raises(ValueError, match=r"Returning\._calibrate .* sum to one, got"):
        fit(Returning(lambda x: op.softmax(x) / 2))


def test_maps_in_place_are_refused():
    X, model = LOGITS.copy(), Returning().fit(LOGITS, Y)
    model.function = in_place
    for method in (model.predict_proba, lambda X: model.fit(X, Y)):
        with pytest.raises(ValueError, match="read-only"):
            method(X)
    np.testing.assert_array_equal(X, LOGITS)


def test_fits_cannot_change_their_data():
    class Changing(Returning):
        def _fit(self, data):
            for logits, *_ in data:
                logits -= logits.mean()

    X = LOGITS.copy()
    with pytest.raises(ValueError, match="read-only"):
        Changing().fit(X, Y)
    np.testing.assert_array_equal(X, LOGITS)


class Counted(PlattScaling):
    """A calibrator of the package with one more attribute."""

    _fitted = {"count_": float}

    def _fit(self, data):
        super()._fit(data)
        self.count_ = float(data.n_samples)


def test_a_subclass_adds_to_what_is_saved(overconfident):
    X, y = overconfident()
    model = Counted().fit(X, y)
    copy = from_dict(to_dict(model), classes=[Counted])
    assert copy.count_ == len(y)
    np.testing.assert_array_equal(copy.predict_proba(X), model.predict_proba(X))
