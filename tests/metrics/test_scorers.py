"""Scorers call their metric with the correct columns, labels and weights."""

import pickle
from copy import deepcopy
from functools import partial

import numpy as np
import pytest
import sklearn
from joblib import parallel_config
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import make_classification
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score
from sklearn.model_selection import GridSearchCV, KFold, cross_validate
from sklearn.svm import SVC

from sklearn_calib.metrics import (
    augrc_loss,
    aurc_loss,
    averaged_two_bin_error,
    calibration_decision_loss,
    classwise_calibration_error,
    coverage_at_risk,
    cutoff_calibration_error,
    excess_aurc_loss,
    expected_calibration_error,
    expected_cost_loss,
    failure_auroc_score,
    get_scorer,
    get_scorer_names,
    integrated_calibration_index,
    kde_calibration_error,
    kernel_calibration_error,
    ks_calibration_error,
    maximum_calibration_error,
    proper_calibration_error,
    quantile_squared_error,
    refinement_error,
    risk_at_coverage,
    root_brier_score_loss,
    smooth_calibration_error,
    smooth_expected_calibration_error,
    variational_calibration_error,
)


def of_the_positive_class(y, proba, **options):
    """Evaluate the positive class for two classes, and the top label for more."""
    proba = proba[:, 1] if proba.shape[1] == 2 else proba
    options = {"n_bins": "cube_root", "strategy": "quantile", **options}
    return expected_calibration_error(y, proba, **options)


# They depend on the effective number of samples, which repetitions increase, or on
# folds, between which repetitions are divided.
EFFECTIVE = {"neg_refinement", "neg_variational_calibration"}
# Metrics by the names of scorers. Those of groups, which need metadata, are tested in
# test_group_scorers.py, and those of prediction sets in test_set_coverage.py.
PROMISED = {
    "coverage_at_5_percent_risk": partial(coverage_at_risk, max_risk=0.05),
    "failure_auroc": failure_auroc_score,
    "neg_adaptive_ece": lambda y, proba, **options: expected_calibration_error(
        y, proba, strategy="quantile", **options
    ),
    "neg_augrc": augrc_loss,
    "neg_aurc": aurc_loss,
    "neg_averaged_two_bin": partial(averaged_two_bin_error, mode="classwise"),
    "neg_brier_refinement": partial(
        refinement_error, loss="brier", recalibration="isotonic"
    ),
    "neg_calibration_decision": calibration_decision_loss,
    "neg_classwise_adaptive_ece": partial(
        classwise_calibration_error, strategy="quantile"
    ),
    "neg_classwise_ece": classwise_calibration_error,
    "neg_cutoff_error": cutoff_calibration_error,
    "neg_debiased_ece": partial(expected_calibration_error, reduce_bias=True),
    "neg_debiased_l2_calibration_error": partial(
        of_the_positive_class, norm="l2", reduce_bias=True
    ),
    "neg_e50": partial(integrated_calibration_index, statistic=0.5),
    "neg_e90": partial(integrated_calibration_index, statistic=0.9),
    "neg_ece": expected_calibration_error,
    "neg_emax": partial(integrated_calibration_index, statistic="max"),
    "neg_excess_aurc": excess_aurc_loss,
    "neg_expected_cost": expected_cost_loss,
    "neg_ici": integrated_calibration_index,
    "neg_isotonic_ece": partial(expected_calibration_error, strategy="isotonic"),
    "neg_kde_ece": kde_calibration_error,
    "neg_kernel_calibration_error": kernel_calibration_error,
    "neg_ks_error": ks_calibration_error,
    "neg_l1_calibration_error": of_the_positive_class,
    "neg_l2_calibration_error": partial(of_the_positive_class, norm="l2"),
    "neg_max_calibration_error": partial(of_the_positive_class, norm="max"),
    "neg_mce": maximum_calibration_error,
    "neg_proper_calibration": partial(
        proper_calibration_error, loss="brier", recalibration="isotonic"
    ),
    "neg_quantile_squared": partial(quantile_squared_error, mode="classwise"),
    "neg_refinement": refinement_error,
    "neg_risk_at_80_percent_coverage": partial(risk_at_coverage, coverage=0.8),
    "neg_root_brier": root_brier_score_loss,
    "neg_smooth_calibration_error": smooth_calibration_error,
    "neg_smooth_ece": smooth_expected_calibration_error,
    "neg_sweep_ece": partial(
        expected_calibration_error, n_bins="sweep", strategy="quantile"
    ),
    "neg_variational_calibration": partial(
        variational_calibration_error, mode="canonical"
    ),
    "refinement_auc": failure_auroc_score,
}
NAMES = [
    name
    for name in get_scorer_names()
    if not (get_scorer(name).needs_groups or get_scorer(name).needs_sets)
]
all_scorers = pytest.mark.parametrize("name", NAMES)


