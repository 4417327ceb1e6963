"""Meta-Cal: recorded values, and control of the miscoverage and the accuracy."""

import numpy as np
import pytest
from scipy.special import softmax

from sklearn_calib.calibrators import MetaCal, TemperatureScaling
from sklearn_calib.metrics import expected_calibration_error


def make_overconfident(n_samples=4000, seed=0):
    """Return logits of the true model times 3, and labels."""
    rng = np.random.default_rng(seed)
    logits = 2 * rng.normal(size=(n_samples, 4))
    return 3 * logits, (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)


def is_accepted(proba):
    return proba.max(axis=1) > proba.min(axis=1)


@pytest.mark.parametrize("number", range(4))
def test_recorded_numbers(reference, number, monkeypatch):
    """With the rows that the authors' code drew, and for an accuracy its threshold.

    Its bins leave out the smallest entropy, and count empty ones as errors.
    """
    recorded = reference("cal_metacal")
    data, case = recorded["inputs"]["multiclass"], recorded["expected"][number]
    params, values = case["params"], case["values"]
    drawn = np.array(values["threshold_indices"])
    monkeypatch.setattr(MetaCal, "_draw", lambda *_: drawn)
    calibrator = MetaCal(
        miscoverage=params.get("alpha", 0.5),
        coverage_accuracy=params.get("acc"),
        threshold_fraction=0.1,
        from_logits=True,
    )
    if "acc" in params:
        monkeypatch.setattr(MetaCal, "_find_threshold", lambda *_: values["threshold"])
    calibrator.fit(data["fit_logits"], data["fit_labels"])
    assert calibrator.threshold_ == pytest.approx(values["threshold"], rel=1e-12)
    assert calibrator.temperature_ == pytest.approx(values["temperature"], rel=1e-5)
    proba = calibrator.predict_proba(data["test_logits"])
    np.testing.assert_allclose(proba, values["test_probs"], **recorded["tolerance"])


@pytest.mark.parametrize("fraction", [None, 0.1])
@pytest.mark.parametrize("miscoverage", [0.05, 0.3])
def test_miscoverage_is_controlled(miscoverage, fraction):
    X, y = make_overconfident(40_000)
    calibrator = MetaCal(
        miscoverage=miscoverage,
        threshold_fraction=fraction,
        random_state=0,
        from_logits=True,
    ).fit(X[:4000], y[:4000])
    proba, y = calibrator.predict_proba(X[4000:]), y[4000:]
    correct = X[4000:].argmax(axis=1) == y
    given_up = np.mean(~is_accepted(proba)[correct])
    # Three standard errors of a quantile of those correct of the 4000, or of a tenth.
    n_correct = 0.68 * 4000 * (fraction or 1)
    error = 3 * np.sqrt(miscoverage * (1 - miscoverage) / n_correct)
    assert given_up == pytest.approx(miscoverage, abs=error)


@pytest.mark.parametrize("accuracy", [0.75, 0.9, 0.97])
def test_coverage_accuracy_is_controlled(accuracy):
    X, y = make_overconfident(40_000)
    calibrator = MetaCal(coverage_accuracy=accuracy, from_logits=True)
    proba = calibrator.fit(X[:20_000], y[:20_000]).predict_proba(X[20_000:])
    accepted = is_accepted(proba)
    right = proba.argmax(axis=1) == y[20_000:]
    assert right[accepted].mean() == pytest.approx(accuracy, abs=0.02)
    assert 0.05 < accepted.mean() < 0.95


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_threshold_of_an_accuracy_by_hand():
    """Twenty samples, one in each bin: 10 correct, then 5 wrong, then 5 correct."""
    margin = np.linspace(6, 0.1, 20)
    X = np.column_stack([margin, np.zeros(20)])
    y = np.repeat([0, 1, 0], [10, 5, 5])
    proba = softmax(X, axis=1)
    entropy = -(proba * np.log(proba)).sum(axis=1)

    def fit(accuracy):
        return MetaCal(coverage_accuracy=accuracy, from_logits=True).fit(X, y)

    # Accuracies: 1 up to ten, 10/11, 10/12, 10/13, 10/14, 10/15, 11/16, ... 15/20.
    # Between 10/12 and 10/13 halfway.
    halfway = (10 / 12 + 10 / 13) / 2
    expected = (entropy[11] + entropy[12]) / 2
    assert fit(halfway).threshold_ == pytest.approx(expected, rel=1e-12)
    # The ten entropies at accuracy 1 are averaged.
    assert fit(0.999999).threshold_ == pytest.approx(entropy[:10].mean(), rel=1e-3)


