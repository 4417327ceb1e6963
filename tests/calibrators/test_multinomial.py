"""Recorded and published values of vector, matrix, Dirichlet, structured scaling."""

from functools import cache

import numpy as np
import pytest
from scipy.special import log_softmax
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss

from sklearn_calib.calibrators import (
    DirichletCalibrator,
    MatrixScaling,
    StructuredMatrixScaling,
    StructuredVectorScaling,
    TemperatureScaling,
    VectorScaling,
)

FAMILY = [
    VectorScaling(),
    MatrixScaling(),
    DirichletCalibrator(),
    StructuredVectorScaling(lambd=1.0),
    StructuredMatrixScaling(lambd=1.0),
]


def recorded(reference, name, case):
    """Return training data, test data and the recorded results."""
    record = reference(name)
    (expected,) = (e["values"] for e in record["expected"] if e["id"] == case)
    arrays = {k: np.array(v) for k, v in record["inputs"]["multiclass"].items()}
    return arrays, expected


# The recorded "odir" is lambd * off-diagonal sum + mu * intercept sum; we divide by
# K (K - 1) = 12 and by K = 4. The other results were computed in float32.
@pytest.mark.parametrize(
    ("name", "case", "calibrator", "rtol", "atol"),
    [
        ("dirichlet", "full-none", DirichletCalibrator(), 1e-9, 0),
        ("dirichlet", "diag-none", DirichletCalibrator(diagonal=True), 1e-9, 0),
        (
            "dirichlet",
            "full-odir-norefrow",
            DirichletCalibrator(penalty="odir", lambd=0.12, mu=0.4),
            1e-8,
            0,
        ),
        (
            "dirichlet",
            "diag-odir-norefrow",
            DirichletCalibrator(diagonal=True, penalty="odir", lambd=0, mu=0.4),
            1e-8,
            0,
        ),
        (
            "dirichlet",
            "torch_uncertainty-odir",
            DirichletCalibrator(penalty="odir", lambd=0.05, mu=0.1),
            1e-3,
            1e-4,
        ),
        ("vector_matrix", "dirichletcal-matrix-probs", MatrixScaling(), 1e-9, 0),
        (
            "vector_matrix",
            "probmetrics-vector",
            DirichletCalibrator(diagonal=True),
            1e-3,
            1e-4,
        ),
        ("vector_matrix", "probmetrics-matrix", DirichletCalibrator(), 5e-3, 6e-3),
        ("structured", "svs", StructuredVectorScaling(lambd=1.0), 2e-3, 1e-3),
        ("structured", "sms", StructuredMatrixScaling(lambd=1.0), 2e-3, 1e-3),
        (
            "structured",
            "sms-other",
            StructuredMatrixScaling(
                lambd=1.0, intercept=10, diagonal=0.1, off_diagonal=0.01
            ),
            2e-3,
            1e-3,
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_recorded_probabilities(name, case, calibrator, rtol, atol, reference, fresh):
    data, expected = recorded(reference, f"cal_{name}", case)
    fitted = fresh(calibrator, from_logits=True)
    fitted.fit(data["fit_logits"], data["fit_labels"])
    proba = fitted.predict_proba(data["test_logits"])
    np.testing.assert_allclose(proba, expected["test_probs"], rtol=rtol, atol=atol)
    assert fitted.log_loss_after_ == pytest.approx(
        expected["fit_nll"], rel=1e-9 if atol == 0 else 1e-4
    )


# Log loss on the test set in the notebooks of Kull et al. (2019).
@pytest.mark.slow
@pytest.mark.parametrize(
    ("calibrator", "published"),
    [
        (TemperatureScaling(), 0.209261),
        (VectorScaling(), 0.206245),
        (DirichletCalibrator(penalty="l2"), 0.203025),
        (DirichletCalibrator(penalty="odir"), 0.205106),
        (MatrixScaling(penalty="odir"), 0.203753),
        (StructuredMatrixScaling(lambd=1.0), 0.203753),
    ],
    ids=repr,
)
def test_published_log_loss_of_resnet_110_on_cifar_10(
    calibrator, published, shared_data, fresh
):
    data = shared_data("logits/cifar10_resnet110_kull.npz")
    fitted = fresh(calibrator, from_logits=True)
    fitted.fit(data["val_logits"].astype(np.float64), data["val_labels"])
    proba = fitted.predict_proba(data["test_logits"].astype(np.float64))
    assert log_loss(data["test_labels"], proba) < 1.01 * published


def test_centred_logits_or_log_probabilities(make_logits, fresh):
    """The Dirichlet map depends on the sum of log p, which centring removes."""
    logits, y = make_logits(n_classes=3)
    matrix = MatrixScaling(from_logits=True).fit(logits**3, y)
    dirichlet = DirichletCalibrator(from_logits=True).fit(logits**3, y)
    assert dirichlet.log_loss_after_ != pytest.approx(matrix.log_loss_after_, rel=1e-4)
    shifted = logits**3 + np.arange(len(y))[:, None]
    for fitted in (matrix, dirichlet):
        again = fresh(fitted).fit(shifted, y)
        np.testing.assert_allclose(again.coef_, fitted.coef_, atol=1e-5)


@pytest.mark.parametrize("penalty", ["l2", "odir"])
@pytest.mark.parametrize(
    "calibrator", [VectorScaling(), MatrixScaling(), DirichletCalibrator()], ids=repr
)
def test_strength_by_cross_validation(calibrator, penalty, make_logits, fresh):
    """The selected strength has a lower log loss on new data than both ends."""
    logits, y = make_logits(1300, 4)
    logits = 2 * logits + np.linspace(-1, 1, 4)
    calibrator = fresh(calibrator, penalty=penalty, from_logits=True)

    def held_out(fitted):
        return log_loss(y[300:], fitted.predict_proba(logits[300:]))

    chosen = calibrator.set_params(lambd="cv").fit(logits[:300], y[:300])
    assert np.isclose(chosen.lambd_, 10.0 ** np.arange(-4, 4)).any()
    loss = held_out(chosen)
    for lambd in (1e-4, 1e3):
        ended = calibrator.set_params(lambd=lambd).fit(logits[:300], y[:300])
        assert loss <= held_out(ended) + 1e-3
    of_two = calibrator.set_params(lambd=[1e-4, 1e3]).fit(logits[:300], y[:300])
    assert of_two.lambd_ in (1e-4, 1e3)
    assert of_two.lambd == [1e-4, 1e3]


@pytest.mark.parametrize(
    "calibrator", [StructuredVectorScaling(), StructuredMatrixScaling()], ids=repr
)
def test_structured_strength_by_cross_validation(calibrator, make_logits, fresh):
    """The penalty is strong if temperature scaling is sufficient, otherwise weak."""
    logits, y = make_logits(500, 3)
    chosen = fresh(calibrator, lambd="cv", from_logits=True).fit(2 * logits, y)
    assert chosen.lambd_ > 1
    assert np.abs(chosen.intercept_).max() < 0.1
    biased = 2 * logits + np.array([-4.0, 0, 4])
    chosen.fit(biased, y)
    assert chosen.lambd_ < 1
    assert np.abs(chosen.intercept_).max() > 0.5
    assert not hasattr(chosen, "mu_")


def test_mu_is_chosen_with_lambd(make_logits):
    logits, y = make_logits(500)
    calibrator = MatrixScaling(
        penalty="odir", lambd=[1, 100], mu=[1e-3, 1e3], from_logits=True
    )
    logits += np.array([2.0, 0, 0, -2])
    biased = calibrator.fit(logits, y)
    assert biased.mu_ == 1e-3
    assert np.abs(biased.intercept_).max() > 1
    tied = MatrixScaling(penalty="odir", lambd=1e3, from_logits=True)
    assert np.abs(tied.fit(logits, y).intercept_).max() < 0.01


@pytest.mark.parametrize("lambd", [0.0, 1e-3, 1.0])
def test_structured_penalty_by_its_definition(lambd, make_logits):
    """With integer weights, and sums over the samples instead of means."""
    logits, y = make_logits(200, 3)
    weight = np.arange(200) % 3 + 1.0
    fitted = StructuredMatrixScaling(lambd=lambd, from_logits=True)
    fitted.fit(2 * logits, y, sample_weight=weight)
    log_p = fitted._features(2 * logits)
    n_samples = weight.sum()
    assert fitted.mixing_ == pytest.approx(1 / (n_samples + 1))

    def objective(coef, intercept):
        scores = log_p @ coef.T + intercept
        true = log_softmax(scores, axis=1)[np.arange(200), y]
        change = coef - np.eye(3)
        on = (np.diag(change) ** 2).sum()
        pull = 3 * (intercept @ intercept + on) + 6 * ((change**2).sum() - on)
        return lambd * pull - weight @ true

    best = objective(fitted.coef_, fitted.intercept_)
    rng = np.random.default_rng(0)
    for _ in range(20):
        coef = fitted.coef_ + 0.02 * rng.normal(size=(3, 3))
        intercept = fitted.intercept_ + 0.02 * rng.normal(size=3)
        assert objective(coef, intercept) > best


@pytest.mark.parametrize(
    "calibrator", [VectorScaling(), MatrixScaling(), DirichletCalibrator()], ids=repr
)
def test_separable_classes_are_held_near_temperature_scaling(
    calibrator, make_logits, fresh
):
    logits = make_logits(300, 3)[0]
    y = logits.argmax(axis=1)
    with pytest.warns(ConvergenceWarning, match="classes are separable"):
        fitted = fresh(calibrator, from_logits=True).fit(logits, y)
    proba = fitted.predict_proba(logits[:10] / 10)
    assert fitted.log_loss_after_ <= fitted.log_loss_before_
    assert proba.min() > 1e-9


def test_matrix_with_fewer_samples_of_a_class_than_parameters(make_logits):
    """Without the prior, the log loss of new data would be infinite."""
    logits, y = make_logits(600, 30)
    with pytest.warns(ConvergenceWarning, match="a class has fewer than 31 samples"):
        fitted = MatrixScaling(from_logits=True).fit(3 * logits[:300], y[:300])
    held_out = log_loss(y[300:], fitted.predict_proba(3 * logits[300:]))
    assert held_out < log_loss(y[300:], np.full((300, 30), 1 / 30))


@pytest.mark.parametrize("calibrator", FAMILY, ids=repr)
def test_log_losses_before_and_after(calibrator, make_logits, fresh):
    logits, y = make_logits(1000, 3)
    fitted = fresh(calibrator, from_logits=True).fit(3 * logits, y)
    before = log_loss(y, np.exp(log_softmax(3 * logits, axis=1)))
    after = log_loss(y, fitted.predict_proba(3 * logits))
    assert fitted.log_loss_before_ == pytest.approx(before, rel=1e-9)
    assert fitted.log_loss_after_ == pytest.approx(after, rel=1e-9)
    assert after < before


@cache
def draw_a_thousand():
    """Return data for `fit`, other data, and their log loss with one temperature."""
    rng = np.random.default_rng(0)
    logits = 2 * rng.normal(size=(2500, 1000))
    slope = rng.uniform(0.5, 1, 1000)
    y = (slope * logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    train, test = (logits[:2000], y[:2000]), (logits[2000:], y[2000:])
    temperature = TemperatureScaling(from_logits=True)
    temperature.fit(*train, labels=np.arange(1000))
    return train, test, loss_of_a_thousand(temperature, *test)


def loss_of_a_thousand(fitted, X, y):
    return -np.log(fitted.predict_proba(X)[np.arange(len(y)), y]).mean()


@pytest.mark.filterwarnings(
    "ignore:y contains no samples of|The log loss has no minimum"
)
@pytest.mark.parametrize(
    "calibrator", [VectorScaling(), StructuredVectorScaling(lambd=1.0)], ids=repr
)
def test_a_thousand_classes(calibrator, fresh):
    train, test, theirs = draw_a_thousand()
    fitted = fresh(calibrator, from_logits=True).fit(*train, labels=np.arange(1000))
    assert loss_of_a_thousand(fitted, *test) < theirs * 1.02


BAD = {
    "penalty": ({"penalty": "l1"}, "'penalty' parameter"),
    "negative": ({"penalty": "l2", "lambd": -1.0}, "'lambd' parameter"),
    "word": ({"penalty": "l2", "lambd": "best"}, "'lambd' parameter"),
    "word without a penalty": (
        {"lambd": ["best"]},
        "lambd must contain numbers: could",
    ),
    "dict without a penalty": (
        {"lambd": {"a": 1}},
        "lambd must contain numbers: .*'dict'",
    ),
    "set": ({"penalty": "l2", "lambd": {1, 2}}, "lambd must contain numbers: .*'set'"),
    "mu without ODIR": ({"penalty": "l2", "mu": [-1]}, "mu must contain non-negative"),
    "empty": (
        {"penalty": "l2", "lambd": []},
        "lambd must contain non-negative.*got \\[]",
    ),
    "negative in sequence": (
        {"penalty": "odir", "lambd": 1.0, "mu": [0.1, -2]},
        r"mu must contain non-negative numbers, got \[0.1, -2\].*\"cv\"",
    ),
}


@pytest.mark.parametrize(("params", "message"), BAD.values(), ids=list(BAD))
def test_bad_parameters_are_refused(params, message, make_logits):
    logits, y = make_logits(50, 3)
    with pytest.raises((TypeError, ValueError), match=message):
        MatrixScaling(from_logits=True, **params).fit(logits, y)
