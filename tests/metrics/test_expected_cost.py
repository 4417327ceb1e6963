"""Expected cost: by hand, and its relation to thresholds and net benefit."""

import tracemalloc

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import make_scorer, zero_one_loss
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.naive_bayes import GaussianNB

from sklearn_calib.metrics import expected_cost_loss, net_benefit_score

PROBA = np.array([[0.7, 0.2, 0.1], [0.1, 0.5, 0.4], [0.2, 0.2, 0.6], [0.3, 0.4, 0.3]])
Y_TRUE = np.array(["a", "b", "b", "c"])
COSTS = np.array([[0, 1, 2], [3, 0, 1], [10, 5, 0]])


def test_costs_of_three_classes_by_hand():
    """The decisions are b, c, c and c.

    The expected costs of a, b and c are 1.6, 1.2 and 1.6 for the first sample, then
    5.5, 2.1 and 0.7, then 6.6, 3.2 and 0.6, and 4.2, 1.8 and 1 for the last.
    """
    value = expected_cost_loss(Y_TRUE, PROBA, costs=COSTS)
    assert value == pytest.approx((1 + 1 + 1 + 0) / 4)
    weighted = expected_cost_loss(
        Y_TRUE, PROBA, costs=COSTS, sample_weight=[3, 0, 0, 1]
    )
    assert weighted == pytest.approx(3 / 4)


def test_rows_are_in_the_order_of_labels():
    order = [2, 0, 1]
    value = expected_cost_loss(
        Y_TRUE,
        PROBA[:, order],
        costs=COSTS[order],
        labels=np.array(["a", "b", "c"])[order],
    )
    assert value == expected_cost_loss(Y_TRUE, PROBA, costs=COSTS)


def test_costs_of_one_column_are_those_of_the_negative_and_the_positive_class():
    costs, proba = [[0, 1], [5, 0]], np.array([0.1, 0.3, 0.6, 0.9])
    y_true = np.array(["yes", "yes", "no", "no"])
    value = expected_cost_loss(y_true, proba, costs=costs, pos_label="no")
    assert value == expected_cost_loss(y_true == "no", proba, costs=costs) == 0.25
    columns = np.column_stack([proba, 1 - proba])
    value = expected_cost_loss(y_true, columns, costs=costs, pos_label="no")
    assert value == expected_cost_loss(y_true == "yes", columns, costs=costs)


def test_default_is_the_error_rate():
    predicted = np.array(["a", "b", "c"])[PROBA.argmax(axis=1)]
    expected = zero_one_loss(Y_TRUE, predicted)
    assert expected_cost_loss(Y_TRUE, PROBA) == pytest.approx(expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_default_costs_are_those_of_a_table(dtype):
    rng = np.random.default_rng(0)
    y_true, counts = rng.integers(4, size=200), rng.integers(1, 4, size=(200, 4))
    y_proba = (counts / counts.sum(axis=1, keepdims=True)).astype(dtype)  # with ties
    y_proba[:20] = np.eye(4)[y_true[:20]]
    expected = expected_cost_loss(y_true, y_proba, costs=1 - np.eye(4))
    assert expected_cost_loss(y_true, y_proba) == expected


def test_default_costs_of_many_classes_need_no_table():
    y_proba = np.full((2, 3000), 1 / 3000)
    tracemalloc.start()
    expected_cost_loss([0, 1], y_proba, labels=range(3000))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3000**2


def test_another_decision_than_the_classes():
    """To abstain costs 0.35: the expected cost of the predicted class is lower once."""
    costs = np.column_stack([1 - np.eye(3), np.full(3, 0.35)])
    value = expected_cost_loss(Y_TRUE, PROBA, costs=costs)
    assert value == pytest.approx((0 + 3 * 0.35) / 4)


@pytest.mark.parametrize("threshold", [0.1, 0.25, 0.6])
def test_two_classes_are_decided_by_a_threshold(threshold):
    """The cost is that of scikit-learn's classifier with this threshold."""
    X, y = load_breast_cancer(return_X_y=True)
    costs = np.array([[0, threshold], [1 - threshold, 0]])
    classifier = GaussianNB().fit(X[:300], y[:300])
    fixed = FixedThresholdClassifier(
        classifier, threshold=threshold, response_method="predict_proba"
    ).fit(X[:300], y[:300])
    y_true, predicted = y[300:], fixed.predict(X[300:])
    scorer = make_scorer(
        expected_cost_loss,
        costs=costs,
        response_method="predict_proba",
        greater_is_better=False,
    )
    value = -scorer(classifier, X[300:], y_true)
    assert value == pytest.approx(costs[y_true, predicted].mean())
    y_proba = classifier.predict_proba(X[300:])
    benefit = net_benefit_score(y_true, y_proba, threshold=threshold)
    assert value == pytest.approx((1 - threshold) * (y_true.mean() - benefit))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_first_of_equal_costs_is_decided(dtype):
    """At the threshold 1/10, both decisions have the expected cost 0.9."""
    y_proba = np.full(3, 0.1, dtype)
    for costs, value in [([[0, 1], [9, 0]], 9 / 3), ([[1, 0], [0, 9]], 2 / 3)]:
        loss = expected_cost_loss([0, 0, 1], y_proba, costs=costs)
        assert loss == pytest.approx(value)


def test_calibrated_probabilities_have_the_lowest_cost():
    rng = np.random.default_rng(0)
    y_proba = rng.dirichlet(np.ones(3), size=20_000)
    y_true = (rng.random((20_000, 1)) < y_proba.cumsum(axis=1)).argmax(axis=1)
    truth = expected_cost_loss(y_true, y_proba, costs=COSTS)
    for power in (0.3, 3):
        report = y_proba**power / (y_proba**power).sum(axis=1, keepdims=True)
        assert truth < expected_cost_loss(y_true, report, costs=COSTS) - 0.01


@pytest.mark.parametrize(
    ("costs", "message"),
    [
        (np.eye(2), r"costs must have a row for each of the 3 classes .* \(2, 2\)"),
        ([1, 2, 3], r"costs must have a row .* got an array of shape \(3,\)"),
        (np.empty((3, 0)), r"costs must have a row .* \(3, 0\)"),
        (np.full((3, 3), np.nan), "costs must .*NaN"),
        (np.full((3, 3), np.inf), "costs must .*inf"),
        ([["a"] * 3] * 3, "costs must"),
    ],
)
def test_bad_costs(costs, message):
    with pytest.raises((TypeError, ValueError), match=message):
        expected_cost_loss(Y_TRUE, PROBA, costs=costs)
