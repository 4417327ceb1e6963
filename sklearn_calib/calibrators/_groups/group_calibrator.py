"""Base class of calibrators that use the group of each sample."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.metrics import accuracy_score
from sklearn.utils.validation import check_is_fitted

from sklearn_calib._sklearn.doc_links import DocumentedEstimator
from sklearn_calib._sklearn.rollback import restores
from sklearn_calib._sklearn.training_data import copy_features
from sklearn_calib._state.schema import (
    SAME,
    GroupNames,
    Labels,
    ListOf,
    Names,
    Object,
    Spec,
    StateMixin,
)
from sklearn_calib._validation.arrays import check_numbers, on_cpu, row_blocks, shown
from sklearn_calib._validation.fit_warnings import without_warnings
from sklearn_calib._validation.groups import distinct_values, encode_groups, group_frame
from sklearn_calib._validation.labels import encode_labels
from sklearn_calib._validation.probabilities import check_sample_weight
from sklearn_calib._validation.types import Array, Floats, Ints
from sklearn_calib.calibrators._base.calibrator import MIN_ROWS, Calibrator
from sklearn_calib.calibrators._base.returned_proba import (
    check_returned,
    is_of_user,
    try_method,
)
from sklearn_calib.calibrators._combined.auto import AutoCalibrator


class GroupCalibrator(
    StateMixin,
    ClassifierMixin,
    MetaEstimatorMixin,
    DocumentedEstimator,
    metaclass=ABCMeta,
):
    """Base class of calibrators that use the group of each sample.

    A calibrator without groups is fitted to all samples first. Then its probabilities
    are corrected for the groups. A subclass must define the parameters `calibrator` and
    `from_logits`, and two methods:

    - `_fit_groups(logits, codes, weight, groups)` fits the correction. `logits` are the
      log-probabilities of `calibrator_` in float64, `codes` the column indices of the
      true classes, and `weight` the weights of the samples.
    - `_correct(logits, groups)` returns the corrected probabilities as a new array.

    In both, `groups` is an integer array of shape (n_samples, n_group_columns). The
    value `values_[j][k]` of a column j has the code k, a missing value the code
    `len(values_[j])`, and a value that did not occur in `fit` the code -1.

    Attributes
    ----------
    calibrator_ : Calibrator
        The calibrator that is fitted to all samples.

    values_ : list of ndarray
        Distinct values of each column of `groups`, sorted, without missing values.

    group_names_in_ : ndarray of shape (n_group_columns,)
        Names of the columns of `groups`. Defined only if they are strings.

    classes_ : ndarray of shape (n_classes,)
        Class label of each column.

    n_features_in_ : int
        Number of columns of X: `n_classes`, or 1.

    n_errors_ : float
        Number of misclassified samples in `fit`, see :class:`Calibrator`.

    Examples
    --------
    >>> from sklearn_calib.calibrators import GroupCalibrator, PerGroupCalibrator
    >>> issubclass(PerGroupCalibrator, GroupCalibrator)
    True
    """

    # A calibrator of groups needs them. CalibratedClassifier passes the weights itself.
    __metadata_request__fit = {"groups": True, "sample_weight": False}
    __metadata_request__predict = {"groups": True}
    __metadata_request__predict_proba = {"groups": True}
    __metadata_request__score = {"groups": True}

    calibrator: Calibrator | None
    from_logits: bool
    group_names_in_: Array

    _parameter_constraints: dict[str, list[Any]] = {
        "calibrator": [Calibrator, None],
        "from_logits": ["boolean"],
    }

    # What `_fit_groups` sets, for files.
    _fitted: dict[str, Spec] = {}

    @property
    def _state_schema(self) -> dict[str, Spec]:
        return {
            "classes_": Labels(),
            "calibrator_": Object(Calibrator, classes_=SAME, from_logits=SAME),
            "values_": ListOf(GroupNames(size=None), "n_group_columns"),
            "group_names_in_": Names("n_group_columns"),
            **self._fitted,
        }

    def _set_state(self, state: dict[str, Any]) -> None:
        super()._set_state(state)
        self._copy(self.calibrator_)

    def _copy(self, calibrator: Calibrator) -> None:
        """Set the attributes that are those of the calibrator without groups."""
        self.classes_, self.n_errors_ = calibrator.classes_, calibrator.n_errors_
        copy_features(calibrator, self)

    @restores()
    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        groups: ArrayLike,
        labels: ArrayLike | None = None,
    ) -> Self:
        """Fit the calibrator to predictions, labels and groups.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_classes), (n_samples,) or (n_samples, 1)
            Predicted probabilities, or logits with `from_logits=True`, as in
            :meth:`Calibrator.fit`.

        y : array-like of shape (n_samples,)
            True labels, of any type that can be sorted.

        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights. A sample of weight 2 counts as two samples.

        groups : array-like of shape (n_samples,) or (n_samples, n_group_columns)
            Groups of each sample, of any type. Missing values form a group.

        labels : array-like of shape (n_classes,), default=None
            Class label of each column, such as `estimator.classes_`. By default, the
            sorted distinct values of `y`. Required if a class has no samples in `y`.

        Returns
        -------
        self : GroupCalibrator
            The fitted calibrator.

        Raises
        ------
        ValueError
            If `groups` does not contain one row for each sample, or if `X` or `y` are
            invalid, as in :meth:`Calibrator.fit`. A calibrator that was already fitted
            is then left unchanged.
        """
        n_errors = self._fit_without_warnings(X, y, sample_weight, labels, groups)
        self._warn_of_proba(X)
        self.calibrator_._warn_of_few_errors(n_errors)
        return self

    def _fit_without_warnings(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        labels: Any,
        groups: Any,
    ) -> float:
        """Fit without the warnings, which are about all folds of a cross-validation.

        Return the number of errors for the warning.
        """
        self._validate_params()
        X, y, sample_weight, labels = map(on_cpu, (X, y, sample_weight, labels))
        first = AutoCalibrator() if self.calibrator is None else clone(self.calibrator)
        first.set_params(from_logits=self.from_logits)
        n_errors = first._fit_without_warnings(X, y, sample_weight, labels)
        self.calibrator_ = first
        self._copy(first)
        with without_warnings():  # `fit` warns itself
            logits = self._logits(X)
        frame = group_frame(groups, len(logits))
        self.values_ = distinct_values(frame)
        self.__dict__.pop("group_names_in_", None)
        if (names := _names(frame)) is not None:
            self.group_names_in_ = names
        classes = self.classes_
        codes = encode_labels(y, labels=classes, n_classes=len(classes), name="y")
        weight = check_sample_weight(sample_weight, logits)
        weight = np.ones(len(codes)) if weight is None else weight
        groups = encode_groups(frame, self.values_)
        logits = logits.astype(np.float64)
        self._fit_groups(logits, codes, weight, groups)
        if is_of_user(type(self)):
            rows = next(row_blocks(len(logits), logits.shape[1], MIN_ROWS))
            try_method(self, "_correct", logits[rows], groups[rows])
        return n_errors

    def predict_proba(self, X: ArrayLike, *, groups: ArrayLike) -> Floats:
        """Return calibrated probabilities.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_classes), (n_samples,) or (n_samples, 1)
            Predictions of the classifier, in the same form as in `fit`.

        groups : array-like of shape (n_samples,) or (n_samples, n_group_columns)
            Groups of each sample, with the same columns as in `fit`.

        Returns
        -------
        proba : ndarray of shape (n_samples, n_classes)
            Calibrated probabilities, all positive. Each row sums to one, and the
            columns are in the order of `classes_`.
        """
        check_is_fitted(self)
        proba = self._logits(X)
        codes = self._encode(groups, len(proba))
        for rows in row_blocks(len(proba), proba.shape[1], MIN_ROWS):
            corrected = self._correct(proba[rows].astype(np.float64), codes[rows])
            check_returned(self, "_correct", corrected, proba[rows].shape)
            proba[rows] = corrected
        return np.maximum(proba, np.finfo(proba.dtype).tiny, out=proba)

    def predict(self, X: ArrayLike, *, groups: ArrayLike) -> Array:
        """Predict the class with the largest calibrated probability.

        For ties, the first of these classes is predicted.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_classes), (n_samples,) or (n_samples, 1)
            Predictions of the classifier, in the same form as in `fit`.

        groups : array-like of shape (n_samples,) or (n_samples, n_group_columns)
            Groups of each sample, with the same columns as in `fit`.

        Returns
        -------
        y_pred : ndarray of shape (n_samples,)
            Predicted labels.
        """
        return self.classes_[self.predict_proba(X, groups=groups).argmax(axis=1)]

    def score(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        groups: ArrayLike,
    ) -> float:
        """Return the accuracy on given predictions and labels.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_classes), (n_samples,) or (n_samples, 1)
            Predictions of the classifier, in the same form as in `fit`.

        y : array-like of shape (n_samples,)
            True labels.

        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the samples.

        groups : array-like of shape (n_samples,) or (n_samples, n_group_columns)
            Groups of each sample, with the same columns as in `fit`.

        Returns
        -------
        score : float
            Accuracy of `predict`.
        """
        y_pred = self.predict(X, groups=groups)
        return float(accuracy_score(y, y_pred, sample_weight=sample_weight))

    def _logits(self, X: Any) -> Floats:
        """Return the log-probabilities of the calibrator without groups."""
        proba = self.calibrator_.predict_proba(on_cpu(X))
        return np.log(proba, out=proba)

    def _encode(self, groups: Any, n_samples: int) -> Ints:
        """Return the codes of groups, after checking their columns."""
        frame, n_columns = group_frame(groups, n_samples), len(self.values_)
        if frame.shape[1] != n_columns:
            raise ValueError(
                f"groups must have {n_columns} columns, as in fit, got "
                f"{frame.shape[1]}. Pass the same columns."
            )
        known, names = getattr(self, "group_names_in_", None), _names(frame)
        if known is not None and names is not None and (known != names).any():
            raise ValueError(
                f"groups must have the columns {shown(known.tolist())}, in this order, "
                f"as in fit, got {shown(names.tolist())}. Pass the same columns."
            )
        return encode_groups(frame, self.values_)

    def _warn_of_proba(self, X: ArrayLike) -> None:
        """Warn if logits look like probabilities."""
        self.calibrator_._warn_of_proba(check_numbers(on_cpu(X), "X"))

    @abstractmethod
    def _fit_groups(
        self, logits: Floats, codes: Ints, weight: Floats, groups: Ints
    ) -> None:
        """Fit the correction of log-probabilities."""

    @abstractmethod
    def _correct(self, logits: Floats, groups: Ints) -> Floats:
        """Return corrected probabilities as a new array."""


def _names(frame: Any) -> Array | None:
    """Return the names of the columns, or None if they are not strings."""
    names = frame.columns.tolist()
    are_strings = all(isinstance(name, str) for name in names)
    return np.array(names, dtype=object) if are_strings else None
