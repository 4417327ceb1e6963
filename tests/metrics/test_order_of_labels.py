"""Columns are in the order that a metric assumes, whatever the order of `labels`.

Metrics of this package follow `labels`; those of others assume sorted labels.
"""

import inspect
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss, get_scorer, log_loss, make_scorer

from sklearn_calib import deployment, evaluation, metrics
from sklearn_calib.deployment import (
    estimate_performance,
    label_shift_calibration_error,
)
from sklearn_calib.evaluation import compare
from sklearn_calib.metrics import (
    aurc_loss,
    bootstrap_interval,
    consistency_test,
    difference_test,
    expected_calibration_error,
    expected_cost_loss,
    net_benefit_score,
    per_group,
    worst_group,
)

CLASSES = np.array(["ash", "birch", "cedar"])
Y = CLASSES[np.arange(12) % 3]
PROBA = np.random.default_rng(0).dirichlet(np.ones(3), 12)
GROUPS = np.arange(12) // 6
ORDER = np.array([2, 0, 1])
pytestmark = pytest.mark.filterwarnings("ignore:The (pre|est)")
FEW = {"n_resamples": 2, "random_state": 0}


def own_log_loss(y_true, y_proba, *, labels, sample_weight=None):
    """Return the log loss, as a user's function would."""
    return log_loss(y_true, y_proba, labels=labels, sample_weight=sample_weight)


METRICS = [
    aurc_loss,
    expected_calibration_error,
    log_loss,
    own_log_loss,
]
# Functions of a metric, labels, probabilities, and the labels of their columns.
FUNCTIONS = {
    "bootstrap_interval": lambda metric, y, proba, labels: bootstrap_interval(
        metric, y, proba, labels=labels, **FEW
    ),
    "bootstrap_interval of a partial": lambda metric, y, proba, labels: (
        bootstrap_interval(partial(metric, labels=labels), y, proba, **FEW)
    ),
    "compare": lambda metric, y, proba, labels: compare(
        {"a": proba}, None, y, metrics={"a": metric}, labels=labels, **FEW
    ).to_numpy(),
    "consistency_test": lambda metric, y, proba, labels: (
        # Labels are drawn in the order of the columns.
        consistency_test(metric, y, proba, labels=labels, **FEW).statistic
    ),
    "difference_test": lambda metric, y, proba, labels: difference_test(
        metric, y, proba, proba**2 / (proba**2).sum(axis=1)[:, None],
        labels=labels, **FEW
    ),
    "label_shift_calibration_error": lambda metric, y, proba, labels: (
        label_shift_calibration_error(y, proba, proba, metric=metric, labels=labels)
    ),
    "per_group": lambda metric, y, proba, labels: per_group(
        metric, y, proba, labels=labels, groups=GROUPS, confidence_level=0.9, **FEW
    ).to_numpy(),
    "worst_group": lambda metric, y, proba, labels: worst_group(
        metric, y, proba, labels=labels, groups=GROUPS
    ),
}  # fmt: skip


def test_all_functions_of_a_metric_and_labels_are_held_to_these_laws():
    found = {
        name
        for topic in (deployment, evaluation, metrics)
        for name, thing in vars(topic).items()
        if inspect.isfunction(thing)
        and "labels" in (given := inspect.signature(thing).parameters)
        and ("metric" in given or "metrics" in given)
    }
    names = {name for name in FUNCTIONS if "partial" not in name}
    assert found == {*names, "estimate_performance"}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("metric", METRICS)
def test_columns_and_labels_in_another_order(name, metric):
    function = FUNCTIONS[name]
    expected = function(metric, Y, PROBA, CLASSES)
    assert_allclose(function(metric, Y, PROBA[:, ORDER], CLASSES[ORDER]), expected)


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if "partial" not in name])
def test_two_classes(name):
    """A single column is the probability of the second label, or of `pos_label`."""
    function = FUNCTIONS[name]
    positive = PROBA[:, 0]
    y = np.where(Y == "ash", "yes", "no")
    both = np.c_[1 - positive, positive]
    expected = function(log_loss, y, both, ["no", "yes"])
    assert_allclose(function(log_loss, y, both[:, ::-1], ["yes", "no"]), expected)
    if name == "difference_test":  # of models whose rows sum to one
        return
    expected = function(log_loss, y, positive, ["no", "yes"])
    assert_allclose(function(log_loss, y, 1 - positive, ["yes", "no"]), expected)
    if name != "compare":  # it passes both columns
        metric = partial(brier_score_loss, pos_label="yes")
        expected = function(metric, y, positive, ["no", "yes"])
        assert_allclose(function(metric, y, positive, ["yes", "no"]), expected)


def test_the_positive_class_of_this_package_is_the_second_label():
    y = np.where(Y == "ash", "yes", "no")
    both, labels = np.c_[PROBA[:, 0], 1 - PROBA[:, 0]], ["yes", "no"]
    metric = partial(net_benefit_score, threshold=0.2)
    expected = metric(y, both, labels=labels)
    assert abs(expected - metric(y, both[:, ::-1], labels=labels[::-1])) > 0.1
    table = per_group(metric, y, both, labels=labels, groups=GROUPS)
    assert table.loc["overall", "value"] == expected


def without_labels(y, p):
    return log_loss(y, p)


