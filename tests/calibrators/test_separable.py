"""Every fit terminates, even for separable classes, with a reasonable result."""

import faulthandler
import signal
import warnings
from contextlib import contextmanager
from functools import cache

import numpy as np
import pytest
from scipy.special import log_softmax, softmax
from sklearn.datasets import make_blobs
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import ConvergenceWarning

from sklearn_calib import CalibratedClassifier
from sklearn_calib.calibrators import (
    DirichletCalibrator,
    HistogramBinning,
    JointBetaCalibration,
    MatrixScaling,
    PlattScaling,
    ScalingBinning,
    SplineCalibration,
    StructuredMatrixScaling,
    TemperatureScaling,
    VectorScaling,
    get_calibrator,
    get_calibrator_names,
)

# Seconds after which fits are considered not to terminate. The slowest take a few.
LIMIT = 60
MAXIMUM_LIKELIHOOD = [
    DirichletCalibrator(),
    JointBetaCalibration(penalty="none"),
    MatrixScaling(),
    VectorScaling(),
]
# Calibrators to which a test does not apply, with the reason; see conftest.py.
EXCUSED = {
    "test_log_loss_is_no_worse_than_before_or_of_equal_probabilities": {
        "SplineCalibration": "minimises no loss of the probabilities"
    }
}
inputs = pytest.mark.parametrize(
    ("from_logits", "dtype"),
    [
        (True, np.float64),
        pytest.param(True, np.float32, marks=pytest.mark.slow),
        pytest.param(False, np.float64, marks=pytest.mark.slow),
        pytest.param(False, np.float32, marks=pytest.mark.slow),
    ],
)


@contextmanager
def bounded(seconds=LIMIT):
    """Fail if the block takes longer; exit if it cannot be interrupted."""

    def fail(*_):
        pytest.fail(f"took more than {seconds} seconds")

    # A loop in LAPACK cannot be interrupted by a signal.
    faulthandler.dump_traceback_later(3 * seconds, exit=True)
    has_alarm = hasattr(signal, "SIGALRM")  # not on Windows
    previous = signal.signal(signal.SIGALRM, fail) if has_alarm else None
    if has_alarm:
        signal.alarm(seconds)
    try:
        yield
    finally:
        if has_alarm:
            signal.alarm(0)
            signal.signal(signal.SIGALRM, previous)
        faulthandler.cancel_dump_traceback_later()


@cache
def blobs(seed, **shape):
    """Return predictions of discriminant analysis for well-separated classes."""
    X, y = make_blobs(200, random_state=seed, **shape)
    scores = LinearDiscriminantAnalysis().fit(X[::2], y[::2]).decision_function(X[1::2])
    if scores.ndim == 1:
        scores = np.column_stack([-scores / 2, scores / 2])
    return scores, y[1::2]


def problems():
    """Return logits and classes by name."""
    rng = np.random.default_rng(0)
    thirds = np.arange(60) % 3
    noise = rng.normal(size=(60, 3))
    drawn = (noise + rng.gumbel(size=noise.shape)).argmax(axis=1)
    few = rng.normal(size=(5, 12))
    flipped = thirds.copy()
    flipped[:5] = (flipped[:5] + 1) % 3
    named = {
        "two blobs": blobs(1, centers=2, n_features=2),
        "four blobs": blobs(0, centers=4, n_features=5),
        "six blobs": blobs(5, centers=6, n_features=20),
        "saturated": (50 * np.eye(3)[thirds], thirds),
        "saturated pair": (50 * np.eye(2)[thirds % 2], thirds % 2),
        "saturated more": (1000 * np.eye(3)[thirds], thirds),
        "saturated, a few wrong": (50 * np.eye(3)[flipped], thirds),
        "saturated, all wrong": (50 * np.eye(3)[thirds - 1], thirds),
        "constant": (np.zeros((60, 3)), thirds),
        "constant column": (noise * [0, 1, 1], drawn),
        "constant column, separable": (
            noise * [0, 1, 1] + 40 * np.eye(3)[drawn],
            drawn,
        ),
        "identical rows": (np.tile([1.0, 2, -30], (60, 1)), thirds),
        "one sample a class": (5 * noise[:3], np.arange(3)),
        "fewer samples than classes": (20 * np.eye(12)[:5] + few, np.arange(5)),
        "one far out": (np.vstack([noise, [1e4, 0, 0]]), np.append(drawn, 0)),
        "one far out and wrong": (
            np.vstack([noise, [1e4, 0, 0]]),
            np.append(drawn, 1),
        ),
        "every scale": (noise * 10.0 ** rng.integers(-4, 4, (60, 1)), drawn),
        "far from zero": (noise + 1e12, drawn),
    }
    for scale in (1e-6, 1e-3, 1e3):
        named[f"times {scale:g}"] = scale * noise, drawn
        named[f"separable, times {scale:g}"] = scale * noise, noise.argmax(axis=1)
        named[f"two classes, times {scale:g}"] = scale * noise[:, :2], drawn % 2
    return named


