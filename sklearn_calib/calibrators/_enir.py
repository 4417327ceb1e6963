"""Ensemble of near-isotonic regressions: monotone, but for what the data insist on."""

import math
from typing import Any

import numpy as np
from scipy.special import xlog1py, xlogy

from sklearn_calib._core.binning import sums_by_value
from sklearn_calib._core.near_isotonic import near_isotonic_path
from sklearn_calib._core.typing import Array, Floats
from sklearn_calib.calibrators._one_vs_rest import _OneVsRestCalibrator

# Solutions with more groups than that are never likely beside those with fewer.
MAX_GROUPS = 300


class ENIR(_OneVsRestCalibrator):
    r"""Average near-isotonic regressions by how likely they are.

    Isotonic regression forbids that the map falls; near-isotonic regression puts a
    price on it. All prices are tried, from nothing to one that makes the map monotone,
    and the maps averaged with weights by the Bayesian information criterion [1]_.

    Parameters
    ----------
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
    IsotonicCalibration : The last of the maps.
    BBQ : An average of histograms.

    Notes
    -----
    The maps are the solutions at those prices at which two groups of equal values meet
    [2]_. One with d groups and the log-likelihood L counts as
    :math:`\exp(L - d \log(2 \pi n) / 2)`; one that says 0 or 1 where that is wrong does
    not count. As in the authors' code each group's value is then drawn towards the mean
    probability before, as by one sample or less. Between points the map is linear,
    beyond them constant.

    Of more than two classes the rows are divided by their sums. No probability of zero
    is returned: the class frequencies, with one more sample of each class, count as one
    sample beside the n of the fit.

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
    _says_zero = True

    def __init__(self, *, from_logits: bool = False) -> None:
        self.from_logits = from_logits

    def _fit_map(self, score: Floats, hit: Array, sample_weight: Floats) -> Any:
        score, mass, hits = sums_by_value(score, hit, sample_weight)
        criteria, maps = [], []
        for _, first, value in near_isotonic_path(hits / mass, mass, MAX_GROUPS):
            sums = [np.add.reduceat(part, first) for part in (mass, hits, mass * score)]
            value = np.clip(value, 0, 1)
            criteria.append(_criterion(value, *sums[:2]))
            sizes = np.diff(first, append=len(score))
            maps.append(np.repeat(_drawn_to_before(value, *sums), sizes))
        share = np.exp(np.array(criteria) - max(criteria))
        return score, share @ np.array(maps) / share.sum()

    def _apply_map(self, fitted: Any, score: Floats) -> Floats:
        return np.interp(score, *fitted)


def _criterion(value: Floats, mass: Floats, hits: Floats) -> Any:
    """Return the log of how likely the solution is, by the BIC."""
    likelihood = xlogy(hits, value) + xlog1py(mass - hits, -value)
    return likelihood.sum() - len(value) * math.log(2 * math.pi * mass.sum()) / 2


def _drawn_to_before(
    value: Floats, mass: Floats, hits: Floats, score_sum: Floats
) -> Floats:
    """Return values with up to one sample more, of the mean probability before."""
    before = score_sum / mass
    extra = 1 - np.abs(hits / mass - before)
    return (value * mass + before * extra) / (mass + extra)
