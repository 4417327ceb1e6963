"""PerLabelCalibrator, compared with separate binary calibrators."""

import pickle
from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from sklearn.exceptions import NotFittedError
from sklearn.metrics import log_loss, make_scorer
from sklearn.model_selection import GridSearchCV

from sklearn_calib.calibrators import (
    AutoCalibrator,
    FocalPosterior,
    FocalTemperatureScaling,
    PerLabelCalibrator,
    TemperatureScaling,
    get_calibrator,
    get_calibrator_names,
)
from sklearn_calib.metrics import expected_calibration_error, per_label

CALIBRATORS = [get_calibrator(name) for name in get_calibrator_names()]
all_calibrators = pytest.mark.parametrize("calibrator", CALIBRATORS)
both_scales = pytest.mark.parametrize("from_logits", [False, True])


def make_labels(n_samples=2000, n_labels=3, seed=0):
    """Return logits of independent labels, and labels drawn from them."""
    rng = np.random.default_rng(seed)
    logits = 2 * rng.normal(size=(n_samples, n_labels)) - 1
    return logits, (logits + rng.logistic(size=logits.shape) > 0).astype(int)


@all_calibrators
@both_scales
def test_each_label_has_its_own(calibrator, from_logits, fresh):
    logits, y = make_labels(60, 2)
    logits *= [3, 0.4]
    X = logits if from_logits else expit(logits)
    calibrator = fresh(calibrator(), from_logits=from_logits)
    fitted = PerLabelCalibrator(calibrator).fit(X, y)
    proba = fitted.predict_proba(X)
    np.testing.assert_array_equal(fitted.predict(X), proba > 0.5)
    assert fitted.score(X, y) == ((proba > 0.5) == y).all(axis=1).mean()
    assert not hasattr(calibrator, "classes_")
    for j in range(2):
        alone = calibrator.fit(X[:, j], y[:, j]).predict_proba(X[:, j])
        np.testing.assert_array_equal(proba[:, j], alone[:, 1])


def test_repairs_every_label():
    logits, y = make_labels(20_000)
    wrong = logits * [3, 1, 0.4]
    calibrator = PerLabelCalibrator(TemperatureScaling(from_logits=True))
    proba = calibrator.fit(wrong[::2], y[::2]).predict_proba(wrong[1::2])
    errors = [
        per_label(expected_calibration_error, y[1::2], p, average=None)
        for p in (expit(wrong[1::2]), proba)
    ]
    assert (errors[0][[0, 2]] > 0.05).all()
    assert (errors[1] < 0.015).all()
    found = [fit.temperature_ for fit in calibrator.calibrators_]
    np.testing.assert_allclose(found, [3, 1, 0.4], rtol=0.05)


# Repeated samples are in several folds of AutoCalibrator.
@pytest.mark.parametrize("calibrator", [c for c in CALIBRATORS if c != AutoCalibrator])
def test_weights_equal_repetitions(calibrator):
    logits, y = make_labels(60, 2)
    weight = np.arange(60) % 3
    fitted = PerLabelCalibrator(calibrator()).fit(expit(logits), y, weight)
    repeated = expit(logits).repeat(weight, axis=0), y.repeat(weight, axis=0)
    expected = PerLabelCalibrator(calibrator()).fit(*repeated)
    np.testing.assert_allclose(
        fitted.predict_proba(expit(logits)),
        expected.predict_proba(expit(logits)),
        rtol=1e-6,
    )


@pytest.mark.parametrize("calibrator", [TemperatureScaling, get_calibrator("isotonic")])
@pytest.mark.parametrize("per_label", [False, True])
def test_unknown_labels_and_weights_per_label(calibrator, per_label):
    """Each calibrator is fitted to the samples with a known label."""
    logits, y = make_labels(60, 2)
    X, known = expit(logits), np.random.default_rng(1).uniform(size=y.shape) < 0.7
    weight = np.arange(120).reshape(60, 2) % 3 if per_label else np.arange(60) % 3
    for given in (None, weight):
        partly = np.where(known, y, np.nan)
        fitted = PerLabelCalibrator(calibrator()).fit(X, partly, given)
        proba = fitted.predict_proba(X)
        for j, rows in enumerate(known.T):
            own = given if given is None else (given[:, j] if per_label else given)
            own = own if own is None else own[rows]
            alone = calibrator().fit(X[rows, j], y[rows, j], own)
            np.testing.assert_array_equal(
                proba[:, j], alone.predict_proba(X[:, j])[:, 1]
            )
            assert fitted.n_errors_[j] == alone.n_errors_


