"""The maps of the calibrators as ONNX graphs give the results of `predict_proba`."""

from functools import cache

import numpy as np
import pytest
import skl2onnx
from scipy.special import softmax
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from sklearn_calib import CalibratedClassifier
from sklearn_calib.calibrators import (
    BBQ,
    AutoCalibrator,
    BetaCalibration,
    DirichletCalibrator,
    FocalTemperatureScaling,
    HistogramBinning,
    IsotonicCalibration,
    JointIsotonicCalibration,
    MatrixScaling,
    MetaCal,
    PerLabelCalibrator,
    PlattScaling,
    ScalingBinning,
    TemperatureScaling,
    TopLabelCalibrator,
    VennAbers,
    get_calibrator,
    get_calibrator_names,
    operations as op,
)
from sklearn_calib.onnx import to_onnx

DEFAULTS = [get_calibrator(name)() for name in get_calibrator_names()]
SETTINGS = [
    BetaCalibration(parameters="ab"),
    BetaCalibration(parameters="am"),
    DirichletCalibrator(diagonal=True),
    DirichletCalibrator(penalty="odir", lambd=1e-3),
    FocalTemperatureScaling(gamma=0.5),
    HistogramBinning(n_bins=1),
    HistogramBinning(n_bins=200, strategy="uniform"),
    IsotonicCalibration(centered=True),
    MatrixScaling(penalty="l2", lambd=1e-3),
    MetaCal(miscoverage=0.5),
    PlattScaling(smooth_targets=False),
    ScalingBinning(n_bins=1),
    TemperatureScaling(objective="ece"),
    TopLabelCalibrator(PlattScaling(), per_class=True, min_errors=1),
]
# A sample on the other side of a step has another probability.
HAVE_STEPS = (BBQ, HistogramBinning, MetaCal, ScalingBinning, VennAbers)
LIMITS = {np.float64: 1e-9, np.float32: 1e-5}

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def make_data(n_samples, n_classes, from_logits, seed=0):
    rng = np.random.default_rng(seed)
    logits = 1.5 * rng.normal(size=(n_samples, n_classes))
    y = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    return 3 * logits if from_logits else softmax(3 * logits, axis=1), y


def fit(calibrator, X, y, from_logits=False, **options):
    """Return a fitted clone. AutoCalibrator averages two calibrators."""
    few = {"cv": 2, "calibrators": [TemperatureScaling(), IsotonicCalibration()]}
    model = clone(calibrator).set_params(from_logits=from_logits)
    model.set_params(**few if isinstance(calibrator, AutoCalibrator) else {})
    return model.fit(X, y, **options)


@cache
def fit_to_data(calibrator, n_samples, n_classes, from_logits):
    """Return a fitted clone that several tests only read."""
    return fit(calibrator, *make_data(n_samples, n_classes, from_logits), from_logits)


def check(largest_difference, calibrator, n_classes, from_logits, n_samples):
    fitted = fit_to_data(calibrator, n_samples, n_classes, from_logits)
    new, _ = make_data(n_samples, n_classes, from_logits, seed=1)
    for dtype, limit in LIMITS.items():
        assert largest_difference(fitted, new.astype(dtype)) < limit


@pytest.mark.parametrize("calibrator", DEFAULTS)
def test_calibrator(largest_difference, calibrator):
    check(largest_difference, calibrator, 3, True, n_samples=100)


@pytest.mark.slow
@pytest.mark.parametrize("calibrator", DEFAULTS + SETTINGS)
@pytest.mark.parametrize("n_classes", [2, 10])
@pytest.mark.parametrize("from_logits", [False, True])
def test_calibrator_of_each_kind_of_input(
    largest_difference, calibrator, n_classes, from_logits
):
    check(largest_difference, calibrator, n_classes, from_logits, n_samples=300)


def test_probabilities_of_zero_and_one(largest_difference):
    """The data of `fit` are not near a step: edges are midway between them."""
    X, y = make_data(100, 4, False)
    X = np.where(X < 0.1, 0, X)
    X[:20] = np.eye(4)[y[:20]]
    X /= X.sum(axis=1, keepdims=True)
    ends = np.vstack([X, np.eye(4), np.full((1, 4), 0.25)])
    for calibrator in DEFAULTS:
        fitted = fit(calibrator, X, y)
        assert largest_difference(fitted, ends) < 1e-9, calibrator


@pytest.mark.parametrize("from_logits", [False, True])
def test_one_column(largest_difference, from_logits):
    X, y = make_data(100, 2, from_logits)
    X = X[:, 1] - from_logits * X[:, 0]
    for calibrator in DEFAULTS:
        fitted = fit(calibrator, X, y, from_logits)
        new = np.linspace(X.min(), X.max(), 57)[:, None]
        assert largest_difference(fitted, new) < 1e-9, calibrator


@pytest.mark.filterwarnings("ignore:y contains no samples")
def test_class_without_samples(largest_difference):
    X, y = make_data(100, 4, False)
    X_new, _ = make_data(100, 4, False, seed=1)
    for calibrator in DEFAULTS:
        fitted = fit(calibrator, X[y > 0], y[y > 0], labels=[0, 1, 2, 3])
        assert largest_difference(fitted, X_new) < 1e-9, calibrator


def test_equal_predictions(largest_difference):
    """Maps of a single point, and ties in every row."""
    X, y = np.full((30, 3), 1 / 3), np.arange(30) % 3
    for calibrator in DEFAULTS:
        fitted = fit(calibrator, X, y)
        assert largest_difference(fitted, X) < 1e-9, calibrator


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*encountered:RuntimeWarning")
def test_large_and_small_logits(largest_difference):
    logits, y = make_data(300, 3, True)
    for scale in (1e-3, 30, 1e4):
        for calibrator in DEFAULTS:
            if isinstance(calibrator, HAVE_STEPS):
                continue  # the scores are equal up to rounding
            fitted = clone(calibrator).set_params(from_logits=True)
            fitted.fit(scale * logits, y)
            assert largest_difference(fitted, scale * logits) < 1e-9, calibrator


