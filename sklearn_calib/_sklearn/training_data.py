"""Training data of classifiers and calibrators: checks, classes and features."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse, sparray, spmatrix
from sklearn.frozen import FrozenEstimator
from sklearn.utils import (
    assert_all_finite,
    check_consistent_length,
    column_or_1d,
    indexable,
)
from sklearn.utils.multiclass import check_classification_targets

from sklearn_calib._sklearn.response import classes_of
from sklearn_calib._validation.arrays import (
    check_in_memory,
    check_unmasked,
    is_dict,
    is_instance,
    safe_indexing,
    shown,
    without_gradient,
)
from sklearn_calib._validation.fit_warnings import warn
from sklearn_calib._validation.labels import as_labels, check_indicator
from sklearn_calib._validation.types import Array

# Type of X of a wrapped classifier.
MatrixLike = ArrayLike | sparray | spmatrix


def check_training_data(
    X: Any, y: Any, estimator: Any, *, allow_multilabel: bool = False
) -> tuple[Any, Array, Any]:
    """Return X, y as an array, and the classes of y or of a frozen classifier.

    A 2-d y with several columns is multilabel: its classes are a list of 0 and 1 for
    each label.
    """
    check_unmasked(X, "X")
    check_in_memory(X, "X")
    if is_instance(X, "torch.utils.data", "Dataset"):
        raise TypeError(
            f"X must be an array, got a Dataset: {type(X).__name__}. Pass a memory "
            "map, or fit a calibrator to the predictions of the classifier."
        )
    y = as_labels(y.toarray() if issparse(y) else y, "y")
    if allow_multilabel and y.ndim == 2 and y.shape[1] > 1:
        y = check_indicator(y, y.shape, name="y")
        return _indexable(X, y), y, [np.array([0, 1])] * y.shape[1]
    y = column_or_1d(y, warn=True)
    assert_all_finite(y, input_name="y")
    check_classification_targets(y)
    if isinstance(estimator, FrozenEstimator):
        return _indexable(X, y), y, np.asarray(classes_of(estimator))
    labels = np.unique(y)
    if len(labels) < 2:
        raise ValueError(
            "y must contain at least two classes, got one class: "
            f"{shown(labels.tolist())}. Add samples of another class."
        )
    return _indexable(X, y), y, labels


def warn_of_absent_classes(
    absent: Array, consequence: str, otherwise: str = ""
) -> None:
    """Warn of the classes without samples, if there are any, and what follows."""
    if len(absent):
        warn(
            f"y contains no samples of {shown(absent.tolist())}: {consequence}. "
            f"Calibrate with samples of all classes{otherwise}.",
            UserWarning,
        )


def _indexable(X: Any, y: Any) -> Any:
    """Return X with rows that can be taken, one for each label."""
    if is_dict(X):
        check_consistent_length(*X.values(), y)
        return dict(zip(X, indexable(*X.values()), strict=True))
    try:
        return indexable(X, y)[0]
    except TypeError as error:  # a container of a boosting library
        raise TypeError(
            "X must be an array-like with one row for each label, got "
            f"{type(X).__name__}. Pass the data from which it was made, and the "
            "options of a catboost.Pool to fit, as in fit(X, y, cat_features=[0])."
        ) from error


def take(X: Any, rows: Any) -> Any:
    """Return rows of an array, a sparse matrix, a table, a list or a dict."""
    if is_dict(X):
        return {name: take(part, rows) for name, part in X.items()}
    X = without_gradient(X)  # scikit-learn cannot read tensors that require grad
    return safe_indexing(X, rows)


def copy_features(classifier: Any, owner: Any) -> None:
    """Copy the number and the names of the features from a classifier to its owner."""
    for name in ("n_features_in_", "feature_names_in_"):
        vars(owner).pop(name, None)
        if hasattr(classifier, name):
            setattr(owner, name, getattr(classifier, name))