@pytest.fixture(scope="module", params=[2, 3])
def problem(request):
    """Return a fitted classifier and data whose labels are strings."""
    X, codes = make_classification(
        n_samples=120,
        n_informative=5,
        n_classes=request.param,
        flip_y=0.3,
        random_state=0,
    )
    y = np.array(["pear", "apple", "plum"])[codes]
    return LogisticRegression().fit(X[:75], y[:75]), X[75:], y[75:]


def test_no_scorer_is_left_out():
    assert [*PROMISED] == NAMES


@all_scorers
def test_is_the_metric_with_its_sign(name, problem):
    classifier, X, y = problem
    proba, sign = classifier.predict_proba(X), -1 if name.startswith("neg_") else 1
    metric = PROMISED[name]
    expected = sign * metric(y, proba, labels=classifier.classes_)
    assert get_scorer(name)(classifier, X, y) == pytest.approx(expected, rel=1e-9)
    # Without a class in the test data.
    rest = y != "apple"
    expected = sign * metric(y[rest], proba[rest], labels=classifier.classes_)
    value = get_scorer(name)(classifier, X[rest], y[rest])
    assert value == pytest.approx(expected, rel=1e-9)


@all_scorers
def test_weights(name, problem):
    classifier, X, y = problem
    # Two equal samples have a larger effective number than one of weight 2.
    weight = np.arange(len(y)) % (2 if name == "neg_refinement" else 3)
    value = get_scorer(name)(classifier, X, y, sample_weight=weight)
    if name in EFFECTIVE:
        proba, labels = classifier.predict_proba(X), classifier.classes_
        expected = PROMISED[name](y, proba, labels=labels, sample_weight=weight)
        assert value == pytest.approx(-expected, rel=1e-9)
        return
    repeated = get_scorer(name)(classifier, X.repeat(weight, axis=0), y.repeat(weight))
    assert value == pytest.approx(repeated, rel=1e-9)


@all_scorers
def test_class_that_the_classifier_never_saw(name, problem):
    classifier, X, y = problem
    y = np.where(np.arange(len(y)) < 3, "quince", y)
    with pytest.raises(
        ValueError, match=r"got also \['quince'\].*train the classifier on"
    ):
        get_scorer(name)(classifier, X, y)


@all_scorers
def test_pickle_and_copy(name, problem):
    """A copy of a copy, by each way of copying, is the scorer."""
    scorer = get_scorer(name)
    copy = pickle.loads(pickle.dumps(scorer))
    copy = clone(deepcopy(copy), safe=False)
    search = clone(GridSearchCV(LogisticRegression(), {"C": [1]}, scoring=copy))
    assert search.scoring(*problem) == scorer(*problem)


@pytest.mark.filterwarnings("ignore:failure_auroc_score is not defined")
@all_scorers
def test_a_class_absent_from_a_training_fold(name, problem):
    """The error is raised or becomes a NaN, depending on `error_score`."""
    _, X, y = problem
    order = np.argsort(y)
    options = {"scoring": get_scorer(name), "cv": KFold(len(set(y)))}
    model = DummyClassifier()
    with pytest.raises(
        ValueError, match=r"got also \['\w+'\]|need classifier with two classes"
    ):
        cross_validate(model, X[order], y[order], error_score="raise", **options)


