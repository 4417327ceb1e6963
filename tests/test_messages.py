"""Messages are short, however many labels, groups or names there are.

The checks of scikit-learn for the types of parameters are not held to this.
"""

import inspect

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from sklearn_calib import (
    CalibratedClassifier,
    NeuralClassifier,
    SelectiveClassifier,
    TemperatureScaling,
    displays,
    metrics,
)
from sklearn_calib.calibrators import get_calibrator, get_calibrator_names
from sklearn_calib.datasets import group_classes, make_long_tailed
from sklearn_calib.deployment import (
    adjust_priors,
)
from sklearn_calib.evaluation import compare
from sklearn_calib.losses import focal_loss, get_loss

# A little more than the names of all scorers, which one message lists.
LONGEST = 1200
MANY = 3000
NUMBERS = np.arange(MANY)
WORDS = [f"{'w' * 500}{i}" for i in range(12)]
FEW, WIDE = np.full((6, 3), 1 / 3), np.full((3, MANY), 1 / MANY)
LONG = np.full((MANY, 3), 1 / 3)
# Labels, probabilities and options that are refused.
BAD = {
    "another label": ([-100, 0, 1], WIDE, {"labels": NUMBERS}),
    "labels of other columns": ([0, 1, 2] * 2, FEW, {"labels": NUMBERS}),
    "too many labels": (NUMBERS, LONG, {}),
    "many other labels": (NUMBERS, LONG, {"labels": [-1, -2, -3]}),
    "long words": (["a", "b", "c"] * 2, FEW, {"labels": WORDS}),
    "other long words": (WORDS[:6], FEW, {"labels": ["a", "b", "c"]}),
    "booleans": ([True, False, True], WIDE, {"labels": NUMBERS}),
}
bad = pytest.mark.parametrize("case", list(BAD))
REQUIRED = {"threshold": 0.2, "max_risk": 0.3, "coverage": 0.8}


def check(call):
    """Call what is to be refused in a few words."""
    with pytest.raises((ValueError, TypeError)) as refused:
        call()
    assert len(str(refused.value)) <= LONGEST, f"{str(refused.value)[:200]} ..."


def functions():
    """Return the functions of labels and probabilities: metrics and displays."""
    drawn = [getattr(displays, name) for name in displays.__all__]
    of_predictions = [getattr(each, "from_predictions", None) for each in drawn]
    measured = [getattr(metrics, name) for name in metrics.__all__]
    return [
        each
        for each in [*measured, *of_predictions]
        if callable(each)
        and list(inspect.signature(each).parameters)[:2] == ["y_true", "y_proba"]
    ]


@bad
@pytest.mark.parametrize("function", functions())
def test_metrics_and_displays(function, case):
    y_true, y_proba, options = BAD[case]
    parameters = inspect.signature(function).parameters
    if "groups" in parameters:
        options = {**options, "groups": np.arange(len(y_true)) % 2}
    needed = {
        name: REQUIRED[name]
        for name in REQUIRED.keys() & parameters
        if parameters[name].default is inspect.Parameter.empty
    }
    check(lambda: function(y_true, y_proba, **options, **needed))


@bad
@pytest.mark.parametrize("name", get_calibrator_names())
def test_calibrators(name, case):
    y, proba, options = BAD[case]
    check(lambda: get_calibrator(name)().fit(proba, y, **options))


X, Y = np.random.default_rng(0).normal(size=(12, 2)), np.arange(12) % 3
DICT = dict.fromkeys(NUMBERS.tolist(), 1.0)
FRAME = pd.DataFrame(WIDE, columns=NUMBERS[::-1])
LABELS = NUMBERS.tolist()
OTHERS = {
    "a loss": lambda: get_loss(LABELS),
    "gamma": lambda: focal_loss(torch.zeros(1, 2), torch.tensor([0]), gamma=LABELS),
    "a scorer": lambda: metrics.get_scorer("ece" * MANY),
    "groups": lambda: metrics.per_group(
        metrics.aurc_loss, NUMBERS % 2, LONG[:, 0], groups=["overall", *LABELS[1:]]
    ),
    "columns": lambda: compare({"a": FRAME}, None, [0, 1, 2], labels=NUMBERS),
    "metrics": lambda: compare({"a": FEW}, None, [0, 1, 2] * 2, metrics=LABELS),
    "classes": lambda: displays.ClasswiseReliabilityDisplay.from_predictions(
        [0, 1, 2] * 2, FEW, classes=NUMBERS
    ),
    "positive class": lambda: displays.ReliabilityDisplay.from_predictions(
        [0, 1, 1], [0.5, 0.2, 0.7], pos_label=LABELS
    ),
    "names of columns": lambda: CalibratedClassifier(
        LogisticRegression(), None, groups=[WORDS * 500]
    ).fit(X, Y),
    "priors": lambda: adjust_priors(FEW, DICT, DICT),
    "weights of classes": lambda: NeuralClassifier(class_weight={0: LABELS}).fit(X, Y),
    "classes of a stream": lambda: (
        TemperatureScaling()
        .partial_fit(WIDE, [0, 1, 2], classes=NUMBERS)
        .partial_fit(WIDE, [0, 1, 2], classes=NUMBERS[::-1])
    ),
    "distinct classes": lambda: TemperatureScaling().partial_fit(
        FEW, Y[:6], classes=NUMBERS
    ),
    "inputs": lambda: NeuralClassifier().fit(dict.fromkeys(LABELS, X), Y),
    "order": lambda: make_long_tailed(X, Y, imbalance_factor=0.5, class_order=NUMBERS),
    "groups of classes": lambda: group_classes(NUMBERS, {"all": [0]}),
    "a label to abstain": lambda: SelectiveClassifier(
        LogisticRegression(), coverage=0.8, abstain_label=LABELS
    ).fit(X, Y),
    "risks": lambda: SelectiveClassifier(
        LogisticRegression(), max_risk={"error_rate": DICT}, abstain_label=-1
    ).fit(X, Y),
    "a calibrator": lambda: CalibratedClassifier(
        LogisticRegression(), calibrator=LABELS
    ).fit(X, Y),
}


@pytest.mark.parametrize("name", list(OTHERS))
def test_other_names(name):
    check(OTHERS[name])
