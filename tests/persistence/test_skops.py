"""skops files need few types to trust: those in the table of doc/deploy.md."""

import re

import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from sklearn_calib import (
    CalibratedClassifier,
    PredictionSetClassifier,
    SelectiveClassifier,
    TemperatureScaling,
)
from sklearn_calib.calibrators import AutoCalibrator, Calibrator, PlattScaling
from sklearn_calib.deployment import PriorShiftClassifier
from sklearn_calib.persistence import to_dict


def types(model):
    """Return the names of the types that skops does not trust, after loading with them.

    The modules of the names in the package are private, and left out.
    """
    skops = pytest.importorskip("skops.io")
    content = skops.dumps(model)
    found = skops.get_untrusted_types(data=content)
    skops.loads(content, trusted=found)
    return {re.sub(r"^sklearn_calib\.[\w.]*\.", "", name) for name in found}


def test_a_calibrator_needs_its_class(calibrator, fit):
    """And those of calibrators that it contains."""
    fitted, _ = fit(calibrator)
    values = [*vars(fitted).values(), *getattr(fitted, "calibrators_", [])]
    parts = [each for each in values if isinstance(each, Calibrator)]
    kinds = {type(each) for each in [fitted, *parts]}
    assert types(fitted) == {kind.__name__ for kind in kinds}


def test_a_dict_needs_none(calibrator, fit):
    assert types(to_dict(fit(calibrator)[0])) == set()


def test_labels(fit_per_label):
    found = {"PerLabelCalibrator", "TemperatureScaling"}
    assert types(fit_per_label()[0]) == found


def test_classifiers(table):
    classifier, options = LogisticRegression(), {"cv": 2, "n_repeats": 1}
    calibrated = CalibratedClassifier(classifier, TemperatureScaling(), **options)
    assert types(calibrated.fit(*table)) == {
        "TemperatureScaling",
        "CalibratedClassifier",
        "CalibratedPair",
    }
    margins = CalibratedClassifier(LinearSVC(), PlattScaling(), **options)
    assert types(margins.fit(*table)) == {
        "PerLabelCalibrator",
        "PlattScaling",
        "CalibratedClassifier",
        "CalibratedPair",
        "MarginCalibrator",
    }
    margins.set_params(calibrator=AutoCalibrator([PlattScaling()]))
    assert types(margins.fit(*table)) == {
        "AutoCalibrator",
        "PlattScaling",
        "VectorScaling",
        "CalibratedClassifier",
        "CalibratedPair",
        "JointMarginCalibrator",
    }
    other = CalibratedClassifier(classifier, classifier, **options)
    assert types(other.fit(*table)) == {
        "CalibratedClassifier",
        "CalibratedPair",
        "ClassifierCalibrator",
    }
    selective = SelectiveClassifier(classifier, coverage=0.8, abstain_label=-1)
    assert types(selective.fit(*table)) == {"SelectiveClassifier"}
    sets = PredictionSetClassifier(classifier, conformity_score="aps")
    assert types(sets.fit(*table)) == {"PredictionSetClassifier"}
    shift = PriorShiftClassifier(classifier)
    assert types(shift.fit(*table)) == {"PriorShiftClassifier"}


def test_a_network(net):
    assert types(net) == {
        "iterate_batches",
        "NeuralClassifier",
        "skorch.dataset.Dataset",
        "skorch.history.History",
        "torch.optim.adam.Adam",
    }
