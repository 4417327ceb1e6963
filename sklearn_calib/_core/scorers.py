"""Scorers that pass class labels to their metric, and the metrics of scorers."""

from functools import partial
from typing import Any

from sklearn.metrics import accuracy_score, make_scorer

# Searches can route weights to instances of make_scorer's class, and share predictions
# between them. The class has no public name.
Scorer = type(make_scorer(accuracy_score))


class LabelledScorer(Scorer):  # type: ignore[misc, valid-type] # found at run time
    """Scorer for probabilities that passes the class labels to its metric."""

    def _score(
        self, method_caller: Any, estimator: Any, X: Any, y_true: Any, **kwargs: Any
    ) -> Any:
        return super()._score(
            method_caller, estimator, X, y_true, labels=estimator.classes_, **kwargs
        )


def metric_of(scorer: Any) -> tuple[Any, int]:
    """Return the metric of a scorer as a partial with its options, and its sign.

    For callables that are not made by `make_scorer`, the metric is None and the sign 1.
    """
    if not isinstance(scorer, Scorer):
        return None, 1
    return partial(scorer._score_func, **scorer._kwargs), scorer._sign
