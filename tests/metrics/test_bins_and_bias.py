"""Numbers of bins chosen from the data, and debiased errors."""

import math

import numpy as np
import pytest

from sklearn_calib.metrics import (
    classwise_calibration_error,
    ece_interval,
    expected_calibration_error,
)


def arrays(recorded, case):
    """Return labels, probabilities and options of a recorded case."""
    inputs = recorded["inputs"][case["input"]]
    proba = np.array(inputs["probs"])
    return (inputs["labels"], proba), {"labels": range(proba.shape[1])}


def random_problem(seed=0, n_samples=2000):
    """Return outcomes and calibrated probabilities."""
    rng = np.random.default_rng(seed)
    y_proba = rng.uniform(size=n_samples)
    return rng.uniform(size=n_samples) < y_proba, y_proba


def test_recorded_debiased(reference):
    """The recorded bins of equal mass are the same as ours."""
    recorded = reference("metric_debiased")
    for case in recorded["expected"]:
        data, options = arrays(recorded, case)
        options["strategy"] = "quantile" if "mass" in case["id"] else "uniform"
        options["mode"] = "classwise" if "marginal" in case["id"] else "top_label"
        options |= {"norm": case["id"][-2:], "n_bins": case["params"]["n_bins"]}
        plain = expected_calibration_error(*data, **options)
        assert plain == pytest.approx(case["values"]["plugin"], rel=1e-12)
        value = expected_calibration_error(*data, reduce_bias=True, **options)
        # The recorded l1 error is the mean of 1000 draws.
        tolerance = 0.003 if case["id"].endswith("l1") else 1e-12
        assert value == pytest.approx(case["values"]["debiased"], abs=tolerance)


def test_recorded_sweep(reference):
    recorded = reference("metric_ece_sweep")
    for case in recorded["expected"]:
        data, options = arrays(recorded, case)
        strategy = "quantile" if "-em-" in case["id"] else "uniform"
        options |= {"strategy": strategy, "norm": case["params"]["norm"]}
        value = expected_calibration_error(*data, n_bins="sweep", **options)
        assert value == pytest.approx(case["values"]["ece"], rel=1e-12)
        n_bins = case["values"]["n_bins"]
        assert (value, n_bins) == expected_calibration_error(
            *data, n_bins="sweep", return_n_bins=True, **options
        )
        assert value == expected_calibration_error(*data, n_bins=n_bins, **options)


@pytest.mark.parametrize(
    ("n_samples", "n_bins"),
    [(0.5, 1), (1, 1), (8, 2), (9, 3), (1000, 10), (10**6, 100)],
)
def test_cube_root(n_samples, n_bins):
    """The number of samples is the sum of the weights."""
    _, found = expected_calibration_error(
        [0, 1],
        [0.2, 0.7],
        n_bins="cube_root",
        return_n_bins=True,
        sample_weight=[n_samples / 2] * 2,
    )
    assert found == n_bins


def test_cube_root_of_the_sum_of_weights():
    y_true, y_proba = random_problem(n_samples=100)
    weight = np.full(100, 10)
    options = {"sample_weight": weight, "strategy": "quantile"}
    for metric in (
        expected_calibration_error,
        classwise_calibration_error,
        lambda *data, **options: ece_interval(*data, random_state=0, **options),
    ):
        value = metric(y_true, y_proba, n_bins="cube_root", **options)
        assert value == metric(y_true, y_proba, n_bins=10, **options)


@pytest.mark.parametrize("mode", ["top_label", "classwise"])
@pytest.mark.parametrize(("n_bins", "expected"), [("cube_root", 5), (7, 7)])
def test_number_of_bins_is_returned(n_bins, expected, mode):
    y_true, y_proba = random_problem(n_samples=100)
    options = {"n_bins": n_bins, "mode": mode}
    value = expected_calibration_error(y_true, y_proba, **options)
    result = expected_calibration_error(y_true, y_proba, return_n_bins=True, **options)
    assert result == (value, expected)


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_sweep_ends_where_accuracies_fall(strategy):
    """A wrong prediction at the highest confidence ends the sweep."""
    confidence = np.arange(1, 2001) / 2001
    correct = confidence > 0.3
    options = {"n_bins": "sweep", "strategy": strategy, "return_n_bins": True}
    _, n_bins = expected_calibration_error(correct, confidence, **options)
    assert n_bins == 1999
    correct[-1] = False
    _, n_bins = expected_calibration_error(correct, confidence, **options)
    for count, rises in ((n_bins, True), (n_bins + 1, False)):
        cells = (
            np.ceil(confidence * 2001 * count / 2000 - 1e-9)
            if (strategy == "quantile")
            else np.ceil(confidence * count)
        )
        accuracy = [correct[cells == cell].mean() for cell in np.unique(cells)]
        assert (np.diff(accuracy) >= 0).all() == rises


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_bias_is_reduced(norm, strategy):
    """The error decreases for calibrated predictions, but not for large gaps."""
    options = {"norm": norm, "strategy": strategy}
    plain, reduced = np.mean(
        [
            [
                expected_calibration_error(*data, reduce_bias=reduce_bias, **options)
                for reduce_bias in (False, True)
            ]
            for data in map(random_problem, range(20))
        ],
        axis=0,
    )
    assert reduced < plain * {"l1": 0.65, "l2": 0.5}[norm]
    y_true, y_proba = random_problem()
    far = expected_calibration_error(y_true, y_proba**3, **options)
    same = expected_calibration_error(y_true, y_proba**3, reduce_bias=True, **options)
    assert same == pytest.approx(far, rel=0.02)


def test_bias_by_hand():
    """One bin has 3 of 4 correct at confidence 0.9, and one bin has a single sample."""
    data = [1, 1, 1, 0, 1], [0.9, 0.9, 0.9, 0.9, 0.3]
    gap, variance = 0.15, 0.75 * 0.25
    expected = math.sqrt(0.8 * max(0, gap**2 - variance / 3))
    options = {"n_bins": 2, "reduce_bias": True}
    assert expected == expected_calibration_error(*data, norm="l2", **options) == 0
    noise = math.sqrt(variance / 4)
    noisy = gap * math.erf(gap / noise / math.sqrt(2)) + noise * math.sqrt(
        2 / math.pi
    ) * math.exp(-((gap / noise) ** 2) / 2)
    # One correct prediction does not have any noise to subtract: 0.7.
    expected = 0.8 * (2 * gap - noisy) + 0.2 * 0.7
    assert expected_calibration_error(*data, **options) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_bins": "sturges"}, "The 'n_bins' parameter.*Got 'sturges'"),
        ({"n_bins": 0}, "The 'n_bins' parameter.*Got 0"),
        ({"n_bins": "sweep", "mode": "classwise"}, "n_bins must be an integer.*sweep"),
        ({"reduce_bias": True, "norm": "max"}, "reduce_bias must be False with norm"),
        ({"reduce_bias": True, "norm": 3}, "reduce_bias must be False with norm=3"),
        ({"reduce_bias": True, "strategy": "isotonic"}, 'False with strategy="isoton'),
        ({"return_n_bins": True, "strategy": "isotonic"}, "return_n_bins must be Fals"),
        ({"return_n_bins": 1.0}, "The 'return_n_bins' parameter.*Got 1.0"),
        ({"reduce_bias": "yes"}, "The 'reduce_bias' parameter.*Got 'yes'"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        expected_calibration_error([0, 1, 2], np.eye(3), **options)
