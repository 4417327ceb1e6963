"""Metrics of prediction sets: values by hand, input, and scorers."""

import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.naive_bayes import GaussianNB

from sklearn_calib import PredictionSetClassifier
from sklearn_calib.metrics import (
    bootstrap_interval,
    class_coverage_error,
    get_scorer,
    get_scorer_names,
    mean_set_size_loss,
    per_group,
    set_coverage_score,
    size_stratified_coverage_error,
    worst_group,
)

Y_TRUE = np.array(["ant", "ant", "bee", "bee", "cat", "cat"])
Y_SET = np.array(
    [[1, 0, 0], [1, 1, 0], [1, 0, 0], [0, 1, 1], [0, 0, 0], [1, 1, 1]], dtype=bool
)
# Classes have the coverages 1, 1/2 and 1/2; sizes 0 and 1 have 1/3, and 2 and 3 have 1.
METRICS = {
    set_coverage_score: 4 / 6,
    mean_set_size_loss: 9 / 6,
    class_coverage_error: (0.1 + 0.4 + 0.4) / 3,
    size_stratified_coverage_error: 0.9 - 1 / 3,
}
# Without the class "cat".
WITHOUT_CAT = {
    set_coverage_score: 3 / 4,
    mean_set_size_loss: 6 / 4,
    class_coverage_error: (0.1 + 0.4) / 2,
    size_stratified_coverage_error: 0.9 - 1 / 2,
}
every_metric = pytest.mark.parametrize("metric", METRICS)


@every_metric
@pytest.mark.parametrize(
    "convert",
    [
        np.asarray,
        lambda y_set: y_set.astype(int),
        lambda y_set: y_set.astype(np.float32),
        lambda y_set: y_set.tolist(),
        lambda y_set: pd.DataFrame(y_set, columns=["ant", "bee", "cat"]),
        torch.as_tensor,
    ],
)
def test_values_by_hand(metric, convert):
    value = metric(Y_TRUE, convert(Y_SET))
    assert type(value) is float
    assert value == pytest.approx(METRICS[metric], rel=1e-12)


@every_metric
def test_labels_in_another_order_and_absent_classes(metric):
    order = [2, 0, 1]
    labels = np.array(["ant", "bee", "cat"])[order]
    permuted = metric(Y_TRUE, Y_SET[:, order], labels=labels)
    assert permuted == pytest.approx(METRICS[metric])
    some = Y_TRUE != "cat"
    value = metric(Y_TRUE[some], Y_SET[some], labels=["ant", "bee", "cat"])
    assert value == pytest.approx(WITHOUT_CAT[metric])
    with pytest.raises(ValueError, match="Pass labels="):
        metric(Y_TRUE[some], Y_SET[some])


@every_metric
def test_weights_are_repetitions(metric):
    weight = np.array([0, 3, 1, 2, 1, 0])
    expected = metric(Y_TRUE.repeat(weight), Y_SET.repeat(weight, axis=0))
    assert metric(Y_TRUE, Y_SET, sample_weight=weight) == pytest.approx(expected)


def test_errors_by_the_definition():
    """Formulas of the papers, with loops over the classes and the authors' strata."""
    rng = np.random.default_rng(0)
    y = rng.integers(12, size=500)
    y_set = rng.uniform(size=(500, 12)) < rng.uniform(size=(500, 1))
    is_in, size = y_set[np.arange(500), y], y_set.sum(axis=1)
    weight = rng.exponential(size=500)
    strata = [(0, 1), (2, 3), (4, 6), (7, 10), (11, 100), (101, 1000)]

    def error(is_of_group):
        return abs(np.average(is_in[is_of_group], weights=weight[is_of_group]) - 0.6)

    options = {"confidence_level": 0.6, "sample_weight": weight}
    by_class = [error(y == k) for k in range(12)]
    found = class_coverage_error(y, y_set, **options)
    assert found == pytest.approx(np.mean(by_class), rel=1e-12)
    by_size = [error((size >= low) & (size <= high)) for low, high in strata[:5]]
    found = size_stratified_coverage_error(y, y_set, **options)
    assert found == pytest.approx(max(by_size), rel=1e-12)
    by_size = [error(size <= 4), error(size > 4)]
    found = size_stratified_coverage_error(y, y_set, size_limits=[4], **options)
    assert found == pytest.approx(max(by_size), rel=1e-12)


