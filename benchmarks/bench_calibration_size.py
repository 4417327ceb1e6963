"""How many samples a calibrator needs.

    python benchmarks/bench_calibration_size.py

For logits of networks on CIFAR-10 and CIFAR-100 (`SKLEARN_CALIB_DATA`), fits
calibrators to random parts of the calibration half, of growing size, and prints the
mean log loss on the other half over `--repeats` parts, in percent above that before
calibration: below 0 it helps. One thread.
"""

import argparse
import warnings

import numpy as np
from bench_public_logits import read_data
from threadpoolctl import threadpool_limits

from sklearn_calib._core.links import log_softmax
from sklearn_calib.calibrators import get_calibrator

DATA = [
    "cifar10_resnet110_kull",
    "cifar10_chenyaofo_vgg13_bn",
    "cifar100_chenyaofo_resnet56",
    "cifar100_chenyaofo_repvgg_a2",
]
METHODS = [
    "temperature",
    "ensemble_temperature",
    "structured_vector",
    "structured_matrix",
    "joint_beta",
    "vector",
    "isotonic",
]
SIZES = [50, 100, 200, 500, 1000, 2000, 4000]


def log_loss(log_proba, y):
    return -log_proba[np.arange(len(y)), y].mean()


def gain(method, X, y, X_test, y_test, rows):
    """Return the log loss after calibration over that before, less one."""
    labels = np.arange(X.shape[1])
    calibrator = get_calibrator(method)(from_logits=True)
    calibrator.fit(X[rows], y[rows], labels=labels)
    after = log_loss(np.log(calibrator.predict_proba(X_test)), y_test)
    return after / log_loss(log_softmax(X_test), y_test) - 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=10)
    repeats = parser.parse_args().repeats
    warnings.simplefilter("ignore")
    for name, _, X, y, X_test, y_test in read_data():
        if name not in DATA:
            continue
        data = X.astype(np.float64), y, X_test.astype(np.float64), y_test
        print(f"\n{name}\n{'':24}" + "".join(f"{size:>9}" for size in SIZES))
        for method in METHODS:
            gains = []
            for size in SIZES:
                rng = np.random.default_rng(0)
                parts = [rng.permutation(len(y))[:size] for _ in range(repeats)]
                gains.append(np.mean([gain(method, *data, rows) for rows in parts]))
            cells = "".join(f"{100 * one:9.1f}" for one in gains)
            print(f"{method:24}{cells}", flush=True)


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
