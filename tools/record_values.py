"""Record what every public name returns on plausible input, and compare two commits.

    python tools/record_values.py --base main
    python tools/record_values.py --base v0.1.0 --new HEAD~2 --tolerance 1e-9
    python tools/record_values.py --base main --names losses. metrics.aurc

Each commit is checked out into a worktree of its own, which one process imports the
package from. Both make the calls of this file, with the settings in the tables of the
tests: losses with gradients, predictions of calibrators and estimators, metrics and the
numbers of displays, for two and four classes, in single and double precision, with
weights and without. The names come from `__all__` and the arguments from signatures, so
that new members are recorded without a change here. If an argument has a new name or a
value has a new type, an error says so.

Prints for each public name the number of arrays and the largest difference, which is
relative to values above one in size. The exit code is 1 if a difference is above
`--tolerance`, if a commit lacks a value, or if a call fails. With tolerance 0, the
default, all bits must be equal. Shapes, types and strings must always be equal.
"""

import argparse
import inspect
import os
import pickle
import runpy
import subprocess
import sys
import tempfile
import warnings
from contextlib import chdir
from functools import cache, partial
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch
from scipy.special import softmax
from sklearn import config_context
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_validate
from skorch.dataset import Dataset

import sklearn_calib
from sklearn_calib import (
    NeuralClassifier,
    PredictionSetClassifier,
    TemperatureScaling,
    persistence,
)
from sklearn_calib.callbacks import RecordBins
from sklearn_calib.deployment import CalibrationMonitor
from sklearn_calib.losses import get_loss, get_loss_names
from sklearn_calib.metrics import (
    CalibrationAccumulator,
    expected_calibration_error,
    get_scorer_names,
)

ROOT = Path(__file__).resolve().parents[1]
# Base classes, which predict nothing.
ABSTRACT = {
    "calibrators.Calibrator",
    "calibrators.GroupCalibrator",
    "losses.CalibrationLoss",
}
# Settings of members that the tests have no table for. Few folds save time.
SETTINGS = {
    "CalibratedClassifier": [
        *({"calibrator": name, "cv": 2} for name in ("auto", "isotonic", "vector")),
        {"calibrator": "beta", "cv": 2, "ensemble": False},
    ],
    "NeuralClassifier": [
        {"validation_fraction": 0.2, "batch_size": 16, "module__dropout": 0.1},
        {"loss": "focal", "posterior": True, "class_weight": {"class 0": 2.0}},
    ],
    "PredictionSetClassifier": [{"cv": 2}, {"cv": 2, "conformity_score": "aps"}],
    "RefCalClassifier": [{"refine__max_epochs": 1, "head__max_epochs": 1}],
    "SelectiveClassifier": [{"cv": 2, "coverage": 0.8}, {"cv": 2, "max_risk": 0.8}],
}
# Optional arguments that are always passed, because their defaults are slow or random.
FAST = {"n_resamples": 20, "random_state": 0, "max_epochs": 2}


# Arguments ---------------------------------------------------------------------------


@cache
def samples(n_classes, precision="float64", n_samples=120):
    """Return overconfident logits with ties, some of them large, and class indices."""
    rng = np.random.default_rng(n_classes)
    logits = 2 * rng.normal(size=(n_samples, n_classes))
    codes = (logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=1)
    logits[::10] *= 30  # probabilities of zero and one, all of them right
    codes[::10] = logits[::10].argmax(axis=1)
    logits[1::10] = logits[11]
    return logits.astype(precision), codes


