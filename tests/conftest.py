"""What every test may ask for: recorded numbers, shared data and a quiet machine."""

import json
import os
from functools import cache
from pathlib import Path

# Before numpy or torch are loaded: one thread, so that the suite may run in several
# processes and sums come out alike, and figures that are drawn without a screen.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "Agg")

import numpy as np
import pytest
from hypothesis import settings

HERE = Path(__file__).parent
DATA_VARIABLE = "SKLEARN_CALIB_DATA"
DATA = Path(os.environ.get(DATA_VARIABLE, HERE.parent.parent / "shared" / "data"))

# No deadline and no chance: a slow or an unlucky machine must not turn a test red.
settings.register_profile("ci", deadline=None, derandomize=True, max_examples=25)
settings.register_profile("thorough", deadline=None, max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@cache
def _read_reference(name):
    return json.loads((HERE / "reference" / f"{name}.json").read_text())


@pytest.fixture(scope="session")
def reference():
    """Return the numbers recorded in ``tests/reference/<name>.json`` as a dict."""
    return _read_reference


@pytest.fixture(scope="session")
def shared_data():
    """Open a file of the shared data by its path, or skip where there is none."""

    def load(path):
        if not (DATA / path).exists():
            pytest.skip(
                f"needs the shared data: {path} is not in {DATA}, "
                f"set {DATA_VARIABLE} to the folder that holds it"
            )
        return np.load(DATA / path, allow_pickle=False)

    return load
