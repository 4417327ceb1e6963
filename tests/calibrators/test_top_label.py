"""Top-label calibration: recorded values, values by hand, and nested calibrators."""

import json
import pickle

import numpy as np
import pytest
import torch
from scipy.special import logsumexp, softmax
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.isotonic import IsotonicRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB

from sklearn_calib import CalibratedClassifier
from sklearn_calib.calibrators import (
    BetaCalibration,
    Calibrator,
    FocalPosterior,
    HistogramBinning,
    IsotonicCalibration,
    LogOddsSplineCalibration,
    PlattScaling,
    TemperatureScaling,
    TopLabelCalibrator,
    VennAbers,
)
from sklearn_calib.persistence import from_dict, to_dict

BINARY = [
    BetaCalibration(),
    HistogramBinning(n_bins=3),
    IsotonicCalibration(),
    LogOddsSplineCalibration(),
    PlattScaling(),
    TemperatureScaling(),
    VennAbers(),
]
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def confidences(fitted, X):
    """Return the calibrated probabilities of the classes that X predicts."""
    return fitted.predict_proba(X)[np.arange(len(X)), np.argmax(X, axis=1)]


def mixed(frequency, n_correct, n_samples):
    """Return frequencies mixed with the prior, which counts as one sample."""
    prior = (n_correct + 1) / (n_samples + 2)
    return (n_samples * np.asarray(frequency) + prior) / (n_samples + 1)


def test_recorded_top_label_histogram_binning(reference):
    """The program of Gupta and Ramdas, for 60 samples of each predicted class."""
    inputs = reference("cal_histogram_binning")["inputs"]["multiclass"]
    X, y, test = (
        np.array(inputs[n]) for n in ("fit_logits", "fit_labels", "test_logits")
    )
    top = X.argmax(axis=1)
    rows = np.concatenate([np.flatnonzero(top == k)[:60] for k in range(4)])
    X, y, top = X[rows], y[rows], top[rows]
    fitted = TopLabelCalibrator(
        HistogramBinning(n_bins=3), per_class=True, min_errors=1, from_logits=True
    ).fit(X, y)
    recorded = reference("cal_top_label")["expected"][0]["values"]["test_confidence"]
    n_correct = np.bincount(top[top == y])[test.argmax(axis=1)]
    expected = mixed(recorded, n_correct, 60)
    np.testing.assert_allclose(confidences(fitted, test), expected, atol=1e-8)


def test_frequencies_by_hand():
    """Two bins of the confidence, for all classes and for each predicted class."""
    X = np.array([
        [0.9, 0.1, 0.0], [0.8, 0.1, 0.1], [0.5, 0.3, 0.2], [0.6, 0.4, 0.0],
        [0.0, 0.9, 0.1], [0.1, 0.7, 0.2], [0.3, 0.4, 0.3], [0.1, 0.5, 0.4],
    ])  # fmt: skip
    y = [0, 0, 0, 1, 1, 0, 2, 1]
    histogram = HistogramBinning(n_bins=2)
    fitted = TopLabelCalibrator(histogram).fit(X, y, labels=[0, 1, 2])
    # The confidences 0.4, 0.5, 0.5, 0.6 and 0.7, 0.8, 0.9, 0.9.
    expected = mixed([0.75, 0.75, 0.5, 0.5, 0.75, 0.75, 0.5, 0.5], 5, 8)
    np.testing.assert_allclose(confidences(fitted, X), expected)
    assert fitted.class_calibrators_ == [None] * 3
    fitted = TopLabelCalibrator(histogram, per_class=True, min_errors=1)
    with pytest.warns(UserWarning, match=r"The classes \[2\] have fewer than 1 wr"):
        fitted.fit(X, y, labels=[0, 1, 2])
    # 0.5, 0.6 and 0.8, 0.9 of class 0; 0.4, 0.5 and 0.7, 0.9 of class 1.
    class_0, class_1 = mixed([1, 0.5], 3, 4), mixed([0.5, 0.5], 2, 4)
    expected = [*class_0[[0, 0, 1, 1]], *class_1[[0, 0, 1, 1]]]
    np.testing.assert_allclose(confidences(fitted, X), expected)
    # No sample of fit is predicted as class 2, which has the map of all samples.
    row = [[0.05, 0.0, 0.95]]
    np.testing.assert_allclose(confidences(fitted, row), mixed([0.75], 5, 8))