PROBLEMS = problems()


@pytest.fixture(scope="module")
def fits(fresh):
    """Return `fit_each`, which fits equal calibrators once."""
    results = {}

    def fit(calibrator, *how):
        key = repr(calibrator), *how
        if key not in results:
            results[key] = fit_each(fresh, calibrator, *how)
        return results[key]

    return fit


def fit_each(fresh, calibrator, from_logits, dtype):
    """Return for each problem its name, the data, the calibrator fitted to them, and
    the calibrated probabilities.
    """
    results = []
    with bounded(), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for name, (logits, y) in PROBLEMS.items():
            if np.abs(logits).max() > np.finfo(dtype).max:
                continue  # not representable in this dtype
            X = (logits if from_logits else softmax(logits, axis=1)).astype(dtype)
            fitted = fresh(calibrator, from_logits=from_logits)
            fitted.fit(X, y, labels=np.arange(logits.shape[1]))
            results.append((name, X, y, fitted, fitted.predict_proba(X)))
    return results


@inputs
@pytest.mark.filterwarnings("ignore:y contains no samples of:UserWarning")
def test_fits_end_with_probabilities(calibrator, from_logits, dtype, fits, capfd):
    """Results are finite and positive, and LAPACK prints no messages."""
    for name, *_, proba in fits(calibrator, from_logits, dtype):
        assert (proba > 0).all(), name
        assert np.abs(proba.sum(axis=1) - 1).max() <= 1e-5, name
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
@inputs
@pytest.mark.filterwarnings("ignore:y contains no samples of:UserWarning")
def test_log_loss_is_no_worse_than_before_or_of_equal_probabilities(
    calibrator, from_logits, dtype, fits
):
    allowed = allowed_losses(fits, from_logits, dtype)
    for name, _, y, _, proba in fits(calibrator, from_logits, dtype):
        after = -np.log(proba[np.arange(len(y)), y].astype(np.float64)).mean()
        assert after <= allowed[name] * (1 + 1e-6) + 1e-6, name


@cache
def allowed_losses(fits, from_logits, dtype):
    """Return the log loss before, or of equal probabilities, whichever is larger."""
    losses = {}
    for name, X, y, fitted, _ in fits(TemperatureScaling(), from_logits, dtype):
        logits = fitted._as_logits(X).astype(np.float64)
        before = -log_softmax(logits, axis=1)[np.arange(len(y)), y].mean()
        losses[name] = max(before, np.log(X.shape[1]))
    return losses


@inputs
@pytest.mark.parametrize("likeliest", MAXIMUM_LIKELIHOOD, ids=repr)
@pytest.mark.filterwarnings("ignore:y contains no samples of:UserWarning")
def test_maximum_likelihood_never_raises_the_log_loss(
    likeliest, from_logits, dtype, fits
):
    for name, _, _, fitted, _ in fits(likeliest, from_logits, dtype):
        after, before = fitted.log_loss_after_, fitted.log_loss_before_
        assert after <= before * (1 + 1e-9) + 1e-12, name


@pytest.mark.parametrize("likeliest", MAXIMUM_LIKELIHOOD, ids=repr)
@pytest.mark.parametrize("name", ["four blobs", "six blobs", "saturated"])
def test_separable_classes_are_said(likeliest, name, fresh):
    """Also if the initial gradient is zero, as all probabilities are 0 or 1."""
    logits, y = PROBLEMS[name]
    with bounded(), pytest.warns(ConvergenceWarning, match="are separable"):
        fresh(likeliest, from_logits=True).fit(logits, y)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("likeliest", MAXIMUM_LIKELIHOOD, ids=repr)