@cache
def given(n_classes, precision):
    """Return valid arguments of functions of arrays by their names."""
    logits, codes = samples(n_classes, precision)
    classes = np.array([f"class {k}" for k in range(n_classes)])
    proba, other = softmax(logits, axis=1), softmax(logits / 2, axis=1)
    several = {"y_proba": proba, "y_proba_a": proba}
    several |= dict.fromkeys(["y_proba_b", "y_proba_new", "posterior"], other)
    if n_classes == 2:  # as in scikit-learn's metrics
        several = {name: columns[:, 1] for name, columns in several.items()}
    return {
        **FAST,
        **several,
        **dict.fromkeys(["y_true", "y"], classes[codes]),
        **dict.fromkeys(["labels", "classes"], classes),
        "X": proba,
        "y_set": proba > 0.2,
        "y_pvalue": proba,
        "sample_weight": np.random.default_rng(0).uniform(0.2, 1.0, len(codes)),
        "groups": np.array(["one", "other"])[np.arange(len(codes)) % 2],
        "scores_in": logits[:, 0],
        "scores_out": logits[:80, 1],
        "correct": codes == 0,
        "confidence": proba[:, 0],
        "metric": expected_calibration_error,
        "estimator": LogisticRegression(),
        "calibrator": TemperatureScaling(),
        "priors": np.arange(1, n_classes + 1) / np.arange(1, n_classes + 1).sum(),
        "train_priors": np.full(n_classes, 1 / n_classes),
        "max_risk": 0.8,
        "coverage": 0.8,
        "threshold": 0.2,
        "imbalance_factor": 0.5,
    }


@cache
def fitted(n_classes, precision):
    """Return arguments that are made of data: models, histories and accumulators."""
    data = given(n_classes, precision)
    X, codes = samples(n_classes, precision)
    y = data["y"]
    net = NeuralClassifier(
        loss="adafocal", loss__n_bins=3, validation_fraction=0.5, max_epochs=2,
        callbacks=[RecordBins(n_bins=3)], random_state=0,
    ).fit(X, codes)  # fmt: skip
    labels = data["labels"]
    model = LogisticRegression().fit(X, y)
    table = sklearn_calib.evaluation.compare({"one": model}, X, y, n_resamples=0)
    return {
        **data,
        "tables": {"first": table, "second": table},
        **dict.fromkeys(["X", "X_in"], X),
        "X_out": X - 3,
        "estimator": model,
        "estimators": {"one": model, "other": LogisticRegression(C=0.01).fit(X, y)},
        "net": net,
        "dataset": Dataset(X.astype(np.float32), codes),
        "history": net.history_,
        "loss": "focal",
        "thresholds": [0.2, 0.5],
        "monitor": in_batches(CalibrationMonitor(labels=labels), data),
        "accumulator": in_batches(CalibrationAccumulator(labels=labels), data),
        "sets": PredictionSetClassifier(LogisticRegression(), cv=2).fit(X, y),
        "calibrator": TemperatureScaling().fit(data["X"], y),
        "cv_results": cross_validate(
            LogisticRegression(), X, y, cv=3, return_estimator=True, return_indices=True
        ),
    }


@cache
def batch(n_classes, precision, multilabel=False):
    """Return valid arguments of functions of a mini-batch by their names."""
    logits, codes = map(torch.as_tensor, samples(n_classes, precision, 60))
    bins = torch.tensor([0.3, 0.6, 0.9], dtype=logits.dtype)
    return {
        **dict.fromkeys(["logits", "embeddings", "X"], logits),
        "values": logits[:, 0],
        "target": (logits > -1).long() if multilabel else codes,
        "sample_weight": torch.linspace(0.5, 2, len(codes), dtype=logits.dtype),
        "edges": bins[:2],
        "gamma": 3 * bins,
        "bin_confidence": bins,
        "bin_accuracy": bins - 0.1,
        "epsilon": 0.1,
    }


def parameters(function):
    """Return the parameters of a function by name, without those of any name."""
    return {
        name: parameter
        for name, parameter in inspect.signature(function).parameters.items()
        if name != "self" and parameter.kind not in (2, 4)
    }


def arguments(function, known, optional=(), **settings):
    """Return the required arguments, those that are always given, and settings."""
    wanted = {
        name
        for name, parameter in parameters(function).items()
        if parameter.default is parameter.empty or name in {*FAST, *optional}
    }
    return {name: known[name] for name in wanted - settings.keys()} | settings


def of_variants(function, use):
    """Yield calls for numbers of classes, precisions, and names of optional arguments.

    The function shows whether weights are optional.
    """
    has_weights = "sample_weight" in parameters(function)
    for n_classes in (2, 4):
        for precision in ("float64", "float32"):
            for optional in [(), ("sample_weight",)][: 1 + has_weights]:
                label = " ".join([str(n_classes), precision, *optional])
                yield label, partial(use, n_classes, precision, optional)


