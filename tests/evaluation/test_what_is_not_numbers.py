"""Masked arrays, mixed labels and text raise errors before scorers are called."""

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

from sklearn_calib.displays import ReliabilityDisplay
from sklearn_calib.evaluation import compare, evaluate_ood

X, Y = load_iris(return_X_y=True)
CLASSIFIER = LogisticRegression(max_iter=1000).fit(X, Y)
MASKED = np.ma.array(X, mask=X < 0.2)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"X": MASKED}, ValueError, "X must not contain masked values"),
        (
            {"y": np.ma.array(Y, mask=Y == 1)},
            ValueError,
            "y must not contain masked val",
        ),
        ({"y": ["a", *Y[1:]]}, TypeError, "y must contain labels of one type"),
        (
            {"sample_weight": np.ones(150).astype(str)},
            ValueError,
            "sample_weight must contain numbers: could not convert string",
        ),
        ({"sample_weight": -np.ones(150)}, ValueError, "sample_weight must be non-neg"),
    ],
)
def test_compare(change, error, message):
    arguments = {"X": X, "y": Y, "n_resamples": 0, **change}
    with pytest.raises(error, match=message):
        compare({"logistic": CLASSIFIER}, **arguments)


def test_what_asks_a_classifier():
    with pytest.raises(ValueError, match="X must not contain masked values"):
        evaluate_ood(CLASSIFIER, X, MASKED)
    with pytest.raises(ValueError, match="X must not contain masked values"):
        ReliabilityDisplay.from_estimator(CLASSIFIER, MASKED, Y)