def test_predictions_are_shared_between_scorers(problem):
    """`predict_proba` is called once for any number of scorers."""
    _, X, y = problem

    class Counting(ClassifierMixin, BaseEstimator):
        n_calls = 0

        def fit(self, _, y):
            self.classes_ = np.unique(y)
            return self

        def predict_proba(self, X):
            Counting.n_calls += 1
            return np.full((len(X), len(self.classes_)), 1 / len(self.classes_))

    names = [*NAMES, "neg_log_loss"]
    scoring = {name: get_scorer(name) for name in names}
    cross_validate(Counting(), X, y, cv=2, scoring=scoring)
    assert Counting.n_calls == 2


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.fixture(scope="module")
def routed(problem):
    """Return the results of all scorers, which request weights, and the weights."""
    _, X, y = problem
    weight = np.arange(len(y)) % 3
    with sklearn.config_context(enable_metadata_routing=True):
        scorers = {
            name: get_scorer(name).set_score_request(sample_weight=True)
            for name in NAMES
        }
        result = cross_validate(
            LogisticRegression().set_fit_request(sample_weight=True),
            X,
            y,
            cv=KFold(2),
            scoring=scorers,
            params={"sample_weight": weight},
            return_estimator=True,
            return_indices=True,
        )
    return result, weight


@all_scorers
def test_routed_weights(name, problem, routed):
    """Weights are routed on request, as for neg_log_loss."""
    (_, X, y), (result, weight), key = problem, routed, f"test_{name}"
    tests, models = result["indices"]["test"], result["estimator"]
    for score, test, fitted in zip(result[key], tests, models, strict=True):
        expected = get_scorer(name)(
            fitted, X[test], y[test], sample_weight=weight[test]
        )
        assert score == pytest.approx(expected, rel=1e-12)
    unweighted = get_scorer(name)(fitted, X[test], y[test])
    # The largest gap may be that of a single sample, whatever its weight.
    if name not in ("neg_max_calibration_error", "neg_mce"):
        assert score != pytest.approx(unweighted, rel=1e-6)


@pytest.mark.usefixtures("routing")
def test_routed_weights_in_a_search(problem):
    _, X, y = problem
    weight = np.arange(len(y)) % 3
    search = GridSearchCV(
        LogisticRegression().set_fit_request(sample_weight=True),
        {"C": [0.1, 1]},
        scoring={
            "neg_ece": get_scorer("neg_ece").set_score_request(sample_weight=True),
            "plain": get_scorer("neg_ece").set_score_request(sample_weight=False),
        },
        refit="neg_ece",
        cv=2,
        n_jobs=2,
    )
    with parallel_config("threading"):
        results = search.fit(X, y, sample_weight=weight).cv_results_
    assert np.isfinite(results["mean_test_neg_ece"]).all()
    assert (results["mean_test_neg_ece"] != results["mean_test_plain"]).all()


def test_get_scorer():
    assert get_scorer("neg_ece") is not get_scorer("neg_ece")
    assert get_scorer("accuracy")._score_func is accuracy_score
    scorer = get_scorer("neg_ece")
    assert get_scorer(scorer) is scorer
    assert "expected_calibration_error" in repr(scorer)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("ece", r"got 'ece'\. Did you mean 'neg_ece'\?"),
        ("neg_ec", r"got 'neg_ec'\. Did you mean 'neg_ece'\?"),
        ("acuracy", r"Did you mean 'accuracy'\?"),
        ("neg_expected_calibration_error", r"Did you mean 'neg_ece'\?"),
        ("NLL", r"Did you mean 'neg_log_loss'\?"),
        ("zzz", r"got 'zzz'\. Valid names are \['coverage_at_5_percent_risk', "),
        (["neg_ece"], r"The 'scoring' parameter of get_scorer .* Got \['neg_ece'\]"),
    ],
)
def test_unknown_name(name, hint):
    with pytest.raises(ValueError, match=hint):
        get_scorer(name)


def test_a_classifier_without_probabilities(problem):
    _, X, y = problem
    with pytest.raises(AttributeError, match="predict_proba"):
        get_scorer("neg_ece")(SVC().fit(X, y), X, y)
