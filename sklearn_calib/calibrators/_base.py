"""What all calibrators share: the checks, the labels, the logarithm of zero."""

from __future__ import annotations

import warnings
from abc import ABCMeta, abstractmethod
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import (
    check_consistent_length,
    check_is_fitted,
    validate_data,
)

from sklearn_calib._core.arrays import as_labels, check_numbers
from sklearn_calib._core.confidence import top_label
from sklearn_calib._core.links import lift_zeros
from sklearn_calib._core.restore import restores
from sklearn_calib._core.typing import Array, Floats, Ints, Weights
from sklearn_calib._core.validation import (
    check_dispatch,
    check_proba,
    check_sample_weight,
    encode_labels,
    row_blocks,
)

# What is smaller than this cannot be told from zero beside a probability of one.
RESOLUTION = float(np.finfo(np.float64).eps)

# So many bins are never too many, though most of them be empty.
MANY_BINS = 1000


class Calibrator(ClassifierMixin, BaseEstimator, metaclass=ABCMeta):
    """Base class of the maps that repair a classifier's probabilities.

    A calibrator is fitted to what a classifier said about samples that it was not
    trained on, and to their labels. To calibrate a classifier and keep it together with
    its calibrator, use :class:`~sklearn_calib.CalibratedClassifier`.

    A subclass has a parameter `from_logits` and the two methods

    - `_fit(logits, codes, sample_weight)`, which learns from an array of shape
      (n_samples, n_classes), the columns of the true classes, and weights or None,
    - `_calibrate(logits)`, which returns a new array of probabilities.

    Their `logits` are the given ones, or the logarithms of the given probabilities:
    either way softmax gives what the classifier said. float32 stays float32.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The label of each column.

    n_features_in_ : int
        Number of columns of X: `n_classes`, or 1.

    n_errors_ : float
        Errors among the samples of `fit`: those whose label is not the class predicted,
        the first one of a tie. An error of weight 2 counts as two.

    preserves_argmax : bool
        Whether the most probable class is always the same after as before, up to
        rounding. Belongs to the class.

    zero_replacement_ : float
        What a probability of zero is taken for, to have a logarithm: if there are zeros
        in the data of `fit`, half of the smallest positive probability there, at least
        2.2e-16 and at most 1 / (2 n_classes); otherwise 2.2e-16. Only with
        `from_logits=False`.

    Notes
    -----
    A probability of zero says that the classifier could not tell it from zero. How
    small that is differs between the votes of ten trees and a softmax in float64, so
    it is learned from the data, as for concentrations below a detection limit [1]_.
    Data of `fit` without a zero show no such limit but 2.2e-16, the resolution of
    double precision: the logarithms of such products of underflow, down to -745, would
    outweigh all others.

    With z for `zero_replacement_`, a probability p below 2 z is taken for z + p / 2:
    the order stays, so that a zero never comes out above a smaller positive
    probability, nor a certain prediction less confident than one that is nearly so.
    None in `fit` is below 2 z, but for those near 2.2e-16. Pass logits where the
    classifier has them. No probability of zero is ever returned: the smallest is the
    smallest normal number of the dtype.

    What a calibrator can learn depends on the number of errors rather than on the
    number of samples: predictions that are certain and correct tell it little. Each
    calibrator has a number of errors, which for most of them grows with the number of
    classes, below which it raised the log loss of calibrated classifiers by more than
    5 % in a simulation. With fewer errors, `fit` gives a `UserWarning`.

    References
    ----------
    .. [1] J. A. Martín-Fernández, C. Barceló-Vidal and V. Pawlowsky-Glahn, "Dealing
       With Zeros and Missing Values in Compositional Data Sets Using Nonparametric
       Imputation", Mathematical Geology 35, 2003.

    Examples
    --------
    >>> from sklearn_calib.calibrators import Calibrator, TemperatureScaling
    >>> issubclass(TemperatureScaling, Calibrator)
    True
    """

    preserves_argmax = False

    _parameter_constraints: dict[str, list] = {"from_logits": ["boolean"]}

    @restores()
    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        labels: ArrayLike | None = None,
    ) -> Self:
        """Learn the map from predictions to the frequencies of the classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_classes), (n_samples,) or (n_samples, 1)
            Probabilities whose rows sum to one, or of the positive class only. With
            `from_logits=True` logits; a single column holds that of the positive class
            minus that of the negative one.

        y : array-like of shape (n_samples,)
            Labels of any kind that can be sorted.

        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights. A sample of weight 2 counts as two.

        labels : array-like of shape (n_classes,), default=None
            The label of each column, such as `estimator.classes_`. By default the
            sorted distinct values of y. Needed when a class has no sample in y.

        Returns
        -------
        self : Calibrator
            The fitted calibrator.

        Raises
        ------
        ValueError
            If X holds no probabilities though `from_logits` is False, or y has not one
            label for each column. A fitted calibrator then stays as it was.
        """
        self._fit_checked(X, y, sample_weight, labels)
        self._warn_of_few_errors(self.n_errors_)
        return self

    def _fit_checked(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None,
        labels: ArrayLike | None,
    ) -> Self:
        """Do what `fit` does, without the warning of few errors."""
        self._validate_params()
        X = self._check_input(X, reset=True)
        y = as_labels(y, "y")
        check_consistent_length(X, y)
        codes = encode_labels(y, labels=labels, n_classes=X.shape[1], name="y")
        sample_weight = check_sample_weight(sample_weight, X)
        self.classes_ = np.unique(y) if labels is None else as_labels(labels, "labels")
        if self.from_logits:
            _check_range(X)
        else:
            self.zero_replacement_ = _find_zero_replacement(X, sample_weight)
        logits = self._as_logits(X)
        is_error = top_label(logits)[1] != codes
        weight = 1.0 if sample_weight is None else sample_weight
        self.n_errors_ = float(np.sum(is_error * weight))
        self._fit(logits, codes, sample_weight)
        return self

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Return calibrated probabilities.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_classes), (n_samples,) or (n_samples, 1)
            What the classifier said, in the form that `fit` was given.

        Returns
        -------
        proba : ndarray of shape (n_samples, n_classes)
            All positive. Rows sum to one, columns are in the order of `classes_`.
        """
        check_is_fitted(self)
        logits = self._as_logits(self._check_input(X, reset=False))
        with np.errstate(over="ignore", invalid="ignore"):
            proba = self._calibrate(logits)
        if np.isnan(proba.min()):
            raise ValueError(
                "X must hold logits that do not overflow when they are calibrated, got "
                f"some up to {np.abs(logits).max():.3g}. Fit on logits of this size, "
                "or divide those of fit and these by the same number."
            )
        return np.maximum(proba, np.finfo(proba.dtype).tiny, out=proba)

    def predict(self, X: ArrayLike) -> Array:
        """Return the most probable class, the first one of a tie.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_classes), (n_samples,) or (n_samples, 1)
            What the classifier said, in the form that `fit` was given.

        Returns
        -------
        y_pred : ndarray of shape (n_samples,)
            Labels.
        """
        codes = self.predict_proba(X).argmax(axis=1)
        return self.classes_[codes]

    def _check_input(self, X: Any, *, reset: bool) -> Floats:
        """Return X as checked logits or probabilities (n_samples, n_classes)."""
        check_dispatch(X, "X")
        X = check_numbers(X, "X")
        X = np.reshape(X, (-1, 1)) if np.ndim(X) == 1 else X
        # It adds up what may add up to infinity minus infinity.
        with np.errstate(invalid="ignore"):
            X = validate_data(self, X, reset=reset, dtype=[np.float64, np.float32])
        if not self.from_logits:
            try:
                X = check_proba(X, name="X", allow_1d=True).reshape(len(X), -1)
            except ValueError as error:
                hint = "If X holds logits, set from_logits=True."
                raise ValueError(f"{error} {hint}") from None
        if X.shape[1] > 1:
            return X
        return np.hstack([np.zeros_like(X) if self.from_logits else 1 - X, X])

    def _as_logits(self, X: Floats) -> Floats:
        """Return X if it holds logits, and logarithms if it holds probabilities."""
        if self.from_logits:
            return X
        positive = lift_zeros(X, self.zero_replacement_)
        return np.log(positive, out=positive)

    def _warn_of_few_errors(self, n_errors: float) -> None:
        """Warn if this calibrator, or others of its kind together, saw few errors."""
        number, power = self._errors_needed
        needed = round(number * (len(self.classes_) - 1) ** power)
        if n_errors >= needed:
            return
        warnings.warn(
            f"{type(self).__name__} needs about {needed} errors of the classifier "
            f"among the samples that it is fitted to, got {n_errors:g}: it may make "
            "the probabilities worse. Use more held-out samples, cross-validation by "
            "CalibratedClassifier, a calibrator with fewer parameters, or none.",
            UserWarning,
        )

    @property
    def _errors_needed(self) -> tuple[int, float]:
        """Errors needed for two classes, and the power of n_classes - 1 they grow by.

        From about so many on, a calibrated classifier loses at most 5 % of log loss in
        benchmarks/bench_calibration_size.py. None where this was not measured.
        """
        return 0, 0

    @abstractmethod
    def _fit(self, logits: Floats, codes: Ints, sample_weight: Weights) -> None:
        """Learn from checked data."""

    @abstractmethod
    def _calibrate(self, logits: Floats) -> Floats:
        """Return calibrated probabilities as a new array."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.one_d_array = True
        return tags


