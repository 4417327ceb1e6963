"""The worst value over groups."""

from functools import partial

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, log_loss

from sklearn_calib.metrics import (
    bootstrap_interval,
    expected_calibration_error,
    per_group,
    worst_group,
)

RNG = np.random.default_rng(0)
N_SAMPLES = 300
PROBA = RNG.dirichlet(np.ones(3), N_SAMPLES)
Y = np.array(["ash", "birch", "cedar"])[RNG.integers(3, size=N_SAMPLES)]
GROUPS = np.array(["north", "south", "west"])[np.arange(N_SAMPLES) % 50 // 24]
Y[(GROUPS == "west") & (Y == "cedar")] = "ash"


@pytest.mark.parametrize("metric", [expected_calibration_error, log_loss])
@pytest.mark.parametrize("weighted", [False, True])
def test_is_the_largest_value_of_the_table(metric, weighted):
    weight = np.arange(N_SAMPLES) % 3 if weighted else None
    data = {"y_true": Y, "y_proba": PROBA, "groups": GROUPS, "sample_weight": weight}
    values = per_group(metric, **data)["value"].drop("overall")
    assert worst_group(metric, **data) == values.max()
    assert worst_group(metric, **data, greater_is_better=True) == values.min()


def test_options_reach_the_metric():
    options = {"groups": GROUPS, "norm": "max", "labels": ["cedar", "ash", "birch"]}
    proba = PROBA[:, [2, 0, 1]]
    table = per_group(expected_calibration_error, Y, proba, **options)
    value = worst_group(expected_calibration_error, Y, proba, **options)
    assert value == table["value"].drop("overall").max()


def test_small_groups_are_ignored():
    """Group "west" has 12 samples, or 11 with a weight of zero."""
    assert (GROUPS == "west").sum() == 12
    off = np.where((GROUPS == "west")[:, None], [0.999, 0.0005, 0.0005], PROBA)
    table = per_group(expected_calibration_error, Y, off, groups=GROUPS)["value"]
    measure = partial(worst_group, expected_calibration_error, Y, off, groups=GROUPS)
    assert measure(min_samples=12) == measure() == table["west"]
    assert measure(min_samples=13) == table[["north", "south"]].max()
    weight = np.ones(N_SAMPLES)
    weight[np.flatnonzero(GROUPS == "west")[0]] = 0
    value = measure(min_samples=12, sample_weight=weight)
    assert value == table[["north", "south"]].max()


def test_groups_of_weight_zero_are_ignored():
    weight = (GROUPS != "west").astype(float)
    data = {"groups": GROUPS, "sample_weight": weight}
    value = worst_group(expected_calibration_error, Y, PROBA, **data)
    rest = weight > 0
    assert value == worst_group(
        expected_calibration_error, Y[rest], PROBA[rest], groups=GROUPS[rest]
    )


def test_interval():
    metric = partial(worst_group, expected_calibration_error, groups=GROUPS)
    options = {"n_resamples": 20, "random_state": 0}
    low, high = bootstrap_interval(metric, Y, PROBA, **options)
    assert 0 <= low < metric(Y, PROBA) < high


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"min_samples": 3}, r"min_samples must be .*which is 2, got 3\. Use a sm"),
        ({"min_samples": 0}, "The 'min_samples' parameter of worst_group"),
        ({"groups": ["a"]}, "groups must contain one group for each sample, got 1"),
        ({"metric": "ece"}, "metric must be a function .*, got 'ece'"),
        ({"y_proba": [0.5]}, "y_true must contain one label for each row of y_proba"),
        ({"sample_weight": [1]}, "sample_weight.shape"),
        ({"n_bins": 0}, "The 'n_bins' parameter .* Got 0"),
        ({"y_true": [], "y_proba": [], "groups": []}, r"0 sample\(s\)"),
    ],
)
def test_bad_input(change, message):
    arguments = {
        "metric": expected_calibration_error,
        "y_true": [0, 1, 1],
        "y_proba": [0.5, 0.5, 0.5],
        "groups": ["a", "b", "b"],
    }
    with pytest.raises((TypeError, ValueError), match=message):
        worst_group(**{**arguments, **change})


def test_a_metric_without_labels():
    options = {"groups": [7, 7, 3], "greater_is_better": True}
    assert worst_group(accuracy_score, [0, 1, 1], [0, 1, 0], **options) == 0
