"""Isotonic regression: one map for each class, or one for all classes."""

import math
from functools import partial
from typing import Any, Literal

import numpy as np
from scipy.optimize import isotonic_regression
from sklearn.utils.validation import check_is_fitted

from sklearn_calib._expressions.columns import interpolate
from sklearn_calib._expressions.replace_top import keep_top
from sklearn_calib._expressions.symbol import Values
from sklearn_calib._numerics.binning import sums_by_value
from sklearn_calib._numerics.sample_blocks import Blocks
from sklearn_calib._state.schema import FRACTION, Number, Numbers, Tuple
from sklearn_calib._validation.types import Array, Floats, Ints
from sklearn_calib.calibrators._base.calibrator import MIN_ROWS, Calibrator
from sklearn_calib.calibrators._one_vs_rest.one_vs_rest import (
    _OneVsRestCalibrator,
    probabilities,
)

# Weight of the predicted probability, to order classes with equal calibrated values.
TIE_BREAKER = 1e-9

# The probabilities of all classes are sorted in this number of blocks. With more, the
# memory is smaller, but values are looked up more often.
N_BLOCKS = 64

SIDES: tuple[Literal["left"], Literal["right"]] = ("left", "right")

# Points of an increasing map.
INCREASING = Tuple(
    Numbers("n + 1", increasing=True),
    Numbers("n + 1", range=FRACTION, increasing=True),
)


class IsotonicCalibration(_OneVsRestCalibrator):
    r"""Isotonic regression: a non-decreasing map of the probability of each class.

    It can correct any monotonic distortion, but needs more data than maps with few
    parameters: about a hundred misclassified samples for each class. It was proposed
    for several classes by [1]_, and is called IROvA (isotonic regression one-vs-all) in
    [2]_.

    Parameters
    ----------
    centered : bool, default=False
        Whether to use centred isotonic regression [3]_: each run of equal fitted values
        is replaced by one point at the mean of its predicted probabilities. The map is
        then strictly increasing within the range of the points, so it does not create
        ties there and, for two classes, does not change the area under the ROC curve.

    from_logits : bool, default=False
        Whether `X` contains logits. It is not inferred from the values.

    Attributes
    ----------
    maps_ : list
        One piecewise linear map for each class (for two classes, only for the second):
        probabilities before and after calibration, each of shape (n_points,).

    class_prior_ : ndarray of shape (n_classes,)
        Class frequencies, with one pseudo-count added to each class.

    mixing_ : float
        Weight of `class_prior_` in the result, 1 / (n_samples + 1).

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
        False: each class has its own map, so the predicted class may change.

    See Also
    --------
    JointIsotonicCalibration : One map for all classes, which preserves their order.

    Notes
    -----
    The map is linear between its points, and constant outside their range.

    With the weight w = `mixing_`, the result is (1 - w) q + w `class_prior_`, so that
    no probability is zero; `class_prior_` has the weight of one additional sample. Here
    q are the values of the maps. For two classes, they are 1 - q and q with the map of
    the second class. For more, each row is divided by its sum, and is `class_prior_` if
    the sum is zero.

    References
    ----------
    .. [1] B. Zadrozny and C. Elkan, "Transforming Classifier Scores into Accurate
       Multiclass Probability Estimates", KDD 2002.

    .. [2] J. Zhang, B. Kailkhura and T. Y.-J. Han, "Mix-n-Match: Ensemble and
       Compositional Methods for Uncertainty Calibration in Deep Learning", ICML 2020.

    .. [3] A. P. Oron and N. Flournoy, "Centered Isotonic Regression: Point and Interval
       Estimation for Dose-Response Studies", Statistics in Biopharmaceutical
       Research 9, 2017.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.calibrators import IsotonicCalibration
    >>> from sklearn_calib.metrics import expected_calibration_error
    >>> rng = np.random.default_rng(0)
    >>> logits = rng.normal(size=(1000, 3))
    >>> y = (logits + rng.gumbel(size=(1000, 3))).argmax(axis=1)
    >>> calibrator = IsotonicCalibration(from_logits=True).fit(3 * logits, y)
    >>> bool(expected_calibration_error(y, calibrator.predict_proba(3 * logits)) < 0.04)
    True
    """

    _errors_needed = 100, 1
    _maps_probabilities = True
    _map = INCREASING
    _returns_zero = True
    _parameter_constraints = {
        **_OneVsRestCalibrator._parameter_constraints,
        "centered": ["boolean"],
    }

    def __init__(self, *, centered: bool = False, from_logits: bool = False) -> None:
        self.centered = centered
        self.from_logits = from_logits

    def _fit_map(self, score: Floats, target: Array, sample_weight: Floats) -> Any:
        return _fit_points(score, target, sample_weight, self.centered)

    def _apply_maps(self, proba: Values) -> Values:
        return interpolate(proba, self.maps_)


