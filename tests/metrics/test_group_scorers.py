"""Scorers of groups, which receive the groups by metadata routing."""

import pickle
from copy import deepcopy
from functools import partial

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.metrics import make_scorer
from sklearn.model_selection import GridSearchCV, KFold, cross_validate
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_calib.evaluation import compare
from sklearn_calib.metrics import (
    expected_calibration_error,
    get_scorer,
    multicalibration_error,
    worst_group,
)

METRICS = {
    "neg_multicalibration_error": multicalibration_error,
    "neg_worst_group_debiased_ece": partial(
        worst_group, expected_calibration_error, mode="top_label", reduce_bias=True
    ),
}
all_scorers = pytest.mark.parametrize("name", METRICS)


@pytest.fixture(scope="module", params=[2, 3])
def problem(request):
    """Return data whose labels are strings, and groups with two columns."""
    X, codes = make_classification(
        n_samples=150,
        n_informative=5,
        n_classes=request.param,
        flip_y=0.3,
        random_state=0,
    )
    names = ["place", "age"]
    groups = pd.DataFrame(np.sign(X[:, :2]).astype(int), columns=names)
    return X, np.array(["pear", "apple", "plum"])[codes], groups


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def expected_score(name, classifier, X, y, groups, **options):
    """Return the score from the metric; of two classes, the second one counts."""
    proba, labels = classifier.predict_proba(X), classifier.classes_
    if len(labels) == 2:
        proba = proba[:, 1]
    return -METRICS[name](y, proba, labels=labels, groups=groups, **options)


@pytest.mark.usefixtures("routing")
@all_scorers
def test_is_the_metric_with_its_sign(name, problem):
    X, y, groups = problem
    classifier = GaussianNB().fit(X, y)
    scorer = get_scorer(name)
    expected = expected_score(name, classifier, X, y, groups)
    assert scorer(classifier, X, y, groups=groups) == expected < 0
    weight = np.arange(len(y)) % 3
    options = {"groups": groups, "sample_weight": weight}
    expected = expected_score(name, classifier, X, y, **options)
    assert scorer(classifier, X, y, **options) == expected
    seen = y != "apple"
    expected = expected_score(name, classifier, X[seen], y[seen], groups[seen])
    assert scorer(classifier, X[seen], y[seen], groups=groups[seen]) == expected
    copy = clone(deepcopy(pickle.loads(pickle.dumps(scorer))), safe=False)
    assert copy(classifier, X[seen], y[seen], groups=groups[seen]) == expected
    assert repr(scorer).startswith("make_scorer(")


@pytest.mark.usefixtures("routing")
@all_scorers
@pytest.mark.parametrize("kind", ["frame", "array", "list"])
def test_cross_validate(name, kind, problem):
    """The groups of the test samples reach the scorer, without any request."""
    X, y, groups = problem
    given = {"frame": groups, "array": groups.to_numpy(), "list": list(groups["age"])}
    result = cross_validate(
        GaussianNB(),
        X,
        y,
        cv=KFold(2),
        scoring=[name, "neg_log_loss"],
        params={"groups": given[kind]},
        error_score="raise",
        return_estimator=True,
        return_indices=True,
    )
    folds = zip(result["estimator"], result["indices"]["test"], strict=True)
    part = groups[["age"]] if kind == "list" else groups
    expected = [
        expected_score(name, fitted, X[test], y[test], part.iloc[test])
        for fitted, test in folds
    ]
    assert result[f"test_{name}"] == pytest.approx(expected)


@pytest.mark.usefixtures("routing")
@all_scorers
def test_search(name, problem):
    X, y, groups = problem
    pipeline = make_pipeline(StandardScaler(), GaussianNB())
    grid = {"gaussiannb__var_smoothing": [1e-9, 1]}
    search = GridSearchCV(pipeline, grid, scoring=name, error_score="raise", cv=2)
    search.fit(X, y, groups=groups)
    scores = [
        cross_validate(
            clone(pipeline).set_params(**params),
            X,
            y,
            scoring=name,
            cv=2,
            params={"groups": groups},
        )["test_score"].mean()
        for params in search.cv_results_["params"]
    ]
    assert search.cv_results_["mean_test_score"] == pytest.approx(scores)
    assert search.best_index_ == np.argmax(scores)
    assert search.score(X, y, groups=groups) == get_scorer(name)(
        search.best_estimator_, X, y, groups=groups
    )


@pytest.mark.usefixtures("routing")
@all_scorers
def test_requests(name, problem):
    """Weights may be requested too, or the groups under another name."""
    X, y, groups = problem
    weight = np.arange(len(y)) % 3
    model = GaussianNB().set_fit_request(sample_weight=True)

    def scores(groups_as, **requests):
        scorer = get_scorer(name).set_score_request(sample_weight=True, **requests)
        params = {"sample_weight": weight, groups_as: groups}
        return cross_validate(model, X, y, scoring=scorer, params=params, cv=2)[
            "test_score"
        ]

    expected = scores("groups", groups=True)
    assert scores("groups") == pytest.approx(expected)
    assert scores("place", groups="place") == pytest.approx(expected)


@all_scorers
@pytest.mark.parametrize("is_enabled", [False, True])
def test_without_groups(name, is_enabled, problem):
    X, y, _ = problem
    with (
        sklearn.config_context(enable_metadata_routing=is_enabled),
        pytest.raises(
            ValueError,
            match=r"groups must be .* got none\. .*enable_metadata_routing=True",
        ),
    ):
        cross_validate(GaussianNB(), X, y, scoring=name, error_score="raise")


@all_scorers
def test_compare_needs_a_scorer_with_groups(name, problem):
    X, y, groups = (each[:60] for each in problem)
    models = {"one": GaussianNB().fit(X, y)}
    with pytest.raises(TypeError, match=r"groups must be given: .*_(error|group) "):
        compare(models, X, y, metrics=[name])
    options = {"response_method": "predict_proba", "greater_is_better": False}
    scorer = make_scorer(multicalibration_error, groups=groups, **options)
    draws = {"n_resamples": 4, "random_state": 0}
    table = compare(models, X, y, metrics={"error": scorer}, **draws)["error"]
    expected = expected_score("neg_multicalibration_error", models["one"], X, y, groups)
    assert table["value"].item() == pytest.approx(-expected)
    assert table["low"].item() < -expected < table["high"].item()
