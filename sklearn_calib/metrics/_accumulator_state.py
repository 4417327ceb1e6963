"""State of `CalibrationAccumulator`: sums that are added, merged and saved."""

from __future__ import annotations

import copy
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from sklearn_calib._core.arrays import as_labels
from sklearn_calib._core.state import POSITIVE, Number, Numbers, Spec, StateMixin
from sklearn_calib._core.typing import Array, Floats, Options
from sklearn_calib._core.validation import encode_labels
from sklearn_calib.metrics._accumulator_cells import check_cells, n_cells

# Values by which sums may exceed their bounds by rounding errors, relative to the sum
# of the weights.
ROUNDING = 1e-6


class AccumulatorState(StateMixin, BaseEstimator):
    """Sums of an accumulator, empty before the first chunk."""

    labels: Any
    n_bins: int
    strategy: str
    mode: str
    sums_: Floats
    totals_: Floats
    factor_: float

    def merge(self, other: Any) -> Self:
        """Add the sums of another accumulator with the same parameters.

        Parameters
        ----------
        other : CalibrationAccumulator
            Another accumulator, which is not changed. It may be empty.

        Returns
        -------
        self : CalibrationAccumulator
            The object itself. `one + other` returns a new one, and `sum(accumulators)`
            the sum of any number of them.

        Raises
        ------
        TypeError
            If `other` is not a `CalibrationAccumulator`.

        ValueError
            If the parameters of the two accumulators differ, or have changed.
        """
        if not isinstance(other, AccumulatorState):
            raise TypeError(
                "other must be a CalibrationAccumulator, got "
                f"{type(other).__name__}. Pass arrays to update."
            )
        mine, its = self._settings(), other._settings()
        if mine != its:
            raise ValueError(
                f"other must have the parameters {mine}, got {its}. Create all "
                "accumulators with sklearn.base.clone of the first."
            )
        if other._has_seen():
            other._check_unchanged()
            self._add(other.sums_, other.totals_, other.factor_)
        return self

    def __add__(self, other: Any) -> Self:
        """Return a new accumulator with the sums of both."""
        return copy.deepcopy(self).merge(other)

    def __radd__(self, other: Any) -> Self:
        """Return a copy for `0 + accumulator`, with which `sum` begins."""
        if isinstance(other, int) and other == 0:
            return copy.deepcopy(self)
        return self + other

    def _has_seen(self) -> bool:
        """Whether samples have been added."""
        return hasattr(self, "sums_")

    def _check_has_seen(self) -> None:
        """Raise an error if no samples have been added or the parameters changed."""
        if not self._has_seen():
            raise NotFittedError(
                "This CalibrationAccumulator does not contain any samples. Call "
                "'update' with a chunk of samples, or 'merge', before using it."
            )
        self._check_unchanged()

    def _settings(self) -> Options:
        """Return the parameters in a form that can be compared."""
        return {**self.get_params(), "labels": np.asarray(self.labels).tolist()}

    def _add(self, sums: Array, totals: Floats, factor: float) -> Self:
        """Add sums whose weights are multiplied by a factor to the stored sums."""
        if self._has_seen():
            self._check_unchanged()
            common = min(self.factor_, factor)
            mine, its = common / self.factor_, common / factor
            sums = mine * self.sums_ + its * sums
            totals, factor = mine * self.totals_ + its * totals, common
        else:
            self._settings_seen = self._settings()
        self.sums_, self.totals_, self.factor_ = sums, totals, factor
        return self

    def _check_unchanged(self) -> None:
        """Raise an error if parameters have changed since the first update."""
        if self._has_seen() and self._settings() != self._settings_seen:
            raise ValueError(
                f"Parameters must not change after the first update, got "
                f"{self._settings()} after {self._settings_seen}. Use "
                "sklearn.base.clone to create a new accumulator."
            )

    def _shape(self) -> tuple[int, int, int]:
        """Return the shape of the sums; raise ValueError if they are too many."""
        n_rows = len(self.labels) if self.mode == "classwise" else 1
        check_cells(self.n_bins, n_rows, self.strategy)
        return 3, n_rows, n_cells(self.n_bins, self.strategy)

    def _check_can_be_saved(self) -> None:
        # An empty accumulator is saved too, because a worker may have no samples.
        self._check_unchanged()

    @property
    def _state_schema(self) -> dict[str, Spec]:
        return {
            "sums_": Numbers(*self._shape()),
            "totals_": Numbers(5),
            "factor_": Number(POSITIVE),
        }

    def _get_saved_params(self) -> dict[str, Any]:
        return {**self.get_params(), "labels": as_labels(self.labels, "labels")}

    @classmethod
    def _from_saved_params(
        cls, params: dict[str, Any], key: str, passed: dict[str, Any]
    ) -> Self:
        new = super()._from_saved_params(params, key, passed)
        labels = new.labels
        try:
            encode_labels(labels, labels=labels, n_classes=len(labels), name="labels")
        except TypeError as error:
            raise ValueError(f"{key}.labels is invalid: {error}") from error
        return new

    def _get_state(self) -> dict[str, Any]:
        if self._has_seen():
            return super()._get_state()
        return {
            "sums_": np.zeros(self._shape()),
            "totals_": np.zeros(5),
            "factor_": 1.0,
        }

    def _set_state(self, state: dict[str, Any]) -> None:
        weight, gap, correct = state["sums_"]
        total, *others = state["totals_"]
        slack = ROUNDING * weight
        if not (
            (weight >= 0).all()
            and (np.abs(gap) <= weight + slack).all()
            and (correct >= -slack).all()
            and (correct <= weight + slack).all()
        ):
            raise ValueError("sums_ must be sums of weights and of parts of them.")
        if not np.allclose(weight.sum(axis=1), total, rtol=ROUNDING):
            raise ValueError("totals_ must begin with the sum of the weights in sums_.")
        most = (1 + ROUNDING) * np.array([total, total, 2 * total, np.inf])
        if not ((np.array(others) >= 0) & (others <= most)).all():
            raise ValueError("totals_ must be non-negative, and means at most 1, 1, 2.")
        if total > 0:
            super()._set_state(state)
            self._settings_seen = self._settings()