def by_blocks(function: Callable[[Floats], Floats], logits: Floats) -> Floats:
    """Return a function of rows, called for blocks of them that stay in cache."""
    proba = np.empty_like(logits)
    for rows in row_blocks(*logits.shape):
        proba[rows] = function(logits[rows])
    return proba


def check_n_bins(n_bins: int, n_samples: int) -> None:
    """Refuse more bins than can be filled: time and memory would be all that grows."""
    limit = max(MANY_BINS, n_samples)
    if n_bins > limit:
        raise ValueError(
            f"n_bins must be at most {limit} for {n_samples} samples, got {n_bins}: "
            "most bins would be empty. Use fewer, such as the default."
        )


def _check_range(logits: Floats) -> None:
    """Refuse logits whose differences, or sums over a row, are not numbers."""
    limit = np.finfo(logits.dtype).max / (4 * logits.shape[1])
    largest = max(logits.max(), -logits.min())
    if largest > limit:
        raise ValueError(
            f"X must hold logits of at most {limit:.2g} in absolute value, got "
            f"{largest:.3g}. Divide all of them by the same number."
        )


def _find_zero_replacement(proba: Floats, sample_weight: Weights) -> float:
    """Return half of the smallest probability beside zeros, of rows with a weight."""
    if sample_weight is not None and sample_weight.min() == 0:
        proba = proba[sample_weight > 0]
    if proba.min() > 0:
        return RESOLUTION
    # Below 1 / n_classes, so that no zero becomes the largest of its row.
    half = min(float(proba[proba > 0].min()), 1 / proba.shape[1]) / 2
    return max(half, RESOLUTION)
