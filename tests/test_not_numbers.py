"""What is not numbers is refused by every metric, calibrator, display and estimator.

numpy would convert it: text that spells numbers, dates, what lies under a mask. And
numbers are taken however they come: objects, tensors, half precision.
"""

import inspect
import re
from functools import cache, partial

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

from sklearn_calib import (
    CalibratedClassifier,
    NeuralClassifier,
    PredictionSetClassifier,
    RefCalClassifier,
    SelectiveClassifier,
    calibrators,
    deployment,
    displays,
    metrics,
)
from sklearn_calib.calibrators import (
    PerLabelCalibrator,
    TemperatureScaling,
    get_calibrator,
    get_calibrator_names,
)
from sklearn_calib.evaluation import calibration_report, risk_report


def _masked(array):
    """Mask the first value."""
    array = np.ma.array(array)
    array[(0,) * array.ndim] = np.ma.masked
    return array


def _objects(value):
    """Return a function that puts something else in the place of the first value."""

    def replace(array):
        array = np.array(array, dtype=object)
        array[(0,) * array.ndim] = value
        return array

    return replace


def _ragged(array):
    """Give one row another length."""
    return [[1.0, 2.0, 3.0, 4.0, 5.0], *np.asarray(array).tolist()[1:]]


# What is done to an array of numbers.
NOT_NUMBERS = {
    "text": lambda array: array.astype(str),
    "bytes": lambda array: array.astype(bytes),
    "text as objects": lambda array: array.astype(str).astype(object),
    "text in lists": lambda array: array.astype(str).tolist(),
    "text in a table": lambda array: pd.DataFrame(array.astype(str)),
    "categories in a table": lambda array: pd.DataFrame(
        array.astype(str), dtype="category"
    ),
    "dates": lambda array: np.zeros(array.shape, "datetime64[s]"),
    "dates in a table": lambda array: pd.DataFrame(
        np.zeros(array.shape, "datetime64[s]")
    ),
    "durations": lambda array: (100 * array).astype("timedelta64[s]"),
    "complex": lambda array: array + 0j,
    "complex objects": _objects(0.5 + 0j),
    "dicts": _objects({"a": 1}),
    "NA": _objects(pd.NA),
    "None": _objects(None),
    "masked": _masked,
    "ragged": _ragged,
    "complex tensor": lambda array: torch.tensor(array) + 0j,
}
NOT_LABELS = {
    "masked": _masked,
    "NA": _objects(pd.NA),
    "None": _objects(None),
    "NaN": lambda y: np.where(y == y[0], np.nan, y),
    "NaN among objects": _objects(np.nan),
    "text among numbers": _objects("a"),
    "text among numbers of a list": lambda y: ["a", *y.tolist()[1:]],
    "booleans among numbers": _objects(True),
    "booleans among numbers of a list": lambda y: [True, *y.tolist()[1:]],
    "set": lambda y: set(y.tolist()),
    "dict": lambda y: dict(enumerate(y.tolist())),
    "ragged": lambda y: [[0, 1], *y.tolist()[1:]],
}
# Not a table: of one column it is refused for its shape, or taken.
NOT_WEIGHTS = {k: spoil for k, spoil in NOT_NUMBERS.items() if "table" not in k}

