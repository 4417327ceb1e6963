"""What `tools/record_values.py` records, and which differences it reports."""

import pickle
import runpy
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def script():
    return runpy.run_path(str(ROOT / "tools" / "record_values.py"))


def test_differences(script):
    difference = script["difference"]
    nan, inf = np.nan, np.inf
    one = np.array([1.0, nan, inf])
    assert difference(one, one.copy()) == 0
    assert 0 < difference(np.zeros(2), -np.zeros(2)) < 1e-300
    assert difference(one, one + 1e-9) == pytest.approx(1e-9)
    assert difference(100 * one, 100 * one + 1e-7) == pytest.approx(1e-9)
    others = [one[:2], one.astype(np.float32), [1, 2, inf], [1, nan, -inf], [1, nan, 0]]
    assert all(difference(one, np.asarray(each)) == inf for each in others)
    assert difference(np.array(["a"]), np.array(["b"])) == inf


def test_changed_members_are_marked(script, capsys):
    one = {"x": np.ones(1)}
    base = {"same": one, "changed": one, "gone": one, "lacks": one}
    new = {"same": one, "changed": {"x": np.ones(1) + 1e-6}, "lacks": {}}
    assert script["compare"](base, new, 0) == ["changed", "gone", "lacks"]
    assert script["compare"](base, new, 1e-5) == ["gone", "lacks"]
    assert "1e-06 x" in capsys.readouterr().out


def test_values_of_several_kinds(script, tmp_path):
    names = ["calibrators.PlattScaling", "losses.BrierLoss", "metrics.augrc_loss"]
    script["record"](ROOT, tmp_path / "values", names)
    values, errors = pickle.loads((tmp_path / "values").read_bytes())
    assert not errors
    assert [*values] == names
    assert all(len(arrays) > 7 for arrays in values.values())
