"""Monitoring of calibration after deployment."""

from __future__ import annotations

import copy
import math
from functools import lru_cache
from numbers import Integral, Real
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from sklearn_calib._numerics.binning import class_gap_norm
from sklearn_calib._numerics.sample_blocks import as_float64
from sklearn_calib._state.mergeable import Accumulator
from sklearn_calib._state.schema import FINITE, NON_NEGATIVE, Number, Numbers, Spec
from sklearn_calib._validation.arrays import is_empty, shown
from sklearn_calib._validation.declarations import (
    BETWEEN_0_AND_1,
    MODES,
    Interval,
    StrOptions,
)
from sklearn_calib._validation.labels import as_labels, encode_labels
from sklearn_calib._validation.probabilities import nonzero_weight
from sklearn_calib._validation.samples import check_two_classes, read_samples
from sklearn_calib._validation.types import Floats
from sklearn_calib.deployment._evidence import (
    N_BLOCKS,
    Alternatives,
    BatchSums,
    bet,
    join_blocks,
    log_evidence,
    log_value,
    replay,
)
from sklearn_calib.deployment._repairs import choose_repair

# Relative rounding errors of sums in files.
ROUNDING = 1e-9

# The same for every batch.
_alternatives = lru_cache(maxsize=8)(Alternatives)


class Diagnosis(NamedTuple):
    """Diagnosis of a monitor: when the calibration changed, and what to do."""

    change_point: int | None
    n_samples: int
    calibration_error: float
    advice: str
    log_evidence: dict[str, float]
    log_losses: dict[str, float]


def _exp(value: float) -> float:
    """Return the exponential, infinity for large values."""
    return math.exp(value) if value < 700 else math.inf


