"""Bad input gets an exception that names the parameter, what came and what was wanted.

One row for each way to be wrong: what is done, the exception, and what it must say.
"""

import inspect
from importlib import import_module

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import PredefinedSplit, cross_val_score
from sklearn.svm import LinearSVC
from sklearn.utils._param_validation import (
    Interval,
    InvalidParameterError,
    validate_parameter_constraints,
)

import sklearn_calib.metrics as m
from sklearn_calib import (
    CalibratedClassifier,
    NeuralClassifier,
    RefCalClassifier,
    TemperatureScaling,
)
from sklearn_calib.calibrators import TemperatureAccumulator
from sklearn_calib.deployment import CalibrationMonitor
from sklearn_calib.losses import FocalLoss, focal_loss, get_loss

X = np.random.default_rng(0).normal(size=(12, 3))
Y = np.arange(12) % 3
PROBA = np.full((12, 3), 1 / 3)


def _replaced(array, value):
    array = np.array(array, dtype=float)
    array[1, 1] = value
    return array


def _fit(X=X, y=Y, **params):
    return lambda: NeuralClassifier(max_epochs=1, **params).fit(X, y)


def _refine(**params):
    model = RefCalClassifier(refine__max_epochs=1, head__max_epochs=1, **params)
    return lambda: model.fit(X, Y)


def _measure(metric, y_true=Y, y_proba=PROBA, **options):
    return lambda: getattr(m, metric)(y_true, y_proba, **options)


def _calibrate(X=PROBA, y=Y, **params):
    return lambda: TemperatureScaling(**params).fit(X, y)


def _score_without_a_class():
    """The third class is in the test fold only."""
    folds = PredefinedSplit(np.where(Y == 2, 0, -1))
    cross_val_score(
        NeuralClassifier(max_epochs=1), X, Y, cv=folds, scoring="neg_ece",
        error_score="raise",
    )  # fmt: skip


DATA = {
    "nan": (_fit(_replaced(X, np.nan)), ValueError, "Input X contains NaN"),
    "infinity": (_fit(_replaced(X, np.inf)), ValueError, "Input X contains infinity"),
    "too large": (_fit(_replaced(X, 1e39)), ValueError, "too large for dtype.*float32"),
    "sparse nan": (
        _fit(csr_array(_replaced(X, np.nan))), ValueError, "Input X contains NaN",
    ),
    "text": (_fit([["a", "b"]] * 12), ValueError, "could not convert string"),
    "one row": (_fit(X[:1], Y[:1]), ValueError, "y must hold at least 2 cl.*got 1"),
    "one class": (_fit(y=np.zeros(12)), ValueError, "y must hold at least 2 classes"),
    "short y": (_fit(y=Y[:5]), ValueError, r"inconsistent numbers of samples: \[12, 5"),
    "no y": (_fit(y=None), ValueError, "requires y to be passed"),
    "missing label": (
        _fit(y=np.where(Y == 1, np.nan, Y)), ValueError, "Input y contains NaN",
    ),
    "continuous y": (_fit(y=X[:, 0]), ValueError, "Unknown label type: continuous"),
    "other dimensions": (
        lambda: _fit()().predict(X[:, :, None]), ValueError,
        r"X must have 2 dimensions, as in fit, got shape \(12, 3, 1\). Reshape X",
    ),
    "other dimensions of a refined net": (
        lambda: _refine()().predict(X[:, :, None]), ValueError,
        r"X must have 2 dimensions, as in fit, got shape \(12, 3, 1\). Reshape X",
    ),
    "meta": (
        _fit(torch.zeros(12, 3, device="meta")), TypeError,
        "X must be convertible to numpy, got Tensor: .*meta",
    ),
    "float8": (
        _fit(torch.zeros(12, 3).to(torch.float8_e5m2)), TypeError,
        "X must be convertible to numpy, got Tensor: .*Float8",
    ),
    "other columns": (
        lambda: _fit()().predict(X[:, :2]), ValueError, "X has 2 features, but Neural",
    ),
    "negative weight": (
        lambda: NeuralClassifier().fit(X, Y, sample_weight=-np.ones(12)),
        ValueError, "sample_weight must be non-negative",
    ),
    "weights of one class": (
        lambda: NeuralClassifier().fit(X, Y, sample_weight=Y == 1),
        ValueError, "y must hold at least 2 classes with a positive sample_weight",
    ),
    "before fit": (
        lambda: NeuralClassifier().predict(X), NotFittedError, "not init.*'fit' with",
    ),
    "calibrator before fit": (
        lambda: TemperatureScaling().predict_proba(PROBA), NotFittedError, "not fitted",
    ),
    "class missing in a fold": (_score_without_a_class, ValueError, r"\[.*2\]"),
}  # fmt: skip

