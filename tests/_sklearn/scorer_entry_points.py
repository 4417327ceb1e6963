"""Run every entry point of scikit-learn with the name of a scorer of ours.

It writes a dict of what failed, by entry point, to a file of JSON. test_scorer_names.py
runs it in processes with scikit-learn's modules or sklearn_calib imported first.
"""

import json
import traceback
import warnings
from pathlib import Path

import numpy as np
from joblib import parallel_config
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.experimental import enable_halving_search_cv
from sklearn.feature_selection import RFECV, SequentialFeatureSelector
from sklearn.inspection import permutation_importance
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.metrics import check_scoring, get_scorer, get_scorer_names
from sklearn.model_selection import (
    GridSearchCV,
    HalvingGridSearchCV,
    HalvingRandomSearchCV,
    RandomizedSearchCV,
    ShuffleSplit,
    cross_val_score,
    cross_validate,
    learning_curve,
    permutation_test_score,
    validation_curve,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_calib.metrics import (
    expected_calibration_error,
    get_scorer_names as get_names,
    lowest_error_within_one_se,
)

# Warnings of scikit-learn where a score cannot be computed.
warnings.simplefilter("error", UserWarning)
warnings.simplefilter("error", RuntimeWarning)

assert enable_halving_search_cv
# Those of groups need metadata, and those of sets another classifier.
NAMES = [
    name
    for name in get_names()
    if not (get_scorer(name).needs_groups or get_scorer(name).needs_sets)
]
X, CODES = make_classification(
    n_samples=120, n_features=5, n_informative=4, n_redundant=0, n_classes=3,
    random_state=0,
)  # fmt: skip
Y = np.array(["ash", "birch", "cedar"])[CODES]
GRID = {"var_smoothing": [1e-9, 1e-1, 1.0]}
SPLIT = ShuffleSplit(1, test_size=0.5, random_state=0)


def scores_are_errors(scores, sign=-1):
    scores = sign * np.asarray(scores)
    assert np.isfinite(scores).all()
    assert (scores >= -1e-12).all()
    assert (scores <= 1).all()


def scores_suit_the_name(scores, name):
    if name == "neg_variational_calibration":  # an estimate on held-out samples
        scores = np.minimum(scores, 0)
    scores_are_errors(scores, sign=-1 if name.startswith("neg_") else 1)


def run_get_scorer():
    assert set(NAMES) <= set(get_scorer_names())
    fitted = GaussianNB().fit(X, Y)
    for name in NAMES:
        scores_suit_the_name(get_scorer(name)(fitted, X, Y), name)


def run_check_scoring():
    scorer = check_scoring(GaussianNB(), scoring="neg_ece")
    scores_are_errors(scorer(GaussianNB().fit(X, Y), X, Y))
    scorer = check_scoring(GaussianNB(), scoring=NAMES)
    for name, score in scorer(GaussianNB().fit(X, Y), X, Y).items():
        scores_suit_the_name(score, name)


def run_cross_val_score():
    for name in NAMES:
        scores = cross_val_score(GaussianNB(), X, Y, scoring=name, cv=SPLIT)
        scores_suit_the_name(scores, name)


def run_cross_validate():
    scoring = [*NAMES, "neg_log_loss"]
    results = cross_validate(GaussianNB(), X, Y, scoring=scoring, cv=SPLIT)
    for name in NAMES:
        scores_suit_the_name(results[f"test_{name}"], name)


def run_grid_search():
    search = GridSearchCV(GaussianNB(), GRID, scoring="neg_ece", n_jobs=2, cv=2)
    with parallel_config("threading"):
        search.fit(X, Y)
    scores_are_errors(search.cv_results_["mean_test_score"])
    scores_are_errors(search.score(X, Y))


def run_grid_search_over_several():
    rule = lowest_error_within_one_se("neg_ece", guard="neg_log_loss")
    pipe = make_pipeline(StandardScaler(), GaussianNB())
    grid = {f"gaussiannb__{name}": values for name, values in GRID.items()}
    scoring = ["neg_ece", "neg_log_loss"]
    search = GridSearchCV(pipe, grid, scoring=scoring, refit=rule, cv=2)
    assert search.fit(X, Y).best_index_ in range(3)


def run_randomized_search():
    options = {"n_iter": 2, "scoring": "neg_aurc", "cv": SPLIT}
    search = RandomizedSearchCV(GaussianNB(), GRID, **options)
    scores_are_errors(search.fit(X, Y).best_score_)


def run_halving_grid_search():
    search = HalvingGridSearchCV(GaussianNB(), GRID, scoring="neg_classwise_ece", cv=3)
    scores_are_errors(search.fit(X, Y).best_score_)


def run_halving_random_search():
    search = HalvingRandomSearchCV(
        GaussianNB(), GRID, n_candidates=3, scoring="neg_mce", cv=3, random_state=0
    )
    scores_are_errors(search.fit(X, Y).best_score_)


def run_learning_curve():
    _, train, test = learning_curve(
        GaussianNB(), X, Y, cv=SPLIT, scoring="neg_ece", train_sizes=[0.5, 1.0]
    )
    scores_are_errors([train, test])


def run_validation_curve():
    scores = validation_curve(
        GaussianNB(), X, Y, param_name="var_smoothing", param_range=[1e-9, 1.0],
        scoring="neg_adaptive_ece", cv=SPLIT,
    )  # fmt: skip
    scores_are_errors(scores)


def run_permutation_importance():
    fitted = GaussianNB().fit(X, Y)
    result = permutation_importance(fitted, X, Y, scoring="neg_ece", n_repeats=2)
    assert np.isfinite(result.importances_mean).all()
    both = permutation_importance(
        fitted, X, Y, scoring=["neg_ece", "neg_aurc"], n_repeats=1
    )
    assert set(both) == {"neg_ece", "neg_aurc"}


def run_permutation_test_score():
    score, others, _ = permutation_test_score(
        GaussianNB(), X, Y, cv=SPLIT, scoring="neg_aurc", n_permutations=5,
        random_state=0,
    )  # fmt: skip
    scores_are_errors([score, *others])
    assert score > others.max()


def run_logistic_regression_cv():
    """scikit-learn rebuilds this scorer from its parts, with other labels."""
    for labels in (["ash", "birch", "cedar"], ["ash", "birch"]):
        rows = np.isin(Y, labels)
        model = LogisticRegressionCV(Cs=2, cv=2, scoring="neg_ece", max_iter=1000)
        score = model.fit(X[rows], Y[rows]).score(X[rows], Y[rows])
        scores_are_errors(
            [*model.scores_.values()]
            if isinstance(model.scores_, dict)
            else model.scores_
        )
        error = expected_calibration_error(Y[rows], model.predict_proba(X[rows]))
        assert score == -error


def run_sequential_feature_selector():
    selector = SequentialFeatureSelector(
        GaussianNB(), n_features_to_select=2, scoring="neg_ece", cv=SPLIT
    )
    assert selector.fit(X, Y).get_support().sum() == 2


def run_rfecv():
    selector = RFECV(LogisticRegression(), scoring="neg_aurc", cv=SPLIT).fit(X, Y)
    scores_are_errors(selector.cv_results_["mean_test_score"])


def run_hist_gradient_boosting():
    model = HistGradientBoostingClassifier(
        max_iter=5, early_stopping=True, scoring="neg_ece", random_state=0
    )
    scores_are_errors(model.fit(X, Y).validation_score_)


def main(path):
    failures = {}
    for entry_point, run in list(globals().items()):
        if not entry_point.startswith("run_"):
            continue
        try:
            run()
        except Exception:
            failures[entry_point] = traceback.format_exc()
        else:
            failures[entry_point] = ""
    Path(path).write_text(json.dumps(failures), "utf-8")


if "ARGUMENTS" in globals():
    main(*ARGUMENTS)  # noqa: F821 - given by the test
