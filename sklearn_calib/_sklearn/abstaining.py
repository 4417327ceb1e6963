"""Classifiers that abstain at low confidence: their scores."""

import warnings
from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.utils import check_consistent_length, column_or_1d

from sklearn_calib._validation.labels import as_labels
from sklearn_calib._validation.probabilities import check_sample_weight
from sklearn_calib._validation.types import Array, Bools, Floats


class AbstainingMixin(ClassifierMixin):
    """Mixin for classifiers that abstain if the confidence is below a threshold."""

    classes_: Array
    threshold_: float

    @abstractmethod
    def _decide(self, X: Any) -> tuple[Array, Bools]:
        """Return the index of the predicted class, and whether it is accepted."""

    @abstractmethod
    def _confidence(self, X: Any) -> Floats:
        """Return the confidence that is compared with the threshold."""

    def accepts(self, X: Any) -> Bools:
        """Return which samples get a prediction.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Data in the form that the classifier accepts.

        Returns
        -------
        accepted : ndarray of shape (n_samples,), dtype bool
            Whether the confidence is at or above the threshold.
        """
        return self._decide(X)[1]

    def score(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> float:
        """Return the accuracy among the samples with a prediction.

        It ignores the coverage, see `coverage_score`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Data in the form that the classifier accepts.

        y : array-like of shape (n_samples,)
            True labels.

        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the samples.

        Returns
        -------
        accuracy : float
            In [0, 1]; NaN, with an `UndefinedMetricWarning`, if all abstain.
        """
        codes, accepted = self._decide(X)
        y = column_or_1d(as_labels(y, "y"))
        check_consistent_length(codes, y)
        weight = check_sample_weight(sample_weight, codes)
        weight = accepted * (1.0 if weight is None else weight)
        if not weight.any():
            warnings.warn(
                f"The accuracy is undefined: none of {len(codes)} samples reaches the "
                f"threshold {self.threshold_:.4g}. Set a larger coverage or max_risk.",
                UndefinedMetricWarning,
            )
            return float("nan")
        return float(np.average(self.classes_[codes] == y, weights=weight))

    def coverage_score(self, X: Any, sample_weight: ArrayLike | None = None) -> float:
        """Return the fraction of the samples with a prediction.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Data in the form that the classifier accepts.

        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the samples.

        Returns
        -------
        coverage : float
            In [0, 1].
        """
        accepted = self.accepts(X)
        weight = check_sample_weight(sample_weight, accepted)
        return float(np.average(accepted, weights=weight))
