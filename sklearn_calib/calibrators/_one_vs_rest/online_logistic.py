"""One-vs-rest maps with `partial_fit`: logistic regression on features of a score."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np

from sklearn_calib._expressions.columns import linear
from sklearn_calib._expressions.symbol import Values
from sklearn_calib._numerics.sample_blocks import Block
from sklearn_calib._solvers.logistic import log_loss
from sklearn_calib._state.schema import Spec
from sklearn_calib._validation.types import Array, Floats
from sklearn_calib.calibrators._base.online_calibrator import (
    LossParts,
    OnlineParameters,
    _OnlineCalibrator,
)
from sklearn_calib.calibrators._one_vs_rest.one_vs_rest import _OneVsRestCalibrator


class _OnlineLogistic(_OnlineCalibrator, _OneVsRestCalibrator):
    """Base class of one-vs-rest maps that are linear in their parameters.

    The map of a class contains the coefficients of `_inputs`, and a constant. They are
    `_basis` times the parameters, of which the first `_n_nonnegative` must not be
    negative.
    """

    _identity_map: tuple[float, ...]

    @property
    def _basis(self) -> Floats:
        return np.eye(len(self._identity_map))

    @property
    def _n_nonnegative(self) -> int:
        return 0

    @staticmethod
    @abstractmethod
    def _inputs(log_odds: Values) -> Sequence[Values]:
        """Return the functions of the log-odds to which the map is linear."""

    def _features(self, log_odds: Floats) -> Floats:
        """Return the inputs and 1, (n_samples, n_coefficients)."""
        return np.column_stack([*self._inputs(log_odds), np.ones_like(log_odds)])

    def _apply_maps(self, log_odds: Values) -> Values:
        return linear(self._inputs(log_odds), self.maps_)

    @property
    def _fitted(self) -> dict[str, Spec]:
        return {**super()._fitted, **self._past("n_maps", self._basis.shape[1])}

    @property
    def _online_parameters(self) -> OnlineParameters:
        # Each parameter is one of the coefficients.
        index = self._basis.argmax(axis=0)
        fitted = np.array(self.maps_)[:, index]
        identity = np.tile(np.array(self._identity_map)[index], (len(fitted), 1))
        lowest = np.full_like(fitted, -np.inf)
        lowest[:, : self._n_nonnegative] = 0
        return OnlineParameters(fitted, identity, lowest, self._losses)

    def _losses(self, block: Block) -> list[LossParts]:
        """Return the log loss of the map of each class."""
        scores = self._scores(block.logits).T
        first = len(self.classes_) - len(scores)
        return [
            logistic_loss(
                self._features(score) @ self._basis, block.codes == k, block.weight
            )
            for k, score in enumerate(scores, first)
        ]

    def _set_parameters(self, parameters: Floats, block: Block) -> None:  # noqa: ARG002
        self.maps_ = [*(parameters @ self._basis.T)]
        counts = self._past_counts
        self.class_prior_ = (counts + 1) / (counts.sum() + len(counts))


def logistic_loss(features: Floats, target: Array, weight: Floats) -> LossParts:
    """Return the log loss as a function of the coefficients."""

    def loss(parameters: Floats) -> tuple[float, Floats, Floats]:
        value, proba = log_loss(features @ parameters, target, weight)
        curved = features * (weight * proba * (1 - proba))[:, None]
        return value, features.T @ (weight * (proba - target)), curved.T @ features

    return loss
