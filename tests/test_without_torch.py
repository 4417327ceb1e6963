"""What needs no network runs without torch and skorch, and loads as fast as sklearn."""

import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("without_torch.py")


@cache
def packages(*options):
    """Return the packages that each step of the script loads, all, and those needed."""
    process = subprocess.run(
        [sys.executable, SCRIPT, *options], capture_output=True, text=True, timeout=300
    )
    assert process.returncode == 0, process.stderr
    return [json.loads(line) for line in process.stdout.splitlines()[-3:]]


def test_every_metric_scorer_and_calibrator_runs():
    """Importing either package raises there."""
    loaded = packages("--extras")[1]
    assert "sklearn_calib" in loaded
    assert not {"skorch", "torch"} & set(loaded)


def test_only_networks_load_torch():
    """And nearly all of the time that an import takes is scikit-learn's."""
    loaded = packages("--extras")[0]
    assert loaded["the metrics"] == ["sklearn_calib"]
    for step, names in loaded.items():
        assert not {"matplotlib", "skorch", "torch"} & set(names), step


def check_needs(needed, others):
    """What trains networks needs torch or skorch, which the script has asked for."""
    topics = {name.split(".")[0] for name in needed if "." in name}
    assert topics == {"sklearn_calib", "callbacks", "datasets", "estimators", "losses"}
    rest = {name: package for name, package in needed.items() if "." not in name}
    networks = ["from_dict of a network", "get_loss", "loss curve", "to_torch"]
    assert rest == {**dict.fromkeys(networks, "torch"), **others}


def test_missing_torch_is_named():
    check_needs(packages("--extras")[2], {})


@pytest.mark.slow
def test_missing_extras_are_named():
    others = {"plot of a calibrator": "matplotlib", "to_onnx": "skl2onnx"}
    check_needs(packages()[2], others)
