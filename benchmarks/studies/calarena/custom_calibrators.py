"""The calibrators of sklearn_calib as an entry for CalArena.

Copy this file over `custom_calibrators.py` in a checkout of CalArena; the README of
this folder has the commands. Each name in `CUSTOM_CALIBRATORS` is "sklearn_calib-"
followed by a name of the registry, or by a name of `SETTINGS`.
"""

from functools import partial
from importlib.util import find_spec

import numpy as np

from sklearn_calib.calibrators import (
    BoostingCalibrator,
    JointBetaCalibration,
    StructuredMatrixScaling,
    StructuredVectorScaling,
    VectorScaling,
    get_calibrator,
    get_calibrator_names,
)

# FocalPosterior inverts a focal loss, which none of the models was trained with, and
# Meta-Cal returns uniform probabilities for the samples that it gives up.
LEFT_OUT = {"focal_posterior", "meta_cal"}
# Calibrators with other than the default parameters. The plain names of three of them
# are the authors' settings; their defaults have names that end in "_eb".
SETTINGS = {
    "structured_vector": partial(StructuredVectorScaling, lambd=1.0),
    "structured_matrix": partial(StructuredMatrixScaling, lambd=1.0),
    "joint_beta": partial(JointBetaCalibration, penalty="none"),
    "structured_vector_cv": partial(StructuredVectorScaling, lambd="cv"),
    "structured_matrix_cv": partial(StructuredMatrixScaling, lambd="cv"),
    "vector_eb": partial(VectorScaling, penalty="empirical_bayes"),
    "structured_vector_eb": StructuredVectorScaling,
    "structured_matrix_eb": StructuredMatrixScaling,
    "joint_beta_eb": JointBetaCalibration,
}
# Boosted trees with the parameters in the docstring of BoostingCalibrator.
SHALLOW = {"n_estimators": 50, "learning_rate": 0.05, "max_depth": 2, "reg_lambda": 30}
if find_spec("lightgbm") is not None:
    from lightgbm import LGBMClassifier

    trees = LGBMClassifier(num_leaves=4, n_jobs=1, verbosity=-1, **SHALLOW)
    SETTINGS["boosting"] = partial(BoostingCalibrator, trees)
METHODS = {
    **{n: get_calibrator(n) for n in get_calibrator_names() if n not in LEFT_OUT},
    **SETTINGS,
}


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
        self.calibrator = METHODS[method]()

    def fit(self, p_cal, y_cal):
        proba = to_columns(p_cal)
        self.calibrator.fit(proba, y_cal, labels=np.arange(proba.shape[1]))

    def predict_proba(self, p_test):
        return self.calibrator.predict_proba(to_columns(p_test))


CUSTOM_CALIBRATORS = {
    f"sklearn_calib-{method}": partial(Entry, method) for method in METHODS
}
