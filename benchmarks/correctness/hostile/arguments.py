"""Valid arguments by name in each setting, and tables for rare arguments."""

from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec

import numpy as np
import pandas as pd
import torch
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression
from skorch.dataset import Dataset

from hostile.values import (
    NO_ARRAYS,
    NO_NUMBERS,
    ROUNDED,
    SAME_NUMBERS,
    UNUSUAL,
    scaled,
    table,
)
from sklearn_calib import NeuralClassifier, TemperatureScaling
from sklearn_calib.callbacks import RecordBins
from sklearn_calib.metrics import expected_calibration_error

N_SAMPLES, N_CLASSES = 48, 3

# scikit-learn's estimators read them as numbers.
STRINGS_OF_NUMBERS = {"strings", "string objects", "frame of strings", "bytes"}


def problem(n_classes=N_CLASSES, n_samples=N_SAMPLES, seed=0):
    """Return logits and labels of overlapping classes."""
    rng = np.random.default_rng(seed)
    y = np.arange(n_samples) % n_classes
    return rng.normal(1.5 * np.eye(n_classes)[y], 1.0), y


# Set in every call, because the defaults are slow or random.
ALWAYS_GIVEN = {"n_resamples": 10, "random_state": 0, "max_epochs": 1}
# Arguments that a name needs and its signature does not show, or that save time.
SPECIAL = {
    "calibrators.AutoCalibrator": {"cv": 2},
    **{
        f"calibrators.{name}": {"calibrator": TemperatureScaling()}
        for name in ("PerGroupCalibrator", "MulticalibrationBoosting")
    },
    "calibrators.get_calibrator": {"name": "platt"},
    "estimators.NeuralClassifier": {"y": problem()[1]},
    "estimators.RefCalClassifier": {"refine__max_epochs": 1, "head__max_epochs": 1},
    # Its weights are at most one.
    "deployment.CalibrationMonitor": {
        "sample_weight": np.linspace(0.2, 0.9, N_SAMPLES)
    },
    "estimators.SelectiveClassifier": {"coverage": 0.8, "abstain_label": -1},
}
if find_spec("lightgbm"):
    from lightgbm import LGBMClassifier

    booster = LGBMClassifier(n_estimators=2, reg_lambda=1, n_jobs=1, verbosity=-1)
    SPECIAL["calibrators.BoostingCalibrator"] = {"estimator": booster}


# Settings whose valid arguments are in `hostile/uses.py`, which imports this file.
USED = ["stream", "listed", "files", "paths", "content"]


def given_to_use(setting):
    return import_module("hostile.uses").valid(setting)


@cache
def valid(setting):
    """Return valid arguments by name."""
    n_classes = 2 if setting == "two" else N_CLASSES
    logits, y = problem(n_classes)
    proba, other = softmax(logits, axis=1), softmax(0.5 * logits, axis=1)
    if setting == "two":
        proba, other = proba[:, 1], other[:, 1]
    rng = np.random.default_rng(1)
    common = {
        **ALWAYS_GIVEN,
        **dict.fromkeys(["y_true", "y"], y),
        **dict.fromkeys(["y_proba", "y_proba_a", "X", "X_new"], proba),
        **dict.fromkeys(["posterior", "y_proba_b", "y_proba_new"], other),
        "y_set": softmax(logits, axis=1) > 0.3,
        "y_pvalue": softmax(logits, axis=1),
        "sample_weight": rng.uniform(0.5, 2.0, N_SAMPLES),
        "labels": np.arange(n_classes),
        "metric": expected_calibration_error,
        "groups": np.array(["one", "other"])[np.arange(N_SAMPLES) % 2],
        "scores_in": rng.normal(1.0, 1.0, N_SAMPLES),
        "scores_out": rng.normal(0.0, 1.0, N_SAMPLES),
        "estimator": LogisticRegression(),
        "calibrator": TemperatureScaling(),
        "max_risk": 0.5,
        "coverage": 0.8,
        "threshold": 0.2,
        "train_priors": np.full(n_classes, 1 / n_classes),
        "priors": np.arange(1, n_classes + 1) / np.arange(1, n_classes + 1).sum(),
        "classes": np.arange(n_classes),
        "score": "neg_ece",
        "guard": "neg_log_loss",
        "scoring": "neg_ece",
        "name": "focal",
        "file": "checkpoint.pt",
        "imbalance_factor": 0.5,
        "epsilon": 0.1,
        "n_features": 3,
        "n_channels": 1,
        "n_classes": 3,
    }
    special = {
        "logits": lambda: {"X": logits, "X_new": logits, "from_logits": True},
        "tensors": tensors_of,
        "embeddings": tensors_of,
        "several labels": several_labels,
        "label tensors": label_tensors,
        "views": batch_of_views,
        "table": lambda: {"X": tensors_of()["logits"], "generator": None},
        "fit": lambda: {"X": logits, "X_new": logits},
        "around": lambda: {"X": logits, "X_new": logits},
        "fitted": fitted_arguments,
        "images": lambda: {"X": rng.uniform(size=(4, 1, 8, 8)), "name": "contrast"},
        "history": lambda: {"history": trained().history_, "estimator": trained()},
        "validation": validation_set,
        "online data": lambda: {"X": logits},
        "accumulated": lambda: {"mode": "positive"},
        "marked": lambda: {"correct": y > 0, "confidence": y + proba[:, 0]},
        **{name: partial(given_to_use, name) for name in USED},
    }
    return common | special.get(setting, dict)()


