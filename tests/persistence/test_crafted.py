"""Crafted files raise an error, or give models whose probabilities are valid.

A mutated file must raise ValueError in `load`, or in `predict_proba`, or return
probabilities. No other error may occur, and no large array may be allocated.
"""

import copy
import json
import pickle
import warnings

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from sklearn.frozen import FrozenEstimator

from sklearn_calib import CalibratedClassifier, TemperatureScaling
from sklearn_calib.calibrators import (
    JointIsotonicCalibration,
    LogOddsSplineCalibration,
    MatrixScaling,
    PlattScaling,
    SplineCalibration,
    VennAbers,
)
from sklearn_calib.deployment import CalibrationMonitor, PriorShiftClassifier
from sklearn_calib.metrics import CalibrationAccumulator
from sklearn_calib.persistence import from_dict, load, save, to_dict

VALUES = [
    *(None, True, False, "", "infinity", "NaN", "float64", "object", "__main__.X"),
    *(0, 1, -1, 2, 3, 7, 2**31, 2**63, 2**70, 10**400, -(10**400)),
    *(0.0, -0.0, 0.5, -1.0, 2.0, 1e-320, 1e-12, 1e12, 1e300, -1e308, 1.7e308),
    *([], {}, [0], [1e308], [[0]], [None], ["a", "b"], [10**9, 10**9], {"a": 1}),
    {"tensor": "object.state.module_.0.weight"},
    {"dtype": "float64", "shape": [0], "values": []},
    {"dtype": "float32", "shape": [2], "values": [1e300, 0.0]},
    {"dtype": "uint8", "shape": [], "values": [3]},
    {"dtype": "bool", "shape": [], "values": [True]},
    {"dtype": "str", "shape": [3], "values": ["a", "b", "c"]},
    {"class": "TemperatureScaling", "params": {}, "state": None},
]
KINDS = ["replace", "replace", "scale", "delete", "insert", "shorten", "repeat", "swap"]
A_VALUE, A_KIND = st.sampled_from(VALUES), st.sampled_from(KINDS)


def places(value, path=()):
    """Yield the path of each value in nested dicts and lists."""
    yield path
    items = []
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value[:4])  # the other values of an array are like these
    for key, each in items:
        yield from places(each, (*path, key))


def at(document, path):
    for key in path:
        document = document[key]
    return document


def mutate(document, draw):
    """Change one value of a document."""
    path = draw(st.sampled_from([path for path in places(document) if path]))
    parent, key = at(document, path[:-1]), path[-1]
    value = parent[key]
    kind = draw(A_KIND)
    if kind == "replace":
        parent[key] = copy.deepcopy(draw(A_VALUE))
    elif kind == "scale" and isinstance(value, float):
        parent[key] = value * draw(st.sampled_from([-1, 1e-3, 1.1, 1e3, 1e100]))
    elif kind == "delete":
        del parent[key]
    elif kind == "insert" and isinstance(value, dict):
        name = draw(st.sampled_from(["__class__", "coef_", "from_logits", "lambd"]))
        value[name] = draw(A_VALUE)
    elif kind == "shorten" and isinstance(value, list):
        del value[-1:]
    elif kind == "repeat" and isinstance(value, list) and value:
        value.append(value[-1])
    elif kind == "swap" and isinstance(parent, dict):
        other = draw(st.sampled_from(sorted(parent)))
        parent[key], parent[other] = parent[other], parent[key]


def check(read, X):
    """Check that reading raises ValueError, or that predictions are valid."""
    with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
        try:
            model = read()
            proba = model.predict_proba(X)
        except ValueError:
            return False
    assert proba.ndim == 2
    assert len(proba) == len(X)
    assert ((proba >= 0) & (proba <= 1 + 1e-6)).all()
    if not hasattr(model, "calibrators_"):
        np.testing.assert_allclose(proba.sum(axis=1), 1, rtol=1e-5)
        assert len(model.predict(X)) == len(X)
    return True


