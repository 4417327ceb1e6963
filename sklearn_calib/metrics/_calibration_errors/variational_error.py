"""Variational calibration error: a lower bound by recalibration of held-out samples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from numbers import Integral
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import has_fit_parameter

from sklearn_calib._numerics.class_scores import log_odds_of_one
from sklearn_calib._solvers.spline_logistic import evaluate_curve, fit_curve
from sklearn_calib._validation.declarations import (
    TARGETS,
    HasMethods,
    Interval,
    StrOptions,
    validate_params,
)
from sklearn_calib._validation.fit_warnings import without_warnings
from sklearn_calib._validation.samples import as_columns, read_samples
from sklearn_calib._validation.types import Floats, Ints, Weights

if TYPE_CHECKING:
    from sklearn.model_selection import BaseCrossValidator

# The default of LogOddsSplineCalibration.
N_KNOTS = 20
# Smaller changes of a probability are rounding errors.
ROUNDING = 1e-12
# Relative difference of changes that count as equally large.
TIES = 1e-9

Splits: TypeAlias = Iterable[tuple[Ints, Ints]]


@validate_params(
    {
        **TARGETS,
        "recalibration": [StrOptions({"spline"}), HasMethods(["fit", "predict_proba"])],
        "norm": [StrOptions({"l1", "l2", "max"})],
        "direction": [StrOptions({"both", "over", "under"})],
        "mode": [StrOptions({"canonical", "positive", "top_label"}), None],
        "cv": [
            Interval(Integral, 2, None, closed="left"),
            HasMethods(["split", "get_n_splits"]),
            list,
            tuple,
        ],
    },
    prefer_skip_nested_validation=False,  # the parameters of the classifier
)
def variational_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    recalibration: str | BaseEstimator = "spline",
    norm: str = "l1",
    direction: str = "both",
    mode: str | None = None,
    pos_label: Any = None,
    cv: int | BaseCrossValidator | Splits = 5,
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""Variational calibration error: a lower bound by recalibration, without bins.

    A classifier is fitted to the predicted probabilities and recalibrates those of
    held-out samples. The error is measured in the direction of the recalibration only.
    The expected error is at most the calibration error with respect to all classes
    jointly, and 0 for calibrated predictions. Lower is better; 0 is best.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels, of any type.

    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities. A 1-d array contains the probabilities of the positive
        class, which is the second of the two labels.

    recalibration : "spline" or classifier, default="spline"
        How the probabilities are recalibrated. "spline" uses the one-vs-rest curves of
        :class:`~sklearn_calib.calibrators.LogOddsSplineCalibration`, which do not
        detect errors of a class that depend on the probabilities of other classes. A
        calibrator or a classifier of scikit-learn is fitted to the probabilities. The
        better it predicts the labels, the closer the bound.

    norm : {"l1", "l2", "max"}, default="l1"
        Norm of the difference between the vector of probabilities and the class
        frequencies: sum of the absolute values, Euclidean norm, or largest absolute
        value.

    direction : {"both", "over", "under"}, default="both"
        Which errors are measured: all, overconfidence or underconfidence. The last two
        sum to the first. They are not available for "canonical".

    mode : {"canonical", "positive", "top_label"}, default=None
        Probabilities that are evaluated: those of all classes jointly, that of the
        positive class (of two), or that of the predicted class. By default, "canonical"
        for a 2-d array and "positive" for a 1-d array.

    pos_label : label, default=None
        Label of the positive class of a binary problem. It sets the mode to "positive";
        a 1-d array then contains the probabilities of this class. By default, the
        second of the two labels.

    cv : int, splitter or list of (train, test), default=5
        Number of folds, which are random but always the same, or how the samples are
        divided, such as `KFold(5, shuffle=True)`. Do not stratify the folds by class,
        see Notes.

    labels : array-like of shape (n_classes,), default=None
        Labels of the columns of `y_proba`, such as `estimator.classes_`. By default,
        the sorted distinct values of `y_true`, which must then contain every class.

    sample_weight : array-like of shape (n_samples,), default=None
        Sample weights. A weight of 2 is not equivalent to two samples, which may be in
        different folds. The scale of the weights affects the smoothness of "spline".

    Returns
    -------
    error : float
        Estimate of the calibration error. It may be negative. For one class and for
        "max", it is at most 1, for "l1" at most 2 and for "l2" at most the root of 2.

    Raises
    ------
    ValueError
        If the labels do not match the columns of `y_proba`, or `y_proba` contains
        values that are not probabilities, or `direction` is used for all classes, or
        `cv` does not yield training and test samples, or `recalibration` does not
        support `sample_weight`.

    See Also
    --------
    kde_calibration_error : Estimate with a kernel, which is biased upward.
    proper_calibration_error : Reduction of the log loss or Brier score by
        recalibration.
    expected_calibration_error : Calibration error with bins.

    Notes
    -----
    With the predicted probabilities f, the one-hot labels Y and :math:`C = E[Y | f]`,
    the calibration error is :math:`E \|C - f\|`. For the recalibrated probabilities g,
    let s be the gradient of the norm at :math:`g - f`, or 0 if :math:`g = f`. The
    estimate is the mean of :math:`\langle s, Y - f \rangle` over the held-out samples.
    By Hölder's inequality, its expectation is at most the calibration error, for any g
    that does not depend on Y. It is equal for :math:`g = C`.

    This is the mean reduction of the proper loss :math:`-\langle s, Y - f \rangle` by
    recalibration [1]_. An estimate with bins or with recalibration on the same samples
    is biased upward instead. So is one with stratified folds, because the class
    frequencies of the training samples are then those of the test samples: for 200
    calibrated samples of three classes, its mean is about 0.03 instead of 0.

    A prediction is overconfident if recalibration moves it towards 1/2, and for
    "top_label", if it decreases the confidence.

    References
    ----------
    .. [1] E. Berta, S. Braun, D. Holzmüller, F. Bach and M. I. Jordan, "A Variational
       Estimator for Lp Calibration Errors", arXiv:2602.24230, 2026.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.calibrators import TemperatureScaling
    >>> from sklearn_calib.metrics import variational_calibration_error
    >>> rng = np.random.default_rng(0)
    >>> logits = rng.normal(size=(2000, 3))
    >>> y_true = (logits + rng.gumbel(size=(2000, 3))).argmax(axis=1)
    >>> y_proba = np.exp(2 * logits)  # overconfident
    >>> y_proba /= y_proba.sum(axis=1, keepdims=True)
    >>> round(variational_calibration_error(y_true, y_proba), 2)
    0.27
    >>> options = {"recalibration": TemperatureScaling()}
    >>> round(variational_calibration_error(y_true, y_proba, **options), 2)
    0.28
    """
    data = y_true, y_proba, labels, sample_weight, mode, pos_label
    samples = read_samples(*data, of_two="canonical", of_more="canonical")
    if samples.mode == "canonical":
        if direction != "both":
            raise ValueError(
                'direction must be "both" if all classes are evaluated jointly, got '
                f'{direction!r}. Use mode="top_label".'
            )
        proba, codes, weight = samples.proba()
        evaluated = slice(None)
    else:
        value, outcome, weight = samples.column()
        # Both columns are recalibrated, but one is evaluated.
        proba, codes = as_columns(value), outcome.astype(np.int64)
        evaluated = slice(1, None)
    proba = proba.astype(np.float64)
    center = 0.0 if samples.mode == "top_label" else 0.5
    total = mass = 0.0
    for train, test in _splits(cv, proba, codes, weight):
        given = proba[test]
        recalibrated = _recalibrate(recalibration, proba, codes, weight, train, test)
        residual = -given
        residual[np.arange(len(test)), codes[test]] += 1
        change, residual = (recalibrated - given)[:, evaluated], residual[:, evaluated]
        gain = np.einsum("ij,ij->i", _gradient(change, norm), residual)
        if direction != "both":
            is_over = (change * (given[:, evaluated] - center) < 0)[:, 0]
            gain *= is_over if direction == "over" else ~is_over
        test_weight = np.ones(len(test)) if weight is None else weight[test]
        total, mass = total + gain @ test_weight, mass + test_weight.sum()
    if mass == 0:
        raise ValueError(
            "cv must yield test samples of positive weight, got none. Pass the number "
            "of folds."
        )
    return float(total / mass)


