"""Ensemble of near-isotonic regressions."""

import math
from typing import Any

import numpy as np
from scipy.special import xlog1py, xlogy

from sklearn_calib._numerics.binning import sums_by_value
from sklearn_calib._validation.types import Array, Floats
from sklearn_calib.calibrators._one_vs_rest.isotonic import interpolate
from sklearn_calib.calibrators._one_vs_rest.near_isotonic import near_isotonic_path
from sklearn_calib.calibrators._one_vs_rest.one_vs_rest import (
    CURVE,
    _OneVsRestCalibrator,
)

# Solutions with more groups have a negligible weight.
MAX_GROUPS = 300


class ENIR(_OneVsRestCalibrator):
    r"""Ensemble of near-isotonic regressions (ENIR), weighted by BIC.

    Isotonic regression does not allow the map to decrease; near-isotonic regression
    only penalises decreases. The maps for all penalty strengths, from zero to the
    smallest one for which the map is monotonic, are averaged with weights from the
    Bayesian information criterion (BIC) [1]_.

    Parameters
    ----------
    from_logits : bool, default=False
        Whether `X` contains logits. It is not inferred from the values.

    Attributes
    ----------
    maps_ : list
        One piecewise linear map for each class (for two classes, only for the second):
        probabilities before and after calibration, each of shape (n_points,).

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
    IsotonicCalibration : A monotonic map.
    BBQ : Average over histograms instead of near-isotonic regressions.

    Notes
    -----
    The averaged maps are the solutions for those penalty strengths at which two groups
    of equal values merge [2]_. A solution with d groups and log-likelihood L has the
    weight :math:`\exp(L - d \log(2 \pi n) / 2)`. The weight is 0 if the solution gives
    the true label of a sample a probability of zero. As in the authors' code, the value
    of each group is then shrunk towards the mean predicted probability of the group,
    which has the weight of at most one sample. The map is linear between its points,
    and constant outside their range.

    For more than two classes, the rows are normalised. To avoid probabilities of zero,
    the result is mixed with `class_prior_`, which has the weight of one additional
    sample.

    References
    ----------
    .. [1] M. P. Naeini and G. F. Cooper, "Binary Classifier Calibration Using an
       Ensemble of Near Isotonic Regression Models", ICDM 2016.

    .. [2] R. J. Tibshirani, H. Hoefling and R. Tibshirani, "Nearly-Isotonic
       Regression", Technometrics 53, 2011.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.calibrators import ENIR
    >>> from sklearn_calib.metrics import expected_calibration_error
    >>> rng = np.random.default_rng(0)
    >>> logits = rng.normal(size=(1000, 3))
    >>> y = (logits + rng.gumbel(size=(1000, 3))).argmax(axis=1)
    >>> calibrator = ENIR(from_logits=True).fit(3 * logits, y)
    >>> bool(expected_calibration_error(y, calibrator.predict_proba(3 * logits)) < 0.04)
    True
    """

    _errors_needed = 100, 1
    _maps_probabilities = True
    _map = CURVE
    _returns_zero = True

    def __init__(self, *, from_logits: bool = False) -> None:
        self.from_logits = from_logits

    def _fit_map(self, score: Floats, target: Array, sample_weight: Floats) -> Any:
        score, mass, positives = sums_by_value(score, target, sample_weight)
        # The weights are relative to the largest so far: only the average is kept.
        largest, total, average = -math.inf, 0.0, np.zeros(len(score))
        for _, first, value in near_isotonic_path(positives / mass, mass, MAX_GROUPS):
            sums = [
                np.add.reduceat(part, first) for part in (mass, positives, mass * score)
            ]
            value = np.clip(value, 0, 1)
            criterion = _criterion(value, *sums[:2])
            if criterion > largest:
                factor = math.exp(largest - criterion)
                largest, total, average = criterion, total * factor, average * factor
            if (weight := math.exp(criterion - largest)) > 0:
                sizes = np.diff(first, append=len(score))
                total += weight
                average += weight * np.repeat(_shrink_to_score(value, *sums), sizes)
        return score, average / total

    def _apply_map(self, fitted: Any, score: Floats) -> Floats:
        return interpolate(score, fitted)


def _criterion(value: Floats, mass: Floats, positives: Floats) -> Any:
    """Return the log weight of a solution, by the BIC."""
    likelihood = xlogy(positives, value) + xlog1py(mass - positives, -value)
    return likelihood.sum() - len(value) * math.log(2 * math.pi * mass.sum()) / 2


def _shrink_to_score(
    value: Floats, mass: Floats, positives: Floats, score_sum: Floats
) -> Floats:
    """Return values with a pseudo-sample of at most one, at the mean score."""
    before = score_sum / mass
    extra = 1 - np.abs(positives / mass - before)
    return (value * mass + before * extra) / (mass + extra)