def test_groups_and_classes():
    table = per_group(set_coverage_score, Y_TRUE, Y_SET, groups=Y_TRUE)
    assert table["value"].tolist() == pytest.approx([1, 1 / 2, 1 / 2, 4 / 6])
    sizes = per_group(mean_set_size_loss, Y_TRUE, Y_SET, groups=[0, 0, 0, 1, 1, 1])
    assert sizes["value"].tolist() == pytest.approx([4 / 3, 5 / 3, 9 / 6])
    options = {"groups": Y_TRUE, "greater_is_better": True}
    assert worst_group(set_coverage_score, Y_TRUE, Y_SET, **options) == 0.5
    low, high = bootstrap_interval(
        *(set_coverage_score, Y_TRUE.repeat(20), Y_SET.repeat(20, axis=0)),
        n_resamples=100,
        random_state=0,
    )
    assert 0.5 < low < 4 / 6 < high < 0.8


@every_metric
@pytest.mark.parametrize(
    ("y_set", "message"),
    [
        (
            Y_SET * 0.5,
            r"as 0 or 1, .* got an array of shape \(6, 3\) with values .*0.5",
        ),
        (Y_SET[:, 0], r"\(n_samples, n_classes\), got an array of shape \(6,\)"),
        (Y_SET[:, :1], r"got an array of shape \(6, 1\)"),
        (Y_SET[:0], r"got an array of shape \(0, 3\)"),
        (Y_SET[:5], "one label for each row of y_set, got 6 labels and 5 rows"),
        (Y_SET[:, :2], "y_true must contain 2 distinct labels"),
        (
            pd.DataFrame(Y_SET, columns=["bee", "ant", "cat"]),
            "y_set must have its columns in the order of the labels",
        ),
    ],
)
def test_bad_sets(metric, y_set, message):
    with pytest.raises(ValueError, match=message):
        metric(Y_TRUE, y_set)


@pytest.mark.parametrize("limits", [["a"], [[1, 2]], [1, np.nan]])
def test_bad_size_limits(limits):
    with pytest.raises(ValueError, match=r"size_limits must contain .*got"):
        size_stratified_coverage_error(Y_TRUE, Y_SET, size_limits=limits)


SCORERS = {
    "neg_class_coverage_error": class_coverage_error,
    "neg_mean_set_size": mean_set_size_loss,
    "neg_size_stratified_coverage_error": size_stratified_coverage_error,
    "set_coverage": set_coverage_score,
}
all_scorers = pytest.mark.parametrize("name", SCORERS)


@pytest.fixture(scope="module")
def problem():
    """Return a fitted classifier with sets, and data whose labels are strings."""
    rng = np.random.default_rng(0)
    codes = rng.integers(3, size=200)
    X = 2 * np.eye(3)[codes] + rng.normal(size=(200, 3))
    y = np.array(["pear", "apple", "plum"])[codes]
    model = PredictionSetClassifier(GaussianNB(), confidence_level=0.8, cv=2)
    return model.fit(X[:100], y[:100]), X[100:], y[100:]


def test_no_scorer_is_left_out():
    assert [*SCORERS] == [n for n in get_scorer_names() if get_scorer(n).needs_sets]


@all_scorers
def test_is_the_metric_with_its_sign(name, problem):
    model, X, y = problem
    metric, sign = SCORERS[name], -1 if name.startswith("neg_") else 1
    for rows in (slice(None), y != "plum"):
        sets = model.predict_set(X[rows])
        expected = sign * metric(y[rows], sets, labels=model.classes_)
        assert get_scorer(name)(model, X[rows], y[rows]) == pytest.approx(expected)
    scorer, weight = pickle.loads(pickle.dumps(get_scorer(name))), np.arange(100) % 3
    repeated = scorer(model, X.repeat(weight, axis=0), y.repeat(weight))
    assert scorer(model, X, y, sample_weight=weight) == pytest.approx(repeated)


def test_scorers_in_searches(problem):
    model, X, y = problem
    results = cross_validate(model, X, y, cv=3, scoring=[*SCORERS], error_score="raise")
    assert (results["test_set_coverage"] > 0.6).all()
    assert (results["test_neg_mean_set_size"] < -0.7).all()
    grid = {"conformity_score": ["aps", "lac"], "random_state": [0]}
    search = GridSearchCV(model, grid, cv=3, scoring="neg_mean_set_size").fit(X, y)
    assert search.best_params_["conformity_score"] == "lac"


def test_a_classifier_without_sets(problem):
    _, X, y = problem
    with pytest.raises(AttributeError, match="predict_set"):
        get_scorer("set_coverage")(LogisticRegression().fit(X, y), X, y)