class JointIsotonicCalibration(Calibrator):
    r"""Joint isotonic regression (IRM): one monotonic map for all classes.

    The map is fitted to all n_samples * n_classes probabilities, with the target 1 for
    the true class and 0 for other classes [1]_. It needs fewer samples than a map for
    each class, and it preserves the order of the classes.

    Parameters
    ----------
    from_logits : bool, default=False
        Whether `X` contains logits. It is not inferred from the values.

    Attributes
    ----------
    map_ : tuple of ndarray
        The piecewise linear map: probabilities before and after calibration, each of
        shape (n_points,).

    mixing_ : float
        Weight of uniform probabilities in the result, 1 / (n_samples + 1).

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
        True: the predicted class does not change, up to rounding.

    See Also
    --------
    IsotonicCalibration : One map for each class.

    Notes
    -----
    The map is linear between its points, and constant outside their range. 1e-9 times
    the predicted probability is added to preserve the order where the map is constant
    [1]_. Each row q is then divided by its sum. With K classes and the weight w =
    `mixing_`, the result is (1 - w) q + w / K, so that no probability is zero; uniform
    probabilities have the weight of one additional sample.

    References
    ----------
    .. [1] J. Zhang, B. Kailkhura and T. Y.-J. Han, "Mix-n-Match: Ensemble and
       Compositional Methods for Uncertainty Calibration in Deep Learning", ICML 2020,
       section 3.3.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.calibrators import JointIsotonicCalibration
    >>> from sklearn_calib.metrics import expected_calibration_error
    >>> rng = np.random.default_rng(0)
    >>> logits = rng.normal(size=(1000, 3))
    >>> y = (logits + rng.gumbel(size=(1000, 3))).argmax(axis=1)
    >>> calibrator = JointIsotonicCalibration(from_logits=True).fit(3 * logits, y)
    >>> bool(expected_calibration_error(y, calibrator.predict_proba(3 * logits)) < 0.04)
    True
    """

    _errors_needed = 50, 0
    _fitted = {"map_": INCREASING, "_mixing": Number(FRACTION)}
    preserves_argmax = True

    def __init__(self, *, from_logits: bool = False) -> None:
        self.from_logits = from_logits

    def _fit(self, data: Blocks) -> None:
        self._mixing = 1 / (data.weight_sum + 1)
        step = max(MIN_ROWS, math.ceil(data.n_samples / N_BLOCKS))
        as_proba = partial(probabilities, from_logits=self.from_logits)
        self.map_ = _fit_joint_points(data.joined(step).transform(as_proba))

    @property
    def mixing_(self) -> float:
        """Weight of uniform probabilities."""
        check_is_fitted(self)
        return self._mixing

    def _calibrate(self, logits: Values) -> Values:
        before = probabilities(logits, self.from_logits)
        proba = interpolate(before, self.map_) + TIE_BREAKER * before
        proba /= proba.sum(axis=1, keepdims=True)
        proba += self._mixing * (1 / proba.shape[1] - proba)
        return keep_top(proba, logits)


def _fit_joint_points(data: Blocks) -> tuple[Floats, Floats]:
    """Return the points of the isotonic regression of all classes together.

    `data` contains probabilities. Only those of true classes are kept. Between two of
    them all targets are 0, so the regression is constant there.
    """
    true, weight = data.collect(
        lambda rows: (rows.logits[np.arange(len(rows.codes)), rows.codes], rows.weight)
    )
    value, positives, _ = sums_by_value(true, np.ones(len(true)), weight)
    # Runs of values: below the first true one, equal to it, between two, and so on.
    n_runs = 2 * len(value) + 1
    low, high, mass = np.full(n_runs, np.inf), np.zeros(n_runs), np.zeros(n_runs)
    for proba, _, weight in data:
        runs, *sums = _sums_of_runs(proba[weight > 0], weight[weight > 0], value)
        low[runs] = np.minimum(low[runs], sums[0])
        high[runs] = np.maximum(high[runs], sums[1])
        mass[runs] += sums[2]
    target = np.zeros(n_runs)
    target[1::2] = positives / mass[1::2]
    runs = np.flatnonzero(mass)
    fit = isotonic_regression(target[runs], weights=mass[runs])
    first, last = runs[fit.blocks[:-1]], runs[fit.blocks[1:] - 1]
    points = np.column_stack([low[first], high[last]]).ravel()
    is_new = np.append(True, np.diff(points) > 0)
    return points[is_new], fit.x[fit.blocks[:-1]].repeat(2)[is_new]


def _sums_of_runs(
    proba: Floats, weight: Floats, value: Floats
) -> tuple[Ints, Floats, Floats, Floats]:
    """Return the runs in a block, their smallest and largest values, and weights."""
    if len(proba) == 0:
        none = np.zeros(0)
        return none.astype(np.int64), none, none, none
    weight = weight.repeat(proba.shape[1])
    order = proba.argsort(axis=None)
    proba, weight = proba.ravel()[order], weight[order]
    edges = np.transpose([np.searchsorted(proba, value, side) for side in SIDES])
    ends = np.concatenate([[0], edges.ravel(), [len(proba)]])
    runs = np.flatnonzero(np.diff(ends))
    start, last = ends[runs], ends[runs + 1] - 1
    return runs, proba[start], proba[last], np.add.reduceat(weight, start)


def _fit_points(
    proba: Floats, target: Array, weight: Floats, centered: bool
) -> tuple[Floats, Floats]:
    """Return the points of the isotonic regression."""
    value, mass, positives = sums_by_value(proba, target, weight)
    blocks = isotonic_regression(positives / mass, weights=mass)
    first, last = blocks.blocks[:-1], blocks.blocks[1:] - 1
    if not centered:
        ends = np.unique(np.concatenate([first, last]))
        return value[ends], blocks.x[ends]
    block_mass = np.add.reduceat(mass, first)
    return np.add.reduceat(mass * value, first) / block_mass, blocks.x[first]