def test_bin_edges_at_probabilities_of_the_data(largest_difference):
    """Quantile edges are equal to the largest probability if it is frequent."""
    p = np.repeat([0.05, 0.3, 0.7, 0.9], 25)
    y = np.tile([0, 0, 1, 1, 1], 20)
    for values in (p, np.where(p == 0.9, 1.0, p), 1 - p):
        for calibrator in (HistogramBinning(), ScalingBinning(), BBQ()):
            fitted = clone(calibrator).fit(values, y)
            assert largest_difference(fitted, values[:, None]) < 1e-9, calibrator


def test_probabilities_that_differ_in_the_last_digit_from_one(largest_difference):
    p = np.repeat([0.0, 0.5, 1 - 3 * 2.0**-53, 1 - 2.0**-52, 1.0], 30)
    y = np.arange(150) % 10 < 8
    for calibrator in (BBQ(), HistogramBinning(n_bins=3)):
        fitted = clone(calibrator).fit(p, y)
        assert largest_difference(fitted, p[:60, None]) < 1e-9, calibrator
        assert largest_difference(fitted, p[120:, None]) < 1e-9, calibrator


def test_close_points_of_a_map(run_onnx):
    """The slope between points at a distance of 1e-320 overflows."""
    X = np.array([[0.0, 0.0], [700.0, 0.0], [735.0, 0.0], [738.0, 0.0], [740.0, 0.0]])
    calibrator = JointIsotonicCalibration(from_logits=True).fit(X, [1, 0, 1, 0, 0])
    _, proba = run_onnx(calibrator, X)
    assert np.isfinite(proba).all()


def test_nan_does_not_affect_other_samples(open_session):
    X = make_data(100, 3, True)[0][:50]
    for calibrator in DEFAULTS:
        fitted = fit_to_data(calibrator, 100, 3, True)
        proto = to_onnx(fitted, X, atol=np.inf)
        with_nan = np.where(np.arange(50)[:, None] == 7, np.nan, X)
        [proba] = open_session(proto).run(["probabilities"], {"X": with_nan})
        expected = fitted.predict_proba(X)
        others = np.arange(50) != 7
        np.testing.assert_allclose(proba[others], expected[others], atol=1e-9)


def test_float32_stays_float32(run_onnx):
    X, y = make_data(300, 3, False)
    fitted = TemperatureScaling().fit(X, y)
    for dtype in LIMITS:
        assert run_onnx(fitted, X.astype(dtype))[1].dtype == dtype


@pytest.mark.parametrize("from_logits", [False, True])
def test_per_label(run_onnx, from_logits):
    rng = np.random.default_rng(0)
    logits = 2 * rng.normal(size=(500, 3))
    y = (logits + rng.logistic(size=logits.shape) > 0).astype(int)
    X = logits if from_logits else 1 / (1 + np.exp(-logits))
    model = PerLabelCalibrator(PlattScaling(from_logits=from_logits)).fit(X, y)
    label, proba = run_onnx(model, X, atol=1e-9)
    np.testing.assert_allclose(proba, model.predict_proba(X), atol=1e-9)
    np.testing.assert_array_equal(label, model.predict(X))


@pytest.mark.parametrize(
    "labels", [["b", "c", "a"], [True, False], [1.5, -2.5, 0.0], [7, 5]]
)
def test_labels(run_onnx, labels):
    X, y = make_data(300, len(labels), False)
    y = np.sort(labels)[y]
    model = TemperatureScaling().fit(X, y)
    label, _ = run_onnx(model, X)
    assert label.tolist() == model.predict(X).tolist()


class Sharper(TemperatureScaling):
    def _calibrate(self, logits):
        return op.softmax(logits * 7)


def test_a_subclass_is_exported_with_its_own_map(largest_difference):
    X, y = make_data(300, 3, True)
    model = CalibratedClassifier(LogisticRegression(), Sharper(), cv=2).fit(X, y)
    for known in (model, Sharper(from_logits=True).fit(X, y)):
        assert largest_difference(known, X) < 1e-9


class Sharp(TemperatureScaling):
    def _calibrate(self, logits):
        return softmax(logits * 7, axis=1)


def test_a_map_without_operations_needs_a_converter_of_its_own(largest_difference):
    X, y = make_data(300, 3, True)
    model = CalibratedClassifier(LogisticRegression(), Sharp(), cv=2).fit(X, y)
    for unknown in (model, Sharp(from_logits=True).fit(X, y)):
        with pytest.raises(ValueError, match=r"got Sharp: .*must consist of operators"):
            to_onnx(unknown, X)

    def convert(scope, operator, container):
        scaled, [label, proba] = scope.get_unique_variable_name("X"), operator.outputs
        name = container.add_initializer("seven", 11, [], [7.0]).name
        container.add_node("Mul", [operator.inputs[0].full_name, name], scaled)
        container.add_node("Softmax", scaled, proba.full_name, axis=1)
        container.add_node("ArgMax", scaled, label.full_name, axis=1, keepdims=0)

    skl2onnx.update_registered_converter(
        Sharp,
        "Sharp",
        skl2onnx.common.shape_calculator.calculate_linear_classifier_output_shapes,
        convert,
        options={"zipmap": [False], "nocl": [False]},
    )
    assert largest_difference(model, X) < 1e-9
