"""Histogram binning and scaling-binning."""

from typing import Any

import numpy as np

from sklearn_calib._expressions.columns import bins
from sklearn_calib._expressions.symbol import Values, expit, round_to
from sklearn_calib._numerics.binning import bin_index, check_most_bins, interior_edges
from sklearn_calib._solvers.logistic import fit_logistic
from sklearn_calib._state.schema import FRACTION, Numbers, Tuple
from sklearn_calib._validation.declarations import COUNT, StrOptions
from sklearn_calib._validation.types import Array, Floats, Options
from sklearn_calib.calibrators._base.input_data import RESOLUTION
from sklearn_calib.calibrators._one_vs_rest.one_vs_rest import _OneVsRestCalibrator

# The scaled log-odds are rounded to this number of decimals.
DECIMALS = 10

# Edges between bins, and the value of each bin.
STEPS = Numbers("n", increasing=True), Numbers("n + 1", range=FRACTION)
N_BINS = {"n_bins": COUNT}


class HistogramBinning(_OneVsRestCalibrator):
    r"""Histogram binning: replace a probability by the class frequency in its bin.

    All samples in a bin get the same probability, so differences between them are lost.

    Parameters
    ----------
    n_bins : int, default=15
        Number of bins of each class, at most the larger of 1000 and the number of
        samples.

    strategy : {"uniform", "quantile"}, default="quantile"
        Use bins of equal width, as in [2]_, or bins of equal numbers of samples as far
        as ties allow, as in [1]_.

    from_logits : bool, default=False
        Whether `X` contains logits. It is not inferred from the values.

    Attributes
    ----------
    maps_ : list
        One map for each class (for two classes, only for the second): the interior
        edges and the frequencies in the bins, of shape (n_bins - 1,) and (n_bins,).

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
    ScalingBinning : Means of Platt scaling in bins, which need fewer samples.

    Notes
    -----
    The bins are those of :func:`~sklearn_calib.metrics.expected_calibration_error`,
    except that edges of "quantile" bins are midway between two samples. A probability
    on an edge is in the bin below it. The value of an empty bin is its midpoint.

    With the weight w = `mixing_`, the result is (1 - w) q + w `class_prior_`, so that
    no probability is zero; `class_prior_` has the weight of one additional sample. Here
    q are the values of the bins. For two classes, they are 1 - q and q with the map of
    the second class. For more, each row is divided by its sum, and is `class_prior_` if
    the sum is zero.

    References
    ----------
    .. [1] B. Zadrozny and C. Elkan, "Obtaining Calibrated Probability Estimates from
       Decision Trees and Naive Bayesian Classifiers", ICML 2001.

    .. [2] C. Guo, G. Pleiss, Y. Sun and K. Q. Weinberger, "On Calibration of Modern
       Neural Networks", ICML 2017.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.calibrators import HistogramBinning
    >>> from sklearn_calib.metrics import expected_calibration_error
    >>> rng = np.random.default_rng(0)
    >>> logits = rng.normal(size=(1000, 3))
    >>> y = (logits + rng.gumbel(size=(1000, 3))).argmax(axis=1)
    >>> calibrator = HistogramBinning(from_logits=True).fit(3 * logits, y)
    >>> bool(expected_calibration_error(y, calibrator.predict_proba(3 * logits)) < 0.04)
    True
    """

    _errors_needed = 100, 1
    _maps_probabilities = True
    _returns_zero = True
    _map = Tuple(*STEPS)
    _parameter_constraints = {
        **_OneVsRestCalibrator._parameter_constraints,
        **N_BINS,
        "strategy": [StrOptions({"uniform", "quantile"})],
    }

    def __init__(
        self, *, n_bins: int = 15, strategy: str = "quantile", from_logits: bool = False
    ) -> None:
        self.n_bins = n_bins
        self.strategy = strategy
        self.from_logits = from_logits

    def _fit_map(self, score: Floats, target: Array, sample_weight: Floats) -> Any:
        options: Options = {"n_bins": self.n_bins, "strategy": self.strategy}
        return _bin_means(score, target, sample_weight, **options)

    def _apply_maps(self, proba: Values) -> Values:
        edges, values = zip(*self.maps_, strict=True)
        return bins(proba, edges, values)


