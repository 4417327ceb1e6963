"""Held-out predictions of a classifier, by cross-validation."""

import os
from collections.abc import Iterable
from contextlib import contextmanager
from typing import Any

import numpy as np
from joblib import Memory
from numpy.typing import ArrayLike
from scipy.sparse import sparray, spmatrix
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import BaseCrossValidator, check_cv
from sklearn.utils import assert_all_finite, column_or_1d, indexable
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_memory

from sklearn_calib._core.arrays import as_labels, check_unmasked
from sklearn_calib._core.predicted_scores import predict_scores, uses_logits

# Types of X of a wrapped classifier, and of cv and memory of its wrappers.
MatrixLike = ArrayLike | sparray | spmatrix
SplitterLike = int | BaseCrossValidator | Iterable[Any] | None
MemoryLike = str | os.PathLike[str] | Memory | None


def check_training_data(X, y, estimator):
    """Return X, y as a 1-d array, and the classes of y or of a frozen classifier."""
    check_unmasked(X, "X")
    y = column_or_1d(as_labels(y, "y"), warn=True)
    assert_all_finite(y, input_name="y")
    check_classification_targets(y)
    if isinstance(estimator, FrozenEstimator):
        return *indexable(X, y), np.asarray(estimator.classes_)
    labels = np.unique(y)
    if len(labels) < 2:
        raise ValueError(
            f"y must contain at least two classes, got one class: {labels.tolist()}. "
            "Add samples of another class."
        )
    return *indexable(X, y), labels


def make_splits(cv, X, y, classes, **params):
    """Return the training and test indices of each fold, and check them."""
    rows = np.arange(len(y))
    try:
        folds = check_cv(cv, y, classifier=True).split(X, y, **params)
        splits = [(rows[train], rows[test]) for train, test in folds]
    except (IndexError, TypeError) as error:
        raise ValueError(
            f"cv must yield the training and the test rows of each fold, got {error} "
            f"from {type(cv).__name__}. Pass the number of folds or a splitter."
        ) from error
    if not splits:
        raise ValueError(
            f"cv must yield at least one fold, got none from {type(cv).__name__}. Pass "
            "the number of folds or a splitter."
        )
    for fold, (train, _) in enumerate(splits):
        missing = np.setdiff1d(classes, y[train]).tolist()
        if missing:
            raise ValueError(
                "y must have every class in the training part of each fold, got no "
                f"sample of {missing} in fold {fold} of {len(splits)}, counted from 0. "
                "Use fewer or stratified folds, or add samples of the missing classes."
            )
    return splits


def fit_and_predict(estimator, X, y, splits, refit, fit_params, response_method):
    """Fit a clone to each training part, and predict each test part.

    Parameters
    ----------
    splits : list of tuples (train, test)
        Row indices or slices.

    refit : bool
        Whether to fit another clone to all data and return only that one.

    Returns
    -------
    classifiers : list
        The fitted clones, one for each split, or only the one for all data.

    scores : list of ndarrays
        Logits or probabilities of each test part.

    from_logits : bool
        Whether the scores are logits.
    """
    tests = [test for _, test in splits]
    classifiers = []
    for train in [train for train, _ in splits] + [slice(None)] * refit:
        params = {name: _take(v, train, len(y)) for name, v in fit_params.items()}
        classifier = clone(estimator).fit(take(X, train), y[train], **params)
        uses_logits(classifier, response_method)  # raise before the next is fitted
        classifiers.append(classifier)
    from_logits = all(uses_logits(c, response_method) for c in classifiers)
    scores = [
        predict_scores(classifier, take(X, test), from_logits)
        for classifier, test in zip(classifiers, tests, strict=False)
    ]
    return classifiers[-1:] if refit else classifiers, scores, from_logits


def copy_features(classifier, owner):
    """Copy the number and the names of the features from a classifier to its owner."""
    for name in ("n_features_in_", "feature_names_in_"):
        vars(owner).pop(name, None)
        if hasattr(classifier, name):
            setattr(owner, name, getattr(classifier, name))


def take(X, rows):
    """Return rows of an array, a sparse matrix, a DataFrame or a list."""
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    if hasattr(X, "shape") or isinstance(rows, slice):
        return X[rows]
    return [X[row] for row in rows]


def _take(value, rows, n_samples):
    """Return rows of a fit parameter that has one value for each sample."""
    is_list = isinstance(value, list | tuple)
    shape = (len(value),) if is_list else getattr(value, "shape", ())
    return take(value, rows) if shape[:1] == (n_samples,) else value


def remembered(function, memory, **options):
    """Return a function with results cached in a `joblib.Memory` or a folder."""
    if isinstance(memory, os.PathLike):
        memory = os.fspath(memory)
    with _naming_folder(memory):
        opened = check_memory(memory)
    folder = getattr(opened, "location", None)

    def call(*arguments):
        with _naming_folder(folder):
            return opened.cache(function, **options)(*arguments)

    return call


@contextmanager
def _naming_folder(folder):
    """Raise a ValueError that names `memory` if its folder cannot be written."""
    try:
        yield
    except OSError as error:
        # The cached function may fail with other files.
        if folder is None or str(folder) not in str(error.filename):
            raise
        raise ValueError(
            f"memory must be a writable folder, got {str(folder)!r}: {error}. Pass "
            "another folder, or None."
        ) from error
