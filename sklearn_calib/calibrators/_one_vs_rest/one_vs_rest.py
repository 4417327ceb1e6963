"""One-vs-rest calibration: a map for the probability of each class."""

from abc import abstractmethod
from collections.abc import Callable, Iterable
from itertools import repeat
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sklearn_calib._expressions.rows import (
    in_order,
    log_odds,
    log_odds_of_proba,
    softmax,
)
from sklearn_calib._expressions.symbol import (
    Values,
    exp,
    expit,
    hstack,
    log_expit,
    maximum,
    where,
)
from sklearn_calib._numerics.class_scores import (
    EXPONENTIAL,
    GROUP_SIZE,
    LOG_ODDS,
    SOFTMAX,
    ClassScores,
    log_odds_from_proba,
)
from sklearn_calib._numerics.sample_blocks import Blocks
from sklearn_calib._sklearn.training_data import warn_of_absent_classes
from sklearn_calib._state.schema import (
    FRACTION,
    ListOf,
    Number,
    Numbers,
    Spec,
)
from sklearn_calib._validation.arrays import row_blocks
from sklearn_calib._validation.types import Array, Floats
from sklearn_calib.calibrators._base.calibrator import Calibrator
from sklearn_calib.calibrators._base.input_data import RESOLUTION


class _OneVsRestCalibrator(Calibrator):
    """Base class of one-vs-rest calibrators.

    For two classes, the probability of the second class is calibrated. For more, each
    class is calibrated against the rest, and the rows are then normalised. A subclass
    must define two methods:

    - `_fit_map(score, target, sample_weight)` returns the map of one class. The
      arguments are arrays of shape (n_samples,).
    - `_apply_maps(scores)` returns the probabilities of `maps_`, or log-odds if
      `_returns_log_odds`. Scores have the shape (n_samples, n_maps).

    `_map` describes a map, for files.

    Scores are log-odds, or probabilities if `_maps_probabilities`. Targets are 1
    for samples of the class and 0 for others.

    Attributes
    ----------
    maps_ : list
        The fitted maps: one for two classes, otherwise one for each class.

    class_prior_ : ndarray of shape (n_classes,)
        Class frequencies, with one pseudo-count added to each class.

    mixing_ : float
        Weight w of `class_prior_`: the result is (1 - w) p + w `class_prior_`.

    Notes
    -----
    Maps that are fitted to frequencies return 0 where the data of `fit` contain no
    sample of the class. The log loss of a new sample of the class would then be
    infinite. If `_returns_zero`, `class_prior_` therefore has the weight of one
    additional sample, and otherwise the weight 0.
    """

    _maps_probabilities = False
    _returns_log_odds = False
    _returns_zero = False
    _map: Spec

    @property
    def _fitted(self) -> dict[str, Spec]:
        return {
            "class_prior_": Numbers("n_classes", range=FRACTION, total=1),
            "_mixing": Number(FRACTION),
            "maps_": ListOf(self._map, "n_maps"),
        }

    def _fit(self, data: Blocks) -> None:
        self._fit_maps(data, repeat(self._fit_map))

    def _fit_maps(self, data: Blocks, fits: Iterable[Callable[..., Any]]) -> None:
        """Fit the maps, each with its function.

        The data are read once, and once for each group of classes.
        """
        n_classes, scores = len(data.sizes), self._class_scores
        codes, weight, *summary = data.collect(
            lambda rows: (rows.codes, rows.weight, *scores.summarise_block(rows.logits))
        )
        counts = np.bincount(codes, weight, n_classes)
        self.class_prior_ = (counts + 1) / (counts.sum() + n_classes)
        self._mixing = 1 / (counts.sum() + 1) if self._returns_zero else 0.0
        warn_of_absent_classes(
            self.classes_[counts == 0],
            f"{type(self).__name__} will give these classes probabilities close to "
            "zero",
            ", or use a calibrator with one map for all classes, such as "
            "TemperatureScaling",
        )
        self.maps_, fits = [], iter(fits)
        for group in row_blocks(n_classes, data.n_samples, at_least=GROUP_SIZE):
            some = slice(1, 2) if n_classes == 2 else group
            self.maps_ += [
                next(fits)(score, (codes == k).astype(np.float64), weight)
                for k, score in enumerate(
                    scores.of_classes(data, summary, some), some.start
                )
            ]

    @property
    def mixing_(self) -> float:
        """Weight of `class_prior_`."""
        check_is_fitted(self)
        return self._mixing

    def _calibrate(self, logits: Values) -> Values:
        proba, prior = self._apply_maps(self._scores(logits)), self.class_prior_
        if len(self.maps_) == 1:
            proba = self._both(proba)
        elif self._returns_log_odds:
            # All probabilities of a row may underflow, but not their logarithms.
            proba = softmax(log_expit(proba))
        else:
            total = proba.sum(axis=1, keepdims=True)
            # If all classes have probability zero, the prior is returned.
            proba = where(total > 0, proba, prior)
            proba /= where(total > 0, total, 1.0)
        proba += self._mixing * (prior - proba)
        return proba.astype(logits.dtype, copy=False)

    def _scores(self, logits: Values) -> Values:
        """Return the scores of the classes that have a map, in Fortran order."""
        if self._maps_probabilities:
            scores = in_order(probabilities(logits, self.from_logits), "F")
        elif self.from_logits:
            scores = log_odds(logits)
        else:
            scores = log_odds_of_proba(logits, self.zero_replacement_)
        return scores[:, -len(self.maps_) :]

    @property
    def _class_scores(self) -> ClassScores:
        """The scores of some classes, for the fit."""
        if self._maps_probabilities:
            return SOFTMAX if self.from_logits else EXPONENTIAL
        if self.from_logits:
            return LOG_ODDS
        return log_odds_from_proba(self.zero_replacement_)

    def _both(self, positive: Values) -> Values:
        """Return the probabilities of both classes, given those of the second."""
        if self._returns_log_odds:
            return expit(hstack([-positive, positive]))
        # If 1 - positive is rounded to zero, its value is below the resolution.
        return hstack([maximum(1 - positive, RESOLUTION), positive])

    @abstractmethod
    def _fit_map(self, score: Floats, target: Array, sample_weight: Floats) -> Any:
        """Return the fitted map of one class."""

    @abstractmethod
    def _apply_maps(self, scores: Values) -> Values:
        """Return the calibrated probabilities or log-odds of each class."""


def probabilities(logits: Values, from_logits: bool) -> Values:
    """Return probabilities in float64.

    They are not normalised, as rounding errors would make equal probabilities differ.
    """
    logits = logits.astype(np.float64)
    return softmax(logits) if from_logits else exp(logits)
