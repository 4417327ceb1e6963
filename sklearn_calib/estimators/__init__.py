"""Estimators: neural classifiers, and meta-estimators for any classifier.

Each name imports its module when it is first used, so that `CalibratedClassifier`,
`PredictionSetClassifier` and `SelectiveClassifier` do not import torch.
"""

from typing import TYPE_CHECKING

from sklearn_calib._lazy_names import lazy_names

if TYPE_CHECKING:  # editors and type checkers do not see lazy imports
    from sklearn_calib.estimators._calibrated.calibrated import CalibratedClassifier
    from sklearn_calib.estimators._neural.batches import iterate_batches
    from sklearn_calib.estimators._neural.classifier import NeuralClassifier
    from sklearn_calib.estimators._neural.networks import MLP, ConvNet
    from sklearn_calib.estimators._refcal.refcal import RefCalClassifier
    from sklearn_calib.estimators._selective.prediction_sets import (
        PredictionSetClassifier,
    )
    from sklearn_calib.estimators._selective.selective import SelectiveClassifier
    from sklearn_calib.estimators._selective.thresholds import choose_threshold

_HOMES = {
    "CalibratedClassifier": "sklearn_calib.estimators._calibrated.calibrated",
    "ConvNet": "sklearn_calib.estimators._neural.networks",
    "MLP": "sklearn_calib.estimators._neural.networks",
    "NeuralClassifier": "sklearn_calib.estimators._neural.classifier",
    "PredictionSetClassifier": "sklearn_calib.estimators._selective.prediction_sets",
    "RefCalClassifier": "sklearn_calib.estimators._refcal.refcal",
    "SelectiveClassifier": "sklearn_calib.estimators._selective.selective",
    "choose_threshold": "sklearn_calib.estimators._selective.thresholds",
    "iterate_batches": "sklearn_calib.estimators._neural.batches",
}

__all__ = [
    "MLP",
    "CalibratedClassifier",
    "ConvNet",
    "NeuralClassifier",
    "PredictionSetClassifier",
    "RefCalClassifier",
    "SelectiveClassifier",
    "choose_threshold",
    "iterate_batches",
]

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