N = 12
RNG = np.random.default_rng(0)
Y = np.arange(N) % 2
PROBA = np.round(RNG.dirichlet([2, 2], N), 3)
PROBA[:, 0] = 1 - PROBA[:, 1]
DATA = {
    "y_true": Y,
    **dict.fromkeys(["y_proba", "y_proba_a"], PROBA),
    "y_proba_b": PROBA[::-1].copy(),
    "posterior": PROBA[::-1].copy(),
    "y_set": (PROBA > 0.3).astype(float),
    "y_pvalue": PROBA,
    "scores_in": PROBA[:, 0].copy(),
    "scores_out": PROBA[:, 1].copy(),
    "sample_weight": np.ones(N),
    "confidence": PROBA.max(axis=1),
    "labels": np.array([0, 1]),
}
SPOILERS = {
    **dict.fromkeys(["y_true", "labels"], NOT_LABELS),
    **dict.fromkeys(
        ["sample_weight", "scores_in", "scores_out", "confidence"], NOT_WEIGHTS
    ),
}
# What metrics must be told besides.
ECE = metrics.expected_calibration_error
NEEDED = {
    "bootstrap_interval": {"metric": metrics.aurc_loss, "n_resamples": 2},
    "coverage_at_risk": {"max_risk": 0.5},
    "difference_test": {"metric": metrics.aurc_loss, "n_resamples": 2},
    "consistency_test": {"metric": ECE, "n_resamples": 2},
    **{key: {"n_resamples": 2} for key in ["ece_consistency_bound", "ece_interval"]},
    **{key: {"n_resamples": 2} for key in ["kernel_calibration_test", "tcal_test"]},
    "recalibration_test": {"n_resamples": 2},
    "variational_calibration_error": {"cv": 2},
    "GroupReliabilityDisplay.from_predictions": {"groups": Y},
    "multicalibration_error": {"groups": Y},
    "net_benefit_score": {"threshold": 0.5},
    "per_label": {"metric": ECE},
    "risk_at_coverage": {"coverage": 0.5},
    "risk_report": {"thresholds": [0.5], "n_resamples": 2},
    **{key: {"metric": ECE, "groups": Y} for key in ["per_group", "worst_group"]},
}
NO_METRICS = {"CalibrationAccumulator", "lowest_error_within_one_se"}
NO_METRICS |= {"get_scorer", "get_scorer_names"}
# The package's functions of arrays, and what they need.
FUNCTIONS = {
    **{
        name: getattr(metrics, name)
        for name in metrics.__all__
        if name not in NO_METRICS
    },
    "CalibrationAccumulator": metrics.CalibrationAccumulator(labels=[0, 1]).update,
    "CalibrationMonitor": deployment.CalibrationMonitor(labels=[0, 1]).update,
    "calibration_report": calibration_report,
    "risk_report": risk_report,
    **{
        f"{name}.from_predictions": getattr(displays, name).from_predictions
        for name in displays.__all__
        if hasattr(getattr(displays, name), "from_predictions")
    },
}
FUNCTIONS |= {name: partial(FUNCTIONS[name], **given) for name, given in NEEDED.items()}


def _arguments(name, function):
    """Return sound arguments: of the function's own parameters those in `DATA`."""
    fixed = getattr(function, "keywords", {})
    known = DATA | ({"y_true": np.eye(2)[Y]} if name == "per_label" else {})
    parameters = [p for p in inspect.signature(function).parameters if p not in fixed]
    return {p: known[p] for p in parameters if p in known and p != "labels"}, parameters


CASES = [
    (name, parameter)
    for name, function in FUNCTIONS.items()
    for parameter in _arguments(name, function)[1]
    if parameter in DATA
]


def test_settings_are_of_metrics():
    assert set(metrics.__all__) >= NO_METRICS


def not_refused(call, spoilers, sound, name):
    """Return what came of spoiled data, unless it was an error that names them."""
    # The values of both models' probabilities are checked by the metric itself.
    stem = name.removesuffix("_a").removesuffix("_b")
    found = {}
    for kind, spoil in spoilers.items():
        spoiled = spoil(sound)
        try:
            call(**{name: spoiled})
            found[kind] = "accepted"
        except (TypeError, ValueError) as error:
            if not re.search(rf"\b{stem}(_[ab])?\b", str(error)):
                found[kind] = str(error)
    return found


@cache
def takes_sound_data(name):
    """Call the function once, so that later errors are of what is spoiled."""
    FUNCTIONS[name](**_arguments(name, FUNCTIONS[name])[0])
    plt.close("all")


def some(forms, name):
    """Return all forms for one function, and for others those that show the door.

    All functions have the same validators, and all calibrators. What converts its
    input before it is validated loses a mask or a gradient, or reads text as numbers.
    """
    if name in ("expected_calibration_error", "temperature"):
        return forms
    return {kind: form for kind, form in forms.items() if kind in OF_EVERY_DOOR}


OF_EVERY_DOOR = {"masked", "text in lists", "text among numbers of a list", "NaN"}
OF_EVERY_DOOR |= {"objects", "tensor of a graph", "tensor with a gradient"}


@pytest.mark.parametrize(("name", "parameter"), CASES)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning")
def test_functions_name_what_is_not_numbers(name, parameter):
    arguments = _arguments(name, FUNCTIONS[name])[0]
    sound = arguments.pop(parameter, DATA[parameter])
    call = partial(FUNCTIONS[name], **arguments)
    takes_sound_data(name)
    spoilers = SPOILERS.get(parameter, NOT_NUMBERS)
    if sound.ndim == 2 and parameter == "y_true":  # indicators
        spoilers = NOT_NUMBERS
    spoilers = some(spoilers, name)
    assert not not_refused(call, spoilers, sound, parameter)


def _with_gradient(array):
    """Return a tensor that is a part of a graph."""
    return torch.tensor(array, dtype=torch.float64, requires_grad=True)


