"""Quadratic logistic calibration: a parabola of the log-odds."""

from typing import Any

import numpy as np

from sklearn_calib._core.logistic import fit_nonnegative
from sklearn_calib._core.typing import Array, Floats
from sklearn_calib.calibrators._one_vs_rest import _OneVsRestCalibrator

# Log-odds beyond it are taken for it: their squares would not be numbers.
LARGEST = 1e100


class QuadraticLogisticCalibration(_OneVsRestCalibrator):
    r"""Map the log-odds of each class by a parabola, fitted by log loss.

    The calibrated probability is :math:`\sigma(c\, l^2 + a\, l + b)` with the log-odds
    l: Platt scaling with one parameter more, which lets small and large probabilities
    be wrong by different factors [1]_. That is exact where the log-odds of either class
    are normal with variances of their own.

    Parameters
    ----------
    from_logits : bool, default=False
        Whether X holds logits. Never guessed.

    Attributes
    ----------
    maps_ : list of tuple
        c, a and b in an array, and the log-odds beyond which the map is constant, of
        each class; of two for the second alone.

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
    PlattScaling : Without the square.

    Notes
    -----
    A parabola turns round somewhere, so that the surest predictions could get the
    smallest probabilities. The fit is therefore the best one among those that fall
    nowhere between the smallest and the largest log-odds of the calibration data, and
    beyond these, or 1e100, the map is constant. Of more than two classes the rows are
    divided by their sums.

    When hits and misses can be separated, the log loss has no minimum; then the targets
    are smoothed, with a `ConvergenceWarning`.

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

    def __init__(self, *, from_logits: bool = False) -> None:
        self.from_logits = from_logits

    def _fit_map(self, log_odds: Floats, hit: Array, sample_weight: Floats) -> Any:
        log_odds = np.clip(log_odds, -LARGEST, LARGEST)
        seen = log_odds[sample_weight > 0]
        low, high = seen.min(), seen.max()
        slopes = _parabolas(low, high)
        features = _powers(log_odds) @ slopes
        coef = fit_nonnegative(features, features.shape[1] - 1, hit, sample_weight)
        return slopes @ coef, low, high

    def _apply_map(self, fitted: Any, log_odds: Floats) -> Floats:
        coef, low, high = fitted
        return _powers(np.clip(log_odds, low, high)) @ coef


def _powers(log_odds: Floats) -> Floats:
    return np.column_stack([log_odds**2, log_odds, np.ones_like(log_odds)])


def _parabolas(low: float, high: float) -> Floats:
    """Return those with slopes of 1 at one end and 0 at the other, and a constant.

    Each is a column of coefficients of the powers. What rises at both ends is a sum of
    them with weights that are not negative.
    """
    if low == high:
        return np.array([[0.0], [0.0], [1.0]])
    width = high - low
    return np.array(
        [[-0.5 / width, 0.5 / width, 0], [high / width, -low / width, 0], [0, 0, 1]]
    )
