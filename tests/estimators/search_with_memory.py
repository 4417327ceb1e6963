"""Search over calibrators with a cache on disk, in a process that a test kills.

Its arguments are CACHE RESULT MOMENT. MOMENT is "never", or the number of the file of
the cache that is half written as the process dies.
"""

import os

import numpy as np
from joblib._store_backends import FileSystemStoreBackend
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import GridSearchCV

from sklearn_calib import CalibratedClassifier
from sklearn_calib.calibrators import IsotonicCalibration, TemperatureScaling

X, y = make_classification(
    n_samples=240, n_informative=5, n_classes=3, flip_y=0.2, random_state=0
)


def die_while_writing(n_files):
    rename, renamed = FileSystemStoreBackend._move_item, []

    def die(source, target):
        renamed.append(target)
        if len(renamed) < n_files:
            return rename(source, target)
        with open(source, "rb+") as file:  # noqa: PTH123
            file.truncate(os.path.getsize(source) // 2)  # noqa: PTH202
        os._exit(9)

    FileSystemStoreBackend._move_item = staticmethod(die)


def search(memory):
    """Return the fitted search."""
    forest = RandomForestClassifier(10, random_state=0)
    model = CalibratedClassifier(forest, None, cv=2, n_repeats=1, memory=memory)
    grid = {"calibrator": [TemperatureScaling(), IsotonicCalibration()]}
    return GridSearchCV(model, grid, scoring="neg_log_loss", cv=3).fit(X, y)


def describe(found):
    """Return what two searches must agree in."""
    scores = {k: v for k, v in found.cv_results_.items() if k.startswith("split")}
    return {**scores, "proba": found.predict_proba(X)}


if "ARGUMENTS" in globals():
    cache, result, moment = ARGUMENTS  # noqa: F821 - given by the test
    if moment != "never":
        die_while_writing(int(moment))
    np.savez(result, **describe(search(cache)))
