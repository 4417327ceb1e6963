"""`estimate_performance`: metrics of probabilities without labels."""

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import (
    accuracy_score,
    brier_score_loss,
    f1_score,
    log_loss,
    make_scorer,
    roc_auc_score,
)

from sklearn_calib.deployment import (
    CalibrationMonitor,
    PriorShiftClassifier,
    estimate_performance,
)
from sklearn_calib.deployment._performance import WAYS_OUT
from sklearn_calib.metrics import expected_cost_loss

RNG = np.random.default_rng(0)
PROBA = RNG.dirichlet([1, 1, 2], size=300)
LABELS = np.array(["rose", "iris", "aster"])
FEW = {"n_resamples": 2, "random_state": 0}


@pytest.mark.parametrize("case", ["binary", "multiclass"])
def test_recorded_estimates(case, reference):
    data = reference("deployment_cbpe")
    (recorded,) = (each for each in data["expected"] if each["id"] == case)
    for metric, value in recorded["values"].items():
        found = estimate_performance(data["inputs"][case], metric=metric, **FEW)
        np.testing.assert_allclose(found.value, value, **data["tolerance"])


def test_means_over_samples_are_expectations():
    """Compared with formulas of their expectations."""
    found = {
        metric: estimate_performance(PROBA, metric=metric, **FEW).value
        for metric in ("accuracy", "neg_log_loss")
    }
    log_p = np.log(PROBA)
    assert found["accuracy"] == pytest.approx(PROBA.max(axis=1).mean())
    assert found["neg_log_loss"] == pytest.approx((PROBA * log_p).sum(axis=1).mean())
    p = PROBA[:, 1]
    brier = estimate_performance(p, metric="neg_brier_score", **FEW).value
    assert brier == pytest.approx(-(p * (1 - p)).mean())


def test_cost():
    costs = np.array([[0, 1, 2], [4, 0, 1], [2, 1, 0]])
    scorer = make_scorer(
        expected_cost_loss,
        response_method="predict_proba",
        greater_is_better=False,
        costs=costs,
        labels=[0, 1, 2],
    )
    found = estimate_performance(PROBA, metric=scorer, **FEW)
    assert found.value == pytest.approx(-(PROBA @ costs).min(axis=1).mean())


def test_confusion_matrix():
    found = estimate_performance(PROBA, **FEW).confusion_matrix
    predicted = PROBA.argmax(axis=1)
    expected = [PROBA[predicted == k].sum(axis=0) for k in range(3)]
    np.testing.assert_allclose(found, np.transpose(expected))
    assert found.trace() / 300 == pytest.approx(PROBA.max(axis=1).mean())


@pytest.mark.parametrize(
    ("name", "metric"),
    [
        ("accuracy", lambda y: np.mean(y == PROBA.argmax(axis=1))),
        ("f1_macro", lambda y: f1_score(y, PROBA.argmax(axis=1), average="macro")),
    ],
)
def test_interval_contains_the_metric_of_calibrated_predictions(name, metric):
    """That of 90 of 100 sets of labels, up to four standard deviations."""
    found = estimate_performance(
        PROBA, metric=name, confidence_level=0.9, n_resamples=100, random_state=0
    )
    low, high = found.interval
    rng = np.random.default_rng(1)
    below = PROBA.cumsum(axis=1)[:, :2]
    sets = [(rng.uniform(size=(300, 1)) > below).sum(axis=1) for _ in range(100)]
    inside = sum(low <= metric(y) <= high for y in sets)
    assert 78 <= inside < 100
    assert low < found.value < high


def test_labels_of_any_kind():
    expected = estimate_performance(PROBA, metric="f1_macro", **FEW)
    frame = pd.DataFrame(PROBA, columns=LABELS)
    cases = {
        "strings": {"y_proba": PROBA, "labels": LABELS},
        "pandas": {"y_proba": frame, "labels": LABELS},
        "list": {"y_proba": PROBA.tolist()},
        "torch": {"y_proba": torch.tensor(PROBA)},
    }
    for case, arguments in cases.items():
        found = estimate_performance(**arguments, metric="f1_macro", **FEW)
        assert found.value == pytest.approx(expected.value), case
        assert found.interval == pytest.approx(expected.interval), case
    p = PROBA[:, 0] + PROBA[:, 1]
    expected = estimate_performance(p, metric="f1", **FEW).value
    for metric in ("f1", make_scorer(f1_score, pos_label="yes")):
        found = estimate_performance(p, metric=metric, labels=["no", "yes"], **FEW)
        assert found.value == expected


