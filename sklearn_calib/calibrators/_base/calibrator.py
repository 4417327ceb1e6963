"""Base class of calibrators."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted, validate_data

from sklearn_calib._expressions.rows import lift_zeros
from sklearn_calib._expressions.symbol import Symbol, Values, clip, hstack, log, maximum
from sklearn_calib._numerics.sample_blocks import Blocks
from sklearn_calib._sklearn.doc_links import DocumentedEstimator
from sklearn_calib._sklearn.rollback import restores
from sklearn_calib._state.schema import (
    NON_NEGATIVE,
    UP_TO_HALF,
    Count,
    Labels,
    Names,
    Number,
    Spec,
    StateMixin,
    as_spec,
)
from sklearn_calib._validation.arrays import (
    check_numbers,
    is_plain,
    on_cpu,
    read_only,
    row_blocks,
)
from sklearn_calib._validation.dask_arrays import maps_blocks
from sklearn_calib._validation.fit_warnings import warn
from sklearn_calib._validation.probabilities import (
    are_proba,
    check_proba,
    warn_of_predicted_labels,
)
from sklearn_calib._validation.samples import check_columns
from sklearn_calib._validation.types import Array, Floats
from sklearn_calib.calibrators._base.device_predictions import (
    LOGITS_HINT,
    ArrayClassifierMixin,
    labels_of,
    overflow_error,
    returns_array_of_input,
)
from sklearn_calib.calibrators._base.input_data import (
    read_fit_data,
    warn_that_logits_look_like_proba,
)
from sklearn_calib.calibrators._base.returned_proba import (
    check_returned,
    is_of_user,
    try_method,
)

# At least this many rows are calibrated at once, so that overhead per class is small.
# More are slower for a thousand classes, as a block does not fit in the cache.
MIN_ROWS = 512

# Fewer log-odds may well all lie in [0, 1], as probabilities do.
MIN_LOG_ODDS = 10

# Misclassified samples that a temperature needs, the simplest of maps.
FEWEST_ERRORS = 10


class Calibrator(
    StateMixin, ArrayClassifierMixin, DocumentedEstimator, metaclass=ABCMeta
):
    """Base class of post-hoc calibrators.

    A calibrator is fitted to the predictions of a classifier for held-out samples, and
    to the labels of these samples. To combine a classifier and its calibrator in one
    estimator, use :class:`~sklearn_calib.CalibratedClassifier`.

    A subclass must define a parameter `from_logits` and two methods:

    - `_fit(data)` fits the map. `for logits, codes, weight in data` reads the samples
      in blocks, any number of times, and `logits, codes, weight = data.arrays()` puts
      all of them in memory. `logits` has the shape (n_samples, n_classes), and `codes`
      contains the column indices of the true classes.
    - `_calibrate(logits)` returns the calibrated probabilities as a new array, with
      rows that sum to one, which `fit` checks for the first block. It is called with
      blocks of rows, so that little memory is needed. Blocks are read-only.

    The attributes that `_fit` sets are described in `_fitted`, so that
    :func:`sklearn_calib.save` can save them: `float` stands for a number, and a tuple
    of sizes for an array, as in `{"coef_": ("n_classes", "n_classes")}`.

    If `_calibrate` uses operators and the functions of
    `sklearn_calib.calibrators.operations` only, `to_torch`, ONNX and arrays on other
    devices work.

    `logits` contains logits or log-probabilities of the classifier; the softmax of
    either gives the predicted probabilities. It has the dtype of the input, float32 or
    float64, in which probabilities are also returned.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class label of each column.

    n_features_in_ : int
        Number of columns of X: `n_classes`, or 1.

    n_errors_ : float
        Number of misclassified samples in the data of `fit`, or the sum of their
        weights. For ties, the first class is the predicted class. The warning of few
        errors does not depend on the scale of the weights, see Notes.

    preserves_argmax : bool
        Whether calibration preserves the predicted class, up to rounding. This is a
        class attribute.

    zero_replacement_ : float
        Value substituted for zero probabilities before taking logarithms. If the data
        of `fit` contain zeros, it is half the smallest positive probability, clipped to
        [2.2e-16, 1 / (2 n_classes)]; otherwise, it is 2.2e-16. Defined only if
        `from_logits=False`.

    Notes
    -----
    Pass logits if the classifier provides them. A predicted probability of zero only
    means that the probability is below the resolution of the classifier. For example,
    the votes of ten trees have a lower resolution than a softmax in float64. The
    resolution is therefore estimated from the data of `fit`, as is done for
    concentrations below a detection limit [1]_. If these data contain no zeros, the
    machine epsilon of float64, 2.2e-16, is used: logarithms of smaller probabilities,
    down to -745, would dominate all others.

    Let z be `zero_replacement_`. A probability p below 2 z is replaced by z + p / 2,
    which preserves the order of probabilities. In the data of `fit`, this only affects
    zeros and probabilities near 2.2e-16. Calibrators never return a probability of
    zero; the smallest value is the smallest positive normal number of the dtype.

    The precision of a fitted calibrator is limited by the number of misclassified
    samples rather than by the number of samples, as confident correct predictions
    contain little information. The number that each calibrator needs was estimated by
    simulation: with fewer misclassified samples, calibration may increase the log loss
    of a well calibrated classifier by more than 5 %, and `fit` issues a `UserWarning`.
    For most calibrators, the number grows with the number of classes. With weights, it
    is compared with the smaller of two numbers: `n_errors_`, after weights with a sum
    below the number of samples are scaled to a mean of one, and the number of
    misclassified samples with a positive weight.

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

    _parameter_constraints: dict[str, list[Any]] = {"from_logits": ["boolean"]}

    classes_: Array
    n_features_in_: int
    n_errors_: float
    zero_replacement_: float

    @property
    def _fitted(self) -> Mapping[str, Any]:
        """What `_fit` sets, for files, see `as_spec`."""
        return {}

    @property
    def _input_schema(self) -> dict[str, Spec]:
        """What all calibrators have before `_fit` is called."""
        is_proba = not self.from_logits
        zero = {"zero_replacement_": Number(UP_TO_HALF)} if is_proba else {}
        return {
            "classes_": Labels(),
            "n_features_in_": Count("n_features_in_", ("n_classes", "n_maps")),
            "feature_names_in_": Names("n_features_in_"),
            "n_errors_": Number(NON_NEGATIVE),
            **zero,
        }

    @property
    def _state_schema(self) -> dict[str, Spec]:
        fitted: dict[str, Any] = {}
        # A class of a user adds to what that of the package describes.
        for kind in type(self).__mro__:
            terms = vars(kind).get("_fitted", {})
            if isinstance(terms, property):
                terms = terms.__get__(self)
            fitted = {**terms, **fitted}
            if terms and not is_of_user(kind):
                break
        terms = {name: as_spec(term) for name, term in fitted.items()}
        return {**self._input_schema, **terms}

    @restores()
    def fit(
        self,
        X: ArrayLike | None = None,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        labels: ArrayLike | None = None,
        batches: Callable[[], Iterable[Any]] | None = None,
    ) -> Self:
        """Fit the calibrator to predictions and labels.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_classes), (n_samples,) or (n_samples, 1)
            Predicted probabilities, with rows that sum to one, or the probabilities of
            the positive class. With `from_logits=True`, logits; a single column
            contains the logit of the positive class minus that of the negative class.

        y : array-like of shape (n_samples,)
            True labels, of any type that can be sorted.

        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights. A sample of weight 2 counts as two samples.

        labels : array-like of shape (n_classes,), default=None
            Class label of each column, such as `estimator.classes_`. By default, the
            sorted distinct values of `y`. Required if a class has no samples in `y`,
            and with `batches`.

        batches : callable, default=None
            Function that returns an iterable of chunks `(X, y)` or `(X, y,
            sample_weight)`, for data that do not fit into memory. It is called for each
            pass over the data and must always return the same chunks, of the same rows
            in the same order. The result is that of a fit to all of them. Calibrators
            that sort scores, such as one-vs-rest calibrators, keep the scores of eight
            classes in memory at once, and :class:`BoostingCalibrator` keeps all
            samples.

        Returns
        -------
        self : Calibrator
            The fitted calibrator.

        Raises
        ------
        ValueError
            If `X` does not contain probabilities and `from_logits` is False, or if the
            labels in `y` do not match the columns. A calibrator that was already fitted
            is then left unchanged.

        Warns
        -----
        UserWarning
            If `from_logits=True` and `X` looks like probabilities: no value is negative
            and all rows sum to one, or a single column lies in [0, 1]. Also if there
            are few misclassified samples, see Notes of the class.
        """
        if batches is None:
            X, y, sample_weight, labels = map(on_cpu, (X, y, sample_weight, labels))
        n_errors = self._fit_without_warnings(X, y, sample_weight, labels, batches)
        if batches is None:
            self._warn_of_proba(check_numbers(X, "X"))
        self._warn_of_few_errors(n_errors)
        return self

    def _fit_without_warnings(
        self,
        X: ArrayLike | None,
        y: ArrayLike | None,
        sample_weight: ArrayLike | None,
        labels: ArrayLike | None,
        batches: Any = None,
    ) -> float:
        """Fit without the warnings, which are about all folds of a cross-validation.

        Return the number of errors for the warning, see `count_errors`.
        """
        self._validate_params()
        for name in self._state_schema:
            self.__dict__.pop(name, None)
        data, n_errors = read_fit_data(self, X, y, sample_weight, labels, batches)
        self._fit_and_try(data)
        return n_errors

    def _fit_and_try(self, data: Blocks) -> None:
        """Fit the map, and try one of a user on the first rows."""
        self._fit(data)
        if is_of_user(type(self)):
            try_method(self, "_calibrate", next(iter(data)).logits)

    @maps_blocks(keeps_float32=True)
    @returns_array_of_input
    def predict_proba(self, X: ArrayLike) -> Floats:
        """Return calibrated probabilities.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_classes), (n_samples,) or (n_samples, 1)
            Predictions of the classifier, in the same form as in `fit`. After a fit to
            the logits of two classes, a single column contains the logit of the
            positive class minus that of the negative class, such as the decision
            function of a binary classifier.

        Returns
        -------
        proba : ndarray of shape (n_samples, n_classes)
            Calibrated probabilities, all positive. Each row sums to one, and the
            columns are in the order of `classes_`. For a Dask array, they are a lazy
            Dask array with the same blocks of rows. With scikit-learn's setting
            `array_api_dispatch`, they are an array of the library and on the device of
            `X`.
        """
        check_is_fitted(self)
        given, X = X, self._check_input(X, reset=False)
        # A single logit may well lie in [0, 1].
        if not warn_of_predicted_labels(given, "X") and len(X) > 1:
            self._warn_of_proba(X)
        proba = np.empty_like(X, order="C")
        for rows in row_blocks(len(X), X.shape[1], at_least=MIN_ROWS):
            with np.errstate(over="ignore", invalid="ignore"):
                proba[rows] = self._proba(X[rows])
        if np.isnan(proba.min()):
            raise overflow_error(np.abs(X).max())
        return proba

    def _proba(self, X: Values) -> Values:
        """Return calibrated probabilities of validated input, or in a graph."""
        logits = self._as_logits(X)
        if isinstance(X, np.ndarray):
            proba = self._calibrate(read_only(logits))
            check_returned(self, "_calibrate", proba, X.shape)
        else:
            proba = self._calibrate(logits)
        return maximum(proba.astype(X.dtype, copy=False), np.finfo(X.dtype).tiny)

    def _in_graph(self, X: Symbol) -> Symbol:
        """Return calibrated probabilities of the columns that `predict_proba` takes."""
        try:
            return self._proba(self._all_columns(X))
        except (AttributeError, TypeError) as error:
            raise TypeError(
                f"The map of {type(self).__name__} must consist of operators and the "
                "functions of sklearn_calib.calibrators.operations for torch, ONNX and "
                f"arrays on other devices, got: {error}. Or call predict_proba with "
                "numpy arrays."
            ) from error

    def _all_columns(self, X: Symbol) -> Symbol:
        """Return logits or probabilities of all classes in a graph."""
        X = X.with_columns(self.n_features_in_)
        if not self.from_logits:
            X = clip(X, 0.0, 1.0)
        if self.n_features_in_ > 1:
            return X
        return hstack([0 * X if self.from_logits else 1 - X, X])

    @maps_blocks()
    def predict(self, X: ArrayLike) -> Array:
        """Predict the class with the largest calibrated probability.

        For ties, the first of these classes is predicted.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_classes), (n_samples,) or (n_samples, 1)
            Predictions of the classifier, in the same form as in `fit`.

        Returns
        -------
        y_pred : ndarray of shape (n_samples,)
            Predicted labels.
        """
        proba = self.predict_proba(X)
        return labels_of(self.classes_, proba)

    def _check_input(self, X: Any, *, reset: bool) -> Floats:
        """Return `X` as validated logits or probabilities of all classes."""
        X = check_numbers(X, "X")
        if not reset:
            check_columns(X, None, self.classes_, "X")
        X = np.reshape(X, (-1, 1)) if np.ndim(X) == 1 else X
        if not reset and self._takes_log_odds and np.shape(X)[1:] == (1,):
            X = self._add_zeros(np.asarray(X))
        is_checked = is_plain(X)
        if is_checked and reset:  # `fit` has deleted names of columns
            self.n_features_in_ = X.shape[1]
        elif not is_checked or not self._has_shape_of_fit(X):
            # The check for finite values may compute infinity minus infinity.
            with np.errstate(invalid="ignore"):
                X = validate_data(
                    self,
                    X,
                    reset=reset,
                    dtype=[np.float64, np.float32],
                    skip_check_array=is_checked,
                )
        if not self.from_logits:
            try:
                X = check_proba(X, name="X", allow_1d=True).reshape(len(X), -1)
            except ValueError as error:
                raise ValueError(f"{error} {LOGITS_HINT}") from None
        if X.shape[1] > 1:
            return X
        return np.hstack([np.zeros_like(X) if self.from_logits else 1 - X, X])

    def _has_shape_of_fit(self, X: Floats) -> bool:
        """Return whether X has as many columns as in `fit`, where they had no names."""
        has_names = hasattr(self, "feature_names_in_")
        return not has_names and X.shape[1] == self.n_features_in_

    @property
    def _takes_log_odds(self) -> bool:
        return self.from_logits and self.n_features_in_ == 2

    def _add_zeros(self, log_odds: Array) -> Array:
        """Return one column of log-odds as the logits of two classes."""
        if len(log_odds) >= MIN_LOG_ODDS:
            self._warn_of_proba(log_odds)
        return np.hstack([np.zeros_like(log_odds), log_odds])

    def _as_logits(self, X: Values) -> Values:
        """Return logits: `X` itself, or the logarithms of probabilities."""
        return X if self.from_logits else log(lift_zeros(X, self.zero_replacement_))

    def _warn_of_proba(self, X: ArrayLike) -> None:
        """Warn of predicted labels, and of logits that look like probabilities."""
        if warn_of_predicted_labels(X, "X"):
            return
        X = np.asarray(X)
        if self.from_logits and are_proba(X.reshape(len(X), -1)):
            warn_that_logits_look_like_proba()

    def _warn_of_few_errors(self, n_errors: float, of: str = "") -> None:
        """Warn about few misclassified samples.

        `n_errors` may be the sum over several calibrators, and `of` says which are
        counted, if not all of `fit`.
        """
        needed = self._n_errors_needed
        if n_errors >= needed:
            return
        less = "a calibrator that needs fewer, " if needed > FEWEST_ERRORS else ""
        warn(
            f"{type(self).__name__} needs about {needed} misclassified samples for a "
            f"reliable fit, got {round(n_errors, 1):g}{of}, and may make the "
            "probabilities worse. Use more held-out samples, CalibratedClassifier with "
            f"cross-validation, {less}or no calibration.",
            UserWarning,
        )

    @property
    def _n_errors_needed(self) -> int:
        """Misclassified samples needed for the number of classes."""
        number, power = self._errors_needed
        return round(number * (len(self.classes_) - 1) ** power)

    @property
    def _errors_needed(self) -> tuple[int, float]:
        """Misclassified samples needed for two classes, and exponent of n_classes - 1.

        With this number or more, calibration increases the log loss of a well
        calibrated classifier by at most about 5 % in
        benchmarks/studies/bench_calibration_size.py. 0 if it was not measured.
        """
        return 0, 0

    def _copy_input(self, other: Calibrator) -> None:
        """Copy the attributes that `other.fit` sets before `_fit`."""
        known = vars(other)
        for name in other._input_schema.keys() & known:
            setattr(self, name, known[name])

    @abstractmethod
    def _fit(self, data: Blocks) -> None:
        """Fit the map to the logits, classes and weights of samples."""

    @abstractmethod
    def _calibrate(self, logits: Values) -> Values:
        """Return calibrated probabilities as a new array."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.one_d_array = True
        return tags
