"""Calibrators of groups are not exported."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from sklearn_calib import CalibratedClassifier
from sklearn_calib.calibrators import PerGroupCalibrator, PlattScaling
from sklearn_calib.onnx import to_onnx


def test_no_export_of_groups():
    """The graph and the module would have no input for the groups."""
    proba = np.linspace(0.01, 0.99, 300)
    groups = np.arange(300) % 6
    y = (proba > 0.4) != (groups > 3)
    model = PerGroupCalibrator(PlattScaling()).fit(proba, y, groups=groups)
    assert not hasattr(model, "to_torch")
    with pytest.raises(
        ValueError, match=r"A calibrator of groups cannot.*model\.calibrator_"
    ):
        to_onnx(model, proba)
    X = np.column_stack([proba, groups])
    classifier = CalibratedClassifier(LogisticRegression(), model, groups=1)
    classifier.fit(X, y)
    with pytest.raises(ValueError, match="uses groups cannot be converted"):
        to_onnx(classifier, X)
