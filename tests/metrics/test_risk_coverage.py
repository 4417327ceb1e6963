"""Values of risk and coverage, and their options."""

import numpy as np
import pytest
from sklearn.metrics import log_loss

from sklearn_calib.metrics import (
    augrc_loss,
    aurc_loss,
    coverage_at_risk,
    excess_aurc_loss,
    failure_auroc_score,
    risk_at_coverage,
    risk_coverage_curve,
)

Y_TRUE = np.array([0, 0, 1, 1])
PROBA = np.array([[0.9, 0.1], [0.8, 0.2], [0.8, 0.2], [0.6, 0.4]])

CONFIDENCES = {
    "l2_norm": lambda proba: np.linalg.norm(proba, axis=1),
    "margin": lambda proba: np.diff(np.sort(proba))[:, -1],
    "msp": lambda proba: proba.max(axis=1),
    "negative_entropy": lambda proba: (proba * np.log(proba)).sum(axis=1),
    "negative_gini": lambda proba: (proba**2).sum(axis=1) - 1,
}
WITH_CONFIDENCE = [
    augrc_loss,
    aurc_loss,
    excess_aurc_loss,
    failure_auroc_score,
    risk_coverage_curve,
]


def test_curve():
    coverage, risk, thresholds = risk_coverage_curve(Y_TRUE, PROBA)
    np.testing.assert_allclose(coverage, [0.25, 0.75, 1])
    np.testing.assert_allclose(risk, [0, 1 / 3, 0.5])
    np.testing.assert_allclose(thresholds, [0.9, 0.8, 0.6])
    weighted = risk_coverage_curve(Y_TRUE, PROBA, sample_weight=[0, 1, 1, 2])
    np.testing.assert_allclose(weighted, [[0.5, 1], [0.5, 0.75], [0.8, 0.6]])


def test_recorded_curves(reference):
    """fd-shifts, from full coverage down, with a last point at coverage zero."""
    recorded = reference("metric_aurc")
    (case,) = [one for one in recorded["expected"] if one["id"] == "exact-fd-shifts"]
    inputs, values = recorded["inputs"]["exact"], case["values"]
    coverage, risk, _ = risk_coverage_curve(
        inputs["labels"], inputs["probs"], labels=range(4)
    )
    np.testing.assert_allclose(coverage[::-1], values["coverages"][:-1])
    np.testing.assert_allclose(risk[::-1], values["selective_risks"][:-1])
    np.testing.assert_allclose(
        (coverage * risk)[::-1], values["generalized_risks"][:-1]
    )


def test_recorded_points(reference):
    """torch-uncertainty, in single precision."""
    recorded = reference("metric_aurc")
    for case in recorded["expected"]:
        if not case["id"].endswith("torch_uncertainty"):
            continue
        inputs, values = recorded["inputs"][case["input"]], case["values"]
        data, labels = (inputs["labels"], inputs["probs"]), sorted({*inputs["labels"]})
        risk = risk_at_coverage(*data, coverage=0.8, labels=labels)
        assert risk == pytest.approx(values["risk_at_80_cov"], rel=1e-6)
        coverage = coverage_at_risk(*data, max_risk=0.05, labels=labels)
        assert coverage == pytest.approx(values["cov_at_5_risk"], rel=1e-6)


@pytest.mark.parametrize(
    ("coverage", "risk"),
    [(1e-9, 0), (0.25, 0), (0.26, 1 / 3), (0.5, 1 / 3), (0.75, 1 / 3), (1, 0.5)],
)
def test_risk_at_coverage(coverage, risk):
    """A threshold accepts both of two tied samples or none."""
    value = risk_at_coverage(Y_TRUE, PROBA, coverage=coverage)
    assert value == pytest.approx(risk)


@pytest.mark.parametrize(
    ("max_risk", "coverage"), [(0, 0.25), (0.33, 0.25), (1 / 3, 0.75), (0.5, 1), (9, 1)]
)
def test_coverage_at_risk(max_risk, coverage):
    value = coverage_at_risk(Y_TRUE, PROBA, max_risk=max_risk)
    assert value == coverage


def test_coverage_at_a_risk_that_is_exceeded_in_between():
    """The largest coverage counts, whatever the risk of smaller coverages."""
    proba = np.column_stack([np.linspace(0.9, 0.6, 10), np.linspace(0.1, 0.4, 10)])
    y_true = [1] + [0] * 9
    assert coverage_at_risk(y_true, proba, max_risk=0.1) == 1
    assert coverage_at_risk(y_true, proba, max_risk=0.09) == 0


def test_rounding_does_not_require_one_more_sample():
    proba = np.column_stack([np.linspace(0.9, 0.6, 10), np.linspace(0.1, 0.4, 10)])
    y_true = [0, 0, 0] + [1] * 7
    assert 0.1 * 3 > 3 / 10
    assert risk_at_coverage(y_true, proba, coverage=0.1 * 3) == 0
    weight = [0.1] * 10
    assert risk_at_coverage(y_true, proba, coverage=0.3, sample_weight=weight) == 0
    value = coverage_at_risk(y_true, proba, max_risk=0.7, sample_weight=weight)
    assert value == 1


