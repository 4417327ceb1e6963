"""Calibration of multilabel predictions, separately for each label."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import MetaEstimatorMixin, clone
from sklearn.utils.validation import check_is_fitted, validate_data

from sklearn_calib._expressions.symbol import Symbol, hstack
from sklearn_calib._sklearn.doc_links import DocumentedEstimator
from sklearn_calib._sklearn.rollback import restores
from sklearn_calib._state.schema import Count, ListOf, Names, Object, Spec, StateMixin
from sklearn_calib._validation.arrays import (
    as_array,
    check_numbers,
    get_namespace,
    on_cpu,
)
from sklearn_calib._validation.dask_arrays import maps_blocks
from sklearn_calib._validation.labels import (
    check_indicator,
    check_label_columns,
    known_samples,
)
from sklearn_calib._validation.probabilities import warn_of_predicted_labels
from sklearn_calib._validation.samples import check_columns
from sklearn_calib._validation.types import Array, Floats, Ints
from sklearn_calib.calibrators._base.calibrator import Calibrator
from sklearn_calib.calibrators._base.device_predictions import (
    ArrayClassifierMixin,
    returns_array_of_input,
)


class PerLabelCalibrator(
    StateMixin, ArrayClassifierMixin, MetaEstimatorMixin, DocumentedEstimator
):
    """Calibrate multilabel predictions with a separate calibrator for each label.

    Parameters
    ----------
    calibrator : Calibrator
        Calibrator that is cloned for each label. With `from_logits=True`, the input
        contains logits of the labels instead of probabilities.

    Attributes
    ----------
    calibrators_ : list of Calibrator
        The fitted calibrator of each label.

    classes_ : list of ndarray
        The classes of each label, `array([0, 1])`.

    n_errors_ : ndarray of shape (n_labels,)
        Number of misclassified samples of each label, see :class:`Calibrator`.

    n_features_in_ : int
        Number of columns of `X`, `n_labels`.

    feature_names_in_ : ndarray of shape (n_labels,)
        Names of the columns. Only if `X` is a DataFrame with string column names.

    See Also
    --------
    sklearn_calib.losses.per_label_loss : Loss for multilabel training.
    sklearn_calib.metrics.per_label : Any metric for each label.

    Notes
    -----
    As in :class:`sklearn.neural_network.MLPClassifier`, multilabel probabilities are an
    array of shape (n_samples, n_labels). If a label is present in all samples or in
    none, it is treated as a binary problem in which one class has no samples.

    To fit one map for all labels, with fewer parameters, use `calibrator.fit(X.ravel(),
    y.ravel())`. Temperature scaling does not change a probability of one half, so it
    cannot correct a rare label with logits near 0.

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

    @property
    def _state_schema(self) -> dict[str, Spec]:
        return {
            "n_features_in_": Count("n_features_in_"),
            "feature_names_in_": Names("n_features_in_"),
            "calibrators_": ListOf(
                Object(Calibrator, n_features_in_=1), "n_features_in_"
            ),
        }

    _runs_on_devices = False

    def __init__(self, calibrator: Calibrator) -> None:
        self.calibrator = calibrator

    @property
    def classes_(self) -> list[Array]:
        """Class labels of each label."""
        return [calibrator.classes_ for calibrator in self.calibrators_]

    @restores()
    def fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Fit a calibrator for each label.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_labels)
            Probabilities of the labels, whose rows need not sum to one, or logits if
            the calibrator has `from_logits=True`.

        y : array-like of shape (n_samples, n_labels)
            Indicator matrix: 1 if the sample has the label, otherwise 0, or NaN if
            this is not known. Each calibrator is fitted to the samples with a known
            label.

        sample_weight : array-like of shape (n_samples,) or (n_samples, n_labels), \
                default=None
            Non-negative weights of the samples, or of each label of each sample. A
            sample of weight 2 counts as two samples.

        Returns
        -------
        self : PerLabelCalibrator
            The fitted calibrator.

        Raises
        ------
        ValueError
            If `X` does not contain probabilities and `from_logits` is False, or if `y`
            is not an indicator matrix in the shape of `X`.
        """
        X, y, sample_weight = map(on_cpu, (X, y, sample_weight))
        check_columns(X, y, None, "X")
        n_errors = self._fit_without_warnings(X, y, sample_weight, None)
        self._warn_of_proba(check_numbers(X, "X"))
        self._warn_of_few_errors(n_errors)
        return self

    def _fit_without_warnings(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None,
        labels: list[Any] | None,
    ) -> Floats:
        """Fit without the warnings, which are about all folds of a cross-validation.

        `labels` contains the names of the classes 0 and 1 of each label. Return the
        number of errors of each label for the warning.
        """
        self._validate_params()
        X = self._check_input(X, reset=True)
        y = check_indicator(y, X.shape, name="y", allow_nan=True)
        labels = [np.array([0, 1])] * X.shape[1] if labels is None else labels
        self.calibrators_ = [clone(self.calibrator) for _ in labels]
        n_errors = [
            calibrator._fit_without_warnings(x, names[codes], weight, names)
            for calibrator, names, (codes, x, weight) in zip(
                self.calibrators_,
                labels,
                known_samples(y, X, sample_weight),
                strict=True,
            )
        ]
        self.n_errors_ = np.array([fit.n_errors_ for fit in self.calibrators_])
        return np.array(n_errors)

    def _warn_of_proba(self, X: ArrayLike) -> None:
        """Warn of predicted labels, and of logits that look like probabilities."""
        if warn_of_predicted_labels(np.ravel(X), "X", "predict_proba(X)"):
            return
        for calibrator, column in zip(self.calibrators_, np.asarray(X).T, strict=True):
            calibrator._warn_of_proba(column)

    def _warn_of_few_errors(self, n_errors: Floats, of: str = "") -> None:
        """Warn about the label with the fewest misclassified samples."""
        k = n_errors.argmin()
        self.calibrators_[k]._warn_of_few_errors(n_errors[k], f"{of} for label {k}")

    @maps_blocks(keeps_float32=True)
    @returns_array_of_input
    def predict_proba(self, X: ArrayLike) -> Floats:
        """Return the calibrated probability of each label.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_labels)
            Probabilities or logits, as in `fit`.

        Returns
        -------
        proba : ndarray of shape (n_samples, n_labels)
            Calibrated probabilities of the labels. Rows need not sum to one.
        """
        check_is_fitted(self)
        X = on_cpu(X)
        columns = zip(
            self.calibrators_, self._check_input(X, reset=False).T, strict=True
        )
        given = as_array(X, "X").ravel()
        warn_of_predicted_labels(given, "X", "predict_proba(X)")
        return np.column_stack([fit.predict_proba(x)[:, 1] for fit, x in columns])

    def _in_graph(self, X: Symbol) -> Symbol:
        """Return the calibrated probability of each label in a graph."""
        X = X.with_columns(self.n_features_in_)
        return hstack(
            [
                calibrator._in_graph(X[:, k : k + 1])[:, 1:]
                for k, calibrator in enumerate(self.calibrators_)
            ]
        )

    @maps_blocks()
    def predict(self, X: ArrayLike) -> Ints:
        """Return the labels with a probability above one half.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_labels)
            Probabilities or logits, as in `fit`.

        Returns
        -------
        y_pred : ndarray of shape (n_samples, n_labels)
            Indicator matrix of zeros and ones.
        """
        proba = self.predict_proba(X)
        xp, _ = get_namespace(proba)
        return xp.astype(proba > 0.5, xp.int64)

    def _check_input(self, X: Any, *, reset: bool) -> Floats:
        """Return `X` as a validated array with one column for each label."""
        X = check_numbers(X, "X")
        check_label_columns(X, name="X")
        return validate_data(self, X, reset=reset, dtype=[np.float64, np.float32])
