"""Run every metric, scorer and calibrator where torch and skorch cannot be imported.

    python tests/without_torch.py [--extras]

Without `--extras`, matplotlib, skops and the packages of the extra "onnx" cannot be
imported either. What needs one of them must name it, and how to install it. Prints the
packages that each of the first steps loads, or asks for in vain, all that are loaded,
and those that others need, as JSON. test_without_torch.py runs this in a process of its
own, and .ci/run where these packages are not installed.
"""

import inspect
import json
import pkgutil
import re
import sys
import warnings
from importlib import import_module
from importlib.abc import MetaPathFinder
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

ABSENT = {"skorch", "torch"}
HAS_EXTRAS = sys.argv[1:] == ["--extras"]
if not HAS_EXTRAS:
    ABSENT |= {"matplotlib", "onnx", "onnxruntime", "onnxscript", "skl2onnx", "skops"}


class Refuse(MetaPathFinder):
    """Whoever asks for an absent package is told that there is none."""

    def __init__(self):
        self.asked_for = set()

    def find_spec(self, name, *_):
        if name.split(".")[0] in ABSENT:
            self.asked_for.add(name)
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


refuse = Refuse()
sys.meta_path.insert(0, refuse)
warnings.simplefilter("ignore")

STEPS = {
    "scikit-learn's metrics": "import sklearn.metrics",
    "the metrics": "import sklearn_calib.metrics",
    "the wrappers": """
from sklearn_calib import CalibratedClassifier
from sklearn_calib.estimators import PredictionSetClassifier, SelectiveClassifier
""",
    "reading of input": """
from sklearn_calib._validation.labels import as_labels
from sklearn_calib._validation.arrays import as_numbers
as_numbers([[1, 2]], "X"), as_labels(["a"], "y")
""",
}
if HAS_EXTRAS:
    STEPS["export of a calibrator"] = """
from sklearn_calib import TemperatureScaling
from sklearn_calib.onnx import to_onnx
X = [[0.7, 0.3], [0.4, 0.6]] * 20
assert to_onnx(TemperatureScaling().fit(X, [0, 0, 1, 1] * 10), X).graph.node
"""
loaded = {}
for name, step in STEPS.items():
    before = set(sys.modules)
    exec(step, {})
    new = {name.split(".")[0] for name in {*sys.modules} - before | refuse.asked_for}
    loaded[name] = sorted(new - set(sys.stdlib_module_names))
print(json.dumps(loaded))

import sklearn
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_validate

import sklearn_calib
from sklearn_calib import (
    CalibratedClassifier,
    PredictionSetClassifier,
    SelectiveClassifier,
    calibrators,
    deployment,
    displays,
    estimators,
    evaluation,
    losses,
    metrics,
    onnx,
    persistence,
)

rng = np.random.default_rng(0)
X, CODES = rng.normal(size=(90, 3)), np.arange(90) % 3
X[:, 0] += CODES
CLASSIFIER = LogisticRegression().fit(X, CODES)
PROBA = CLASSIFIER.predict_proba(X)
SETS = PredictionSetClassifier(LogisticRegression(), cv=2).fit(X, CODES)
SCORES = {"scores_in": PROBA.max(axis=1), "scores_out": PROBA.max(axis=1) / 2}
FEW = {"n_resamples": 10}
ECE = metrics.expected_calibration_error
# What a metric needs in addition to labels and probabilities.
OPTIONS = {
    "bootstrap_interval": {"metric": ECE, **FEW},
    "consistency_test": {"metric": ECE, **FEW},
    "coverage_at_risk": {"max_risk": 0.2},
    "difference_test": {"metric": ECE, **FEW, "y_proba_b": PROBA[::-1]},
    "get_scorer": {"scoring": "neg_ece"},
    "lowest_error_within_one_se": {"score": "neg_ece", "guard": "neg_log_loss"},
    "multicalibration_error": {"groups": CODES},
    "net_benefit_score": {"threshold": 0.2},
    "per_group": {"metric": ECE, "groups": CODES},
    "per_label": {"metric": ECE, "y_true": np.eye(3, dtype=int)[CODES]},
    "risk_at_coverage": {"coverage": 0.5},
    "worst_group": {"metric": ECE, "groups": CODES},
}
DATA = {
    "labels": range(3),
    "posterior": PROBA,
    "y_set": PROBA > 0.3,
    "y_proba": PROBA,
    "y_proba_a": PROBA,
    "y_true": CODES,
    **SCORES,
}
FOR_DISPLAYS = {"groups": CODES > 0, **FEW}


