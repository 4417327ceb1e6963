"""Online Newton: the batch fit as the limit, forgetting, and what is kept."""

import copy

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax
from sklearn.base import clone

from sklearn_calib.calibrators import (
    BetaCalibration,
    PlattScaling,
    TemperatureScaling,
    VectorScaling,
)

UNSMOOTHED = PlattScaling(smooth_targets=False)
ONLINE = [
    TemperatureScaling(),
    PlattScaling(),
    UNSMOOTHED,
    VectorScaling(),
    BetaCalibration(),
    BetaCalibration(parameters="am"),
    BetaCalibration(parameters="ab"),
]

every_calibrator = pytest.mark.parametrize("calibrator", ONLINE)


def draw(n_samples, n_classes=3, *, factor=1.5, seed=0):
    """Return logits that are too large by a factor, and labels."""
    rng = np.random.default_rng(seed)
    logits = 1.5 * rng.normal(size=(n_samples, n_classes))
    y = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    return factor * logits, y


def update(calibrator, X, y, size, weight=None, **options):
    """Return a clone that is updated with batches of a size."""
    online = clone(calibrator)
    classes = options.pop("classes", None)
    classes = np.arange(X.shape[1]) if classes is None else classes

    for start in range(0, len(X), size):
        rows = slice(start, start + size)
        few = None if weight is None else weight[rows]
        online.partial_fit(X[rows], y[rows], few, classes=classes, **options)
    return online


def distance(one, other, X):
    """Return the largest difference of probabilities."""
    return np.abs(one.predict_proba(X) - other.predict_proba(X)).max()


@pytest.mark.parametrize("n_classes", [2, 4])
@every_calibrator
def test_one_call_is_a_fit(calibrator, n_classes):
    X, y = draw(1500, n_classes)
    weight = np.random.default_rng(1).uniform(0.5, 2, len(y))
    calibrator = clone(calibrator).set_params(from_logits=True)
    online = clone(calibrator).partial_fit(X, y, weight, classes=range(n_classes))
    fitted = calibrator.fit(X, y, weight)
    assert distance(online, fitted, X) < 1e-12
    assert online.n_errors_ == fitted.n_errors_
    np.testing.assert_array_equal(online.classes_, fitted.classes_)


@every_calibrator
def test_the_first_thousand_samples_are_a_fit(calibrator):
    X, y = draw(990)
    X = softmax(X, axis=1)
    X[::200] = np.eye(3)[y[::200]]  # zeros in some batches
    online = update(calibrator, X, y, 165)
    fitted = clone(calibrator).fit(X, y)
    assert distance(online, fitted, X) < 1e-12
    assert online.zero_replacement_ == fitted.zero_replacement_


@pytest.mark.parametrize("n_classes", [2, 4])
@every_calibrator
def test_batches_approach_the_fit(calibrator, n_classes):
    """Measured: at most 0.003. The standard error is ten times as large."""
    X, y = draw(4000, n_classes)
    calibrator = clone(calibrator).set_params(from_logits=True)
    online = update(calibrator, X, y, 400)
    assert distance(online, calibrator.fit(X, y), X[:1000]) < 0.004


@pytest.mark.slow
@pytest.mark.parametrize("size", [10, 100, 1000])
def test_difference_to_the_fit_is_of_order_one_over_n(size):
    """Multiplied by n, the difference of T does not grow."""
    X, y = draw(100_000, 10)
    X, y = X[: 3000 * size], y[: 3000 * size]
    online, products = TemperatureScaling(from_logits=True), []
    for start in range(0, len(X), size):
        rows = slice(start, start + size)
        online.partial_fit(X[rows], y[rows], classes=range(10))
        if (n := start + size) in {10_000, 30_000, 100_000}:
            exact = TemperatureScaling(from_logits=True).fit(X[:n], y[:n])
            products.append(n * abs(online.temperature_ - exact.temperature_))
    assert max(products) < 15


def numeric_newton(value, start, lowest):
    """Return the minimum by an optimiser of SciPy that shares no code with ours."""
    bounds = [(low if np.isfinite(low) else None, None) for low in lowest]
    options = {"maxiter": 5000, "ftol": 1e-15, "gtol": 1e-10}
    return minimize(value, start, bounds=bounds, method="L-BFGS-B", options=options).x


def temperature_value(x, X, y, weight):
    return -weight @ log_softmax(x[0] * X, axis=1)[np.arange(len(y)), y]


def vector_value(x, X, y, weight):
    slope, intercept = x.reshape(-1, 2).T
    scores = slope * (X - X.mean(axis=1, keepdims=True)) + intercept
    return -weight @ log_softmax(scores, axis=1)[np.arange(len(y)), y]


