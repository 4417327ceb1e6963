"""`PriorShiftClassifier`: adjustment of any classifier, and its use in scikit-learn."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from sklearn_calib import CalibratedClassifier
from sklearn_calib.calibrators import PlattScaling
from sklearn_calib.deployment import (
    PriorShiftClassifier,
    adjust_priors,
    estimate_priors,
)

NAMES = np.array(["ant", "bee", "cat"])


def draw(n_samples, priors, random_state=0):
    """Return noisy data with given class frequencies, and labels as strings."""
    rng = np.random.default_rng(random_state)
    codes = rng.choice(len(priors), n_samples, p=priors)
    X = 1.5 * np.eye(3)[codes] + rng.normal(size=(n_samples, 3))
    return X, NAMES[codes]


def shift(estimator=None, **params):
    params = {"random_state": 0, "n_resamples": 10, **params}
    return PriorShiftClassifier(estimator or GaussianNB(), **params)


@parametrize_with_checks(
    [
        shift(LogisticRegression()),
        shift(LogisticRegression(), train_priors="balanced"),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator.set_params(estimator__tol=0.1))


# What it predicts


def test_before_adapt_nothing_changes():
    X, y = draw(500, [0.5, 0.3, 0.2])
    model, plain = shift().fit(X, y), GaussianNB().fit(X, y)
    np.testing.assert_allclose(
        model.predict_proba(X), plain.predict_proba(X), rtol=1e-12, atol=1e-300
    )
    np.testing.assert_array_equal(model.predict(X), plain.predict(X))
    np.testing.assert_allclose(model.priors_, plain.class_prior_)
    assert not hasattr(model, "priors_interval_")


def test_naive_bayes_with_other_priors_is_adjusted_exactly():
    """Its priors are a parameter, so the adjustment can be compared with a training."""
    X, y = draw(500, [0.5, 0.3, 0.2])
    priors = {"cat": 0.6, "ant": 0.1, "bee": 0.3}
    other = GaussianNB(priors=[0.1, 0.3, 0.6]).fit(X, y)
    for form in (priors, pd.Series(priors), [0.1, 0.3, 0.6]):
        model = shift(priors=form).fit(X, y)
        found = model.predict_proba(X)
        np.testing.assert_allclose(found, other.predict_proba(X), rtol=1e-9)
        np.testing.assert_array_equal(model.predict(X), other.predict(X))


def test_adapt_estimates_the_priors_without_labels():
    X, y = draw(3000, [0.5, 0.3, 0.2])
    X_new, y_new = draw(3000, [0.1, 0.3, 0.6], random_state=1)
    model = shift().fit(X, y)
    before = model.predict_proba(X_new)
    assert model.adapt(X_new) is model
    np.testing.assert_allclose(model.priors_, [0.1, 0.3, 0.6], atol=0.03)
    assert model.priors_interval_.shape == (3, 2)
    assert (np.diff(model.priors_interval_) > 0).all()
    after = model.predict_proba(X_new)
    assert log_loss(y_new, after) < log_loss(y_new, before) - 0.1
    by_hand, interval = estimate_priors(
        before, model.train_priors_, n_resamples=10, random_state=0
    )
    np.testing.assert_allclose(model.priors_, by_hand, rtol=1e-9)
    np.testing.assert_allclose(model.priors_interval_, interval, rtol=1e-9)
    expected = adjust_priors(before, model.train_priors_, by_hand)
    np.testing.assert_allclose(after, expected, rtol=1e-9)
    # The estimate replaces the last one, and a fit removes it.
    model.adapt(X)
    np.testing.assert_allclose(model.priors_, [0.5, 0.3, 0.2], atol=0.03)
    assert not hasattr(model.fit(X, y), "priors_interval_")


def test_adapt_weights_the_samples():
    X, y = draw(2000, [0.5, 0.3, 0.2])
    X_new, _ = draw(2000, [0.1, 0.3, 0.6], random_state=1)
    both = np.vstack([X, X_new])
    weight = np.repeat([0.0, 2.0], 2000)
    model = shift().fit(X, y)
    expected = model.adapt(X_new).priors_
    found = model.adapt(both, sample_weight=weight).priors_
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_interval_follows_the_parameters():
    X, y = draw(500, [0.5, 0.3, 0.2])
    widths = [
        np.diff(shift(confidence_level=level).fit(X, y).adapt(X).priors_interval_)
        for level in (0.5, 0.95)
    ]
    assert (widths[0] < widths[1]).all()


def test_after_calibration():
    """A frozen calibrated classifier whose new data have another prevalence."""
    X, y = draw(2000, [0.5, 0.5, 0.0])
    X_new, y_new = draw(2000, [0.9, 0.1, 0.0], random_state=1)
    nearest = KNeighborsClassifier(5)  # overconfident
    model = CalibratedClassifier(nearest, PlattScaling(), cv=2).fit(X, y)
    adapted = shift(FrozenEstimator(model)).fit(X, y).adapt(X_new)
    assert adapted.estimator_.estimator is model
    np.testing.assert_allclose(adapted.priors_, [0.9, 0.1], atol=0.03)
    raw = shift(nearest).fit(X, y).adapt(X_new)
    losses = [
        log_loss(y_new, each.predict_proba(X_new)) for each in (adapted, model, raw)
    ]
    assert losses[0] < 0.65 * losses[1]
    assert losses[0] < 0.5 * losses[2]


# Resampling and class weights


def imbalanced(n_samples=6000, random_state=0):
    X, y = draw(n_samples, [0.95, 0.05, 0.0], random_state)
    return X, (y == "bee").astype(int)


def test_class_weights_are_undone():
    """The intercept of logistic regression is all that changes, up to noise."""
    X, y = imbalanced()
    X_new, _ = imbalanced(random_state=1)
    plain = LogisticRegression().fit(X, y).predict_proba(X_new)
    weights = {0: 1.0, 1: 7.0}
    frequencies = np.bincount(y) / len(y)
    trained = frequencies * [1, 7] / (frequencies * [1, 7]).sum()
    for class_weight, train_priors in (("balanced", "balanced"), (weights, trained)):
        weighted = LogisticRegression(class_weight=class_weight)
        raw = weighted.fit(X, y).predict_proba(X_new)
        model = shift(weighted, train_priors=train_priors).fit(X, y)
        found = model.predict_proba(X_new)
        assert abs(raw - plain).mean() > 0.05
        assert abs(found - plain).mean() < 0.01
        expected = adjust_priors(raw, model.train_priors_, frequencies)
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    np.testing.assert_allclose(model.train_priors_, trained)


@pytest.mark.parametrize("name", ["RandomUnderSampler", "RandomOverSampler", "SMOTE"])
def test_samplers_of_imbalanced_learn_are_undone(name):
    imblearn = pytest.importorskip("imblearn", reason="imbalanced-learn is optional")
    imblearn_pipeline = pytest.importorskip("imblearn.pipeline")
    samplers = {**vars(imblearn.over_sampling), **vars(imblearn.under_sampling)}
    X, y = imbalanced()
    X_new, y_new = imbalanced(random_state=1)
    sampler = samplers[name](random_state=0)
    resampled = imblearn_pipeline.make_pipeline(sampler, LogisticRegression())
    raw = clone(resampled).fit(X, y).predict_proba(X_new)
    model = shift(resampled, train_priors="balanced").fit(X, y)
    proba = model.predict_proba(X_new)
    # Balanced classes: the odds are divided by the odds of the original data.
    odds = y.mean() / (1 - y.mean()) * raw[:, 1] / raw[:, 0]
    np.testing.assert_allclose(proba[:, 1], odds / (1 + odds), rtol=1e-9)
    assert raw[:, 1].mean() > 0.2
    assert proba[:, 1].mean() == pytest.approx(y_new.mean(), abs=0.015)
    plain = LogisticRegression().fit(X, y).predict_proba(X_new)
    assert log_loss(y_new, proba) == pytest.approx(log_loss(y_new, plain), rel=0.03)
    # A ratio of 1 to 2 is 1/3.
    sampler.set_params(sampling_strategy=0.5)
    model = shift(resampled, train_priors={0: 2 / 3, 1: 1 / 3}).fit(X, y)
    assert model.predict_proba(X_new)[:, 1].mean() == pytest.approx(0.05, abs=0.015)


def test_training_with_other_frequencies_is_not_ignored():
    X, y = imbalanced(200)
    weighted = LogisticRegression(class_weight="balanced")
    imblearn = pytest.importorskip("imblearn", reason="imbalanced-learn is optional")
    sampler = imblearn.over_sampling.RandomOverSampler(sampling_strategy=0.5)
    resampled = imblearn.pipeline.make_pipeline(
        StandardScaler(), sampler, LogisticRegression()
    )
    for model, change in {
        FrozenEstimator(weighted.fit(X, y)): "class_weight='balanced' of Logistic",
        resampled: "sampling_strategy=0.5 of RandomOverSampler",
        CalibratedClassifier(resampled, "temperature", cv=2): "sampling_strategy=0.5",
        CalibratedClassifier(resampled, None): "sampling_strategy=0.5",
    }.items():
        with pytest.warns(UserWarning, match=f"train_priors .* None with {change}"):
            shift(model).fit(X, y)
    for params in ({"class_weight": {0: 1, 1: 1}}, {"class_weight": {}}):
        shift(LogisticRegression(**params)).fit(X, y)
    # Platt scaling is fitted to samples with the original frequencies.
    calibrated = CalibratedClassifier(resampled, "platt", cv=2)
    proba = shift(calibrated).fit(X, y).predict_proba(X)
    assert proba[:, 1].mean() == pytest.approx(y.mean(), abs=0.02)


# With scikit-learn


def test_pandas_pipelines_and_searches():
    X, y = draw(300, [0.5, 0.3, 0.2])
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    pipeline = make_pipeline(StandardScaler(), LogisticRegression())
    model = shift(pipeline).fit(frame, pd.Series(y)).adapt(frame)
    np.testing.assert_array_equal(model.feature_names_in_, frame.columns)
    np.testing.assert_array_equal(model.classes_, NAMES)
    search = GridSearchCV(
        shift(LogisticRegression()), {"estimator__C": [0.1, 1], "priors": [None]}, cv=2
    )
    assert search.fit(X, y).best_estimator_.n_features_in_ == 3


def test_weights_of_fit_count_in_the_frequencies():
    X, y = draw(300, [0.5, 0.3, 0.2])
    weight = np.where(y == "ant", 3.0, 1.0)
    model = shift().fit(X, y, sample_weight=weight)
    expected = GaussianNB().fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(model.train_priors_, expected.class_prior_)
    np.testing.assert_allclose(
        model.predict_proba(X), expected.predict_proba(X), rtol=1e-9
    )
    with pytest.warns(UserWarning, match="only used by the class frequencies"):
        shift(KNeighborsClassifier()).fit(X, y, sample_weight=weight)


def test_metadata_routing():
    X, y = draw(300, [0.5, 0.3, 0.2])
    weight = np.where(y == "ant", 3.0, 1.0)
    with config_context(enable_metadata_routing=True):
        requests = GaussianNB().set_fit_request(sample_weight=True)
        model = shift(requests).fit(X, y, sample_weight=weight)
    expected = GaussianNB().fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(model.estimator_.theta_, expected.theta_)


def test_adapted_classifier_is_pickled():
    X, y = draw(300, [0.5, 0.3, 0.2])
    model = shift().fit(X, y).adapt(X[:200])
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert not hasattr(clone(model), "priors_")


def test_classes_of_a_frozen_classifier():
    """A class that is absent from y has no frequency, which must be given."""
    X, y = draw(300, [0.5, 0.3, 0.2])
    frozen = FrozenEstimator(GaussianNB().fit(X, y))
    some = y != "bee"
    with pytest.raises(ValueError, match=r"train_priors must be positive.* \['bee'\]"):
        shift(frozen).fit(X[some], y[some])
    model = shift(frozen, train_priors=[0.5, 0.3, 0.2]).fit(X[some], y[some])
    assert model.priors_[1] == 0
    assert (model.predict_proba(X)[:, 1] == 0).all()
    with pytest.raises(ValueError, match=r"y must contain only .* got also \['dog'\]"):
        shift(frozen).fit(X[:2], ["ant", "dog"])


# Bad input


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"priors": {"ant": 1.0}}, r"priors must have the class labels as keys, .*'be"),
        ({"priors": {"ant": 0.5, "bee": 0.2, "dog": 0.3}}, r"as keys.*got .*'dog'"),
        ({"priors": [0.5, 0.5]}, "must match number of classes: priors"),
        ({"priors": [0.5, 0.5, 0.5]}, r"sum of the priors should be 1: .* sum 1\.5"),
        ({"train_priors": [-0.5, 0.5, 1]}, "must be non-negative: train_priors"),
        ({"train_priors": {"ant": 0, "bee": 0.5, "cat": 0.5}}, r"positive.*\['ant'\]"),
        ({"train_priors": "equal"}, "'train_priors' parameter .*balanced"),
        ({"priors": "em"}, "'priors' parameter of PriorShiftClassifier must be"),
        ({"n_resamples": 0}, "'n_resamples' parameter"),
        ({"confidence_level": 1}, "'confidence_level' parameter"),
        ({"estimator": LinearSVC()}, "estimator must have predict_proba"),
        (
            {"estimator": FixedThresholdClassifier(GaussianNB())},
            "must not have a decision threshold",
        ),
    ],
)
def test_bad_parameters(params, message):
    X, y = draw(60, [0.5, 0.3, 0.2])
    with pytest.raises(ValueError, match=message):
        shift().set_params(**params).fit(X, y)


def test_bad_data():
    X, y = draw(60, [0.5, 0.3, 0.2])
    with pytest.raises(NotFittedError):
        shift().adapt(X)
    model = shift().fit(X, y)
    with pytest.raises(ValueError, match="Found array with 0 sample"):
        model.adapt(X[:0])
    dummy = shift(DummyClassifier()).fit(X, y)  # does not look at X
    with pytest.raises(ValueError, match="Found array with 0 sample"):
        dummy.adapt(X[:0])
    with pytest.raises(ValueError, match="X has 2 features"):
        model.adapt(X[:, :2])
    with pytest.raises(ValueError, match="NaN"):
        model.adapt(np.where(X > 1, np.nan, X))
    masked = np.ma.masked_greater(X, 1)
    for call in (model.adapt, model.predict, lambda data: shift().fit(data, y)):
        with pytest.raises(ValueError, match="X must not contain masked values"):
            call(masked)
    with pytest.raises(ValueError, match="sample_weight"):
        model.adapt(X, sample_weight=np.ones(3))
    # The failures have left it as it was.
    np.testing.assert_array_equal(model.priors_, model.train_priors_)
    with pytest.raises(ValueError, match="at least two classes"):
        model.fit(X[y == "ant"], y[y == "ant"])
    assert model.score(X, y) > 0.5