def absent_package(function, *args, **options):
    """Return the absent package that a call needs, which its error must name."""
    try:
        function(*args, **options)
    except ModuleNotFoundError as error:
        missing = error
    else:
        return None
    words = f".+ needs {missing.name}, which is not installed: pip install .+"
    assert re.fullmatch(words, str(missing)), missing
    return missing.name


def run_metric(name):
    """Call a metric with what it asks for by name."""
    function, options = getattr(metrics, name), dict(OPTIONS.get(name, {}))
    parameters = inspect.signature(function).parameters
    known = {each: value for each, value in DATA.items() if each in parameters}
    function(**{**known, **options})


for name in metrics.__all__:
    if name != "CalibrationAccumulator":
        run_metric(name)
metrics.CalibrationAccumulator(labels=range(3)).update(CODES, PROBA).compute()
with sklearn.config_context(enable_metadata_routing=True):
    for name in metrics.get_scorer_names():
        scorer = metrics.get_scorer(name)
        is_of_groups = scorer.get_metadata_routing().score.requests.get("groups")
        classifier = SETS if scorer.needs_sets else CLASSIFIER
        scorer(classifier, X, CODES, **({"groups": CODES} if is_of_groups else {}))
fitted = {}
for name in calibrators.get_calibrator_names():
    fitted[name] = calibrators.get_calibrator(name)().fit(PROBA, CODES)
    persistence.from_dict(persistence.to_dict(fitted[name])).predict_proba(PROBA)
with TemporaryDirectory() as folder:
    sklearn_calib.save(fitted["auto"], Path(folder, "calibrator.json"))
    sklearn_calib.load(Path(folder, "calibrator.json")).predict_proba(PROBA)
CalibratedClassifier(LogisticRegression(), None).fit(X, CODES).predict_proba(X)
selective = SelectiveClassifier(LogisticRegression(), coverage=0.8, abstain_label=-1)
selective.fit(X, CODES).predict(X)
estimators.choose_threshold(CODES > 0, PROBA[:, 1], max_risk=0.9)
shift = deployment.PriorShiftClassifier(CLASSIFIER).fit(X, CODES)
shift.adapt(X).predict(X)
for name in displays.__all__:
    if hasattr(getattr(displays, name), "from_predictions"):
        method = getattr(displays, name).from_predictions
        known = inspect.signature(method).parameters.keys() & FOR_DISPLAYS.keys()
        options = {option: FOR_DISPLAYS[option] for option in known}
        absent = absent_package(method, CODES, PROBA, **options)
        assert absent == (None if HAS_EXTRAS else "matplotlib"), name
folds = cross_validate(
    CLASSIFIER, X, CODES > 0, cv=2, return_estimator=True, return_indices=True
)
absent = absent_package(
    displays.ReliabilityDisplay.from_cv_results, folds, X, CODES > 0
)
assert absent == (None if HAS_EXTRAS else "matplotlib")
evaluation.compare({"one": CLASSIFIER}, X[:30], CODES[:30], n_resamples=5)
evaluation.evaluate_ood(CLASSIFIER, X, X + 3)
evaluation.calibration_report(CODES, PROBA)
evaluation.risk_report(CODES > 0, 1 - PROBA[:, 0], thresholds=[0.5], n_resamples=5)
print(json.dumps(sorted({name.split(".")[0] for name in sys.modules})))

document = persistence.to_dict(fitted["auto"])
document["object"]["class"] = "NeuralClassifier"
modules = [each.name for each in pkgutil.iter_modules(sklearn_calib.__path__)]
topics = [import_module(f"sklearn_calib.{each}") for each in modules if each[0] != "_"]
needed = {
    f"{topic.__name__.rpartition('.')[2]}.{name}": absent_package(getattr, topic, name)
    for topic in [sklearn_calib, *topics]
    for name in topic.__all__
}
needed |= {
    "from_dict of a network": absent_package(persistence.from_dict, document),
    "get_loss": absent_package(losses.get_loss, "focal"),
    "loss curve": absent_package(displays.LossCurveDisplay.from_loss, "focal"),
    "plot of a calibrator": absent_package(fitted["auto"].plot),
    "to_onnx": absent_package(onnx.to_onnx, fitted["temperature"], PROBA),
    "to_torch": absent_package(fitted["auto"].to_torch),
}
print(json.dumps({name: package for name, package in needed.items() if package}))
