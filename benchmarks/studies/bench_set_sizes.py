"""Mean size of prediction sets, with and without calibrating the probabilities first.

    python benchmarks/studies/bench_set_sizes.py FOLDER

Reads the networks of `DATA` (`SKLEARN_CALIB_DATA`, see `bench_public_logits.py`).
Twenty times, it draws 1000 samples for the calibrator and 1000 for
`PredictionSetClassifier`, and evaluates the sets of all other samples. Writes a row
with the coverage and the mean size for each network, calibrator, score, level and draw
to `FOLDER/set_sizes.csv`; existing rows are not computed again. Prints the means of the
draws.

Uses one thread.
"""

import argparse
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from bench_public_logits import read_data
from helpers.recorded import Recorded
from helpers.resumable import open_results
from sklearn.frozen import FrozenEstimator
from threadpoolctl import threadpool_limits

from sklearn_calib import PredictionSetClassifier
from sklearn_calib._numerics.softmax import softmax
from sklearn_calib.calibrators import get_calibrator
from sklearn_calib.metrics import mean_set_size_loss, set_coverage_score

DATA = [
    "cifar10_resnet50_mukhoti_ce",
    "cifar10_playground_convnet",
    "cifar10_chenyaofo_vgg13_bn",
    "cifar100_chenyaofo_resnet56",
    "cifar100_chenyaofo_vgg16_bn",
    "cifar100_netcal",
]
CALIBRATORS, SCORES = ["none", "temperature", "auto"], ["lac", "aps", "raps"]
LEVELS, N_FIT, N_DRAWS = [0.9, 0.99], 1000, 20
FIELDS = ["data", "calibrator", "draw", "score", "level", "classes"]
FIELDS += ["coverage", "size"]


def evaluate(name, X, y, from_logits, draw):
    """Yield the score, level, coverage and mean size of the sets of one draw."""
    order = np.random.default_rng(draw).permutation(len(y))
    fit, held_out, test = np.split(order, [N_FIT, 2 * N_FIT])
    labels = np.arange(X.shape[1])
    if name == "none":
        proba = softmax(X) if from_logits else X
    else:
        calibrator = get_calibrator(name)(from_logits=from_logits)
        calibrator.fit(X[fit], y[fit], labels=labels)
        proba = calibrator.predict_proba(X)
    for score in SCORES:
        frozen = FrozenEstimator(Recorded(X.shape[1]))
        model = PredictionSetClassifier(
            frozen, conformity_score=score, random_state=draw
        )
        model.fit(proba[held_out], y[held_out])
        for level in LEVELS:
            model.set_params(confidence_level=level)
            given = y[test], model.predict_set(proba[test])
            measured = [
                metric(*given, labels=labels)
                for metric in (set_coverage_score, mean_set_size_loss)
            ]
            yield score, level, X.shape[1], *measured


def run_all(path):
    """Compute the missing rows."""
    with open_results(path, FIELDS, n_keys=3) as (done, append):
        for data, from_logits, X, y, X_test, y_test in read_data():
            if data not in DATA:
                continue
            X = np.concatenate([X, X_test]).astype(np.float64)
            y = np.append(y, y_test)
            for name, draw in product(CALIBRATORS, range(N_DRAWS)):
                if (data, name, str(draw)) not in done:
                    for found in [*evaluate(name, X, y, from_logits, draw)]:
                        append([data, name, draw, *found])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    path = parser.parse_args().folder / "set_sizes.csv"
    with threadpool_limits(1):
        run_all(path)
    table = pd.read_csv(path)
    keys = ["level", "data", "score", "calibrator"]
    means = table.groupby(keys, sort=False)[["coverage", "size"]].mean()
    print(means.unstack().round(3).to_string())


if __name__ == "__main__":
    main()
