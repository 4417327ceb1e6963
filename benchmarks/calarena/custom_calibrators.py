"""The calibrators of sklearn_calib as an entry for CalArena.

Copy this file over `custom_calibrators.py` in a checkout of CalArena; the README of
this folder has the commands. Each name in `CUSTOM_CALIBRATORS` is "sklearn_calib-"
followed by a name of the registry, or by a name of `SETTINGS`.
"""

from functools import partial

import numpy as np

from sklearn_calib.calibrators import get_calibrator, get_calibrator_names

# FocalPosterior inverts a focal loss, which none of the models was trained with, and
# Meta-Cal returns uniform probabilities for the samples that it gives up.
LEFT_OUT = {"focal_posterior", "meta_cal"}
# Calibrators with other than the default parameters: class name and parameters.
SETTINGS = {
    "structured_vector_cv": ("structured_vector", {"lambd": "cv"}),
    "structured_matrix_cv": ("structured_matrix", {"lambd": "cv"}),
}
METHODS = {
    **{name: (name, {}) for name in get_calibrator_names() if name not in LEFT_OUT},
    **SETTINGS,
}


def make_calibrator(method, **params):
    """Return an unfitted calibrator by its name in `METHODS`."""
    name, settings = METHODS[method]
    return get_calibrator(name)(**settings, **params)


def to_columns(proba):
    """Return probabilities with a column for each class, in double precision."""
    proba = np.asarray(proba, dtype=np.float64)
    if proba.ndim == 2 and proba.shape[1] > 1:
        return proba
    positive = proba.ravel()
    return np.column_stack([1 - positive, positive])


class Entry:
    """Calibrator with the two methods that CalArena calls.

    CalArena stores the probabilities of two classes as those of the second one, in
    single precision. A class may be absent from the labels.
    """

    def __init__(self, method):
        self.calibrator = make_calibrator(method)

    def fit(self, p_cal, y_cal):
        proba = to_columns(p_cal)
        self.calibrator.fit(proba, y_cal, labels=np.arange(proba.shape[1]))

    def predict_proba(self, p_test):
        return self.calibrator.predict_proba(to_columns(p_test))


CUSTOM_CALIBRATORS = {
    f"sklearn_calib-{method}": partial(Entry, method) for method in METHODS
}
