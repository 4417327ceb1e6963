"""Sums over samples that are added chunk by chunk, merged and saved."""

from __future__ import annotations

import copy
from abc import abstractmethod
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from sklearn_calib._state.schema import StateMixin
from sklearn_calib._validation.labels import as_labels, encode_labels
from sklearn_calib._validation.types import Options


class Accumulator(StateMixin, BaseEstimator):
    """Base class of objects that are empty at first, and then updated with chunks."""

    labels: Any
    _settings_seen: Options | None = None  # those of the first update

    def merge(self, other: Any) -> Self:
        """Add the sums of another accumulator with the same parameters.

        Parameters
        ----------
        other : object of the same class
            Another accumulator, which is not changed. It may be empty.

        Returns
        -------
        self : object
            The object itself. `one + other` returns a new one, and `sum(accumulators,
            start=empty)` the sum of any number of them, also of none. An accumulator
            that is added twice counts twice.

        Raises
        ------
        TypeError
            If `other` is not an accumulator of the same class.

        ValueError
            If the parameters of the two accumulators differ, or have changed.
        """
        name = type(self).__name__
        if not isinstance(other, type(self)):
            raise TypeError(
                f"other must be a {name}, got {type(other).__name__}. Pass arrays to "
                "update."
            )
        mine, its = self._settings(), other._settings()
        if mine != its:
            raise ValueError(
                f"other must have the parameters {mine}, got {its}. Create all "
                "accumulators with sklearn.base.clone of the first."
            )
        if other._has_seen():
            other._check_unchanged()
            self._merge(other)
        return self

    def __add__(self, other: Any) -> Self:
        """Return a new accumulator with the sums of both."""
        return copy.deepcopy(self).merge(other)

    def __radd__(self, other: Any) -> Self:
        """Return a copy for `0 + accumulator`, with which `sum` begins."""
        if isinstance(other, int) and other == 0:
            return copy.deepcopy(self)
        return self + other

    @abstractmethod
    def _merge(self, other: Self) -> None:
        """Add the sums of another accumulator, which is not empty."""

    def _has_seen(self) -> bool:
        """Whether samples have been added."""
        return self._settings_seen is not None

    def _check_has_seen(self) -> None:
        """Raise an error if no samples have been added or parameters have changed."""
        if not self._has_seen():
            raise NotFittedError(
                f"This {type(self).__name__} does not contain any samples. Call "
                "'update' with a chunk of samples, or 'merge', before using it."
            )
        self._check_unchanged()

    def _check_unchanged(self) -> None:
        """Raise an error if parameters have changed since the first update."""
        if self._has_seen() and self._settings() != self._settings_seen:
            raise ValueError(
                f"Parameters must not change after the first update, got "
                f"{self._settings()} after {self._settings_seen}. Use "
                "sklearn.base.clone to create a new accumulator."
            )

    def _check_can_be_saved(self) -> None:
        """Raise an error for invalid or changed parameters; it may be empty."""
        self._validate_params()
        self._check_unchanged()

    def _settings(self) -> Options:
        """Return the parameters in a form that can be compared."""
        return {**self.get_params(), "labels": np.asarray(self.labels).tolist()}

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
