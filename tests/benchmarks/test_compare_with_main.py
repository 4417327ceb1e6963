"""The cases of `compare_with_main.py`, and what it reports."""

import sys
import warnings
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks" / "speed"


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    import compare_with_main

    yield compare_with_main
    del sys.modules["compare_with_main"]


@pytest.mark.slow
def test_every_case_runs(script):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # as the script does
        for make in script.CASES.values():
            make()()


def test_slower_cases_are_marked(script, capsys):
    seconds = [{"a": 2.0, "b": 1.0}, {"a": 1.0, "b": 1.2, "c": 1.0}]
    measures = [lambda name, side=side: side.get(name, "no c") for side in seconds]
    found = script.compare(measures, ["a", "b", "c"], minutes=0)
    assert script.show(found, limit=1.1) == ["b"]
    *_, a, b, c = capsys.readouterr().out.splitlines()
    assert a.split()[1:] == ["2000.000", "1000.000", "0.50"]
    assert b.split()[1:] == ["1000.000", "1200.000", "1.20", "SLOWER"]
    assert c.split(maxsplit=1)[1] == "left out: no c"
