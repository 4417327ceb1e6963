"""What needs no network runs without torch and skorch, and loads as fast as sklearn."""

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).with_name("without_torch.py")
# All packages that scikit-learn's metrics load, and what these load.
CODE = """
import sys
import sklearn.metrics
before = {name.split(".")[0] for name in sys.modules}
import sklearn_calib.metrics
print(*{name.split(".")[0] for name in sys.modules} - before)
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


def test_import_loads_no_further_package():
    """Nearly all of the time that an import takes is scikit-learn's."""
    further = set(run("-c", CODE).split()) - set(sys.stdlib_module_names)
    assert further == {"sklearn_calib"}
