"""The maps of the calibrators, from logits to probabilities, as expressions.

Each function has the same steps, in the same precision, as `_calibrate` of its class.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from scipy.interpolate import CubicHermiteSpline

from sklearn_calib._expressions.columns import Steps, interpolate
from sklearn_calib._expressions.rows import (
    focal_posterior,
    is_top,
    lift_zeros,
    log_odds,
    log_odds_of_proba,
    log_softmax,
    softmax,
    xlogx,
)
from sklearn_calib._expressions.tensor import (
    Tensor,
    exp,
    expit,
    hstack,
    log,
    maximum,
    minimum,
    round_to,
    softplus,
    where,
)
from sklearn_calib._validation.types import Array

# The constants of the same calibrators in sklearn_calib.calibrators.
RESOLUTION = float(np.finfo(np.float64).eps)
DECIMALS = 10  # of the scores of VennAbers, ScalingBinning and SplineCalibration
TIE_BREAKER = 1e-9  # of JointIsotonicCalibration
SLACK = 1e-5  # of the threshold of MetaCal
# More steps of Newton's method than SplineCalibration takes.
NEWTON_STEPS = 20
MARGIN = 1e-9  # of the confidence of TopLabelCalibrator above 1 / n_classes
LARGEST = 1e5  # of the log-odds that TopLabelCalibrator rounds

# Fitted calibrator and logits, to calibrated probabilities.
Map: TypeAlias = Callable[[Any, Tensor], Tensor]
# Fitted maps of the classes and their scores, to probabilities or log-odds.
ClassMaps: TypeAlias = Callable[[Sequence[Any], Tensor], Tensor]


def calibrate(calibrator: Any, X: Tensor) -> Tensor:
    """Return calibrated probabilities, as `predict_proba` of a fitted calibrator."""
    logits = as_logits(calibrator, X)
    proba = map_of(calibrator)(calibrator, logits).astype(X.dtype)
    return maximum(proba, np.finfo(X.dtype).tiny)


def calibrate_labels(model: Any, X: Tensor) -> Tensor:
    """Return the calibrated probability of each label of a PerLabelCalibrator."""
    return hstack(
        [
            calibrate(each, X.columns([k])).columns([1])
            for k, each in enumerate(model.calibrators_)
        ]
    )


def map_of(calibrator: Any) -> Map:
    """Return the map of a calibrator; raise TypeError if it has none."""
    kind = type(calibrator)
    is_known = kind.__module__.startswith("sklearn_calib.calibrators.")
    if not is_known or kind.__name__ not in MAPS:
        raise TypeError(
            "The calibrator must have a map of sklearn_calib, got "
            f"{kind.__module__}.{kind.__qualname__}, whose map is not known for torch "
            "and for arrays on other devices. Call its predict_proba with numpy arrays."
        )
    return MAPS[kind.__name__]


def as_logits(calibrator: Any, X: Tensor) -> Tensor:
    """Return the logits of all classes, or the logarithms of their probabilities."""
    if not calibrator.from_logits:
        X = minimum(maximum(X, 0.0), 1.0)
    if calibrator.n_features_in_ == 1:
        X = hstack([0 * X if calibrator.from_logits else 1 - X, X])
    if calibrator.from_logits:
        return X
    return log(lift_zeros(X, calibrator.zero_replacement_))


def n_classes(calibrator: Any) -> int:
    return len(calibrator.classes_)


# Maps of all logits -------------------------------------------------------------------


def temperature(calibrator: Any, logits: Tensor) -> Tensor:
    return softmax(logits / calibrator.temperature_)


def ensemble_temperature(calibrator: Any, logits: Tensor) -> Tensor:
    scaled, plain, uniform = calibrator.weights_
    logits = logits.astype(np.float64)
    proba = scaled * softmax(logits / calibrator.temperature_)
    return proba + plain * softmax(logits) + uniform / n_classes(calibrator)


def class_temperature(calibrator: Any, logits: Tensor) -> Tensor:
    top = is_top(logits, n_classes(calibrator))
    own = where(top, 0 * logits + calibrator.temperatures_, 0.0).sum()
    return softmax(logits / own)


def average(calibrator: Any, logits: Tensor) -> Tensor:
    none, *weights = calibrator.weights_.tolist()
    proba = none * softmax(logits)
    for weight, each in zip(weights, calibrator.calibrators_, strict=True):
        proba = proba + weight * map_of(each)(each, logits).astype(logits.dtype)
    return proba


def focal(calibrator: Any, logits: Tensor) -> Tensor:
    return focal_posterior(softmax(logits), calibrator.gamma_)


def focal_temperature(calibrator: Any, logits: Tensor) -> Tensor:
    return focal_posterior(temperature(calibrator, logits), calibrator.gamma_)


def meta_cal(calibrator: Any, logits: Tensor) -> Tensor:
    entropy = -xlogx(softmax(logits)).sum()
    is_rejected = entropy > calibrator.threshold_ * (1 + SLACK)
    proba = temperature(calibrator, logits)
    return where(is_rejected, 1 / n_classes(calibrator), proba)


def affine(features: Callable[[Any, Tensor], Tensor]) -> Map:
    """Return the map softmax(W x + b) of features x; a 1-d W is a diagonal."""

    def scale(calibrator: Any, logits: Tensor) -> Tensor:
        x, coef = features(calibrator, logits), calibrator.coef_
        product = x * coef if coef.ndim == 1 else x @ coef.T
        return softmax(product + calibrator.intercept_)

    return scale


def centred(calibrator: Any, logits: Tensor) -> Tensor:  # noqa: ARG001 - see affine
    return logits - logits.mean()


def log_proba(calibrator: Any, logits: Tensor) -> Tensor:  # noqa: ARG001 - see affine
    return log_softmax(logits)


def mixed_log_proba(calibrator: Any, logits: Tensor) -> Tensor:
    proba = softmax(logits / calibrator.temperature_) * (1 - calibrator.mixing_)
    return log(proba + calibrator.mixing_ / n_classes(calibrator))


def joint_curve(calibrator: Any, logits: Tensor) -> Tensor:
    log_proba = log_softmax(logits.astype(np.float64))
    scores = curves([calibrator.curve_] * n_classes(calibrator), log_proba)
    return log_softmax(scores).astype(logits.dtype)


def joint_beta(calibrator: Any, logits: Tensor) -> Tensor:
    odds = log_odds(logits, n_classes(calibrator))
    a, b = calibrator.coef_.T
    low, high = (-softplus(-odds)).astype(logits.dtype), softplus(odds)
    scores = low * a + calibrator.intercept_
    return softmax(scores + high.astype(logits.dtype) * b)


def joint_isotonic(calibrator: Any, logits: Tensor) -> Tensor:
    before = probabilities(calibrator, logits)
    points = [calibrator.map_] * n_classes(calibrator)
    proba = interpolate(before, points) + TIE_BREAKER * before
    proba = proba / proba.sum()
    proba = proba + calibrator._mixing * (1 / n_classes(calibrator) - proba)
    return keep_top(proba, is_top(logits, n_classes(calibrator)), logits.dtype)


def keep_top(proba: Tensor, top: Tensor, dtype: Any) -> Tensor:
    """Return probabilities in a dtype, to which rounding does not create ties."""
    if dtype == np.float64:
        return proba
    # One ulp more.
    proba, eps = proba.astype(dtype), float(np.finfo(dtype).eps)
    return where(top, minimum(proba * (1 + eps), 1.0), proba)


def spline(calibrator: Any, logits: Tensor) -> Tensor:
    logits = logits.astype(np.float64)
    proba, margin = round_to(softmax(logits), DECIMALS), calibrator._margin
    if n_classes(calibrator) == 2:
        mapped = interpolate(proba.columns([1, 0]), calibrator.maps_)
        positive = (mapped.columns([0]) + 1 - mapped.columns([1])) / 2
        positive = minimum(maximum(positive, margin), 1 - margin)
        return hstack([1 - positive, positive])
    confidence = interpolate(proba.max(), calibrator.maps_)
    confidence = maximum(confidence, 1 / n_classes(calibrator))
    confidence = minimum(confidence, 1 - margin)
    return replace_top(logits, confidence, 1 - confidence, n_classes(calibrator))


def top_label(calibrator: Any, logits: Tensor) -> Tensor:
    dtype, n_columns = logits.dtype, n_classes(calibrator)
    logits = logits.astype(np.float64)
    top = is_top(logits, n_columns)
    odds = where(top, log_odds(logits, n_columns), 0.0).sum()
    small = minimum(odds, LARGEST)
    odds = round_to(small, DECIMALS) + (odds - small)
    proba = calibrate(calibrator.calibrator_, odds)
    for k, own in enumerate(calibrator.class_calibrators_):
        if own is not None:
            proba = where(top.columns([k]), calibrate(own, odds), proba)
    rest, confidence = proba.columns([0]), proba.columns([1])
    least = minimum(softmax(logits).max(), (1 + MARGIN) / n_columns)
    rest = where(confidence < least, 1 - least, rest)
    proba = replace_top(logits, maximum(confidence, least), rest, n_columns)
    return keep_top(proba, top, dtype)


def replace_top(
    logits: Tensor, confidence: Tensor, rest: Tensor, n_columns: int
) -> Tensor:
    """Return softmax probabilities in which the confidence of each row is replaced."""
    top = is_top(logits, n_columns)
    gap = logits.max() - logits
    target = log(rest) - log(confidence)
    is_less = confidence < softmax(logits).max()
    inverse = 0 * confidence
    for _ in range(NEWTON_STEPS):
        others = where(top, 0.0, exp(-inverse * gap))
        total = others.sum()
        # Not divided by 0 for tied logits, so that gradients are finite.
        slope = where(is_less, (others * gap).sum(), 1.0)
        step = total * (log(total) - target) / slope
        inverse = inverse + where(is_less, maximum(step, 0.0), 0.0)
    others = where(top, -np.inf, logits * where(is_less, inverse, 1.0))
    return where(top, confidence, softmax(others) * rest)


# Maps of each class -------------------------------------------------------------------


def probabilities(calibrator: Any, logits: Tensor) -> Tensor:
    """Return the probabilities in float64."""
    logits = logits.astype(np.float64)
    return softmax(logits) if calibrator.from_logits else exp(logits)


def all_log_odds(calibrator: Any, logits: Tensor) -> Tensor:
    """Return the log-odds of all classes in float64."""
    if calibrator.from_logits:
        return log_odds(logits, n_classes(calibrator))
    zero = calibrator.zero_replacement_
    return log_odds_of_proba(logits, zero, n_classes(calibrator))


def one_vs_rest(scores: Map, apply: ClassMaps, is_log_odds: bool = False) -> Map:
    """Return the map that applies the map of each class and normalises the rows."""

    def scale(calibrator: Any, logits: Tensor) -> Tensor:
        columns, prior = scores(calibrator, logits), calibrator.class_prior_
        if len(prior) == 2:
            columns = columns.columns([1])
        proba = apply(calibrator.maps_, columns)
        if len(prior) == 2:
            proba = both(proba, is_log_odds)
        elif is_log_odds:
            proba = softmax(-softplus(-proba))
        else:
            total = proba.sum()
            is_positive = total > 0.0
            proba = where(is_positive, proba, prior)
            proba = proba / where(is_positive, total, 1.0)
        return proba + calibrator._mixing * (prior - proba)

    return scale


def both(positive: Tensor, is_log_odds: bool) -> Tensor:
    """Return the probabilities of two classes, given those of the second."""
    if is_log_odds:
        return expit(hstack([-positive, positive]))
    return hstack([maximum(1 - positive, RESOLUTION), positive])


def parameters(maps: Sequence[Any]) -> Array:
    """Return the parameters of the maps, with one row for each parameter."""
    return np.array(maps, dtype=np.float64).T


def line(maps: Sequence[Any], odds: Tensor) -> Tensor:
    slope, intercept = parameters(maps)
    return odds * slope + intercept


def beta(maps: Sequence[Any], odds: Tensor) -> Tensor:
    a, b, c = parameters(maps)
    return -softplus(-odds) * a + softplus(odds) * b + c


def parabola(maps: Sequence[Any], odds: Tensor) -> Tensor:
    c, a, b = parameters([coef for coef, _, _ in maps])
    low, high = parameters([ends for _, *ends in maps])
    odds = minimum(maximum(odds, low), high)
    return odds * odds * c + odds * a + b


def bins(maps: Sequence[Any], score: Tensor) -> Tensor:
    steps = Steps(score, [edges for edges, _ in maps], "left")
    return steps.take([values for _, values in maps])


def histogram(maps: Sequence[Any], score: Tensor) -> Tensor:
    return bins([(raised(edges), values) for edges, values in maps], score)


def raised(edges: Array) -> Array:
    """Return edges raised by a few ulps.

    Edges can be equal to a sample, which must not move to the next bin by rounding
    errors. A probability of 1 has none: an edge below it stays below it.
    """
    limit = np.where(edges < 1, np.nextafter(1.0, 0.0), np.inf)
    return np.minimum(edges * (1 + 4 * RESOLUTION), limit)


def scaled_histogram(maps: Sequence[Any], odds: Tensor) -> Tensor:
    scaled = expit(round_to(line([each for each, _, _ in maps], odds), DECIMALS))
    return histogram([each[1:] for each in maps], scaled)


def points(maps: Sequence[Any], score: Tensor) -> Tensor:
    return interpolate(score, maps)


def curves(maps: Sequence[Any], odds: Tensor) -> Tensor:
    """Return cubic curves, which are linear beyond the knots."""
    steps = Steps(odds, [knots for knots, _, _ in maps], "right")
    x = odds - steps.take([np.append(knots[0], knots) for knots, _, _ in maps])
    # One row for each power, from the third down.
    inside = [CubicHermiteSpline(*curve).c for curve in maps]
    below = [[0, 0, slopes[0], values[0]] for _, values, slopes in maps]
    above = [[0, 0, slopes[-1], values[-1]] for _, values, slopes in maps]
    tables = [np.column_stack(each) for each in zip(below, inside, above, strict=True)]
    value = 0 * x
    for power in range(4):
        value = value * x + steps.take([table[power] for table in tables])
    return value


def venn_abers(maps: Sequence[Any], odds: Tensor) -> Tensor:
    odds = round_to(odds, DECIMALS)
    knots = [score for score, _, _ in maps]
    low = Steps(odds, knots, "right").take([p0 for _, p0, _ in maps])
    high = Steps(odds, knots, "left").take([p1 for _, _, p1 in maps])
    return high / (1 - low + high)


# By the exact class, see `map_of`: a subclass may calibrate in another way.
MAPS: dict[str, Map] = {
    "AutoCalibrator": average,
    "BBQ": one_vs_rest(probabilities, bins),
    "BetaCalibration": one_vs_rest(all_log_odds, beta, True),
    "ClassTemperatureScaling": class_temperature,
    "DirichletCalibrator": affine(log_proba),
    "ENIR": one_vs_rest(probabilities, points),
    "EnsembleTemperatureScaling": ensemble_temperature,
    "FocalPosterior": focal,
    "FocalTemperatureScaling": focal_temperature,
    "HistogramBinning": one_vs_rest(probabilities, histogram),
    "IsotonicCalibration": one_vs_rest(probabilities, points),
    "JointBetaCalibration": joint_beta,
    "JointIsotonicCalibration": joint_isotonic,
    "JointLogOddsSplineCalibration": affine(joint_curve),
    "LogOddsSplineCalibration": one_vs_rest(all_log_odds, curves, True),
    "MatrixScaling": affine(centred),
    "MetaCal": meta_cal,
    "PlattScaling": one_vs_rest(all_log_odds, line, True),
    "QuadraticLogisticCalibration": one_vs_rest(all_log_odds, parabola, True),
    "ScalingBinning": one_vs_rest(all_log_odds, scaled_histogram),
    "SplineCalibration": spline,
    "StructuredMatrixScaling": affine(mixed_log_proba),
    "StructuredVectorScaling": affine(mixed_log_proba),
    "TemperatureScaling": temperature,
    "TopLabelCalibrator": top_label,
    "VectorScaling": affine(centred),
    "VennAbers": one_vs_rest(all_log_odds, venn_abers),
}
