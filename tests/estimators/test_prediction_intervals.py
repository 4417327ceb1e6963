"""`predict_interval` of `CalibratedClassifier`: a Bayesian bootstrap."""

import pickle
import warnings

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import expit, logit, softmax
from scipy.stats import t
from sklearn.datasets import make_classification, make_multilabel_classification
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import LinearSVC

from sklearn_calib import CalibratedClassifier
from sklearn_calib.calibrators import (
    BBQ,
    AutoCalibrator,
    FocalPosterior,
    HistogramBinning,
    IsotonicCalibration,
    PerGroupCalibrator,
    PlattScaling,
    TemperatureScaling,
    TopLabelCalibrator,
    VectorScaling,
)

X, Y = make_classification(
    300, n_informative=5, n_classes=3, flip_y=0.2, random_state=0
)
NAMES = np.array(["c", "a", "b"])[Y]
CODES = np.searchsorted(["a", "b", "c"], NAMES)
FROZEN = FrozenEstimator(LogisticRegression(max_iter=1000).fit(X[:150], NAMES[:150]))
DRAWS = {"n_resamples": 4, "random_state": 0}


def temperature(logits, codes, weight):
    """Return the temperature with the lowest weighted log loss, by SciPy."""

    def loss(log_t):
        proba = softmax(logits / np.exp(log_t), axis=1)
        return -weight @ np.log(proba[np.arange(len(codes)), codes])

    options = {"bounds": (-5, 5), "method": "bounded", "options": {"xatol": 1e-9}}
    return np.exp(minimize_scalar(loss, **options).x)


@pytest.mark.parametrize("model", [FROZEN, FROZEN.estimator], ids=["frozen", "folds"])
def test_each_draw_fits_the_calibrators_with_exponential_weights(model):
    """The formula of Notes, for temperatures found by SciPy."""
    weight = 1 + np.arange(300) % 2
    cv = KFold(2)
    found = CalibratedClassifier(model, TemperatureScaling(), cv=cv).fit(
        X, NAMES, sample_weight=weight
    )
    pairs = found.calibrated_classifiers_
    tests = [np.arange(300)] if model is FROZEN else [test for _, test in cv.split(X)]
    all_logits = [pair.estimator.decision_function(X) for pair in pairs]

    def log_odds(weight):
        members = [
            softmax(z / temperature(z[test], CODES[test], weight[test]), axis=1)
            for z, test in zip(all_logits, tests, strict=True)
        ]
        return logit(np.mean(members, axis=0))

    rng = np.random.RandomState(0)
    middle = log_odds(weight)
    draws = [log_odds(weight * rng.exponential(size=300)) for _ in range(4)]
    width = t.ppf(0.95, 4) * np.sqrt(np.mean((np.array(draws) - middle) ** 2, axis=0))
    interval = found.predict_interval(X, confidence_level=0.9, **DRAWS)
    low, high = np.moveaxis(interval, 2, 0)
    np.testing.assert_allclose(low, expit(middle - width), rtol=1e-5)
    np.testing.assert_allclose(high, expit(middle + width), rtol=1e-5)
    assert (np.diff(interval) > 0).all()


