"""Predictions of a fitted classifier: logits where available, or probabilities."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.discriminant_analysis import (
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
)
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.pipeline import Pipeline

from sklearn_calib._core.arrays import check_unmasked
from sklearn_calib._core.typing import Floats

# scikit-learn's classifiers whose predict_proba is the softmax of decision_function.
# Their subclasses are included, such as LogisticRegressionCV.
_SOFTMAX_CLASSIFIERS = (
    HistGradientBoostingClassifier,
    LinearDiscriminantAnalysis,
    LogisticRegression,
    QuadraticDiscriminantAnalysis,
)


def holds_logits(classifier: Any) -> bool:
    """Return whether a fitted classifier's decision function is known to return logits.

    This is the case if its attribute `decision_function_is_logits` is True, and for
    `_SOFTMAX_CLASSIFIERS` except one-vs-rest LogisticRegression. The final estimator of
    a Pipeline, FrozenEstimator or search is checked.
    """
    n_classes = len(classifier.classes_)
    classifier = _final_step(classifier)
    declared = getattr(classifier, "decision_function_is_logits", None)
    if declared is not None:
        return declared
    is_one_vs_rest = n_classes > 2 and (
        getattr(classifier, "solver", None) == "liblinear"
        or getattr(classifier, "multi_class", None) == "ovr"
    )
    return isinstance(classifier, _SOFTMAX_CLASSIFIERS) and not is_one_vs_rest


def _final_step(classifier: Any) -> Any:
    """Return the classifier inside pipelines, frozen estimators and searches."""
    if isinstance(classifier, Pipeline):
        return _final_step(classifier.steps[-1][1])
    if isinstance(classifier, FrozenEstimator):
        return _final_step(classifier.estimator)
    if isinstance(classifier, GridSearchCV | RandomizedSearchCV):
        return _final_step(classifier.best_estimator_)
    return classifier


def uses_logits(classifier: Any, response_method: str) -> bool:
    """Return whether to call decision_function instead of predict_proba."""
    if response_method == "auto":
        if holds_logits(classifier):
            return True
        response_method = "predict_proba"
    if hasattr(classifier, response_method):
        return response_method == "decision_function"
    name = type(_final_step(classifier)).__name__
    raise ValueError(
        "estimator must have predict_proba, or a decision function that is known to "
        f"return logits, got {name}, which has no {response_method}. Margins, such as "
        "those of a support vector machine, are not logits. Use another classifier, "
        'or set response_method="decision_function" if its values are logits.'
    )


def predict_scores(classifier: Any, X: ArrayLike, from_logits: bool) -> Floats:
    """Return logits or probabilities of shape (n_samples, n_classes)."""
    check_unmasked(X, "X")
    if not from_logits:
        return classifier.predict_proba(X)
    logits = classifier.decision_function(X)
    if logits.ndim == 1:
        return np.column_stack([np.zeros_like(logits), logits])
    return logits
