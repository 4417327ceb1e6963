"""Uses of objects beyond one call: accumulators, deployment, groups, streams and files.

`methods` lists methods that are tried like public names, with tables for the arguments
that other names do not have.
"""

import copy
import json
import warnings
from contextlib import chdir
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression

from hostile import arguments
from hostile.values import table
from sklearn_calib import NeuralClassifier, TemperatureScaling
from sklearn_calib.calibrators import (
    MulticalibrationBoosting,
    PerGroupCalibrator,
    PlattScaling,
    TemperatureAccumulator,
)
from sklearn_calib.deployment import CalibrationMonitor, PriorShiftClassifier
from sklearn_calib.displays import ReliabilityDisplay
from sklearn_calib.metrics import CalibrationAccumulator
from sklearn_calib.persistence import from_dict, load, save, to_dict

# Accumulators -----------------------------------------------------------------------

MODES = ["top_label", "positive"]


@cache
def accumulated():
    """Return an accumulator of two modes with weights, which calls only read."""
    chunk = arguments.valid("two")
    return CalibrationAccumulator(labels=[0, 1], mode=MODES, n_bins=4).update(
        chunk["y_true"], chunk["y_proba"], chunk["sample_weight"]
    )


def of_accumulator(name):
    """Return a function that calls a method of an accumulator with several modes."""

    def call(**options):
        return getattr(accumulated(), name)(**options)

    return call


def from_batches(batches):
    total = CalibrationAccumulator.from_batches(batches, labels=[0, 1, 2])
    return total.compute() if total._has_seen() else None


def draw_accumulator(**options):
    try:
        return ReliabilityDisplay.from_accumulator(accumulated(), **options).ece
    finally:
        plt.close("all")


def temperature_of_chunk(X, y, labels, sample_weight=None):
    """Return the probabilities of a calibrator that was fitted to one chunk."""
    one = TemperatureAccumulator(labels=labels).update(X, y, sample_weight)
    return one.calibrator().predict_proba(arguments.valid("three")["X"])


# Deployment -------------------------------------------------------------------------


def monitored(y_true, y_proba, labels, sample_weight=None, **options):
    """Return what a monitor tells after two equal batches."""
    monitor = CalibrationMonitor(labels=labels, **options)
    for _ in range(2):
        monitor.update(y_true, y_proba, sample_weight)
    told = monitor.diagnose() if monitor.n_samples_ else None
    return monitor.e_value_, monitor.p_value_, told


@cache
def shifted():
    given = arguments.valid("around")
    model = PriorShiftClassifier(LogisticRegression(), n_resamples=10, random_state=0)
    return model.fit(given["X"], given["y"])


def adapt(X, sample_weight=None):
    model = copy.deepcopy(shifted()).adapt(X, sample_weight)
    return model.priors_, model.predict_proba(arguments.valid("around")["X"])


# Groups -----------------------------------------------------------------------------


def predict_groups(kind):
    """Return a function that predicts with groups, after a fit with valid ones."""

    @cache
    def model():
        given = arguments.valid("three")
        return kind(TemperatureScaling()).fit(
            given["X"], given["y"], groups=given["groups"]
        )

    def call(X_new, groups):
        return model().predict_proba(X_new, groups=groups)

    return call


# Streams ----------------------------------------------------------------------------


def chunks_of():
    """Return two chunks of samples with weights."""
    given = arguments.valid("three")
    parts = [given[name] for name in ("X", "y", "sample_weight")]
    return [tuple(each[rows] for each in parts) for rows in (slice(20), slice(20, 48))]


def stream(kind):
    """Return a function that fits an instance to chunks, and predicts valid data."""

    def call(batches, labels, **options):
        model = kind(**options).fit(batches=batches, labels=labels)
        return model.predict_proba(arguments.valid("three")["X"])

    return call


def online(kind):
    """Return a function that updates an instance with two equal chunks."""

    def call(X, y, X_new, classes, sample_weight=None, half_life=None):
        model = kind()
        for _ in range(2):
            model.partial_fit(X, y, sample_weight, classes=classes, half_life=half_life)
        return model.predict_proba(X_new)

    return call


def train_in_parts(X, y, classes, sample_weight=None):
    net = NeuralClassifier(max_epochs=1, random_state=0)
    for _ in range(2):
        net.partial_fit(X, y, classes=classes, sample_weight=sample_weight)
    return net.predict_proba(arguments.valid("fit")["X"])