def _splits(
    cv: int | BaseCrossValidator | Splits, proba: Floats, codes: Ints, weight: Weights
) -> Iterator[tuple[Ints, Ints]]:
    """Yield the rows of the training and of the test samples of each fold."""
    has_weight = np.ones(len(codes), bool) if weight is None else weight > 0
    if isinstance(cv, Integral):
        # Samples of weight zero would change the folds of the others.
        rows = np.flatnonzero(has_weight)
        order = np.arange(len(rows)) % min(int(cv), max(len(rows), 1))
        fold = np.random.default_rng(0).permutation(order)
        for k in np.unique(fold):
            yield rows[fold != k], rows[fold == k]
        return
    # Imported here, because it reads scikit-learn's scorers.
    from sklearn.model_selection import check_cv

    rows = np.arange(len(codes))
    try:
        folds = check_cv(cv, codes, classifier=True).split(proba, codes)
        splits = [
            (np.ravel(rows[train]), np.ravel(rows[test])) for train, test in folds
        ]
    except (IndexError, TypeError, ValueError) as error:
        raise ValueError(
            "cv must yield the training and the test rows of each fold, but "
            f"{type(cv).__name__} raised: {error}. Pass the number of folds or a "
            "splitter."
        ) from error
    for train, test in splits:
        if len(test):
            yield train[has_weight[train]], test