def test_discriminant_analysis_of_blobs(likeliest):
    data = make_blobs(300, n_features=5, centers=4, random_state=0)
    with bounded():
        model = CalibratedClassifier(LinearDiscriminantAnalysis(), likeliest)
        proba = model.fit(*data).predict_proba(data[0])
    np.testing.assert_array_equal(proba.argmax(axis=1), data[1])


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("centers", [2, 3, 6, 10])
@pytest.mark.parametrize("n_features", [2, 20])
@pytest.mark.parametrize("likeliest", MAXIMUM_LIKELIHOOD, ids=repr)
def test_blobs(likeliest, centers, n_features, fresh):
    for seed in range(3):
        logits, y = blobs(seed, centers=centers, n_features=n_features)
        with bounded():
            fitted = fresh(likeliest, from_logits=True).fit(logits, y)
        assert fitted.log_loss_after_ <= fitted.log_loss_before_ * (1 + 1e-9) + 1e-12


@pytest.mark.parametrize("scale", [1e-6, 1e6])
@pytest.mark.parametrize(
    "scaling",
    [MatrixScaling(), PlattScaling(), TemperatureScaling(), VectorScaling()],
    ids=repr,
)
def test_logits_of_any_scale_give_the_same(scaling, scale, make_logits, fresh):
    """For these maps of logits, the scale is only a unit."""
    logits, y = make_logits(500, 3)
    if isinstance(scaling, PlattScaling):  # log-odds are linear for K = 2
        logits, y = logits[:, :2], y % 2
    scaling = fresh(scaling, from_logits=True)
    expected = scaling.fit(logits, y).predict_proba(logits)
    proba = scaling.fit(scale * logits, y).predict_proba(scale * logits)
    np.testing.assert_allclose(proba, expected, rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_logits_that_overflow_are_refused(dtype, make_logits):
    logits, y = make_logits(100, 3)
    largest = np.finfo(dtype).max / np.abs(logits).max() * logits
    far = (0.9 * largest).astype(dtype)
    with pytest.raises(ValueError, match=r"logits of at most .* got .*Divide all"):
        VectorScaling(from_logits=True).fit(np.abs(far), y)
    fitted = VectorScaling(from_logits=True).fit(logits.astype(dtype) / 1000, y)
    with pytest.raises(ValueError, match="logits that do not overflow when they"):
        fitted.predict_proba(np.abs(far))


def test_no_parameter_is_without_a_constraint():
    for name in get_calibrator_names():
        calibrator = get_calibrator(name)
        assert {*calibrator().get_params()} <= {*calibrator._parameter_constraints}, (
            name
        )


def strengths():
    """Return the class and name of each parameter that is a penalty strength."""
    names = {"intercept", "diagonal", "off_diagonal", "lambd", "gamma"}
    members = [get_calibrator(name) for name in get_calibrator_names()]
    pairs = [(c, name) for c in members for name in names & {*c().get_params()}]
    return sorted(pairs, key=str)


@pytest.mark.parametrize("value", [-1, np.nan, np.inf])
@pytest.mark.parametrize(("calibrator_class", "name"), strengths())
def test_strengths_are_finite_and_not_negative(calibrator_class, name, value):
    strong = calibrator_class(from_logits=True, **{name: value})
    if "penalty" in strong.get_params():
        strong.set_params(penalty="l2")  # otherwise the strengths are ignored
    with pytest.raises(ValueError, match=name):
        strong.fit(*PROBLEMS["four blobs"])


@pytest.mark.parametrize(
    "binned",
    [
        HistogramBinning(n_bins=10**9),
        HistogramBinning(n_bins=10**9, strategy="uniform"),
        ScalingBinning(n_bins=10**9),
        SplineCalibration(n_knots=10**9),
        TemperatureScaling(objective="ece", n_bins=10**9),
    ],
    ids=repr,
)
def test_more_bins_than_can_be_filled_are_refused(binned, make_logits, fresh):
    logits, y = make_logits(100, 3)
    with bounded(), pytest.raises(ValueError, match=r"n_(bins|knots).*1000000000"):
        fresh(binned, from_logits=True).fit(logits, y)


@pytest.mark.parametrize(
    "matrix", [MatrixScaling(), DirichletCalibrator(), StructuredMatrixScaling()]
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:y contains no samples of:UserWarning")
def test_matrices_of_too_many_classes_are_refused(matrix, fresh):
    matrix, logits = fresh(matrix, from_logits=True), np.zeros((2, 5001))
    with bounded(), pytest.raises(ValueError, match=r"at most 5000 classes.*got 5001"):
        matrix.fit(logits, [0, 1], labels=range(5001))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("calibrator_class", [VectorScaling, PlattScaling])
def test_warnings_do_not_list_every_class(calibrator_class):
    with pytest.warns(UserWarning, match=r"10, 11, \.\.\.\] \(98 in total\)"):
        calibrator_class().fit(np.full((2, 100), 0.01), [0, 1], labels=range(100))
