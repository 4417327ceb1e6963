"""Calls of the public names: construction of objects, and use of the objects."""

import inspect
from contextlib import chdir
from functools import cache
from tempfile import TemporaryDirectory

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.base import BaseEstimator
from skorch.callbacks import Callback
from torch import nn

from hostile import arguments, uses
from sklearn_calib import NeuralClassifier, deployment
from sklearn_calib.calibrators import Calibrator, GroupCalibrator
from sklearn_calib.callbacks import UpdateLoss
from sklearn_calib.losses._base.loss import ReducedLoss

CATCH_ALLS = inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL


def parameters(*functions):
    """Return the parameters of functions by name, without self, *args and **kwargs."""
    found = {}
    for function in functions:
        for name, parameter in inspect.signature(function).parameters.items():
            if name != "self" and parameter.kind not in CATCH_ALLS:
                found.setdefault(name, parameter)
    return found


def needed(*names):
    """Return parameters without a default."""
    kind = inspect.Parameter.KEYWORD_ONLY
    return {name: inspect.Parameter(name, kind) for name in names}


def required(parameters):
    """Return the parameters that have no default."""
    return {k: v for k, v in parameters.items() if v.default is v.empty}


def weighted(sample_weight=None):
    """Signature of methods `fit` that take weights as a keyword argument."""


@cache
def methods():
    """Return the setting, the call and the parameters of methods by name."""
    return uses.methods(parameters, needed)


def recipes(name, thing):
    """Yield (setting, call, parameters by name) of each way to use a public name."""
    topic = name.partition(".")[0]
    if name in methods():
        yield methods()[name]
        return
    kind = kind_of(topic, thing)
    if name in OWN:
        yield from OWN[name](thing)
    elif kind is not None:
        yield from kind(thing)
    else:
        yield "plain", thing, parameters(thing)


def kind_of(topic, thing):
    """Return the function that makes the recipes of a kind of object."""
    if not inspect.isclass(thing):
        has_targets = {"y_true", "y_proba"} <= parameters(thing).keys()
        has_batch = topic == "losses" and "target" in parameters(thing)
        return loss_function if has_batch else predictions if has_targets else None
    for base, kind in [
        (ReducedLoss, loss_class),
        (Calibrator, calibrator),
        (GroupCalibrator, group_calibrator),
        (nn.Module, module),
        (Callback, callback),
        (BaseEstimator, estimator),
    ]:
        if issubclass(thing, base):
            return kind
    if hasattr(thing, "from_predictions"):
        return display
    return history_display if hasattr(thing, "from_history") else None


def predictions(function):
    for setting in ("three", "two"):
        yield setting, function, parameters(function)


def value_and_gradient(function, batch, target, **options):
    """Return a loss and the gradient of its sum."""
    if isinstance(batch, torch.Tensor) and batch.is_floating_point():
        batch = batch.detach().requires_grad_()
    value = function(batch, target, **options)
    if isinstance(batch, torch.Tensor) and value.requires_grad:
        value.sum().backward()
        return {"value": value, "gradient": batch.grad}
    return {"value": value}


def loss_function(function):
    first = next(iter(inspect.signature(function).parameters))

    def call(target, **options):
        return value_and_gradient(function, options.pop(first), target, **options)

    setting = "embeddings" if first == "embeddings" else "tensors"
    yield setting, call, parameters(function)


def loss_class(kind):
    own = parameters(kind)
    forward = parameters(kind.forward)

    def call(**arguments):
        loss = kind(**{k: v for k, v in arguments.items() if k in own}).eval()
        rest = {k: v for k, v in arguments.items() if k not in own}
        first = next(iter(forward))
        return value_and_gradient(loss, rest.pop(first), rest.pop("target"), **rest)

    several = getattr(kind, "is_multilabel", False)
    setting = "embeddings" if "embeddings" in forward else "tensors"
    yield "label tensors" if several else setting, call, {**own, **forward}


def check_probabilities(proba):
    """Return probabilities, or NaN if they are invalid."""
    proba = np.asarray(proba)
    sums = proba.sum(axis=1, dtype=float)
    fine = (proba >= 0).all() and (proba <= 1).all() and np.abs(sums - 1).max() < 1e-5
    return proba if fine else np.full(proba.shape, np.nan)