@cache
def table(topic):
    """Return the members with settings for which the tests of a topic run."""
    script = runpy.run_path(str(ROOT / "tests" / topic / "conftest.py"))
    return script[topic.upper()]


def rows(topic, member):
    """Return the settings of one member in the table."""
    names = [(getattr(row, "name", type(row).__name__), row) for row in table(topic)]
    return [row for name, row in names if name == member]


# Calls of each kind of public name ---------------------------------------------------


def of_arrays(function, known=given, **settings):
    """Yield calls of a function of arrays."""

    def use(n_classes, precision, optional):
        data = known(n_classes, precision)
        return function(**arguments(function, data, optional, **settings))

    return of_variants(function, use)


def of_fitted(function):
    """Yield calls of a function of fitted models or of data sets."""
    return of_arrays(function, fitted)


def metric(function):
    """Yield calls of a metric with each of its settings."""
    for row in rows("metrics", function.__name__) or [partial(function)]:
        for label, call in of_arrays(function, **row.keywords):
            yield f"{row.keywords} {label}", call


def per_label(function):
    """Yield calls of a metric for several labels."""

    def use(_, precision, __):
        known = given(4, precision)
        y = samples(4, precision)[0] > 1
        return function(**arguments(function, known, y_true=y.astype(int)))

    return of_variants(function, use)


def loss_function(function, signature=None, multilabel=False):
    """Yield calls of a loss, which also return its gradient."""
    signature = signature or function

    def use(n_classes, precision, optional, mask=0.0):
        known = batch(n_classes, precision, multilabel)
        keywords = arguments(signature, known, optional)
        name = next(name for name in parameters(signature) if name in keywords)
        scores = keywords[name].clone()
        if mask:  # a class that is impossible, and not the target
            scores[2::5, 1] += mask * (known["target"][2::5] != 1)
        scores.requires_grad_()
        value = function(**{**keywords, name: scores})
        value.square().sum().backward()  # the sum of ranks is constant
        return value, scores.grad

    yield from of_variants(signature, use)
    if "logits" in parameters(signature) and not multilabel:
        for label, call in of_variants(signature, partial(use, mask=-np.inf)):
            yield f"masked {label}", call


def loss_class(kind):
    """Yield calls of a loss with each of its settings."""
    for loss in rows("losses", kind.__name__) or [kind().eval()]:
        multilabel = getattr(kind, "is_multilabel", False)
        for label, call in loss_function(loss, kind.forward, multilabel):
            yield f"{loss} {label}", call


def predictions(model, X, **options):
    """Return all predictions of a model, and its fitted numbers."""
    methods = {
        name: getattr(model, name) for name in dir(model) if name.startswith("predict")
    }
    attributes = {
        name: value
        for name, value in vars(model).items()
        if name.endswith("_")
        and not name.startswith("_")
        and isinstance(value, int | float | np.ndarray)
    }
    return attributes | {
        name: method(X, **options)
        for name, method in methods.items()
        if callable(method) and [*parameters(method)] == ["X", *options]
    }


def calibrator(kind, **params):
    """Yield fits of a calibrator: to arrays, to a stream, and in updates."""
    default = kind(**arguments(kind, given(4, "float64"), **params))
    few = {"cv": 2} if "cv" in parameters(kind) else {}
    for row in rows("calibrators", kind.__name__) or [default]:
        for name, scores in SCORES.items():
            from_logits = name != "probabilities"

            def use(*variant, row=row, from_logits=from_logits, scores=scores):
                n_classes, precision, optional = variant
                known = given(n_classes, precision)
                known = known | {"X": scores(n_classes, precision)}
                model = clone(row).set_params(**few, from_logits=from_logits)
                model.fit(**arguments(model.fit, known, [*optional, "X", "y"]))
                return predictions(model, **arguments(model.predict_proba, known))

            for label, call in of_variants(kind.fit, use):
                yield f"{row} {name} {label}", call
        if "batches" in parameters(kind.fit):
            yield f"{row} stream", partial(fit_stream, clone(row).set_params(**few))
    if hasattr(kind, "partial_fit"):
        yield "updates", partial(fit_in_parts, default, given(4, "float64")["X"])