PARAMETERS = {
    "loss misspelt": (_fit(loss="focl"), ValueError, "'focl'.*[Dd]id you mean 'focal'"),
    "loss of no kind": (_fit(loss=3), TypeError, "loss must be a name, a class or"),
    "loss parameter": (
        _fit(loss="focal", loss__gama=1), ValueError,
        "'focal' has no parameter 'gama'.*Did you mean 'gamma'",
    ),
    "parameter of another loss": (
        lambda: NeuralClassifier(loss="brier").set_params(loss__gamma=1), ValueError,
        "'brier' has no parameter 'gamma'",
    ),
    "negative gamma": (
        _fit(loss="focal", loss__gamma=-1.0), ValueError, "gamma must be .*got -1.0",
    ),
    "infinite gamma": (lambda: FocalLoss(gamma=np.inf), ValueError, "gamma must be"),
    "text gamma": (lambda: FocalLoss(gamma="two"), TypeError, "gamma must be a number"),
    "reduction": (
        lambda: FocalLoss(reduction="avg"), ValueError, "reduction must be one of",
    ),
    "label smoothing": (
        _fit(loss__label_smoothing=1.0), ValueError, r"label_smoothing must be in",
    ),
    "lambd": (
        _fit(loss="focal_calibration", loss__lambd=-1), ValueError, "lambd must be",
    ),
    "unknown loss": (lambda: get_loss("brer"), ValueError, "Did you mean 'brier'"),
    "misspelt parameter": (
        _fit(max_epoch=3), TypeError, "'max_epoch' is not a parameter.*'max_epochs'",
    ),
    "criterion": (lambda: NeuralClassifier(criterion=1), TypeError, "Use loss"),
    "lr": (_fit(lr=0), ValueError, "'lr' parameter of NeuralClassifier must be"),
    "iterator": (
        _fit(iterator_train=3), ValueError, "'iterator_train' param.*a callable.* Got 3"
    ),
    "iterator of predictions": (
        _fit(iterator_valid=[]), ValueError, "'iterator_valid' parameter.*a callable",
    ),
    "dataset": (_fit(dataset={}), ValueError, "'dataset' parameter.*a callable"),
    "warm start": (
        _fit(warm_start=np.ones(2)), ValueError, "'warm_start' parameter.*'bool'",
    ),
    "early stopping of partial_fit": (
        lambda: NeuralClassifier(early_stopping=np.ones(2)).partial_fit(X, Y, [0, 1]),
        ValueError, "'early_stopping' parameter.*'bool'",
    ),
    "caching": (
        _fit(use_caching=np.ones(2)), ValueError, "'use_caching' parameter.*'auto'",
    ),
    "epochs": (
        lambda: NeuralClassifier(max_epochs=0).fit(X, Y), ValueError,
        "'max_epochs' parameter",
    ),
    "module": (_fit(module="mlp"), ValueError, "'module' parameter.*callable.*'mlp'"),
    "optimizer": (_fit(optimizer="adam"), ValueError, "'optimizer' parameter.*'adam'"),
    "callbacks": (_fit(callbacks=print), ValueError, "'callbacks' parameter.*'list'"),
    "dtype": (_fit(dtype="float16"), ValueError, "'dtype' parameter"),
    "fraction": (_fit(validation_fraction=1.5), ValueError, "'validation_fraction'"),
    "refit": (_fit(refit="yes"), ValueError, "The 'refit' parameter"),
    "callback": (
        _fit(callbacks__update_los__update_every=2), ValueError,
        "callbacks__update_los__update_every does not name .* mean 'update_loss'",
    ),
    "fraction too small": (
        _fit(early_stopping=True), ValueError, "validation_fraction=0.1 must leave",
    ),
    "width": (
        _fit(module=torch.nn.Linear(3, 7)), ValueError, r"n_classes=3, got .*12, 7",
    ),
    "calibrator objective": (_calibrate(objective="mse"), ValueError, "objective"),
    "calibrator of no kind": (
        lambda: CalibratedClassifier(LogisticRegression(), "temprature").fit(X, Y),
        ValueError, "calibrator .* Did you mean 'temperature'",
    ),
    "classifier of no kind": (
        lambda: CalibratedClassifier([], TemperatureScaling()).fit(X, Y), ValueError,
        "'estimator' parameter of CalibratedClassifier must be .*'fit'",
    ),
    "margins are no logits": (
        lambda: CalibratedClassifier(LinearSVC(), TemperatureScaling(), cv=2).fit(X, Y),
        (TypeError, ValueError), "logits",
    ),
    "n_bins": (
        _measure("expected_calibration_error", n_bins=0), ValueError, "'n_bins' param",
    ),
    "strategy": (
        _measure("expected_calibration_error", strategy="width"), ValueError, "strateg",
    ),
    "epsilon": (
        _fit(loss="regularized_aurc", loss__epsilon=0), ValueError, "epsilon must be",
    ),
    "lambd above one": (
        _fit(loss="regularized_aurc", loss__lambd=2), ValueError, "lambd must be",
    ),
    "confidence": (
        _measure("aurc_loss", confidence="mps"), ValueError, "Did you mean 'msp'",
    ),
    "coverage": (
        _measure("risk_at_coverage", coverage=0), ValueError, "coverage",
    ),
    "scorer": (lambda: m.get_scorer("neg_ecce"), ValueError, "Did you mean 'neg_ece'"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("action", "exception", "message"),
    [pytest.param(*row, id=name) for name, row in (DATA | PARAMETERS).items()],
)
def test_error_says_what_is_wrong(action, exception, message):
    with pytest.raises(exception, match=message):
        action()


@pytest.mark.parametrize(
    ("target", "exception", "message"),
    [
        (torch.tensor([0, 3]), ValueError, r"target must lie in \[0, 2\], got values"),
        (torch.tensor([0]), ValueError, r"target must have shape \(2,\)"),
        (torch.tensor([0.0, 1.0]), TypeError, "target must contain integers"),
    ],
)
def test_targets_of_losses(target, exception, message):
    with pytest.raises(exception, match=message):
        focal_loss(torch.zeros(2, 3), target)


TOPICS = (
    *("calibrators", "datasets", "displays", "estimators", "evaluation", "metrics"),
    *("callbacks", "deployment"),
)


def _constraints():
    """Return what every public name declares of its parameters."""
    found = {}
    for topic in TOPICS:
        module = import_module(f"sklearn_calib.{topic}")
        for name in module.__all__:
            thing = getattr(module, name)
            methods = dict(inspect.getmembers(thing, inspect.isroutine))
            for key, each in {"": thing, **methods}.items():
                declared = vars(each) if hasattr(each, "__dict__") else {}
                for kind in ("_skl_parameter_constraints", "_parameter_constraints"):
                    if kind in declared:
                        found[f"{name}.{key}".rstrip(".")] = declared[kind]
    return found


def test_other_numbers():
    """Python counts True as an integer, which numpy and torch take for no size.

    SciPy has no functions for extended precision.
    """
    tried = 0
    for owner, constraints in _constraints().items():
        for name, allowed in constraints.items():
            intervals = [each for each in allowed if isinstance(each, Interval)]
            if not intervals or "boolean" in allowed:
                continue
            tried += 1
            for value in (True, np.longdouble(0.5)):
                with pytest.raises(InvalidParameterError, match=f"'{name}' parameter"):
                    validate_parameter_constraints(constraints, {name: value}, owner)
    assert tried > 80


SWAPPED = {
    "metric": lambda p, y, _: m.expected_calibration_error(p, y),
    "chunk": lambda p, y, c: m.CalibrationAccumulator(labels=c).update(p, y),
    "chunk with groups": lambda p, y, c: m.CalibrationAccumulator(labels=c).update(
        p, y, groups=[0, 1, 1]
    ),
    "batch of a monitor": lambda p, y, c: CalibrationMonitor(labels=c).update(p, y),
    "batches": lambda p, y, c: TemperatureScaling().fit(
        batches=lambda: [(y, p)], labels=c
    ),
    "chunk of a calibrator": lambda p, y, c: TemperatureAccumulator(labels=c).update(
        y, p
    ),
    "online": lambda p, y, c: TemperatureScaling().partial_fit(y, p, classes=c),
    "arrays": lambda p, y, _: TemperatureScaling().fit(y, p),
}


@pytest.mark.parametrize("name", SWAPPED)
def test_labels_and_probabilities_in_each_others_place(name):
    columns = [[0.9, 0.1], [0.2, 0.8], [0.4, 0.6]]
    for y in (["a", "b", "b"], [0, 1, 1], np.array([False, True, True])):
        for proba in (columns, [0.1, 0.8, 0.6]):
            with pytest.raises(ValueError, match=r"must contain labels .* other order"):
                SWAPPED[name](proba, y, np.unique(y))


def test_labels_may_be_fractions():
    assert m.expected_calibration_error([0.5, 1.5], [0.0, 1.0]) == 0
