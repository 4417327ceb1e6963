"""Automatic calibration: a weighted average of several calibrators."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from sklearn_calib._core.arrays import shown
from sklearn_calib._core.blocks import Block, Blocks
from sklearn_calib._core.json_values import refuse
from sklearn_calib._core.links import softmax
from sklearn_calib._core.stacking import (
    probability_of_gain,
    random_folds,
    stacking_weights,
)
from sklearn_calib._core.state import FRACTION, NON_NEGATIVE, ListOf, Numbers, Object
from sklearn_calib._core.typing import Floats
from sklearn_calib._core.validation import Interval
from sklearn_calib.calibrators._base import MIN_ROWS, Calibrator
from sklearn_calib.calibrators._block_calibrator import _BlockCalibrator
from sklearn_calib.calibrators._registry import get_calibrator

# The default calibrators, and the largest number of classes for which each is used.
MOST_CLASSES = {
    "temperature": np.inf,
    "structured_vector": np.inf,
    "structured_matrix": 100,
    "joint_beta": 1000,
    "log_odds_spline": 100,
}

# Pseudo-counts of calibrators with few parameters, and of others.
FEW, MANY = 2.0, 0.5

# Prior odds of calibration against none.
ODDS = 1 / 3

# Attributes that all calibrators set before the map is fitted.
COMMON = (
    "classes_",
    "n_features_in_",
    "feature_names_in_",
    "n_errors_",
    "zero_replacement_",
)


class AutoCalibrator(_BlockCalibrator):
    """AutoCalibrator."""

    _least_rows = MIN_ROWS
    _fitted = {
        "calibrators_": ListOf(Object(), "n_calibrators"),
        "weights_": Numbers("n_calibrators + 1", range=FRACTION, total=1),
        "log_losses_": Numbers("n_calibrators + 1", range=NON_NEGATIVE),
    }
    _parameter_constraints = {
        **_BlockCalibrator._parameter_constraints,
        "calibrators": [list, tuple, None],
        "cv": [Interval(Integral, 2, None, closed="left")],
    }

    def __init__(
        self,
        *,
        calibrators: Sequence[str | Calibrator] | None = None,
        cv: int = 5,
        from_logits: bool = False,
    ) -> None:
        self.calibrators = calibrators
        self.cv = cv
        self.from_logits = from_logits

    @property
    def report_(self) -> dict[str, list[Any]]:
        """Weight and held-out log loss of each calibrator, as columns of a table."""
        check_is_fitted(self)
        plain = [
            clone(each).set_params(from_logits=False) for each in self.calibrators_
        ]
        left_out = self._left_out(len(self.classes_))
        return {
            "calibrator": ["none", *map(repr, plain), *left_out],
            "log_loss": [*self.log_losses_.tolist(), *[np.nan] * len(left_out)],
            "weight": [*self.weights_.tolist(), *[0.0] * len(left_out)],
            "note": [""] * len(self.weights_)
            + [
                f"not used for more than {MOST_CLASSES[name]} classes"
                for name in left_out
            ],
        }

    @property
    def explanation_(self) -> str:
        """What was chosen and why, in words."""
        table = self.report_
        rows = sorted(zip(*table.values(), strict=True), key=lambda row: -row[2])
        lines = [
            f"{weight:6.1%}  {name}: " + (note or f"held-out log loss {loss:.4g}")
            for name, loss, weight, note in rows
        ]
        return (
            f"Weighted average of probabilities without calibration (none) and of "
            f"{len(self.calibrators_)} calibrators. The weights maximise the likelihood "
            f"in {self.cv}-fold cross-validation:\n" + "\n".join(lines)
        )

    def _validate_params(self) -> None:
        super()._validate_params()
        self._new_calibrators(2)

    def _new_calibrators(self, n_classes: int) -> list[Any]:
        """Return the calibrators to fit."""
        if self.calibrators is None:
            left_out = self._left_out(n_classes)
            given: Sequence[Any] = [n for n in MOST_CLASSES if n not in left_out]
        else:
            given = self.calibrators
        members = [
            get_calibrator(each)() if isinstance(each, str) else clone(each, safe=False)
            for each in given
        ]
        if not members or not all(isinstance(m, _BlockCalibrator) for m in members):
            raise TypeError(
                "calibrators must be None or a non-empty list of calibrators of "
                f"sklearn_calib or their names, got {self.calibrators!r}. Pass "
                '["temperature", "isotonic"], for example.'
            )
        return [each.set_params(from_logits=self.from_logits) for each in members]

    def _left_out(self, n_classes: int) -> list[str]:
        """Return the names of the default calibrators not used for many classes."""
        is_default = self.calibrators is None
        return [
            n for n, most in MOST_CLASSES.items() if is_default and n_classes > most
        ]

    def _fit_validated(self, data: Blocks) -> None:
        self._fit_blocks(data.kept())

    def _fit_blocks(self, data: Blocks) -> None:
        self._warn_of_absent(data.counts)
        with warnings.catch_warnings():
            # A calibrator with a poor fit gets a small weight.
            warnings.simplefilter("ignore")
            held_out = self._held_out(data)
            self.calibrators_ = self._fit_each(data)
        (weight,) = data.collect(lambda block: (block.weight,))
        counts = np.array(
            [FEW if each.preserves_argmax else MANY for each in self.calibrators_]
        )
        own = stacking_weights(held_out[:, 1:], counts, weight)
        average = held_out[:, 1:] @ own
        total = probability_of_gain(held_out[:, 0], average, weight, ODDS)
        self.weights_ = np.append(1 - total, total * own)
        self.log_losses_ = -(weight @ np.log(held_out)) / weight.sum()

    def _fit_each(self, data: Blocks) -> list[Any]:
        """Return fitted calibrators."""
        known = {name: value for name, value in vars(self).items() if name in COMMON}
        members = self._new_calibrators(len(data.sizes))
        for each in members:
            vars(each).update(known)
            each._fit_validated(data)
        return members

    def _held_out(self, data: Blocks) -> Floats:
        """Return the probability of the true class for each sample in its test fold.

        The first column is without calibration, the others are of the calibrators.
        """
        fold = random_folds(data, self.cv)
        held_out = np.empty(
            (len(fold), 1 + len(self._new_calibrators(len(data.sizes))))
        )
        for k in np.unique(fold):
            train = data.select(fold != k)
            members = self._fit_each(train) if train.weight_sum > 0 else []
            test = data.select(fold == k).collect(
                lambda block, m=members: self._likelihoods(block, m)
            )
            # Without training samples, calibrators are not better than none.
            held_out[fold == k] = test[0][:, None]
            held_out[fold == k, : len(test)] = np.column_stack(test)
        return held_out

    def _likelihoods(self, block: Block, members: list[Any]) -> list[Floats]:
        """Return the probabilities of the true classes, before and after calibration."""
        logits, rows = self._as_logits(block.logits), np.arange(len(block.codes))
        proba = [softmax(logits), *(each._calibrate(logits) for each in members)]
        true = [each[rows, block.codes].astype(np.float64) for each in proba]
        return [np.maximum(each, np.finfo(logits.dtype).tiny) for each in true]

    def _calibrate(self, logits: Floats) -> Floats:
        none, *weights = self.weights_.tolist()
        proba = none * softmax(logits)
        for weight, each in zip(weights, self.calibrators_, strict=True):
            proba += weight * each._calibrate(logits)
        return proba

    def _set_state(self, state: dict[str, Any]) -> None:
        super()._set_state(state)
        for each in self.calibrators_:
            if not isinstance(each, _BlockCalibrator) or any(
                not np.array_equal(getattr(each, name), getattr(self, name))
                for name in ("from_logits", *COMMON)
                if hasattr(self, name)
            ):
                refuse("calibrators_", "calibrators of the same classes", each)

    def _warn_of_absent(self, counts: Floats) -> None:
        """Warn of classes without samples."""
        if counts.min() == 0:
            absent = shown(self.classes_[counts == 0].tolist())
            warnings.warn(
                f"y contains no samples of {absent}: AutoCalibrator makes their "
                "probabilities small. Calibrate with samples of all classes.",
                UserWarning,
            )