class CalibrationMonitor(Accumulator):
    r"""Calibration monitor: a sequential test of calibration for deployed classifiers.

    The labels of predictions are added in batches, as they become known. After every
    batch, the e-value is the evidence against calibration so far. An alarm is raised
    when it reaches :math:`1/\alpha`. For a calibrated classifier, the probability of
    ever raising an alarm is at most :math:`\alpha`, however long it is monitored and
    however often one looks. :meth:`diagnose` estimates when the calibration changed,
    and says what to do.

    The memory does not depend on the number of samples. Monitors of several workers can
    be merged with `+` or `sum`, and saved by :func:`sklearn_calib.save` or
    :func:`sklearn_calib.persistence.to_dict`. After recalibration, use
    :func:`sklearn.base.clone` to create a new monitor.

    Parameters
    ----------
    labels : array-like of shape (n_classes,)
        Labels of the columns of `y_proba`, such as `classes_` of the classifier. A
        batch need not contain all of them.

    alpha : float, default=0.05
        Probability of a false alarm, in (0, 1).

    mode : {"top_label", "positive", "classwise"}, default="top_label"
        Probability that is monitored: the confidence of the prediction, the probability
        of the positive class of two, or that of each class. For several classes,
        "classwise" finds changed class frequencies after fewer batches than
        "top_label", which finds overconfidence slightly sooner.

    n_bins : int, default=15
        Number of bins of equal width, at most 1000.

    tolerance : float, default=0
        Largest difference between predicted and true probability that is not evidence
        against calibration, in [0, 1). Few classifiers are perfectly calibrated; with
        0, any difference is found in the end.

    Attributes
    ----------
    e_value_ : float
        Evidence against calibration after the last batch, at least 0. It is near or
        below 1 for a calibrated classifier.

    p_value_ : float
        Anytime-valid p-value: one divided by the largest e-value of all batches, at
        most 1.

    is_alarm_ : bool
        Whether the e-value of any batch has reached `1 / alpha`.

    alarm_at_ : int or None
        Index of the first batch whose e-value reached `1 / alpha`, starting at 0.

    n_batches_ : int
        Number of batches.

    n_samples_ : int
        Number of samples with positive weight.

    See Also
    --------
    sklearn_calib.displays.MonitorDisplay : The e-value and the gap over time.
    sklearn_calib.metrics.CalibrationAccumulator : Calibration errors over batches.
    sklearn_calib.metrics.spiegelhalter_test : Test for a fixed number of samples.
    PriorShiftClassifier : Adjust a classifier to new class frequencies.

    Notes
    -----
    The null hypothesis is that, given the prediction and all earlier labels, each event
    occurs with the predicted probability :math:`p`, up to `tolerance`. There are three
    or four families of alternatives:

    - inverse temperatures :math:`p_k^b / \sum_l p_l^b` with :math:`\log b` = ±1, ±1/2,
      ±1/4 and ±1/8;
    - shifts of the log-odds of the event by ±2, ±1, ±1/2, ±1/4 and ±1/8;
    - these shifts only for samples in one of the bins of the probability;
    - for the top label, these shifts only for one of the predicted classes.

    With mode "classwise", each class has its own inverse temperatures and shifts, and
    the event of a bin is that the true class is one of those with a probability in the
    bin. The families have equal weights, which are divided equally among their
    alternatives.

    Let :math:`q` be the probability of an alternative, and :math:`\tilde p` the
    probability within the tolerance of :math:`p` that is nearest to :math:`q`. The
    likelihood ratio of a sample is :math:`q / \tilde p` if the event occurs and
    :math:`(1-q) / (1-\tilde p)` otherwise. With weights :math:`\pi_j` of the
    alternatives and :math:`w_s` of the batches, each with sum one, the e-value after
    batch t is

    .. math:: E_t = \sum_{s \le t} w_s \sum_j \pi_j \prod_{i = s}^t L_{ij}
              + \sum_{s > t} w_s

    where :math:`L_{ij}` is the product of the ratios of batch i. Batch s is a possible
    change point. Its weight is :math:`w_s = 1 / \log_2(s + 2) - 1 / \log_2(s + 3)` for
    s = 0, 1, ... The weight of all batches from s on is :math:`1 / \log_2(s + 2)`, so
    that a late change is found too.

    This is valid because the ratio of a sample has an expectation of at most one under
    the null hypothesis, given the past. Hence each product is a non-negative
    supermartingale, and so is the average :math:`E_t`, which begins at one. By Ville's
    inequality, it ever reaches :math:`1/\alpha` with probability at most
    :math:`\alpha`. E-values test the calibration of forecasts [1]_ and compare
    forecasts [2]_ sequentially. Sums of e-processes that begin at consecutive times
    detect changes [3]_; here, their weights sum to one, so that the probability of a
    false alarm is bounded rather than its frequency.

    - The order of the samples within a batch does not matter. The order of the batches
      must not depend on their labels: if labels arrive with a delay, add a batch when
      all its labels are known. If positive cases become known earlier, an alarm is
      raised.
    - A sample with weight w in [0, 1] has its ratio raised to the power of w, whose
      expectation is at most one too (Jensen's inequality). The weights must not depend
      on the labels.
    - Probabilities are distinguished from 0 and 1 down to 1.2e-7, the resolution of
      float32, by a tolerance of at least this value. An event of probability 0 is
      strong evidence, but not an infinite e-value.
    - Monitors to be merged must have the same batches, with different samples: batch i
      of the sum contains the samples of batch i of all workers. Alarms are not merged:
      the sum has its own e-value. Batches of long ago are stored as sums over blocks,
      as long as about a seventh of their age. Only the first batch of a block is then a
      possible change point of the sum, so that its e-value can be slightly less than
      that of a single monitor. It is valid too.

    References
    ----------
    .. [1] S. Arnold, A. Henzi and J. F. Ziegel, "Sequentially Valid Tests for Forecast
       Calibration", Annals of Applied Statistics 17, 2023.
    .. [2] A. Henzi and J. F. Ziegel, "Valid Sequential Inference on Probability
       Forecast Performance", Biometrika 109, 2022.
    .. [3] J. Shin, A. Ramdas and A. Rinaldo, "E-detectors: A Nonparametric Framework
       for Sequential Change Detection", New England Journal of Statistics in Data
       Science 2, 2023.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.deployment import CalibrationMonitor
    >>> rng = np.random.default_rng(0)
    >>> monitor = CalibrationMonitor(labels=["ham", "spam"], mode="positive")
    >>> for day in range(60):
    ...     y_proba = rng.uniform(size=100)
    ...     prevalence_has_changed = day >= 40
    ...     p = y_proba**2 if prevalence_has_changed else y_proba
    ...     y_true = np.where(rng.uniform(size=100) < p, "spam", "ham")
    ...     _ = monitor.update(y_true, y_proba)
    >>> monitor.is_alarm_, monitor.alarm_at_
    (True, 41)
    """

    log_wealth_: Floats
    largest_log_e_value_: float
    alarm_at_: int | None = None
    _parameter_constraints = {
        "labels": ["array-like"],
        "alpha": BETWEEN_0_AND_1,
        "mode": [StrOptions(MODES)],
        "n_bins": [Interval(Integral, 1, 1000, closed="both")],
        "tolerance": [Interval(Real, 0, 1, closed="left")],
    }

    def __init__(
        self,
        *,
        labels: ArrayLike,
        alpha: float = 0.05,
        mode: str = "top_label",
        n_bins: int = 15,
        tolerance: float = 0.0,
    ) -> None:
        self.labels: Any = labels
        self.alpha = alpha
        self.mode = mode
        self.n_bins = n_bins
        self.tolerance = tolerance

    def _validate_params(self) -> None:
        super()._validate_params()
        labels = as_labels(self.labels, "labels")
        if len(labels) < 2:
            raise ValueError(
                "labels must contain at least two labels, got "
                f"{shown(labels.tolist())}. Pass classes_ of the classifier."
            )
        if self.mode == "positive":
            check_two_classes(len(labels))

    def update(
        self,
        y_true: ArrayLike,
        y_proba: ArrayLike,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Add a batch of samples.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            True labels.

        y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
            Predicted probabilities. A 1-d array contains the probabilities of the
            positive class, which is the second of the two labels.

        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the samples, in [0, 1].

        Returns
        -------
        self : CalibrationMonitor
            The object itself. A batch without samples is counted, too.

        Raises
        ------
        ValueError
            If a label is unknown, or `y_proba` contains values that are not
            probabilities, or a weight exceeds one, or a parameter has changed. The
            batch is then not added.
        """
        self._validate_params()
        self._check_unchanged()
        if is_empty(y_true) and is_empty(y_proba):
            labels = as_labels(self.labels, "labels")
            # There are no samples to read.
            encode_labels(labels, labels=labels, n_classes=len(labels), name="labels")
            return self._append(self._alternatives().empty())
        weight, has_weight = nonzero_weight(sample_weight)
        data = y_true, y_proba, self.labels, weight
        proba, codes, weight = read_samples(*data, "canonical").proba()
        if weight is not None and weight.max() > 1:
            raise ValueError(
                f"sample_weight must be at most 1, got {weight.max():.6g}. A larger "
                "weight would count a label more than once. Divide the weights by the "
                "largest weight that can occur."
            )
        alternatives = self._alternatives()
        new = alternatives.sums(proba, codes, weight)
        return self._append(new if has_weight else alternatives.empty())

    @property
    def e_value_(self) -> float:
        """Evidence against calibration after the last batch."""
        self._check_has_seen()
        return _exp(self.log_e_values_[-1])

    @property
    def p_value_(self) -> float:
        """Anytime-valid p-value."""
        self._check_has_seen()
        return min(1.0, _exp(-self.largest_log_e_value_))

    @property
    def is_alarm_(self) -> bool:
        """Whether the e-value of any batch has reached `1 / alpha`."""
        return self.alarm_at_ is not None

    @property
    def n_batches_(self) -> int:
        """Number of batches."""
        return int(sum(block.counts[0] for block in getattr(self, "blocks_", [])))

    @property
    def n_samples_(self) -> int:
        """Number of samples with positive weight."""
        return int(sum(block.counts[1] for block in getattr(self, "blocks_", [])))

    def diagnose(
        self, y_true: ArrayLike | None = None, y_proba: ArrayLike | None = None
    ) -> Diagnosis:
        """Estimate when the calibration changed, and what to do.

        Unlike the alarm, the estimates have no error guarantee.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,), default=None
            True labels of samples since the change, at least five. With them, the
            advice is compared with a curve in five-fold cross-validation.

        y_proba : array-like of shape (n_samples, n_classes) or (n_samples,), \
                default=None
            Predicted probabilities of these samples, as in :meth:`update`.

        Returns
        -------
        change_point : int or None
            Index of the first batch after the most likely change, among the first
            batches of the stored blocks. A block that ended t batches ago has at most
            t / 7 + 1 batches. It is None if there is no alarm.

        n_samples : int
            Number of samples since then, or of all samples.

        calibration_error : float
            Expected calibration error of these samples, averaged over the classes with
            mode "classwise".

        advice : {"none", "priors", "temperature", "refit"}
            What explains these samples best:

            - "none": there is no alarm;
            - "priors": the class frequencies have changed. Adjust the classifier with
              :class:`PriorShiftClassifier`, or :func:`adjust_priors` with new priors;
            - "temperature": the predictions are overconfident or underconfident. Refit
              :class:`~sklearn_calib.calibrators.TemperatureScaling`;
            - "refit": neither of the two. Refit the calibrator or the classifier. With
              labels, the advice is also "refit" if a curve has a lower log loss than
              the repair above, by more than a standard error. The curve is fitted by
              :class:`~sklearn_calib.calibrators.TopLabelCalibrator` for the top label,
              :class:`~sklearn_calib.calibrators.LogOddsSplineCalibration` for the
              positive class, and
              :class:`~sklearn_calib.calibrators.JointLogOddsSplineCalibration` for each
              class.

        log_evidence : dict of str to float
            Logarithm of the marginal likelihood of these samples under each cause,
            relative to the predicted probabilities.

        log_losses : dict of str to float
            Log loss of the repair above and of "refit" on folds that they were not
            fitted to. It is empty without labels, and if the advice was "none" or
            "refit" before.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If no batch has been added.

        ValueError
            If only one of `y_true` and `y_proba` is given, or they have fewer than five
            samples, or are refused by :meth:`update`.

        Notes
        -----
        The priors are a shift of the log-odds; for the top label, one for each
        predicted class, and otherwise one for each class. "refit" has a shift for each
        bin, and a common one for the top label. The marginal likelihood averages over
        the sizes of the change, so that simpler causes are preferred. The change point
        maximises the sum over the causes.

        Without labels, the advice is the best of three explanations, and need not be
        sufficient. If only confident predictions have become overconfident, for
        example, it is "temperature", but a temperature removes only a part of the
        error. Therefore, pass the samples since the change if you have kept them.
        """
        self._check_has_seen()
        if (y_true is None) != (y_proba is None):
            missing = "y_true" if y_true is None else "y_proba"
            raise ValueError(
                "y_true and y_proba must be passed together, got no "
                f"{missing}. Pass both, or neither."
            )
        evidence = log_evidence(self.blocks_, self._alternatives())
        logs = np.array([*evidence.values()])
        start = int(np.logaddexp.reduce(logs).argmax()) if self.is_alarm_ else 0
        causes = {name: float(values[start]) for name, values in evidence.items()}
        since = self.blocks_[start:]
        weight, probability, occurrence = np.sum([b.bins for b in since], axis=0)
        error = math.nan
        if weight.sum() > 0:
            error = float(class_gap_norm(weight, probability - occurrence, "l1"))
        advice = max(causes, key=causes.__getitem__) if self.is_alarm_ else "none"
        losses: dict[str, float] = {}
        if y_true is not None:
            data = y_true, y_proba, self.labels, None
            proba, codes, _ = read_samples(*data, "canonical").proba()
            if advice in ("priors", "temperature"):
                proba = as_float64(proba)
                advice, losses = choose_repair(proba, codes, advice, self.mode)
        n_before = int(sum(block.counts[0] for block in self.blocks_[:start]))
        return Diagnosis(
            n_before if self.is_alarm_ else None,
            int(sum(block.counts[1] for block in since)),
            error,
            advice,
            causes,
            losses,
        )

    def history(self) -> dict[str, Floats]:
        """Return the e-value and the calibration gap over time.

        Batches of long ago are summarised: each block of batches is one point.

        Returns
        -------
        history : dict of str to ndarray of shape (n_blocks,)
            - "batch": index of the last batch of the block;
            - "n_samples": number of samples in the block;
            - "confidence" and "accuracy": their means in the block, with mode
              "positive" those of the positive class; nan without samples;
            - "deviation": standard deviation of the accuracy if the classifier is
              calibrated;
            - "log_e_value": natural logarithm of the e-value after the block.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If no batch has been added.
        """
        self._check_has_seen()
        counts = np.array([block.counts for block in self.blocks_])
        totals = np.array([block.totals for block in self.blocks_])
        weight = np.where(totals[:, 0] > 0, totals[:, 0], np.nan)
        return {
            "batch": np.cumsum(counts[:, 0]).astype(int) - 1,
            "n_samples": counts[:, 1].astype(int),
            "confidence": totals[:, 1] / weight,
            "accuracy": totals[:, 2] / weight,
            "deviation": np.sqrt(totals[:, 3]) / weight,
            "log_e_value": np.array(self.log_e_values_),
        }

    def _alternatives(self) -> Alternatives:
        n_classes = len(self.labels)
        return _alternatives(self.mode, n_classes, self.n_bins, self.tolerance)

    def _append(self, new: BatchSums) -> Self:
        """Bet on a batch, and add its sums to the history."""
        alternatives = self._alternatives()
        if not self._has_seen():
            self._start([], [], np.full(len(alternatives.log_prior), -np.inf))
        start = self.n_batches_
        log_prior = alternatives.log_prior
        self.log_wealth_ = bet(self.log_wealth_, new.log_ratios, start, log_prior)
        value = log_value(self.log_wealth_, start + 1)
        self.blocks_.append(new)
        self.log_e_values_.append(value)
        join_blocks(self.blocks_, self.log_e_values_)
        self.largest_log_e_value_ = max(value, self.largest_log_e_value_)
        if self.alarm_at_ is None and value >= self._threshold():
            self.alarm_at_ = start
        return self

    def _threshold(self) -> float:
        return -float(np.log(self.alpha))

    def _start(
        self, blocks: list[BatchSums], values: list[float], log_wealth: Floats
    ) -> None:
        """Set the state to that after blocks of batches."""
        self._settings_seen = self._settings()
        self.blocks_, self.log_e_values_, self.log_wealth_ = blocks, values, log_wealth
        self.largest_log_e_value_ = max(values, default=-np.inf)
        ends = np.cumsum([block.counts[0] for block in blocks])
        alarms = ends[np.array(values) >= self._threshold()]
        self.alarm_at_ = int(alarms[0]) - 1 if len(alarms) else None

    def _merge(self, other: Self) -> None:
        if not self._has_seen():
            self.__dict__.update(copy.deepcopy(other.__dict__))
            return
        self._check_unchanged()
        mine, its = self.n_batches_, other.n_batches_
        if mine != its:
            raise ValueError(
                f"other must have the same number of batches, {mine}, got {its}. "
                "Update all monitors equally often, with empty lists if there are no "
                "samples."
            )
        blocks = [
            one.add(two)._replace(counts=one.counts + two.counts * [0, 1])
            for one, two in zip(self.blocks_, other.blocks_, strict=True)
        ]
        wealth, values = replay(blocks, self._alternatives().log_prior)
        self._start(blocks, values.tolist(), wealth)

    @property
    def _state_schema(self) -> dict[str, Spec]:
        alternatives = self._alternatives()
        n_alternatives = len(alternatives.log_prior)
        n_problems = alternatives.n_problems
        return {
            "counts_": Numbers("n_blocks", 2, range=NON_NEGATIVE),
            "totals_": Numbers("n_blocks", 4, range=NON_NEGATIVE),
            "bins_": Numbers(
                "n_blocks", 3, n_problems, self.n_bins, range=NON_NEGATIVE
            ),
            "log_ratios_": Numbers("n_blocks", n_alternatives),
            "log_e_values_": Numbers("n_blocks"),
            "log_wealth_": Numbers(n_alternatives),
            "largest_log_e_value_": Number(FINITE),
            "alarm_at_": Number(NON_NEGATIVE, is_optional=True),
        }

    def _get_state(self) -> dict[str, Any]:
        empty, fitted = self._alternatives().empty(), vars(self)
        blocks = fitted.get("blocks_", [])
        state: dict[str, Any] = {
            f"{name}_": np.array([getattr(b, name) for b in blocks], float).reshape(
                -1, *part.shape
            )
            for name, part in empty._asdict().items()
        }
        state["log_e_values_"] = np.array(fitted.get("log_e_values_", []), float)
        state["log_wealth_"] = fitted.get("log_wealth_", empty.log_ratios)
        state["largest_log_e_value_"] = fitted.get("largest_log_e_value_", 0.0)
        if self.alarm_at_ is not None:
            state["alarm_at_"] = float(self.alarm_at_)
        return state

    def _set_state(self, state: dict[str, Any]) -> None:
        blocks = BatchSums(*(state[f"{name}_"] for name in BatchSums._fields))
        _check_counts(blocks.counts)
        if not len(blocks.counts):
            return
        values, wealth = state["log_e_values_"].tolist(), state["log_wealth_"]
        self._start(
            [BatchSums(*row) for row in zip(*blocks, strict=True)], values, wealth
        )
        largest, alarm_at = state["largest_log_e_value_"], state.get("alarm_at_", -1.0)
        is_alarm = largest >= self._threshold()
        if largest < self.largest_log_e_value_:
            raise ValueError("largest_log_e_value_ must be at least log_e_values_.")
        if is_alarm != (0 <= alarm_at < blocks.counts[:, 0].sum()) or alarm_at % 1:
            raise ValueError(
                "alarm_at_ must be the index of a batch if there is an alarm, got "
                f"{alarm_at}."
            )
        self.largest_log_e_value_ = largest
        self.alarm_at_ = int(alarm_at) if is_alarm else None


def _check_counts(counts: Floats) -> None:
    """Raise ValueError unless the counts are those of blocks of batches."""
    batches = counts[:, 0]
    sizes, n_blocks = np.unique(batches, return_counts=True)
    mantissa, exponent = np.frexp(sizes)
    is_power = ((mantissa == 0.5) & (exponent >= 1) & (exponent < 50)).all()
    if not is_power or (np.diff(batches) > 0).any() or (n_blocks > N_BLOCKS).any():
        raise ValueError(
            "counts_ must contain blocks of batches in decreasing order of size."
        )