def test_single_column_is_the_positive_class():
    p = PROBA[:, 2]
    one = estimate_performance(p, metric="roc_auc", **FEW)
    two = estimate_performance(np.column_stack([1 - p, p]), metric="roc_auc", **FEW)
    assert one.value == two.value
    assert one.interval == two.interval


def test_weights_count_samples():
    weight = np.arange(300) % 3
    repeated = np.repeat(PROBA, weight, axis=0)
    one = estimate_performance(PROBA, metric="f1_macro", sample_weight=weight, **FEW)
    two = estimate_performance(repeated, metric="f1_macro", **FEW)
    assert one.value == pytest.approx(two.value)
    np.testing.assert_allclose(one.confusion_matrix, two.confusion_matrix)


def test_class_that_is_never_expected():
    proba = np.column_stack([PROBA[:, :2], np.zeros(300)])
    proba /= proba.sum(axis=1, keepdims=True)
    found = estimate_performance(proba, metric="accuracy", **FEW)
    two = estimate_performance(proba[:, :2], metric="accuracy", **FEW)
    assert found.value == pytest.approx(two.value)
    np.testing.assert_array_equal(found.confusion_matrix[2], 0)
    certain = estimate_performance(np.eye(2)[[0, 1, 1]], metric="neg_log_loss", **FEW)
    assert certain.value == pytest.approx(0, abs=1e-12)


def score_accuracy(estimator, X, y, **params):
    return np.mean(y == estimator.predict(X))


@pytest.mark.parametrize(
    "accuracy",
    [
        lambda estimator, X, y_true: score_accuracy(estimator, X, y_true),
        score_accuracy,
        make_scorer(lambda y_true, y_pred: np.mean(y_true == y_pred)),
    ],
    ids=["function", "keywords", "make_scorer"],
)
def test_a_scorer_without_weights_is_averaged_over_draws(accuracy):
    found = estimate_performance(
        PROBA, metric=accuracy, n_resamples=100, random_state=0
    )
    assert found.value == pytest.approx(PROBA.max(axis=1).mean(), abs=0.01)
    with pytest.raises(ValueError, match="sample_weight must be None for a scorer wit"):
        estimate_performance(PROBA, metric=accuracy, sample_weight=np.ones(300), **FEW)


def test_adapted_probabilities_of_new_class_frequencies():
    """The estimates are near the metrics of the new labels."""

    def draw(n_samples, prevalence, seed):
        rng = np.random.default_rng(seed)
        y = np.where(rng.uniform(size=n_samples) < prevalence, "ill", "well")
        return rng.normal(size=(n_samples, 2)) + 2 * (y == "ill")[:, None], y

    X, y = draw(3000, 0.5, 0)
    X_new, y_new = draw(6000, 0.1, 1)
    model = PriorShiftClassifier(LogisticRegression(), random_state=0).fit(X, y)
    model.adapt(X_new)
    proba = model.predict_proba(X_new)
    true = {
        "accuracy": accuracy_score(y_new, model.predict(X_new)),
        "neg_log_loss": -log_loss(y_new, proba),
        "neg_brier_score": -brier_score_loss(y_new == "well", proba[:, 1]),
    }
    for metric, value in true.items():
        options = {"labels": model.classes_, **FEW}
        found = estimate_performance(proba, metric=metric, **options)
        assert found.value == pytest.approx(value, abs=0.02), metric


# The monitor


def monitored(factor):
    rng = np.random.default_rng(0)
    monitor = CalibrationMonitor(labels=[0, 1], mode="positive")
    for _ in range(20):
        p = rng.uniform(size=200)
        monitor.update(rng.uniform(size=200) < p**factor, p)
    return monitor


def test_an_alarm_refuses_the_estimate():
    p = PROBA[:, 0]
    expected = estimate_performance(p, **FEW)
    calm = estimate_performance(p, monitor=monitored(1), **FEW)
    assert calm.value == expected.value
    alarmed = monitored(2)
    advice = alarmed.diagnose().advice
    message = f"batch 0 with the advice {advice!r}. {WAYS_OUT[advice]}"
    with pytest.raises(ValueError, match=message):
        estimate_performance(p, monitor=alarmed, **FEW)
    with pytest.raises(NotFittedError):
        estimate_performance(p, monitor=CalibrationMonitor(labels=[0, 1]), **FEW)


