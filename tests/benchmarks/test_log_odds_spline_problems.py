"""The problems that `bench_log_odds_spline.py` sets apart are those of its rule."""

import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks" / "studies"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_curved_problems_are_those_of_the_rule(shared_data, monkeypatch):
    shared_data("logits/mnist_cnn_metacal.npz")
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    known = {*sys.modules}
    import bench_log_odds_spline as bench

    try:
        assert bench.choose_problems() == bench.CURVED
    finally:
        for name in {*sys.modules} - known:
            if name.startswith(("bench_", "helpers.")):
                del sys.modules[name]