def fit_and_predict(kind, own):
    """Return a function that fits an instance and predicts its argument."""

    def call(X, y, X_new, **arguments):
        given = {k: v for k, v in arguments.items() if k in own or is_nested(k)}
        model = kind(**given)
        model.fit(X, y, **{k: v for k, v in arguments.items() if k not in given})
        return check_probabilities(model.predict_proba(X_new))

    return call


def is_nested(name):
    """Return whether a parameter is one of a part, which signatures do not show."""
    return "__" in name


def calibrator(kind):
    own = parameters(kind)
    wanted = {**own, **parameters(kind.fit), **needed("X", "y", "X_new")}
    del wanted["batches"]  # instead of X and y
    call = fit_and_predict(kind, own)
    yield "three", call, wanted
    yield "two", call, wanted
    yield "logits", call, {**wanted, **needed("from_logits")}
    yield "stream", uses.stream(kind), {**required(own), **needed("batches", "labels")}
    if hasattr(kind, "partial_fit"):
        options = parameters(kind.partial_fit)
        online = {**options, **needed("classes", "X_new")}
        yield "online", uses.online(kind), online


def group_calibrator(kind):
    """Fit with groups, and predict with groups that are valid."""
    own = parameters(kind)

    def call(X, y, X_new, **arguments):
        model = kind(**{k: v for k, v in arguments.items() if k in own})
        model.fit(X, y, **{k: v for k, v in arguments.items() if k not in own})
        is_list = isinstance(X_new, list | tuple)
        shape = (len(X_new),) if is_list else getattr(X_new, "shape", ())
        groups = np.array(["one", "other"])[np.arange(*shape[:1] or [0]) % 2]
        return check_probabilities(model.predict_proba(X_new, groups=groups))

    wanted = {**own, **parameters(kind.fit), **needed("X_new")}
    yield "three", call, wanted
    yield "two", call, wanted
    yield "logits", call, {**wanted, **needed("from_logits")}


def estimator(kind):
    own = parameters(kind)
    wanted = {**own, **parameters(kind.fit, weighted), **needed("X_new")}
    # A classifier that wraps another one passes the data on.
    setting = "around" if {"estimator"} & own.keys() else "fit"
    yield setting, fit_and_predict(kind, own), wanted


def display(kind):
    def call(**arguments):
        try:
            shown = kind.from_predictions(**arguments)
            return {
                name: value
                for name, value in vars(shown).items()
                if isinstance(value, float)
            }
        finally:
            plt.close("all")

    def call_from_estimator(**arguments):
        try:
            kind.from_estimator(**arguments)
        finally:
            plt.close("all")

    for setting in ("three", "two"):
        yield setting, call, parameters(kind.from_predictions)
    if kind._response != "predict_proba":  # the fitted model is a plain classifier
        return
    required = {
        key: parameter
        for key, parameter in parameters(kind.from_predictions).items()
        if parameter.default is parameter.empty and key not in ("y_true", "y_proba")
    }
    given = {**parameters(kind.from_estimator), **required}
    yield "fitted", call_from_estimator, given


def history_display(kind):
    def call(function):
        def closing(**arguments):
            try:
                function(**arguments)
            finally:
                plt.close("all")

        return closing

    yield "history", call(kind.from_history), parameters(kind.from_history)


def module(kind):
    yield "plain", kind, parameters(kind)


def callback(kind):
    """Use a callback in a network trained with AdaFocal."""
    X, y = arguments.problem()

    def call(**options):
        made = kind(**options)
        own = {"callbacks__update_loss": made} if kind is UpdateLoss else {}
        net = NeuralClassifier(
            loss="adafocal", loss__n_bins=2, validation_fraction=0.5, max_epochs=1,
            random_state=0, **(own or {"callbacks": [made]}),
        )  # fmt: skip
        # The files that it writes are deleted before the next try.
        with TemporaryDirectory() as folder, chdir(folder):
            return net.fit(X, y).predict_proba(X)

    yield "plain", call, parameters(kind)


def accumulator(kind):
    own = parameters(kind)

    def call(y_true, y_proba, sample_weight=None, groups=None, **options):
        chunk = {"sample_weight": sample_weight, "groups": groups}
        model = kind(**options).update(y_true, y_proba, **chunk)
        return (model.compute(), model.scores()) if model._has_seen() else None

    yield "chunks", call, {**own, **parameters(kind.update)}


