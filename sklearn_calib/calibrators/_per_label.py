"""Any calibrator for samples that have several labels at once."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils.validation import check_is_fitted, validate_data

from sklearn_calib._core.arrays import check_numbers
from sklearn_calib._core.indicator import check_indicator, check_label_columns
from sklearn_calib._core.restore import restores
from sklearn_calib._core.typing import Floats, Ints
from sklearn_calib._core.validation import check_dispatch
from sklearn_calib.calibrators._base import Calibrator


class PerLabelCalibrator(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """Calibrate every label by itself, where a sample may have several at once.

    Each label is a problem of two classes, and has a map of its own.

    Parameters
    ----------
    calibrator : Calibrator
        Cloned for each label. With `from_logits=True` it takes the logits of the labels
        in place of their probabilities.

    Attributes
    ----------
    calibrators_ : list of Calibrator
        The fitted calibrator of each label.

    classes_ : list of ndarray
        For each label its absence and its presence, `array([0, 1])`.

    n_features_in_ : int
        Number of columns of X, `n_labels`.

    feature_names_in_ : ndarray of shape (n_labels,)
        Names of the columns, when X is a DataFrame with string names.

    See Also
    --------
    sklearn_calib.losses.per_label_loss : Trains a network for several labels.
    sklearn_calib.metrics.per_label : Measures every label by itself.

    Notes
    -----
    Probabilities have the shape that they have for several labels in
    :class:`sklearn.neural_network.MLPClassifier`. A label that none or all of the
    samples have gets what the calibrator makes of a class without samples.

    One map for all labels, of fewer parameters: `calibrator.fit(X.ravel(), y.ravel())`.
    No temperature moves a probability of one half: it cannot repair a rare label whose
    logits are about 0.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.calibrators import PerLabelCalibrator, TemperatureScaling
    >>> rng = np.random.default_rng(0)
    >>> logits = 2 * rng.normal(size=(2000, 2))
    >>> y = logits + rng.logistic(size=(2000, 2)) > 0
    >>> wrong = logits * [3, 0.5]
    >>> calibrator = PerLabelCalibrator(TemperatureScaling(from_logits=True))
    >>> calibrator.fit(wrong, y).predict_proba(wrong).shape
    (2000, 2)
    >>> [round(each.temperature_, 1) for each in calibrator.calibrators_]
    [2.9, 0.5]
    """

    _parameter_constraints = {"calibrator": [Calibrator]}

    def __init__(self, calibrator: Calibrator) -> None:
        self.calibrator = calibrator

    @restores()
    def fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Learn the map of each label.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_labels)
            Probabilities of the labels, whose rows need not sum to one; or their
            logits, if the calibrator has `from_logits=True`.

        y : array-like of shape (n_samples, n_labels)
            1 where the sample has the label, 0 where it has not.

        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights. A sample of weight 2 counts as two.

        Returns
        -------
        self : PerLabelCalibrator
            The fitted calibrator.

        Raises
        ------
        ValueError
            If X holds no probabilities though `from_logits` is False, or y is not a
            table of zeros and ones in the shape of X.
        """
        self._validate_params()
        X = self._check_input(X, reset=True)
        y = check_indicator(y, X.shape, name="y")
        self.calibrators_ = [
            clone(self.calibrator)._fit_checked(x, has_it, sample_weight, [0, 1])
            for x, has_it in zip(X.T, y.T, strict=True)
        ]
        worst = min(self.calibrators_, key=lambda calibrator: calibrator.n_errors_)
        worst._warn_of_few_errors(worst.n_errors_)
        self.classes_ = [each.classes_ for each in self.calibrators_]
        return self

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Return the calibrated probability of each label.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_labels)
            Probabilities or logits, as `fit` was given.

        Returns
        -------
        proba : ndarray of shape (n_samples, n_labels)
            The labels' probabilities. Rows do not sum to one.
        """
        check_is_fitted(self)
        columns = zip(
            self.calibrators_, self._check_input(X, reset=False).T, strict=True
        )
        return np.column_stack([each.predict_proba(x)[:, 1] for each, x in columns])

    def predict(self, X: ArrayLike) -> Ints:
        """Return which labels have a probability above one half.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_labels)
            Probabilities or logits, as `fit` was given.

        Returns
        -------
        y_pred : ndarray of shape (n_samples, n_labels)
            Zeros and ones.
        """
        return (self.predict_proba(X) > 0.5).astype(np.int64)

    def _check_input(self, X: Any, *, reset: bool) -> Floats:
        """Return X as an array with a column for each label."""
        check_dispatch(X, "X")
        X = check_numbers(X, "X")
        check_label_columns(X, name="X")
        return validate_data(self, X, reset=reset, dtype=[np.float64, np.float32])
