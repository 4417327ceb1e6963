"""A fitted classifier and its calibrator, for `CalibratedClassifier`."""

from typing import Any, Self

from sklearn_calib._numerics.softmax import softmax
from sklearn_calib._sklearn.response import predict_scores
from sklearn_calib._sklearn.training_data import MatrixLike
from sklearn_calib._validation.types import Floats


class CalibratedPair:
    """A fitted classifier and its calibrator."""

    def __init__(
        self, estimator: Any, calibrator: Any, from_logits: bool, classes: Any
    ) -> None:
        self.estimator = estimator
        self.calibrator = calibrator
        # Without a calibrator, probabilities are kept instead of a softmax of logits.
        is_plain = calibrator is None and hasattr(estimator, "predict_proba")
        self.from_logits = from_logits and not is_plain
        self.classes = classes

    def predict_proba(self, X: MatrixLike, groups: Any = None) -> Floats:
        """Return calibrated probabilities; `groups` is None if they are not used."""
        scores = predict_scores(self.estimator, X, self.from_logits, self.classes)
        if groups is not None:
            return self.calibrator.predict_proba(scores, groups=groups)
        if self.calibrator is not None:
            return self.calibrator.predict_proba(scores)
        return softmax(scores) if self.from_logits else scores

    def predict_interval(self, X: MatrixLike) -> Floats:
        scores = predict_scores(self.estimator, X, self.from_logits, self.classes)
        return self.calibrator.predict_interval(scores)

    def uncalibrated(self) -> Self:
        return type(self)(self.estimator, None, self.from_logits, self.classes)
