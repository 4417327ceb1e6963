"""Temperature scaling: recorded and published values, and degenerate data."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import softmax
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss

from sklearn_calib.calibrators import TemperatureScaling
from sklearn_calib.metrics import expected_calibration_error


def make_overconfident(n_samples=1000, n_classes=5, seed=0):
    """Return logits of the true model times 3, and labels."""
    rng = np.random.default_rng(seed)
    logits = 2 * rng.normal(size=(n_samples, n_classes))
    return 3 * logits, (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)


def top_label_ece(proba, y, n_bins=15):
    labels = range(proba.shape[1])
    return expected_calibration_error(y, proba, n_bins=n_bins, labels=labels)


@pytest.mark.parametrize("case", ["optimum-nll", "torrvision-grid-ece"])
def test_recorded_numbers(reference, case):
    recorded = reference("cal_temperature")
    data = recorded["inputs"]["multiclass"]
    case = next(c for c in recorded["expected"] if c["id"] == case)
    objective = "nll" if "nll" in case["id"] else "ece"
    calibrator = TemperatureScaling(objective=objective, from_logits=True)
    calibrator.fit(data["fit_logits"], data["fit_labels"])
    expected, tolerance = case["values"], case["tolerance"]
    assert calibrator.temperature_ == pytest.approx(expected["temperature"], rel=1e-9)
    proba = calibrator.predict_proba(data["test_logits"])
    np.testing.assert_allclose(proba, expected["test_probs"], **tolerance)
    fit_nll = log_loss(data["fit_labels"], calibrator.predict_proba(data["fit_logits"]))
    assert fit_nll == pytest.approx(expected["fit_nll"], rel=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_published_numbers_of_a_resnet110(shared_data, dtype):
    """Kull et al. (2019), table of ResNet-110 on CIFAR-10, temperature scaling."""
    data = shared_data("logits/cifar10_resnet110_kull.npz")
    calibrator = TemperatureScaling(from_logits=True)
    calibrator.fit(data["val_logits"].astype(dtype), data["val_labels"])
    assert calibrator.temperature_ == pytest.approx(2.395, abs=5e-4)
    y = data["test_labels"]
    proba = calibrator.predict_proba(data["test_logits"].astype(dtype))
    nll = -np.log(proba[np.arange(len(y)), y].astype(np.float64)).mean()
    assert nll == pytest.approx(0.209261, abs=1e-6)
    assert top_label_ece(proba, y) == pytest.approx(0.011321, abs=1e-6)


def test_published_numbers_of_a_resnet50(shared_data):
    """Mukhoti et al. (2020): cross-entropy on CIFAR-10, T chosen by ECE."""
    data = shared_data("logits/cifar10_resnet50_mukhoti_ce.npz")
    calibrator = TemperatureScaling(objective="ece", from_logits=True)
    calibrator.fit(data["val_logits"], data["val_labels"])
    assert calibrator.temperature_ == 2.5
    proba = calibrator.predict_proba(data["test_logits"])
    ece = top_label_ece(proba, data["test_labels"])
    assert ece == pytest.approx(0.01354, abs=5e-6)


@pytest.mark.parametrize("n_classes", [2, 5, 100])
def test_nll_is_at_its_minimum(n_classes):
    logits, y = make_overconfident(n_classes=n_classes)

    def nll(log_temperature):
        proba = softmax(logits / np.exp(log_temperature), axis=1)
        return -np.log(proba[np.arange(len(y)), y]).mean()

    best = minimize_scalar(nll, bounds=(-3, 5), options={"xatol": 1e-9})
    temperature = TemperatureScaling(from_logits=True).fit(logits, y).temperature_
    # A minimum is flat, so T is accurate to the square root of the precision only.
    assert temperature == pytest.approx(np.exp(best.x), rel=1e-6)
    assert nll(np.log(temperature)) <= best.fun * (1 + 1e-14)


@pytest.mark.parametrize("n_bins", [5, 15])
@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
@pytest.mark.parametrize("grid", [None, [8, 2.75, 6, 1, 4.25]])
@pytest.mark.parametrize("has_weights", [False, True])
def test_ece_is_at_the_first_minimum_of_the_grid(n_bins, strategy, grid, has_weights):
    """Logits of a few values give tied confidences; some weights are zero."""
    logits, y = make_overconfident(200)
    logits = 3 * (logits / 3).round()
    weight = np.random.default_rng(1).integers(4, size=200) if has_weights else None
    bins = {"n_bins": n_bins, "strategy": strategy}
    errors = {}
    for temperature in sorted(grid or [i / 10 for i in range(1, 101)]):
        proba = softmax(logits / temperature, axis=1)
        errors[temperature] = expected_calibration_error(
            y, proba, labels=range(5), sample_weight=weight, **bins
        )
    calibrator = TemperatureScaling(
        objective="ece", grid=grid, from_logits=True, **bins
    )
    calibrator.fit(logits, y, weight)
    assert calibrator.temperature_ == min(errors, key=errors.get)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("scale", [1e-30, 0.01, 50.0, 100.0, 1e25])
def test_temperature_follows_the_scale_of_the_logits(scale, dtype):
    logits, y = make_overconfident()
    calibrator = TemperatureScaling(from_logits=True)
    expected = calibrator.fit(logits, y).temperature_
    scaled = (scale * logits).astype(dtype)
    calibrator.fit(scaled, y)
    rel = 1e-12 if dtype == np.float64 else 1e-6
    assert calibrator.temperature_ == pytest.approx(scale * expected, rel=rel)
    assert np.isfinite(calibrator.predict_proba(scaled)).all()


@pytest.mark.parametrize("scale", [0.01, 1, 50, 100])
def test_always_wrong(scale):
    """The optimum is at infinity."""
    logits, _ = make_overconfident()
    wrong = logits.argmin(axis=1)
    calibrator = TemperatureScaling(from_logits=True)
    with pytest.warns(ConvergenceWarning, match=r"is infinite, .*was set to"):
        calibrator.fit(scale * logits, wrong)
    temperature = calibrator.temperature_ / scale
    assert 1000 < temperature < 10_000
    np.testing.assert_allclose(
        calibrator.predict_proba(scale * logits), 1 / 5, rtol=0.02
    )
    with pytest.warns(ConvergenceWarning, match="is infinite"):
        calibrator.fit(np.tile(logits, (4, 1)), np.tile(wrong, 4))
    assert calibrator.temperature_ > 3.9 * temperature


@pytest.mark.parametrize("scale", [0.01, 1, 50, 100])
def test_never_wrong(scale):
    """The optimum is at zero, which would give one-hot probabilities."""
    logits, _ = make_overconfident()
    right = logits.argmax(axis=1)
    calibrator = TemperatureScaling(from_logits=True)
    with pytest.warns(ConvergenceWarning, match=r"is 0, .*was set to"):
        calibrator.fit(scale * logits, right)
    temperature = calibrator.temperature_ / scale
    confidence = calibrator.predict_proba(scale * logits).max(axis=1)
    assert 0.95 < confidence.mean() < 1 - 1e-4
    with pytest.warns(ConvergenceWarning, match="is 0"):
        calibrator.fit(np.tile(logits, (4, 1)), np.tile(right, 4))
    assert calibrator.temperature_ < 0.6 * temperature


def test_nothing_to_scale():
    calibrator = TemperatureScaling(from_logits=True)
    with pytest.warns(ConvergenceWarning, match="all logits of each row are equal"):
        calibrator.fit(np.full((3, 3), 7.0), [0, 1, 2])
    assert calibrator.temperature_ == 1.0
    np.testing.assert_allclose(calibrator.predict_proba([[1.0, 1.0, 1.0]]), 1 / 3)


def test_one_error_is_no_bound():
    """One misclassified near tie in otherwise perfect data gives a finite optimum."""
    logits = np.array([[1.0, 1.0 + 1e-9, -1.0], [5.0, 0.0, 0.0], [0.0, 4.0, 0.0]])
    calibrator = TemperatureScaling(from_logits=True)
    calibrator.fit(logits, [0, 0, 1], labels=[0, 1, 2])
    tie = calibrator.predict_proba(logits)[0, :2]
    np.testing.assert_allclose(tie, 0.5, rtol=1e-6)
    assert 0.05 < calibrator.temperature_ < 1


@pytest.mark.parametrize(("scale", "end"), [(100.0, "10"), (0.01, "0.1")])
def test_end_of_the_grid_warns(scale, end):
    logits, y = make_overconfident()
    calibrator = TemperatureScaling(objective="ece", from_logits=True)
    with pytest.warns(ConvergenceWarning, match=f'T = {end}.*objective="nll"'):
        calibrator.fit(scale * logits, y)


def test_probabilities_of_zero_are_half_of_the_smallest():
    """With votes of ten trees, zero votes are not a probability of zero."""
    votes = np.random.default_rng(0).multinomial(10, [0.7, 0.2, 0.1], size=300)
    y = np.random.default_rng(1).choice(3, p=[0.7, 0.2, 0.1], size=300)
    calibrator = TemperatureScaling().fit(votes / 10, y)
    assert calibrator.zero_replacement_ == 0.05
    by_hand = TemperatureScaling(from_logits=True)
    by_hand.fit(np.log(np.maximum(votes, 0.5)), y)
    assert calibrator.temperature_ == pytest.approx(by_hand.temperature_)
    weight = np.ones(300)
    weight[(votes == 1).any(axis=1)] = 0
    assert TemperatureScaling().fit(votes / 10, y, weight).zero_replacement_ == 0.1


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"objective": "brier"}, "'objective' parameter.*a str among.*Got 'brier'"),
        ({"n_bins": 0}, r"'n_bins' parameter.*\[1, inf\).*Got 0"),
        ({"n_bins": 1.5}, "'n_bins' parameter.*Got 1.5"),
        ({"strategy": "arcsine"}, "'strategy' parameter.*Got 'arcsine'"),
        (
            {"objective": "ece", "grid": [0.0, 1.0]},
            r"grid must .*got \[0.0, 1.0\]. Pass",
        ),
        ({"objective": "ece", "grid": []}, r"grid must .*got \[\]. Pass"),
        ({"objective": "ece", "grid": [[1, 2], [3, 4]]}, r"grid must .*got \[\[1, 2"),
    ],
)
def test_bad_parameters(params, message):
    with pytest.raises(ValueError, match=message):
        TemperatureScaling(**params).fit(np.eye(3), [0, 1, 2])


def test_probabilities_that_underflow_are_repaired():
    """The tiny probabilities of naive Bayes must not dominate all others."""
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=600)
    logits = 400 * rng.normal(size=(600, 3))
    logits[np.arange(600), y] += 400
    proba = softmax(logits, axis=1)
    assert (proba == 0).any()
    fitted = TemperatureScaling().fit(proba[:300], y[:300])
    after = fitted.predict_proba(proba[300:])
    assert log_loss(y[300:], after) < np.log(3)
    assert log_loss(y[300:], after) < 0.5 * log_loss(y[300:], proba[300:])