def test_isotonic_regression_of_scikit_learn(make_logits):
    """Le Coz, Herbin and Adjed fit it to the confidence."""
    logits, y = make_logits(500, 20)
    X = softmax(2 * logits, axis=1)
    fitted = TopLabelCalibrator(IsotonicCalibration()).fit(X, y)
    correct = X.argmax(axis=1) == y
    peer = IsotonicRegression(out_of_bounds="clip").fit(X.max(axis=1), correct)
    expected = mixed(peer.predict(X.max(axis=1)), correct.sum(), 500)
    found = confidences(fitted, X)
    np.testing.assert_allclose(found, np.maximum(expected, 1 / 20), rtol=1e-6)


@pytest.mark.parametrize("calibrator_", BINARY)
def test_the_nested_calibrator_gets_log_odds(calibrator_, make_logits):
    """Its parameter from_logits does not matter, and the object is not changed."""
    logits, y = make_logits(500, 5)
    odds = 2 * logits.max(axis=1)
    odds -= logsumexp(np.sort(2 * logits, axis=1)[:, :-1], axis=1)
    correct = logits.argmax(axis=1) == y
    alone = clone(calibrator_).set_params(from_logits=True).fit(odds, correct)
    fitted = TopLabelCalibrator(calibrator_, from_logits=True).fit(2 * logits, y)
    expected = np.maximum(alone.predict_proba(odds)[:, 1], 1 / 5)
    np.testing.assert_allclose(confidences(fitted, 2 * logits), expected, rtol=1e-6)
    assert not calibrator_.from_logits
    assert not hasattr(calibrator_, "classes_")
    np.testing.assert_array_equal(fitted.calibrator_.classes_, [False, True])


def test_each_predicted_class_has_its_own_map(make_logits):
    logits, y = make_logits(20_000, 4)
    top = logits.argmax(axis=1)
    wrong = logits * np.array([0.5, 1, 2, 4])[top][:, None]
    errors = []
    for per_class in (False, True):
        fitted = TopLabelCalibrator(per_class=per_class, from_logits=True)
        proba = fitted.fit(wrong[::2], y[::2]).predict_proba(wrong[1::2])
        gap = proba.max(axis=1) - (y[1::2] == top[1::2])
        errors.append([abs(gap[top[1::2] == k].mean()) for k in range(4)])
    assert max(errors[1]) < 0.03
    assert max(errors[0]) > 0.1


