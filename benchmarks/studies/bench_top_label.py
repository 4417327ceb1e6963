"""Maps of the confidence, one-vs-rest maps, and temperatures of predicted classes.

    python benchmarks/studies/bench_top_label.py results

Reads the networks of `DATA` (`SKLEARN_CALIB_DATA`, see
`bench_public_logits.py`), with ten and with 100 classes. Five times, it fits every
method to 1000 and to half of all samples, drawn at random, and evaluates it on the
others. A binary calibrator is used one-vs-rest, for the confidence
(`TopLabelCalibrator`), and for the confidence of each predicted class
(`per_class=True`, with the map of all samples for classes with few errors). Writes a
row for each network, size, method and draw to `results/top_label.csv`; existing rows
are not computed again. Prints the mean log loss, Brier score and top-label ECE (in
percent) of the networks with the same number of classes.

Uses one thread.
"""

import argparse
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from bench_public_logits import measure, read_data
from calarena.custom_calibrators import METHODS as MAKERS
from helpers.resumable import open_results
from threadpoolctl import threadpool_limits

from sklearn_calib._numerics.softmax import softmax
from sklearn_calib.calibrators import TopLabelCalibrator

DATA = [
    "cifar10_resnet50_mukhoti_ce",
    "cifar10_playground_convnet",
    "cifar10_chenyaofo_vgg13_bn",
    "cifar100_chenyaofo_resnet56",
    "cifar100_chenyaofo_vgg16_bn",
    "cifar100_netcal",
]
BINARY = ["isotonic", "beta", "histogram", "log_odds_spline"]
WAYS = ["one-vs-rest", "confidence", "per class"]
WHOLE = ["none", "temperature", "class_temperature", "structured_vector"]
METHODS = [(name, way) for name in BINARY for way in WAYS]
METHODS += [(name, "all") for name in WHOLE]
SIZES = [1000, "half"]
N_DRAWS = 5
MEASURES = ["nll", "brier", "ece"]
FIELDS = ["data", "size", "method", "way", "draw", "classes", *MEASURES]


def make_calibrator(name, way, from_logits):
    """Return a calibrator; None for the predictions before calibration."""
    if name == "none":
        return None
    if way in ("one-vs-rest", "all"):
        return MAKERS[name](from_logits=from_logits)
    return TopLabelCalibrator(
        MAKERS[name](), per_class=way == "per class", from_logits=from_logits
    )


def evaluate(calibrator, X, y, is_fit, from_logits):
    """Return the measures on the samples that are not used for the fit."""
    test = X[~is_fit].astype(np.float64)
    if calibrator is None:
        return measure(softmax(test) if from_logits else test, y[~is_fit])
    calibrator.fit(X[is_fit], y[is_fit], labels=np.arange(X.shape[1]))
    return measure(calibrator.predict_proba(test), y[~is_fit])


def run_all(path):
    """Compute the missing rows."""
    with open_results(path, FIELDS, n_keys=5) as (done, append):
        for data, from_logits, X, y, X_test, y_test in read_data():
            if data not in DATA:
                continue
            X, y = np.concatenate([X, X_test]), np.append(y, y_test)
            for size in SIZES:
                n_fit = len(y) // 2 if size == "half" else size
                for name, way in METHODS:
                    for draw in range(N_DRAWS):
                        if (data, str(size), name, way, str(draw)) in done:
                            continue
                        rng = np.random.default_rng(draw)
                        is_fit = rng.permutation(len(y)) < n_fit
                        calibrator = make_calibrator(name, way, from_logits)
                        found = evaluate(calibrator, X, y, is_fit, from_logits)
                        values = [found[each] for each in MEASURES]
                        append([data, size, name, way, draw, X.shape[1], *values])


def print_tables(path):
    table = pd.read_csv(path)
    table["ece"] *= 100
    keys = ["classes", "size", "method", "way"]
    for (classes, size), rows in table.groupby(keys[:2], sort=False):
        means = rows.groupby(keys[2:], sort=False)[MEASURES].mean()
        print(f"\n{classes} classes, fitted to {size}\n{means.round(4)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, nargs="?", default=Path("results"))
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        path = args.folder / "top_label.csv"
        run_all(path)
        print_tables(path)


if __name__ == "__main__":
    main()
