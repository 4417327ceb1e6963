"""Multicalibration error: values of MCGrad, by definition, and its noise."""

from functools import partial
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from sklearn_calib.metrics import (
    bootstrap_interval,
    consistency_test,
    cutoff_calibration_error,
    multicalibration_error,
    per_group,
    worst_group,
)

RNG = np.random.default_rng(0)


@pytest.fixture(scope="module")
def recorded(reference):
    """Return what MCGrad reports by depth, and the data: groups, labels, scores."""
    table = reference("metric_multicalibration")
    inputs = table["inputs"]
    groups = pd.DataFrame({name: list(inputs[name]) for name in ("sex", "region")})
    y_true = np.array([int(digit) for digit in inputs["label"]])
    return table["depth"], groups, y_true, np.array(inputs["prediction"])


def by_definition(y_true, proba, groups, weight=None, scale="size"):
    """Return the error from all groups and all intervals of probabilities."""
    weight = np.ones(len(proba)) if weight is None else weight
    columns = [*np.reshape(groups, (len(proba), -1)).T, np.zeros(len(proba))]
    variance = weight * proba * (1 - proba)
    errors = []
    for member in (column == name for column in columns for name in {*column}):
        part = weight[member].sum() / weight.sum()
        if scale == "noise":
            part *= part * variance.sum() / variance[member].sum()
        gaps = [
            weight[inside] @ (y_true - proba)[inside]
            for low in {*proba[member]}
            for high in {*proba[member]}
            if (inside := member & (low <= proba) & (proba <= high)).any()
        ]
        errors.append(np.sqrt(part) * np.abs(gaps).max() / weight[member].sum())
    return max(errors)


def problem(n_samples=60, n_values=12):
    """Return labels, probabilities with ties, and two columns of groups."""
    proba = RNG.integers(1, n_values, size=n_samples) / n_values
    y_true = (RNG.uniform(size=n_samples) < proba).astype(int)
    return y_true, proba, RNG.integers(3, size=(n_samples, 2))


def test_values_of_mcgrad(recorded):
    """All samples, each column, and each column with the combinations of both."""
    depths, groups, y_true, proba = recorded
    both = groups.assign(both=groups["sex"] + groups["region"])
    for depth, columns in [("0", np.zeros(len(groups))), ("1", groups), ("2", both)]:
        value = multicalibration_error(y_true, proba, groups=columns, scale="noise")
        assert value == pytest.approx(depths[depth]["mce"], rel=1e-12)
    largest = [
        worst_group(cutoff_calibration_error, y_true, proba, groups=both[name])
        for name in both
    ]
    assert max(largest) == pytest.approx(depths["2"]["largest_ecce"], rel=1e-12)


@pytest.mark.parametrize("scale", ["size", "noise"])
@pytest.mark.parametrize("is_weighted", [False, True])
def test_by_definition(scale, is_weighted):
    for _ in range(2):
        y_true, proba, groups = problem()
        weight = RNG.uniform(0.1, 2, size=len(proba)) if is_weighted else None
        value = multicalibration_error(
            y_true, proba, groups=groups, scale=scale, sample_weight=weight
        )
        expected = by_definition(y_true, proba, groups, weight, scale)
        assert value == pytest.approx(expected, rel=1e-9)


def test_by_hand():
    """Half of the samples are 1/2 too low, so the error is sqrt(1/2) / 2."""
    y_true, proba, groups = [1, 1, 0, 1], [0.5, 0.5, 0.5, 0.5], ["a", "a", "b", "b"]
    value = multicalibration_error(y_true, proba, groups=groups)
    assert value == pytest.approx(np.sqrt(1 / 2) / 2)


def test_groups_of_two_columns():
    """Only combinations are wrong, by 1/2, and they are the groups in `per_group`.

    A quarter of the samples is in each, so the error is sqrt(1/4) / 2.
    """
    groups = pd.DataFrame({"sex": [*"ffmm"] * 2, "old": [0, 1] * 4})
    y_true, proba = (groups["sex"] == "f") ^ (groups["old"] == 1), np.full(8, 0.5)
    assert multicalibration_error(y_true, proba, groups=groups) == 0
    for column in groups:
        of_one = {"groups": groups[[column]]}
        assert multicalibration_error(y_true, proba, **of_one) == 0
        assert worst_group(cutoff_calibration_error, y_true, proba, **of_one) == 0
    table = per_group(cutoff_calibration_error, y_true, proba, groups=groups)
    expected = {("f", 0): 0.5, ("f", 1): 0.5, ("m", 0): 0.5, ("m", 1): 0.5}
    assert table["value"].to_dict() == {**expected, "overall": 0}
    both = groups.assign(both=[*zip(*groups.to_numpy().T, strict=True)])
    value = multicalibration_error(y_true, proba, groups=both)
    assert value == pytest.approx(1 / 4)


@pytest.mark.parametrize("scale", ["size", "noise"])
def test_one_group_is_the_error_without_groups(scale):
    y_true, proba, _ = problem()
    value = multicalibration_error(
        y_true, proba, groups=["all"] * len(proba), scale=scale
    )
    assert value == pytest.approx(cutoff_calibration_error(y_true, proba))


def test_names_and_containers_of_groups_do_not_matter():
    y_true, proba, groups = problem()
    expected = multicalibration_error(y_true, proba, groups=groups)
    frame = pd.DataFrame(groups, columns=["one", "two"]).astype(object)
    frame["one"] = frame["one"].replace({0: np.nan, 1: "b", 2: 7})
    frame["two"] = pd.Categorical(frame["two"])
    for other in (
        groups.tolist(),
        groups[:, ::-1],
        5 - groups,
        frame,
        groups.T[[0, 1, 0]].T,
    ):
        assert multicalibration_error(y_true, proba, groups=other) == expected


