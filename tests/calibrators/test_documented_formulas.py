"""Probabilities are rebuilt in plain numpy from docstrings and fitted attributes."""

# All formulas have the same arguments.
# ruff: noqa: ARG001, ARG005

import numpy as np
import pytest

# Calibrators of other families, and what their probabilities consist of.
PARTS = "uses another calibrator"
EXCUSED = {
    "test_formula_of_the_docstring": {
        "AutoCalibrator": PARTS,
        "MetaCal": PARTS,
        "TopLabelCalibrator": PARTS,
        "SplineCalibration": "recalibrates the confidence by a temperature of the row",
    }
}
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def softmax(z):
    q = np.exp(z - z.max(axis=1, keepdims=True))
    return q / q.sum(axis=1, keepdims=True)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def curve_at(x, points):
    """Return cubics with these values and slopes at the knots, linear beyond them."""
    knots, values, slopes = points
    i = np.clip(np.searchsorted(knots, x) - 1, 0, len(knots) - 2)
    width = knots[i + 1] - knots[i]
    t = (np.clip(x, knots[0], knots[-1]) - knots[i]) / width
    inside = (
        (1 + 2 * t) * (1 - t) ** 2 * values[i]
        + t**2 * (3 - 2 * t) * values[i + 1]
        + width * t * (1 - t) * ((1 - t) * slopes[i] - t * slopes[i + 1])
    )
    below, above = np.minimum(x - knots[0], 0), np.maximum(x - knots[-1], 0)
    return inside + slopes[0] * below + slopes[-1] * above


def one_vs_rest(function):
    """Return the formula of maps of p and its log-odds; rows are then normalised."""

    def formula(fitted, p, z):
        x = np.log(p) - np.log1p(-p)
        columns = range(1, 2) if len(fitted.maps_) == 1 else range(p.shape[1])
        pairs = zip(columns, fitted.maps_, strict=True)
        q = np.column_stack([function(p[:, k], x[:, k], m) for k, m in pairs])
        q = np.hstack([1 - q, q]) if q.shape[1] == 1 else q
        total = q.sum(axis=1, keepdims=True)
        q = np.where(total > 0, q, fitted.class_prior_) / np.where(total > 0, total, 1)
        return (1 - fitted.mixing_) * q + fitted.mixing_ * fitted.class_prior_

    return formula


def linear(features):
    """Return the formula of an affine map of features."""

    def formula(fitted, p, z):
        x, w = features(fitted, p, z), fitted.coef_
        is_full = w.ndim == 2 and x.shape[1] == len(w)
        scores = x @ w.T if is_full else (x * w.T.reshape(1, -1))
        parts = np.split(scores, scores.shape[1] // len(w), axis=1)
        return softmax(sum(parts) + fitted.intercept_)

    return formula


def centred(fitted, p, z):
    return z - z.mean(axis=1, keepdims=True)


def mixed(fitted, p, z):
    w, scaled = fitted.mixing_, softmax(z / fitted.temperature_)
    return np.log((1 - w) * scaled + w / p.shape[1])


def quadratic(p, x, points):
    (c, a, b), low, high = points
    x = np.clip(x, low, high)
    return sigmoid(c * x**2 + a * x + b)


def venn_abers(p, x, points):
    knots, p0, p1 = points
    x = x.round(10)
    low = p0[np.searchsorted(knots, x, side="right")]
    high = p1[np.searchsorted(knots, x, side="left")]
    return high / (1 - low + high)


def scaling_binning(p, x, points):
    (a, b), edges, means = points
    return means[np.searchsorted(edges, sigmoid((a * x + b).round(10)))]


def joint_isotonic(fitted, p, z):
    q, w = np.interp(p, *fitted.map_) + 1e-9 * p, fitted.mixing_
    return (1 - w) * q / q.sum(axis=1, keepdims=True) + w / p.shape[1]


def ensemble(fitted, p, z):
    weights = fitted.weights_
    parts = softmax(z / fitted.temperature_), softmax(z), 1 / p.shape[1]
    return sum(w * part for w, part in zip(weights, parts, strict=True))


def class_temperature(fitted, p, z):
    return softmax(z / fitted.temperatures_[z.argmax(axis=1)][:, None])


def focal(q, gamma):
    result = q / ((1 - q) ** gamma - gamma * (1 - q) ** (gamma - 1) * q * np.log(q))
    return result / result.sum(axis=1, keepdims=True)


INTERPOLATED = one_vs_rest(lambda p, x, points: np.interp(p, *points))
STEPS = one_vs_rest(lambda p, x, m: m[1][np.searchsorted(m[0], p, side="left")])
FORMULAS = {
    "BBQ": STEPS,
    "BetaCalibration": one_vs_rest(
        lambda p, x, m: sigmoid(m[0] * np.log(p) - m[1] * np.log1p(-p) + m[2])
    ),
    "ClassTemperatureScaling": class_temperature,
    "DirichletCalibrator": linear(lambda fitted, p, z: np.log(p)),
    "ENIR": INTERPOLATED,
    "EnsembleTemperatureScaling": ensemble,
    "FocalPosterior": lambda fitted, p, z: focal(p, fitted.gamma_),
    "FocalTemperatureScaling": lambda fitted, p, z: focal(
        softmax(z / fitted.temperature_), fitted.gamma_
    ),
    "HistogramBinning": STEPS,
    "IsotonicCalibration": INTERPOLATED,
    "JointBetaCalibration": linear(
        lambda fitted, p, z: np.hstack([np.log(p), -np.log1p(-p)])
    ),
    "JointIsotonicCalibration": joint_isotonic,
    "JointLogOddsSplineCalibration": linear(
        lambda fitted, p, z: np.log(softmax(curve_at(np.log(p), fitted.curve_)))
    ),
    "LogOddsSplineCalibration": one_vs_rest(lambda p, x, m: sigmoid(curve_at(x, m))),
    "MatrixScaling": linear(centred),
    "PlattScaling": one_vs_rest(lambda p, x, m: sigmoid(m[0] * x + m[1])),
    "QuadraticLogisticCalibration": one_vs_rest(quadratic),
    "ScalingBinning": one_vs_rest(scaling_binning),
    "StructuredMatrixScaling": linear(mixed),
    "StructuredVectorScaling": linear(mixed),
    "TemperatureScaling": lambda fitted, p, z: softmax(z / fitted.temperature_),
    "VectorScaling": linear(centred),
    "VennAbers": one_vs_rest(venn_abers),
}


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("from_logits", [False, True])
def test_formula_of_the_docstring(
    calibrator, n_classes, from_logits, fitted, make_logits
):
    """For new samples, of which some are beyond the data of `fit`."""
    model = fitted(calibrator, n_classes, from_logits)
    z = 4 * make_logits(40, n_classes, seed=1)[0]
    p = softmax(z)
    expected = FORMULAS[type(calibrator).__name__](
        model, p, z if from_logits else np.log(p)
    )
    found = model.predict_proba(z if from_logits else p)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