def _recalibrate(
    recalibration: Any,
    proba: Floats,
    codes: Ints,
    weight: Weights,
    train: Ints,
    test: Ints,
) -> Floats:
    """Return recalibrated probabilities of the test samples."""
    classes = np.unique(codes[train])
    if not len(classes):
        return proba[test]
    recalibrated = np.zeros((len(test), proba.shape[1]))
    if len(classes) == 1:  # the only label that occurs
        recalibrated[:, classes] = 1
        return recalibrated
    if isinstance(recalibration, str):
        weight = np.ones(len(codes)) if weight is None else weight
        return _recalibrate_by_curves(proba, codes, weight, train, test)
    if len(classes) < proba.shape[1]:
        # Calibrators need a label for each column.
        proba = _of_classes(proba, classes)
    # Imported here, because it reads many classifiers of scikit-learn.
    from sklearn_calib._sklearn.response import predict_scores

    options = {}
    if weight is not None:
        _check_takes_weights(recalibration)
        options["sample_weight"] = weight[train]
    # A poor fit is not an error: it only makes the bound lower.
    with without_warnings():
        fitted = clone(recalibration).fit(proba[train], codes[train], **options)
        found = predict_scores(fitted, proba[test], False, classes)
    recalibrated[:, classes] = found
    return recalibrated


def _check_takes_weights(recalibration: Any) -> None:
    """Raise ValueError if a classifier cannot be fitted with sample weights."""
    if not has_fit_parameter(recalibration, "sample_weight"):
        raise ValueError(
            "recalibration must support sample_weight, got "
            f"{type(recalibration).__name__}, which does not. Use another classifier, "
            "or no weights."
        )


def _of_classes(proba: Floats, classes: Ints) -> Floats:
    """Return the probabilities of some classes, given that it is one of them."""
    proba = proba[:, classes]
    total = proba.sum(axis=1, keepdims=True)
    equal = np.full_like(proba, 1 / len(classes))
    return np.divide(proba, total, out=equal, where=total > 0)


def _recalibrate_by_curves(
    proba: Floats, codes: Ints, weight: Floats, train: Ints, test: Ints
) -> Floats:
    """Return the same with a smooth curve for each class, or one for two classes."""
    is_binary = proba.shape[1] == 2
    # Zeros are replaced by what depends on the other samples.
    counts = weight > 0
    columns = []
    for k in [1] if is_binary else range(proba.shape[1]):
        x, target = np.zeros(len(codes)), (codes == k).astype(np.float64)
        x[counts] = log_odds_of_one(proba[counts, k])
        curve, _ = fit_curve(
            x[train], target[train], weight[train], n_knots=N_KNOTS, is_monotone=False
        )
        columns.append(expit(evaluate_curve(curve, x[test])))
    return as_columns(columns[0]) if is_binary else np.column_stack(columns)


def _gradient(change: Floats, norm: str) -> Floats:
    """Return the gradient of the norm at each row, or 0 at 0."""
    change = np.where(np.abs(change) < ROUNDING, 0, change)
    if norm == "l1":
        return np.sign(change)
    if norm == "l2":
        length = np.linalg.norm(change, axis=1, keepdims=True)
        return change / np.where(length > 0, length, 1)
    size = np.abs(change)
    is_largest = size >= size.max(axis=1, keepdims=True) * (1 - TIES)
    return np.sign(change) * is_largest / is_largest.sum(axis=1, keepdims=True)
