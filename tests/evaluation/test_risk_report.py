"""Risk report: values by hand, intervals by formulas, and groups."""

import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from scipy.optimize import brentq
from scipy.special import expit, logit
from scipy.stats import norm
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss, roc_auc_score

from sklearn_calib.evaluation import risk_report
from sklearn_calib.metrics import (
    bootstrap_interval,
    calibration_slope,
    integrated_calibration_index,
    net_benefit_score,
)

ROWS = ["observed/expected", "calibration-in-the-large", "calibration slope", "ICI"]
ROWS += ["AUROC", "Brier score", "net benefit at 0.1", "net benefit at 0.3"]
FAST = {"n_resamples": 9, "random_state": 0}
report_of = partial(risk_report, thresholds=[0.3, 0.1], digits=None, **FAST)


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=60)
    return (rng.random(60) < expit(logits)).astype(int), expit(1.5 * logits)


def test_values_by_hand():
    """Of the pairs with and without the event, 6 of 9 are in the right order."""
    y_true, proba = [0, 1, 0, 1, 1, 0], np.array([0.1, 0.2, 0.4, 0.6, 0.8, 0.7])
    report = report_of(y_true, proba, thresholds=[0.25])
    x, y = logit(proba), np.array(y_true)
    line = LogisticRegression(C=np.inf, tol=1e-12).fit(x[:, None], y)
    large = brentq(lambda shift: expit(x + shift).mean() - 1 / 2, -1, 1)
    expected = {
        "observed/expected": 3 / 2.8,
        "calibration-in-the-large": large,
        "calibration slope": line.coef_[0, 0],
        "AUROC": 6 / 9,
        "Brier score": (0.01 + 0.64 + 0.16 + 0.16 + 0.04 + 0.49) / 6,
        # Two true and two false positives, which count a third each.
        "net benefit at 0.25": (2 - 2 / 3) / 6,
    }
    found = report["value"].drop("ICI")
    assert found.to_dict() == pytest.approx(expected, rel=1e-6)


def test_is_the_metrics_with_their_intervals(problem):
    report = report_of(*problem, confidence_level=0.8)
    assert list(report.index) == ROWS
    assert list(report.columns) == ["value", "low", "high"]
    options = {"confidence_level": 0.8, **FAST}
    ends = bootstrap_interval(
        integrated_calibration_index, *problem, method="percentile", **options
    )
    assert tuple(report.loc["ICI"]) == (integrated_calibration_index(*problem), *ends)
    ends = bootstrap_interval(roc_auc_score, *problem, **options)
    expected = roc_auc_score(*problem), *ends
    assert tuple(report.loc["AUROC"]) == pytest.approx(expected, rel=1e-12)
    ends = bootstrap_interval(brier_score_loss, *problem, **options)
    assert tuple(report.loc["Brier score"]) == (brier_score_loss(*problem), *ends)
    ends = bootstrap_interval(net_benefit_score, *problem, threshold=0.3, **options)
    assert tuple(report.loc["net benefit at 0.3"])[1:] == ends
    line = calibration_slope(*problem, confidence_level=0.8)
    assert tuple(report.loc["calibration slope"])[1:] == line.slope_interval
    large = report.loc["calibration-in-the-large"]
    assert tuple(large) == (line.in_the_large, *line.in_the_large_interval)


def test_intervals_by_formulas():
    """Log-normal for the ratio (Debray et al. 2017), and normal for a mean.

    As all probabilities are equal, the expected number is fixed. Monte Carlo errors of
    the widths are 5 %.
    """
    n_samples, n_events = 400, 132
    y_true = np.arange(n_samples) < n_events
    proba = np.full(n_samples, 0.3)
    with pytest.warns(UndefinedMetricWarning, match=r"for \['calibration slope'\]"):
        report = report_of(y_true, proba, n_resamples=400)
    sizes = report["high"] - report["low"]
    error = np.sqrt(1 / n_events - 1 / n_samples)
    width = np.ptp(1.1 * np.exp(norm.ppf([0.025, 0.975]) * error))
    assert sizes["observed/expected"] == pytest.approx(width, rel=0.08)
    assert report.loc["observed/expected", "value"] == pytest.approx(1.1)
    assert report.loc["AUROC"].to_list() == [0.5] * 3
    error = np.std(np.where(y_true, 0.49, 0.09)) / np.sqrt(n_samples)
    width = np.ptp(norm.ppf([0.025, 0.975]) * error)
    assert sizes["Brier score"] == pytest.approx(width, rel=0.08)


def test_weights_are_repetitions(problem):
    times = np.arange(60) % 3
    weighted = report_of(*problem, sample_weight=times)
    repeated = report_of(*(each.repeat(times) for each in problem))
    assert weighted["value"].to_dict() == pytest.approx(repeated["value"].to_dict())


