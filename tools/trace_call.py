"""Count the files of the package in which a call runs code, after a first call of it.

python tools/trace_call.py
"""

import sys
import threading
import warnings
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression

import sklearn_calib
from sklearn_calib import CalibratedClassifier, NeuralClassifier
from sklearn_calib.metrics import expected_calibration_error

PACKAGE = Path(sklearn_calib.__file__).parent


def files_of(call):
    """Return the files of the package in which a second call runs code."""
    found = set()
    call()
    threading.setprofile(lambda frame, *_: found.add(frame.f_code.co_filename))
    sys.setprofile(lambda frame, *_: found.add(frame.f_code.co_filename))
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    paths = [Path(name) for name in found]
    return sorted(str(p.relative_to(PACKAGE)) for p in paths if PACKAGE in p.parents)


def main():
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 4)), rng.integers(3, size=300)
    proba = rng.dirichlet(np.ones(3), size=300)
    net = NeuralClassifier(loss="adafocal", max_epochs=2, random_state=0)
    calls = {
        "expected_calibration_error": lambda: expected_calibration_error(y, proba),
        'CalibratedClassifier(clf, "auto").fit': lambda: CalibratedClassifier(
            LogisticRegression(), "auto"
        ).fit(X, y),
        'NeuralClassifier(loss="adafocal").fit': lambda: net.fit(X, y),
    }
    for name, call in calls.items():
        files = files_of(call)
        print(f"{name}: {len(files)} files", *files, sep="\n    ")


if __name__ == "__main__":
    main()
