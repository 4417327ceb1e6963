"""Bayesian binning into quantiles: an average over histograms."""

import math
from typing import Any

import numpy as np
from scipy.special import gammaln

from sklearn_calib._expressions.columns import steps
from sklearn_calib._expressions.symbol import Values
from sklearn_calib._numerics.binning import sums_by_value
from sklearn_calib._state.schema import FRACTION, Numbers, Tuple
from sklearn_calib._validation.types import Array, Floats, Ints
from sklearn_calib.calibrators._base.input_data import RESOLUTION
from sklearn_calib.calibrators._one_vs_rest.one_vs_rest import _OneVsRestCalibrator

# Sample size that limits the number of histograms if the weights are large.
MOST_SAMPLES = 10**6


class BBQ(_OneVsRestCalibrator):
    r"""Bayesian binning into quantiles (BBQ): average over histograms of many sizes.

    The number of bins need not be chosen: each histogram is weighted by the marginal
    likelihood of the labels, with a beta prior on the frequency in each bin [1]_. The
    average is smoother than a single histogram.

    Parameters
    ----------
    from_logits : bool, default=False
        Whether `X` contains logits. It is not inferred from the values.

    Attributes
    ----------
    maps_ : list
        One map for each class (for two classes, only for the second): the positions of
        the steps and the probabilities between them, of shape (n_steps,) and (n_steps +
        1,). A predicted probability at a step has the value below it.

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
    HistogramBinning : A single histogram.

    Notes
    -----
    With n samples, the numbers of bins are all integers from n^(1/3) / 10 to 10 n^(1/3)
    for which a bin has at least 5 samples. Bins have equal numbers of samples, and the
    last bin also contains the remainder. If the weights sum to more than a million,
    these bounds use n = 1e6, or the number of distinct predictions if it is larger.
    Histograms whose weights are together below 2.2e-16 are omitted from the average.

    The beta prior of a bin has the weight of 2 samples, and its mean is the midpoint of
    the bin. The probability of a bin with :math:`n_1` positives among :math:`n_b`
    samples is :math:`(n_1 + q) / (n_b + 1)`, where q is the mean of the midpoint and of
    the predicted probabilities of the positives.

    There are two differences from the authors' code. It omits unlikely histograms,
    which changes the third digit. It may also put equal predictions into different
    bins; here, they are always in the same bin. Other packages use the name BBQ for
    different methods: bins of equal width weighted by BIC, or at most 15 bins.

    For more than two classes, the rows are normalised.

    References
    ----------
    .. [1] M. P. Naeini, G. F. Cooper and M. Hauskrecht, "Obtaining Well Calibrated
       Probabilities Using Bayesian Binning", AAAI 2015.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.calibrators import BBQ
    >>> from sklearn_calib.metrics import expected_calibration_error
    >>> rng = np.random.default_rng(0)
    >>> logits = rng.normal(size=(1000, 3))
    >>> y = (logits + rng.gumbel(size=(1000, 3))).argmax(axis=1)
    >>> calibrator = BBQ(from_logits=True).fit(3 * logits, y)
    >>> bool(expected_calibration_error(y, calibrator.predict_proba(3 * logits)) < 0.05)
    True
    """

    _errors_needed = 100, 1
    _maps_probabilities = True
    _map = Tuple(
        Numbers("n", increasing=True),
        Numbers("n + 1", range=FRACTION),
    )

    def __init__(self, *, from_logits: bool = False) -> None:
        self.from_logits = from_logits

    def _fit_map(self, score: Floats, target: Array, sample_weight: Floats) -> Any:
        score, mass, positives = sums_by_value(score, target, sample_weight)
        models, ends = _cuts(mass.cumsum())
        low, high = _edges(score, models, ends)
        n, n_positive, positive_score = (
            _between(values.cumsum(), models, ends)
            for values in (mass, positives, positives * score)
        )
        middle = (low + high) / 2
        evidence = np.bincount(models, _log_evidence(n, n_positive, middle))
        posterior = np.exp(evidence - evidence.max())
        posterior /= posterior.sum()
        prior = (positive_score + middle) / (n_positive + 1)
        proba = (n_positive + prior) / (n + 1)
        # Almost all histograms of a large sample have a negligible weight.
        matters = posterior[models] > RESOLUTION / len(posterior)
        return _average(low[matters], proba[matters], posterior[models[matters]])

    def _apply_maps(self, proba: Values) -> Values:
        edges, tables = zip(*self.maps_, strict=True)
        return steps(proba, edges, tables, side="left")


def _cuts(total: Floats) -> tuple[Ints, Ints]:
    """Return the histogram of each bin, and the number of values up to its end.

    `total` is the cumulative weight of the distinct values. The bins of a histogram are
    consecutive; those that are empty because of ties are left out.
    """
    n = min(total[-1], max(MOST_SAMPLES, len(total)))
    largest = max(1, min(math.ceil(n / 5), math.ceil(10 * n ** (1 / 3))))
    smallest = min(largest, max(1, math.floor(n ** (1 / 3) / 10)))
    n_bins = np.arange(smallest, largest + 1)
    models = np.repeat(np.arange(len(n_bins)), n_bins)
    last = n_bins.cumsum() - 1
    number = np.arange(len(models)) - np.repeat(last - n_bins, n_bins)
    targets = number * np.repeat(np.floor(total[-1] / n_bins), n_bins)
    ends = np.minimum(np.searchsorted(total, targets * (1 - 1e-12)) + 1, len(total))
    ends[last] = len(total)
    is_filled = (np.diff(ends, prepend=0) > 0) | (number == 1)
    return models[is_filled], ends[is_filled]


def _edges(score: Floats, models: Ints, ends: Ints) -> tuple[Floats, Floats]:
    """Return the lower and upper edge of each bin, midway between two values."""
    midway = np.append((score[1:] + score[:-1]) / 2, 1.0)
    high = midway[ends - 1]
    low = np.append(0.0, high[:-1])
    low[np.append(True, np.diff(models) > 0)] = 0.0
    return low, high


def _between(total: Floats, models: Ints, ends: Ints) -> Floats:
    """Return the sum in each bin, given cumulative sums."""
    upto = total[ends - 1]
    before = np.append(0.0, upto[:-1])
    before[np.append(True, np.diff(models) > 0)] = 0.0
    return upto - before


def _log_evidence(n: Floats, n_positive: Floats, middle: Floats) -> Floats:
    """Return the log marginal likelihood of the labels in each bin."""
    mean = np.clip(middle, 0.005, 0.995)
    value = gammaln(2) - gammaln(n + 2)
    for count, prior in ((n_positive, 2 * mean), (n - n_positive, 2 * (1 - mean))):
        value += gammaln(np.maximum(count, 0) + prior) - gammaln(prior)
    return value


def _average(low: Floats, proba: Floats, posterior: Floats) -> tuple[Floats, Floats]:
    """Return the positions of the steps of the average, and the values between them."""
    is_first = low == 0
    step = np.where(is_first, 0.0, proba - np.append(0.0, proba[:-1])) * posterior
    order = np.flatnonzero(~is_first)
    order = order[np.argsort(low[order], kind="stable")]
    first = (proba * posterior)[is_first]
    values = first.sum() + np.append(0.0, step[order].cumsum())
    # Because of rounding errors, values may be slightly outside [0, 1].
    return low[order], np.clip(values, 0.0, 1.0, out=values)
