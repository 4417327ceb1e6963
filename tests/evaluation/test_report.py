"""Calibration report: metrics of each class and of the predicted class."""

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.metrics import accuracy_score

from sklearn_calib.evaluation import calibration_report
from sklearn_calib.metrics import (
    classwise_calibration_error,
    ece_interval,
    expected_calibration_error,
    maximum_calibration_error,
    per_group,
    per_label,
    root_brier_score_loss,
    smooth_expected_calibration_error,
)

NAMES = np.array(["ash", "birch", "cedar"])
COLUMNS = ["mean_proba", "frequency", "ece", "mce", "smooth_ece", "brier", "support"]


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    return NAMES[rng.choice(3, p=[0.6, 0.3, 0.1], size=200)], rng.dirichlet(
        [2] * 3, 200
    )


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("bins", [{}, {"n_bins": "cube_root", "strategy": "quantile"}])
def test_is_the_metrics(problem, weighted, bins):
    y_true, proba = problem
    weight = np.arange(200) % 3 if weighted else None
    report = calibration_report(
        y_true, proba, sample_weight=weight, digits=None, **bins
    )
    assert list(report.columns) == COLUMNS
    assert list(report.index) == [*NAMES, "macro avg", "weighted avg", "top label"]
    options = {"sample_weight": weight}
    for name, column in zip(NAMES, proba.T, strict=True):
        row, is_class = report.loc[name], y_true == name
        assert row["mean_proba"] == np.average(column, weights=weight)
        assert row["frequency"] == np.average(is_class, weights=weight)
        assert row["support"] == (
            is_class.sum() if weight is None else weight[is_class].sum()
        )
        assert row["brier"] == np.average((is_class - column) ** 2, weights=weight)
        error = expected_calibration_error(is_class, column, **options, **bins)
        assert row["ece"] == error
        error = maximum_calibration_error(is_class, column, **options, **bins)
        assert row["mce"] == error
        error = smooth_expected_calibration_error(is_class, column, **options)
        assert row["smooth_ece"] == error
    top = report.loc["top label"]
    assert top["ece"] == expected_calibration_error(y_true, proba, **options, **bins)
    assert top["mean_proba"] == np.average(proba.max(axis=1), weights=weight)
    predicted = NAMES[proba.argmax(axis=1)]
    assert top["frequency"] == accuracy_score(y_true, predicted, **options)


def test_averages(problem):
    report = calibration_report(*problem, digits=None)
    macro, rows = report.loc["macro avg"], report.loc[NAMES]
    assert macro["ece"] == pytest.approx(classwise_calibration_error(*problem))
    assert 3 * macro["brier"] == pytest.approx(root_brier_score_loss(*problem) ** 2)
    assert macro["support"] == 200
    for column in COLUMNS[:-1]:
        expected = np.average(rows[column], weights=rows["support"])
        assert report.loc["weighted avg", column] == pytest.approx(expected)


def test_intervals(problem):
    report = calibration_report(
        *problem, confidence_level=0.9, n_resamples=100, random_state=0, digits=None
    )
    options = {"confidence_level": 0.9, "n_resamples": 100, "random_state": 0}
    bounds = report[["ece_low", "ece_high"]]
    assert tuple(bounds.loc["top label"]) == ece_interval(*problem, **options)
    expected = ece_interval(*problem, mode="classwise", **options)
    assert tuple(bounds.loc["macro avg"]) == expected
    y_true, proba = problem
    expected = ece_interval(y_true == "birch", proba[:, 1], **options)
    assert tuple(bounds.loc["birch"]) == expected
    assert bounds.loc["weighted avg"].isna().all()


def test_groups(problem):
    """A class may be absent from a group."""
    y_true, proba = problem
    groups = np.where(y_true == "cedar", "west", np.arange(200) % 2).astype(str)
    report = calibration_report(y_true, proba, groups=groups)
    names = report.index.get_level_values(0).unique()
    assert list(names) == ["0", "1", "west", "overall"]
    pd.testing.assert_frame_equal(
        report.loc["overall"], calibration_report(y_true, proba)
    )
    rows = groups == "0"
    expected = calibration_report(y_true[rows], proba[rows], labels=NAMES)
    pd.testing.assert_frame_equal(report.loc["0"], expected)
    assert report.loc[("west", "ash"), "support"] == 0


