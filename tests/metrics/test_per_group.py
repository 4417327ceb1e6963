"""Metrics of groups of samples."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from sklearn.metrics import accuracy_score, log_loss as sklearn_log_loss

from sklearn_calib.metrics import (
    augrc_loss,
    bootstrap_interval,
    classwise_calibration_error,
    expected_calibration_error,
    per_group,
    root_brier_score_loss,
)

METRICS = [
    augrc_loss,
    classwise_calibration_error,
    expected_calibration_error,
    partial(expected_calibration_error, strategy="isotonic"),
    sklearn_log_loss,
    root_brier_score_loss,
]


def log_loss(y_true, y_proba, *, labels=None, sample_weight=None):
    """Return the log loss, without the checks that make draws slow."""
    codes = np.searchsorted(np.unique(y_true if labels is None else labels), y_true)
    both = y_proba if y_proba.ndim == 2 else np.column_stack([1 - y_proba, y_proba])
    likelihood = both[np.arange(len(codes)), codes]
    return -np.average(np.log(likelihood), weights=sample_weight)


@pytest.fixture(scope="module")
def problem():
    """Return labels, probabilities and groups. A class is absent from one group."""
    rng = np.random.default_rng(0)
    groups = np.array(["north", "south", "west"])[rng.integers(3, size=60)]
    y_true = np.array(["ash", "birch", "cedar"])[rng.integers(3, size=60)]
    y_true[(groups == "west") & (y_true == "cedar")] = "ash"
    return y_true, rng.dirichlet(np.ones(3), 60), groups


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("weighted", [False, True])
def test_is_the_metric_of_each_group(metric, weighted, problem):
    y_true, proba, groups = problem
    weight = np.arange(60) % 3 if weighted else None
    table = per_group(metric, y_true, proba, groups=groups, sample_weight=weight)
    assert list(table.index) == ["north", "south", "west", "overall"]
    for name, (n_samples, value) in table.iterrows():
        rows = slice(None) if name == "overall" else groups == name
        assert n_samples == len(y_true[rows])
        expected = metric(
            y_true[rows],
            proba[rows],
            labels=["ash", "birch", "cedar"],
            sample_weight=weight[rows] if weighted else None,
        )
        assert value == expected


def test_options_and_labels_reach_the_metric(problem):
    y_true, proba, groups = problem
    order = ["cedar", "ash", "birch"]
    table = per_group(
        expected_calibration_error,
        y_true,
        proba[:, [2, 0, 1]],
        groups=groups,
        labels=order,
        norm="max",
    )
    plain = per_group(
        expected_calibration_error, y_true, proba, groups=groups, norm="max"
    )
    pd.testing.assert_frame_equal(table, plain)


def test_a_metric_without_labels():
    """One group has a single sample."""
    table = per_group(accuracy_score, [0, 1, 1], [0, 1, 0], groups=[7, 7, 3])
    assert table["value"].to_dict() == {3: 0, 7: 1, "overall": 2 / 3}
    assert table["n_samples"].to_dict() == {3: 1, 7: 2, "overall": 3}


def test_order_of_rows_does_not_matter(problem):
    order = np.random.default_rng(1).permutation(60)
    tables = [
        per_group(root_brier_score_loss, y_true, proba, groups=groups)
        for y_true, proba, groups in (problem, [each[order] for each in problem])
    ]
    pd.testing.assert_frame_equal(*tables)


def test_combinations_of_groups(problem):
    y_true, proba, groups = problem
    frame = pd.DataFrame({"place": groups, "old": np.arange(60) % 2 == 0})
    frame.index += 5
    table = per_group(root_brier_score_loss, y_true, proba, groups=frame)
    assert len(table) == 7
    rows = ((frame["place"] == "west") & frame["old"]).to_numpy()
    expected = root_brier_score_loss(
        y_true[rows], proba[rows], labels=["ash", "birch", "cedar"]
    )
    assert table["value"][("west", True)] == expected
    assert table["n_samples"].iloc[:-1].sum() == 60


def test_missing_values_are_a_group():
    groups = pd.Series(["a", None, "a", None])
    table = per_group(accuracy_score, [0, 1, 1, 0], [0, 1, 0, 1], groups=groups)
    assert table["n_samples"].tolist() == [2, 2, 4]
    assert table["value"].tolist() == [0.5, 0.5, 0.5]


@pytest.mark.parametrize("metric", [METRICS[2], METRICS[3], log_loss])
@pytest.mark.parametrize("weighted", [False, True])
def test_intervals(metric, weighted, problem):
    """Each is the interval of the samples of the group alone."""
    y_true, proba, groups = (each[:24] for each in problem)
    weight = 1.0 + np.arange(24) % 3 if weighted else None
    draws = {"n_resamples": 8, "random_state": 0, "confidence_level": 0.8}
    given = {"groups": groups, "sample_weight": weight}
    table = per_group(metric, y_true, proba, **given, **draws)
    assert list(table.columns) == ["n_samples", "value", "low", "high"]
    plain = per_group(metric, y_true, proba, **given)
    pd.testing.assert_frame_equal(table[["n_samples", "value"]], plain)
    for name, (_, value, low, high) in table.iterrows():
        rows = slice(None) if name == "overall" else groups == name
        expected = bootstrap_interval(
            metric,
            y_true[rows],
            proba[rows],
            labels=["ash", "birch", "cedar"],
            sample_weight=weight[rows] if weighted else None,
            **draws,
        )
        assert (low, high) == expected
        assert low < value < high


def test_jobs_and_progress(problem, capfd):
    y_true, proba, groups = (each[:12] for each in problem)
    data = log_loss, y_true, proba
    draws = {"groups": groups, "confidence_level": 0.8, "n_resamples": 5}
    one = per_group(*data, **draws, random_state=0)
    assert capfd.readouterr() == ("", "")
    with parallel_config("threading"):
        both = per_group(*data, **draws, random_state=0, n_jobs=2, verbose=10)
    pd.testing.assert_frame_equal(one, both)
    assert "Parallel(n_jobs=2)]: Done" in "".join(capfd.readouterr())


@pytest.mark.parametrize("level", [None, 0.8])
def test_several_metrics(problem, level):
    """Each has the columns of its own table; one group has a weight of zero."""
    y_true, proba, _ = (each[:24] for each in problem)
    groups = np.column_stack([np.arange(24) % 2, np.repeat(["a", "b"], 12)])
    weight = np.arange(24) % 3 * (groups[:, 1] == "a")
    options = {"groups": groups, "sample_weight": weight, "confidence_level": level}
    options |= {"n_resamples": 5, "random_state": 0, "labels": sorted({*y_true})}
    metrics = {
        "log loss": log_loss,
        "error": partial(expected_calibration_error, n_bins=3),
    }
    table = per_group(metrics, y_true, proba, **options)
    for name, metric in metrics.items():
        one = per_group(metric, y_true, proba, **options)
        pd.testing.assert_frame_equal(table[name], one.drop(columns="n_samples"))
        pd.testing.assert_series_equal(table["n_samples"], one["n_samples"])
    assert table.columns[0] == ("n_samples", "")


@pytest.mark.parametrize(
    ("metrics", "options", "message"),
    [
        ({}, {}, r"metric must not be empty, got \{\}\. Pass at least one"),
        ({"n_samples": log_loss}, {}, 'metric must not contain the name "n_samples"'),
        ({"loss": "log_loss"}, {}, "metric must be a function .*, got 'log_loss'"),
        ({"loss": log_loss}, {"n_bins": 3}, "n_bins must not be passed with a dict"),
    ],
)
def test_bad_dict_of_metrics(metrics, options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        per_group(metrics, [0, 1], [0.5, 0.5], groups=[0, 0], **options)


def test_interval_of_options():
    """The debiased ECE keeps its options, and a group of one sample has no interval."""
    rng = np.random.default_rng(0)
    proba, groups = rng.uniform(size=30), np.repeat(["a", "b", "c"], [15, 14, 1])
    y_true = rng.uniform(size=30) < proba
    draws = {"n_resamples": 5, "random_state": 0, "confidence_level": 0.8}
    options = {"reduce_bias": True, "n_bins": 5}
    metric = partial(expected_calibration_error, **options)
    data = {"groups": groups, **draws}
    table = per_group(expected_calibration_error, y_true, proba, **options, **data)
    pd.testing.assert_frame_equal(table, per_group(metric, y_true, proba, **data))
    table = per_group(log_loss, y_true, proba, **data)
    assert table.loc["c", ["low", "high"]].isna().all()
    assert table.drop("c").notna().all(axis=None)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"confidence_level": 95},
            "The 'confidence_level' parameter of per_group .* Got 95",
        ),
        (
            {"n_resamples": 0, "confidence_level": 0.9},
            "The 'n_resamples' parameter of per_group",
        ),
        (
            {"groups": ["a"]},
            "groups must contain one group for each sample, got 1 groups",
        ),
        ({"groups": ["a", "overall"]}, 'groups must not contain the name "overall"'),
        ({"y_true": [], "y_proba": [], "groups": []}, r"0 sample\(s\)"),
        ({"groups": None}, "The 'groups' parameter of per_group"),
        ({"metric": "ece"}, "metric must be a function .*, got 'ece'"),
        ({"y_proba": [0.5]}, "y_true must contain one label for each row of y_proba"),
        ({"sample_weight": [1]}, "sample_weight.shape"),
        ({"n_bins": 0}, "The 'n_bins' parameter .* Got 0"),
        ({"y_true": [{}, {}]}, "y_true must contain labels of one type .* got dict"),
    ],
)
def test_bad_input(change, message):
    arguments = {
        "metric": expected_calibration_error,
        "y_true": [0, 1],
        "y_proba": [0.5, 0.5],
        "groups": ["a", "b"],
    }
    with pytest.raises((TypeError, ValueError), match=message):
        per_group(**{**arguments, **change})


@pytest.mark.parametrize(
    ("groups", "error", "message"),
    [
        ({0: "a", 1: "b"}, TypeError, "array-like .* got a dict. Pass a list"),
        ({"place": ["a", "b"]}, TypeError, "array-like .* got a dict"),
        ({"a", "b"}, TypeError, "array-like .* got a set"),
        ([{"a"}, {"b"}], TypeError, "array-like .* got a set"),
        ([{"a": 1}, {"a": 2}], TypeError, "array-like .* got a dict"),
        (
            pd.Series([{"a"}, {"b"}]),
            TypeError,
            "hashable values.* unhashable type: 'set'",
        ),
        (
            np.zeros((2, 1, 1)),
            ValueError,
            r"have shape \(n_samples,\) or .*shape=\(2, 1, 1\)",
        ),
        (np.array("a"), ValueError, r"have shape \(n_samples,\) or .* shape=\(\)"),
        (np.zeros((2, 0)), ValueError, r"at least one column, got shape \(2, 0\)"),
        ([["a"], ["a", "b"]], ValueError, "rows of equal length, got rows of 1 and 2"),
        (
            np.ma.array([0, 1], mask=[1, 0]),
            ValueError,
            "not contain masked values, got 1 of 2",
        ),
    ],
)
def test_bad_groups(groups, error, message):
    with pytest.raises(error, match=f"groups must .*{message}"):
        per_group(expected_calibration_error, [0, 1], [0.5, 0.5], groups=groups)


@pytest.mark.parametrize(
    "groups", [["a", 1], ["a", None], [None, None], [("a", 1)] * 2]
)
def test_groups_of_any_type(groups):
    table = per_group(expected_calibration_error, [0, 1], [0.5, 0.5], groups=groups)
    assert table["n_samples"].sum() == 4


def test_labels_in_a_partial(problem):
    """They are not replaced by the sorted labels."""
    y_true, proba, groups = problem
    order = ["cedar", "ash", "birch"]
    expected = per_group(
        expected_calibration_error, y_true, proba, groups=groups, labels=order
    )
    metric = partial(expected_calibration_error, labels=order)
    assert per_group(metric, y_true, proba, groups=groups).equals(expected)


def test_a_group_of_weight_zero_has_no_value():
    table = per_group(
        expected_calibration_error,
        [0, 1, 1, 0, 1],
        [0.2, 0.6, 0.7, 0.4, 0.5],
        groups=list("aaabb"),
        sample_weight=[1, 2, 1, 0, 0],
        confidence_level=0.9,
        n_resamples=10,
        random_state=0,
    )
    assert table.loc["b", ["value", "low", "high"]].isna().all()
    assert table.drop("b").notna().all(axis=None)
    assert table.loc["a", "value"] == table.loc["overall", "value"]
