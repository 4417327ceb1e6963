"""What a user's type checker sees: no name of the package is Any to it."""

import inspect
import json
import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import sklearn_calib
from sklearn_calib import losses

PACKAGE = Path(sklearn_calib.__file__).parent
TOPICS = [
    name
    for name in sklearn_calib.__all__
    if inspect.ismodule(getattr(sklearn_calib, name))
]

# It depends on a file, on skorch's datasets and devices, or on overloads.
RETURN_ANY = {
    "datasets.FeatureCorruption.__call__",
    "datasets.ImageAugmentation.__call__",
    "estimators.NeuralClassifier.device",
    "estimators.NeuralClassifier.get_dataset",
    "estimators.NeuralClassifier.infer",
    "metrics.CalibrationAccumulator.compute",
    "persistence.from_dict",
    "persistence.load",
}

SCRIPT = """
from typing import Any

import numpy as np
import sklearn_calib
from sklearn_calib import {topics}

X = np.zeros((2, 3), dtype=np.float32)
y, p = [0, 1], [0.25, 0.75]
classifier: Any
tensor: Any
"""

# Expressions, and the types that they have, without the modules of these.
SEEN = {
    "metrics.expected_calibration_error(y, p)": "float",
    "metrics.classwise_calibration_error(y, p, norm='l2')": "float",
    "metrics.expected_calibration_error(y, p, return_n_bins=True)": (
        "tuple[float, int]"
    ),
    "metrics.kde_calibration_error(y, p)": "float",
    "metrics.kde_calibration_error(y, p, return_bandwidth=True)": "tuple[float, float]",
    "metrics.smooth_expected_calibration_error(y, p)": "float",
    "metrics.smooth_expected_calibration_error(y, p, return_bandwidth=True)[0]": (
        "float"
    ),
    "metrics.brier(y, p)": None,
    "metrics.expected_calibration_error(y, p, n_bin=10)": None,
    "metrics.ece_interval(y, p)": "tuple[float, float]",
    "metrics.bootstrap_interval(metrics.aurc_loss, y, p)": "tuple[float, float]",
    "metrics.hosmer_lemeshow_test(y, p).df": "int",
    "metrics.consistency_test(metrics.aurc_loss, y, p).null_distribution": "ndarray",
    "metrics.risk_coverage_curve(y, p)[0]": "ndarray",
    "metrics.get_scorer('neg_ece')(classifier, X, y)": "float",
    "metrics.get_scorer_names()": "list[str]",
    "metrics.CalibrationAccumulator(labels=y).update(y, p)": "CalibrationAccumulator",
    "metrics.CalibrationAccumulator(labels=y).compute()": "float",
    "persistence.to_dict(classifier)": "dict[str, Any]",
    "persistence.load('model.json', modul=None)": None,
    "calibrators.TemperatureScaling().fit(X, y)": "TemperatureScaling",
    "calibrators.TemperatureScaling(n_bin=10)": None,
    "calibrators.TemperatureScaling().predict_proba(X)": "ndarray",
    "calibrators.VennAbers(from_logits=True).fit(X, y).predict(X)": "ndarray",
    "calibrators.get_calibrator('beta')": "type[Calibrator]",
    "calibrators.PerLabelCalibrator(calibrators.BBQ()).fit(X, y)": "PerLabelCalibrator",
    "sklearn_calib.TemperatureScaling().fit(X, y)": "TemperatureScaling",
    "displays.ReliabilityDisplay.from_predictions(y, p)": "ReliabilityDisplay",
    "displays.ReliabilityDisplay.from_predictions(y, p).ece": "float",
    "displays.ReliabilityDisplay.from_predictions(y, p).ax_": "Axes",
    "displays.ReliabilityDisplay.from_history([])": "list[ReliabilityDisplay]",
    "displays.CorpReliabilityDisplay.from_estimator(classifier, X, y)": (
        "CorpReliabilityDisplay"
    ),
    "displays.RiskCoverageDisplay.from_predictions(y, p).plot()": "RiskCoverageDisplay",
    "displays.GammaDynamicsDisplay.from_history([]).gap_lines_": "list[Line2D]",
    "evaluation.evaluate_ood(classifier, X, X)": "dict[str, float]",
    "deployment.PriorShiftClassifier(classifier).adapt(X)": "PriorShiftClassifier",
    "deployment.CalibrationMonitor(labels=y).update(y, p)": "CalibrationMonitor",
    "deployment.CalibrationMonitor(labels=y).e_value_": "float",
    "deployment.adjust_priors(p, [0.5, 0.5], [0.9, 0.1])": "ndarray",
    "datasets.corrupt_images(X)": "ndarray",
    "datasets.group_classes(y)": "ndarray",
    "datasets.Mixup(alpha=0.2)(tensor, tensor)[0]": "Tensor",
    "losses.FocalLoss(gamma=2.0)": "FocalLoss",
    "losses.focal_loss(tensor, tensor)": "Tensor",
    "estimators.CalibratedClassifier(classifier).fit(X, y)": "CalibratedClassifier",
    "estimators.CalibratedClassifier(classifier).predict_proba(X)": "ndarray",
    "sklearn_calib.NeuralClassifier().fit(X, y)": "NeuralClassifier",
    "callbacks.RecordBins()": "RecordBins",
    "onnx.to_onnx(classifier, X)": "ModelProto",
}