# Of the others, one has labels in the metric, and one weights.
WITHOUT_LABELS = [
    name for name in FUNCTIONS if "partial" not in name and "label" not in name
]


@pytest.mark.parametrize("name", WITHOUT_LABELS)
def test_a_metric_without_labels(name):
    """It is called with sorted columns only."""
    function = FUNCTIONS[name]
    expected = function(log_loss, Y, PROBA, CLASSES)
    assert_allclose(function(without_labels, Y, PROBA, CLASSES), expected)
    match = r"labels must be sorted .*\['cedar', 'ash', 'birch'\] with 'without_labels"
    unsorted = without_labels, Y, PROBA[:, ORDER], CLASSES[ORDER]
    if name == "compare":
        with pytest.warns(UserWarning, match=match):
            function(*unsorted)
    else:
        with pytest.raises(ValueError, match=match):
            function(*unsorted)


SCORERS = [
    "neg_ece",
    "neg_log_loss",
    "roc_auc_ovr",
    get_scorer("accuracy"),
    get_scorer("neg_ece"),
    get_scorer("neg_log_loss"),
    get_scorer("roc_auc_ovr"),
    make_scorer(expected_calibration_error, response_method="predict_proba"),
    lambda model, X, y, sample_weight=None: log_loss(
        y, model.predict_proba(X), labels=model.classes_, sample_weight=sample_weight
    ),
]


@pytest.mark.parametrize("scorer", SCORERS)
def test_scorers(scorer):
    values = []
    for proba, labels in ((PROBA, CLASSES), (PROBA[:, ORDER], CLASSES[ORDER])):
        options = {"labels": labels, "n_resamples": 0}
        table = compare({"a": proba}, None, Y, metrics={"a": scorer}, **options)
        found = estimate_performance(proba, metric=scorer, labels=labels, **FEW)
        values.append([table.loc["a", ("a", "value")], found.value])
    assert_allclose(values[1], values[0], atol=1e-12)


def test_a_scorer_with_labels_of_its_own():
    """Its other options are in their order."""
    cost = partial(
        expected_cost_loss,
        costs=[[0, 1, 3], [1, 0, 1], [5, 1, 0]],
        labels=CLASSES[ORDER],
    )
    scorer = make_scorer(cost, response_method="predict_proba")
    options = {"metrics": {"cost": scorer}, "labels": CLASSES, "n_resamples": 0}
    table = compare({"a": PROBA}, None, Y, **options)
    expected = cost(Y, PROBA[:, ORDER])
    assert table.loc["a", ("cost", "value")] == pytest.approx(expected)
    found = estimate_performance(PROBA, metric=scorer, labels=CLASSES, **FEW)
    costs = PROBA[:, ORDER] @ cost.keywords["costs"]
    assert found.value == pytest.approx(costs.min(axis=1).mean())


def test_scorers_of_estimated_performance():
    """The confusion matrix keeps the order of `labels`."""
    positive = PROBA[:, 0]
    both = np.c_[positive, 1 - positive]
    expected = estimate_performance(both, metric="roc_auc", **FEW)
    scorer = get_scorer("roc_auc")
    found = estimate_performance(both, metric=scorer, labels=["yes", "no"], **FEW)
    assert found.value == pytest.approx(expected.value)
    assert_allclose(found.confusion_matrix, expected.confusion_matrix)


@pytest.mark.parametrize("scoring", ["neg_ece", "neg_log_loss"])
def test_differences_by_the_name_of_a_scorer(scoring):
    test = FUNCTIONS["difference_test"]
    expected = test(scoring, Y, PROBA, CLASSES)
    assert_allclose(test(scoring, Y, PROBA[:, ORDER], CLASSES[ORDER]), expected)


def test_own_labels_of_a_metric():
    """Its other options are in their order, whatever the order of the columns."""
    cost = partial(
        expected_cost_loss,
        costs=[[0, 1, 3], [1, 0, 1], [5, 1, 0]],
        labels=CLASSES[ORDER],
    )
    expected = cost(Y, PROBA[:, ORDER])
    options = {"labels": CLASSES, "n_resamples": 0}
    table = compare({"a": PROBA}, None, Y, metrics={"cost": cost}, **options)
    assert table.loc["a", ("cost", "value")] == expected
    groups = {"groups": GROUPS, "labels": CLASSES}
    table = per_group(cost, Y, PROBA, **groups)
    assert table.loc["overall", "value"] == expected
    of_groups = partial(worst_group, cost, groups=np.zeros(12))
    found = consistency_test(of_groups, Y, PROBA, labels=CLASSES, **FEW)
    assert found.statistic == expected
    found = consistency_test(of_groups, Y, PROBA[:, ORDER], **FEW)
    assert found.statistic == expected


def test_classifiers_and_arrays_are_compared_in_one_order():
    y = np.where(Y == "ash", "yes", "no")
    X = np.random.default_rng(1).normal(size=(12, 1))
    model = LogisticRegression().fit(X, y)
    proba = model.predict_proba(X)[:, ::-1]
    metric = partial(net_benefit_score, threshold=0.2)
    options = {"metrics": {"nb": metric}, "labels": ["yes", "no"], "n_resamples": 0}
    values = compare({"a": proba, "model": model}, X, y, **options)["nb", "value"]
    assert values["a"] == values["model"] == metric(y, proba, labels=["yes", "no"])
