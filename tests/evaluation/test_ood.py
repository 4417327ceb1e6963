"""Confidence-based out-of-distribution detection."""

import numpy as np
import pytest
from sklearn.datasets import make_blobs
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_calib import NeuralClassifier
from sklearn_calib.evaluation import evaluate_ood
from sklearn_calib.metrics import (
    fpr_at_tpr,
    ood_aupr_score,
    ood_auroc_score,
    ood_detection_error,
)

X, Y = make_blobs(n_samples=300, centers=3, cluster_std=2.0, random_state=0)
X_IN, X_OUT = X[150:], X[:40] @ [[0.3, 0.0], [0.0, 0.3]] + [1.0, 2.0]
MODEL = LogisticRegression().fit(X[:150], Y[:150])


@pytest.mark.parametrize("balanced", [False, True])
@pytest.mark.parametrize("pos", ["in", "out"])
def test_measures(pos, balanced):
    scores = [MODEL.predict_proba(X).max(axis=1) for X in (X_IN, X_OUT)]
    options = {"tpr": 0.8, "pos": pos, "balanced": balanced}
    assert evaluate_ood(MODEL, X_IN, X_OUT, **options) == {
        "fpr_at_tpr": fpr_at_tpr(*scores, tpr=0.8, pos=pos),
        "detection_error": ood_detection_error(*scores),
        "auroc": ood_auroc_score(*scores),
        "aupr_in": ood_aupr_score(*scores, balanced=balanced),
        "aupr_out": ood_aupr_score(*scores, pos="out", balanced=balanced),
    }


def entropy(proba):
    return (proba * np.log(proba)).sum(axis=1)


def test_confidence_functions():
    named = evaluate_ood(MODEL, X_IN, X_OUT, confidence="negative_entropy")
    assert evaluate_ood(MODEL, X_IN, X_OUT, confidence=entropy) == named
    assert named != evaluate_ood(MODEL, X_IN, X_OUT)


@pytest.mark.parametrize(
    "model", [MODEL, NeuralClassifier(max_epochs=2, random_state=0).fit(X, Y)]
)
def test_logits(model):
    scores = [model.decision_function(X.astype("f")).max(1) for X in (X_IN, X_OUT)]
    measures = evaluate_ood(
        model, X_IN.astype("f"), X_OUT.astype("f"), confidence="max_logit"
    )
    assert measures["auroc"] == ood_auroc_score(*scores)


def test_classifier_without_logits():
    model = make_pipeline(StandardScaler(), GaussianNB()).fit(X, Y)
    with pytest.raises(ValueError, match=r"computed from probabilities.*and Pipeline"):
        evaluate_ood(model, X_IN, X_OUT, confidence="max_logit")


def test_p_norm():
    scores = []
    for X in (X_IN, X_OUT):
        centred = MODEL.decision_function(X)
        centred -= centred.mean(axis=1, keepdims=True)
        scores.append(centred.max(axis=1) / np.linalg.norm(centred, 4, axis=1))
    measures = evaluate_ood(MODEL, X_IN, X_OUT, confidence="p_norm")
    assert measures["auroc"] == pytest.approx(ood_auroc_score(*scores))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"confidence": "mps"}, "Did you mean 'msp'"),
        ({"confidence": lambda proba: proba}, "one number per sample.*Reduce"),
        ({"tpr": 95}, "'tpr' parameter"),
        ({"pos": "ood"}, "'pos' parameter"),
        ({"X_out": X_OUT[:0]}, "sample"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        evaluate_ood(MODEL, **({"X_in": X_IN, "X_out": X_OUT} | options))