class ScalingBinning(_OneVsRestCalibrator):
    r"""Scaling-binning: Platt scaling, averaged in bins.

    As in histogram binning, the calibrated probabilities have only a few distinct
    values, so their calibration error can be estimated on held-out data. The value of a
    bin is the mean of Platt scaling instead of a class frequency, which requires fewer
    samples [1]_.

    Parameters
    ----------
    n_bins : int, default=10
        Number of bins of each class, at most the larger of 1000 and the number of
        samples. Bins have equal numbers of samples as far as ties allow.

    from_logits : bool, default=False
        Whether `X` contains logits. It is not inferred from the values.

    Attributes
    ----------
    maps_ : list
        One map for each class (for two classes, only for the second): slope and
        intercept of Platt scaling, the interior edges of the bins, and the means in the
        bins.

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
    HistogramBinning : Class frequencies in bins.
    PlattScaling : Platt scaling without bins.

    Notes
    -----
    The same samples are used to fit Platt scaling and the bins, as in the authors'
    package; the bounds of [1]_ assume separate samples. The log-odds after Platt
    scaling are rounded to ten decimals, so that the bin of a sample does not depend on
    rounding errors. A probability on an edge is in the bin below it. For more than two
    classes, the rows are normalised, which leads to more distinct values.

    If a class is separable from the rest, the log loss has no minimum. Platt's smoothed
    targets are then used, with a `ConvergenceWarning`.

    References
    ----------
    .. [1] A. Kumar, P. Liang and T. Ma, "Verified Uncertainty Calibration",
       NeurIPS 2019, section 4.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.calibrators import ScalingBinning
    >>> from sklearn_calib.metrics import expected_calibration_error
    >>> rng = np.random.default_rng(0)
    >>> logits = rng.normal(size=(1000, 3))
    >>> y = (logits + rng.gumbel(size=(1000, 3))).argmax(axis=1)
    >>> calibrator = ScalingBinning(from_logits=True).fit(3 * logits, y)
    >>> bool(expected_calibration_error(y, calibrator.predict_proba(3 * logits)) < 0.04)
    True
    """

    _errors_needed = 100, 1
    _map = Tuple(Numbers(2), *STEPS)
    _parameter_constraints = {**_OneVsRestCalibrator._parameter_constraints, **N_BINS}

    def __init__(self, *, n_bins: int = 10, from_logits: bool = False) -> None:
        self.n_bins = n_bins
        self.from_logits = from_logits

    def _fit_map(self, log_odds: Floats, target: Array, sample_weight: Floats) -> Any:
        features = np.column_stack([log_odds, np.ones_like(log_odds)])
        line = fit_logistic(features, target, sample_weight)
        scaled = _scale(log_odds, line)
        options: Options = {"n_bins": self.n_bins, "strategy": "quantile"}
        return line, *_bin_means(scaled, scaled, sample_weight, **options)

    def _apply_maps(self, log_odds: Values) -> Values:
        lines, edges, values = zip(*self.maps_, strict=True)
        return bins(_scale(log_odds, np.transpose(lines)), edges, values)


def _scale(log_odds: Values, line: Floats) -> Values:
    """Return the scaled probabilities; rounded, so they do not depend on the batch."""
    return expit(round_to(log_odds * line[0] + line[1], DECIMALS))


def _bin_means(
    proba: Floats, target: Array, weight: Floats, *, n_bins: int, strategy: str
) -> tuple[Floats, Floats]:
    """Return the interior edges, and the mean target in each bin."""
    check_most_bins(n_bins, len(proba))
    edges = _edges(proba, weight, n_bins=n_bins, strategy=strategy)
    index = bin_index(proba, edges)
    mass = np.bincount(index, weight, n_bins)
    total = np.bincount(index, weight * target, n_bins)
    limits = np.concatenate([[0.0], edges, [1.0]])
    middle = (limits[1:] + limits[:-1]) / 2
    return edges, np.divide(total, mass, out=middle, where=mass > 0)


def _edges(proba: Floats, weight: Floats, **options: Any) -> Floats:
    """Return the interior edges; edges of "quantile" bins are midway between values."""
    if options["strategy"] == "uniform":
        # A probability on an edge must not move to the next bin by rounding errors of
        # its logarithm.
        return interior_edges(proba, **options) * (1 + 4 * RESOLUTION)
    if weight.min() == weight.max():
        value = np.sort(proba)
        edges = interior_edges(value, **options)
    else:
        value = np.sort(proba[weight > 0])
        edges = interior_edges(proba, sample_weight=weight, **options)
    # Edges are midway, so that rounding errors do not move a sample to another bin.
    following = np.searchsorted(value, edges, side="right")
    return (edges + value[np.minimum(following, len(value) - 1)]) / 2
