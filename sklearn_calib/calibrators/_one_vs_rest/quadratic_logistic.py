"""Quadratic logistic calibration: a quadratic function of the log-odds."""

from typing import Any

import numpy as np

from sklearn_calib._expressions.columns import linear
from sklearn_calib._expressions.symbol import Values, clip
from sklearn_calib._solvers.logistic import fit_nonnegative
from sklearn_calib._state.schema import Number, Numbers, Tuple
from sklearn_calib._validation.types import Array, Floats
from sklearn_calib.calibrators._one_vs_rest.one_vs_rest import _OneVsRestCalibrator


class QuadraticLogisticCalibration(_OneVsRestCalibrator):
    r"""Quadratic logistic calibration: Platt scaling with a quadratic term.

    The calibrated probability is :math:`\sigma(c\, l^2 + a\, l + b)` with the log-odds
    l [1]_. The additional parameter allows different corrections of small and large
    probabilities. This map is exact if the log-odds are normally distributed in each
    class, with a variance that depends on the class.

    Parameters
    ----------
    from_logits : bool, default=False
        Whether `X` contains logits. It is not inferred from the values.

    Attributes
    ----------
    maps_ : list of tuple
        For each class (for two classes, only for the second): an array of c, a and b,
        and the two log-odds beyond which the map is constant.

    class_prior_ : ndarray of shape (n_classes,)
        Class frequencies, with one pseudo-count added to each class.

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
    PlattScaling : Without the quadratic term.

    Notes
    -----
    A quadratic function is not monotonic, so very confident predictions could get small
    probabilities. The fit is therefore constrained to functions that are non-decreasing
    between the smallest and the largest log-odds of the data of `fit`. Outside this
    range, the map is constant. For more than two classes, the rows are normalised.

    If a class is separable from the rest, the log loss has no minimum. The targets are
    then smoothed, with a `ConvergenceWarning`.

    References
    ----------
    .. [1] E. Berta, D. Holzmüller, M. I. Jordan and F. Bach, "Structured Matrix Scaling
       for Multi-Class Calibration", arXiv:2511.03685, 2025.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.calibrators import QuadraticLogisticCalibration
    >>> from sklearn_calib.metrics import expected_calibration_error
    >>> rng = np.random.default_rng(0)
    >>> logits = rng.normal(size=(1000, 3))
    >>> y = (logits + rng.gumbel(size=(1000, 3))).argmax(axis=1)
    >>> calibrator = QuadraticLogisticCalibration(from_logits=True).fit(3 * logits, y)
    >>> bool(expected_calibration_error(y, calibrator.predict_proba(3 * logits)) < 0.04)
    True
    """

    _errors_needed = 10, 1
    _returns_log_odds = True
    _map = Tuple(Numbers(3), Number(), Number())

    def __init__(self, *, from_logits: bool = False) -> None:
        self.from_logits = from_logits

    def _fit_map(self, log_odds: Floats, target: Array, sample_weight: Floats) -> Any:
        seen = log_odds[sample_weight > 0]
        low, high = seen.min(), seen.max()
        slopes = _parabolas(low, high)
        features = _powers(log_odds) @ slopes
        coef = fit_nonnegative(features, features.shape[1] - 1, target, sample_weight)
        return slopes @ coef, low, high

    def _apply_maps(self, log_odds: Values) -> Values:
        coefs, low, high = zip(*self.maps_, strict=True)
        log_odds = clip(log_odds, np.array(low), np.array(high))
        return linear([log_odds * log_odds, log_odds], coefs)


def _powers(log_odds: Floats) -> Floats:
    return np.column_stack([log_odds**2, log_odds, np.ones_like(log_odds)])


def _parabolas(low: float, high: float) -> Floats:
    """Return parabolas with slope 1 at one end and 0 at the other, and a constant.

    Each column contains the coefficients of the powers. A parabola is non-decreasing
    between the ends if its coefficients of the first two columns are non-negative.
    """
    if low == high:
        return np.array([[0.0], [0.0], [1.0]])
    # They are 0 at the lower end, as large constants would add rounding errors.
    square, linear, constant = [-0.5, 0.5], [high, -low], [low / 2 - high, low / 2]
    parabolas = np.array([square, linear, np.multiply(low, constant)]) / (high - low)
    return np.column_stack([parabolas, [0, 0, 1]])
