"""Isotonic regression: of each class by itself, and of all classes together."""

from typing import Any

import numpy as np
from scipy.optimize import isotonic_regression

from sklearn_calib._core.binning import sums_by_value
from sklearn_calib._core.typing import Array, Floats, Ints, Weights
from sklearn_calib.calibrators._base import Calibrator
from sklearn_calib.calibrators._one_vs_rest import _OneVsRestCalibrator, probabilities

# What keeps the order of classes that isotonic regression gives the same probability.
TIE_BREAKER = 1e-9


class IsotonicCalibration(_OneVsRestCalibrator):
    r"""The best monotone map of the probability of each class, by isotonic regression.

    It can undo any monotone error, and needs more data for that than maps with a few
    parameters: about a hundred errors for each class among the samples of `fit`. It
    was proposed for several classes by [1]_, and is known as IROvA [2]_.

    Parameters
    ----------
    centered : bool, default=False
        Whether a run of equal values counts at its mean probability only, with straight
        lines in between (centred isotonic regression) [3]_. The map is then strictly
        increasing within the data, so that it makes no ties, and keeps the area under
        the ROC curve of two classes.

    from_logits : bool, default=False
        Whether X holds logits. Never guessed.

    Attributes
    ----------
    maps_ : list
        For each class, of two for the second alone, the points that its map joins:
        probabilities before and after, each of shape (n_points,).

    class_prior_ : ndarray of shape (n_classes,)
        Frequencies of the classes, with one more sample of each.

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
        False: each class has its own map.

    See Also
    --------
    JointIsotonicCalibration : One map for all classes, which keeps their order.

    Notes
    -----
    Between the points the map is linear, beyond them constant. Of more than two classes
    the rows are divided by their sums. No probability of zero is returned: the class
    frequencies, with one more sample of each class, count as one sample beside the n
    of the fit.

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
    _says_zero = True
    _parameter_constraints = {
        **_OneVsRestCalibrator._parameter_constraints,
        "centered": ["boolean"],
    }

    def __init__(self, *, centered: bool = False, from_logits: bool = False) -> None:
        self.centered = centered
        self.from_logits = from_logits

    def _fit_map(self, score: Floats, hit: Array, sample_weight: Floats) -> Any:
        return _fit_points(score, hit, sample_weight, self.centered)

    def _apply_map(self, fitted: Any, score: Floats) -> Floats:
        return np.interp(score, *fitted)


class JointIsotonicCalibration(Calibrator):
    r"""One monotone map for the probabilities of all classes, by isotonic regression.

    Known as IRM [1]_. All n_samples * n_classes probabilities and whether they came
    true are one sample of one map, so that it needs fewer samples than a map for each
    class, and keeps their order.

    Parameters
    ----------
    from_logits : bool, default=False
        Whether X holds logits. Never guessed.

    Attributes
    ----------
    map_ : tuple of ndarray
        The points that the map joins: probabilities before and after, each of shape
        (n_points,).

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
        True: the most probable class stays, up to rounding.

    See Also
    --------
    IsotonicCalibration : A map for each class.

    Notes
    -----
    Between the points the map is linear, beyond them constant; 1e-9 times the
    probability before is added, which keeps the order where it is flat [1]_. The rows
    are divided by their sums and equal probabilities mixed in, with the weight of one
    sample beside the n of the fit, so that none is zero.

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
    preserves_argmax = True

    def __init__(self, *, from_logits: bool = False) -> None:
        self.from_logits = from_logits

    def _fit(self, logits: Floats, codes: Ints, sample_weight: Weights) -> None:
        proba = probabilities(logits, self.from_logits)
        weight = np.ones(len(codes)) if sample_weight is None else sample_weight
        hit = codes[:, None] == np.arange(proba.shape[1])
        self._mixing = 1 / (weight.sum() + 1)
        pairs = proba.ravel(), hit.ravel().astype(np.float64)
        self.map_ = _fit_points(*pairs, weight.repeat(proba.shape[1]), False)

    def _calibrate(self, logits: Floats) -> Floats:
        before = probabilities(logits, self.from_logits)
        proba = np.interp(before, *self.map_) + TIE_BREAKER * before
        proba /= proba.sum(axis=1, keepdims=True)
        proba += self._mixing * (1 / proba.shape[1] - proba)
        return _keep_top(proba.astype(logits.dtype, copy=False), logits)


def _keep_top(proba: Floats, logits: Floats) -> Floats:
    """Put the class of the largest logit first again where float32 cannot tell."""
    top = logits.argmax(axis=1)
    rows = np.flatnonzero(proba.argmax(axis=1) != top)
    largest = proba[rows].max(axis=1)
    proba[rows, top[rows]] = np.nextafter(largest, 1, dtype=proba.dtype)
    return proba


def _fit_points(
    proba: Floats, hit: Array, weight: Floats, centered: bool
) -> tuple[Floats, Floats]:
    """Return the points that the best monotone map joins."""
    value, mass, hits = sums_by_value(proba, hit, weight)
    blocks = isotonic_regression(hits / mass, weights=mass)
    first, last = blocks.blocks[:-1], blocks.blocks[1:] - 1
    if not centered:
        ends = np.unique(np.concatenate([first, last]))
        return value[ends], blocks.x[ends]
    block_mass = np.add.reduceat(mass, first)
    return np.add.reduceat(mass * value, first) / block_mass, blocks.x[first]
