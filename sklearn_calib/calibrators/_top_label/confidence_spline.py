"""Spline calibration: a spline fitted to the cumulative calibration errors."""

from collections.abc import Iterator
from numbers import Integral
from typing import Any

import numpy as np

from sklearn_calib._expressions.columns import interpolate
from sklearn_calib._expressions.replace_top import replace_top
from sklearn_calib._expressions.rows import softmax
from sklearn_calib._expressions.symbol import (
    Values,
    clip,
    hstack,
    maximum,
    minimum,
    round_to,
)
from sklearn_calib._numerics.binning import sums_by_value
from sklearn_calib._numerics.sample_blocks import Block, Blocks, as_float64
from sklearn_calib._solvers.spline_logistic import natural_spline
from sklearn_calib._state.schema import (
    UP_TO_HALF,
    ListOf,
    Number,
    Numbers,
    Tuple,
)
from sklearn_calib._validation.declarations import Interval
from sklearn_calib._validation.types import Array, Floats, Ints
from sklearn_calib.calibrators._base.calibrator import Calibrator

# Ties are replaced by several points, so that the spline is determined between knots.
MIN_POINTS = 100
# Confidences are rounded to this number of decimals, as the last digits of equal ones
# may depend on the order of the classes.
DECIMALS = 10


class SplineCalibration(Calibrator):
    r"""Spline calibration: recalibrate the confidence by a spline of cumulative errors.

    The samples are sorted by their confidence s. As for the Kolmogorov-Smirnov
    calibration error, the differences between correctness (0 or 1) and confidence are
    added up. A natural cubic spline h is fitted to the cumulative sums as a function of
    the fraction t of samples with a confidence below s. The calibrated confidence is
    :math:`s + h'(t(s))` ([1]_, proposition 4.1).

    Parameters
    ----------
    n_knots : int, default=6
        Number of knots of the spline including both ends, from 2 to 100. The knots are
        equally spaced in t. Time and memory are proportional to the number of samples
        times the number of knots.

    from_logits : bool, default=False
        Whether `X` contains logits. It is not inferred from the values.

    Attributes
    ----------
    maps_ : list of tuple of ndarray
        Distinct confidences in the data of `fit`, rounded to ten decimals, and their
        calibrated values, between which `predict_proba` interpolates linearly. For two
        classes, there is one map for each class; otherwise, there is one map.

    classes_ : ndarray of shape (n_classes,)
        Class label of each column.

    n_features_in_ : int
        Number of columns of X: `n_classes`, or 1.

    n_errors_ : float
        Number of misclassified samples in `fit`, see :class:`Calibrator`.

    zero_replacement_ : float
        Value substituted for zero probabilities before taking logarithms, see
        :class:`Calibrator`. Defined only if `from_logits=False`.

    preserves_argmax : bool
        False: for two classes, the map may cross one half. For more classes, the
        predicted class does not change.

    See Also
    --------
    BetaCalibration : A parametric map for each class.
    TemperatureScaling : A map with one parameter for all classes.

    Notes
    -----
    With K > 2 classes, the confidence of the predicted class is calibrated; it is at
    least 1 / K. If the confidence decreases, the logits of the row are divided by the
    temperature that gives the new confidence. If it increases, the other classes keep
    their relative proportions. The order of the classes does not change. In [1]_, the
    other probabilities are left unchanged.

    For two classes, the probability of the second class is calibrated. The spline of
    one class is not exactly the complement of the other, so both are averaged.

    The slope of the spline is not bounded, so the confidence is clipped to at most 1 -
    1 / (n + 2), and for two classes also to at least 1 / (n + 2), where n is the number
    of samples or the sum of their weights. The map need not be monotonic.

    Equal confidences get the mean slope over their samples, so the result does not
    depend on the order of the samples. The authors' code treats equal confidences
    separately, and exchanges the weights of the two neighbours when it interpolates.

    References
    ----------
    .. [1] K. Gupta, A. Rahimi, T. Ajanthan, T. Mensink, C. Sminchisescu and R. Hartley,
       "Calibration of Neural Networks using Splines", ICLR 2021.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.calibrators import SplineCalibration
    >>> from sklearn_calib.metrics import expected_calibration_error
    >>> rng = np.random.default_rng(0)
    >>> logits = rng.normal(size=(1000, 3))
    >>> y = (logits + rng.gumbel(size=(1000, 3))).argmax(axis=1)
    >>> calibrator = SplineCalibration(from_logits=True).fit(3 * logits, y)
    >>> bool(expected_calibration_error(y, calibrator.predict_proba(3 * logits)) < 0.04)
    True
    """

    _errors_needed = 20, 0
    _fitted = {
        "maps_": ListOf(
            Tuple(Numbers("n + 1", increasing=True), Numbers("n + 1")), "n_curves"
        ),
        "_margin": Number(UP_TO_HALF),
    }
    _parameter_constraints = {
        **Calibrator._parameter_constraints,
        "n_knots": [Interval(Integral, 2, 100, closed="both")],
    }

    def __init__(self, *, n_knots: int = 6, from_logits: bool = False) -> None:
        self.n_knots = n_knots
        self.from_logits = from_logits

    def _fit(self, data: Blocks) -> None:
        weight, *pairs = data.collect(lambda block: (block.weight, *_pairs(block)))
        self.maps_ = [
            _fit_spline(score, target, weight, self.n_knots)
            for score, target in zip(pairs[::2], pairs[1::2], strict=True)
        ]
        self._margin = 1 / (weight.sum() + 2)

    def _calibrate(self, logits: Values) -> Values:
        wide: Any = logits.astype(np.float64)
        mapped = interpolate(_scores(softmax(wide)), self.maps_)
        if len(self.maps_) == 1:
            confidence = maximum(mapped, 1 / wide.shape[1])
            confidence = minimum(confidence, 1 - self._margin)
            return replace_top(wide, confidence, 1 - confidence)
        positive = (mapped[:, :1] + 1 - mapped[:, 1:]) / 2
        positive = clip(positive, self._margin, 1 - self._margin)
        return hstack([1 - positive, positive])


