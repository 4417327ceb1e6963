"""Probabilities you can trust: train calibrated, calibrate afterwards, measure.

Rooms and names load when first used: `import sklearn_calib` and
`import sklearn_calib.metrics` import no torch. Importing the package registers its
scorer strings with scikit-learn, such as `scoring="neg_ece"`.
"""

import warnings
from typing import TYPE_CHECKING

from sklearn_calib._core.lazy import lazy_names
from sklearn_calib._core.scorer_names import register_scorers
from sklearn_calib.metrics import get_scorer, get_scorer_names

if TYPE_CHECKING:  # editors and type checkers cannot follow what is loaded later
    from sklearn_calib import (
        calibrators,
        callbacks,
        datasets,
        displays,
        estimators,
        evaluation,
        losses,
        metrics,
    )
    from sklearn_calib.calibrators import TemperatureScaling
    from sklearn_calib.estimators import (
        CalibratedClassifier,
        NeuralClassifier,
        RefCalClassifier,
        SelectiveClassifier,
    )

__version__ = "0.1.0"

_HOMES = {
    "CalibratedClassifier": "sklearn_calib.estimators",
    "NeuralClassifier": "sklearn_calib.estimators",
    "RefCalClassifier": "sklearn_calib.estimators",
    "SelectiveClassifier": "sklearn_calib.estimators",
    "TemperatureScaling": "sklearn_calib.calibrators",
    **{
        room: f"sklearn_calib.{room}"
        for room in (
            "calibrators",
            "callbacks",
            "datasets",
            "displays",
            "estimators",
            "evaluation",
            "losses",
            "metrics",
        )
    },
}

__all__ = [
    "CalibratedClassifier",
    "NeuralClassifier",
    "RefCalClassifier",
    "SelectiveClassifier",
    "TemperatureScaling",
    "__version__",
    "calibrators",
    "callbacks",
    "datasets",
    "displays",
    "estimators",
    "evaluation",
    "losses",
    "metrics",
]

__getattr__, __dir__ = lazy_names(__name__, _HOMES)

try:
    register_scorers({name: get_scorer(name) for name in get_scorer_names()})
except RuntimeError as error:
    # A scikit-learn newer than this package may have moved what the strings need; all
    # else works, and get_scorer gives the scorers as objects.
    warnings.warn(str(error), RuntimeWarning)
