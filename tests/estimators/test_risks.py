"""Several risks at once: rates of classes, costs and callables."""

import pickle
from math import comb, e, exp, log

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import precision_score, recall_score
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB

from sklearn_calib.estimators import SelectiveClassifier
from sklearn_calib.estimators._selective.risks import resolve_risks
from sklearn_calib.estimators._selective.thresholds import _pvalue, threshold_for_risk

NAMES = np.array(["ant", "bee", "cat"])
COST = np.array([[0.0, 1, 2], [4, 0, 1], [2, 1, 0]])
LIMITS = {
    "false_negative_rate": {"bee": 0.2},
    "false_discovery_rate": {"ant": 0.08, "bee": 0.2},
    "error_rate": 0.12,
}


def make_data(n_samples=3000, random_state=0):
    """Return noisy data with labels that are strings; "bee" is rare."""
    rng = np.random.default_rng(random_state)
    y = rng.choice(3, p=[0.4, 0.2, 0.4], size=n_samples)
    return 2 * np.eye(3)[y] + rng.normal(size=(n_samples, 3)), NAMES[y]


X, Y = make_data()
CLASSIFIER = GaussianNB().fit(*make_data(300, random_state=1))


def selective(max_risk, **params):
    """Return a classifier whose threshold is set with all data."""
    return SelectiveClassifier(FrozenEstimator(CLASSIFIER), max_risk=max_risk, **params)


def square(y_true, y_pred):
    """Return a loss in [0, 1] that counts two of the classes."""
    return np.where(y_true == "cat", np.nan, 0.7 * (y_true != y_pred))


# What they mean


def test_estimates_are_one_minus_recall_and_precision():
    model = selective({**LIMITS, "cost": 0.4, square: 0.15}, cost_matrix=COST)
    model.fit(X, Y)
    kept = model.accepts(X)
    assert 0.3 < kept.mean() < 1
    y, y_pred = Y[kept], model.predict(X)[kept]
    recall = recall_score(y, y_pred, average=None)
    precision = precision_score(y, y_pred, average=None)
    assert model.risks_ == {
        "false_negative_rate": {"bee": pytest.approx(1 - recall[1])},
        "false_discovery_rate": {
            "ant": pytest.approx(1 - precision[0]),
            "bee": pytest.approx(1 - precision[1]),
        },
        "error_rate": pytest.approx(np.mean(y != y_pred)),
        "cost": pytest.approx(
            COST[np.searchsorted(NAMES, y), np.searchsorted(NAMES, y_pred)].mean()
        ),
        square: pytest.approx(0.7 * np.mean((y != y_pred)[y != "cat"])),
    }
    assert model.risk_ == pytest.approx(model.risks_["error_rate"])
    assert model.guaranteed_risk_ == model.max_risk


def test_error_rate_of_a_dict_is_that_of_a_number():
    number, named = (selective(risk).fit(X, Y) for risk in (0.1, {"error_rate": 0.1}))
    assert number.threshold_ == named.threshold_ > 0.4
    assert number.risks_ == named.risks_ == {"error_rate": number.risk_}
    coverage = selective(None, coverage=0.5).fit(X, Y)
    assert coverage.risks_ == {"error_rate": coverage.risk_}


@pytest.mark.parametrize("name", ["false_negative_rate", "false_discovery_rate"])
def test_one_limit_is_that_of_each_class(name):
    one = selective({name: 0.2}).fit(X, Y)
    each = selective({name: dict.fromkeys(NAMES.tolist(), 0.2)}).fit(X, Y)
    assert one.threshold_ == each.threshold_
    assert [*one.risks_[name]] == NAMES.tolist()


def test_together_they_accept_no_more_than_each_alone():
    together = selective(LIMITS).fit(X, Y)
    alone = [
        selective({name: limit}).fit(X, Y).coverage_ for name, limit in LIMITS.items()
    ]
    assert 0.3 < together.coverage_ <= min(alone)
    assert len(set(alone)) == 3