def calls_of_losses():
    """Yield a valid call of each loss and its type, and one with a positional value."""
    for name in losses.__all__:
        if name.endswith("Loss") and name != "CalibrationLoss":
            parameters = inspect.signature(getattr(losses, name)).parameters
            first = next(iter(parameters.values()))
            yield f"losses.{name}({first.name}={first.default!r})", name
            yield f"losses.{name}({first.default!r})", None


SEEN.update(calls_of_losses())


def topic_of(expression):
    """Return the package of an expression, of a name at the top its home."""
    topic, name = re.findall(r"\w+", expression)[:2]
    home = sklearn_calib._HOMES.get(name, "") if topic == "sklearn_calib" else topic
    return home.removeprefix("sklearn_calib.")


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """What mypy says of each expression in a script of a user: types or errors."""
    pytest.importorskip("mypy", reason="mypy is not installed")
    folder = tmp_path_factory.mktemp("types")
    head = SCRIPT.format(topics=", ".join(TOPICS))
    expressions = [*SEEN, *public_functions()]
    lines = [f"reveal_type({expression})" for expression in expressions]
    (folder / "script.py").write_text(head + "\n".join(lines) + "\n")
    command = "mypy --strict --config-file= --follow-imports silent --cache-dir cache"
    environment = dict(os.environ)
    if PACKAGE.parent.name != "site-packages":  # where mypy looks by itself
        environment["MYPYPATH"] = str(PACKAGE.parent)
    process = subprocess.run(
        [sys.executable, "-m", *command.split(), "script.py"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert not process.stderr, process.stderr
    first, found = len(head.splitlines()) + 1, {}
    for line, text in re.findall(r"^script.py:(\d+): (.*)", process.stdout, re.M):
        assert int(line) >= first, text
        # An error comes before what is revealed.
        found.setdefault(expressions[int(line) - first], text)
    return found


@pytest.mark.slow
def test_a_type_checker_sees_the_types(said):
    """In one test, as mypy takes long to start."""
    wrong = {e: said[e] for e, seen in SEEN.items() if not is_seen(said[e], seen)}
    assert not wrong


@pytest.mark.slow
def test_a_strict_type_checker_knows_every_public_function(said):
    unknown = re.compile('error: |note: Revealed type is "Any"')
    assert not [each for each in public_functions() if unknown.match(said[each])]


def is_seen(text, expected):
    """Return whether mypy reveals the type, or an error if it is None."""
    text = re.sub(r"[\w.]+\.(\w)", r"\1", text)
    if expected is None:
        return text.startswith("error: ")
    revealed = re.escape(f'note: Revealed type is "{expected}')
    return re.match(revealed + r'(\[.*\])?"', text)


@pytest.mark.slow
def test_pyright_sees_the_parameters_of_losses(tmp_path):
    pytest.importorskip("basedpyright", reason="basedpyright is not installed")
    calls = dict(calls_of_losses())
    head = SCRIPT.format(topics="losses")
    (tmp_path / "script.py").write_text(head + "\n".join(calls) + "\n")
    command = "-m basedpyright --level error --outputjson script.py"
    process = subprocess.run(
        [sys.executable, *command.split(), "--pythonpath", sys.executable],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
    )
    said = json.loads(process.stdout)["generalDiagnostics"]
    refused = {each["range"]["start"]["line"] - len(head.splitlines()) for each in said}
    expected = {i for i, name in enumerate(calls.values()) if name is None}
    assert refused == expected, said


def test_every_package_has_rows():
    assert {topic_of(expression) for expression in SEEN} == set(TOPICS)


def functions_of(topic, name):
    """Yield the functions that users call by a public name, with their full names."""
    member = getattr(import_module(f"sklearn_calib.{topic}"), name)
    if not inspect.isclass(member):
        yield name, member
        return
    for base in reversed(member.__mro__):  # a class after its bases
        if not base.__module__.startswith("sklearn_calib."):
            continue
        for attribute, value in vars(base).items():
            value = getattr(value, "fget", None) or getattr(value, "__func__", value)
            is_public = attribute[0] != "_" or attribute in ("__init__", "__call__")
            if is_public and inspect.isfunction(value):
                yield f"{name}.{attribute}", value


def public_functions():
    """Return the functions that users call, by expressions for them."""
    return {
        f"{topic}.{name}": function
        for topic in TOPICS
        for public in import_module(f"sklearn_calib.{topic}").__all__
        for name, function in functions_of(topic, public)
    }


def lacks(function):
    """Return the parameters without annotation, and "return" if it has none or Any."""
    signature = inspect.signature(function)
    parameters = [
        name
        for name, parameter in signature.parameters.items()
        if parameter.annotation is inspect.Parameter.empty
    ]
    if signature.return_annotation in (inspect.Signature.empty, Any, "Any"):
        parameters.append("return")
    return [name for name in parameters if name not in ("self", "cls")]


def test_every_public_function_is_annotated():
    functions = public_functions()
    lacking = {each: names for each in functions if (names := lacks(functions[each]))}
    assert lacking == {each: ["return"] for each in RETURN_ANY}
