"""Meta-Cal: temperature scaling for low-entropy samples, uniform for the rest."""

import math
from typing import Any

import numpy as np
from sklearn.isotonic import IsotonicRegression
from sklearn.utils import check_random_state

from sklearn_calib._expressions.rows import negative_entropy, softmax
from sklearn_calib._expressions.symbol import Values, where
from sklearn_calib._numerics.binning import bin_sums, occupied_bins
from sklearn_calib._numerics.sample_blocks import Block, Blocks
from sklearn_calib._solvers.temperature_fit import fit_temperature
from sklearn_calib._state.schema import POSITIVE, Number
from sklearn_calib._validation.declarations import BETWEEN_0_AND_1
from sklearn_calib._validation.samples import top_label
from sklearn_calib._validation.types import Array, Floats, Ints, Seed
from sklearn_calib.calibrators._base.calibrator import Calibrator

# Number of bins of equal weight for the accuracy, as in the authors' code.
N_BINS = 20

# Relative tolerance of the threshold. The sample that defines the threshold must be
# accepted despite rounding errors, in float32 and in any subset of the data.
SLACK = 1e-5


class MetaCal(Calibrator):
    r"""Meta-Cal: calibrate low-entropy samples, uniform probabilities for the rest.

    Samples with an entropy above a threshold are rejected: they get uniform
    probabilities. The other samples are calibrated by temperature scaling [1]_. The
    threshold controls either the fraction of correct predictions that are rejected, or
    the accuracy of the accepted samples.

    Parameters
    ----------
    miscoverage : float in (0, 1), default=0.05
        Fraction alpha of the correct predictions that may be rejected. The threshold is
        the 1 - alpha quantile of their entropies. Ignored if `coverage_accuracy` is
        given.

    coverage_accuracy : float in (0, 1), default=None
        Required accuracy of the accepted samples, MetaAcc in [1]_ and [2]_. [1]_ uses
        0.97 for CIFAR-10, 0.87 for CIFAR-100 and 0.85 for ImageNet.

    threshold_fraction : float in (0, 1), default=None
        Fraction of the samples that are drawn to set the threshold. With `miscoverage`,
        they are drawn from the correct predictions. The temperature is fitted to the
        other samples; with `miscoverage`, it is slightly too high, as these contain all
        misclassified samples. [1]_ uses 0.1. None uses all samples for both steps,
        which gives a more precise threshold.

    random_state : int, RandomState instance or None, default=None
        Controls the draw of `threshold_fraction`. Pass an int for reproducible results.

    from_logits : bool, default=False
        Whether `X` contains logits. It is not inferred from the values.

    Attributes
    ----------
    threshold_ : float
        Largest accepted entropy, in nats; infinite if all samples are accepted.

    temperature_ : float
        Temperature for accepted samples.

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
        False: for rejected samples, `predict` returns the first class.

    See Also
    --------
    SelectiveClassifier : Abstains instead of returning uniform probabilities.
    TemperatureScaling : Temperature scaling of all samples.

    Notes
    -----
    Use this method only if rejecting some of the samples is acceptable. The accuracy
    over all samples decreases by a fraction of about `miscoverage`, and the log loss
    usually increases. With `coverage_accuracy`, most samples may be rejected: [2]_
    report that the accuracy decreases from 95 % to 78 % on CIFAR-10, and from 77 % to
    40 % on CIFAR-100.

    Uniform probabilities are part of the optimal calibration map: if the entropy
    separated correct from wrong predictions, a confidence of 1 for the former and of
    1 / K for the latter would minimise the largest ECE over all binnings ([1]_,
    proposition 3; [2]_, equation 14). To lower the class-wise ECE, [2]_ limits the
    confidence of the latter to 1 / 2 (equation 17).

    The largest possible `coverage_accuracy` is about the accuracy of the 5 % of samples
    with the lowest entropy. With a value below the accuracy of all samples, no sample
    is rejected.

    The entropy is that of the probabilities before temperature scaling. With
    `coverage_accuracy`, the entropy is divided into twenty bins of equal weight, and
    isotonic regression predicts the threshold from the accuracy of the samples up to
    each bin. The authors' code differs: it excludes the smallest entropy from these
    bins, counts empty bins as errors with entropy zero, rejects samples at the
    threshold, and raises an error for accuracies below that of all samples.

    References
    ----------
    .. [1] X. Ma and M. B. Blaschko, "Meta-Cal: Well-controlled Post-hoc Calibration by
       Ranking", ICML 2021.

    .. [2] H. Zhou, S. G. Gruber, T. Popordanoska and M. B. Blaschko, "Revisiting
       Reweighted Risk for Calibration: AURC, Focal Loss, and Inverse Focal Loss",
       arXiv:2505.23463, 2025, equations 14 and 17, tables 5 and 8.

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
    _fitted = {
        "threshold_": Number(or_infinity=True),
        "temperature_": Number(POSITIVE),
    }

    _parameter_constraints: dict[str, list[Any]] = {
        **Calibrator._parameter_constraints,
        "miscoverage": BETWEEN_0_AND_1,
        "coverage_accuracy": [*BETWEEN_0_AND_1, None],
        "threshold_fraction": [*BETWEEN_0_AND_1, None],
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

    def _fit(self, data: Blocks) -> None:
        entropy, correct, codes, weight = data.collect(_entropy_and_labels)
        pool = np.flatnonzero(weight > 0)
        if self.coverage_accuracy is None:
            pool = pool[correct[pool]]
        ranked = self._draw(pool)
        self.threshold_ = self._find_threshold(
            entropy[ranked].astype(np.float64), correct[ranked], weight[ranked]
        )
        accepted = ~self._is_rejected(entropy) & (weight > 0)
        if self.threshold_fraction is not None:
            accepted[ranked] = False
        if not accepted.any():
            raise ValueError(
                "threshold_fraction must leave samples to fit the temperature, got "
                f"{self.threshold_fraction}, which leaves no sample with an entropy of "
                f"at most {self.threshold_:.3g}. Use more samples, or "
                "threshold_fraction=None."
            )
        # Without a copy of the accepted rows.
        accepted_data = data.reweighted(codes, weight * accepted)
        self.temperature_ = fit_temperature(accepted_data)

    def _draw(self, pool: Ints) -> Ints:
        """Return the rows that determine the threshold."""
        if self.threshold_fraction is None:
            return pool
        n_drawn = max(1, int(self.threshold_fraction * len(pool)))
        return check_random_state(self.random_state).permutation(pool)[:n_drawn]

    def _find_threshold(self, entropy: Floats, correct: Array, weight: Floats) -> float:
        """Return the largest entropy to accept, given the rows that determine it."""
        if self.coverage_accuracy is not None:
            return _entropy_at(self.coverage_accuracy, entropy, correct, weight)
        if len(entropy) == 0:  # There are no correct predictions.
            return math.inf
        return _upper_quantile(entropy, 1 - self.miscoverage, weight)

    def _calibrate(self, logits: Values) -> Values:
        proba = softmax(logits / self.temperature_)
        is_rejected = self._is_rejected(_entropy(logits))
        return where(is_rejected, 1 / logits.shape[1], proba)

    def _is_rejected(self, entropy: Any) -> Any:
        """Return a mask of the entropies above the threshold."""
        return entropy > self.threshold_ * (1 + SLACK)


def _entropy(logits: Values) -> Values:
    """Return the entropy of the softmax of each row, in nats."""
    return -negative_entropy(softmax(logits))


def _entropy_and_labels(block: Block) -> tuple[Array, ...]:
    """Return the entropy, whether the prediction is correct, the class and weight."""
    correct = top_label(block.logits)[1] == block.codes
    return _entropy(block.logits)[:, 0], correct, block.codes, block.weight


def _upper_quantile(values: Floats, level: float, weight: Floats) -> float:
    """Return the upper quantile of values that are repeated by their weights."""
    order = values.argsort()
    mass = weight[order].cumsum()
    # The tolerance prevents rounding errors from shifting an exact quantile.
    rank = max(0, math.ceil(level * (mass[-1] - 1) - 1e-9))
    return float(values[order[np.searchsorted(mass, rank, side="right")]])


def _entropy_at(
    accuracy: float, entropy: Floats, correct: Array, weight: Floats
) -> float:
    """Return the threshold below which the samples have the given accuracy."""
    sums = occupied_bins(
        bin_sums(
            entropy, correct, n_bins=N_BINS, strategy="quantile", sample_weight=weight
        )
    )
    reached = sums.correct.cumsum() / sums.weight.cumsum()
    if accuracy <= reached[-1]:
        return math.inf
    if accuracy > reached.max():
        raise ValueError(
            "coverage_accuracy must be at most the accuracy of the samples with the "
            f"lowest entropy, {reached.max():.3g}, got {accuracy}. Use a smaller "
            "value, or more samples."
        )
    curve = IsotonicRegression(increasing=False)
    curve.fit(reached, sums.confidence / sums.weight)
    return float(curve.predict([accuracy])[0])