def platt_value(x, X, y, weight):
    margin = x[0] * (X[:, 1] - X[:, 0]) + x[1]
    return weight @ np.logaddexp(0, np.where(y == 1, -margin, margin))


def beta_value(x, X, y, weight):
    log_odds = X[:, 1] - X[:, 0]
    log_p, log_q = -np.logaddexp(0, -log_odds), -np.logaddexp(0, log_odds)
    margin = x[0] * log_p - x[1] * log_q + x[2]
    return weight @ np.logaddexp(0, np.where(y == 1, -margin, margin))


def derivatives(value, x, *data):
    """Return the gradient and the Hessian by central differences."""
    step, eye = 1e-4, np.eye(len(x))
    gradient = [
        (value(x + step * e, *data) - value(x - step * e, *data)) / (2 * step)
        for e in eye
    ]
    hessian = np.zeros_like(eye)
    for i, j in zip(*np.tril_indices(len(x)), strict=True):
        hessian[i, j] = hessian[j, i] = sum(
            s * t * value(x + step * (s * eye[i] + t * eye[j]), *data)
            for s in (-1, 1)
            for t in (-1, 1)
        ) / (4 * step**2)
    return np.array(gradient), hessian


RECURSIONS = {
    "temperature": (TemperatureScaling(), temperature_value, [1.0], [1e-3]),
    "platt": (
        PlattScaling(smooth_targets=False),
        platt_value,
        [1.0, 0.0],
        [-np.inf] * 2,
    ),
    "beta": (BetaCalibration(), beta_value, [1.0, 1.0, 0.0], [0.0, 0.0, -np.inf]),
    "vector": (VectorScaling(), vector_value, [1.0, 0.0] * 2, [-np.inf] * 4),
}


def parameters_of(calibrator):
    """Return the fitted parameters in the order of `RECURSIONS`."""
    if isinstance(calibrator, TemperatureScaling):
        return np.array([1 / calibrator.temperature_])
    if isinstance(calibrator, VectorScaling):
        return np.column_stack([calibrator.coef_, calibrator.intercept_]).ravel()
    return calibrator.maps_[0]


@pytest.mark.parametrize("half_life", [None, 150.0])
@pytest.mark.parametrize("name", RECURSIONS)
def test_recursion_against_scipy(name, half_life):
    """A batch of 1000 and two more: the recursion in finite differences and SciPy."""
    calibrator, value, identity, lowest = RECURSIONS[name]
    identity, lowest = np.array(identity), np.array(lowest)
    X, y = draw(1300, 2, factor=2.5)
    weight = np.random.default_rng(1).uniform(0.5, 2, len(y))
    calibrator = clone(calibrator).set_params(from_logits=True)
    online = clone(calibrator).partial_fit(
        X[:1000], y[:1000], weight[:1000], classes=[0, 1], half_life=half_life
    )
    x = parameters_of(online)
    gradient, curvature = derivatives(value, x, X[:1000], y[:1000], weight[:1000])
    target = curvature @ x - gradient
    for rows in (slice(1000, 1200), slice(1200, 1300)):
        data = X[rows], y[rows], weight[rows]
        online.partial_fit(*data, half_life=half_life)
        kept = 1 if half_life is None else 0.5 ** (weight[rows].sum() / half_life)
        prior = derivatives(value, identity, *data)[1] / weight[rows].sum()
        curvature = kept * curvature + (1 - kept) * prior
        target = kept * target + (1 - kept) * prior @ identity

        def objective(x, curvature=curvature, target=target, data=data):
            return value(x, *data) + x @ curvature @ x / 2 - target @ x

        x = numeric_newton(objective, x, lowest)
        gradient, own = derivatives(value, x, *data)
        curvature, target = curvature + own, target + own @ x - gradient
    found = parameters_of(online)
    if name == "vector":  # of two classes, only differences of scores matter
        found, x = found[::2].sum(), x[::2].sum()
    np.testing.assert_allclose(found, x, atol=2e-4)


@every_calibrator
def test_a_batch_is_a_set_of_weighted_samples(calibrator):
    X, y = draw(2400)
    weight = np.random.default_rng(1).integers(1, 4, len(y))
    start, rows = np.arange(1500), np.arange(1500, 2400)
    first = clone(calibrator).set_params(from_logits=True)
    first.partial_fit(X[start], y[start], classes=[0, 1, 2], half_life=2000)
    shuffled = np.random.default_rng(2).permutation(rows)
    repeated = np.repeat(rows, weight[rows])
    one, *others = (
        copy.deepcopy(first).partial_fit(X[k], y[k], w, half_life=2000)
        for k, w in [
            (rows, weight[rows]),
            (shuffled, weight[shuffled]),
            (repeated, None),
        ]
    )
    for other in others:
        assert distance(one, other, X) < 1e-10