def test_samples_in_another_order_and_repeated():
    y_true, proba, groups = problem()
    times = RNG.integers(3, size=len(proba))
    order = RNG.permutation(np.arange(len(proba)).repeat(times))
    for scale in ("size", "noise"):
        value = multicalibration_error(
            y_true, proba, groups=groups, scale=scale, sample_weight=times
        )
        repeated = multicalibration_error(
            y_true[order], proba[order], groups=groups[order], scale=scale
        )
        assert value == pytest.approx(repeated, rel=1e-9)


def test_several_classes():
    """The top label, or the largest error over the classes."""
    proba = RNG.dirichlet(np.ones(3), size=80)
    y_true = np.array(["ash", "elm", "oak"])[RNG.integers(3, size=80)]
    groups = RNG.integers(2, size=80)
    measure = partial(multicalibration_error, groups=groups)
    is_correct = y_true == np.array(["ash", "elm", "oak"])[proba.argmax(axis=1)]
    top = measure(is_correct, proba.max(axis=1), labels=[False, True])
    assert measure(y_true, proba) == pytest.approx(top)
    single = [
        measure(y_true == name, column)
        for name, column in zip(["ash", "elm", "oak"], proba.T, strict=True)
    ]
    assert measure(y_true, proba, mode="classwise") == pytest.approx(max(single))
    with pytest.raises(ValueError, match="requires two classes"):
        measure(y_true, proba, mode="positive")


def test_certain_and_wrong():
    """Without variance, the noise of a group is zero, and its error infinite."""
    y_true, proba = [1, 0, 0, 1], [0.0, 0.0, 0.5, 0.5]
    groups = ["a", "a", "b", "b"]
    value = multicalibration_error(y_true, proba, groups=groups, scale="noise")
    assert value == np.inf
    assert multicalibration_error(y_true, proba, groups=groups) == np.sqrt(0.5) / 2
    # With all samples in one group, there is nothing to be scaled.
    value = multicalibration_error([1, 0], [0, 0], groups=["a"] * 2, scale="noise")
    assert value == 0.5
    correct = multicalibration_error([0, 1], [0, 1], groups=["a", "b"], scale="noise")
    assert correct == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"groups": ["a"]}, "groups must contain one group for each sample, got 1"),
        ({"groups": None}, "The 'groups' parameter of multicalibration_error"),
        ({"groups": {"a": [0, 1]}}, "groups must be array-like .* got a dict"),
        ({"groups": pd.Series([{0}, {1}])}, "groups must contain hashable values"),
        ({"scale": "mass"}, "The 'scale' parameter of multicalibration_error"),
        ({"mode": "canonical"}, "The 'mode' parameter of multicalibration_error"),
        ({"y_proba": [0.5, np.nan]}, "y_proba must be finite, got NaN"),
    ],
)
def test_bad_input(change, message):
    arguments = {"y_true": [0, 1], "y_proba": [0.5, 0.5], "groups": ["a", "b"]}
    with pytest.raises((TypeError, ValueError), match=message):
        multicalibration_error(**{**arguments, **change})


def test_without_groups():
    with pytest.raises(TypeError, match=r"missing a required .*argument: 'groups'"):
        multicalibration_error([0, 1], [0.5, 0.5])


def calibrated(rng, n_samples, sizes, beta):
    """Return labels drawn from the probabilities, and groups of these sizes."""
    proba = rng.beta(*beta, size=n_samples)
    groups = rng.choice(len(sizes), size=n_samples, p=sizes)
    return rng.uniform(size=n_samples) < proba, proba, groups


def test_test_and_interval():
    """Calibrated predictions are not rejected, and the interval contains zero."""
    y_true, proba, groups = calibrated(
        np.random.default_rng(1), 300, [0.8, 0.2], (2, 2)
    )
    metric = partial(multicalibration_error, groups=groups)
    draws = {"n_resamples": 50, "random_state": 0}
    few = {"n_resamples": 20, "random_state": 0}
    assert consistency_test(metric, y_true, proba, **draws).pvalue > 0.05
    assert bootstrap_interval(metric, y_true, proba, **few)[0] == 0
    off = np.where(groups == 1, proba**3, proba)
    assert consistency_test(metric, y_true, off, **draws).pvalue < 0.02
    low, high = bootstrap_interval(metric, y_true, off, **few)
    assert 0 < low < metric(y_true, off) < high


@pytest.mark.slow
@pytest.mark.parametrize("beta", [(2, 2), (0.5, 3), (0.1, 2)])
def test_noise_of_calibrated_predictions(beta):
    """It shrinks with the square root of n, and grows little with tiny groups."""
    rng, sizes = np.random.default_rng(0), [0.6, 0.4]
    tiny = np.append(0.9 * np.array(sizes), np.full(20, 0.005))
    noise = [
        np.mean(
            [
                multicalibration_error(y_true, proba, groups=groups)
                for y_true, proba, groups in (
                    calibrated(rng, n_samples, parts, beta) for _ in range(200)
                )
            ]
        )
        for n_samples, parts in [
            (500, sizes),
            (2000, sizes),
            (8000, sizes),
            (2000, tiny),
        ]
    ]
    ratios = [before / after for before, after in pairwise(noise[:3])]
    assert_allclose(ratios, 2, rtol=0.1)
    variance = beta[0] * beta[1] / (sum(beta) * (sum(beta) + 1))
    # The range of a Brownian motion has the mean 1.6; that of three groups is larger.
    assert 1.6 < noise[1] * np.sqrt(2000 / variance) < 2.3
    assert noise[3] < 1.8 * noise[1]