def test_cost_has_any_unit():
    model = selective({"cost": 0.2}, cost_matrix=COST).fit(X, Y)
    scaled = selective({"cost": 1.4}, cost_matrix=7 * COST).fit(X, Y)
    assert 0.3 < model.coverage_ < 1
    assert model.threshold_ == scaled.threshold_
    assert scaled.risks_["cost"] == pytest.approx(7 * model.risks_["cost"])


def test_equal_costs_are_the_error_rate():
    model = selective({"cost": 0.3}, cost_matrix=3 * (1 - np.eye(3))).fit(X, Y)
    assert model.threshold_ == selective(0.1).fit(X, Y).threshold_


def test_callable_computes_costs_from_labels():
    def cost(y_true, y_pred):
        codes = np.searchsorted(NAMES, y_true), np.searchsorted(NAMES, y_pred)
        return COST[codes] / 4

    model = selective({cost: 0.05}).fit(X, Y)
    expected = selective({"cost": 0.2}, cost_matrix=COST).fit(X, Y)
    assert model.threshold_ == expected.threshold_
    assert model.risks_[cost] == pytest.approx(expected.risks_["cost"] / 4)


def test_labels_may_be_numbers():
    codes = np.searchsorted(NAMES, Y)
    frozen = FrozenEstimator(GaussianNB().fit(X[:300], codes[:300]))
    limits = {"false_negative_rate": {1: 0.2}}
    model = SelectiveClassifier(frozen, max_risk=limits, abstain_label=-1)
    assert [*model.fit(X, codes).risks_["false_negative_rate"]] == [1]
    assert set(model.predict(X)) == {-1, 0, 1, 2}


def test_it_is_an_estimator():
    """Cloned, pickled, searched, and with weights of zero."""
    limits = {"error_rate": 0.2, square: 0.3}
    model = SelectiveClassifier(GaussianNB(), max_risk=limits, cv=2).fit(X, Y)
    again = clone(model).fit(X, Y)
    assert again.threshold_ == model.threshold_
    np.testing.assert_array_equal(
        pickle.loads(pickle.dumps(model)).predict(X), model.predict(X)
    )
    search = GridSearchCV(model, {"max_risk": [limits, 0.1]}, cv=2, error_score="raise")
    assert search.fit(X, Y).best_params_ == {"max_risk": 0.1}
    kept = np.arange(len(Y)) % 4 > 0
    weighted = selective(LIMITS).fit(X, Y, sample_weight=3.0 * kept)
    expected = selective(LIMITS).fit(X[kept], Y[kept])
    assert weighted.threshold_ == expected.threshold_
    assert weighted.risks_ == expected.risks_


# What is guaranteed


@pytest.mark.parametrize("total", [0.0, 2.5, 4.0, 7.0])
def test_pvalue_of_hoeffding_and_bentkus(total):
    """Angelopoulos et al. (2021), proposition 1, by hand for ten samples."""
    mean, limit, n = min(total / 10, 0.45), 0.45, 10
    divergence = (1 - mean) * log((1 - mean) / (1 - limit))
    divergence += mean * log(mean / limit) if mean else 0
    tail = sum(
        comb(n, k) * limit**k * (1 - limit) ** (n - k)
        for k in range(int(np.ceil(total)) + 1)
    )
    (risk,) = resolve_risks({"cost": 1.8}, COST, np.arange(3))
    pvalue = _pvalue(np.array([total]), np.array([10.0]), risk)
    assert pvalue == pytest.approx(min(exp(-n * divergence), e * tail))


@pytest.mark.parametrize("max_risk", [{"cost": 0.01}, {square: 0.01}])
def test_lowest_risk_of_other_losses_is_reached(max_risk):
    cost = COST if "cost" in max_risk else None
    with pytest.raises(ValueError, match=r"got \w+ 0.01. The lowest here is") as error:
        selective(max_risk, cost_matrix=cost).fit(X, Y)
    (name,) = max_risk
    lowest = str(error.value).split("The lowest here is ")[1].split(",")[0]
    assert selective({name: float(lowest)}, cost_matrix=cost).fit(X, Y)
    with pytest.raises(ValueError, match=f"The lowest here is {lowest}, for delta"):
        selective({name: float(lowest) - 2e-4}, cost_matrix=cost).fit(X, Y)