def test_a_label_that_is_never_known():
    logits, y = make_labels(60, 2)
    with pytest.raises(ValueError, match=r"y must .* got only NaN for label 1\. Leave"):
        PerLabelCalibrator(TemperatureScaling()).fit(expit(logits), y * [1, np.nan])


@pytest.mark.filterwarnings("ignore:y contains no samples of:UserWarning")
@all_calibrators
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_labels_that_none_or_all_have(calibrator, fresh):
    logits, y = make_labels(30, 2)
    y[:, 0], y[:, 1] = 0, 1
    X = expit(logits)
    proba = PerLabelCalibrator(fresh(calibrator())).fit(X, y).predict_proba(X)
    assert (proba > 0).all()
    assert (proba <= 1).all()


@pytest.mark.parametrize("n_labels", [1, 2, 3])
def test_scores_and_searches(n_labels):
    """A scorer gets the probabilities of all labels, even if there are two labels."""
    logits, y = make_labels(200, n_labels)
    scorer = make_scorer(
        partial(per_label, log_loss),
        response_method="predict_proba",
        greater_is_better=False,
    )
    search = GridSearchCV(
        PerLabelCalibrator(TemperatureScaling(from_logits=True)),
        {"calibrator": [TemperatureScaling(), FocalPosterior(gamma=5)]}
        | {"calibrator__from_logits": [True]},
        scoring=scorer,
        cv=2,
        error_score="raise",
    )
    search.fit(3 * logits, y)
    assert isinstance(search.best_params_["calibrator"], TemperatureScaling)
    proba = search.predict_proba(3 * logits)
    assert scorer(search, 3 * logits, y) == -per_label(log_loss, y, proba)


def test_float32_frames_and_pickles():
    logits, y = make_labels()
    X = expit(logits).astype(np.float32)
    frame = pd.DataFrame(X, columns=["ant", "bee", "cat"])
    fitted = PerLabelCalibrator(TemperatureScaling()).fit(frame, pd.DataFrame(y))
    proba = fitted.predict_proba(frame)
    assert proba.dtype == np.float32
    np.testing.assert_array_equal(fitted.feature_names_in_, frame.columns)
    again = pickle.loads(pickle.dumps(fitted)).predict_proba(frame)
    np.testing.assert_array_equal(again, proba)
    expected = PerLabelCalibrator(TemperatureScaling()).fit(X, y == 1).predict_proba(X)
    np.testing.assert_array_equal(expected, proba)


@pytest.mark.parametrize("calibrator", [FocalTemperatureScaling, TemperatureScaling])
def test_radiographs(calibrator, shared_data):
    """One label is rare although its logits are positive, which no T can correct."""
    data = shared_data("logits/nih_chestxray_densenet121_multilabel_a.npz")
    X, y = data["logits"], data["labels"]
    calibrator = PerLabelCalibrator(calibrator(from_logits=True))
    proba = calibrator.fit(X[::2], y[::2]).predict_proba(X[1::2])
    before, after = (
        per_label(expected_calibration_error, y[1::2], p, average=None)
        for p in (expit(X[1::2]), proba)
    )
    assert before.min() > 0.22
    assert (after <= before).all()
    assert (after[[3, 6]] < 0.015).all()
    assert after[4] > 0.3
    assert after.mean() < 0.13


X3, Y3 = make_labels(20)
X3 = expit(X3)


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (X3[:, 0], Y3[:, 0], r"X must have shape \(n_samples, n_labels\), got \(20,\)"),
        (X3, Y3[:, 0], r"y must contain .* \(20, 3\), got \(20,\)\. Pass an indicator"),
        (X3, Y3[:10], r"y must contain .* \(20, 3\), got \(10, 3\)"),
        (X3, Y3 + 1, r"y must contain only zeros and ones, got values in \[1, 2\]"),
        (X3, -Y3, r"got values in \[-1, 0\]\. .*, or NaN if that is not known"),
        (9 * X3, Y3, r"X must lie in \[0, 1\].*from_logits=True"),
        (np.nan * X3, Y3, "NaN"),
    ],
)
def test_bad_data(X, y, message):
    with pytest.raises(ValueError, match=message):
        PerLabelCalibrator(TemperatureScaling()).fit(X, y)


def test_bad_use():
    calibrator = PerLabelCalibrator(TemperatureScaling())
    with pytest.raises(NotFittedError):
        calibrator.predict_proba(X3)
    with pytest.raises(ValueError, match=r"2 features, but .* is expecting 3"):
        calibrator.fit(X3, Y3).predict(X3[:, :2])
    for wrong in (None, TemperatureScaling):
        with pytest.raises(ValueError, match=r"'calibrator' .*must be an instance of"):
            PerLabelCalibrator(wrong).fit(X3, Y3)