@pytest.mark.parametrize(
    ("y_true", "options"),
    [
        (lambda y: np.where(y, "ill", "well"), {"pos_label": "ill"}),
        (lambda y: np.where(y, "ill", "well"), {"labels": ["well", "ill"]}),
        (lambda y: y == 1, {}),
    ],
)
def test_labels_of_the_event(problem, y_true, options):
    y, proba = problem
    expected = report_of(y, proba)
    pd.testing.assert_frame_equal(report_of(y_true(y), proba, **options), expected)
    columns = np.column_stack([1 - proba, proba])
    if "pos_label" in options:
        columns = columns[:, ::-1]  # in the order of the sorted labels
    found = report_of(y_true(y), columns, **options)
    pd.testing.assert_frame_equal(found, expected)


def test_groups(problem):
    """Each group has the report of its samples, and the index a level by column.

    The levels of a DataFrame have the names of its columns.
    """
    groups = pd.DataFrame({"sex": np.arange(60) % 2, "old": np.arange(60) < 30})
    for columns, name, overall in (
        ("sex", 1, "overall"),
        (["sex", "old"], (1, True), ("overall", "")),
    ):
        report = report_of(*problem, groups=groups[columns])
        members = groups.groupby(columns).indices[name]
        alone = report_of(*(each[members] for each in problem))
        pd.testing.assert_frame_equal(report.loc[name], alone)
        pd.testing.assert_frame_equal(report.loc[overall], report_of(*problem))
    assert report.index.names == ["sex", "old", None]


@pytest.mark.parametrize("is_weighted", [False, True])
def test_a_group_with_one_outcome_has_no_intervals(problem, is_weighted):
    """Here without events; two cases may have the weight zero instead."""
    y_true, proba = problem
    groups = np.where(y_true == 1, "mixed", np.arange(60) % 2).astype(str)
    groups[groups == "0"] = "healthy"
    weight = np.ones(60)
    if is_weighted:
        cases = np.flatnonzero(y_true)[:2]
        groups[cases], weight[cases] = "healthy", 0
    groups[groups == "1"] = "mixed"
    with pytest.warns(UndefinedMetricWarning, match=r"\('healthy', 'ICI'\)") as caught:
        report = report_of(y_true, proba, groups=groups, sample_weight=weight)
    assert len(caught) == 1
    assert report.loc[["mixed", "overall"]].notna().all(axis=None)
    of_group = report.loc["healthy"]
    assert of_group[["low", "high"]].isna().all(axis=None)
    seen = proba[(groups == "healthy") & (weight > 0)]
    expected = {
        "observed/expected": 0,
        "Brier score": np.mean(seen**2),
        "net benefit at 0.3": -np.mean(seen >= 0.3) * 3 / 7,
    }
    assert of_group["value"][[*expected]].to_dict() == pytest.approx(expected)
    undefined = ["calibration-in-the-large", "calibration slope", "AUROC"]
    assert of_group["value"].index[of_group["value"].isna()].to_list() == undefined


def test_separated_outcomes_and_probabilities_of_zero():
    """There is no slope, and the ratio is infinite, without a warning of numpy."""
    y_true = np.arange(40) % 2
    proba = np.where(y_true, 0.8, 0.3) + np.arange(40) / 1000
    with pytest.warns(UndefinedMetricWarning, match="calibration slope"):
        report = report_of(y_true, proba)
    assert report.index[report.isna().any(axis=1)].to_list() == ["calibration slope"]
    assert report.loc["AUROC", "value"] == 1
    with pytest.warns(UndefinedMetricWarning, match="observed/expected") as caught:
        report = report_of(y_true, np.zeros(40))
    assert len(caught) == 1
    assert report.loc["observed/expected", "value"] == np.inf


def test_rounds_and_prints_all_columns(problem):
    lines = str(risk_report(*problem, thresholds=[0.1], **FAST)).splitlines()
    assert lines[0].split() == ["value", "low", "high"]
    assert len(lines[-1].split()[-1].lstrip("-")) == 5


def test_random_state_and_jobs(problem):
    first = report_of(*problem)
    with parallel_config("threading"):
        pd.testing.assert_frame_equal(report_of(*problem, n_jobs=2), first)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not report_of(*problem, random_state=1).equals(first)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y_proba": [[0.2, 0.3, 0.5]] * 3, "y_true": [0, 1, 2]}, "two classes, got 3"),
        ({"thresholds": [10]}, r"thresholds must lie in \(0, 1\), got 10"),
        ({"thresholds": []}, "thresholds must be a non-empty 1-d array"),
        ({"thresholds": None}, "The 'thresholds' parameter"),
        ({"groups": ["overall", "a", "a"]}, 'must not contain the name "overall"'),
        ({"groups": ["a", "b", "b"], "sample_weight": [0, 1, 1]}, "non-zero|all zero"),
        ({"confidence_level": 95}, "The 'confidence_level' parameter"),
        ({"n_resamples": 0}, "The 'n_resamples' parameter"),
        ({"digits": -1}, "The 'digits' parameter"),
    ],
)
def test_bad_input(change, message):
    given = {"y_true": [0, 1, 1], "y_proba": [0.3, 0.8, 0.5], **change}
    with pytest.raises(ValueError, match=message):
        report_of(**given)
