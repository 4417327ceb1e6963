"""The leaderboard: its statistics, the entries for CalArena, and its table."""

import sys
from io import StringIO
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sklearn_calib.calibrators import get_calibrator, get_calibrator_names

BENCHMARKS = Path(__file__).parents[2] / "benchmarks" / "studies"
# Brier scores of CalArena's results for ImageNet, rounded to five digits.
PUBLISHED = """
Base-model,CIR,ETS,Hist-quantile,Hist-uniform,Isotonic,SVS,TS,VS
0.32500,0.32430,0.32060,0.85977,0.39928,0.32968,0.32086,0.32103,0.32087
0.33763,0.33610,0.33136,0.86003,0.40890,0.34063,0.33154,0.33171,0.33082
0.22133,0.23355,0.21510,0.97383,0.35060,0.23760,0.21634,0.21639,0.22055
0.21361,0.22069,0.20311,0.96404,0.34907,0.22592,0.20406,0.20411,0.21039
0.21260,0.22816,0.20960,0.97923,0.32666,0.23262,0.21125,0.21131,0.21836
0.33461,0.35047,0.33313,0.87953,0.48060,0.35712,0.33346,0.33354,0.33587
0.23668,0.25043,0.23667,0.96902,0.34151,0.25301,0.23896,0.23903,0.24225
0.26099,0.27795,0.25945,0.86156,0.36868,0.28297,0.25981,0.25985,0.26325
"""
# What `compute_winrates` of CalArena returns for them.
WIN_RATES = {
    "ETS": 0.984375,
    "SVS": 0.84375,
    "TS": 0.703125,
    "VS": 0.625,
    "Base-model": 0.5625,
    "CIR": 0.40625,
    "Isotonic": 0.25,
    "Hist-uniform": 0.125,
    "Hist-quantile": 0.0,
}


