"""Venn-Abers intervals of a calibrated classifier."""

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from sklearn_calib._sklearn.training_data import MatrixLike
from sklearn_calib._validation.arrays import shown
from sklearn_calib._validation.types import Floats
from sklearn_calib.calibrators import VennAbers
from sklearn_calib.estimators._calibrated.fold_calibrators import MarginCalibrator


def _check_has_interval(classifier: Any) -> bool:
    """Raise AttributeError unless the calibrator predicts intervals."""
    calibrator = classifier.calibrator
    if "calibrated_classifiers_" in vars(classifier):
        calibrator = classifier.calibrated_classifiers_[0].calibrator
        if isinstance(calibrator, MarginCalibrator):
            calibrator = calibrator.calibrator
    if isinstance(calibrator, VennAbers):
        return True
    raise AttributeError(
        "predict_interval needs calibrator=VennAbers(), got "
        f"{shown(calibrator)}. Use predict_proba, or fit with calibrator=VennAbers()."
    )


class IntervalMixin(ClassifierMixin):
    """Mixin that adds `predict_interval` to a classifier with calibrated pairs."""

    calibrated_classifiers_: list[Any]

    @available_if(_check_has_interval)
    def predict_interval(self, X: MatrixLike) -> Floats:
        """Return p0 and p1 of Venn-Abers calibration, averaged over the ensemble.

        Available only with `calibrator=VennAbers()`, see
        :meth:`VennAbers.predict_interval
        <sklearn_calib.calibrators.VennAbers.predict_interval>`. The statement that one
        of the two is perfectly calibrated holds for a single calibrator that is fitted
        to new data, as with a `FrozenEstimator`, and not for averages.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Data in the form that the classifier accepts.

        Returns
        -------
        interval : ndarray of shape (n_samples, n_classes, 2)
            p0 and p1 of each class, where p0 is at most p1.
        """
        check_is_fitted(self)
        pairs = self.calibrated_classifiers_
        return np.mean([pair.predict_interval(X) for pair in pairs], axis=0)
