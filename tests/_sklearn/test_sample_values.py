"""Values of the samples of a mean, in place of calls of the metric for each draw."""

from functools import partial

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, brier_score_loss, log_loss, make_scorer

from sklearn_calib._sklearn import sample_values
from sklearn_calib._sklearn.sample_values import values_of_samples
from sklearn_calib._sklearn.scorer_objects import metric_and_input
from sklearn_calib.deployment import estimate_performance
from sklearn_calib.metrics import bootstrap_interval, difference_test, get_scorer
from sklearn_calib.metrics._draws import take_sample

RNG = np.random.default_rng(0)
PROBA = RNG.dirichlet(np.ones(3), 18)
PROBA[:3] = [1, 0, 0], [0.5, 0.5, 0], [0.5, 0.5, 0]
OTHER = RNG.dirichlet(np.ones(3), 18)
CODES = np.arange(18) % 3
WEIGHT = RNG.uniform(0.1, 2, 18)
NAMES = ["accuracy", "neg_log_loss", "neg_brier_score"]
FEW = {"n_resamples": 4, "random_state": 0}
all_names = pytest.mark.parametrize("name", NAMES)


def mean(metric, y_true, proba, labels=None):
    values = values_of_samples(metric, y_true, proba, labels)
    assert values.shape == y_true.shape
    return np.average(values, weights=WEIGHT)


@all_names
@pytest.mark.parametrize("labels", [[0, 1, 2], [2, 0, 1], ["b", "c", "a"]])
def test_mean_is_the_metric(name, labels):
    labels = np.array(labels)
    metric, proba = metric_and_input(get_scorer(name), PROBA)
    expected = metric(labels[CODES], proba, labels=labels, sample_weight=WEIGHT)
    found = mean(metric, labels[CODES], proba, labels)
    np.testing.assert_allclose(found, expected, rtol=1e-14)


@pytest.mark.parametrize("metric", [log_loss, brier_score_loss])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_probabilities_of_the_positive_class(metric, dtype):
    y_true, proba = CODES == 1, PROBA[:, 0].astype(dtype)
    expected = metric(y_true, proba, sample_weight=WEIGHT)
    np.testing.assert_allclose(mean(metric, y_true, proba), expected, rtol=1e-6)


@pytest.mark.parametrize(
    "metric",
    [
        accuracy_score.__call__,
        partial(log_loss, normalize=False),
        partial(brier_score_loss, scale_by_half=False),
        metric_and_input(get_scorer("balanced_accuracy"), PROBA)[0],
        metric_and_input(lambda *_: 0.5, PROBA)[0],
    ],
)
def test_others_are_no_known_means(metric):
    assert values_of_samples(metric, CODES, PROBA) is None


def test_labels_that_the_metric_refuses_or_not():
    assert values_of_samples(log_loss, np.eye(3)[CODES], PROBA) is None
    assert values_of_samples(log_loss, CODES + 1, PROBA, [0, 1, 2]) is None


def test_all_samples_are_of_the_positive_class():
    data = np.ones(18), PROBA[:, 0]
    low, high = bootstrap_interval(brier_score_loss, *data, **FEW)
    assert low < brier_score_loss(*data) < high


def hidden(metric):
    """Return a metric that is not known to be a mean."""

    def compute(y_true, y_proba, *, labels=None, sample_weight=None):
        return metric(y_true, y_proba, labels=labels, sample_weight=sample_weight)

    return compute


def test_other_labels_have_other_values():
    sample = take_sample(log_loss, CODES, PROBA, None, None, stratify=False)
    other = CODES[::-1]
    assert sample.with_values().measure(y_true=other) == log_loss(other, PROBA)


def test_draws_in_single_precision_that_equal_the_sample():
    """All swapped pairs are equal to it, or have the other sign."""
    y_true, a = np.arange(18) % 2, PROBA[:, 0].astype("float32")
    b = a.copy()
    b[3] = 0.3
    for metric in (log_loss, brier_score_loss):
        assert difference_test(metric, y_true, a, b, **FEW).pvalue == 1


@all_names
def test_intervals_and_tests_of_means(name):
    """As if the metric was called for each draw."""
    metric, proba = metric_and_input(get_scorer(name), PROBA)
    data = {"labels": np.arange(3), "sample_weight": WEIGHT}
    for procedure, probas in [
        (bootstrap_interval, [proba]),
        (difference_test, [proba, OTHER]),
    ]:
        found, expected = (
            procedure(each, CODES, *probas, **data, **FEW)
            for each in (metric, hidden(metric))
        )
        np.testing.assert_allclose(found, expected, rtol=1e-12)


@all_names
@pytest.mark.parametrize("is_weighted", [False, True])
def test_estimates_of_means(name, is_weighted):
    scorer, weight = get_scorer(name), WEIGHT if is_weighted else None

    def other(estimator, X, y, sample_weight=None):
        return scorer(estimator, X, y, sample_weight=sample_weight)

    found, expected = (
        estimate_performance(PROBA, metric=metric, sample_weight=weight, **FEW)
        for metric in (name, other)
    )
    np.testing.assert_allclose(found.interval, expected.interval, rtol=1e-12)
    assert found.value == expected.value


def test_a_metric_that_computes_something_else_is_called(monkeypatch):
    """As another version of scikit-learn may."""
    estimate = partial(estimate_performance, PROBA, metric="neg_log_loss", **FEW)
    interval = partial(bootstrap_interval, log_loss, CODES, PROBA, **FEW)
    expected = estimate().interval, interval()
    squares = sample_values.MEANS[brier_score_loss]
    monkeypatch.setitem(sample_values.MEANS, log_loss, squares)
    np.testing.assert_allclose((estimate().interval, interval()), expected)


def test_a_metric_is_called_a_few_times(monkeypatch):
    calls = []

    def counted(y_true, y_proba, *, sample_weight=None):
        calls.append(sample_weight)
        return brier_score_loss(y_true, y_proba, sample_weight=sample_weight)

    squares = sample_values.MEANS[brier_score_loss]
    monkeypatch.setitem(sample_values.MEANS, counted, squares)
    bootstrap_interval(counted, CODES, PROBA, **FEW)
    difference_test(counted, CODES, PROBA, OTHER, **FEW)
    scorer = make_scorer(counted, response_method="predict_proba")
    estimate_performance(PROBA, metric=scorer, **FEW)
    assert len(calls) < 10
