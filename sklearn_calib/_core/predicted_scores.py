"""Scores that a fitted classifier predicts: logits if it has them, or probabilities."""

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

# Classifiers of scikit-learn whose predict_proba is the softmax of decision_function,
# and their subclasses, such as LogisticRegressionCV.
_SOFTMAX_CLASSIFIERS = (
    HistGradientBoostingClassifier,
    LinearDiscriminantAnalysis,
    LogisticRegression,
    QuadraticDiscriminantAnalysis,
)


def holds_logits(classifier: Any) -> bool:
    """Return whether the decision function of a fitted classifier is known as logits.

    It is where an attribute `decision_function_is_logits` says so, and for the
    `_SOFTMAX_CLASSIFIERS`, except a LogisticRegression one against the rest. Looks
    through Pipeline, FrozenEstimator and searches.
    """
    n_classes = len(classifier.classes_)
    classifier = _final_step(classifier)
    declared = getattr(classifier, "decision_function_is_logits", None)
    if declared is not None:
        return declared
    one_against_rest = n_classes > 2 and (
        getattr(classifier, "solver", None) == "liblinear"
        or getattr(classifier, "multi_class", None) == "ovr"
    )
    return isinstance(classifier, _SOFTMAX_CLASSIFIERS) and not one_against_rest


def _final_step(classifier: Any) -> Any:
    """Return the classifier inside of pipelines, frozen ones and searches."""
    if isinstance(classifier, Pipeline):
        return _final_step(classifier.steps[-1][1])
    if isinstance(classifier, FrozenEstimator):
        return _final_step(classifier.estimator)
    if isinstance(classifier, GridSearchCV | RandomizedSearchCV):
        return _final_step(classifier.best_estimator_)
    return classifier


def uses_logits(classifier: Any, response_method: str) -> bool:
    """Return whether to ask decision_function, rather than predict_proba."""
    if response_method == "auto":
        if holds_logits(classifier):
            return True
        response_method = "predict_proba"
    if hasattr(classifier, response_method):
        return response_method == "decision_function"
    name = type(_final_step(classifier)).__name__
    raise ValueError(
        f"estimator must have predict_proba or a decision function known to hold "
        f"logits, got {name}, which has no {response_method}. Margins, such as those "
        "of a support vector machine, are no logits. Choose another classifier, or "
        'set response_method="decision_function" if its values are logits.'
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