SCORES = {
    "probabilities": lambda *data: given(*data)["X"],
    "logits": lambda *data: samples(*data)[0],
    # Two classes are impossible for some samples.
    "masked logits": lambda *data: masked(samples(*data)[0]),
}


def masked(logits):
    """Return logits in which classes are impossible for some samples."""
    logits = logits.copy()
    logits[2::10, 0] = logits[3::10, 1] = -1e4
    return logits


def fit_stream(model):
    """Fit a calibrator to a stream of predictions, and predict."""
    X, labels = given(4, "float64")["X"], given(4, "float64")["labels"]
    return predictions(model.fit(batches=partial(chunks, X), labels=labels), X)


def fit_in_parts(model, X):
    """Fit a model to one chunk after the other, and predict."""
    for part, y, weight in chunks(X):
        labels = given(4, "float64")["labels"]
        model.partial_fit(part, y, classes=labels, sample_weight=weight)
    return predictions(model, X)


def chunks(X):
    """Return two chunks of X, labels and weights."""
    known = given(4, "float64")
    parts = X, known["y"], known["sample_weight"]
    return [tuple(part[rows] for part in parts) for rows in (slice(50), slice(50, 99))]


def boosting_calibrator(kind):
    """Yield fits of a calibrator with a booster."""
    from lightgbm import LGBMClassifier

    booster = LGBMClassifier(n_estimators=3, reg_lambda=1, n_jobs=1, verbosity=-1)
    return calibrator(kind, estimator=booster)


def per_label_calibrator(kind):
    """Yield fits of a calibrator of several labels."""

    def use(_, precision, optional):
        known, y = given(4, precision), samples(4, precision)[0] > 1
        model = kind(**arguments(kind, known))
        model.fit(**arguments(model.fit, known | {"y": y.astype(int)}, optional))
        return predictions(model, known["X"])

    return of_variants(kind.fit, use)


def estimator(kind):
    """Yield fits of an estimator with each of its settings."""
    rows = SETTINGS.get(kind.__name__, [{}])
    if kind.__name__ == "NeuralClassifier":
        names = [name for name in get_loss_names() if not get_loss(name).is_multilabel]
        rows = [*rows, *({"loss": name} for name in names)]
    for settings in rows:

        def use(n_classes, precision, optional, settings=settings):
            known = given(n_classes, precision)
            known = known | {"X": samples(n_classes, precision)[0]}
            model = kind(**arguments(kind, known, **settings))
            model.fit(**arguments(kind.fit, known, [*optional, "y"]))
            found = predictions(model, known["X"])
            if hasattr(model, "adapt"):
                found["adapted"] = predictions(model.adapt(known["X"][:50]), known["X"])
            return found

        for label, call in of_variants(kind.fit, use):
            yield f"{settings} {label}", call
    if hasattr(kind, "partial_fit"):
        model = kind(**arguments(kind, FAST, **rows[0]))
        yield "updates", partial(fit_in_parts, model, samples(4)[0])


def network(kind):
    """Yield the output of a network with random weights."""

    def call():
        sizes = {"n_features": 3, "n_channels": 1, "n_classes": 4}
        shape = (5, 1, 16, 16) if "n_channels" in parameters(kind) else (5, 3)
        return kind(**arguments(kind, sizes)).eval()(torch.rand(shape))

    yield "", call


def display(kind):
    """Yield the numbers of a display for each way to make it."""
    shown = parameters(getattr(kind, "from_predictions", kind.__init__))
    for name in [name for name in dir(kind) if name.startswith("from_")]:

        def use(n_classes, precision, optional, name=name):
            known, make = fitted(n_classes, precision), getattr(kind, name)
            settings = {}
            if "y_pvalue" in shown:
                known = known | {"estimator": known["sets"]}
            elif not hasattr(kind, "from_predictions"):
                known = known | {"estimator": known["net"]}
            elif name == "from_estimator" and "groups" in shown:
                settings = {"groups": known["groups"]}
            return make(**arguments(make, known, optional, **settings))

        for label, call in of_variants(getattr(kind, name), use):
            yield f"{name} {label}", call