NUMBERS = {
    "half precision": lambda array: array.astype(np.float16),
    "long double": lambda array: array.astype(np.longdouble),
    "objects": lambda array: array.astype(object),
    "lists": lambda array: array.tolist(),
    "no mask": np.ma.array,
    "tensor with a gradient": _with_gradient,
    "tensor of a graph": lambda array: 1 * _with_gradient(array),
    "table": pd.DataFrame,
    "table of nullable numbers": lambda array: pd.DataFrame(array, dtype="Float64"),
    "table of categories": lambda array: pd.DataFrame(array, dtype="category"),
}
LABELS = {
    "objects": lambda y: y.astype(object),
    "half precision": lambda y: y.astype(np.float16),
    "beyond int64": lambda y: y.astype(np.uint64) + np.uint64(2**63),
    "booleans": lambda y: y.astype(bool),
    "booleans as objects": lambda y: y.astype(bool).astype(object),
    "no mask": np.ma.array,
    "tensor": torch.tensor,
    "tensor with a gradient": _with_gradient,
    "nullable integers": lambda y: pd.Series(y, dtype="Int64"),
}


def as_vector(result):
    """Return all numbers of a result."""
    parts = result if isinstance(result, tuple) else [result]
    return np.hstack([np.ravel(part).astype(float) for part in parts])


@pytest.mark.parametrize(
    ("name", "parameter"),
    [
        (name, parameter)
        for name, parameter in CASES
        if name in set(metrics.__all__) - NO_METRICS
        and parameter not in ("labels", "confidence")
    ],
)
def test_metrics_take_numbers_however_they_come(name, parameter):
    arguments = _arguments(name, FUNCTIONS[name])[0]
    for key in ("y_proba", "y_proba_a", "y_proba_b", "posterior"):
        if key in arguments:
            arguments[key] = arguments[key].astype(np.float16).astype(np.float64)
    seed = {"random_state": 0}
    if "random_state" not in inspect.signature(FUNCTIONS[name]).parameters:
        seed = {}
    call = partial(FUNCTIONS[name], **arguments | seed)
    sound, forms = arguments[parameter], NUMBERS
    if parameter == "y_true" and sound.ndim == 1:
        forms = LABELS
    elif sound.ndim == 1:
        sound = sound.astype(np.float16).astype(np.float64)
        forms = {kind: form for kind, form in NUMBERS.items() if "table" not in kind}
    expected = as_vector(call(**{parameter: sound}))
    for kind, form in some(forms, name).items():
        found = as_vector(call(**{parameter: form(sound)}))
        # A frame keeps its columns together, which sums of products round otherwise.
        np.testing.assert_allclose(found, expected, rtol=1e-12, err_msg=kind)


def make_calibrator(name):
    """Return a calibrator; that of several has two of them."""
    pair = [TemperatureScaling(), calibrators.IsotonicCalibration()]
    return get_calibrator(name)(
        **{"calibrators": pair, "cv": 2} if name == "auto" else {}
    )


@pytest.mark.parametrize("name", get_calibrator_names())
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_calibrators_take_numbers_however_they_come(name):
    calibrator = make_calibrator(name)
    half = PROBA.astype(np.float16).astype(np.float64)
    expected = calibrator.fit(half, Y).predict_proba(half)
    for kind, form in some(NUMBERS, name).items():
        X = form(half)
        proba = calibrator.fit(X, Y).predict_proba(X)
        np.testing.assert_allclose(proba, expected, rtol=1e-9, err_msg=kind)
    for kind, form in some(LABELS, name).items():
        calibrator.fit(half, form(Y), _with_gradient(np.ones(N)))
        np.testing.assert_array_equal(
            calibrator.classes_, np.unique(np.asarray(form(Y).tolist())), err_msg=kind
        )


