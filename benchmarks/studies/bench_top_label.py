"""Maps of the confidence, one-vs-rest maps, and temperatures of predicted classes.

    python benchmarks/studies/bench_top_label.py results
    python benchmarks/studies/bench_top_label.py results --simulated

The first command reads the networks of `DATA` (`SKLEARN_CALIB_DATA`, see
`bench_public_logits.py`), with ten and with 100 classes. Five times, it fits every
method to 1000 and to half of all samples, drawn at random, and evaluates it on the
others. A binary calibrator is used one-vs-rest, for the confidence
(`TopLabelCalibrator`), and for the confidence of each predicted class
(`per_class=True`, with the map of all samples for classes with few errors). Writes a
row for each network, size, method and draw to `results/top_label.csv`; existing rows
are not computed again. Prints the mean log loss, Brier score and top-label ECE (in
percent) of the networks with the same number of classes.

With `--simulated`, the logits of a calibrated classifier are multiplied by a number for
each predicted class, whose logarithm is normal with the standard deviation `spread`.
Prints by how many nats, summed over the n samples of the fit, the expected log loss of
one temperature and of a temperature for each predicted class is above that of the true
probabilities, in the mean over 50 draws (10 for 100 classes).

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

from sklearn_calib._numerics.softmax import log_softmax, softmax
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
SPREADS, N_FIT, N_TEST = [0, 0.1, 0.3], [100, 400, 2000], 4000


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


def excess(names, n_classes, spread, n_fit, seed):
    """Return the excess of the expected log loss over that of the truth, in nats."""
    rng = np.random.default_rng(seed)
    factor = np.exp(spread * rng.normal(size=n_classes))
    scores = 3 * rng.normal(size=(n_fit + N_TEST, n_classes))
    logits = scores * factor[scores.argmax(axis=1)][:, None]
    y = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)[:n_fit]
    truth, best = softmax(scores[n_fit:]), log_softmax(scores[n_fit:])
    found = []
    for name in names:
        fitted = MAKERS[name](from_logits=True)
        fitted.fit(logits[:n_fit], y, labels=np.arange(n_classes))
        proba = fitted.predict_proba(logits[n_fit:])
        found.append((truth * (best - np.log(proba))).sum(axis=1).mean())
    return np.array(found)


def print_simulated():
    names = ["temperature", "class_temperature"]
    print(f"{'classes':>8}{'spread':>8}{'n':>8}" + "".join(f"{n:>20}" for n in names))
    for n_classes in (2, 10, 100):
        for spread in SPREADS:
            for n_fit in N_FIT:
                draws = range(10 if n_classes == 100 else 50)
                rows = [excess(names, n_classes, spread, n_fit, i) for i in draws]
                cells = "".join(f"{x:20.2f}" for x in n_fit * np.mean(rows, axis=0))
                print(f"{n_classes:8}{spread:8}{n_fit:8}{cells}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, nargs="?", default=Path("results"))
    parser.add_argument("--simulated", action="store_true")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        if args.simulated:
            print_simulated()
        else:
            path = args.folder / "top_label.csv"
            run_all(path)
            print_tables(path)


if __name__ == "__main__":
    main()
