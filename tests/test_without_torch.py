"""What needs no network runs without torch and skorch, and loads as fast as sklearn."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("without_torch.py")


def run_script(*options):
    """Return the packages that each step of the script loads, all, and those needed."""
    process = subprocess.run(
        [sys.executable, SCRIPT, *options], capture_output=True, text=True, timeout=300
    )
    assert process.returncode == 0, process.stderr
    return [json.loads(line) for line in process.stdout.splitlines()[-3:]]


def check_needs(needed, others):
    """What trains networks needs torch or skorch, which the script has asked for."""
    topics = {name.split(".")[0] for name in needed if "." in name}
    assert topics == {"sklearn_calib", "callbacks", "datasets", "estimators", "losses"}
    rest = {name: package for name, package in needed.items() if "." not in name}
    networks = ["from_dict of a network", "get_loss", "loss curve", "to_torch"]
    assert rest == {**dict.fromkeys(networks, "torch"), **others}


def test_every_metric_scorer_and_calibrator_runs():
    """Importing either package raises there, and the error says what needs it.

    Only networks load torch, and nearly all of the time that an import takes is
    scikit-learn's.
    """
    by_step, loaded, needed = run_script("--extras")
    assert "sklearn_calib" in loaded
    assert not {"skorch", "torch"} & set(loaded)
    assert by_step["the metrics"] == ["sklearn_calib"]
    for step, names in by_step.items():
        assert not {"matplotlib", "skorch", "torch"} & set(names), step
    check_needs(needed, {})


@pytest.mark.slow
def test_missing_extras_are_named():
    others = {"plot of a calibrator": "matplotlib", "to_onnx": "skl2onnx"}
    check_needs(run_script()[2], others)