@pytest.mark.parametrize("name", ["CalibratedClassifier", "NeuralClassifier"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_estimators_take_numbers_however_they_come(name):
    model = ESTIMATORS[name].set_params(**SEEDED[name])
    expected = model.fit(HALF_FEATURES, Y).predict_proba(HALF_FEATURES)
    for kind, form in NUMBERS.items():
        X = form(HALF_FEATURES)
        if isinstance(X, list | torch.Tensor) and name == "CalibratedClassifier":
            continue  # which leaves X to the classifier, and cuts it before
        found = model.fit(X, Y).predict_proba(X)
        np.testing.assert_array_equal(found, expected, err_msg=kind)
    for kind, form in LABELS.items():
        labels = form(Y)
        model.fit(HALF_FEATURES, labels)
        assert model.classes_.tolist() == sorted(set(labels.tolist())), kind
        assert model.classes_.dtype.kind in "biuf"


@pytest.mark.parametrize("function", [ECE, metrics.CalibrationAccumulator.update])
def test_booleans_are_not_the_labels_of_three_classes(function):
    """True is equal to 1, and would be taken for it."""
    proba = np.full((4, 3), 1 / 3)
    sums = metrics.CalibrationAccumulator(labels=[0, 1, 2])
    is_metric = function is ECE
    function = partial(function, labels=[0, 1, 2]) if is_metric else sums.update
    function([1, 0, 1, 0], proba)
    with pytest.raises(TypeError, match=r"y_true must .*\[0, 1, 2\], got booleans"):
        function(np.array([True, False, True, False]), proba)


@pytest.mark.parametrize("name", [*get_calibrator_names(), "per label", "sums"])
@pytest.mark.parametrize("from_logits", [False, True])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_calibrators_name_what_is_not_numbers(name, from_logits):
    y, not_labels = Y, NOT_LABELS
    calibrator = TemperatureScaling(from_logits=from_logits)
    if name == "per label":
        calibrator = PerLabelCalibrator(calibrator)
        # None is a label that is not known, like NaN.
        y, not_labels = np.eye(2, dtype=int)[Y], {**NOT_NUMBERS}
        del not_labels["None"]
    elif name != "sums":
        calibrator = make_calibrator(name).set_params(from_logits=from_logits)
    X = np.log(PROBA) if from_logits else PROBA
    sums = calibrators.TemperatureAccumulator(labels=[0, 1], from_logits=from_logits)
    fit = sums.update if name == "sums" else calibrator.fit
    sound = {"X": X, "y": y, "sample_weight": np.ones(N)}
    spoilers = {"X": NOT_NUMBERS, "y": not_labels, "sample_weight": NOT_WEIGHTS}
    for key in sound:
        call = partial(fit, **{k: v for k, v in sound.items() if k != key})
        assert not not_refused(call, spoilers[key], sound[key], key)
    assert not not_refused(calibrator.fit(X, y).predict_proba, NOT_NUMBERS, X, "X")


def test_every_calibrator_is_tried():
    left = {c for _, c in inspect.getmembers(calibrators, inspect.isclass)}
    left -= {get_calibrator(name) for name in get_calibrator_names()}
    left -= {calibrators.Calibrator, calibrators.BoostingCalibrator}  # checks in base
    left -= {c for c in left if issubclass(c, calibrators.GroupCalibrator)}
    assert left == {PerLabelCalibrator, calibrators.TemperatureAccumulator}


ESTIMATORS = {
    "NeuralClassifier": NeuralClassifier(max_epochs=1),
    "RefCalClassifier": RefCalClassifier(refine__max_epochs=1, head__max_epochs=1),
    "CalibratedClassifier": CalibratedClassifier(
        NeuralClassifier(max_epochs=1), TemperatureScaling(), cv=2, n_repeats=1
    ),
    "PredictionSetClassifier": PredictionSetClassifier(
        NeuralClassifier(max_epochs=1), cv=2
    ),
    "SelectiveClassifier": SelectiveClassifier(
        NeuralClassifier(max_epochs=1), coverage=1.0, abstain_label=-1, cv=2
    ),
}
SEEDED = {
    "NeuralClassifier": {"random_state": 0},
    "CalibratedClassifier": {"estimator__random_state": 0},
}
FEATURES = RNG.normal(size=(N, 3))
HALF_FEATURES = FEATURES.astype(np.float16).astype(np.float64)


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_estimators_name_what_is_not_numbers(name):
    model = ESTIMATORS[name].fit(FEATURES, Y)
    sound = {"X": FEATURES, "y": Y, "sample_weight": np.ones(N)}
    spoilers = {"X": NOT_NUMBERS, "y": NOT_LABELS, "sample_weight": NOT_WEIGHTS}
    for name, values in sound.items():
        call = partial(model.fit, **{k: v for k, v in sound.items() if k != name})
        assert not not_refused(call, spoilers[name], values, name)
    assert not not_refused(model.predict, NOT_NUMBERS, FEATURES, "X")


@pytest.mark.parametrize(
    "model",
    [
        CalibratedClassifier(LogisticRegression(), None, cv=2),
        PredictionSetClassifier(LogisticRegression(), cv=2),
        SelectiveClassifier(LogisticRegression(), coverage=1, abstain_label=9, cv=2),
    ],
)
def test_a_mask_is_not_passed_on_to_what_ignores_it(model):
    with pytest.raises(ValueError, match=r"X must not .* masked values, got 1 of 36"):
        model.fit(_masked(FEATURES), Y)
    with pytest.raises(NotFittedError):
        model.predict(FEATURES)
    model.fit(np.ma.array(FEATURES), Y)
    for predict in (model.predict, model.predict_proba):
        with pytest.raises(ValueError, match="X must not contain masked values"):
            predict(_masked(FEATURES))
