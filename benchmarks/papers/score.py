"""Metrics of a run on the test set, before and after post-hoc calibration."""

import platform
import subprocess
from pathlib import Path

import numpy as np
import sklearn
import torch
from sklearn.base import clone
from sklearn.metrics import log_loss

import sklearn_calib
from sklearn_calib._numerics.confidence import negative_entropy
from sklearn_calib._numerics.softmax import softmax
from sklearn_calib._state.whole_file import whole_file
from sklearn_calib.calibrators import (
    StructuredMatrixScaling,
    StructuredVectorScaling,
    TemperatureScaling,
)
from sklearn_calib.metrics import (
    aurc_loss,
    classwise_calibration_error,
    expected_calibration_error,
    ood_auroc_score,
    smooth_expected_calibration_error,
)

CALIBRATORS = {
    "temperature": TemperatureScaling(from_logits=True),
    "structured_vector": StructuredVectorScaling(lambd=1.0, from_logits=True),
    "structured_matrix": StructuredMatrixScaling(lambd=1.0, from_logits=True),
}
GRID = np.arange(1, 101) / 10  # temperatures of the papers' search


def write_logits(path, arrays):
    """Write labels, and logits less each row's maximum in half precision."""
    path.parent.mkdir(parents=True, exist_ok=True)
    short = {
        name: array
        if name.startswith("y_")
        else (array - array.max(1, keepdims=True)).astype(np.float16)
        for name, array in arrays.items()
    }
    with whole_file(path) as part, part.open("wb") as file:
        np.savez_compressed(file, **short)


def read_logits(path):
    """Return the contents of a file, with the logits in double precision."""
    with np.load(path) as file:
        return {
            name: file[name] if name.startswith("y_") else file[name].astype(np.float64)
            for name in file.files
        }


def score(logits):
    """Return a row without calibration and one for each calibration protocol.

    Calibrators are fitted to the calibration split. "temperature by ECE" and, in bins
    of equal mass, "temperature by adaptive ECE" are the papers' grid search on the same
    split. Two protocols leak: "lowest" reports the epoch with the lowest ECE on the
    test set, and "temperature by training ECE" is fitted to the training split.
    `valid_ece`, the ECE of the uncalibrated logits on the validation split, is used to
    choose the parameters of losses.
    """
    test, y_test = logits["test"], logits["y_test"]
    held_out = logits["calibration"], logits["y_calibration"]
    out = logits.get("out")
    rows = [row("none", y_test, softmax(test), softmax_or_none(out), 1.0)]
    for name, calibrator in CALIBRATORS.items():
        model = clone(calibrator).fit(*held_out)
        proba_out = None if out is None else model.predict_proba(out)
        temperature = model.temperature_ if name == "temperature" else np.nan
        proba = model.predict_proba(test)
        rows.append(row(name, y_test, proba, proba_out, temperature))
    fits = {
        "temperature by ECE": ("uniform", held_out),
        "temperature by adaptive ECE": ("quantile", held_out),
        "temperature by training ECE": (
            "uniform",
            (logits["train"], logits["y_train"]),
        ),
    }
    for name, (strategy, fit) in fits.items():
        temperature = lowest_ece_temperature(*fit, strategy)
        rows.append(row(name, y_test, softmax(test / temperature), None, temperature))
    if "lowest" in logits:
        rows.append(row("lowest", y_test, softmax(logits["lowest"]), None, 1.0))
    valid_ece = expected_calibration_error(logits["y_valid"], softmax(logits["valid"]))
    return [{**row, "valid_ece": valid_ece} for row in rows]


def softmax_or_none(logits):
    """Return probabilities, or None without logits."""
    return None if logits is None else softmax(logits)


def lowest_ece_temperature(logits, y, strategy):
    """Return the temperature of the papers' grid with the lowest ECE."""
    errors = [
        expected_calibration_error(y, softmax(logits / T), strategy=strategy)
        for T in GRID
    ]
    return GRID[np.argmin(errors)]


def row(name, y, proba, proba_out, temperature):
    """Return the metrics of one calibration protocol."""
    auroc = np.nan
    if proba_out is not None:
        auroc = ood_auroc_score(negative_entropy(proba), negative_entropy(proba_out))
    return {
        "map": name,
        "error": (proba.argmax(1) != y).mean(),
        "ece": expected_calibration_error(y, proba),
        "adaptive_ece": expected_calibration_error(y, proba, strategy="quantile"),
        "classwise_ece": classwise_calibration_error(y, proba),
        "smece": smooth_expected_calibration_error(y, proba),
        "aurc": aurc_loss(y, proba),
        "nll": log_loss(y, proba),
        "temperature": temperature,
        "ood_auroc": auroc,
    }


def describe_machine():
    """Return the versions of the software."""
    return {
        "sklearn_calib": sklearn_calib.__version__,
        "revision": read_revision(),
        "torch": torch.__version__,
        "sklearn": sklearn.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


def read_revision():
    """Return the commit of the checkout, followed by a plus if files were changed."""
    changes = ask_git("status", "--porcelain", "-uno", "--", ":/", ":!results")
    revision = ask_git("rev-parse", "--short", "HEAD") + ("+" if changes else "")
    return revision or "no checkout"


def ask_git(*command):
    """Return the output of a git command in this folder, or an empty string."""
    command, folder = ["git", *command], Path(__file__).parent
    answer = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    return answer.stdout.strip()