def test_mutated_documents_of_calibrators(calibrator, fit):
    fitted, X = fit(calibrator)
    check_mutated(fitted, X, settings.default.max_examples)


def test_mutated_documents_of_labels(fit_per_label):
    check_mutated(*fit_per_label(), 2 * settings.default.max_examples)


def test_mutated_documents_of_prior_shift(fit):
    fitted, X = fit(TemperatureScaling())
    model = PriorShiftClassifier(FrozenEstimator(fitted)).fit(X, fitted.predict(X))
    check_mutated(model, X, 2 * settings.default.max_examples)


def check_mutated(fitted, X, max_examples):
    """Check documents of a fitted model with up to three changes."""
    document = pickle.dumps(to_dict(fitted))
    assert check(lambda: from_dict(pickle.loads(document)), X)

    @settings(max_examples=max_examples)
    @given(st.data())
    def refuse_or_read(data):
        mutated = pickle.loads(document)
        for _ in range(data.draw(st.integers(1, 3))):
            mutate(mutated, data.draw)
        check(lambda: from_dict(mutated), X)

    refuse_or_read()


@pytest.mark.parametrize("kind", [CalibrationAccumulator, CalibrationMonitor])
@pytest.mark.parametrize("mode", ["top_label", "classwise"])
def test_mutated_documents_of_accumulators(kind, mode):
    y, proba = ["a", "b", "b"], np.array([[0.7, 0.3], [0.2, 0.8], [0.6, 0.4]])
    fitted = kind(labels=["a", "b"], n_bins=3, mode=mode)
    document = pickle.dumps(to_dict(fitted.update(y, proba)))

    @settings(max_examples=2 * settings.default.max_examples)
    @given(st.data())
    def refuse_or_read(data):
        mutated = pickle.loads(document)
        for _ in range(data.draw(st.integers(1, 2))):
            mutate(mutated, data.draw)
        with np.errstate(all="ignore"):
            try:
                model = from_dict(mutated)
            except ValueError:
                return
            if isinstance(model, CalibrationAccumulator) and hasattr(model, "cells_"):
                model.compute()
                (model + model).scores()
            if isinstance(model, CalibrationMonitor) and model.n_batches_:
                assert 0 <= model.p_value_ <= 1
                assert (model + model).diagnose().n_samples >= 0

    refuse_or_read()


@pytest.mark.parametrize(
    ("path", "value", "match"),
    [
        (("state", "groups_"), [], "groups_"),
        (("params", "mode"), [["top_label"]], "mode must be one or several of"),
        (
            ("params", "labels"),
            {"dtype": "str", "shape": [0], "values": []},
            "state is invalid",
        ),
    ],
)
def test_crafted_accumulators(path, value, match):
    accumulator = CalibrationAccumulator(labels=["a", "b"], mode=["top_label"])
    accumulator.update(["a", "b"], [0.2, 0.9], [1, 3], groups=["x", "y"])
    document = json.loads(json.dumps(to_dict(accumulator)))
    from_dict(document)
    at(document["object"], path[:-1])[path[-1]] = value
    with pytest.raises(ValueError, match=match):
        from_dict(document)


@pytest.fixture(scope="module")
def calibrated(net, table):
    options = {"cv": 2, "n_repeats": 1}
    return CalibratedClassifier(net, TemperatureScaling(), **options).fit(*table)


@pytest.mark.parametrize("is_calibrated", [False, True])
def test_mutated_documents_of_networks(is_calibrated, calibrated, net, table):
    model, X = calibrated if is_calibrated else net, table[0]
    document = pickle.dumps(to_dict(model))
    assert check(lambda: from_dict(pickle.loads(document)), X)

    @settings(max_examples=2 * settings.default.max_examples)
    @given(st.data())
    def refuse_or_read(data):
        mutated = pickle.loads(document)
        for _ in range(data.draw(st.integers(1, 2))):
            mutate(mutated, data.draw)
        check(lambda: from_dict(mutated), X)

    refuse_or_read()


