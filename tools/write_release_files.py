"""Write a saved model of each class, which all later versions must be able to load.

    python tools/write_release_files.py

The files are in tests/persistence/files/<version>. Run this before each release, and do
not change the files of earlier ones. tests/persistence/test_release_files.py loads
them, and compares the predictions with those in predictions.json, for an accumulator
the calibration error.
"""

import json
import shutil
import warnings
from pathlib import Path

import numpy as np

import sklearn_calib
from sklearn_calib import CalibratedClassifier, NeuralClassifier, TemperatureScaling
from sklearn_calib.calibrators import (
    DirichletCalibrator,
    GroupCalibrator,
    MetaCal,
    MulticalibrationBoosting,
    PerGroupCalibrator,
    PerLabelCalibrator,
    TemperatureAccumulator,
    get_calibrator,
    get_calibrator_names,
)
from sklearn_calib.deployment import CalibrationMonitor, PriorShiftClassifier
from sklearn_calib.estimators import ConvNet
from sklearn_calib.metrics import CalibrationAccumulator

FILES = Path(__file__).parent.parent / "tests" / "persistence" / "files"

# Other parameters, by the name of the file.
SETTINGS = {
    "DirichletCalibrator_diagonal": DirichletCalibrator(
        diagonal=True, penalty="odir", lambd=[0.1, 1.0], mu=np.float64(0.5)
    ),
    "MetaCal_all_accepted": MetaCal(coverage_accuracy=0.1),
    "TemperatureScaling_logits": TemperatureScaling(from_logits=True),
}
# Two columns, with a missing value.
GROUPS = [[k % 2, "a" if k % 3 else None] for k in range(30)]
SMALL = {"max_epochs": 1, "random_state": 0}


def make_data():
    """Return logits, probabilities with zeros, and labels."""
    rng = np.random.default_rng(0)
    logits = 2 * rng.normal(size=(30, 3)).round(2)
    codes = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    proba = np.exp(logits - logits.max(axis=1, keepdims=True))
    proba[proba < 0.01] = 0
    proba /= proba.sum(axis=1, keepdims=True)
    return logits, proba, np.array(["a", "b", "c"])[codes]


def make_models():
    """Return the fitted models and their inputs, by the name of the file."""
    logits, proba, y = make_data()
    calibrators = {
        get_calibrator(name).__name__: get_calibrator(name)()
        for name in get_calibrator_names()
    }
    models = {}
    for name, calibrator in {**calibrators, **SETTINGS}.items():
        X = logits if calibrator.from_logits else proba
        models[f"{name}.json"] = calibrator.fit(X, y), X
    per_label = PerLabelCalibrator(TemperatureScaling())
    indicator = (y[:, None] == np.unique(y)).astype(int)
    models["PerLabelCalibrator.json"] = per_label.fit(proba, indicator), proba
    net = NeuralClassifier(module__hidden_sizes=(2,), loss="adafocal", **SMALL)
    net.set_params(loss__n_bins=2, validation_fraction=0.3)
    calibrated = CalibratedClassifier(net, TemperatureScaling(), cv=2)
    shift = PriorShiftClassifier(
        get_calibrator("vector")(), priors={"a": 0.2, "b": 0.5, "c": 0.3}
    )
    images = np.arange(30 * 16).reshape(30, 1, 4, 4) % 7 / 7
    conv_net = NeuralClassifier(
        ConvNet, module__n_filters=2, module__n_stages=1, **SMALL
    )
    for group_calibrator in (
        # Of so few samples, an estimated strength leaves no correction.
        MulticalibrationBoosting(TemperatureScaling(), n_bins=2, lambd=1.0),
        PerGroupCalibrator(TemperatureScaling()),
    ):
        name = f"{type(group_calibrator).__name__}.json"
        models[name] = group_calibrator.fit(proba, y, groups=GROUPS), proba
    return {
        **models,
        "NeuralClassifier.safetensors": (net.fit(logits, y), logits),
        "NeuralClassifier_images.safetensors": (conv_net.fit(images, y), images),
        "CalibratedClassifier.safetensors": (calibrated.fit(logits, y), logits),
        "PriorShiftClassifier.json": (shift.fit(proba, y), proba),
    }


def main():
    folder = FILES / sklearn_calib.__version__
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    predictions = {}
    for name, (model, X) in make_models().items():
        sklearn_calib.save(model, folder / name)
        groups = {"groups": GROUPS[:4]} if isinstance(model, GroupCalibrator) else {}
        proba = model.predict_proba(X[:4], **groups)
        predictions[name] = {"X": X[:4].tolist(), **groups, "proba": proba.tolist()}
    logits, proba, y = make_data()
    accumulator = CalibrationAccumulator(labels=["a", "b", "c"]).update(y, proba)
    sklearn_calib.save(accumulator, folder / "CalibrationAccumulator.json")
    predictions["CalibrationAccumulator.json"] = {"error": accumulator.compute()}
    monitor = CalibrationMonitor(labels=["a", "b", "c"], n_bins=2).update(y, proba)
    sklearn_calib.save(monitor, folder / "CalibrationMonitor.json")
    predictions["CalibrationMonitor.json"] = {"e_value": monitor.e_value_}
    sums = TemperatureAccumulator(labels=["a", "b", "c"], from_logits=True)
    sklearn_calib.save(sums.update(logits, y), folder / "TemperatureAccumulator.json")
    found = {"temperature": sums.calibrator().temperature_}
    predictions["TemperatureAccumulator.json"] = found
    text = json.dumps(predictions, allow_nan=False)
    (folder / "predictions.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
