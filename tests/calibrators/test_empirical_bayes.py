"""Strengths of priors around temperature scaling, by empirical Bayes."""

import warnings

import numpy as np
import pytest
from scipy.special import log_softmax, softmax
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from sklearn_calib.calibrators import (
    DirichletCalibrator,
    JointBetaCalibration,
    MatrixScaling,
    StructuredMatrixScaling,
    StructuredVectorScaling,
    TemperatureScaling,
    VectorScaling,
)
from sklearn_calib.calibrators._linear import empirical_bayes as empirical_bayes
from sklearn_calib.calibrators._linear.multinomial_maps import DiagonalMap, FullMap

NAME = "empirical_bayes"
MAPS = [
    DirichletCalibrator(penalty=NAME, from_logits=True),
    JointBetaCalibration(penalty=NAME, from_logits=True),
    MatrixScaling(penalty=NAME, from_logits=True),
    StructuredMatrixScaling(lambd=NAME, from_logits=True),
    StructuredVectorScaling(lambd=NAME, from_logits=True),
    VectorScaling(penalty=NAME, from_logits=True),
]
all_maps = pytest.mark.parametrize(
    "calibrator", MAPS, ids=[type(calibrator).__name__ for calibrator in MAPS]
)
few_errors = pytest.mark.filterwarnings("ignore:.* needs about .* misclassified")


def fit_quietly(calibrator, *args, **params):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return calibrator.fit(*args, **params)


@all_maps
@few_errors
def test_a_logit_that_is_very_far_out(calibrator):
    """The temperature is then much smaller than the largest logit."""
    rng = np.random.default_rng(0)
    logits = np.vstack([rng.normal(size=(60, 3)), [1e4, 0, 0]])
    y = np.append((logits[:60] + rng.gumbel(size=(60, 3))).argmax(axis=1), 0)
    proba = fit_quietly(clone(calibrator), logits, y).predict_proba(logits)
    np.testing.assert_allclose(proba.sum(axis=1), 1)


@pytest.mark.parametrize("name", ["intercept", "diagonal", "off_diagonal"])
def test_relative_strengths_need_a_given_strength(name, make_logits):
    X, y = make_logits(50, 3)
    fitted = StructuredMatrixScaling(lambd=1.0, from_logits=True, **{name: 2.0})
    assert fitted.fit(X, y).lambd_ == 1
    with pytest.raises(ValueError, match=f"{name} must be 1.0.*Pass lambd=1.0"):
        fitted.set_params(lambd=NAME).fit(X, y)


@pytest.mark.parametrize(
    "calibrator", [StructuredVectorScaling(), StructuredMatrixScaling()], ids=repr
)
def test_posterior_by_its_definition(calibrator, make_logits, fresh):
    """With integer weights, and sums over the samples instead of means."""
    logits, y = make_logits(300, 3)
    logits = 2 * logits + [1, 0, -1]
    weight = np.arange(300) % 3 + 1.0
    fitted = fresh(calibrator, lambd=NAME, from_logits=True)
    fitted.fit(logits, y, sample_weight=weight)
    log_p = fitted._features(logits)
    information = np.exp(log_p) * (1 - np.exp(log_p)) * weight[:, None]
    m = (information * log_p).sum(axis=0) / information.sum(axis=0)
    is_full = fitted.coef_.ndim == 2
    precision = fitted.prior_precision_

    def objective(coef, intercept):
        full = coef if is_full else np.diag(coef)
        true = log_softmax(log_p @ full.T + intercept, axis=1)[np.arange(300), y]
        change = full - np.eye(3)
        on = (np.diag(change) ** 2).sum()
        shift = ((change @ m + intercept) ** 2).sum()
        pull = precision[-2] * on + precision[-1] * shift
        pull += precision[0] * ((change**2).sum() - on) if is_full else 0
        return pull / 2 - weight @ true

    best = objective(fitted.coef_, fitted.intercept_)
    rng = np.random.default_rng(0)
    for _ in range(20):
        coef = fitted.coef_ + 0.01 * rng.normal(size=fitted.coef_.shape)
        intercept = fitted.intercept_ + 0.01 * rng.normal(size=3)
        assert objective(coef, intercept) > best


@few_errors
def test_costs_little_where_temperature_scaling_is_the_truth():
    """Excess of the log loss over that of the truth, as multiples of a temperature's.

    With the default strength, they are about 5 and 13.
    """
    rng = np.random.default_rng(0)
    excess = np.zeros(5)
    maps = [
        StructuredVectorScaling(lambd=NAME, from_logits=True),
        VectorScaling(penalty=NAME, from_logits=True),
        StructuredMatrixScaling(lambd=NAME, from_logits=True),
        JointBetaCalibration(penalty=NAME, from_logits=True),
    ]
    for _ in range(10):
        logits = 3 * rng.normal(size=(3000, 10))
        y = (logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=1)
        truth = softmax(logits[1000:] / 2, axis=1)
        for k, calibrator in enumerate([TemperatureScaling(from_logits=True), *maps]):
            proba = calibrator.fit(logits[:1000], y[:1000]).predict_proba(logits[1000:])
            excess[k] += (truth * np.log(truth / proba)).sum()
    ratio = excess[1:] / excess[0]
    assert (ratio[:2] < 3).all(), ratio
    assert (ratio[2:] < 5).all(), ratio


