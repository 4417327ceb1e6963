"""skops files need few types to trust: those in the table of doc/deploy.md."""

import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from sklearn_calib import CalibratedClassifier, SelectiveClassifier, TemperatureScaling
from sklearn_calib.calibrators import Calibrator, PlattScaling
from sklearn_calib.deployment import PriorShiftClassifier
from sklearn_calib.persistence import to_dict

skops = pytest.importorskip("skops.io")
PACKAGE = "sklearn_calib."
TEMPERATURE = f"{PACKAGE}calibrators._temperature.TemperatureScaling"
ESTIMATORS = f"{PACKAGE}estimators."


def types(model):
    """Return the types that skops does not trust; the model comes back with them."""
    content = skops.dumps(model)
    found = skops.get_untrusted_types(data=content)
    skops.loads(content, trusted=found)
    return found


def test_a_calibrator_needs_its_class(calibrator, fit):
    """And those of calibrators that it contains."""
    fitted, _ = fit(calibrator)
    values = [*vars(fitted).values(), *getattr(fitted, "calibrators_", [])]
    parts = [each for each in values if isinstance(each, Calibrator)]
    kinds = {type(each) for each in [fitted, *parts]}
    assert types(fitted) == sorted(f"{k.__module__}.{k.__qualname__}" for k in kinds)


def test_a_dict_needs_none(calibrator, fit):
    assert types(to_dict(fit(calibrator)[0])) == []


def test_labels(fit_per_label):
    found = [f"{PACKAGE}calibrators._per_label.PerLabelCalibrator", TEMPERATURE]
    assert types(fit_per_label()[0]) == found


def test_classifiers(table):
    classifier = LogisticRegression()
    calibrated = CalibratedClassifier(classifier, TemperatureScaling(), cv=2)
    assert types(calibrated.fit(*table)) == [
        TEMPERATURE,
        f"{ESTIMATORS}_calibrated.CalibratedClassifier",
        f"{ESTIMATORS}_calibrated_pair.CalibratedPair",
    ]
    margins = CalibratedClassifier(LinearSVC(), PlattScaling(), cv=2)
    assert types(margins.fit(*table)) == [
        f"{PACKAGE}calibrators._per_label.PerLabelCalibrator",
        f"{PACKAGE}calibrators._platt.PlattScaling",
        f"{ESTIMATORS}_calibrated.CalibratedClassifier",
        f"{ESTIMATORS}_calibrated_pair.CalibratedPair",
        f"{ESTIMATORS}_fold_calibrators.MarginCalibrator",
    ]
    other = CalibratedClassifier(classifier, classifier, cv=2)
    assert types(other.fit(*table)) == [
        f"{ESTIMATORS}_calibrated.CalibratedClassifier",
        f"{ESTIMATORS}_calibrated_pair.CalibratedPair",
        f"{ESTIMATORS}_classifier_calibrator.ClassifierCalibrator",
    ]
    selective = SelectiveClassifier(classifier, coverage=0.8, abstain_label=-1)
    assert types(selective.fit(*table)) == [
        f"{ESTIMATORS}_selective.SelectiveClassifier"
    ]
    shift = PriorShiftClassifier(classifier)
    assert types(shift.fit(*table)) == [
        f"{PACKAGE}deployment._prior_shift.PriorShiftClassifier"
    ]


def test_a_network(net):
    assert types(net) == [
        f"{ESTIMATORS}_batches.iterate_batches",
        f"{ESTIMATORS}_neural.NeuralClassifier",
        "skorch.dataset.Dataset",
        "skorch.history.History",
        "torch.optim.adam.Adam",
    ]