def transform(kind):
    """Yield mini-batches that are changed during training."""

    def use(n_classes, precision, optional):
        known = batch(n_classes, precision)
        target = torch.nn.functional.one_hot(known["target"]).to(known["X"])
        images = kind.__name__ == "ImageAugmentation"
        X = known["X"].reshape(-1, 1, n_classes, 4) if images else known["X"]
        known = known | {"X": X, "target": target}
        return kind()(**arguments(kind.__call__, known, optional))

    return of_variants(kind.__call__, use)


def images(function):
    """Yield calls of a function of images."""
    return of_arrays(function, X=np.random.default_rng(0).uniform(size=(4, 1, 8, 8)))


def of_dataset(function):
    """Yield calls of a function of a data set, whose labels are indices."""

    def use(n_classes, precision, optional):
        known = fitted(n_classes, precision)
        known = known | {"y": known["dataset"].y}
        value = function(**arguments(function, known, optional))
        return value if isinstance(value, float) else [*value]

    return of_variants(function, use)


def callback(kind):
    """Yield the history of a network that is trained with a callback."""

    def call():
        made = kind(**arguments(kind, {"file": "checkpoint"}))
        callbacks = {"callbacks": [made]}
        if kind.__name__ == "UpdateLoss":  # which networks with AdaFocal have
            callbacks = {"callbacks__update_loss": made}
        net = NeuralClassifier(
            loss="adafocal", loss__n_bins=2, validation_fraction=0.5, max_epochs=3,
            random_state=0, **callbacks,
        ).fit(*samples(4, "float32"))  # fmt: skip
        rows = [{k: v for k, v in row.items() if k != "dur"} for row in net.history_]
        return rows, net.predict_proba(samples(4, "float32")[0])

    yield "", call


def in_batches(model, known, optional=()):
    """Update a model with four batches, and return it."""
    keywords = arguments(model.update, known, optional)
    for rows in np.array_split(np.arange(len(known["y"])), 4):
        model.update(**{name: array[rows] for name, array in keywords.items()})
    return model


def accumulator(kind):
    """Yield what an accumulator of metrics computes."""

    def use(n_classes, precision, optional):
        known = given(n_classes, precision)
        made = in_batches(kind(labels=known["labels"], n_bins=5), known, optional)
        drawn = {name: FAST[name] for name in ("n_resamples", "random_state")}
        return {
            "compute": made.compute(),
            "scores": made.scores(),
            "interval": made.interval(**drawn),
            "consistency_bound": made.consistency_bound(**drawn),
            "error_bound": made.error_bound(),
            "reliability_curve": made.reliability_curve(),
        }

    return of_variants(kind.update, use)


def monitor(kind):
    """Yield what a monitor says after four batches."""

    def use(n_classes, precision, optional):
        known = given(n_classes, precision)
        made = in_batches(kind(labels=known["labels"]), known, optional)
        return made.e_value_, made.p_value_, made.history(), made.diagnose()

    return of_variants(kind.update, use)


def density_ratio(kind):
    """Yield the weights of the samples of two halves, and of all."""

    def call():
        X, _ = samples(4)
        model = kind().fit(X[:60], X[60:])
        return model.source_weight_, model.target_weight_, model.predict_weight(X)

    yield "", call


def temperature_accumulator(kind):
    """Yield the predictions of the calibrator of an accumulator."""

    def use(n_classes, precision, optional):
        known = given(n_classes, precision)
        known = known | {"X": samples(n_classes, precision)[0]}
        made = kind(labels=known["labels"], from_logits=True)
        in_batches(made, known, optional)
        return predictions(made.calibrator(), known["X"])

    return of_variants(kind.update, use)


def registered(get):
    """Yield the class of each registered name."""
    module = sys.modules[get.__module__]
    for name in getattr(module, f"{get.__name__}_names")():
        yield name, lambda name=name: get(name).__name__


def scorer(get):
    """Yield the score of a classifier for each registered name."""
    for name in get_scorer_names():

        def call(name=name):
            known, score = fitted(4, "float64"), get(name)
            groups = {"groups": known["groups"]} if score.needs_groups else {}
            with config_context(enable_metadata_routing=True):
                return score(known["sets"], known["X"], known["y"], **groups)

        yield name, call


