"""Calibrated probabilities for classifiers: losses, calibrators and metrics.

Subpackages and classes are loaded when they are first used: `import sklearn_calib` and
`import sklearn_calib.metrics` do not import torch. Importing the package registers its
scorers with scikit-learn, such as `scoring="neg_ece"`.
"""

import warnings
from typing import TYPE_CHECKING

from sklearn_calib._lazy_names import lazy_names
from sklearn_calib._sklearn.scorer_names import register_scorers
from sklearn_calib._version import __version__
from sklearn_calib.metrics import get_scorer, get_scorer_names

if TYPE_CHECKING:  # editors and type checkers cannot follow lazy loading
    from sklearn_calib import (
        calibrators,
        callbacks,
        datasets,
        deployment,
        displays,
        estimators,
        evaluation,
        losses,
        metrics,
        onnx,
        persistence,
    )
    from sklearn_calib.calibrators import TemperatureScaling
    from sklearn_calib.estimators import (
        CalibratedClassifier,
        NeuralClassifier,
        PredictionSetClassifier,
        RefCalClassifier,
        SelectiveClassifier,
    )
    from sklearn_calib.persistence import load, save

_HOMES = {
    "CalibratedClassifier": "sklearn_calib.estimators",
    "NeuralClassifier": "sklearn_calib.estimators",
    "PredictionSetClassifier": "sklearn_calib.estimators",
    "RefCalClassifier": "sklearn_calib.estimators",
    "SelectiveClassifier": "sklearn_calib.estimators",
    "TemperatureScaling": "sklearn_calib.calibrators",
    "load": "sklearn_calib.persistence",
    "save": "sklearn_calib.persistence",
    **{
        topic: f"sklearn_calib.{topic}"
        for topic in (
            "calibrators",
            "callbacks",
            "datasets",
            "deployment",
            "displays",
            "estimators",
            "evaluation",
            "losses",
            "metrics",
            "onnx",
            "persistence",
        )
    },
}

__all__ = [
    "CalibratedClassifier",
    "NeuralClassifier",
    "PredictionSetClassifier",
    "RefCalClassifier",
    "SelectiveClassifier",
    "TemperatureScaling",
    "__version__",
    "calibrators",
    "callbacks",
    "datasets",
    "deployment",
    "displays",
    "estimators",
    "evaluation",
    "load",
    "losses",
    "metrics",
    "onnx",
    "persistence",
    "save",
]

__getattr__, __dir__ = lazy_names(__name__, _HOMES)

try:
    register_scorers({name: get_scorer(name) for name in get_scorer_names()})
except RuntimeError as error:
    # In newer versions of scikit-learn, the private registry may have moved. Everything
    # else works, and get_scorer returns the scorers as objects.
    warnings.warn(str(error), RuntimeWarning)