@pytest.mark.parametrize("calibrator_", BINARY)
def test_laws_of_maps_of_predicted_classes(calibrator_, make_logits):
    """Order of samples and classes, weights, batches, files, and few rows."""
    logits, y = make_logits(200, 3)
    X = softmax(2 * logits, axis=1)
    model = TopLabelCalibrator(calibrator_, per_class=True, min_errors=1)
    proba = model.fit(X, y).predict_proba(X)
    assert None not in model.class_calibrators_
    np.testing.assert_array_equal(proba.argmax(axis=1), X.argmax(axis=1))
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    close = {"rtol": 1e-6, "atol": 1e-12}
    again = clone(model).fit(X[::-1], y[::-1]).predict_proba(X)
    np.testing.assert_allclose(again, proba, **close)
    order = [2, 0, 1]
    again = clone(model).fit(X[:, order], y, labels=order).predict_proba(X[:, order])
    np.testing.assert_allclose(again, proba[:, order], **close)
    weight = np.arange(200) % 3
    weighted = clone(model).fit(X, y, weight).predict_proba(X)
    repeated = clone(model).fit(X.repeat(weight, axis=0), y.repeat(weight))
    np.testing.assert_allclose(weighted, repeated.predict_proba(X), **close)
    chunks = [(X[:1], y[:1]), (X[1:120], y[1:120]), (X[120:], y[120:])]
    parts = clone(model).fit(batches=lambda: iter(chunks), labels=[0, 1, 2])
    np.testing.assert_array_equal(parts.predict_proba(X), proba)
    loaded = from_dict(json.loads(json.dumps(to_dict(model))))
    for other in (loaded, pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(other.predict_proba(X), proba)


@pytest.mark.parametrize("from_logits", [False, True])
@pytest.mark.parametrize("calibrator_", [HistogramBinning(n_bins=3), PlattScaling()])
def test_torch_modules_of_maps_of_predicted_classes(
    calibrator_, from_logits, make_logits
):
    torch = pytest.importorskip("torch")
    logits, y = make_logits(400, 3)
    X = 2 * logits if from_logits else softmax(2 * logits, axis=1)
    # The first class has the shared map.
    y = np.where(logits.argmax(axis=1) == 0, 0, y)
    model = TopLabelCalibrator(
        calibrator_, per_class=True, min_errors=1, from_logits=from_logits
    )
    with pytest.warns(UserWarning, match=r"The classes \[0\] have"):
        model.fit(X, y)
    assert model.class_calibrators_[0] is None
    proba = model.to_torch()(torch.from_numpy(X)).numpy()
    np.testing.assert_allclose(proba, model.predict_proba(X), atol=1e-9)


def test_two_classes_have_one_symmetric_map(make_logits):
    logits, y = make_logits(2000, 2)
    odds = 3 * (logits[:, 1] - logits[:, 0])
    fitted = TopLabelCalibrator(PlattScaling(), from_logits=True).fit(odds, y)
    proba = fitted.predict_proba(odds)
    np.testing.assert_allclose(fitted.predict_proba(-odds), proba[:, ::-1])
    np.testing.assert_array_equal(proba[:, 1] > 0.5, odds > 0)
    assert fitted.n_features_in_ == 1


def test_confidences_below_chance_are_those_of_chance():
    """A predicted class that is never correct is still the predicted class."""
    X = np.random.default_rng(0).dirichlet(np.ones(4), size=400)
    y = X.argmin(axis=1)
    for dtype in (np.float64, np.float32):
        fitted = TopLabelCalibrator(IsotonicCalibration()).fit(X.astype(dtype), y)
        proba = fitted.predict_proba(X.astype(dtype))
        np.testing.assert_allclose(proba, 0.25, rtol=1e-5)
        np.testing.assert_array_equal(proba.argmax(axis=1), X.argmax(axis=1))


@pytest.mark.parametrize("size", [1e-3, 40.0, 700.0, 1e5, 1e200])
def test_small_and_large_logits(size):
    """The rest of a confidence of one is divided among the other classes."""
    rng = np.random.default_rng(0)
    logits = size * rng.normal(size=(300, 3))
    y = np.where(rng.random(300) < 0.9, logits.argmax(axis=1), logits.argmin(axis=1))
    model = TopLabelCalibrator(FocalPosterior(gamma=0), from_logits=True)
    proba = model.fit(logits, y).predict_proba(logits)
    np.testing.assert_allclose(proba, softmax(logits, axis=1), rtol=1e-6, atol=1e-300)
    model.set_params(calibrator=IsotonicCalibration())
    proba = model.fit(logits, y).predict_proba(logits)
    assert (proba > 0).all()
    assert proba.max(axis=1).mean() == pytest.approx(0.9, abs=0.05)


def test_logits_far_from_zero(make_logits):
    """Multiples of 1/8 keep their differences at 1e15, but their products do not."""
    logits, y = make_logits(500)
    logits = np.round(8 * logits) / 8
    fitted = TopLabelCalibrator(PlattScaling(), from_logits=True).fit(logits, y)
    expected = fitted.predict_proba(logits)
    found = fitted.predict_proba(logits + 1e15)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    np.testing.assert_allclose(found, expected, atol=1e-9)
    module = fitted.to_torch()
    tensor = torch.as_tensor(logits + 1e15)
    np.testing.assert_allclose(module(tensor).numpy(), expected, atol=1e-9)


def test_the_warning_of_few_errors_is_that_of_the_calibrator():
    for calibrator in BINARY:
        needed = TopLabelCalibrator(calibrator)._errors_needed
        assert needed == (calibrator._errors_needed[0], 0)
    assert TopLabelCalibrator()._errors_needed == (10, 0)
    X = softmax(np.random.default_rng(0).normal(size=(80, 3)), axis=1)
    y = np.arange(80) % 3
    y[:75] = X.argmax(axis=1)[:75]
    model = TopLabelCalibrator(IsotonicCalibration())
    with pytest.warns(UserWarning, match=r"TopLabelCalibrator needs about 100 miscl"):
        model.fit(X, y)


def test_classes_with_few_errors_share_a_map(make_logits):
    """By default, the number of errors is that which the calibrator needs."""
    logits, y = make_logits(1000, 4)
    top = logits.argmax(axis=1)
    is_right = (top == 1) | ((top == 2) & (np.cumsum((top == 2) & (y != 2)) > 9))
    y = np.where(is_right, top, y)
    names = np.array(["ant", "bee", "cat", "dog"])[y]
    model = TopLabelCalibrator(TemperatureScaling(), per_class=True, from_logits=True)
    message = (
        r"The classes \['bee', 'cat'\] have fewer than 10 wrong or fewer than 10 corr"
    )
    with pytest.warns(UserWarning, match=message):
        model.fit(logits, names)
    assert [calibrator is None for calibrator in model.class_calibrators_] == [
        0,
        1,
        1,
        0,
    ]
    model.set_params(min_errors=9)
    with pytest.warns(UserWarning, match=r"The classes \['bee'\] have fewer than 9 w"):
        model.fit(logits, names)
    with pytest.warns(UserWarning, match=r"The classes \['bee'\] have fewer than 17 w"):
        model.set_params(min_errors=17).fit(logits, names, np.full(1000, 2))


def test_grid_search_over_parameters_of_the_nested_calibrator(make_logits):
    logits, y = make_logits(600, 3)
    model = TopLabelCalibrator(HistogramBinning(), from_logits=True)
    options = {"scoring": "neg_log_loss", "cv": 2}
    grid = {"calibrator__n_bins": [1, 5], "per_class": [False]}
    search = GridSearchCV(model, grid, **options).fit(3 * logits, y)
    assert search.best_params_["calibrator__n_bins"] == 5
    grid = {"calibrator": [None, TemperatureScaling()]}
    search = GridSearchCV(model, grid, **options).fit(3 * logits, y)
    assert np.isfinite(search.best_score_)


@pytest.mark.parametrize("classifier", [GaussianNB(), RandomForestClassifier(10)])
def test_inside_of_a_calibrated_classifier(classifier):
    X, y = load_iris(return_X_y=True, as_frame=True)
    top_label = TopLabelCalibrator(PlattScaling())
    model = CalibratedClassifier(classifier, top_label, cv=2)
    names = np.array(["a", "b", "c"])[y]
    proba = model.fit(X, names).predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    assert model.score(X, names) > 0.9


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"calibrator": "platt"}, r"'calibrator' parameter.*Got 'platt'"),
        ({"calibrator": PlattScaling}, r"'calibrator' parameter.*instance of"),
        ({"calibrator": GaussianNB()}, r"'calibrator' parameter.*Got GaussianNB"),
        ({"per_class": 1}, r"'per_class' parameter.*Got 1"),
        ({"min_errors": 0}, r"'min_errors' parameter.*Got 0"),
        ({"calibrator": HistogramBinning(n_bins=0)}, r"'n_bins' parameter.*Got 0"),
    ],
)
def test_bad_parameters(params, message):
    X, y = [[0.5, 0.5], [0.2, 0.8]], [0, 1]
    with pytest.raises(ValueError, match=message):
        TopLabelCalibrator(**params).fit(X, y)