def choice(function):
    """Yield the setting that a rule chooses in the results of a search."""

    def call():
        known = fitted(4, "float64")
        search = GridSearchCV(
            known["estimator"], {"C": np.logspace(-4, 1, 6)}, cv=3, refit=False,
            scoring=["neg_ece", "neg_log_loss"],
        )  # fmt: skip
        results = search.fit(known["X"], known["y"]).cv_results_
        return function("neg_ece", guard="neg_log_loss")(results)

    yield "", call


def saved(function):
    """Yield the predictions of models that were saved and loaded."""

    def call(name, X):
        model = fitted(4, "float32")[name]
        path = "model.safetensors" if name == "net" else "model.json"
        if "dict" in function.__name__:
            return persistence.from_dict(persistence.to_dict(model)).predict_proba(X)
        persistence.save(model, path)
        return persistence.load(path).predict_proba(X)

    return of_models(call)


def of_models(call):
    """Yield calls with the name of a fitted model and its data."""
    known = fitted(4, "float32")
    yield "calibrator", partial(call, "calibrator", known["y_proba"])
    yield "net", partial(call, "net", known["X"])


def exported(to_onnx):
    """Yield the predictions of exported models."""

    def call(name, X):
        import onnxruntime

        model = to_onnx(fitted(4, "float32")[name], X)
        session = onnxruntime.InferenceSession(model.SerializeToString())
        return session.run(None, {session.get_inputs()[0].name: X})

    return of_models(call)


OWN = {
    "calibrators.BoostingCalibrator": boosting_calibrator,
    "calibrators.PerLabelCalibrator": per_label_calibrator,
    "calibrators.TemperatureAccumulator": temperature_accumulator,
    "calibrators.get_calibrator": registered,
    "datasets.corrupt_images": images,
    "deployment.CalibrationMonitor": monitor,
    "deployment.DensityRatioEstimator": density_ratio,
    "deployment.PriorShiftClassifier": estimator,
    "estimators.ConvNet": network,
    "estimators.MLP": network,
    "estimators.iterate_batches": of_dataset,
    "losses.confidence_regions": partial(of_arrays, gamma=2.0),
    "losses.get_loss": registered,
    "losses.get_loss_names": of_arrays,
    "losses.per_label_loss": partial(loss_function, multilabel=True),
    "metrics.CalibrationAccumulator": accumulator,
    "metrics.get_scorer": scorer,
    "metrics.lowest_error_within_one_se": choice,
    "metrics.per_label": per_label,
}
# The calls of classes and of functions of each topic.
OF_TOPIC = {
    "callbacks": (callback, of_dataset),
    "calibrators": (calibrator, of_arrays),
    "datasets": (transform, of_fitted),
    "deployment": (None, of_arrays),
    "displays": (display, None),
    "estimators": (estimator, of_fitted),
    "evaluation": (None, of_fitted),
    "losses": (loss_class, loss_function),
    "metrics": (None, metric),
    "onnx": (None, exported),
    "persistence": (None, saved),
}


# Records -----------------------------------------------------------------------------


def members(prefixes):
    """Yield the names of all members, and their calls with labels."""
    topics = {name: getattr(sklearn_calib, name) for name in sklearn_calib.__all__}
    for topic, module in topics.items():
        for name in module.__all__ if inspect.ismodule(module) else []:
            member, thing = f"{topic}.{name}", getattr(module, name)
            if member.startswith(tuple(prefixes)) and member not in ABSTRACT:
                usual = OF_TOPIC[topic][not inspect.isclass(thing)]
                yield member, OWN.get(member, usual)(thing)