def _scores(proba: Values) -> Values:
    """Return the rounded probabilities to calibrate: of both classes, or the largest.

    The second of two classes is the first column.
    """
    proba = round_to(proba, DECIMALS)
    if proba.shape[1] == 2:
        return proba[:, ::-1]
    return proba.max(axis=1, keepdims=True)


def _pairs(block: Block) -> Iterator[Array]:
    """Yield the probabilities to calibrate, each with whether their class is true."""
    proba = softmax(as_float64(block.logits))
    columns = (1, 0) if proba.shape[1] == 2 else (proba.argmax(axis=1),)
    for score, column in zip(_scores(proba).T, columns, strict=True):
        yield score
        yield block.codes == column


def _fit_spline(
    score: Floats, target: Array, weight: Floats, n_knots: int
) -> tuple[Floats, Floats]:
    """Return the distinct scores with positive weight, and the calibrated scores."""
    distinct, weights, positives = sums_by_value(score, target, weight)
    errors = positives - weights * distinct
    if len(distinct) == 1:
        return distinct, distinct + errors / weights
    wanted = max(len(weights), MIN_POINTS) * weights / weights.sum()
    # Subtracted so that rounding errors do not add a point if all weights are equal.
    parts = np.ceil(wanted - 1e-9).astype(int).clip(1)
    position, scale, sums = _make_points(weights, errors, parts)
    knots = np.linspace(0, 1, min(n_knots, len(distinct)))
    basis = natural_spline(knots, np.eye(len(knots)))
    design = basis(position)
    design *= scale[:, None]
    heights = np.linalg.lstsq(design, sums, rcond=None)[0]
    slope = (
        np.add.reduceat(basis(position, 1) @ heights, parts.cumsum() - parts) / parts
    )
    return distinct, distinct + slope


def _make_points(
    weights: Floats, errors: Floats, parts: Ints
) -> tuple[Floats, Floats, Floats]:
    """Return positions of points, roots of their weights, and weighted sums of errors.

    Each confidence is represented by as many points as `parts` has.
    """
    mass = np.repeat(weights / parts, parts)
    sums = np.repeat(errors / parts, parts).cumsum()
    total = mass.cumsum()
    position = (total - total[0]) / (total[-1] - total[0])
    root = np.sqrt(mass)
    return position, root, root * sums / total[-1]