def changed_chunk(change):
    """Return a function that makes a stream whose second chunk is another one."""

    def make(read):
        first, second = read()
        return lambda: [first, change(*second)]

    return make


def raising(read):
    """Return a stream that fails after its first chunk."""

    def batches():
        yield read()[0]
        raise ValueError("batches must not fail, got a broken disk.")

    return batches


def once(read):
    """Return a stream that can be read once."""
    chunks = iter(read())
    return lambda: chunks


BATCHES = table(
    same={
        "generator": lambda read: lambda: (chunk for chunk in read()),
        "lists": lambda read: lambda: [[*chunk] for chunk in read()],
        "rows": lambda read: (
            lambda: [
                tuple(each[row : row + 1] for each in chunk)
                for chunk in read()
                for row in range(len(chunk[0]))
            ]
        ),
        "one chunk": lambda read: (
            lambda: [tuple(np.concatenate(each) for each in zip(*read(), strict=True))]
        ),
        "empty chunk": lambda read: (
            lambda: [
                tuple(each[:0] for each in read()[0]),
                *read(),
            ]
        ),
        "a chunk of weight zero": lambda read: (
            lambda: [
                *read(),
                (*read()[0][:2], np.zeros(len(read()[0][0]))),
            ]
        ),
        "lists of numbers": changed_chunk(lambda *c: tuple(e.tolist() for e in c)),
    },
    valid={
        "without weights": lambda read: lambda: [chunk[:2] for chunk in read()],
        "weights in one": changed_chunk(lambda X, y, _: (X, y)),
        "float32": changed_chunk(lambda X, y, w: (X.astype(np.float32), y, w)),
    },
    invalid={
        "nothing": lambda _: None,
        "word": lambda _: "hostile",
        "number": lambda _: 3,
        "list": lambda read: read(),
        "called generator": lambda read: iter(read()),
        "returns nothing": lambda _: lambda: None,
        "returns a number": lambda _: lambda: 3,
        "no chunks": lambda _: list,
        "needs an argument": lambda _: lambda size: [size],
        "raising": raising,
        "X alone": changed_chunk(lambda X, *_: X),
        "one item": changed_chunk(lambda X, *_: (X,)),
        "four items": changed_chunk(lambda X, y, w: (X, y, w, w)),
        "a number": changed_chunk(lambda *_: 3),
        "no chunk": changed_chunk(lambda *_: None),
        "a dict": changed_chunk(lambda X, y, _: {"X": X, "y": y}),
        "short": changed_chunk(lambda X, y, w: (X, y[:-1], w)),
        "short weights": changed_chunk(lambda X, y, w: (X, y, w[:-1])),
        "column more": changed_chunk(lambda X, y, w: (np.hstack([X, 0 * X]), y, w)),
        "one column": changed_chunk(lambda X, y, w: (X[:, :1], y, w)),
        "NaN": changed_chunk(lambda X, y, w: (X + np.nan, y, w)),
        "words": changed_chunk(lambda X, y, w: (X.astype(str), y, w)),
        "negative weights": changed_chunk(lambda X, y, w: (X, y, -w)),
        "NaN weights": changed_chunk(lambda X, y, w: (X, y, w + np.nan)),
        "other labels": changed_chunk(lambda X, y, w: (X, y + 7, w)),
        "labels of strings": changed_chunk(lambda X, y, w: (X, y.astype(str), w)),
    },
    open={"once": once, "tuple": lambda read: tuple(read())},
)
LISTED = table(
    same={
        "generator": lambda chunks: (chunk for chunk in chunks),
        "lists": lambda chunks: [[*chunk] for chunk in chunks],
        "empty chunk": lambda chunks: [*chunks, tuple(e[:0] for e in chunks[0])],
    },
    invalid={
        "nothing": lambda _: None,
        "number": lambda _: 3,
        "word": lambda _: "hostile",
        "function": lambda chunks: lambda: chunks,
        "chunk": lambda chunks: chunks[0],
        "one item": lambda chunks: [*chunks, chunks[0][:1]],
        "four items": lambda chunks: [*chunks, (*chunks[0], 1)],
        "dict": lambda chunks: [{"y_true": chunks[0][0], "y_proba": chunks[0][1]}],
        "short": lambda chunks: [*chunks, (chunks[0][0][1:], *chunks[0][1:])],
    },
    valid={"no chunks": lambda _: []},
)


# Files ------------------------------------------------------------------------------


