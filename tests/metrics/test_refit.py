"""The refit rule of a search."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import scale

from sklearn_calib.metrics import get_scorer, lowest_error_within_one_se

RULE = lowest_error_within_one_se("neg_ece", guard="neg_log_loss")


def results(ece, guard, std, n_splits=4):
    """Return the results of a search, including columns that the rule does not use."""
    columns = {
        "mean_test_neg_ece": np.array(ece, dtype=float),
        "mean_test_neg_log_loss": np.array(guard, dtype=float),
        "std_test_neg_log_loss": np.array(std, dtype=float),
        "mean_train_neg_ece": np.zeros(len(ece)),
        "params": [{}] * len(ece),
    }
    for split in range(n_splits):
        for name in ("neg_ece", "neg_log_loss"):
            columns[f"split{split}_test_{name}"] = np.zeros(len(ece))
    return columns


@pytest.mark.parametrize(
    ("ece", "guard", "std", "expected"),
    [
        # The best guard is -0.30 with the standard error 0.2 / sqrt(4) = 0.1, so that
        # the second passes on the edge, and the third, the lowest ECE, does not.
        ([-0.05, -0.02, -0.01], [-0.30, -0.40, -0.41], [0.2, 9, 9], 1),
        # No spread: only the best guard passes.
        ([-0.05, -0.02, -0.01], [-0.30, -0.40, -0.41], [0, 9, 9], 0),
        # Failed candidates are ignored, both for the best guard and the best score.
        ([-0.05, np.nan, -0.01], [-0.30, -0.10, np.nan], [0.2, 9, 9], 0),
        ([-0.05, -0.02, -0.01], [-np.inf, -0.40, -0.41], [9, 0.2, 9], 2),
        # The first of equal candidates is selected.
        ([-0.02, -0.02, -0.02], [-0.35, -0.30, -0.35], [0.2, 0.2, 0.2], 0),
    ],
)
def test_choice(ece, guard, std, expected):
    choice = RULE(results(ece, guard, std))
    assert choice == expected
    assert type(choice) is int


def test_all_candidates_failed():
    with pytest.raises(
        ValueError, match=r"finite neg_ece and neg_log_loss, got none of 2"
    ):
        RULE(results([np.nan, np.nan], [-0.3, -0.3], [0.1, 0.1]))


@pytest.mark.parametrize("name", ["neg_ece", "neg_log_loss"])
def test_scorer_that_was_not_measured(name):
    columns = results([-0.05], [-0.3], [0.1])
    columns["mean_test_score"] = columns.pop(f"mean_test_{name}")
    with pytest.raises(
        ValueError, match=f"scoring must contain '{name}'.* got .*'score'"
    ):
        RULE(columns)


def test_scorers_go_by_their_names():
    with pytest.raises(
        ValueError, match=r"'score' parameter .* must be an instance of"
    ):
        lowest_error_within_one_se(len, guard="neg_log_loss")
    with pytest.raises(ValueError, match="'guard' parameter"):
        lowest_error_within_one_se("neg_ece", guard=None)


def test_misspelt_scorer():
    rule = lowest_error_within_one_se("neg_ecee", guard="neg_log_loss")
    with pytest.raises(ValueError, match=r"Did you mean 'neg_ece'\?"):
        rule(results([-0.05], [-0.3], [0.1]))


def test_in_a_search():
    X, y = load_iris(return_X_y=True)
    X = scale(X)
    scoring = {name: get_scorer(name) for name in ("neg_ece", "neg_log_loss")}
    grid = {"C": [1e-4, 1e-2, 1.0]}
    search = GridSearchCV(LogisticRegression(), grid, scoring=scoring, refit=RULE, cv=3)
    search = pickle.loads(pickle.dumps(clone(search))).fit(X, y)
    assert search.best_index_ == RULE(search.cv_results_)
    guard = search.cv_results_["mean_test_neg_log_loss"]
    assert guard[search.best_index_] > guard[0]
    assert search.predict(X).shape == y.shape


def test_repr():
    assert repr(RULE) == "lowest_error_within_one_se('neg_ece', guard='neg_log_loss')"
