"""The reference: held-out labels that correct estimates, and their intervals."""

from functools import cache

import numpy as np
import pytest
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, log_loss, roc_auc_score

from sklearn_calib import CalibratedClassifier
from sklearn_calib.deployment import (
    PriorShiftClassifier,
    adjust_priors,
    estimate_performance,
    estimate_priors,
)

FEW = {"n_resamples": 2, "random_state": 0}
DRAWS = {"n_resamples": 39, "random_state": 0}
TRAIN, NEW = np.array([0.5, 0.5]), np.array([0.8, 0.2])


def draw(n_samples, priors=TRAIN, seed=0, power=2.0):
    """Return labels, and probabilities for TRAIN that are overconfident."""
    rng = np.random.default_rng(seed)
    y = (rng.uniform(size=n_samples) < priors[1]).astype(int)
    logit = rng.normal(size=n_samples) * 2 + 4 * (y - 0.5)
    p = 1 / (1 + np.exp(-power * logit - 0.3))
    return y, np.column_stack([1 - p, p])


Y_REF, REF = draw(400, seed=1)
Y, PROBA = draw(300, seed=2)
REFERENCE = Y_REF, REF


def f1_of_all_labels(proba):
    labels = np.repeat([0, 1], len(proba))
    predicted = np.tile(proba.argmax(axis=1), 2)
    return f1_score(labels, predicted, sample_weight=proba.T.ravel())


def auroc_of_all_labels(proba):
    labels, scores = np.repeat([0, 1], len(proba)), np.tile(proba[:, 1], 2)
    return roc_auc_score(labels, scores, sample_weight=proba.T.ravel())


BY_HAND = {
    "accuracy": (
        lambda proba: proba.max(axis=1).mean(),
        lambda y, proba: np.mean(y == proba.argmax(axis=1)),
    ),
    "neg_log_loss": (
        lambda proba: (proba * np.log(proba)).sum(axis=1).mean(),
        lambda y, proba: -log_loss(y, proba),
    ),
    "f1": (f1_of_all_labels, lambda y, proba: f1_score(y, proba.argmax(axis=1))),
    "roc_auc": (
        auroc_of_all_labels,
        lambda y, proba: roc_auc_score(y, proba[:, 1]),
    ),
}


@pytest.mark.parametrize("metric", BY_HAND)
def test_value_is_the_expectation_plus_the_error_of_the_reference(metric):
    expected, metric_of = BY_HAND[metric]
    found = estimate_performance(PROBA, metric=metric, reference=REFERENCE, **FEW)
    value = expected(PROBA) + metric_of(Y_REF, REF) - expected(REF)
    assert found.value == pytest.approx(value)
    assert found.interval_covers == "sampling and calibration error"
    plain = estimate_performance(PROBA, metric=metric, **FEW)
    assert plain.interval_covers == "sampling error only"
    np.testing.assert_array_equal(found.confusion_matrix, plain.confusion_matrix)


@pytest.mark.parametrize("metric", BY_HAND)
def test_value_after_a_prior_shift(metric):
    """It is near that of the labels; without the priors, it is not."""
    y, proba = draw(10_000, NEW, seed=3)
    y_ref, ref = draw(10_000, seed=4)
    adapted = adjust_priors(proba, TRAIN, [0.7, 0.3])
    reference = y_ref, adjust_priors(ref, TRAIN, [0.7, 0.3])
    true = BY_HAND[metric][1](y, adapted)
    found = [
        estimate_performance(
            adapted, metric=metric, reference=reference, priors=priors, **FEW
        ).value
        for priors in ([0.7, 0.3], None)
    ]
    assert abs(found[0] - true) < 0.015
    if metric == "f1":
        assert abs(found[1] - true) > 0.03


def test_interval_of_a_mean_is_near_the_normal_one():
    gap = (REF.argmax(axis=1) == Y_REF) - REF.max(axis=1)
    spread = gap.std() * np.sqrt(1 / 300 + 1 / 400)
    options = {"reference": REFERENCE, "n_resamples": 1000, "random_state": 0}
    value, interval, *_ = estimate_performance(PROBA, **options)
    normal = value + np.array([-1.96, 1.96]) * spread
    np.testing.assert_allclose(interval, normal, atol=0.25 * spread)


