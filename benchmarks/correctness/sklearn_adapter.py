"""`CalibratedClassifier` with scikit-learn's names, for `run_sklearn_tests.py`."""

import sklearn.calibration
from sklearn.svm import LinearSVC
from sklearn.utils._array_api import get_namespace_and_device

from sklearn_calib import CalibratedClassifier


class CalibratedClassifierCV(CalibratedClassifier):
    """`CalibratedClassifier` that is used like scikit-learn's class of this name."""

    def __init__(
        self, estimator=None, *, method="sigmoid", cv=None, n_jobs=None, ensemble="auto"
    ):
        settings = {"cv": cv, "n_jobs": n_jobs, "ensemble": ensemble, "n_repeats": 1}
        super().__init__(estimator, **settings)
        self.method = method

    @property
    def calibrator(self):
        return "platt" if self.method == "sigmoid" else self.method

    @calibrator.setter
    def calibrator(self, default):
        """Follow `method`."""

    @property
    def response_method(self):
        """Take margins for logits, as scikit-learn's temperature scaling does."""
        has_scores = hasattr(self.estimator, "decision_function")
        is_temperature = self.method == "temperature"
        return "decision_function" if has_scores and is_temperature else "auto"

    @response_method.setter
    def response_method(self, default):
        """Follow `method`."""

    def fit(self, X, y=None, **params):
        if self.estimator is None:
            self.estimator = LinearSVC(random_state=0)
        super().fit(X, y, **params)
        for pair in self.calibrated_classifiers_:
            pair.calibrators = [pair.calibrator]
            if self.method == "temperature":
                pair.calibrator.beta_ = as_array(1 / pair.calibrator.temperature_, X)
        return self


def as_array(value, like):
    """Return a number as an array of the library and the precision of another one."""
    xp, _, device = get_namespace_and_device(like)
    return xp.asarray(value, dtype=getattr(like, "dtype", None), device=device)


def substitute():
    """Let the tests import the adapter from scikit-learn."""
    sklearn.calibration.CalibratedClassifierCV = CalibratedClassifierCV
