"""Scorers: the class of ours, and the metric that a scorer holds."""

from functools import partial
from typing import Any

from sklearn.metrics import accuracy_score, make_scorer

# What make_scorer returns is what searches know how to route weights to and how to
# share predictions between. Its class has no public name.
Scorer = type(make_scorer(accuracy_score))


class LabelledScorer(Scorer):  # type: ignore[misc, valid-type] # found at run time
    """A scorer of probabilities, whose metric is told the label of each column."""

    def _score(
        self, method_caller: Any, estimator: Any, X: Any, y_true: Any, **kwargs: Any
    ) -> Any:
        return super()._score(
            method_caller, estimator, X, y_true, labels=estimator.classes_, **kwargs
        )


def metric_of(scorer: Any) -> tuple[Any, int]:
    """Return the metric of a scorer with its options, and the scorer's sign.

    The metric of a callable that `make_scorer` has not made is None, its sign 1.
    """
    if not isinstance(scorer, Scorer):
        return None, 1
    return partial(scorer._score_func, **scorer._kwargs), scorer._sign
