"""Errors of `SelectiveClassifier`."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError, UndefinedMetricWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import RepeatedStratifiedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import LinearSVC

from sklearn_calib.estimators import SelectiveClassifier

NAMES = np.array(["ant", "bee", "cat"])


def make_data(n_samples=600, n_classes=3, random_state=0):
    """Return noisy data on which abstaining helps."""
    rng = np.random.default_rng(random_state)
    y = rng.integers(n_classes, size=n_samples)
    centres = 2 * np.eye(n_classes)[y]
    return centres + rng.normal(size=centres.shape), y


def selective(estimator=None, **params):
    """Return a classifier that abstains with -1."""
    params = {"abstain_label": -1, **params}
    return SelectiveClassifier(estimator or GaussianNB(), **params)


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({}, ValueError, "exactly one of coverage and max_risk .*None and max_risk=N"),
        ({"coverage": 0.5, "max_risk": 0.1}, ValueError, "got coverage=0.5 and max_r"),
        ({"coverage": 0}, ValueError, r"'coverage' parameter .*\(0.0, 1.0\].* Got 0 "),
        ({"coverage": 1.1}, ValueError, "'coverage' parameter .* Got 1.1"),
        ({"coverage": np.nan}, ValueError, "'coverage' parameter .* Got nan"),
        ({"coverage": "half"}, ValueError, "'coverage' parameter .* Got 'half'"),
        ({"max_risk": 0.0}, ValueError, r"'max_risk' parameter .*\(0.0, 1.0\).* 0.0"),
        ({"max_risk": 1}, ValueError, "'max_risk' parameter .* Got 1 "),
        ({"max_risk": np.nan}, ValueError, "'max_risk' parameter .* Got nan"),
        ({"max_risk": 0.1, "delta": 0}, ValueError, "'delta' parameter .* Got 0 "),
        ({"coverage": 1, "delta": np.nan}, ValueError, "'delta' parameter .* Got nan"),
        ({"coverage": 1, "cv": "five"}, ValueError, "'cv' parameter"),
        ({"coverage": 1, "confidence": "mps"}, ValueError, "Did you mean 'msp'"),
        ({"coverage": 1, "confidence": 3}, TypeError, "confidence must be .*got 3"),
        (
            {"coverage": 1, "confidence": "max_logit"}, ValueError,
            "not known to return logits, got 'max_logit' and GaussianNB",
        ),
        (
            {"coverage": 1, "confidence": "p_norm"}, ValueError,
            "not known to return logits, got 'p_norm' and GaussianNB",
        ),
        (
            {"coverage": 1, "confidence": lambda proba: proba}, ValueError,
            r"confidence must be one number per sample, .* got shape \(600, 3\)",
        ),
        (
            {"coverage": 1, "confidence": lambda p: np.full(len(p), np.nan)},
            ValueError, "confidence must not be NaN, .* got NaN for 600 of 600",
        ),
        ({"coverage": 1, "abstain_label": None}, ValueError, "must be a number,.*None"),
        ({"coverage": 1, "abstain_label": 1j}, ValueError, "must be a number,.*got 1j"),
        ({"coverage": 1, "abstain_label": "no"}, ValueError, "must be a number,.*'no'"),
        ({"coverage": 1, "abstain_label": [3]}, ValueError, r"must be a number,.*\[3"),
        (
            {"coverage": 1, "abstain_label": 2}, ValueError,
            r"abstain_label must not be one of the classes \[0, 1, 2\], got 2",
        ),
        (
            {"max_risk": 0.2, "cv": RepeatedStratifiedKFold(n_splits=3, n_repeats=2)},
            ValueError, "at most once for max_risk, got 1200 tests of 600 samples",
        ),
        (
            {"coverage": 1, "estimator": LinearSVC()}, ValueError,
            "estimator must have predict_proba, got LinearSVC",
        ),
    ],
)  # fmt: skip
def test_bad_parameters(params, error, message):
    X, y = make_data()
    with pytest.raises(error, match=message):
        selective().set_params(**params).fit(X, y)


@pytest.mark.parametrize("label", [-1, "bee"])
def test_bad_abstain_label_for_strings(label):
    X, y = make_data()
    with pytest.raises(ValueError, match=f"abstain_label must .* got {label!r}"):
        selective(coverage=1, abstain_label=label).fit(X, NAMES[y])
    with pytest.raises(ValueError, match=r"must not be one of .*, got 'abstain'"):
        selective(coverage=1, abstain_label=None).fit(
            X, np.where(y == 1, "abstain", "go")
        )


def test_bad_data():
    X, y = make_data()
    model = selective(coverage=0.5)
    for method in ("predict", "predict_proba", "accepts", "coverage_score"):
        with pytest.raises(NotFittedError):
            getattr(model, method)(X)
    with pytest.raises(ValueError, match=r"at least two classes, got one class: \[1\]"):
        model.fit(X, np.ones(600, dtype=int))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.fit(X, y[:-1])
    with pytest.raises(ValueError, match="Input X contains NaN"):
        model.fit(np.where(X > 3, np.nan, X), y)
    with pytest.raises(ValueError, match="y contains NaN"):
        model.fit(X, np.where(y > 1, np.nan, y))
    with pytest.raises(ValueError, match="sample_weight must be non-negative"):
        model.fit(X, y, sample_weight=y - 1.0)
    with pytest.raises(ValueError, match=r"two classes in the training .*\[1\] in fo"):
        clone(model).set_params(cv=[(np.flatnonzero(y == 1), np.arange(9))]).fit(X, y)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.fit(X, y).score(X, y[:-1])


def test_score_of_no_answer_is_undefined():
    X, y = make_data()
    model = selective(LogisticRegression(), coverage=0.05).fit(X, y)
    unsure = np.zeros((4, 3))
    assert model.coverage_score(unsure) == 0
    with pytest.warns(UndefinedMetricWarning, match="none of 4 samples reaches the"):
        assert np.isnan(model.score(unsure, y[:4]))
    assert set(model.predict(unsure)) == {-1}