class Identity(Calibrator):
    """A calibrator outside of the package, which defines the public methods only."""

    def __init__(self, *, from_logits=True):
        self.from_logits = from_logits

    def _fit(self, data):
        pass

    def _calibrate(self, logits):
        return softmax(logits, axis=1)


def test_a_calibrator_of_another_package(make_logits):
    logits, y = make_logits(100, 3)
    model = TopLabelCalibrator(Identity(), per_class=True, from_logits=True)
    proba = model.fit(logits, y).predict_proba(logits)
    np.testing.assert_allclose(proba, softmax(logits, axis=1), rtol=1e-8)
    with pytest.raises(TypeError, match="map of TopLabelCalibrator must consist of"):
        model.to_torch()
    document = to_dict(model)
    again = from_dict(document, classes=[Identity])
    np.testing.assert_array_equal(again.predict_proba(logits), proba)
    with pytest.raises(ValueError, match=r"got 'Identity'.*Pass a class of your own"):
        from_dict(document)


@pytest.mark.parametrize("change", ["from_logits", "class", "length"])
def test_crafted_files_are_refused(change, make_logits):
    logits, y = make_logits(100, 3)
    document = to_dict(TopLabelCalibrator(from_logits=True).fit(logits, y))
    state = document["object"]["state"]
    if change == "from_logits":
        state["calibrator_"]["params"]["from_logits"] = False
        state["calibrator_"]["state"]["zero_replacement_"] = 1e-9
    elif change == "class":
        three = TemperatureScaling(from_logits=True).fit(logits, y)
        state["calibrator_"] = to_dict(three)["object"]
    else:
        state["class_calibrators_"].append(None)
    with pytest.raises(ValueError, match=r"calibrator_\.\w+ must be|must have 3"):
        from_dict(document)