@every_calibrator
def test_float32_agrees_with_float64(calibrator):
    X, y = draw(1500)
    calibrator = clone(calibrator).set_params(from_logits=True)
    double = update(calibrator, X, y, 500)
    single = update(calibrator, X.astype(np.float32), y, 500)
    assert single.predict_proba(X.astype(np.float32)).dtype == np.float32
    assert distance(single, double, X) < 1e-4


def test_temperature_is_proportional_to_the_scale_of_logits():
    X, y = draw(3000)
    one, large, small = (
        update(TemperatureScaling(from_logits=True), factor * X, y, 500).temperature_
        for factor in (1, 2.0**40, 2.0**-40)
    )
    assert large / 2.0**40 == pytest.approx(one, rel=1e-9)
    assert small * 2.0**40 == pytest.approx(one, rel=1e-9)


def test_half_life_follows_a_change():
    X, y = draw(12_000, 10, factor=1.0)
    X[6000:] *= 2
    kept = update(TemperatureScaling(from_logits=True), X, y, 500)
    fresh = update(TemperatureScaling(from_logits=True), X, y, 500, half_life=1000)
    assert kept.temperature_ < 1.7
    assert fresh.temperature_ == pytest.approx(2, abs=0.12)


def test_few_errors_shrink_towards_no_calibration():
    """The distance is multiplied by the root of the number of errors over ten."""
    X, y = draw(12, 4, seed=3)
    fitted = TemperatureScaling(from_logits=True)
    with pytest.warns(UserWarning, match="needs about 10"):
        fitted.fit(X, y, labels=range(4))
    assert 0 < fitted.n_errors_ < 10
    online = update(TemperatureScaling(from_logits=True), X, y, 1)
    share = np.sqrt(fitted.n_errors_ / 10)
    wanted = 1 + share * (1 / fitted.temperature_ - 1)
    assert 1 / online.temperature_ == pytest.approx(wanted)


def test_without_errors_nothing_is_calibrated():
    proba = softmax(draw(15)[0], axis=1)
    for calibrator in ONLINE:
        online = update(calibrator, proba, proba.argmax(axis=1), 5)
        np.testing.assert_allclose(online.predict_proba(proba), proba, atol=1e-12)


@pytest.mark.parametrize("half_life", [None, 30.0])
@every_calibrator
def test_separable_and_absent_classes_stay_finite(calibrator, half_life):
    """No sample of a class, and no error after the first 300 samples."""
    X, y = draw(2500, 4)
    is_right = (X.argmax(axis=1) == y) | (np.arange(len(y)) < 300)
    X, y = X[is_right & (y < 3)], y[is_right & (y < 3)]
    calibrator = clone(calibrator).set_params(from_logits=True)
    online = update(calibrator, X, y, 350, half_life=half_life)
    proba = online.predict_proba(X)
    assert np.isfinite(parameters_of(online)).all()
    losses = -np.log(proba[np.arange(len(y)), y])
    assert losses[:300].mean() < 3


@every_calibrator
def test_predictions_of_equal_or_extreme_logits_stay_finite(calibrator):
    calibrator = clone(calibrator).set_params(from_logits=True)
    for X in (np.zeros((600, 3)), 1e6 * draw(600)[0], 1e-6 * draw(600)[0]):
        y = np.arange(600) % 3
        proba = update(calibrator, X, y, 300, half_life=150).predict_proba(X)
        assert np.isfinite(proba).all()


def test_temperature_stays_finite_if_predictions_are_worse_than_random():
    X, y = draw(3000)
    online = update(TemperatureScaling(from_logits=True), -X, y, 250)
    assert 1e6 < online.temperature_ < np.inf
    np.testing.assert_allclose(online.predict_proba(X), 1 / 3, atol=1e-5)


@pytest.mark.parametrize("parameters", ["abm", "am", "ab"])
def test_exponents_of_beta_are_not_negative(parameters):
    X, y = draw(2500, 2)
    online = BetaCalibration(parameters=parameters, from_logits=True)
    online = update(online, X, 1 - y, 500)
    fitted = clone(online).fit(X, 1 - y)
    np.testing.assert_allclose(online.maps_[0], fitted.maps_[0], atol=0.01)
    assert (online.maps_[0][:2] == 0).all()
