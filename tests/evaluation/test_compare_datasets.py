"""Tables of several data sets as one, by hand and with the numbers of a paper."""

import itertools
from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm, wilcoxon
from sklearn.metrics import make_scorer

from sklearn_calib.evaluation import compare, compare_datasets
from sklearn_calib.metrics import expected_calibration_error

# Areas under the ROC curve of four classifiers on 14 data sets, in Demšar (2006), table
# 6. In the 13th row, the last two are 0.975, with the ranks 2 and 3.
AREAS = np.array(
    [
        [0.763, 0.768, 0.771, 0.798],
        [0.599, 0.591, 0.590, 0.569],
        [0.954, 0.971, 0.968, 0.967],
        [0.628, 0.661, 0.654, 0.657],
        [0.882, 0.888, 0.886, 0.898],
        [0.936, 0.931, 0.916, 0.931],
        [0.661, 0.668, 0.609, 0.685],
        [0.583, 0.583, 0.563, 0.625],
        [0.775, 0.838, 0.866, 0.875],
        [1.000, 1.000, 1.000, 1.000],
        [0.940, 0.962, 0.965, 0.962],
        [0.619, 0.666, 0.614, 0.669],
        [0.972, 0.981, 0.9751, 0.975],
        [0.957, 0.978, 0.946, 0.970],
    ]
)
NAMES = ["plain", "m", "cf", "m + cf"]


def own_score(_, y_proba):
    return float(y_proba[0, 1])


def own_loss(_, y_proba):
    return float(1 - y_proba[0, 1])


METRICS = {"area": own_score, "error": own_loss}


def tables(values, names=NAMES, metrics=METRICS):
    """Return the tables in which the score is one of `values` (n_datasets, n_rows)."""
    return {
        f"data {number}": compare(
            {
                name: [[1 - value, value]] * 2
                for name, value in zip(names, row, strict=True)
            },
            None,
            [0, 1],
            metrics=metrics,
            n_resamples=0,
        )
        for number, row in enumerate(values)
    }


def test_the_numbers_of_the_paper():
    """Section 3.1.3: the smaller sum of ranks is 12; section 3.2.2: the mean ranks."""
    summary = compare_datasets(tables(AREAS))
    assert list(summary.index) == NAMES
    assert list(summary["area"]) == ["mean", "rank"]
    for metric in METRICS:
        ranks = summary[metric]["rank"]
        np.testing.assert_allclose(ranks, [3.143, 2.0, 2.893, 1.964], atol=5e-4)
    np.testing.assert_allclose(summary["area"]["mean"], AREAS.mean(axis=0))
    two = compare_datasets(tables(AREAS[:, :2], NAMES[:2]), reference="plain")
    # Two differences are 0.005, and two are 0, which reduces the variance.
    z = (14 * 15 / 4 - 12) / np.sqrt((14 * 15 * 29 - 2 * (2**3 - 2) / 2) / 24)
    expected = [np.nan, 2 * norm.sf(z)]
    for metric in METRICS:
        np.testing.assert_allclose(two[metric]["p_value"], expected, rtol=1e-9)


def exact_p_value(differences):
    """Return that of the signed-rank test, by all signs of differences without ties."""
    ranks = 1 + np.argsort(np.argsort(np.abs(differences)))
    signs = np.array([*itertools.product([-1, 1], repeat=len(ranks))])
    observed = abs(ranks @ np.sign(differences))
    return np.mean(np.abs(signs @ ranks) >= observed)


def test_differences_and_corrected_p_values():
    """Holm: the largest of the products of all p-values that are not larger."""
    values = np.random.default_rng(0).uniform(0, 0.3, size=(8, 4))
    values += [0.2, 0.38, 0.3, 0]
    summary = compare_datasets(tables(values), reference="cf")
    np.testing.assert_allclose(
        summary["error"]["difference"], -(values - values[:, [2]]).mean(axis=0)
    )
    plain = {k: exact_p_value(values[:, k] - values[:, 2]) for k in (0, 1, 3)}
    assert len({*plain.values()}) == 3
    below = {k: [p for p in plain.values() if p <= plain[k]] for k in plain}
    expected = [
        max(min(1, sum(q >= p for q in plain.values()) * p) for p in below[k])
        if k != 2
        else np.nan
        for k in range(4)
    ]
    assert expected[0] > plain[0]
    for metric in METRICS:
        np.testing.assert_allclose(summary[metric]["p_value"], expected)


def test_the_correction_keeps_the_order_of_the_p_values():
    """Here twice the middle p-value is below three times the smallest one."""
    values = np.full((8, 4), 0.5)
    values[:, 1:] += np.arange(1, 9)[:, None] / 100
    values[0, 2] -= 0.02  # p-values of 2, 4 and 2 of 256
    found = compare_datasets(tables(values), reference="plain")["area"]["p_value"]
    np.testing.assert_allclose(found, [np.nan, *np.array([6, 6, 6]) / 256])


