"""Scorers that pass class labels to their metric, and the metrics of scorers."""

from copy import copy
from functools import partial
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import accuracy_score, log_loss, make_scorer

from sklearn_calib._validation.labels import distinct_labels, encode_labels
from sklearn_calib._validation.samples import as_columns
from sklearn_calib._validation.types import Array, Floats, Ints

# Searches can route weights to instances of make_scorer's class, and share predictions
# between them. The class has no public name.
Scorer = type(make_scorer(accuracy_score))


class LabelledScorer(Scorer):  # type: ignore[misc, valid-type] # found at run time
    """Scorer for probabilities or sets that passes the class labels to its metric.

    A metric with the parameter `groups` gets those of the samples by metadata routing.
    """

    @property
    def needs_groups(self) -> bool:
        """Whether the metric needs the group of each sample."""
        return "groups" in signature(self._score_func).parameters

    @property
    def needs_sets(self) -> bool:
        """Whether the metric evaluates prediction sets instead of probabilities."""
        return "y_set" in signature(self._score_func).parameters

    def get_metadata_routing(self) -> Any:
        """Return the requests for metadata; groups are requested by default."""
        routing = super().get_metadata_routing()
        if self.needs_groups and routing.score.requests.get("groups") is None:
            routing.score.add_request(param="groups", alias=True)
        return routing

    def _score(
        self, method_caller: Any, estimator: Any, X: Any, y_true: Any, **kwargs: Any
    ) -> Any:
        if self.needs_groups and kwargs.get("groups") is None:
            raise ValueError(
                "groups must be passed to a scorer that evaluates groups, got none. "
                "Call sklearn.set_config(enable_metadata_routing=True), and pass "
                'params={"groups": groups} to cross_validate, or groups=groups to the '
                "method fit of a search."
            )
        labels = estimator.classes_
        if not self.needs_sets and hasattr(estimator, "predict_proba"):
            estimator = _Converted(estimator)
        return super()._score(
            method_caller, estimator, X, y_true, labels=labels, **kwargs
        )


class _Converted(ClassifierMixin, BaseEstimator):
    """Classifier with the probabilities of another, read as by wrappers."""

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator
        self.classes_ = np.asarray(estimator.classes_)

    def predict_proba(self, X: Any) -> Floats:
        # Imported here, because it reads many classifiers of scikit-learn.
        from sklearn_calib._sklearn.response import predict_scores

        return predict_scores(self.estimator, X, from_logits=False)


class _Precomputed(ClassifierMixin, BaseEstimator):
    """Classifier that returns its input as predicted probabilities, for scorers."""

    def __init__(self, classes: Array) -> None:
        self.classes = classes
        self.classes_ = classes

    def predict_proba(self, X: Any) -> Any:
        return X

    def predict(self, X: Any) -> Array:
        return self.classes_[X.argmax(axis=1)]


def metric_of(scorer: Any) -> tuple[Any, int]:
    """Return the metric of a scorer as a partial with its options, and its sign.

    For callables that are not made by `make_scorer`, the metric is None and the sign 1.
    """
    if not isinstance(scorer, Scorer):
        return None, 1
    return partial(scorer._score_func, **scorer._kwargs), scorer._sign


def follows_labels(metric: Any) -> bool:
    """Whether columns are in the order of `labels`, as for metrics of this package.

    Others, such as those of scikit-learn, assume the order of sorted labels.
    """
    return str(metric.__module__).startswith("sklearn_calib.")


def column_order(scorer: Any, classes: Array) -> Ints:
    """Return the order of the classes, and of their columns, that a scorer assumes."""
    if isinstance(scorer, LabelledScorer):
        return np.arange(len(classes))
    metric, _ = metric_of(scorer)
    labels = metric and metric.keywords.get("labels")
    if labels is None:
        return np.argsort(distinct_labels(classes, "labels")[1])
    return metric_order(metric.func, labels, classes)


def metric_order(function: Any, own: ArrayLike | None, classes: Array) -> Ints:
    """Return the same for the function of a metric, with labels of its own or None."""
    if not follows_labels(function):
        return np.argsort(distinct_labels(classes, "labels")[1])
    n_classes = len(classes)
    if own is None:
        return np.arange(n_classes)
    return encode_labels(own, labels=classes, n_classes=n_classes, name="labels")


def metric_and_input(scorer: Any, proba: Floats) -> tuple[Any, Floats]:
    """Return the metric of any scorer, and the probabilities that it is called with.

    The metric has the signature `metric(y_true, y_proba, *, labels, sample_weight)`.
    For scorers of this package, it is `metric_of`.
    """
    metric, sign = metric_of(scorer)
    if not isinstance(scorer, LabelledScorer):
        return partial(call_scorer, scorer, sign), proba
    if metric.keywords.get("pos_label") is not None:
        return metric, proba  # the metric selects the column of this class
    # As in the scorer.
    is_binary = proba.ndim == 2 and proba.shape[1] == 2
    return metric, proba[:, 1] if is_binary else proba


def call_scorer(
    scorer: Any,
    sign: int,
    y_true: ArrayLike,
    y_proba: Any,
    *,
    labels: ArrayLike | None = None,
    sample_weight: Any = None,
) -> Any:
    """Return the value of the metric of a scorer."""
    classes = np.unique(y_true) if labels is None else np.asarray(labels)
    order = column_order(scorer, classes)
    X, classifier = as_columns(y_proba)[:, order], _Precomputed(classes[order])
    metric, _ = metric_of(scorer)
    if metric is not None and metric.func is log_loss:
        # Its scorer fails if a class is absent from y_true.
        labels = classes[order]
        return metric(y_true, X, labels=labels, sample_weight=sample_weight)
    if metric is not None and follows_labels(metric.func):
        scorer = copy(scorer)
        scorer._kwargs = {"labels": classes[order], **scorer._kwargs}
    weight = {} if sample_weight is None else {"sample_weight": sample_weight}
    return sign * scorer(classifier, X, y_true, **weight)