@cache
def trained():
    """Return a network whose history has bins and gammas of every epoch."""
    X, y = problem(n_samples=120)
    return NeuralClassifier(
        loss="adafocal", loss__n_bins=3, validation_fraction=0.5, max_epochs=2,
        callbacks=[RecordBins(n_bins=3)], random_state=0,
    ).fit(X, y)  # fmt: skip


def fitted_arguments():
    X, y = problem()
    model = LogisticRegression().fit(X, y)
    return {
        "estimator": model,
        "estimators": {"one": model},
        "X": X,
        "y": y,
        "X_in": X,
        "X_out": X - 3,
    }


def batch_of_views():
    X = torch.rand(6, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    return {"X": X, "target": torch.eye(3).repeat(2, 1), "generator": None}


def validation_set():
    X, y = problem()
    return {"net": trained(), "dataset": Dataset(X.astype(np.float32), y), "y": y}


def several_labels():
    """Return a multilabel problem."""
    logits, _ = problem()
    proba = 1 / (1 + np.exp(-logits))
    y = (np.random.default_rng(2).uniform(size=proba.shape) < proba).astype(int)
    return {"y_true": y, "y": y, **dict.fromkeys(["y_proba", "X", "X_new"], proba)}


def label_tensors():
    """Return a multilabel mini-batch."""
    batch = tensors_of()
    return {**batch, "target": (batch["logits"] > 0.5).long()}


def tensors_of():
    """Return a mini-batch and the state that functions of a mini-batch take."""
    logits, y = (torch.as_tensor(array) for array in problem(n_samples=9))
    weight = torch.linspace(0.5, 2.0, len(y), dtype=torch.float64)
    bins = torch.tensor([0.3, 0.6, 0.9], dtype=torch.float64)
    return {
        "logits": logits,
        "embeddings": logits,
        "values": logits[:, 0],
        "target": y,
        "sample_weight": weight,
        "edges": bins[:2],
        "gamma": 3 * bins,
        "bin_confidence": bins,
        "bin_accuracy": bins - 0.1,
        "X": logits.float(),
        "indices": torch.arange(len(y)),
    }


DATA = table(
    same={k: v for k, v in SAME_NUMBERS.items() if k != "tensor with grad"},
    valid={
        **ROUNDED,
        "booleans": lambda a: a > 0,
        "integers": lambda a: np.round(a).astype(int),
        "constant column": lambda a: a * (np.arange(a.shape[1]) > 0),
        "constant": lambda a: np.full(a.shape, 7.0),
        "times 1e-300": scaled(1e-300),
        "one column": lambda a: a[:, :1],
    },
    invalid={
        **{k: v for k, v in NO_ARRAYS.items() if not k.startswith("sparse")},
        **{k: v for k, v in NO_NUMBERS.items() if k not in STRINGS_OF_NUMBERS},
        "no columns": lambda a: a[:, :0],
        "1e300": scaled(1e300),
        "one dimension": lambda a: a[:, 0],
    },
    open={
        **UNUSUAL,
        **{k: v for k, v in NO_ARRAYS.items() if k.startswith("sparse")},
        **{k: v for k, v in NO_NUMBERS.items() if k in STRINGS_OF_NUMBERS},
        "tensor with grad": SAME_NUMBERS["tensor with grad"],
        "times 1e30": scaled(1e30),
    },
)
SCORES = table(
    same=SAME_NUMBERS,
    valid={
        **ROUNDED,
        **{f"times {f:g}": scaled(f) for f in (1e-300, 1e8, 1e300)},
        "ties": np.ones_like,
        "one": lambda a: a[:1],
        "half": lambda a: a[::2],
    },
    invalid={
        **{
            k: v for k, v in NO_ARRAYS.items() if k not in ("short", "sparse", "number")
        },
        "NaN": NO_NUMBERS["NaN"],
        **{k: v for k, v in NO_NUMBERS.items() if "infinity" not in k},
    },
    open={
        **UNUSUAL,
        "infinity": NO_NUMBERS["infinity"],
        "minus infinity": NO_NUMBERS["minus infinity"],
        "booleans": lambda a: a > 0,
    },
)
# Whether predictions are correct, and their confidence.
CORRECT = table(
    same=SAME_NUMBERS,
    invalid={**NO_ARRAYS, **NO_NUMBERS, "doubled": scaled(2)},
    open={**UNUSUAL, **ROUNDED, "all": np.ones_like},
)
CONFIDENCES = table(
    same=SAME_NUMBERS,
    valid={
        **ROUNDED,
        **{f"times {f:g}": scaled(f) for f in (1e-300, 1e8, 1e300)},
    },
    invalid={
        **NO_ARRAYS,
        **{k: v for k, v in NO_NUMBERS.items() if "infinity" not in k},
    },
    open={
        **UNUSUAL,
        "infinity": NO_NUMBERS["infinity"],
        "minus infinity": NO_NUMBERS["minus infinity"],
        "ties": np.ones_like,
    },
)
LABEL_LISTS = table(
    same={
        "nothing": lambda _: None,
        "list": lambda a: a.tolist(),
        "tuple": lambda a: tuple(a.tolist()),
        "range": lambda a: range(len(a)),
        "series": pd.Series,
        "objects": lambda a: a.astype(object),
    },
    invalid={
        **{name: NO_ARRAYS[name] for name in ("word", "number", "function", "ragged")},
        "empty": lambda a: a[:0],
        "short": lambda a: a[:-1],
        "longer": lambda a: np.append(a, 99),
        "repeated": lambda a: np.zeros_like(a),
        "others": lambda a: a + 7,
        "strings": lambda a: a.astype(str),
        "NaN": lambda a: [*a.tolist()[:-1], np.nan],
        "None inside": lambda a: [*a.tolist()[:-1], None],
        "lists": lambda a: [[label] for label in a.tolist()],
        "matrix": lambda a: np.eye(len(a)),
        "dicts": lambda a: [{}] * len(a),
    },
    open={
        "masked": NO_ARRAYS["masked"],
        "set": lambda a: set(a.tolist()),
        "dict": lambda a: dict.fromkeys(a.tolist()),
        "generator": lambda a: (label for label in a.tolist()),
        "floats": lambda a: a.astype(float),
        "column": lambda a: a.reshape(-1, 1),
    },
)
GROUPS = table(
    valid={
        "integers": lambda a: np.arange(len(a)) % 3,
        "list": lambda a: a.tolist(),
        "series": pd.Series,
        "categories": lambda a: pd.Series(a, dtype="category"),
        "NaN": lambda a: np.where(np.arange(len(a)) % 3, 1.0, np.nan),
        "two columns": lambda a: np.column_stack([a, a]),
        "one": np.zeros_like,
        "every sample": lambda a: np.arange(len(a)),
    },
    invalid={
        **{
            n: NO_ARRAYS[n] for n in ("word", "number", "function", "ragged", "nothing")
        },
        **{name: NO_ARRAYS[name] for name in ("short", "empty")},
        "dict": lambda a: dict(enumerate(a.tolist())),
        "set": lambda a: set(a.tolist()),
        "overall": lambda a: np.where(np.arange(len(a)) % 2, a, "overall"),
        "three dimensions": lambda a: a.reshape(-1, 1, 1),
        "dicts": lambda a: [{}] * len(a),
        "sets": lambda a: [{1}] * len(a),
    },
    open={
        "mixed": lambda a: np.array([1, "a"] * (len(a) // 2), dtype=object),
        "None inside": lambda a: [None, *a.tolist()[1:]],
        "NA inside": lambda a: [pd.NA, *a.tolist()[1:]],
        "times": lambda a: np.arange(len(a)).astype("datetime64[D]"),
        "masked": lambda a: np.ma.masked_equal(np.arange(len(a)) % 3, 1),
    },
)