def test_a_monitor_of_other_classes():
    match = r"labels must be those of monitor, \[0, 1\], got \['no', 'yes'\]. Pass"
    with pytest.raises(ValueError, match=match):
        estimate_performance(
            PROBA[:, 0], labels=["no", "yes"], monitor=monitored(1), **FEW
        )
    with pytest.raises(ValueError, match=r"\[0, 1\], got \[0, 1, 2\]"):
        estimate_performance(PROBA, monitor=monitored(1), **FEW)
    estimate_performance(PROBA[:, 0], labels=[1, 0], monitor=monitored(1), **FEW)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"metric": "acuracy"},
            "metric must be .* got 'acuracy'. Did you mean 'accuracy",
        ),
        ({"metric": 3}, "'metric' parameter"),
        (
            {"metric": accuracy_score},
            "scorer with the arguments .* got the function .*make_scorer",
        ),
        ({"labels": ["a", "b"]}, "labels must contain 3 distinct labels"),
        ({"labels": ["a", "a", "b"]}, "labels must contain 3 distinct labels"),
        ({"y_proba": PROBA + 1}, r"y_proba must lie in \[0, 1\]"),
        ({"y_proba": PROBA / 2}, "rows that sum to one"),
        ({"monitor": 1}, "'monitor' parameter"),
        ({"sample_weight": -np.ones(300)}, "sample_weight must be non-negative"),
        ({"confidence_level": 95}, "'confidence_level' parameter"),
        ({"n_resamples": 0}, "'n_resamples' parameter"),
        (
            {"y_proba": pd.DataFrame(PROBA, columns=LABELS), "labels": LABELS[::-1]},
            "columns in the order of the labels",
        ),
    ],
)
def test_bad_input(change, message):
    with pytest.raises(ValueError, match=message):
        estimate_performance(**{"y_proba": PROBA, **FEW, **change})


def test_metric_that_is_never_defined():
    with (
        pytest.warns(match="Only one class"),
        pytest.raises(
            ValueError, match=r"metric must be defined .* 'roc_auc', which is"
        ),
    ):
        estimate_performance(np.zeros(5), metric="roc_auc", **FEW)


def test_draws_without_samples_of_a_class():
    """The interval of the log loss includes them, computed by hand."""

    def own_log_loss(y_true, y_proba, sample_weight=None):
        return log_loss(y_true, y_proba, sample_weight=sample_weight)

    proba = np.array([[0.9, 0.09, 0.01], [0.2, 0.7, 0.1], [0.5, 0.1, 0.4]])
    options = {"response_method": "predict_proba", "greater_is_better": False}
    for metric in ("neg_log_loss", make_scorer(own_log_loss, **options)):
        found = estimate_performance(
            proba, metric=metric, n_resamples=30, random_state=0
        )
        expected = (proba * np.log(proba)).sum(axis=1).mean()
        assert found.value == pytest.approx(expected)
        likely = np.log([0.9, 0.7, 0.5]).mean()
        assert found.interval[1] == pytest.approx(likely)
        assert found.interval[0] < np.log([0.9, 0.2, 0.5]).mean()


def test_a_metric_that_refuses_weights_is_averaged_over_draws():
    rng = np.random.default_rng(1)
    found = estimate_performance(
        PROBA, metric="roc_auc_ovo", n_resamples=20, random_state=0
    )
    drawn = [(rng.uniform(size=(300, 1)) > PROBA.cumsum(1)).sum(1) for _ in range(20)]
    values = [roc_auc_score(y, PROBA, multi_class="ovo") for y in drawn]
    assert found.value == pytest.approx(np.mean(values), abs=0.02)
    with pytest.raises(ValueError, match="not supported for multiclass one-vs-one"):
        estimate_performance(
            PROBA, metric="roc_auc_ovo", sample_weight=np.ones(300), **FEW
        )


def test_metrics_of_something_else_than_probabilities():
    with pytest.raises(ValueError, match="which evaluates prediction sets"):
        estimate_performance(PROBA, metric="set_coverage", **FEW)