@pytest.mark.slow
def test_intervals_cover_for_probabilities_that_are_not_calibrated():
    """At least 89 % of 120, and those without a reference fewer than 70 %."""
    rates = {"performance": [], "priors": []}
    for seed in range(120):
        y, proba = draw(200, NEW, seed=10 + seed)
        reference = draw(300, seed=1000 + seed)
        rows = {"performance": [], "priors": []}
        for given in ({"reference": reference, "priors": TRAIN}, {}):
            ends = estimate_performance(proba, **given, **DRAWS).interval
            accuracy = np.mean(y == proba.argmax(axis=1))
            rows["performance"].append(ends[0] <= accuracy <= ends[1])
            given = {"reference": given.get("reference")}
            _, (_, (low, high)) = estimate_priors(proba, TRAIN, **given, **DRAWS)
            rows["priors"].append(low <= NEW[1] <= high)
        for name, row in rows.items():
            rates[name].append(row)
    for name, row in rates.items():
        rate, without = np.mean(row, axis=0)
        assert rate > 0.89, name
        assert without < 0.7, name


ESTIMATES = {
    "performance": lambda proba, reference, weight=None: estimate_performance(
        proba, metric="f1", reference=reference, sample_weight=weight, **FEW
    )[:1],
    "shifted performance": lambda proba, reference, weight=None: estimate_performance(
        proba,
        metric="f1",
        reference=reference,
        priors=TRAIN,
        sample_weight=weight,
        **FEW,
    )[:1],
}


@pytest.mark.parametrize("estimate", ESTIMATES)
def test_order_weights_and_kind_of_the_samples(estimate):
    estimate = ESTIMATES[estimate]
    expected = estimate(PROBA, REFERENCE)
    rng = np.random.default_rng(0)
    rows, shuffled = rng.permutation(300), rng.permutation(400)
    positive = Y_REF[shuffled].tolist(), REF[shuffled, 1]
    assert estimate(PROBA[rows], positive) == pytest.approx(expected)
    weight, w_ref = rng.integers(3, size=300), rng.integers(3, size=400)
    repeated = np.repeat(Y_REF, w_ref), np.repeat(REF, w_ref, axis=0)
    one = estimate(PROBA, (*REFERENCE, w_ref), weight)
    # The shrinkage towards priors depends on the effective number of samples.
    close = 1e-9 if estimate is ESTIMATES["performance"] else 2e-3
    two = estimate(np.repeat(PROBA, weight, axis=0), repeated)
    assert one == pytest.approx(two, abs=close)


def test_labels_and_columns_in_any_order():
    labels = np.array(["no", "yes"])
    options = {"priors": [0.4, 0.6], "n_resamples": 5, "random_state": 0}
    expected = estimate_performance(
        PROBA, metric="f1_macro", reference=REFERENCE, **options
    )
    for order in ([0, 1], [1, 0]):
        options["priors"] = dict(zip(labels, [0.4, 0.6], strict=True))
        found = estimate_performance(
            PROBA[:, order],
            metric="f1_macro",
            labels=labels[order],
            reference=(labels[Y_REF], REF[:, order]),
            **options,
        )
        assert found.value == pytest.approx(expected.value)
        if order == [0, 1]:  # the draws depend on the order
            assert found.interval == pytest.approx(expected.interval)
    priors, interval = estimate_priors(PROBA, TRAIN, reference=REFERENCE, **DRAWS)
    named = labels[Y_REF], REF
    again = estimate_priors(PROBA, TRAIN, reference=named, **DRAWS)
    np.testing.assert_array_equal(again[0], priors)
    np.testing.assert_array_equal(again[1], interval)
    weighted = *REFERENCE, np.full(400, 3.0)
    again = estimate_priors(PROBA, TRAIN, reference=weighted, **DRAWS)
    np.testing.assert_allclose(again[1], interval)


def test_interval_of_priors_by_hand():
    """For two classes: the mean of the samples is between those of the classes."""
    priors, (_, (low, high)) = estimate_priors(PROBA, TRAIN, reference=REFERENCE, **FEW)
    ratio, known = (p[:, 1] / (p @ priors) for p in (PROBA, REF))
    parts = [known[k == Y_REF] for k in range(2)]
    distance = parts[1].mean() - parts[0].mean()
    centre = (ratio.mean() - parts[0].mean()) / distance
    terms = [(1, ratio), (1 - centre, parts[0]), (centre, parts[1])]
    variance = sum(w**2 * each.var() / len(each) for w, each in terms)
    expected = centre + np.array([-1.96, 1.96]) * np.sqrt(variance) / distance
    np.testing.assert_allclose([low, high], expected, atol=1e-4)


def test_a_reference_changes_only_the_interval_of_priors():
    priors, _ = estimate_priors(PROBA, TRAIN, **FEW)
    again, _ = estimate_priors(PROBA, TRAIN, reference=REFERENCE, **FEW)
    np.testing.assert_array_equal(again, priors)


