"""Venn-Abers calibration: isotonic regression with both labels of the test sample."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import isotonic_regression
from sklearn.utils.validation import check_is_fitted

from sklearn_calib._expressions.columns import steps
from sklearn_calib._expressions.symbol import Values, round_to
from sklearn_calib._numerics.binning import sums_by_value
from sklearn_calib._state.schema import BELOW_ONE, UP_TO_ONE, Numbers, Tuple
from sklearn_calib._validation.arrays import row_blocks
from sklearn_calib._validation.probabilities import warn_of_predicted_labels
from sklearn_calib._validation.types import Array, Floats
from sklearn_calib.calibrators._base.calibrator import MIN_ROWS
from sklearn_calib.calibrators._one_vs_rest.one_vs_rest import _OneVsRestCalibrator

# Scores are rounded to this number of decimals, as their last digits may depend on
# the batch.
DECIMALS = 10


class VennAbers(_OneVsRestCalibrator):
    r"""Venn-Abers calibration: isotonic regression, with the test sample as 0 and 1.

    The test sample is added to the calibration data, once with the label 0 and once
    with the label 1. Isotonic regression then gives two probabilities p0 and p1. The
    one that belongs to the true label is perfectly calibrated, for any distribution and
    any number of samples [1]_. `predict_proba` returns
    :math:`p_1 / (1 - p_0 + p_1)`, which minimises the maximum regret for the log loss,
    and `predict_interval` returns p0 and p1.

    Parameters
    ----------
    from_logits : bool, default=False
        Whether `X` contains logits. It is not inferred from the values.

    Attributes
    ----------
    maps_ : list
        For each class (for two classes, only for the second): the log-odds of the
        calibration data where p0 or p1 increases, of shape (n_points,), and p0 and p1
        of the intervals between them, of shape (n_points + 1,). At one of these
        log-odds, p0 is that of the interval above it, and p1 that of the interval below
        it.

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
    IsotonicCalibration : Isotonic regression without the test sample.

    Notes
    -----
    This is the inductive predictor. For the cross-validated one, use
    `CalibratedClassifier(estimator, VennAbers(), cv=5)`. It averages the probabilities
    of the folds, while [1]_ uses geometric means of p1 and of 1 - p0.

    `fit` computes p0 and p1 for all intervals between the distinct scores of the
    calibration data and stores where they increase, so predictions are fast. Log-odds
    are rounded to ten decimals. For more than two classes, the rows are normalised.

    References
    ----------
    .. [1] V. Vovk, I. Petej and V. Fedorova, "Large-Scale Probabilistic Predictors with
       and without Guarantees of Validity", NeurIPS 2015.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.calibrators import VennAbers
    >>> from sklearn_calib.metrics import expected_calibration_error
    >>> rng = np.random.default_rng(0)
    >>> logits = rng.normal(size=(1000, 3))
    >>> y = (logits + rng.gumbel(size=(1000, 3))).argmax(axis=1)
    >>> calibrator = VennAbers(from_logits=True).fit(3 * logits, y)
    >>> bool(expected_calibration_error(y, calibrator.predict_proba(3 * logits)) < 0.04)
    True
    >>> p0, p1 = calibrator.predict_interval([[3.0, 0.0, 0.0]])[0, 0]
    >>> f"{p0:.2f} to {p1:.2f}"
    '0.60 to 0.61'
    """

    _errors_needed = 100, 1
    _map = Tuple(
        Numbers("n", increasing=True),
        Numbers("n + 1", range=BELOW_ONE),
        Numbers("n + 1", range=UP_TO_ONE),
    )

    def __init__(self, *, from_logits: bool = False) -> None:
        self.from_logits = from_logits

    def _fit_map(self, log_odds: Floats, target: Array, sample_weight: Floats) -> Any:
        score = _rounded(log_odds)
        score, mass, positives = sums_by_value(score, target, sample_weight)
        p1 = _with_one_more_positive(mass, positives)
        # By symmetry, 1 - p0 is p1 for reversed scores and exchanged labels.
        p0 = 1 - _with_one_more_positive(mass[::-1], (mass - positives)[::-1])[::-1]
        p0, p1 = np.append(0.0, p0), np.append(p1, 1.0)
        is_step = (np.diff(p0) > 0) | (np.diff(p1) > 0)
        is_used = np.append(True, is_step)
        return score[is_step], p0[is_used], p1[is_used]

    def _apply_maps(self, log_odds: Values) -> Values:
        low, high = self._limits(log_odds)
        return high / (1 - low + high)

    def _limits(self, log_odds: Values) -> tuple[Values, Values]:
        """Return p0 and p1 of the classes that have a map."""
        scores, p0, p1 = zip(*self.maps_, strict=True)
        rounded = round_to(log_odds, DECIMALS)
        low = steps(rounded, scores, p0, side="right")
        return low, steps(rounded, scores, p1, side="left")

    def predict_interval(self, X: ArrayLike) -> Floats:
        """Return p0 and p1 of each class.

        p0 and p1 are the calibrated probability of the class if the test sample is
        labelled as another class (p0), and if it is labelled as this class (p1). A wide
        interval means that few calibration samples have such a score. It is not a
        confidence interval.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_classes), (n_samples,) or (n_samples, 1)
            Predictions of the classifier, in the same form as in `fit`.

        Returns
        -------
        interval : ndarray of shape (n_samples, n_classes, 2)
            p0 and p1, where p0 is at most p1. For two classes, the interval of the
            first class is 1 - p1 and 1 - p0 of the second, and `predict_proba` lies in
            it. For more classes, each class is calibrated against the rest, so the
            normalised probability of `predict_proba` may lie outside.
        """
        check_is_fitted(self)
        given, X = X, self._check_input(X, reset=False)
        warn_of_predicted_labels(given, "X")
        interval = np.empty((*X.shape, 2), dtype=X.dtype)
        for rows in row_blocks(len(X), X.shape[1], at_least=MIN_ROWS):
            interval[rows] = self._intervals(self._as_logits(X[rows]))
        return interval

    def _intervals(self, logits: Floats) -> Floats:
        """Return p0 and p1 of each class."""
        with np.errstate(over="ignore", invalid="ignore"):
            low, high = self._limits(self._scores(logits))
        if len(self.maps_) == 1:
            low, high = np.hstack([1 - high, low]), np.hstack([1 - low, high])
        return np.stack([low, high], axis=2)


def _rounded(log_odds: Floats) -> Floats:
    """Return rounded log-odds; values above 1e298 become infinite."""
    with np.errstate(over="ignore"):
        return np.round(log_odds, DECIMALS)


def _with_one_more_positive(mass: Floats, positives: Floats) -> Floats:
    """Return the isotonic value of each group if a sample with label 1 is added to it.

    The isotonic values are the slopes of the lower convex hull of the cumulative sums.
    The sample added to group i shifts the points behind the group by (1, 1). Its value
    is then the largest slope of a line below the original hull that starts at one of
    the points before the group, shifted by (-1, -1). So each point needs one tangent,
    and those that the shift leaves above the hull have none.
    """
    x, y = np.append(0.0, mass.cumsum()), np.append(0.0, positives.cumsum())
    isotonic = isotonic_regression(positives / mass, weights=mass)
    hull, slopes = isotonic.blocks, np.append(isotonic.x[isotonic.blocks[:-1]], 1.0)
    height = np.interp(x[:-1] - 1, x[hull], y[hull], left=np.inf)
    start = np.flatnonzero(y[:-1] - 1 <= height)
    # A tangent ends at the first vertex whose next edge, extended, passes below its
    # start. Found by binary search.
    first = np.searchsorted(x[hull[:-1]], x[start] - 1, side="right")
    last = np.full(len(start), len(hull) - 1)
    while (first < last).any():
        middle = (first + last) // 2
        end = hull[middle]
        is_end = y[end] - y[start] + 1 <= slopes[middle] * (x[end] - x[start] + 1)
        first = np.where(is_end, first, middle + 1)
        last = np.where(is_end, middle, last)
    end = hull[last]
    value = np.zeros(len(mass))
    value[start] = (y[end] - y[start] + 1) / (x[end] - x[start] + 1)
    # Cumulated weights have rounding errors.
    return np.minimum(np.maximum.accumulate(value), 1.0)