def test_groups_are_those_of_per_group(problem):
    """The rows of the predicted class are the table of the ECE, with its intervals."""
    y_true, proba = problem
    groups = pd.DataFrame({"half": np.arange(200) % 2, "old": np.arange(200) % 3 == 0})
    options = {"groups": groups, "confidence_level": 0.9, "n_resamples": 4}
    options["random_state"] = 0
    report = calibration_report(y_true, proba, **options, digits=None)
    table = per_group(expected_calibration_error, y_true, proba, **options)
    rows = report.xs("top label", level=-1)[["support", "ece", "ece_low", "ece_high"]]
    assert rows.to_numpy() == pytest.approx(table.to_numpy())


def test_groups_by_two_features(problem):
    """Each feature is a level of the index."""
    y_true, proba = problem
    groups = pd.DataFrame({"half": np.arange(200) % 2, "old": np.arange(200) % 3 == 0})
    report = calibration_report(y_true, proba, groups=groups)
    missing = groups.replace({"half": {0: np.nan}})  # missing values are a group
    same = calibration_report(y_true, proba, groups=missing)
    rows = same.index.get_level_values("half").isna()
    assert same.index.names == ["half", "old", None]
    np.testing.assert_array_equal(same[rows], report.loc[[0]])
    rows = ((groups["half"] == 1) & groups["old"]).to_numpy()
    expected = calibration_report(y_true[rows], proba[rows], labels=NAMES)
    pd.testing.assert_frame_equal(report.loc[(1, True)], expected)
    overall = calibration_report(y_true, proba)
    pd.testing.assert_frame_equal(report.loc[("overall", "")], overall)


def test_one_column_is_the_positive_class(problem):
    """Both classes have a row, and their means sum to one."""
    y_true, proba = problem[0] == "ash", problem[1][:, 0]
    report = calibration_report(y_true, proba)
    both = calibration_report(y_true, np.column_stack([1 - proba, proba]))
    pd.testing.assert_frame_equal(report, both)
    assert list(report.index[:2]) == [False, True]


def test_prints_like_a_classification_report(problem):
    """All lines have the same width."""
    lines = str(calibration_report(*problem)).splitlines()
    assert len({len(line) for line in lines}) == 1
    assert lines[0].split() == COLUMNS
    assert all(len(number) == 5 for number in lines[1].split()[1:-1])
    assert len(str(calibration_report(*problem, digits=1)).splitlines()[1]) < len(
        lines[1]
    )


def test_arguments_in_another_form(problem):
    y_true, y_proba = np.unique(problem[0], return_inverse=True)[1], problem[1]
    expected = calibration_report(y_true, y_proba, digits=1)
    for change in (
        {"y_true": torch.tensor(y_true)},
        {"y_true": torch.tensor(1.0 * y_true, requires_grad=True)},
        {"labels": torch.tensor([0, 1, 2])},
    ):
        arguments = {"y_true": y_true, "y_proba": y_proba, "digits": 1, **change}
        report = calibration_report(**arguments)
        pd.testing.assert_frame_equal(report, expected, check_index_type=False)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y_true": [0]}, "y_true must contain one label for each row of y_proba"),
        ({"y_proba": [[2.0, -1.0]] * 2}, r"y_proba must lie in \[0, 1\]"),
        ({"y_proba": [[0.5, 0.1]] * 2}, "rows that sum to one"),
        ({"y_proba": [[np.nan, 0.1]] * 2}, "y_proba must be finite"),
        (
            {"groups": [1]},
            "groups must contain one group for each sample, got 1 groups",
        ),
        ({"groups": ["overall", "a"]}, 'groups must not contain the name "overall"'),
        ({"groups": ["a", "b"], "sample_weight": [0, 1]}, "non-zero|not all zero"),
        ({"confidence_level": 95}, "The 'confidence_level' parameter"),
        ({"digits": -1}, "The 'digits' parameter"),
        ({"digits": 400}, "The 'digits' parameter"),
        ({"digits": True}, "The 'digits' parameter"),
        ({"strategy": "isotonic"}, "The 'strategy' parameter"),
    ],
)
def test_bad_input(change, message):
    with pytest.raises(ValueError, match=message):
        calibration_report(**{"y_true": [0, 1], "y_proba": [0.3, 0.8], **change})