def test_on_cifar10(shared_data):
    """Both controls hold on test data, and the calibration improves."""
    data = shared_data("logits/cifar10_resnet110_kull.npz")
    X, y = data["test_logits"], data["test_labels"]
    correct = X.argmax(axis=1) == y

    def calibrate(calibrator):
        calibrator.set_params(from_logits=True)
        proba = calibrator.fit(data["val_logits"], data["val_labels"]).predict_proba(X)
        return proba, expected_calibration_error(y, proba)

    proba, ece = calibrate(MetaCal(coverage_accuracy=0.97))
    assert correct[is_accepted(proba)].mean() == pytest.approx(0.97, abs=0.003)
    assert ece < 0.7 * calibrate(TemperatureScaling())[1]
    proba, ece = calibrate(MetaCal())
    assert np.mean(~is_accepted(proba)[correct]) == pytest.approx(0.05, abs=0.01)
    assert ece < 0.7 * calibrate(TemperatureScaling())[1]


def test_accuracy_out_of_reach():
    X, y = make_overconfident()
    calibrator = MetaCal(coverage_accuracy=0.5, from_logits=True).fit(X, y)
    assert calibrator.threshold_ == np.inf
    expected = TemperatureScaling(from_logits=True).fit(X, y)
    np.testing.assert_array_equal(
        calibrator.predict_proba(X), expected.predict_proba(X)
    )
    noise = np.random.default_rng(0).integers(4, size=4000)
    with pytest.raises(ValueError, match=r"coverage_accuracy must be at most .* 0\.9"):
        MetaCal(coverage_accuracy=0.9, from_logits=True).fit(X, noise)


def test_the_uncertain_get_equal_probabilities():
    X, y = make_overconfident()
    calibrator = MetaCal(miscoverage=0.2, from_logits=True).fit(X, y)
    proba = calibrator.predict_proba(X)
    p = softmax(X, axis=1)
    given_up = -(p * np.log(p)).sum(axis=1) > calibrator.threshold_ * (1 + 1e-5)
    assert (proba[given_up] == 0.25).all()
    expected = softmax(X[~given_up] / calibrator.temperature_, axis=1)
    np.testing.assert_allclose(proba[~given_up], expected)
    base = TemperatureScaling(from_logits=True).fit(X[~given_up], y[~given_up])
    assert calibrator.temperature_ == pytest.approx(base.temperature_)
    assert calibrator.predict(X[given_up]).max() == 0


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rounding_does_not_give_up_the_sample_at_the_threshold(dtype):
    X, y = make_overconfident(200)
    X = X.astype(dtype)
    calibrator = MetaCal(miscoverage=0.2, from_logits=True).fit(X, y)
    expected = is_accepted(calibrator.predict_proba(X))
    shifts = np.random.default_rng(0).normal(size=(20, 200, 1)).astype(dtype)
    for shift in shifts:
        accepted = is_accepted(calibrator.predict_proba(X + shift))
        np.testing.assert_array_equal(accepted, expected)


def test_random_state_repeats_the_draw():
    X, y = make_overconfident()

    def threshold(seed):
        calibrator = MetaCal(
            threshold_fraction=0.1, random_state=seed, from_logits=True
        )
        return calibrator.fit(X, y).threshold_

    assert threshold(0) == threshold(0) != threshold(1)


def test_weights_of_zero_leave_samples_out():
    X, y = make_overconfident(500)
    weight = np.arange(500) % 2
    for params in ({}, {"coverage_accuracy": 0.8}):
        calibrator = MetaCal(**params, from_logits=True)
        expected = calibrator.fit(X[1::2], y[1::2]).threshold_
        assert calibrator.fit(X, y, sample_weight=weight).threshold_ == expected


def test_nothing_correct():
    """There are no correct predictions to reject."""
    X, _ = make_overconfident(200)
    calibrator = MetaCal(from_logits=True)
    with pytest.warns(UserWarning, match="temperature"):
        calibrator.fit(X, X.argmin(axis=1), labels=[0, 1, 2, 3])
    assert calibrator.threshold_ == np.inf


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"miscoverage": 0}, "'miscoverage' parameter.*Got 0"),
        ({"miscoverage": 1.0}, "'miscoverage' parameter.*Got 1.0"),
        ({"coverage_accuracy": "most"}, "'coverage_accuracy' parameter"),
        ({"threshold_fraction": 10}, "'threshold_fraction' parameter.*Got 10"),
        ({"random_state": "chance"}, "'random_state' parameter"),
    ],
)
def test_bad_parameters(params, message):
    X, y = make_overconfident(50)
    with pytest.raises(ValueError, match=message):
        MetaCal(**params, from_logits=True).fit(X, y)


def test_too_few_samples_to_draw_from():
    X = [[0.9, 0.1], [0.4, 0.6]]
    calibrator = MetaCal(threshold_fraction=0.9)
    with pytest.raises(ValueError, match=r"threshold_fraction must leave .* got 0\.9"):
        calibrator.fit(X, [0, 0], labels=[0, 1])
