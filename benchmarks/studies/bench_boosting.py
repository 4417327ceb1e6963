"""Gradient boosting as a calibrator, with and without the predictions as offsets.

    python benchmarks/studies/bench_boosting.py results

Needs LightGBM and XGBoost, and runs CatBoost if it is installed. Data are the files of
bench_public_logits.py with at most 20 classes ("nets"), of the 20 networks on CIFAR-10
of one author the first three, and the tables of bench_trees.py with at least 2,000 rows
and at most 10 classes: 30 % of the rows train a random forest or
HistGradientBoostingClassifier, 25 % are the test set ("trees"). Calibrators are fitted
to 250, 1,000 and 4,000 samples (or all, if there are fewer) drawn from the rest, for
each seed. Boosters have 50 trees of depth 2, a learning rate of 0.05 and an L2 penalty
of 30, unless they have their default parameters. LightGBM without offsets has the
logits as features only. It has 400 trees, which were better than 50, 100 and 200, as it
starts from the class frequencies.

Each result is written as a row to `results/boosting.csv`; existing rows are not
computed again. Then prints the log loss and the Brier score divided by those of
temperature scaling: geometric mean and maximum over data sets and seeds, and the median
CPU seconds of fit and prediction. Uses one thread.
"""

import argparse
import time
import warnings
from importlib.util import find_spec
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from bench_public_logits import read_data
from bench_trees import CLASSIFIERS, read_tables
from calarena.custom_calibrators import METHODS as MAKERS, SHALLOW
from helpers.resumable import open_results
from lightgbm import LGBMClassifier
from sklearn.base import clone
from sklearn.metrics import brier_score_loss, log_loss
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits
from xgboost import XGBClassifier

from sklearn_calib._numerics.softmax import softmax
from sklearn_calib._sklearn.response import holds_logits, predict_scores
from sklearn_calib.calibrators import BoostingCalibrator
from sklearn_calib.estimators._calibrated.fold_calibrators import ClassifierCalibrator

SIZES = [250, 1000, 4000]
ONE_THREAD = {"n_jobs": 1, "random_state": 0}
BOOSTERS = {
    "LightGBM": LGBMClassifier(num_leaves=4, verbosity=-1, **SHALLOW, **ONE_THREAD),
    "XGBoost": XGBClassifier(**SHALLOW, **ONE_THREAD),
}
if find_spec("catboost"):
    from catboost import CatBoostClassifier

    quiet = {"verbose": 0, "allow_writing_files": False}
    BOOSTERS["CatBoost"] = CatBoostClassifier(
        thread_count=1, random_state=0, **quiet, **SHALLOW
    )
OTHERS = ["temperature", "structured_vector", "structured_matrix", "log_odds_spline"]
DEFAULT = LGBMClassifier(verbosity=-1, **ONE_THREAD)
DEPARTURES = ["LightGBM without offsets", "LightGBM with default parameters"]
METHODS = ["none", *OTHERS, *DEPARTURES, *BOOSTERS]
FIELDS = ["kind", "data", "size", "seed", "method", "log_loss", "brier", "seconds"]


def read_nets():
    """Yield the name, whether it has logits, and the calibration and test sets."""
    n_of_author = 0
    for name, from_logits, X, *rest in read_data():
        n_of_author += "chenyaofo" in name
        if X.shape[1] <= 20 and not ("chenyaofo" in name and n_of_author > 3):
            yield name, from_logits, X, *rest


def read_trees():
    """Yield the same for forests and boosting on tables."""
    for table, X, y in read_tables():
        if len(y) < 2000 or y.max() >= 10:
            continue
        split = {"stratify": y, "random_state": 0}
        X, X_test, y, y_test = train_test_split(X, y, test_size=0.25, **split)
        split = {"stratify": y, "random_state": 0}
        X, X_rest, y, y_rest = train_test_split(X, y, train_size=0.4, **split)
        for name, kind in CLASSIFIERS.items():
            classifier = kind(random_state=0).fit(X, y)
            from_logits = holds_logits(classifier)
            scores, scores_test = (
                predict_scores(classifier, part, from_logits)
                for part in (X_rest, X_test)
            )
            yield f"{table}, {name}", from_logits, scores, y_rest, scores_test, y_test


def calibrator_of(method, from_logits):
    """Return a calibrator that is not fitted."""
    if method in OTHERS:
        return MAKERS[method](from_logits=from_logits)
    if method in BOOSTERS:
        return BoostingCalibrator(BOOSTERS[method], from_logits=from_logits)
    if method == "LightGBM with default parameters":
        return BoostingCalibrator(DEFAULT, from_logits=from_logits)
    more_trees = clone(BOOSTERS["LightGBM"]).set_params(n_estimators=400)
    return ClassifierCalibrator(more_trees, from_logits=from_logits)


def run_all(path, n_seeds):
    """Compute the missing rows."""
    with open_results(path, FIELDS, n_keys=5) as (done, append):
        for kind, read in [("nets", read_nets), ("trees", read_trees)]:
            for data, size, seed, method in product(
                read(), SIZES, range(n_seeds), METHODS
            ):
                name, from_logits, X, y, X_test, y_test = data
                key = kind, name, str(size), str(seed), method
                if key in done:
                    continue
                chosen = np.random.default_rng(seed).permutation(len(y))[:size]
                labels = np.arange(X.shape[1])
                start = time.process_time()
                if method == "none":
                    proba = softmax(X_test) if from_logits else X_test
                else:
                    calibrator = calibrator_of(method, from_logits)
                    calibrator.fit(X[chosen], y[chosen], labels=labels)
                    proba = calibrator.predict_proba(X_test)
                seconds = time.process_time() - start
                proba = proba.astype(float) / proba.sum(axis=1, keepdims=True)
                loss = log_loss(y_test, proba, labels=labels)
                brier = brier_score_loss(
                    y_test, proba, labels=labels, scale_by_half=False
                )
                append([*key, loss, brier, seconds])


def print_table(path):
    rows = pd.read_csv(path)
    for measure in ("log_loss", "brier"):
        keys = ["kind", "size", "data", "seed"]
        wide = rows.pivot_table(measure, keys, "method")[METHODS]
        ratio = np.log(wide.div(wide["temperature"], axis=0))
        groups = ratio.groupby(["kind", "size"])
        mean, worst = np.exp(groups.mean()).T, np.exp(groups.max()).T
        both = pd.concat({"mean": mean, "worst": worst}, axis=1)
        print(f"\n{measure}, divided by that of temperature scaling")
        print(both.round(3).to_string())
    print(f"\n{len(rows.groupby(['kind', 'data']))} data sets, and CPU seconds")
    print(rows.pivot_table("seconds", "method", "size", "median").round(3))


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    path = args.folder / "boosting.csv"
    with threadpool_limits(1):
        run_all(path, args.seeds)
    print_table(path)


if __name__ == "__main__":
    main()
