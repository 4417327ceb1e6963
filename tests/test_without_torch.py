"""What needs no network runs without torch and skorch, and loads as fast as sklearn."""

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).with_name("without_torch.py")
# Packages that each step loads, in one process where torch could be imported.
STEPS = {
    "scikit-learn's metrics": "import sklearn.metrics",
    "the metrics": "import sklearn_calib.metrics",
    "the wrappers": """
from sklearn_calib import CalibratedClassifier
from sklearn_calib.estimators import SelectiveClassifier
""",
    "reading of input": """
from sklearn_calib._validation.labels import as_labels
from sklearn_calib._validation.arrays import as_numbers
as_numbers([[1, 2]], "X"), as_labels(["a"], "y")
""",
    "export of a calibrator": """
from sklearn_calib import TemperatureScaling
from sklearn_calib.onnx import to_onnx
X = [[0.7, 0.3], [0.4, 0.6]] * 20
assert to_onnx(TemperatureScaling().fit(X, [0, 0, 1, 1] * 10), X).graph.node
""",
}
CODE = """
import json, sys
loaded = {}
for name, step in json.loads(sys.argv[1]).items():
    before = set(sys.modules)
    exec(step)
    new = {name.split(".")[0] for name in set(sys.modules) - before}
    loaded[name] = sorted(new - set(sys.stdlib_module_names))
print(json.dumps(loaded))
"""


def run(*arguments):
    """Return what a new process prints."""
    process = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=300
    )
    assert process.returncode == 0, process.stderr
    return process.stdout


def test_every_metric_scorer_and_calibrator_runs():
    """Importing either package raises there."""
    loaded = json.loads(run(str(SCRIPT)).splitlines()[-1])
    assert "sklearn_calib" in loaded
    assert not {"skorch", "torch"} & set(loaded)


def test_only_networks_load_torch():
    """And nearly all of the time that an import takes is scikit-learn's."""
    loaded = json.loads(run("-c", CODE, json.dumps(STEPS)))
    assert loaded["the metrics"] == ["sklearn_calib"]
    for step, packages in loaded.items():
        assert not {"matplotlib", "skorch", "torch"} & set(packages), step