def test_what_cannot_be_guaranteed_is_named():
    limits = {"error_rate": 0.2, "false_negative_rate": {"bee": 0.01}}
    message = (
        r"max_risk must be limits that one threshold can guarantee together, got "
        r"error_rate 0.2, false_negative_rate of 'bee' 0.01. The lowest limits of each "
        r"risk alone are error_rate 0.0\d+, false_negative_rate of 'bee' 0.\d+, for "
        "delta=0.05 and 3000 held-out samples"
    )
    with pytest.raises(ValueError, match=message):
        selective(limits).fit(X, Y)


def test_class_without_accepted_samples_is_not_guaranteed():
    """No sample is predicted as the class, so its precision is unknown."""
    some = CLASSIFIER.predict(X) != "bee"
    with pytest.raises(ValueError, match=r"of 'bee' 0\.9\. The lowest here is 1, "):
        selective({"false_discovery_rate": {"bee": 0.9}}).fit(X[some], Y[some])


CLASSES = np.arange(3)


def population(kind, rng, n_samples=20_000):
    """Return predicted probabilities, and the probabilities of the labels."""
    if kind == "calibrated":
        logits = 4 * rng.normal(size=(n_samples, 3)) - [0, 3, 0]
        proba = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        return proba, proba
    confidence = np.sort(rng.uniform(0.4, 1, size=(n_samples, 1)), axis=0)
    wrong = {
        "slightly too high": 0.1005 + 0 * confidence,
        "rising": 0.34 * (confidence - 0.4),
    }[kind]
    is_predicted = np.arange(n_samples)[:, None] % 3 == CLASSES
    proba = np.where(is_predicted, confidence, (1 - confidence) / 2)
    return proba, np.where(is_predicted, 1 - wrong, wrong / 2)


def exceeds(goals, proba, truth):
    """Return, for each number of most confident samples, if a risk is too large."""
    predicted, found = proba.argmax(axis=1)[:, None], np.zeros(len(proba), dtype=bool)
    for risk in resolve_risks(goals, COST if "cost" in goals else None, CLASSES):
        losses = {
            "error_rate": 1.0 * (predicted != CLASSES),
            "cost": COST[CLASSES, predicted],
            "false_negative_rate": np.where(
                risk.label == CLASSES, predicted != CLASSES, np.nan
            ),
            "false_discovery_rate": np.where(
                risk.label == predicted, predicted != CLASSES, np.nan
            ),
        }[risk.key]
        total = np.nansum(truth * losses, axis=1).cumsum()
        n_counted = (truth * ~np.isnan(losses)).sum(axis=1).cumsum()
        found |= total > risk.limit * n_counted
    return found


@pytest.mark.slow
@pytest.mark.usefixtures("no_lowest_limit")
@pytest.mark.parametrize("kind", ["calibrated", "slightly too high", "rising"])
@pytest.mark.parametrize(
    "goals",
    [
        {"error_rate": 0.1},
        {"false_negative_rate": {1: 0.1}},
        {"false_discovery_rate": {1: 0.1}},
        {"false_negative_rate": 0.1, "false_discovery_rate": 0.1},
        {"cost": 0.11 / 6, "error_rate": 0.1},
        {"cost": 1.1 / 6},
    ],
    ids=lambda goals: ", ".join(goals),
)
def test_guarantee_of_several_risks(goals, kind):
    """Some risk exceeds its limit in at most the fraction delta of the draws."""
    rng = np.random.default_rng(0)
    proba, truth = population(kind, rng)
    order = np.argsort(-proba.max(axis=1), kind="stable")
    proba, truth = proba[order], truth[order]
    confidence, predicted = proba.max(axis=1), proba.argmax(axis=1)
    exceeded = exceeds(goals, proba, truth)
    risks = resolve_risks(goals, COST if "cost" in goals else None, CLASSES)
    n_draws, n_broken, delta = 300, 0, 0.2
    for _ in range(n_draws):
        rows = rng.integers(len(proba), size=1500)
        uniform = rng.uniform(size=(1500, 1))
        codes = (uniform >= truth[rows].cumsum(axis=1)[:, :-1]).sum(axis=1)
        losses = [risk.losses(codes, predicted[rows]) for risk in risks]
        try:
            threshold = threshold_for_risk(confidence[rows], risks, losses, delta)
        except ValueError:  # nothing is said, nothing is broken
            continue
        n_broken += exceeded[np.searchsorted(-confidence, -threshold, "right") - 1]
    assert n_broken <= binom.isf(1e-3, n_draws, delta)


