"""Meta-Cal: temperature scaling where the ranking says so, equal chances elsewhere."""

import math
from numbers import Real

import numpy as np
from sklearn.isotonic import IsotonicRegression
from sklearn.utils import check_random_state

from sklearn_calib._core.binning import bin_sums, occupied_bins
from sklearn_calib._core.confidence import negative_entropy, top_label
from sklearn_calib._core.links import softmax
from sklearn_calib._core.optimize import fit_temperature
from sklearn_calib._core.typing import Array, Bools, Floats, Ints, Seed, Weights
from sklearn_calib._core.validation import Interval
from sklearn_calib.calibrators._base import Calibrator, by_blocks

# On how many bins of equal weight accuracy is followed, as in the authors' code.
N_BINS = 20

# How far above the threshold an entropy may be, relative to it: that of the sample that
# set it must be below however it is rounded, in float32 and in any part of the data.
SLACK = 1e-5


class MetaCal(Calibrator):
    r"""Rank by entropy, calibrate the certain, and give up the others on purpose.

    Samples whose entropy is above a threshold get the same probability for every class;
    the others are calibrated by temperature scaling [1]_. The confidence in an answer
    is then the better to be trusted, at a price that is chosen: either which share of
    the correct predictions is given up, or which accuracy the others must have.

    Parameters
    ----------
    miscoverage : float in (0, 1), default=0.05
        Share of the correct predictions that may be given up, alpha. The threshold is
        their quantile of the entropy at 1 - alpha. Not used if `coverage_accuracy` is
        given.

    coverage_accuracy : float in (0, 1), default=None
        Accuracy among the samples that are not given up; [1]_ has 0.97 for CIFAR-10,
        0.87 for CIFAR-100, 0.85 for ImageNet. This is MetaAcc of [1]_ and [2]_.

    threshold_fraction : float in (0, 1), default=None
        Share of the samples that are drawn to set the threshold, with `miscoverage` of
        the correct ones; only the others are used for the temperature, which is then a
        little too high, as of the errors none is left out. [1]_ has 0.1. None uses all
        samples for both: what was asked for then comes out more exactly.

    random_state : int, RandomState instance or None, default=None
        What to draw by, with a `threshold_fraction`. An int makes it repeatable.

    from_logits : bool, default=False
        Whether X holds logits. Never guessed.

    Attributes
    ----------
    threshold_ : float
        The largest entropy that is not given up, in nats; infinite if none is.

    temperature_ : float
        What the logits of the samples up to the threshold are divided by.

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
        False: of equal probabilities, `predict` takes the first class.

    See Also
    --------
    SelectiveClassifier : Says that it abstains, where this says equal probabilities.
    TemperatureScaling : Gives nothing up.

    Notes
    -----
    Accuracy falls, that among all samples by about `miscoverage` of it, and log loss
    mostly rises. A `coverage_accuracy` between that of the most certain twentieth and
    that of all samples decides by itself how many are given up, which may be most:
    [2]_ report accuracies from 95 % down to 78 % on CIFAR-10, and from 77 % to 40 % on
    CIFAR-100. The method is for those who may act on the probabilities of some samples
    only.

    The entropy is that of the probabilities before the temperature. With
    `coverage_accuracy`, it is a decreasing function of the accuracy up to it, fitted by
    isotonic regression to twenty bins of equal weight. The authors' code leaves the
    smallest entropy out of these bins, counts empty ones as errors without entropy,
    gives up samples at the threshold, and refuses an accuracy below that of all
    samples, where here nothing is given up.

    `sample_weight` counts as repetition.

    References
    ----------
    .. [1] X. Ma and M. B. Blaschko, "Meta-Cal: Well-controlled Post-hoc Calibration by
       Ranking", ICML 2021.

    .. [2] H. Zhou, S. G. Gruber, T. Popordanoska and M. B. Blaschko, "Revisiting
       Reweighted Risk for Calibration: AURC, Focal Loss, and Inverse Focal Loss",
       arXiv:2505.23463, 2025, tables 5 and 8.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.calibrators import MetaCal
    >>> rng = np.random.default_rng(0)
    >>> logits = 2 * rng.normal(size=(1000, 4))
    >>> y = (logits + rng.gumbel(size=(1000, 4))).argmax(axis=1)
    >>> overconfident = 3 * logits
    >>> calibrator = MetaCal(miscoverage=0.2, from_logits=True).fit(overconfident, y)
    >>> calibrator.predict_proba(overconfident[6:9]).round(2)
    array([[0.81, 0.15, 0.03, 0.02],
           [0.14, 0.58, 0.04, 0.24],
           [0.25, 0.25, 0.25, 0.25]])
    """

    _errors_needed = 10, 0
    preserves_argmax = False

    _parameter_constraints: dict = {
        **Calibrator._parameter_constraints,
        "miscoverage": [Interval(Real, 0, 1, closed="neither")],
        "coverage_accuracy": [Interval(Real, 0, 1, closed="neither"), None],
        "threshold_fraction": [Interval(Real, 0, 1, closed="neither"), None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        *,
        miscoverage: float = 0.05,
        coverage_accuracy: float | None = None,
        threshold_fraction: float | None = None,
        random_state: Seed = None,
        from_logits: bool = False,
    ) -> None:
        self.miscoverage = miscoverage
        self.coverage_accuracy = coverage_accuracy
        self.threshold_fraction = threshold_fraction
        self.random_state = random_state
        self.from_logits = from_logits

    def _fit(self, logits: Floats, codes: Ints, sample_weight: Weights) -> None:
        weight = np.ones(len(logits)) if sample_weight is None else sample_weight
        entropy, hit = _entropy(logits), top_label(logits)[1] == codes
        pool = np.flatnonzero(weight > 0)
        if self.coverage_accuracy is None:
            pool = pool[hit[pool]]
        ranked = self._draw(pool)
        self.threshold_ = self._find_threshold(
            entropy[ranked].astype(np.float64), hit[ranked], weight[ranked]
        )
        accepted = ~self._gives_up(entropy) & (weight > 0)
        if self.threshold_fraction is not None:
            accepted[ranked] = False
        if not accepted.any():
            raise ValueError(
                "threshold_fraction must leave samples for the temperature, got "
                f"{self.threshold_fraction}, which leaves none up to the entropy "
                f"{self.threshold_:.3g}. Calibrate on more samples, or set it to None."
            )
        self.temperature_ = fit_temperature(
            logits[accepted], codes[accepted], weight[accepted]
        )

    def _draw(self, pool: Ints) -> Ints:
        """Return the rows that set the threshold."""
        if self.threshold_fraction is None:
            return pool
        n_drawn = max(1, int(self.threshold_fraction * len(pool)))
        return check_random_state(self.random_state).permutation(pool)[:n_drawn]

    def _find_threshold(self, entropy: Floats, hit: Array, weight: Floats) -> float:
        """Return the largest entropy to accept, by that of the rows that set it."""
        if self.coverage_accuracy is not None:
            return _entropy_at(self.coverage_accuracy, entropy, hit, weight)
        if len(entropy) == 0:  # nothing correct that could be given up
            return math.inf
        return _upper_quantile(entropy, 1 - self.miscoverage, weight)

    def _calibrate(self, logits: Floats) -> Floats:
        proba = by_blocks(lambda block: softmax(block / self.temperature_), logits)
        proba[self._gives_up(_entropy(logits))] = 1 / logits.shape[1]
        return proba

    def _gives_up(self, entropy: Floats) -> Bools:
        """Return whether an entropy is above the threshold."""
        return entropy > self.threshold_ * (1 + SLACK)


def _entropy(logits: Floats) -> Floats:
    """Return the entropy of the softmax of each row, in nats."""
    return -negative_entropy(softmax(logits))


def _upper_quantile(values: Floats, level: float, weight: Floats) -> float:
    """Return the quantile, the larger of two neighbours; weights are repetitions."""
    order = values.argsort()
    mass = weight[order].cumsum()
    # The slack keeps rounding from taking the neighbour of an exact quantile.
    rank = max(0, math.ceil(level * (mass[-1] - 1) - 1e-9))
    return float(values[order[np.searchsorted(mass, rank, side="right")]])


def _entropy_at(accuracy: float, entropy: Floats, hit: Array, weight: Floats) -> float:
    """Return the entropy up to which the accuracy is the given one."""
    sums = occupied_bins(
        bin_sums(entropy, hit, n_bins=N_BINS, strategy="quantile", sample_weight=weight)
    )
    reached = sums.hit.cumsum() / sums.weight.cumsum()
    if accuracy <= reached[-1]:
        return math.inf
    if accuracy > reached.max():
        raise ValueError(
            "coverage_accuracy must be at most that of the most certain samples, "
            f"{reached.max():.3g}, got {accuracy}. Choose a smaller one, or calibrate "
            "on more samples."
        )
    curve = IsotonicRegression(increasing=False)
    curve.fit(reached, sums.confidence / sums.weight)
    return float(curve.predict([accuracy])[0])