def test_samples_of_a_group_have_one_weight():
    """Copies of a sample in one group are a sample of their number as the weight."""
    model = CalibratedClassifier(FROZEN, TemperatureScaling())
    interval = model.fit(X, NAMES).predict_interval(X, **DRAWS)
    model.fit(np.tile(X, (3, 1)), np.tile(NAMES, 3), groups=np.tile(range(300), 3))
    np.testing.assert_allclose(model.predict_interval(X, **DRAWS), interval, rtol=1e-6)
    model.fit(X, NAMES, groups=np.arange(300) // 10)
    with pytest.warns(UserWarning, match="at least 50 groups, got 30"):
        interval = model.predict_interval(X, **DRAWS)
    # Each combination of several columns is a group.
    columns = np.column_stack([np.arange(300) // 100, np.arange(300) // 10 % 10])
    model.fit(X, NAMES, groups=columns)
    with pytest.warns(UserWarning, match="at least 50 groups, got 30"):
        np.testing.assert_array_equal(model.predict_interval(X, **DRAWS), interval)


def test_the_average_is_calibrated_again_in_each_draw():
    """A map without parameters is the same in each draw."""
    model = CalibratedClassifier(GaussianNB(), FocalPosterior()).fit(X, NAMES)
    assert model.pool_temperature_ < 1
    assert (np.diff(model.predict_interval(X, **DRAWS)).max(axis=(1, 2)) > 0).all()
    frozen = CalibratedClassifier(FROZEN, FocalPosterior()).fit(X, NAMES)
    assert np.diff(frozen.predict_interval(X, **DRAWS)).max() < 1e-9


LABELS = make_multilabel_classification(300, n_classes=3, random_state=0)


@pytest.mark.parametrize(
    ("classifier", "calibrator", "data"),
    [
        (GaussianNB(), "platt", (X, NAMES)),
        (KNeighborsClassifier(), "platt", LABELS),
    ],
)
def test_log_odds_of_the_limits_are_symmetric(classifier, calibrator, data):
    """Also for repeats, in which several classifiers share a calibrator."""
    model = CalibratedClassifier(classifier, calibrator, cv=2).fit(*data)
    interval = model.predict_interval(data[0], **DRAWS)
    middle, proba = logit(interval).mean(axis=2), model.predict_proba(data[0])
    np.testing.assert_allclose(middle, logit(proba), rtol=1e-6, atol=1e-6)
    assert 0.01 < np.diff(interval).mean() < 0.3


def test_intervals_of_shrunk_maps_may_be_too_narrow():
    model = CalibratedClassifier(FROZEN, "auto").fit(X, NAMES)
    with pytest.warns(UserWarning, match='calibrator="auto" may be too narrow'):
        interval = model.predict_interval(X, **DRAWS)
    middle, proba = logit(interval).mean(axis=2), model.predict_proba(X)
    np.testing.assert_allclose(middle, logit(proba), rtol=1e-6, atol=1e-6)
    labels = CalibratedClassifier(KNeighborsClassifier(), cv=2, n_repeats=1)
    labels.fit(LABELS[0], LABELS[1][:, :1].repeat(2, axis=1))
    with pytest.warns(UserWarning, match='calibrator="auto" may be too narrow'):
        labels.predict_interval(LABELS[0][:5], **DRAWS)


def test_margins_and_groups():
    model = CalibratedClassifier(LinearSVC(), PlattScaling(), cv=2).fit(X, NAMES)
    interval = model.predict_interval(X, **DRAWS)
    assert (interval[..., 0] <= model.predict_proba(X)).all()
    per_group, groups = PerGroupCalibrator(TemperatureScaling()), {"groups": Y > 0}
    model = CalibratedClassifier(FROZEN, per_group).fit(X, NAMES, **groups)
    interval = model.predict_interval(X, **groups, **DRAWS)
    assert (interval[..., 0] <= model.predict_proba(X, **groups)).all()
    with pytest.raises(ValueError, match="groups must be given"):
        model.predict_interval(X)


def test_separable_data_have_finite_intervals(recwarn):
    x = np.repeat([-1.0, 1.0], 20)[:, None]
    logistic = LogisticRegression().fit(x, x[:, 0])
    model = CalibratedClassifier(FrozenEstimator(logistic), VectorScaling())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(x, x[:, 0])
    interval = model.predict_interval(1000 * x, **DRAWS)
    assert ((interval >= 0) & (interval <= 1)).all()
    assert not recwarn.list


STEPS = [
    IsotonicCalibration(),
    AutoCalibrator([TopLabelCalibrator(HistogramBinning()), PlattScaling()]),
    PerGroupCalibrator(BBQ()),
]


@pytest.mark.parametrize("calibrator", STEPS, ids=str)
def test_maps_with_steps_are_refused(calibrator):
    model = CalibratedClassifier(FROZEN, calibrator)
    with pytest.raises(AttributeError) as error:
        model.predict_interval(X)
    message = str(error.value.__cause__)
    assert "calibrator without steps, where the bootstrap is inconsistent" in message
    assert "such as VennAbers()" in message


def test_other_classifiers_without_intervals():
    """For margins, "auto" contains isotonic regression."""
    assert hasattr(CalibratedClassifier(GaussianNB()), "predict_interval")
    margins = CalibratedClassifier(LinearSVC(), cv=2, n_repeats=1)
    logistic = CalibratedClassifier(FROZEN, LogisticRegression()).fit(X, NAMES)
    model = CalibratedClassifier(FROZEN, TemperatureScaling()).fit(X, NAMES)
    again = pickle.loads(pickle.dumps(model))
    expected = model.predict_interval(X, **DRAWS)
    np.testing.assert_array_equal(again.predict_interval(X, **DRAWS), expected)
    for each in (margins.fit(X, NAMES), logistic, model.uncalibrated()):
        assert not hasattr(each, "predict_interval")


def test_data_of_fit_are_kept_only_if_they_are_used():
    model = CalibratedClassifier(GaussianNB(), TemperatureScaling(), cv=2)
    sizes = [len(pickle.dumps(model.fit(X, NAMES).uncalibrated()))]
    assert model.fit(X, NAMES, groups=np.arange(300)).reference_
    assert len(pickle.dumps(model.uncalibrated())) < sizes[0] + 100
    for calibrator in (HistogramBinning(), LogisticRegression()):
        sizes = [
            len(pickle.dumps(CalibratedClassifier(FROZEN, calibrator).fit(*data)))
            for data in ((X, NAMES), (np.tile(X, (9, 1)), np.tile(NAMES, 9)))
        ]
        assert sizes[1] < sizes[0] + 1000
