"""What needs no network runs without torch and skorch, and loads as fast as sklearn."""

import json
import subprocess
import sys
from functools import cache
from pathlib import Path

SCRIPT = Path(__file__).with_name("without_torch.py")


@cache
def packages():
    """Return the packages that each step of the script loads, and all of them."""
    process = subprocess.run(
        [sys.executable, SCRIPT], capture_output=True, text=True, timeout=300
    )
    assert process.returncode == 0, process.stderr
    return [json.loads(line) for line in process.stdout.splitlines()[-2:]]


def test_every_metric_scorer_and_calibrator_runs():
    """Importing either package raises there."""
    loaded = packages()[1]
    assert "sklearn_calib" in loaded
    assert not {"skorch", "torch"} & set(loaded)


def test_only_networks_load_torch():
    """And nearly all of the time that an import takes is scikit-learn's."""
    loaded = packages()[0]
    assert loaded["the metrics"] == ["sklearn_calib"]
    for step, names in loaded.items():
        assert not {"matplotlib", "skorch", "torch"} & set(names), step
