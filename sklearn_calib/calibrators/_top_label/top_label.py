"""Calibration of the confidence by a calibrator for two classes."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
from sklearn.base import MetaEstimatorMixin, clone

from sklearn_calib._expressions.replace_top import keep_top, replace_top
from sklearn_calib._expressions.rows import by_group, softmax, top_log_odds
from sklearn_calib._expressions.symbol import (
    Values,
    hstack,
    maximum,
    minimum,
    round_to,
    where,
)
from sklearn_calib._numerics.sample_blocks import Block, Blocks
from sklearn_calib._state.schema import ListOf, Object
from sklearn_calib._validation.arrays import shown
from sklearn_calib._validation.declarations import ABOVE_0
from sklearn_calib._validation.fit_warnings import warn, without_warnings
from sklearn_calib._validation.types import Array, Bools, Floats
from sklearn_calib.calibrators._base.calibrator import Calibrator
from sklearn_calib.calibrators._one_vs_rest.log_odds_spline import (
    LogOddsSplineCalibration,
)

# The log-odds are rounded to this number of decimals, as the last digits of equal ones
# may depend on the order of the classes. Above LARGEST, they have fewer decimals.
DECIMALS, LARGEST = 10, 1e5
# Relative distance of the confidence to 1 / n_classes, so that the predicted class is
# preserved.
LEAST_DISTANCE = 1e-9
# What calibrators of log-odds have.
BINARY: dict[str, Any] = {"n_features_in_": 1, "from_logits": True}


class TopLabelCalibrator(MetaEstimatorMixin, Calibrator):
    r"""Top-label calibration: calibrate the confidence by a binary calibrator.

    The calibrator is fitted to a problem with two classes: whether the predicted class
    is the true class, given its probability. There is one such problem for all classes
    (top-versus-all [1]_), or one for each predicted class (multiclass-to-binary
    reduction, M2B [2]_). Unlike one-vs-rest calibration, top-versus-all does not need
    many samples of each class, and predicted classes do not change.

    Parameters
    ----------
    calibrator : Calibrator, default=None
        Calibrator to clone; None is :class:`LogOddsSplineCalibration`. It is fitted to
        the log-odds of the predicted classes, so its `from_logits` is set to True.

    per_class : bool, default=False
        Whether each predicted class has its own map.

    min_errors : float, default=None
        With `per_class=True`, a class with fewer incorrect predictions, or fewer
        correct ones, uses the map that is fitted to all samples, with a warning. By
        default, the number of errors that the calibrator needs for two classes, see
        :class:`Calibrator`.

    from_logits : bool, default=False
        Whether `X` contains logits. It is not inferred from the values.

    Attributes
    ----------
    calibrator_ : Calibrator
        The calibrator that is fitted to all samples. Its classes are False and True.

    class_calibrators_ : list
        The calibrator of each predicted class, None where `calibrator_` is used.

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
        True: the predicted class does not change, up to rounding.

    See Also
    --------
    ClassTemperatureScaling : A temperature for each predicted class.
    PerLabelCalibrator : A calibrator for each label of multilabel data.
    SplineCalibration : Another map of the confidence.

    Notes
    -----
    In [1]_ and [2]_, the result is a number for each sample, the calibrated confidence.
    Here it is a distribution over the classes. If the confidence decreases, the logits
    of the row are divided by the temperature that gives the new confidence. If it
    increases, the other classes keep their relative proportions. A calibrated
    confidence below 1 / n_classes is replaced by this value, as the predicted class
    would change otherwise.

    A map of a single class needs many errors among its predictions. With `per_class`,
    the log loss on six networks with 10 and 100 classes was not lower than with one
    map. :class:`ClassTemperatureScaling` needs fewer errors.

    With two classes, the map of the confidence is the same for both predicted classes,
    and confidences are not below one half. Other calibrators fit a map to the
    probability of the second class, which may also correct the class frequencies.

    References
    ----------
    .. [1] A. Le Coz, S. Herbin and F. Adjed, "Confidence Calibration of Classifiers
       with Many Classes", NeurIPS 2024.

    .. [2] C. Gupta and A. Ramdas, "Top-label calibration and multiclass-to-binary
       reductions", ICLR 2022.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.calibrators import IsotonicCalibration, TopLabelCalibrator
    >>> from sklearn_calib.metrics import expected_calibration_error
    >>> rng = np.random.default_rng(0)
    >>> logits = 1.5 * rng.normal(size=(2000, 50))
    >>> y = (logits + rng.gumbel(size=(2000, 50))).argmax(axis=1)
    >>> calibrator = TopLabelCalibrator(IsotonicCalibration(), from_logits=True)
    >>> proba = calibrator.fit(3 * logits, y).predict_proba(3 * logits)
    >>> bool(expected_calibration_error(y, proba) < 0.04)
    True
    """

    preserves_argmax = True
    _fitted = {
        "calibrator_": Object(Calibrator, **BINARY),
        "class_calibrators_": ListOf(
            Object(Calibrator, or_none=True, **BINARY), "n_classes"
        ),
    }
    _parameter_constraints = {
        **Calibrator._parameter_constraints,
        "calibrator": [Calibrator, None],
        "per_class": ["boolean"],
        "min_errors": [*ABOVE_0, None],
    }

    def __init__(
        self,
        calibrator: Calibrator | None = None,
        *,
        per_class: bool = False,
        min_errors: float | None = None,
        from_logits: bool = False,
    ) -> None:
        self.calibrator = calibrator
        self.per_class = per_class
        self.min_errors = min_errors
        self.from_logits = from_logits

    @property
    def _errors_needed(self) -> tuple[int, float]:
        return self._new_calibrator()._errors_needed[0], 0

    def _new_calibrator(self) -> Calibrator:
        """Return an unfitted calibrator for log-odds."""
        if self.calibrator is None:
            return LogOddsSplineCalibration(from_logits=True)
        return clone(self.calibrator).set_params(from_logits=True)

    def _fit(self, data: Blocks) -> None:
        odds, top, is_correct, weight = data.collect(_binary_problem)
        counts = np.zeros((len(data.sizes), 2))
        np.add.at(counts, (top, is_correct.astype(int)), weight)
        has_own = self._have_own(counts.min(axis=1))
        self.calibrator_ = self._fit_binary(odds, is_correct, weight)
        groups = (np.flatnonzero(top == k) for k in range(len(has_own)))
        self.class_calibrators_ = [
            self._fit_binary(odds[rows], is_correct[rows], weight[rows])
            if has_map
            else None
            for rows, has_map in zip(groups, has_own, strict=True)
        ]

    def _have_own(self, counts: Floats) -> Bools:
        """Return whether each class has its own map, given its smaller count."""
        if not self.per_class:
            return np.zeros(len(counts), dtype=bool)
        least = self.min_errors or max(self._errors_needed[0], 1)
        labels = self.classes_[counts < least].tolist()
        if labels:
            warn(
                f"The classes {shown(labels)} have fewer than {least:g} wrong or fewer "
                f"than {least:g} correct predictions: they use the map that is fitted "
                "to all samples. Use more held-out samples, or a smaller min_errors.",
                UserWarning,
            )
        return counts >= least

    def _fit_binary(
        self, odds: Floats, is_correct: Bools, weight: Floats
    ) -> Calibrator:
        """Return a calibrator that was fitted to whether predictions are correct."""
        outcomes = np.array([False, True])
        # The number of errors has its own warning, without names of outcomes.
        has_both = 0 < weight @ is_correct < weight.sum()
        new = self._new_calibrator()
        with nullcontext() if has_both else without_warnings():
            new._fit_without_warnings(odds, is_correct, weight, outcomes)
        return new

    def _calibrate(self, logits: Values) -> Values:
        wide = logits.astype(np.float64)
        odds, n_classes = _log_odds_of_top(wide), logits.shape[1]
        proba = by_group(
            self.calibrator_._proba,
            [fitted and fitted._proba for fitted in self.class_calibrators_],
            wide.argmax(axis=1, keepdims=True),
            hstack([0 * odds, odds]),
        )
        rest, confidence = proba[:, :1], proba[:, 1:]
        largest = softmax(wide).max(axis=1, keepdims=True)
        least = minimum(largest, (1 + LEAST_DISTANCE) / n_classes)
        rest = where(confidence < least, 1 - least, rest)
        proba = replace_top(wide, maximum(confidence, least), rest)
        return keep_top(proba, logits)


def _log_odds_of_top(logits: Values) -> Values:
    """Return the log-odds of the predicted class of each row."""
    odds = top_log_odds(logits)
    small = minimum(odds, LARGEST)
    return round_to(small, DECIMALS) + (odds - small)


def _binary_problem(block: Block) -> tuple[Array, ...]:
    """Return log-odds, predicted class, whether it is true, and weight."""
    odds = _log_odds_of_top(block.logits.astype(np.float64))[:, 0]
    top = block.logits.argmax(axis=1)
    return odds, top, top == block.codes, block.weight