@pytest.fixture(autouse=True)
def _importable(monkeypatch):
    """Let the scripts import one another, as they do when they are run."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(BENCHMARKS)
    yield
    for name in set(sys.modules) - before:
        if str(BENCHMARKS) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


@pytest.fixture
def win_rates():
    from calarena import win_rates

    return win_rates


@pytest.fixture
def entries():
    from calarena import custom_calibrators

    return custom_calibrators


@pytest.fixture
def leaderboard():
    import bench_leaderboard

    return bench_leaderboard


@pytest.fixture
def published():
    return pd.read_csv(StringIO(PUBLISHED))


def test_win_rates_are_those_of_calarena(win_rates, published):
    rates = win_rates.win_shares(published).mean()
    assert rates.to_dict() == WIN_RATES


def test_improvement_is_the_median_in_hundredths(win_rates, published):
    gain = 100 * (published["Base-model"] - published["ETS"])
    improvement = win_rates.improvement(published, "Base-model")
    assert improvement["ETS"] == pytest.approx(np.median(gain))
    assert improvement["Base-model"] == 0


def test_an_entry_is_compared_with_the_field_only(win_rates, published):
    field = list(published)
    twins = {"best": published["ETS"] - 0.01, "second": published["ETS"] - 0.001}
    rates = win_rates.win_shares(published.assign(**twins), field).mean()
    assert rates["best"] == rates["second"] == 1
    assert rates[field].to_dict() == WIN_RATES


def test_ties_and_failures_do_not_win(win_rates):
    values = pd.DataFrame({"a": [1.0, 1.0], "b": [1.0, np.nan], "c": [2.0, 2.0]})
    shares = win_rates.win_shares(values)
    assert shares["a"].tolist() == [0.5, 0.5]
    assert shares["b"].tolist() == [0.5, 0.0]
    assert shares["c"].tolist() == [0.0, 0.0]


def test_intervals_resample_whole_groups(win_rates):
    """With two groups, every mean is that of one group, of the other, or of both."""
    shares = pd.DataFrame({"a": [1.0] * 5 + [0.0] * 5})
    bounds = win_rates.intervals(shares, ["x"] * 5 + ["y"] * 5)
    assert bounds.loc["a"].tolist() == [0, 1]
    rows = win_rates.intervals(shares, range(10))
    assert 0 < rows.loc["a", "low"] < 0.5 < rows.loc["a", "high"] < 1


def draw(n_classes, n_samples=300):
    """Return probabilities as CalArena stores them, and labels."""
    rng = np.random.default_rng(n_classes)
    logits = rng.normal(0, 2, (n_samples, n_classes))
    proba = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    y = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1).astype(np.int32)
    proba = proba.astype(np.float32)
    return (proba[:, 1] if n_classes == 2 else proba), y


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("n_classes", [2, 4])
def test_entries_calibrate_what_calarena_passes(entries, n_classes):
    """In the order of its runner, with saturated probabilities and a class absent."""
    p, y = draw(n_classes)
    p[0] = np.eye(n_classes)[-1] if n_classes > 2 else 1
    keep = y[:200] < 3
    p_cal, y_cal = p[:200][keep], y[:200][keep]
    for name, factory in entries.CUSTOM_CALIBRATORS.items():
        calibrator = factory()
        calibrator.fit(p_cal, y_cal)
        proba = np.asarray(calibrator.predict_proba(p[200:]))
        assert proba.shape == (100, n_classes), name
        np.testing.assert_allclose(proba.sum(axis=1), 1, rtol=1e-6, err_msg=name)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("as_column", [False, True])
def test_an_entry_is_the_calibrator(entries, as_column):
    p, y = draw(2)
    columns = np.column_stack([1 - p.astype(float), p.astype(float)])
    entry = entries.CUSTOM_CALIBRATORS["sklearn_calib-beta"]()
    entry.fit(p[:, None] if as_column else p, y)
    expected = get_calibrator("beta")().fit(columns, y).predict_proba(columns)
    np.testing.assert_array_equal(entry.predict_proba(p), expected)


def test_all_calibrators_are_entered(entries):
    assert set(get_calibrator_names()) - set(entries.METHODS) == entries.LEFT_OUT
    settings = {name: make() for name, make in entries.SETTINGS.items()}
    assert settings["structured_matrix_cv"].lambd == "cv"


def test_scores_are_those_of_calarena(leaderboard):
    """The Brier score is a sum over classes, and the log loss is finite."""
    proba, y = np.array([[0.2, 0.8], [1.0, 0.0]]), np.array([1, 1])
    brier, nll = leaderboard.measure(proba, y)
    assert brier == pytest.approx((0.08 + 2) / 2)
    assert nll == pytest.approx((-np.log(0.8) - np.log(np.finfo(np.float32).tiny)) / 2)
    assert leaderboard.measure(proba[:, 1], y) == (brier, nll)


def test_animals_have_the_sum_of_their_probabilities():
    from calarena.make_inputs import to_animals

    logits = np.random.default_rng(0).normal(0, 3, (10, 10))
    proba = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    animal, y = to_animals(logits, np.arange(10))
    np.testing.assert_allclose(animal, proba[:, 2:8].sum(axis=1), rtol=1e-12)
    assert y.tolist() == [0, 0, 1, 1, 1, 1, 1, 1, 0, 0]


class Slow:
    def fit(self, *_):
        while True:
            pass


class Broken(Slow):
    def fit(self, *_):
        raise ValueError("no")


@pytest.mark.parametrize("make", [Slow, Broken])
def test_a_failure_has_no_numbers(leaderboard, make):
    row = leaderboard.evaluate(make, None, None, None, None, limit=0.1)
    assert np.isnan(row).all()


def test_the_table_has_the_results(leaderboard, tmp_path, monkeypatch):
    """`python benchmarks/studies/bench_leaderboard.py FOLDER --tables` updates it."""
    before = leaderboard.TABLE.read_text(encoding="utf-8")
    monkeypatch.setattr(leaderboard, "TABLE", tmp_path / "table.csv")
    tables = leaderboard.summarise(pd.read_csv(leaderboard.RESULTS))
    leaderboard.write_table(tables)
    assert leaderboard.TABLE.read_text(encoding="utf-8") == before
    assert set(tables) == set(leaderboard.GROUPS)