def arrays_of(value, path=""):
    """Yield the numbers and strings in a value as arrays, with the path to each."""
    if isinstance(value, torch.Tensor):
        value = value.detach().numpy()
    elif isinstance(value, pd.DataFrame):
        columns = {name: value[name].to_numpy() for name in value}
        value = {"index": [*map(str, value.index)], **columns}
    elif type(value).__module__.startswith("sklearn_calib.displays"):
        # Without what was drawn.
        value = {k: v for k, v in vars(value).items() if not k.endswith("_")}
    if isinstance(value, dict):
        for key, part in value.items():
            yield from arrays_of(part, f"{path}.{key}")
    elif isinstance(value, list | tuple):
        for index, part in enumerate(value):
            yield from arrays_of(part, f"{path}[{index}]")
    elif isinstance(value, str | int | float | np.generic | np.ndarray | None):
        array = np.asarray(value)
        yield path, array.astype(str) if array.dtype == object else array
    else:
        raise TypeError(f"Values must be arrays, numbers or strings, got {value!r}.")


def record(tree, file, prefixes):
    """Write the values of all members, and the errors of calls, into a file."""
    if not Path(sklearn_calib.__file__).is_relative_to(tree):
        raise RuntimeError(f"{sklearn_calib.__file__} is not in {tree}.")
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    values, errors = {}, []
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        for member, calls in members(prefixes):
            values[member], label = {}, ""
            try:
                for label, call in calls:
                    np.random.seed(0)  # noqa: NPY002 - scikit-learn draws from it
                    torch.manual_seed(0)
                    for path, array in arrays_of(call()):
                        values[member][label + path] = array
            except Exception as error:
                errors.append(f"{member} {label}: {type(error).__name__}: {error}")
            plt.close("all")
    Path(file).write_bytes(pickle.dumps((values, errors)))


def difference(base, new):
    """Return the largest difference, relative to values above one.

    It is positive if any bit differs, and infinite if types, shapes or strings do.
    """
    if base.dtype != new.dtype or base.shape != new.shape:
        return np.inf
    if base.tobytes() == new.tobytes():
        return 0.0
    if base.dtype.kind not in "iuf" or (np.isnan(base) != np.isnan(new)).any():
        return np.inf
    base, new = (array[~np.isnan(array)].astype(float) for array in (base, new))
    base, new = base[base != new], new[base != new]
    if np.isinf([base, new]).any():
        return np.inf
    relative = np.abs(new - base) / np.maximum(1, np.abs(base))
    return max(np.max(relative, initial=0), np.finfo(float).smallest_subnormal)


def compare(base, new, tolerance):
    """Print a row for each member, and return the members above the tolerance."""
    changed = []
    print(f"{'member':<45}{'arrays':>8}{'difference':>12}")
    for member in sorted({*base, *new}):
        old, now = base.get(member, {}), new.get(member, {})
        found = {
            path: difference(old[path], now[path])
            if path in old and path in now
            else np.inf
            for path in {**old, **now}
        }
        worst = max(found, key=found.get, default="no values")
        is_changed = not found or found[worst] > tolerance
        changed += [member] if is_changed else []
        row = f"{member:<45}{len(found):>8}{found.get(worst, np.inf):>12.2g}"
        print(row, worst if is_changed else "")
    return changed


def main():
    """Parse the command line, record both commits and compare."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--base", default="main", help="commit to compare with")
    parser.add_argument("--new", help="commit; by default the working tree")
    parser.add_argument("--tolerance", type=float, default=0)
    parser.add_argument("--names", nargs="+", default=[""], help="starts of names")
    parser.add_argument("--record", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.record:
        record(*args.record, args.names)
        return
    script = runpy.run_path(str(ROOT / "benchmarks/speed/compare_with_main.py"))
    one_thread = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS")}
    found, errors = [], []
    with tempfile.TemporaryDirectory() as folder:
        for ref in (args.base, args.new):
            with script["worktree"](ref) as tree:
                file = Path(folder) / "values"
                command = [sys.executable, __file__, "--record", str(tree), str(file)]
                fixed = {**one_thread, "PYTHONPATH": str(tree), "PYTHONHASHSEED": "0"}
                subprocess.run(
                    [*command, "--names", *args.names],
                    env={**os.environ, **fixed}, check=True,
                )  # fmt: skip
                values, failed = pickle.loads(file.read_bytes())
                found.append(values)
                errors += [f"{ref or 'working tree'}: {error}" for error in failed]
    changed = compare(*found, args.tolerance)
    if errors or changed:
        sys.exit("\n".join([*errors, f"Changed: {', '.join(changed) or 'nothing'}"]))


if __name__ == "__main__":
    main()