@cache
def saved_model():
    given = arguments.valid("three")
    with warnings.catch_warnings(action="ignore"):  # of few samples
        return PlattScaling().fit(given["X"], given["y"])


def in_a_folder(function):
    """Return a function that is called in an empty folder."""

    def call(**options):
        with TemporaryDirectory() as folder, chdir(folder):
            return function(**options)

    return call


def save_and_load(model, path):
    save(model, path)
    return load(path).predict_proba(arguments.valid("three")["X"])


def load_content(content):
    Path("model.json").write_bytes(content)
    return load("model.json").predict_proba(arguments.valid("three")["X"])


def load_path(path):
    save(saved_model(), "model.json")
    return load(path).predict_proba(arguments.valid("three")["X"])


def through_a_dict(model):
    return from_dict(to_dict(model)).predict_proba(arguments.valid("three")["X"])


def read_document(document):
    return from_dict(document).predict_proba(arguments.valid("three")["X"])


def valid(setting):
    """Return the valid arguments of streams and files."""
    if setting == "stream":
        return {"batches": chunks_of}
    if setting == "listed":
        return {"batches": [(y, X, weight) for X, y, weight in chunks_of()]}
    document = to_dict(saved_model())
    return {
        "model": saved_model(),
        "path": "model.json",
        "document": document,
        "content": json.dumps(document).encode(),
    }


def leaf(*path):
    """Return a function of a value that returns a function that replaces a leaf."""

    def replace(value):
        def change(document):
            document = copy.deepcopy(document)
            inner = document
            for key in path[:-1]:
                inner = inner[key]
            inner[path[-1]] = value
            return document

        return change

    return replace


NO_PATHS = {
    "nothing": lambda _: None,
    "number": lambda _: 3,
    "list": lambda path: [path],
    "bytes": str.encode,
    "function": lambda _: len,
    "empty word": lambda _: "",
    "null byte": lambda _: "a\0b",
    "too long": lambda _: 1000 * "a",
    "folder": lambda _: ".",
    "missing folder": lambda _: "missing/model.json",
}
PATHS = table(
    same={
        "plain": lambda path: path,
        "no ending": lambda _: "model",
        "spaces": lambda _: "a model .json",
        "accents": lambda _: "modèle.json",
        "hidden": lambda _: ".json",
    },
    invalid=NO_PATHS,
)
PATHS_TO_LOAD = table(invalid={**NO_PATHS, "missing": lambda _: "other.json"})
MODELS = table(
    invalid={
        "nothing": lambda _: None,
        "word": lambda _: "hostile",
        "class": type,
        "not fitted": lambda model: type(model)(),
        "of scikit-learn": lambda _: LogisticRegression(),
        "list": lambda model: [model],
        "function": lambda _: len,
        "NaN inside": lambda model: with_attribute(model, "maps_", np.nan),
        "nothing inside": lambda model: with_attribute(model, "maps_", None),
        "object inside": lambda model: with_attribute(model, "classes_", [object()]),
    }
)
DOCUMENTS = table(
    same={
        "plain": lambda document: document,
        "through JSON": lambda document: json.loads(json.dumps(document)),
    },
    invalid={
        "nothing": lambda _: None,
        "word": lambda _: "hostile",
        "list": lambda document: [document],
        "empty": lambda _: {},
        "keys alone": lambda document: dict.fromkeys(document),
        "another key": lambda document: {**document, "hostile": 1},
        **{
            f"without {key}": lambda document, key=key: {
                name: value for name, value in document.items() if name != key
            }
            for key in ("version", "format", "object")
        },
        **{
            f"version {value!r}": leaf("version")(value)
            for value in (None, -1, 0, 10**30, "1", [1], float("nan"))
        },
        **{
            f"class {value!r}": leaf("object", "class")(value)
            for value in (None, 1, "", "Hostile", "os.system", "LogisticRegression")
        },
        **{
            f"{part} {value!r}": leaf("object", part)(value)
            for part in ("params", "state")
            for value in (1, "hostile", [], [1], {"hostile": 1})
        },
        **{
            f"from_logits {value!r}": leaf("object", "params", "from_logits")(value)
            for value in (None, 2, "hostile", [], {})
        },
    },
)
CONTENTS = table(
    same={
        "plain": lambda content: content,
        "indented": lambda content: json.dumps(json.loads(content), indent=4).encode(),
        "spaces around": lambda content: b"\n " + content + b"\n",
    },
    invalid={
        "empty": lambda _: b"",
        "null": lambda _: b"null",
        "a number": lambda _: b"1",
        "a word": lambda _: b'"hostile"',
        "a list": lambda content: b"[" + content + b"]",
        "cut off": lambda content: content[:-10],
        "twice": lambda content: 2 * content,
        "zeros": lambda _: bytes(100),
        "random": lambda _: np.random.default_rng(0).bytes(1000),
        "latin": lambda content: content + "é".encode("latin-1"),
        "utf-16": lambda content: content.decode().encode("utf-16"),
        "deep": lambda _: 10**5 * b"[",
        "huge number": lambda _: b'{"version": ' + 10**4 * b"9" + b"}",
        "NaN": lambda content: content.replace(b": 1", b": NaN", 1),
        "repeated key": lambda content: content.replace(b"{", b'{"version": 1, ', 1),
        "header alone": lambda _: (100).to_bytes(8, "little"),
        "long header": lambda _: (2**62).to_bytes(8, "little") + b"{}",
        "pickle": lambda _: b"\x80\x04K\x01.",
    },
    open={"byte order mark": lambda content: b"\xef\xbb\xbf" + content},
)