def test_log_loss_is_that_of_scikit_learn():
    """Probabilities of zero have the same loss in single precision."""
    rng = np.random.default_rng(0)
    proba = rng.dirichlet(np.full(4, 0.3), size=200)
    proba[:4] = np.eye(4)
    y_true = np.append([1, 1, 2, 3], rng.integers(4, size=196))
    expected = log_loss(y_true, proba)
    for given, tolerance in [(proba, 1e-12), (proba.astype(np.float32), 1e-6)]:
        _, risk, _ = risk_coverage_curve(y_true, given, loss="log")
        assert risk[-1] == pytest.approx(expected, rel=tolerance)


def test_loss_of_the_user():
    def one_minus_true(codes, proba):
        return 1 - proba[np.arange(len(proba)), codes]

    y_true = np.array(["no", "no", "yes", "yes"])
    _, risk, _ = risk_coverage_curve(y_true, PROBA, loss=one_minus_true)
    np.testing.assert_allclose(risk, [0.1, 1.1 / 3, 1.7 / 4])
    assert risk_at_coverage(
        y_true, PROBA, coverage=1, loss=one_minus_true
    ) == pytest.approx(1.7 / 4)


@pytest.mark.parametrize("name", CONFIDENCES)
def test_named_confidences(name):
    rng = np.random.default_rng(0)
    proba, y_true = rng.dirichlet(np.ones(5), size=300), np.arange(300) % 5
    scores = CONFIDENCES[name](proba)
    for confidence in (name, CONFIDENCES[name], scores, scores.tolist()):
        _, risk, thresholds = risk_coverage_curve(y_true, proba, confidence=confidence)
        np.testing.assert_allclose(thresholds, np.sort(scores)[::-1])
        ordered = (proba.argmax(axis=1) != y_true)[np.argsort(-scores)]
        np.testing.assert_allclose(risk, np.cumsum(ordered) / np.arange(1, 301))


@pytest.mark.parametrize("metric", WITH_CONFIDENCE)
def test_confidence_is_passed_on(metric):
    """Reversing the confidences changes the value."""
    rng = np.random.default_rng(0)
    proba, y_true = rng.dirichlet(np.ones(3), size=300), np.arange(300) % 3
    value = metric(y_true, proba, confidence="margin")
    reverse = metric(y_true, proba, confidence=lambda proba: -proba.max(axis=1))
    assert not np.array_equal(value, reverse)


def test_samples_that_come_last():
    """Minus infinity is a valid confidence."""
    _, risk, _ = risk_coverage_curve([1, 0], PROBA[:2], confidence=[-np.inf, 0.0])
    np.testing.assert_array_equal(risk, [0, 0.5])


@pytest.mark.parametrize("metric", WITH_CONFIDENCE)
@pytest.mark.parametrize(
    ("confidence", "message"),
    [
        ("nothing", r"one of \['l2_norm', 'margin'.* got 'nothing'"),
        ("mps", r"Did you mean 'msp'\?"),
        ("max_logit", r"from logits, got probabilities\. Pass .*logits\.max\(axis=1\)"),
        (
            "p_norm",
            r"p_norm.* from logits, .*confidence=centred\.max\(axis=1\) / numpy",
        ),
        (3, r"'confidence' parameter .* Got 3"),
        ([0.5, np.nan, 0.1, 0.2], "confidence must not be NaN, .* got NaN for 1 of 4"),
        (lambda proba: proba, r"of shape \(4,\), got shape \(4, 2\)"),
    ],
)
def test_bad_confidence(metric, confidence, message):
    with pytest.raises(ValueError, match=message):
        metric(Y_TRUE, PROBA, confidence=confidence)


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        ("nothing", "'loss' parameter .* Got 'nothing'"),
        (
            lambda _, proba: proba,
            r"of shape \(4,\), got shape \(4, 2\) with 0 values that",
        ),
        (lambda codes, _: codes / 0.0, r"got shape \(4,\) with \d values that are not"),
    ],
)
@pytest.mark.filterwarnings("ignore:(divide by zero|invalid value):RuntimeWarning")
def test_bad_loss(loss, message):
    for metric in (augrc_loss, aurc_loss, risk_coverage_curve):
        with pytest.raises(ValueError, match=message):
            metric(Y_TRUE, PROBA, loss=loss)


@pytest.mark.parametrize(
    ("metric", "name", "value"),
    [
        (risk_at_coverage, "coverage", 0),
        (risk_at_coverage, "coverage", 1.5),
        (risk_at_coverage, "coverage", np.nan),
        (coverage_at_risk, "max_risk", -0.1),
        (coverage_at_risk, "max_risk", np.nan),
    ],
)
def test_bad_bounds(metric, name, value):
    with pytest.raises(ValueError, match=f"'{name}' parameter .* Got {value!r}"):
        metric(Y_TRUE, PROBA, **{name: value})