BAD = {
    "one array": ((Y_REF,), r"reference must be \(y_true, y_proba\) or .* got 1"),
    "lengths": ((Y_REF[1:], REF), "reference must contain .*got 399 labels and 400"),
    "probabilities": ((Y_REF, REF + 1), r"reference must contain .*lie in \[0, 1\]"),
    "weights": ((Y_REF, REF, -Y_REF), "reference must contain .*non-negative"),
    "columns": (
        (Y_REF + (np.arange(400) == 0) * 2, np.column_stack([REF, 0 * Y_REF])),
        "reference must",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_reference(case):
    reference, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        estimate_performance(PROBA, reference=reference, **FEW)
    with pytest.raises(ValueError, match=message):
        estimate_priors(PROBA, TRAIN, reference=reference, **FEW)


def test_bad_priors_and_metrics():
    only_one = np.zeros(400, dtype=int), REF
    for options, message in [
        ({"priors": TRAIN}, "priors must be None without a reference, got"),
        ({"reference": REFERENCE, "priors": [0.0, 1.0]}, "priors must be positive"),
        (
            {"reference": only_one, "priors": TRAIN},
            r"two samples or more of .* got \[400, 0\]",
        ),
        (
            {"reference": REFERENCE, "metric": lambda *_: 1.0},
            "metric must take sample weights if there is a reference",
        ),
    ]:
        with pytest.raises(ValueError, match=message):
            estimate_performance(PROBA, **options, **FEW)


# What classifiers keep


@cache
def fitted():
    y, proba = draw(300, seed=5)
    model = CalibratedClassifier(LogisticRegression(), "platt")
    model = PriorShiftClassifier(model, random_state=0, n_resamples=20)
    return model.fit(proba[:, 1:], np.array(["no", "yes"])[y])


def test_adapt_uses_the_reference_that_the_classifier_keeps():
    model, X = fitted(), draw(200, NEW, seed=6)[1][:, 1:]
    y, proba = model.estimator_.reference_
    options = {"random_state": 0, "n_resamples": 20}
    expected = estimate_priors(
        model.estimator_.predict_proba(X),
        model.train_priors_,
        reference=(y, proba),
        **options,
    )
    for given in ({}, {"reference": (y, proba)}):
        model.adapt(X, **given)
        np.testing.assert_array_equal(model.priors_interval_, expected[1])
    adapted = adjust_priors(proba, model.train_priors_, model.priors_)
    np.testing.assert_array_equal(model.reference_[1], adapted)
    np.testing.assert_array_equal(model.reference_[0], y)
    frozen = PriorShiftClassifier(FrozenEstimator(model.estimator_), **options)
    frozen.fit(X, np.where(X[:, 0] > 0.5, "yes", "no")).adapt(X)
    assert len(frozen.reference_[0]) == 300
    found = estimate_performance(
        model.predict_proba(X),
        labels=model.classes_,
        reference=model.reference_,
        priors=model.priors_,
        **FEW,
    )
    assert 0.5 < found.value < 1


def test_a_classifier_without_held_out_predictions():
    y, proba = draw(100)
    model = PriorShiftClassifier(LogisticRegression(), n_resamples=2).fit(proba, y)
    with pytest.raises(AttributeError, match=r"reference_ needs a CalibratedClass"):
        _ = model.reference_
    model.adapt(proba)
    model.adapt(proba, reference=(y, proba))


def test_labels_of_a_reference_are_those_of_the_classifier():
    model, X = fitted(), draw(50, NEW, seed=6)[1][:, 1:]
    y, proba = model.estimator_.reference_
    with pytest.raises(ValueError, match="reference must contain labels and prob"):
        model.adapt(X, reference=(np.where(y == "no", 0, 1), proba))
    with pytest.raises(ValueError, match=r"labels of the 2 classes .* got \[0\]"):
        estimate_priors(PROBA, TRAIN, reference=(np.zeros(400, int), REF), **FEW)


def test_small_and_useless_references():
    few = tuple(each[:10] for each in REFERENCE)
    with pytest.warns(UserWarning, match="since the reference has 10 samples"):
        estimate_performance(PROBA, reference=few, **FEW)
    equal = REFERENCE[0], np.full_like(REFERENCE[1], 0.5)
    _, interval = estimate_priors(PROBA, TRAIN, reference=equal, **FEW)
    np.testing.assert_array_equal(interval, [[0, 1], [0, 1]])


def test_a_metric_that_refuses_weights():
    proba = np.random.default_rng(0).dirichlet(np.ones(3), 60)
    y = np.arange(60) % 3
    with pytest.raises(ValueError, match="metric must take sample weights if there"):
        estimate_performance(proba, metric="roc_auc_ovo", reference=(y, proba), **FEW)