def with_attribute(model, name, value):
    """Return a copy with another fitted attribute."""
    model = copy.deepcopy(model)
    setattr(model, name, value)
    return model


PRIORS = table(
    same={
        "list": lambda a: a.tolist(),
        "tuple": lambda a: tuple(a.tolist()),
        "read-only": arguments.SAME_NUMBERS["read-only"],
        "series": arguments.SAME_NUMBERS["frame"],
    },
    invalid={
        **{name: arguments.NO_ARRAYS[name] for name in ("word", "number", "function")},
        **{name: arguments.NO_ARRAYS[name] for name in ("empty", "short", "ragged")},
        **{name: arguments.NO_ARRAYS[name] for name in ("complex", "masked")},
        **{name: arguments.NO_NUMBERS[name] for name in ("NaN", "infinity", "times")},
        "counts": lambda a: 10 * a,
        "negative": lambda a: np.r_[-0.5, 1.5, 0 * a][: len(a)],
        "longer": lambda a: np.r_[a, 0],
        "matrix": lambda a: np.eye(len(a)),
        "words": lambda a: a.astype(str),
        "dict": lambda a: {"hostile": 1.0, **dict.fromkeys(range(len(a) - 1), 0.0)},
    },
    open={
        "nothing": lambda _: None,
        "set": lambda a: set(a.tolist()),
        "certain": lambda a: np.eye(len(a))[0],
        "float32": lambda a: a.astype(np.float32),
        "tiny": lambda a: np.where(np.arange(len(a)) > 0, 5e-324, 1.0),
        "rounded": lambda a: np.round(a, 2),
    },
)


def methods(parameters, needed):
    """Return the setting, the call and the parameters of methods, by name.

    `parameters` and `needed` return the parameters of functions and of names.
    """
    accumulator = {
        name: parameters(getattr(CalibrationAccumulator, name))
        for name in (
            *("compute", "error_bound", "interval", "consistency_bound"),
            "reliability_curve",
        )
    }
    drawn = parameters(ReliabilityDisplay.from_accumulator)
    del drawn["accumulator"]  # made of valid chunks
    groups = needed("X_new", "groups")
    return {
        **{
            f"metrics.CalibrationAccumulator.{name}": (
                "accumulated",
                of_accumulator(name),
                {**options, **needed("mode")},
            )
            for name, options in accumulator.items()
        },
        "metrics.CalibrationAccumulator.from_batches": (
            "listed",
            from_batches,
            needed("batches"),
        ),
        "displays.ReliabilityDisplay.from_accumulator": (
            "accumulated",
            draw_accumulator,
            {**drawn, **needed("mode")},
        ),
        "deployment.PriorShiftClassifier.adapt": (
            "around",
            adapt,
            {**needed("X"), **parameters(adapt)},
        ),
        **{
            f"calibrators.{kind.__name__}.predict_proba": (
                "three",
                predict_groups(kind),
                groups,
            )
            for kind in (MulticalibrationBoosting, PerGroupCalibrator)
        },
        "estimators.NeuralClassifier.partial_fit": (
            "online data",
            train_in_parts,
            parameters(train_in_parts),
        ),
        "persistence.load.content": (
            "content",
            in_a_folder(load_content),
            needed("content"),
        ),
    }