def monitor(kind):
    own = parameters(kind)
    yield "chunks", uses.monitored, {**own, **parameters(kind.update)}


def temperature_accumulator(_):
    yield "narrow", uses.temperature_of_chunk, parameters(uses.temperature_of_chunk)


def of_priors(function):
    for setting in ("three", "two"):
        yield setting, function, parameters(function)


def marked(function):
    yield "marked", function, parameters(function)


def file(setting, call, *names):
    """Return a recipe of a function of files."""

    def recipe(_):
        yield setting, uses.in_a_folder(call), needed(*names)

    return recipe


def monitor_display(kind):
    def call(y_true, y_proba, labels, **options):
        model = deployment.CalibrationMonitor(labels=labels).update(y_true, y_proba)
        try:
            kind.from_monitor(model, **options)
        finally:
            plt.close("all")

    options = parameters(kind.from_monitor)
    del options["monitor"]  # made of the chunk
    yield "chunks", call, {**parameters(call), **options}


def class_report(function):
    """Leave out the weighted average, which has no interval."""

    def call(**options):
        report = function(**options)
        return report[~report.index.isin(["weighted avg"], level=-1)]

    for setting in ("three", "two"):
        yield setting, call, parameters(function)


def per_label(function):
    yield "several labels", function, parameters(function)


def per_label_loss(function):
    (recipe,) = loss_function(function)
    yield "label tensors", *recipe[1:]


def per_label_calibrator(kind):
    own = parameters(kind)

    def call(X, y, X_new, **options):
        fit = {k: options.pop(k) for k in {*options} - {*own}}
        return kind(**options).fit(X, y, **fit).predict_proba(X_new)

    wanted = {**own, **parameters(kind.fit), **needed("X_new")}
    yield "several labels", call, wanted


def with_images(function):
    yield "images", function, parameters(function)


def transform(kind):
    """Use a transformation of mini-batches during training."""
    is_table = "corruption_rate" in parameters(kind)
    own, called = parameters(kind), parameters(kind.__call__)

    def call(**options):
        made = kind(**{k: v for k, v in options.items() if k in own})
        rest = {k: v for k, v in options.items() if k not in own}
        return made(**rest)

    yield "table" if is_table else "views", call, {**own, **called}


def on_data(function):
    yield "data", function, parameters(function)


def on_fitted(function):
    yield "fitted", function, parameters(function)


def on_validation(function):
    yield "validation", function, parameters(function)


def batches(function):
    def call(**options):
        return [tuple(batch) for batch in function(**options)]

    yield "validation", call, parameters(function)


def ranks(function):
    yield "tensors", function, parameters(function)


OWN = {
    "calibrators.TemperatureAccumulator": temperature_accumulator,
    "calibrators.PerLabelCalibrator": per_label_calibrator,
    "callbacks.valid_ece": on_validation,
    "callbacks.valid_log_loss": on_validation,
    "callbacks.valid_refinement": on_validation,
    "datasets.FeatureCorruption": transform,
    "datasets.ImageAugmentation": transform,
    "datasets.Mixup": transform,
    "datasets.corrupt_images": with_images,
    "datasets.group_classes": on_data,
    "datasets.make_long_tailed": on_data,
    "estimators.choose_threshold": marked,
    "estimators.iterate_batches": batches,
    "evaluation.calibration_report": class_report,
    "deployment.CalibrationMonitor": monitor,
    "deployment.adjust_priors": of_priors,
    "deployment.estimate_performance": of_priors,
    "deployment.estimate_priors": of_priors,
    "displays.MonitorDisplay": monitor_display,
    "evaluation.compare": on_fitted,
    "evaluation.evaluate_ood": on_fitted,
    "losses.per_label_loss": per_label_loss,
    "losses.soft_rank": ranks,
    "metrics.CalibrationAccumulator": accumulator,
    "metrics.per_label": per_label,
    "persistence.from_dict": file("files", uses.read_document, "document"),
    "persistence.load": file("paths", uses.load_path, "path"),
    "persistence.save": file("files", uses.save_and_load, "model", "path"),
    "persistence.to_dict": file("files", uses.through_a_dict, "model"),
}
