"""Any scikit-learn classifier as a calibrator."""

from typing import Any

import numpy as np
from sklearn.base import clone

from sklearn_calib._sklearn.response import fill_absent
from sklearn_calib._sklearn.training_data import warn_of_absent_classes
from sklearn_calib._validation.types import Floats, Ints, Weights
from sklearn_calib.calibrators import Calibrator


class ClassifierCalibrator(Calibrator):
    """Calibrator that fits a classifier with the logits as features."""

    def __init__(self, classifier: Any, *, from_logits: bool = False) -> None:
        self.classifier = classifier
        self.from_logits = from_logits

    def _fit(self, logits: Floats, codes: Ints, sample_weight: Weights) -> None:
        weights = {} if sample_weight is None else {"sample_weight": sample_weight}
        self.classifier_ = clone(self.classifier).fit(logits, codes, **weights)
        warn_of_absent_classes(
            np.delete(self.classes_, self.classifier_.classes_),
            f"{type(self.classifier).__name__} gives these classes the smallest "
            "positive probability of each row",
        )

    def _calibrate(self, logits: Floats) -> Floats:
        proba = self.classifier_.predict_proba(logits).copy()
        classes = np.arange(len(self.classes_))
        return fill_absent(proba, self.classifier_.classes_, classes, False)