# Errors


def no_loss(y_true, y_pred):
    return np.mean(y_true != y_pred)


def large_loss(y_true, y_pred):
    return 2.0 * (y_true != y_pred)


@pytest.mark.parametrize(
    ("max_risk", "cost_matrix", "message"),
    [
        ({}, None, "max_risk must contain at least one risk, got {}"),
        ([0.1], None, "'max_risk' parameter of SelectiveClassifier must be .* a"),
        ({"recall": 0.1}, None, "callables or among .*'recall'.* 1 minus the recall"),
        ({"error_rat": 0.1}, None, "Did you mean 'error_rate'"),
        ({3: 0.1}, None, r"max_risk must have keys .* got 3\."),
        ({"error_rate": 1}, None, r"limit in \(0, 1\) for error_rate, got 1\."),
        ({"error_rate": "low"}, None, "for error_rate, got 'low'"),
        ({"error_rate": None}, None, "for error_rate, got None"),
        ({"error_rate": np.nan}, None, "for error_rate, got nan"),
        ({"error_rate": True}, None, "for error_rate, got True"),
        ({"error_rate": {"ant": 0.1}}, None, "for error_rate, got {'ant': 0.1}"),
        (
            {"false_negative_rate": {"ant": 2}}, None,
            r"limit in \(0, 1\) for false_negative_rate of 'ant', got 2\.",
        ),
        (
            {"false_negative_rate": {"ape": 0.1}}, None,
            r"limits for some of the classes \['ant', 'bee', 'cat'\], got {'ape'",
        ),
        ({"false_discovery_rate": {}}, None, "limits for some of the classes .* {}"),
        ({"cost": 0.1}, None, "cost_matrix and .* together, got no cost_matrix"),
        (0.1, COST, "given together, got a cost_matrix and max_risk=0.1"),
        ({"cost": 4}, COST, r"limit in \(0, 4\) for cost, got 4\."),
        ({"cost": 1}, COST[:2], r"shape \(3, 3\), got shape \(2, 3\)"),
        ({"cost": 1}, 0 * COST, "costs, not all zero, .* from 0 to 0"),
        ({"cost": 1}, -COST, "non-negative costs, .* from -4 to "),
        ({"cost": 1}, COST + np.nan, "finite non-negative costs"),
        ({"cost": 1}, COST + np.inf, "finite non-negative costs"),
        ({"cost": 1}, [["a"]], "cost_matrix"),
        ({no_loss: 0.1}, None, r"one loss in \[0, 1\], .* got shape \(\) with 0 val"),
        ({large_loss: 0.1}, None, r"got shape \(3000,\) with \d+ values outside"),
    ],
)  # fmt: skip
def test_bad_risks(max_risk, cost_matrix, message):
    with pytest.raises(ValueError, match=message):
        selective(max_risk, cost_matrix=cost_matrix).fit(X, Y)


def test_costs_of_a_frame_are_in_the_order_of_the_classes():
    labels = ["ant", "bee", "cat"]
    frame = pd.DataFrame(COST, index=labels, columns=labels)
    one = selective({"cost": 1}, cost_matrix=frame).fit(X, Y)
    assert one.risks_ == selective({"cost": 1}, cost_matrix=COST).fit(X, Y).risks_
    for other in (frame[labels[::-1]], frame.loc[labels[::-1]]):
        with pytest.raises(ValueError, match=r"in the order of classes_, .* got"):
            selective({"cost": 1}, cost_matrix=other).fit(X, Y)