@pytest.fixture(scope="module")
def indicators():
    rng = np.random.default_rng(0)
    proba = rng.uniform(size=(60, 3)) ** [1, 1, 3]
    return (rng.uniform(size=proba.shape) < proba**2).astype(int), proba


@pytest.mark.parametrize("weighted", [False, True])
def test_several_labels(indicators, weighted):
    """Each label is compared with its frequency, by hand."""
    y_true, proba = indicators
    weight = np.arange(60) % 3 if weighted else np.ones(60)
    given = {"sample_weight": weight if weighted else None, "digits": None}
    frame = pd.DataFrame(y_true, columns=NAMES)
    report = calibration_report(frame, proba, **given)
    assert list(report.index) == [*NAMES, "macro avg", "weighted avg"]
    gaps = [
        [weight[rows] @ (p - y)[rows] for rows in np.ceil(15 * p) == np.c_[1:16]]
        for p, y in zip(proba.T, y_true.T, strict=True)
    ]
    by_hand = {
        "mean_proba": weight @ proba / weight.sum(),
        "frequency": weight @ y_true / weight.sum(),
        "ece": np.abs(gaps).sum(axis=1) / weight.sum(),
        "brier": weight @ (proba - y_true) ** 2 / weight.sum(),
    }
    support = weight @ y_true
    for name, values in by_hand.items():
        expected = [*values, values.mean(), np.average(values, weights=support)]
        np.testing.assert_allclose(report[name], expected, rtol=1e-9)
    np.testing.assert_allclose(report["support"], [*support, *[support.sum()] * 2])
    pairs = [np.column_stack([1 - p, p]) for p in proba.T]
    for y_proba in (proba, pairs):
        again = calibration_report(y_true, y_proba, labels=NAMES, **given)
        pd.testing.assert_frame_equal(again, report)
    numbered = calibration_report(y_true.tolist(), proba.tolist(), **given)
    assert list(numbered.index[:3]) == [0, 1, 2]


@pytest.mark.parametrize("weighted", [False, True])
def test_intervals_and_groups_of_several_labels(indicators, weighted):
    y_true, proba = indicators
    weight = np.arange(60) % 3 if weighted else None
    draws = {"confidence_level": 0.9, "n_resamples": 4, "random_state": 0}
    report = calibration_report(
        y_true, proba, sample_weight=weight, groups=np.arange(60) < 40, **draws
    )
    for name, rows in {True: slice(40), "overall": slice(None)}.items():
        part = None if weight is None else weight[rows]
        data = expected_calibration_error, y_true[rows], proba[rows]
        expected = per_label(*data, sample_weight=part, **draws).loc["macro"]
        found = report.loc[(name, "macro avg"), ["ece", "ece_low", "ece_high"]]
        np.testing.assert_allclose(found, expected, atol=5e-4)
        label = ece_interval(data[1][:, 2], data[2][:, 2], sample_weight=part, **draws)
        found = report.loc[(name, 2), ["ece_low", "ece_high"]]
        np.testing.assert_allclose(found, label, atol=5e-4)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y_proba": [0.5, 0.2]}, r"y_proba must have shape \(n_samples, n_labels\)"),
        ({"y_true": [[1, 0, 0], [0, 0, 1]]}, r"y_true must contain 0 or 1 .* \(2, 3\)"),
        ({"y_true": [[2, 1], [0, 1]]}, "y_true must contain only zeros and ones"),
        ({"y_proba": [[0.5, 1.2], [0.1, 0.1]]}, r"y_proba must lie in \[0, 1\]"),
        ({"labels": ["a", "a"]}, "labels must contain 2 distinct labels"),
        ({"sample_weight": [1]}, "sample_weight"),
    ],
)
def test_bad_input_of_several_labels(change, message):
    given = {"y_true": [[0, 1], [1, 1]], "y_proba": [[0.5, 0.2], [0.1, 0.1]]}
    with pytest.raises(ValueError, match=message):
        calibration_report(**{**given, **change})