@pytest.mark.parametrize("name", ["calibrator", "net"])
def test_mutated_bytes(name, net, table, fit, tmp_path):
    model, X = (net, table[0]) if name == "net" else fit(PlattScaling())
    file = tmp_path / "mutated"
    save(model, file)
    saved = file.read_bytes()

    @settings(max_examples=2 * settings.default.max_examples)
    @given(place=st.floats(0, 1, exclude_max=True), byte=st.integers(0, 255))
    def refuse_or_read(place, byte):
        content = bytearray(saved)
        content[int(place * len(content))] = byte
        file.write_bytes(content)
        check(lambda: load(file), X)

    refuse_or_read()


class RunsCommand:
    """Object whose pickle creates a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def test_a_pickle_is_not_read(tmp_path):
    file = tmp_path / "calibrator.json"
    file.write_bytes(pickle.dumps(RunsCommand(tmp_path / "was_run")))
    with pytest.raises(ValueError, match=r"calibrator\.json' cannot be loaded"):
        load(file)
    assert not (tmp_path / "was_run").exists()


def test_a_class_outside_of_the_table_is_not_imported(fit):
    document = to_dict(fit(PlattScaling())[0])
    for name in ["os.system", "BaseEstimator", "Calibrator", "subprocess.Popen"]:
        document["object"]["class"] = name
        with pytest.raises(ValueError, match=r"object\.class must be one of"):
            from_dict(document)


CRAFTED = {
    "version": (("version",), 2, "version must be at most 1 .* got 2"),
    "no number": (("version",), "1", "version must be at most 1 .* got '1'"),
    "format": (("format",), "pickle", "format must be 'sklearn_calib', got 'pickle'"),
    "class": (("object", "class"), "PlatScaling", "Did you mean 'PlattScaling'"),
    "param": (("object", "params", "lr"), 1.0, r"object\.params must be .* \['lr'\]"),
    "value": (("object", "params", "from_logits"), 1, "'from_logits' parameter of"),
    "state": (("object", "state"), None, r"object\.state must be an object, got None"),
    "key": (("object", "state", "coef_"), 1, r"object\.state must be .* \['coef_'\]"),
    "huge": (
        ("object", "state", "maps_", 0, "shape"),
        [10**12],
        r"maps_\[0\]\.shape must be the shape of 2 values, got \[1000000000000\]",
    ),
    "shape": (
        ("object", "state", "maps_", 0),
        {"dtype": "float64", "shape": [3], "values": [1.0, 2.0, 3.0]},
        r"object\.state\.maps_\[0\] must have 2 values, got 3",
    ),
    "dimensions": (
        ("object", "state", "maps_", 0, "shape"),
        [1, 2],
        r"object\.state\.maps_\[0\] must be floats in 1 dimensions",
    ),
    "dtype": (
        ("object", "state", "maps_", 0, "dtype"),
        "complex128",
        r"maps_\[0\]\.dtype must be one of .* got 'complex128'",
    ),
    "type": (
        ("object", "state", "maps_", 0, "values"),
        [1.0, "2.0"],
        r"maps_\[0\]\.values must be finite and of dtype float64, got '2\.0'",
    ),
    "overflow": (
        ("object", "state", "maps_", 0, "values"),
        [1.0, 10**400],
        r"maps_\[0\]\.values must be of dtype float64",
    ),
    "infinite": (
        ("object", "state", "maps_", 0),
        {"dtype": "float32", "shape": [2], "values": [1e300, 1.0]},
        r"maps_\[0\] must be finite",
    ),
    "missing map": (
        ("object", "state", "maps_"),
        [],
        "maps_ must have 3 values, got 0",
    ),
    "prior": (
        ("object", "state", "class_prior_", "values"),
        [0.5, 0.5, 0.5],
        "class_prior_ must be numbers that sum to 1, got",
    ),
    "columns": (("object", "state", "n_features_in_"), 1, "n_features_in_ must be 3"),
    "labels": (
        ("object", "state", "classes_", "values"),
        ["a", "b", "a"],
        "classes_ must be at least two distinct labels of one type",
    ),
}


@pytest.mark.parametrize(("path", "value", "message"), CRAFTED.values(), ids=CRAFTED)
def test_the_key_is_named(path, value, message, fit, tmp_path):
    document = to_dict(fit(PlattScaling())[0])
    at(document, path[:-1])[path[-1]] = value
    with pytest.raises(ValueError, match=message):
        from_dict(document)
    file = tmp_path / "crafted.json"
    file.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(
        ValueError, match=rf"crafted\.json' cannot be loaded: .*{message}"
    ):
        load(file)


def test_an_isotonic_map_must_increase(fit):
    document = to_dict(fit(JointIsotonicCalibration())[0])
    document["object"]["state"]["map_"][1]["values"][0] = 1.0
    with pytest.raises(ValueError, match=r"map_\[1\] must be sorted"):
        from_dict(document)


@pytest.mark.parametrize("text", ["1e999", "-1e999", "NaN", "Infinity"])
def test_infinity_is_not_read(text, fit, tmp_path):
    file = tmp_path / "crafted"
    for calibrator, value in ((MatrixScaling(lambd=0.25), 0.25), (PlattScaling(), "b")):
        document = to_dict(fit(calibrator)[0])
        if value == "b":
            document["object"]["state"]["classes_"] |= {
                "dtype": "object",
                "values": [0.5, 0.25, 1.5],
            }
        content = json.dumps(document)
        assert "0.25" in content
        file.write_text(content.replace("0.25", text, 1))
        with pytest.raises(ValueError, match=r"finite|the JSON contains"):
            load(file)


def test_curves_must_be_sorted(fit):
    for calibrator in (VennAbers(), SplineCalibration()):
        document = to_dict(fit(calibrator)[0])
        document["object"]["state"]["maps_"][0][0]["values"][0] = 2.0
        with pytest.raises(ValueError, match=r"maps_\[0\]\[0\] must be sorted"):
            from_dict(document)


def test_knots_must_be_distinct(fit):
    document = to_dict(fit(LogOddsSplineCalibration())[0])
    knots = document["object"]["state"]["maps_"][0][0]["values"]
    knots[1] = knots[0]
    with pytest.raises(ValueError, match=r"maps_\[0\]\[0\] must be distinct"):
        from_dict(document)


def test_long_strings_are_refused(fit):
    document = to_dict(fit(PlattScaling())[0])
    labels = ["a" * 10**6, *map(str, range(10**4))]
    array = {"dtype": "str", "shape": [len(labels)], "values": labels}
    document["object"]["state"]["classes_"] = array
    with pytest.raises(ValueError, match=r"classes_\.values must be shorter"):
        from_dict(document)


def test_a_required_parameter_is_named(fit_per_label):
    document = to_dict(fit_per_label()[0])
    del document["object"]["params"]["calibrator"]
    with pytest.raises(ValueError, match=r"params must have the keys \['calibrator'\]"):
        from_dict(document)


def test_nested_objects_are_limited(fit):
    document = to_dict(fit(PlattScaling())[0])
    nested = {"class": "PerLabelCalibrator", "params": {}, "state": None}
    document["object"] = nested
    for _ in range(5000):
        nested["params"]["calibrator"] = inner = {**nested, "params": {}}
        nested = inner
    with pytest.raises(ValueError, match="object must not be nested so deeply"):
        from_dict(document)


@pytest.mark.parametrize("key", ["format", "version", "written_by", "object"])
def test_nested_lists_are_shortened(fit, key):
    document, nested = to_dict(fit(PlattScaling())[0]), []
    for _ in range(5000):
        nested = [nested]
    document[key] = nested
    with pytest.raises(ValueError, match=r"got \[\[\[\[\.\.\.\]\]\]\]\."):
        from_dict(document)


def test_a_large_matrix_of_a_small_file(fit):
    document = to_dict(fit(MatrixScaling())[0])
    document["object"]["state"]["coef_"]["shape"] = [10**6, 10**6]
    with pytest.raises(ValueError, match=r"coef_\.shape must be the shape of 9"):
        from_dict(document)
