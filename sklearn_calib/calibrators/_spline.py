"""Spline calibration: the slope of the errors' running sum, without bins."""

from numbers import Integral
from typing import Any

import numpy as np
from scipy.interpolate import CubicSpline

from sklearn_calib._core.binning import sums_by_value
from sklearn_calib._core.links import softmax
from sklearn_calib._core.typing import Array, Floats, Ints, Weights
from sklearn_calib._core.validation import Interval
from sklearn_calib.calibrators._base import Calibrator, by_blocks

# Newton's method takes five to ten.
MAX_STEPS = 50
# Many equal confidences are many points: between two far apart a spline is free.
MIN_POINTS = 100


class SplineCalibration(Calibrator):
    r"""Add to the confidence the slope of a spline through the summed errors.

    In the order of their confidence s, the differences of hits and confidences of the
    samples are added up, as for the Kolmogorov-Smirnov error. A cubic spline h is
    fitted to the sums, as a function of the share of samples t that lies below; the
    calibrated confidence is :math:`s + h'(t(s))` ([1]_, proposition 4.1).

    Parameters
    ----------
    n_knots : int, default=6
        Number of knots of the spline, 2 to 100 with the ends, at equal shares of
        samples. Time and memory grow with the samples times the knots.

    from_logits : bool, default=False
        Whether X holds logits. Never guessed.

    Attributes
    ----------
    maps_ : list of tuple of ndarray
        The distinct confidences of `fit` and what becomes of them, between which
        `predict_proba` interpolates linearly. One, of the most probable class; of two
        classes one for each.

    classes_ : ndarray of shape (n_classes,)
        The label of each column.

    n_features_in_ : int
        Number of columns of X: `n_classes`, or 1.

    n_errors_ : float
        Errors among the samples of `fit`, see :class:`Calibrator`.

    zero_replacement_ : float
        What a probability of zero is taken for, see :class:`Calibrator`. Only with
        `from_logits=False`.

    preserves_argmax : bool
        False: of two classes the map may cross one half. Of more, the most probable one
        stays.

    See Also
    --------
    BetaCalibration : A smooth map of each class.
    TemperatureScaling : One parameter.

    Notes
    -----
    Of more than two classes the confidence of the most probable one is calibrated. It
    is kept at 1 / K or more. Where it falls, the logits of the row are divided by what
    makes it so; where it rises, the other classes share the rest in their old
    proportions. The order of the classes stays. [1]_ leaves the others as they are; in
    old proportions always, they would stay as sharp as they were, at a higher log loss.

    Of two classes the probability of the second is calibrated. As the spline depends
    slightly on which class is counted, the mean of both is taken.

    The slope is not bounded. No confidence is within 1 / (n + 2) of 1, and of two
    classes of 0, n being the number of samples or the sum of their weights. The map
    need not rise with the confidence. Equal confidences get the mean slope over all of
    their samples, so that the order of the samples does not matter. The authors' code
    counts them one by one, and interpolates with the weights of the two neighbours
    exchanged.

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
    _parameter_constraints = {
        **Calibrator._parameter_constraints,
        "n_knots": [Interval(Integral, 2, 100, closed="both")],
    }

    def __init__(self, *, n_knots: int = 6, from_logits: bool = False) -> None:
        self.n_knots = n_knots
        self.from_logits = from_logits

    def _fit(self, logits: Floats, codes: Ints, sample_weight: Weights) -> None:
        weight = np.ones(len(codes)) if sample_weight is None else sample_weight
        self.maps_ = [
            _fit_spline(score, codes == column, weight, self.n_knots)
            for score, column in _scores(softmax(logits.astype(np.float64)))
        ]
        self._margin = 1 / (weight.sum() + 2)

    def _calibrate(self, logits: Floats) -> Floats:
        return by_blocks(self._calibrate_block, logits)

    def _calibrate_block(self, logits: Floats) -> Floats:
        logits = logits.astype(np.float64)
        scores = _scores(softmax(logits))
        said = [
            np.interp(score, *fitted)
            for (score, _), fitted in zip(scores, self.maps_, strict=True)
        ]
        if len(said) == 1:
            confidence = np.maximum(said[0], 1 / logits.shape[1])
            return _replace_top(logits, np.minimum(confidence, 1 - self._margin))
        positive = (said[0] + 1 - said[1]) / 2
        positive = np.clip(positive, self._margin, 1 - self._margin)
        return np.column_stack([1 - positive, positive])


def _scores(proba: Floats) -> list[tuple[Floats, Any]]:
    """Return what is calibrated: probabilities and the columns that they are from."""
    if proba.shape[1] == 2:
        return [(proba[:, 1], 1), (proba[:, 0], 0)]
    return [(proba.max(axis=1), proba.argmax(axis=1))]


def _fit_spline(
    score: Floats, hit: Array, weight: Floats, n_knots: int
) -> tuple[Floats, Floats]:
    """Return the distinct scores that have a weight, and the calibrated ones."""
    distinct, weights, hits = sums_by_value(score, hit, weight)
    errors = hits - weights * distinct
    if len(distinct) == 1:
        return distinct, distinct + errors / weights
    parts = _count_points(weights)
    mass = np.repeat(weights / parts, parts)
    sums = np.repeat(errors / parts, parts).cumsum()
    total = mass.cumsum()
    share = (total - total[0]) / (total[-1] - total[0])
    knots = np.linspace(0, 1, min(n_knots, len(distinct)))
    basis = CubicSpline(knots, np.eye(len(knots)), bc_type="natural")
    root = np.sqrt(mass)
    heights, *_ = np.linalg.lstsq(
        basis(share) * root[:, None], root * sums / total[-1], rcond=None
    )
    slope = np.add.reduceat(basis(share, 1) @ heights, parts.cumsum() - parts) / parts
    return distinct, distinct + slope


def _count_points(weights: Floats) -> Ints:
    """Return how many points each confidence is: one, or its share of all if more."""
    wanted = max(len(weights), MIN_POINTS) * weights / weights.sum()
    # Without the last term the rounding of equal weights makes some of them two.
    return np.ceil(wanted - 1e-9).astype(int).clip(1)


def _replace_top(logits: Floats, confidence: Floats) -> Floats:
    """Return softmax of the logits with other confidences, of at least an equal share.

    A smaller one is reached by a temperature of the row's own. For a larger one the
    other classes keep their proportions, as the temperature would tend to zero where
    two classes are nearly tied.
    """
    rows, top = np.arange(len(logits)), logits.argmax(axis=1)
    proba = softmax(logits)
    is_less = confidence < proba[rows, top]
    inverse = np.ones(len(logits))
    inverse[is_less] = _row_inverse(logits[is_less], confidence[is_less])
    proba = softmax(logits * inverse[:, None])
    proba[rows, top] = 0
    proba *= ((1 - confidence) / proba.sum(axis=1))[:, None]
    proba[rows, top] = confidence
    return proba


def _row_inverse(logits: Floats, confidence: Floats) -> Floats:
    """Return the 1 / T of each row at which its largest probability is the given one.

    The logarithm of the sum of the others, relative to the largest, is convex in 1 / T
    and falls, so that Newton's method rises from 0 to the solution.
    """
    rows, top = np.arange(len(logits)), logits.argmax(axis=1)
    gap = logits[rows, top][:, None] - logits
    target = np.log1p(-confidence) - np.log(confidence)
    inverse = np.zeros(len(logits))
    for _ in range(MAX_STEPS):
        others = np.exp(-inverse[:, None] * gap)
        others[rows, top] = 0
        total = others.sum(axis=1)
        slope = (others * gap).sum(axis=1) / total
        step = (np.log(total) - target) / slope
        inverse += np.maximum(step, 0)
        if (step * slope < 1e-12).all():
            break
    return inverse