@pytest.mark.parametrize("net", ["repvgg_a0", "repvgg_a2", "resnet20"])
def test_500_samples_of_ten_classes(net, shared_data):
    """Maximum likelihood is worse than no calibration there."""
    file = shared_data("logits/cifar10_chenyaofo.npz")
    logits, y = file[net].astype(np.float64), file["labels"]
    rows = np.random.default_rng(0).permutation(len(y))
    fit, new = rows[:500], rows[500:3500]

    def loss(proba):
        return -np.log(proba[np.arange(len(new)), y[new]]).mean()

    uncalibrated = loss(softmax(logits[new], axis=1))
    temperature = fit_quietly(TemperatureScaling(from_logits=True), logits[fit], y[fit])
    limit = loss(temperature.predict_proba(logits[new])) + 1 / 500
    assert limit < uncalibrated
    for calibrator in MAPS:
        fitted = fit_quietly(calibrator, logits[fit], y[fit])
        assert loss(fitted.predict_proba(logits[new])) < limit


@all_maps
def test_uses_what_the_data_support(calibrator):
    """Large biases are fitted almost as without a penalty, the rest is shrunk."""
    rng = np.random.default_rng(1)
    logits = 2 * rng.normal(size=(4000, 4))
    bias = np.array([-1.0, 0, 1, 2])
    y = (logits / 2 + bias + rng.gumbel(size=logits.shape)).argmax(axis=1)
    fitted = fit_quietly(calibrator, logits, y)
    found = fitted.intercept_ - fitted.intercept_.mean()
    np.testing.assert_allclose(found, bias - bias.mean(), atol=0.25)
    assert fitted.prior_precision_.argmin() == fitted.prior_precision_.size - 1


@all_maps
def test_large_problems_give_nearly_the_same(calibrator, monkeypatch):
    """They use the diagonal blocks of the Hessian, and conjugate gradients."""
    rng = np.random.default_rng(0)
    logits = 2 * rng.normal(size=(1500, 8))
    slope = rng.uniform(0.3, 0.8, 8)
    y = (slope * logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    exact = fit_quietly(calibrator, logits, y).predict_proba(logits)
    for kind in (DiagonalMap, FullMap):
        monkeypatch.setattr(kind, "max_dense", 0)
    proba = fit_quietly(calibrator, logits, y).predict_proba(logits)
    divergence = (exact * np.log(exact / proba)).sum(axis=1).mean()
    gain = calibrator.log_loss_before_ - calibrator.log_loss_after_
    assert divergence < gain / 50


@few_errors
@all_maps
@pytest.mark.parametrize(
    ("case", "match"),
    [
        ("one sample", "temperature with the smallest log loss|contains no samples"),
        ("one class", "temperature with the smallest log loss|contains no samples"),
        ("separable", "temperature with the smallest log loss"),
        ("equal logits", "temperature with the smallest log loss"),
    ],
)
def test_degenerate_data(calibrator, case, match):
    """The map is finite, with the warnings of temperature scaling."""
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(100, 3))
    logits, y = {
        "one sample": (logits[:1], [0]),
        "one class": (logits, np.ones(100, int)),
        "separable": (3 * logits, logits.argmax(axis=1)),
        "equal logits": (np.ones((100, 3)), rng.integers(0, 3, 100)),
    }[case]
    with pytest.warns((ConvergenceWarning, UserWarning), match=match):
        calibrator.fit(logits, y, labels=[0, 1, 2])
    proba = calibrator.predict_proba(logits)
    assert np.isfinite(np.log(proba)).all()
    assert np.isfinite(calibrator.prior_precision_).all()


@pytest.mark.parametrize(
    "calibrator", [MatrixScaling(), DirichletCalibrator(), JointBetaCalibration()]
)
def test_logits_that_hardly_differ(calibrator, fresh):
    """Their log-probabilities differ by rounding errors only."""
    rng = np.random.default_rng(0)
    logits, y = 1e-15 * rng.normal(size=(100, 3)), rng.integers(0, 3, 100)
    calibrator = fresh(calibrator, penalty=NAME, from_logits=True)
    proba = fit_quietly(calibrator, logits, y).predict_proba(logits)
    assert np.abs(log_softmax(np.log(proba), axis=1) + np.log(3)).max() < 1


def test_strengths_of_a_previous_fit_are_removed(make_logits):
    logits, y = make_logits(300, 3)
    calibrator = StructuredMatrixScaling(lambd=NAME, from_logits=True)
    calibrator.fit(logits, y)
    assert calibrator.prior_precision_.shape == (3,)
    assert not hasattr(calibrator, "lambd_")
    calibrator.set_params(lambd=1.0).fit(logits, y)
    assert not hasattr(calibrator, "prior_precision_")


def test_needs_as_many_errors_as_temperature_scaling():
    for calibrator in MAPS:
        assert calibrator._errors_needed == TemperatureScaling._errors_needed
