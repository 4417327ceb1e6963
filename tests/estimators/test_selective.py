"""`SelectiveClassifier`: predictions, guarantee, and use with scikit-learn."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom
from sklearn import config_context
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    cross_val_predict,
    train_test_split,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from sklearn_calib import CalibratedClassifier, TemperatureScaling
from sklearn_calib.deployment._priors import check_priors
from sklearn_calib.estimators import SelectiveClassifier
from sklearn_calib.metrics import expected_calibration_error

CONFIDENCES = ["l2_norm", "margin", "msp", "negative_entropy", "negative_gini"]
NAMES = np.array(["ant", "bee", "cat"])


def make_data(n_samples=600, n_classes=3, random_state=0):
    """Return noisy data on which abstaining helps."""
    rng = np.random.default_rng(random_state)
    y = rng.integers(n_classes, size=n_samples)
    centres = 2 * np.eye(n_classes)[y]
    return centres + rng.normal(size=centres.shape), y


def selective(estimator=None, **params):
    """Return a classifier that abstains with -1."""
    params = {"abstain_label": -1, "cv": 2, **params}
    return SelectiveClassifier(estimator or GaussianNB(), **params)


# The check has labels that are strings, for which a number cannot say "abstain".
@parametrize_with_checks(
    [selective(LogisticRegression(), coverage=1.0, cv=2)],
    expected_failed_checks=lambda _: {
        "check_classifiers_classes": "labels are strings and abstain_label is a number"
    },
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_scikit_learn_checks(estimator, check):
    check(estimator.set_params(estimator__tol=0.1))


# What it answers


@pytest.mark.parametrize("confidence", [*CONFIDENCES, "max_logit"])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("coverage", [0.3, 0.8])
def test_coverage_on_new_data(coverage, n_classes, confidence):
    check_coverage(coverage, n_classes, confidence)


@pytest.mark.parametrize("coverage", [0.3, 0.8])
def test_coverage_on_new_data_with_p_norm(coverage):
    check_coverage(coverage, 3, "p_norm")


def check_coverage(coverage, n_classes, confidence):
    X, y = make_data(2000, n_classes)
    X_test, y_test = make_data(5000, n_classes, random_state=1)
    params = {"coverage": coverage, "confidence": confidence, "cv": 2}
    model = selective(LogisticRegression(tol=0.1), **params)
    model.fit(X, y)
    assert model.coverage_ == pytest.approx(coverage, abs=1e-9)
    # Four standard deviations of a fraction of 2000 samples.
    assert model.coverage_score(X_test) == pytest.approx(coverage, abs=0.045)
    everything = model.estimator_.score(X_test, y_test)
    assert everything + 0.02 < model.score(X_test, y_test)
    assert model.guaranteed_risk_ is None


def test_predict_abstains_below_the_threshold():
    X, y = make_data()
    model = selective(coverage=0.6).fit(X, y)
    plain = GaussianNB().fit(X, y)
    sure = plain.predict_proba(X).max(axis=1) >= model.threshold_
    assert 0 < sure.sum() < len(y)
    np.testing.assert_array_equal(model.accepts(X), sure)
    np.testing.assert_array_equal(
        model.predict(X), np.where(sure, plain.predict(X), -1)
    )
    np.testing.assert_array_equal(model.predict_proba(X), plain.predict_proba(X))
    assert model.coverage_score(X) == pytest.approx(sure.mean())
    assert model.score(X, y) == pytest.approx((plain.predict(X) == y)[sure].mean())
    np.testing.assert_array_equal(model.classes_, [0, 1, 2])


def test_threshold_is_of_held_out_predictions():
    """A classifier that memorised its training data is confident on all of them."""
    X, y = make_data()
    nearest = KNeighborsClassifier(10, weights="distance")
    model = selective(nearest, coverage=0.5, cv=3).fit(X, y)
    held_out = cross_val_predict(nearest, X, y, cv=3, method="predict_proba")
    confidence = held_out.max(axis=1)
    assert model.threshold_ == np.sort(confidence)[300]
    accepted = confidence >= model.threshold_
    wrong = held_out.argmax(axis=1) != y
    assert model.coverage_ == pytest.approx(accepted.mean())
    assert model.risk_ == pytest.approx(wrong[accepted].mean())
    assert model.accepts(X).all()


def test_full_coverage_accepts_confidences_below_all_held_out_ones():
    X, y = make_data()
    model = selective(coverage=1).fit(X, y)
    unsure = np.full((1, 3), 2 / 3)
    assert model.accepts(np.vstack([X, unsure])).all()
    assert model.threshold_ == -np.inf
    assert model.coverage_ == model.coverage_score(unsure) == 1


def test_frozen_classifier_sets_the_threshold_on_all_data():
    X, y = make_data()
    X, X_held, y, y_held = train_test_split(X, y, random_state=0)
    frozen = FrozenEstimator(GaussianNB().fit(X, y))
    some = y_held != 1  # it knows its classes
    model = selective(frozen, coverage=0.5).fit(X_held[some], y_held[some])
    confidence = frozen.predict_proba(X_held[some]).max(axis=1)
    assert model.threshold_ == np.sort(confidence)[some.sum() // 2]
    assert model.estimator_ is frozen
    np.testing.assert_array_equal(model.classes_, [0, 1, 2])
    with pytest.raises(ValueError, match=r"y must contain only .* got also \[3\]"):
        model.fit(X_held, y_held + 1)


def test_confidence_may_be_any_function():
    X, y = make_data()

    def probability_of_the_last(proba):
        return proba[:, 2]

    model = selective(coverage=0.3, confidence=probability_of_the_last).fit(X, y)
    assert (model.predict(X) == 2).sum() > 0.9 * model.accepts(X).sum()
    by_name = selective(coverage=0.3, confidence="msp").fit(X, y)
    by_function = selective(coverage=0.3, confidence=lambda p: p.max(axis=1)).fit(X, y)
    np.testing.assert_array_equal(by_name.predict(X), by_function.predict(X))


def test_max_logit_of_two_classes_orders_as_the_probability():
    X, y = make_data(n_classes=2)
    logit = selective(LogisticRegression(), coverage=0.5, confidence="max_logit")
    msp = selective(LogisticRegression(), coverage=0.5)
    predicted = logit.fit(X, y).predict(X)
    np.testing.assert_array_equal(predicted, msp.fit(X, y).predict(X))
    assert set(predicted) == {-1, 0, 1}


# What it guarantees


@pytest.mark.slow
@pytest.mark.parametrize("is_frozen", [True, False])
def test_guarantee_of_the_classifier(is_frozen):
    """Guaranteed for a frozen classifier, and observed for a cross-fitted one."""
    X_test, y_test = make_data(20000, random_state=1)
    estimator = GaussianNB()
    if is_frozen:
        estimator = FrozenEstimator(estimator.fit(*make_data(200, random_state=2)))
    model = selective(estimator, max_risk=0.12, delta=0.1)
    coverages, n_draws, n_broken = [], 100, 0
    for seed in range(n_draws):
        model.fit(*make_data(500, random_state=3 + seed))
        assert model.guaranteed_risk_ <= 0.12
        predicted = model.predict(X_test)
        answered = predicted != -1
        n_broken += np.mean(predicted[answered] != y_test[answered]) > 0.12
        coverages.append(answered.mean())
    assert n_broken <= binom.isf(1e-3, n_draws, 0.1)
    # The bound is not met by answering nothing: 0.12 is the risk at coverage 0.95.
    assert 0.75 < np.mean(coverages) < 0.95


def test_lowest_reachable_risk_is_named_and_is_reached():
    X, y = make_data()
    with pytest.raises(ValueError, match="max_risk must be a risk that") as error:
        selective(max_risk=1e-3).fit(X, y)
    named = float(str(error.value).split("The lowest here is ")[1].split(",")[0])
    assert selective(max_risk=named).fit(X, y).guaranteed_risk_ <= named
    with pytest.raises(ValueError, match=f"The lowest here is {named}"):
        selective(max_risk=named - 2e-4).fit(X, y)


def test_less_risk_or_more_certainty_answer_less():
    X, y = make_data(2000)
    models = [
        selective(**params).fit(X, y)
        for params in (
            {"max_risk": 0.15},
            {"max_risk": 0.08},
            {"max_risk": 0.08, "delta": 1e-6},
        )
    ]
    coverages = [model.coverage_ for model in models]
    assert coverages == sorted(coverages, reverse=True)
    assert len(set(coverages)) == 3


def test_what_was_guaranteed_is_forgotten():
    X, y = make_data()
    model = selective(max_risk=0.2).fit(X, y)
    assert model.risk_ < model.guaranteed_risk_ <= 0.2
    assert model.set_params(max_risk=None, coverage=0.5).fit(X, y)
    assert model.guaranteed_risk_ is None


# Weights


@pytest.mark.parametrize("coverage", [0.3, 0.62])
def test_weights_of_coverage_are_repetition(coverage):
    X, y = make_data(300)
    weight = np.random.default_rng(0).integers(3, size=300)
    frozen = FrozenEstimator(GaussianNB().fit(X, y))
    model = selective(frozen, coverage=coverage).fit(X, y, sample_weight=weight)
    repeated = selective(frozen, coverage=coverage)
    repeated.fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    assert model.threshold_ == repeated.threshold_
    assert model.coverage_ == pytest.approx(repeated.coverage_)
    assert model.risk_ == pytest.approx(repeated.risk_)


def test_guarantee_counts_samples_not_weights():
    X, y = make_data()
    weight = np.arange(600) % 3
    frozen = FrozenEstimator(GaussianNB().fit(X, y))
    model = selective(frozen, max_risk=0.2).fit(X, y, sample_weight=weight)
    kept = weight > 0
    expected = selective(frozen, max_risk=0.2).fit(X[kept], y[kept])
    for name in ("threshold_", "guaranteed_risk_", "coverage_", "risk_"):
        assert getattr(model, name) == getattr(expected, name)


def test_weights_reach_the_classifier():
    X, y = make_data()
    weight = np.where(y == 0, 5.0, 1.0)
    model = selective(coverage=0.5).fit(X, y, sample_weight=weight)
    expected = GaussianNB().fit(X, y, sample_weight=weight)
    np.testing.assert_array_equal(model.predict_proba(X), expected.predict_proba(X))
    with pytest.warns(UserWarning, match="only used by the threshold: KNeighbors"):
        selective(KNeighborsClassifier(), coverage=0.5).fit(X, y, sample_weight=weight)


def test_weights_of_scores():
    X, y = make_data()
    model = selective(coverage=0.5).fit(X, y)
    weight = np.arange(600) % 3
    X_repeated, y_repeated = np.repeat(X, weight, axis=0), np.repeat(y, weight)
    assert model.score(X, y, sample_weight=weight) == pytest.approx(
        model.score(X_repeated, y_repeated)
    )
    assert model.coverage_score(X, sample_weight=weight) == pytest.approx(
        model.coverage_score(X_repeated)
    )


def test_metadata_are_routed():
    X, y = make_data()
    weight = np.where(y == 0, 5.0, 1.0)
    groups = np.arange(600) // 100
    with config_context(enable_metadata_routing=True):
        inner = GaussianNB().set_fit_request(sample_weight=True)
        model = selective(inner, coverage=0.5, cv=GroupKFold(3))
        model.fit(X, y, sample_weight=weight, groups=groups)
    expected = GaussianNB().fit(X, y, sample_weight=weight)
    np.testing.assert_array_equal(model.predict_proba(X), expected.predict_proba(X))


# Where it is used


@pytest.mark.parametrize("as_type", [str, object])
def test_string_labels(as_type):
    X, y = make_data()
    names = NAMES[y].astype(as_type)
    model = SelectiveClassifier(GaussianNB(), coverage=0.6, cv=2).fit(X, names)
    numbers = selective(coverage=0.6).fit(X, y).predict(X)
    expected = np.append(NAMES.astype(object), "abstain")[numbers]
    np.testing.assert_array_equal(model.predict(X), expected)
    assert model.abstain_label_ == "abstain"
    assert model.score(X, names) == selective(coverage=0.6).fit(X, y).score(X, y)
    renamed = model.set_params(abstain_label="do not know").fit(X, names)
    assert set(renamed.predict(X)) == {*NAMES, "do not know"}


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint8, np.float32])
def test_labels_that_are_numbers(dtype):
    X, y = make_data(n_classes=2)
    model = selective(coverage=0.5).fit(X, y.astype(dtype))
    assert set(model.predict(X).tolist()) == {-1, 0, 1}
    assert model.score(X, y.astype(dtype)) > 0.9


def test_search_in_a_pipeline():
    X, y = make_data(900)
    pipeline = make_pipeline(StandardScaler(), selective(coverage=0.5, cv=2))
    name = "selectiveclassifier__"
    search = GridSearchCV(
        pipeline,
        [
            {name + "coverage": [0.4, 0.9]},
            {name + "coverage": [None], name + "max_risk": [0.2]},
            {name + "estimator__var_smoothing": [1e-9, 1e-1]},
            {name + "confidence": ["margin"]},
        ],
        cv=2,
        error_score="raise",
    ).fit(X, y)
    scores = search.cv_results_["mean_test_score"]
    assert scores[0] > scores[3] > scores[1]
    again = pickle.loads(pickle.dumps(search))
    np.testing.assert_array_equal(again.predict(X), search.predict(X))


def test_around_other_estimators():
    """In a search, and with a calibrated classifier."""
    X, y = make_data()
    search = GridSearchCV(GaussianNB(), {"var_smoothing": [1e-1]}, cv=2)
    calibrated = CalibratedClassifier(
        GaussianNB(), TemperatureScaling(), cv=2, n_repeats=1
    )
    for estimator in (search, calibrated, make_pipeline(StandardScaler(), search)):
        model = selective(estimator, max_risk=0.2, cv=2).fit(X, y)
        assert model.score(X, y) > 0.8
        np.testing.assert_array_equal(
            clone(model).fit(X, y).predict(X), model.predict(X)
        )


def test_pandas():
    X, y = make_data()
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).sample(frac=1, random_state=0)
    target = pd.Series(NAMES[y], name="class").loc[frame.index]
    model = SelectiveClassifier(GaussianNB(), coverage=0.5, cv=2).fit(frame, target)
    np.testing.assert_array_equal(model.feature_names_in_, frame.columns)
    expected = clone(model).fit(frame.to_numpy(), target.to_numpy())
    np.testing.assert_array_equal(
        model.predict(frame), expected.predict(frame.to_numpy())
    )
    assert model.score(frame, target) == expected.score(frame.to_numpy(), target)


@pytest.mark.parametrize("kind", [np.datetime64, np.timedelta64])
def test_dates_and_durations_as_labels(kind):
    """NaT stands for abstentions; nanoseconds, as in pandas, do not become integers."""
    X, y = make_data(200, n_classes=2)
    classes = np.array([3, 5]).astype(kind(1, "ns").dtype)
    model = SelectiveClassifier(
        FrozenEstimator(GaussianNB().fit(X, classes[y])),
        max_risk={"false_negative_rate": {classes[0]: 0.1}},
    ).fit(X, classes[y])
    predicted, accepted = model.predict(X), model.accepts(X)
    assert predicted.dtype == classes.dtype
    np.testing.assert_array_equal(np.isnat(predicted), ~accepted)
    assert not accepted.all()
    proba = model.predict_proba(X)[:, 0]
    error = expected_calibration_error(classes[y], proba, pos_label=classes[0])
    assert error == expected_calibration_error(y == 0, proba)
    priors = {classes[1]: 0.25, classes[0]: 0.75}
    np.testing.assert_array_equal(check_priors(priors, classes, "priors"), [0.75, 0.25])
    with pytest.raises(ValueError, match=rf"a {kind.__name__}, .* got -1.* None"):
        clone(model).set_params(abstain_label=-1).fit(X, classes[y])
    with pytest.raises(ValueError, match="must not be one of the classes"):
        clone(model).set_params(abstain_label=classes[0]).fit(X, classes[y])
