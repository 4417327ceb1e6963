"""A small version of `bench_monitoring.py`."""

import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks" / "guarantees"


@pytest.fixture
def bench(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    known = {*sys.modules}
    import bench_monitoring

    yield bench_monitoring
    for name in {*sys.modules} - known:
        if name.startswith(("bench_", "helpers.")):
            del sys.modules[name]


@pytest.mark.slow
def test_false_alarms_and_delay(bench):
    for kind in bench.KINDS:
        found, *_ = bench.level(kind, n_streams=500, n_samples=1000)
        # Three standard errors above the level.
        assert found["monitor"] <= 0.05 + 3 * (0.05 * 0.95 / 500) ** 0.5, kind
        assert found["spiegelhalter"] > 0.2, kind
    found = bench.delay(n_calibrated=1000, n_streams=100)
    assert found["within 2000"] >= 0.9


@pytest.mark.slow
def test_the_monitor_has_the_e_values_of_the_simulation(bench):
    for kind in bench.KINDS:
        assert bench.public(kind, n_streams=2, n_samples=100)["difference"] < 1e-9, kind