def test_values_that_differ_by_rounding_are_equal():
    """They have the same rank, and equal differences, such as 0.1, too."""
    low, high = [0.1, 0.2, 0.3, 0.6, 0.7, 0.8], [0.2, 0.3, 0.4, 0.5, 0.6, 1.0]
    found = compare_datasets(tables(np.c_[low, high], ["a", "b"]), reference="a")
    expected = wilcoxon([1, 1, 1, -1, -1, 2], zero_method="zsplit").pvalue
    assert found["area"]["p_value"]["b"] == pytest.approx(expected, rel=1e-12)
    ranks = compare_datasets(tables([[0.3, 0.1 + 0.2]] * 2, ["a", "b"]))["area"]["rank"]
    assert ranks.tolist() == [1.5, 1.5]


@pytest.mark.parametrize("n_datasets", [8, 20])
def test_equal_classifiers(n_datasets):
    values = np.linspace(0.2, 0.8, n_datasets)[:, None] * [1, 1, 1]
    found = compare_datasets(tables(values, [*"abc"]), reference="a")["error"]
    assert found["p_value"].tolist()[1:] == [1, 1]
    assert found["difference"].tolist() == [0, 0, 0]


def test_direction_of_scorers_and_functions():
    """The better of two classifiers is the first for all metrics."""
    y = [0, 1] * 10
    good, bad = (np.where(y, p, 1 - p) for p in (0.9, 0.4))
    metrics = {
        "accuracy": "accuracy",
        "log_loss": "neg_log_loss",
        "ece": partial(expected_calibration_error, n_bins=5),
        "own": make_scorer(
            lambda _, p: float(p[0]),
            response_method="predict_proba",
            greater_is_better=False,
        ),
        "scorer": lambda estimator, X, y: np.mean(estimator.predict(X) == y),
    }
    table = compare({"good": good, "bad": bad}, None, y, metrics=metrics, n_resamples=0)
    found = compare_datasets({"a": table, "b": table})
    for name in metrics:
        assert found[name]["rank"].tolist() == [1, 2]


def test_rows_and_metrics_in_another_order():
    given = tables(AREAS[:7])
    expected = compare_datasets(given, reference="m")
    given["data 3"] = given["data 3"].iloc[::-1][["error", "area"]]
    pd.testing.assert_frame_equal(compare_datasets(given, reference="m"), expected)
    some = {name: table[["error"]] for name, table in given.items()}
    found = compare_datasets(some, reference="m")
    pd.testing.assert_frame_equal(found, expected[["error"]])
    pairs = {(name, i): table for i, (name, table) in enumerate(given.items())}
    found = compare_datasets(pairs, reference="m")
    pd.testing.assert_frame_equal(found, expected)


def test_latex():
    pytest.importorskip("jinja2")
    summary = compare_datasets(tables(AREAS), reference="plain")
    text = summary.to_latex(float_format="%.3f", escape=True)
    assert r"\multicolumn{4}{r}{area}" in text
    assert "p_value" not in text
    assert r"\\" + "\nplain & 0.805 & 3.143 & " in text.replace(r"\midrule" + "\n", "")


@pytest.mark.parametrize(("n_others", "n_needed"), [(1, 6), (3, 7), (4, 8)])
def test_few_data_sets(n_others, n_needed):
    """The smallest p-value is 2^(1 - n) for one comparison."""
    values = 0.1 + np.arange(1, n_needed + 1)[:, None] / 100 * np.r_[1, [2] * n_others]
    given = tables(values, [*"abcde"[: n_others + 1]])
    assert compare_datasets(given, reference="a")["area"]["p_value"].min() <= 0.05
    del given["data 1"]
    with pytest.warns(UserWarning, match=rf"at least {n_needed} .* {n_others} comp"):
        found = compare_datasets(given, reference="a")
    assert found["area"]["p_value"].min() > 0.05
    compare_datasets(given)


def change(name, table):
    return {**tables(AREAS[:3]), name: table}


TABLE = tables(AREAS[:1])["data 0"]
UNKNOWN = tables(AREAS[:2], metrics={"own": lambda _, p: own_score(_, p)})


@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        ({}, {}, r"tables must contain at least two data sets, got 0\. For one, use"),
        ({"a": TABLE}, {}, "at least two data sets, got 1"),
        (change("a", 3), {}, r"must contain the results of compare, got int for 'a'"),
        (change("a", pd.DataFrame([1])), {}, "results of compare, got DataFrame for"),
        (change("a", TABLE["area"]), {}, "compare, got ComparisonTable for 'a'"),
        (
            change("a", TABLE.iloc[1:]),
            {},
            r"got none or NaN in .'a'. .*'plain'",
        ),
        (change("a", TABLE[["area"]]), {}, r"in .'a'. for .*\('error', 'm'\)"),
        (
            change("a", TABLE * np.nan),
            {},
            r"NaN in .'a'. for .*\('area', 'm'\)",
        ),
        (change("a", TABLE), {"reference": "M"}, r"reference must .* got 'M' and the"),
        ({1: TABLE[:1], 2: TABLE[:1]}, {"reference": "plain"}, "at least two rows"),
        ({1: TABLE, 2: TABLE}, {"reference": 3}, "'reference' parameter of compare_da"),
        ([TABLE, TABLE], {}, "'tables' parameter of compare_datasets must be an inst"),
        (UNKNOWN, {}, r"whether higher is better, got 'own'\. .* make_scorer\(metric"),
    ],
)
def test_bad_input(given, options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        compare_datasets(given, **options)
