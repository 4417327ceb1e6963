"""Multicalibration: log loss and calibration errors of overlapping groups on adult.

    python benchmarks/populations/bench_multicalibration.py results

The table adult is in the folder `tabular` of the shared data (`SKLEARN_CALIB_DATA`).
The columns of groups are sex, race, education, marital status and age band. 15,000
random rows train a classifier, 10,000 or 2,000 others fit the calibrators, and all
others measure. Classifiers are gradient boosting (HistGradientBoostingClassifier) with
all columns, and gradient boosting and logistic regression that are "blind": they see
neither the columns of groups nor relationship, which tells sex and marital status.

There are two targets: income, with two classes, and occupation, with the eleven largest
classes, of which 12,000 rows train the two blind classifiers. Compared are no
calibration, the default calibrators without and with groups (`auto`, `per_group` for
all combinations of the columns, `multicalibration`), the same with temperature scaling
as the calibrator of all samples, and MCGrad of the package mcgrad, with its default
parameters, if it is installed. For occupation, only the calibrators with temperature
scaling are compared, as MCGrad has two classes only and the default takes long.

Each result is a row of `results/multicalibration.csv`; existing rows are not computed
again. Then prints the means over ten (income) or five (occupation) random splits: the
log loss, the debiased calibration error (norm "l2", of the positive class or
class-wise) of all samples, the largest and the mean one of the values of the columns
with at least 1,000 samples of the test set, the largest one of the combinations of the
values of two columns with as many, and the CPU seconds of fit and prediction. Uses one
thread.
"""

import argparse
import logging
import sys
import time
import warnings
from functools import cache
from importlib.util import find_spec
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from threadpoolctl import threadpool_limits

from sklearn_calib.calibrators import (
    AutoCalibrator,
    Calibrator,
    MulticalibrationBoosting,
    PerGroupCalibrator,
    TemperatureScaling,
)
from sklearn_calib.metrics import expected_calibration_error

sys.path.insert(0, str(Path(__file__).parents[1] / "studies"))
from bench_trees import DATA
from helpers.resumable import add_missing

GROUPS = ["sex", "race", "education", "marital_status"]
HIDDEN = [*GROUPS, "age", "education_num", "relationship"]
BOOSTING = HistGradientBoostingClassifier(random_state=0)
CLASSIFIERS = {
    "boosting": (BOOSTING, []),
    "blind_boosting": (BOOSTING, HIDDEN),
    "blind_logistic": (LogisticRegression(max_iter=500), HIDDEN),
}
TARGETS = {"income": (15_000, 10), "occupation": (12_000, 5)}
HAS_MCGRAD = find_spec("mcgrad") is not None
N_CALIBRATION, LEAST_SAMPLES = 10_000, 1000
METHODS = {
    "none": None,
    "auto": AutoCalibrator(),
    "per_group": PerGroupCalibrator(),
    "multicalibration": MulticalibrationBoosting(),
    "temperature": TemperatureScaling(),
    "per_group_temperature": PerGroupCalibrator(TemperatureScaling()),
    "multicalibration_temperature": MulticalibrationBoosting(TemperatureScaling()),
}
KEYS = ["target", "classifier", "size", "seed", "method"]
MEASURES = ["log_loss", "error", "worst", "mean", "worst_pair", "seconds"]
ERROR = {"norm": "l2", "reduce_bias": True}


@cache
def read_table(target):
    """Return the features, the codes of the classes, and the groups."""
    frame = pd.read_csv(DATA / "tabular" / "adult.csv.gz").drop(columns="split")
    name = "target"
    if target == "occupation":
        name, largest = "occupation", frame["occupation"].value_counts()
        kept = largest.drop(["?"]).index[:11]
        frame = frame[frame["occupation"].isin(kept)].reset_index(drop=True)
    groups = frame[GROUPS].copy()
    ages = pd.cut(frame["age"], [0, 25, 35, 45, 55, 65, 200])
    groups["age"] = ages.astype(str)
    return frame.drop(columns=name), pd.factorize(frame[name], sort=True)[0], groups


@cache
def predict(target, classifier, seed):
    """Return the predictions for the rows that are not trained with, and the rows."""
    X, y, _ = read_table(target)
    rows = np.random.default_rng(seed).permutation(len(y))
    n_train = TARGETS[target][0]
    base, hidden = CLASSIFIERS[classifier]
    names = make_column_selector(dtype_exclude="number")
    features = make_column_transformer(
        (OneHotEncoder(min_frequency=20, handle_unknown="infrequent_if_exist"), names),
        remainder=StandardScaler(),
        sparse_threshold=0,
    )
    seen = X.drop(columns=[each for each in hidden if each in X])
    model = make_pipeline(features, base)
    model.fit(seen.iloc[rows[:n_train]], y[rows[:n_train]])
    rest = rows[n_train:]
    return model.predict_proba(seen.iloc[rest]), rest


def mcgrad_proba(proba, y, groups, new, new_groups):
    """Return the probabilities of MCGrad for new samples."""
    from mcgrad.methods import MCGrad

    columns = list(groups)
    train = groups.assign(prediction=proba[:, 1], label=y)
    model = MCGrad().fit(
        train, "prediction", "label", categorical_feature_column_names=columns
    )
    positive = model.predict(
        new_groups.assign(prediction=new[:, 1]), "prediction", columns
    )
    return np.column_stack([1 - positive, positive])


def calibrated(method, proba, y, groups, new, new_groups):
    """Return calibrated probabilities of new samples."""
    if method == "mcgrad":
        return mcgrad_proba(proba, y, groups, new, new_groups)
    calibrator = METHODS[method]
    if calibrator is None:
        return new
    labels = {"labels": np.arange(proba.shape[1])}
    if isinstance(calibrator, Calibrator):
        return calibrator.fit(proba, y, **labels).predict_proba(new)
    calibrator.fit(proba, y, groups=groups, **labels)
    return calibrator.predict_proba(new, groups=new_groups)


def error_of(y, proba):
    mode = "positive" if proba.shape[1] == 2 else "classwise"
    labels = np.arange(proba.shape[1])
    return expected_calibration_error(y, proba, mode=mode, labels=labels, **ERROR)


def group_errors(y, proba, groups, n_columns):
    """Return the errors of the groups of one column, or of two, that are large."""
    parts = [
        rows
        for columns in combinations(groups, n_columns)
        for rows in groups.groupby(list(columns)).indices.values()
    ]
    large = [rows for rows in parts if len(rows) >= LEAST_SAMPLES]
    return [error_of(y[rows], proba[rows]) for rows in large]


def measure(target, classifier, size, seed, method):
    """Return the results of one method."""
    proba, rest = predict(target, classifier, seed)
    _, y, groups = read_table(target)
    y, groups = y[rest], groups.iloc[rest].reset_index(drop=True)
    fit, test = slice(size), slice(N_CALIBRATION, None)
    start = time.process_time()
    found = calibrated(
        method, proba[fit], y[fit], groups[fit], proba[test], groups[test]
    )
    seconds = time.process_time() - start
    y, groups = y[test], groups[test].reset_index(drop=True)
    errors, pairs = (group_errors(y, found, groups, n) for n in (1, 2))
    loss = log_loss(y, found, labels=np.arange(proba.shape[1]))
    return loss, error_of(y, found), max(errors), np.mean(errors), max(pairs), seconds


def tasks():
    """Yield the keys of all results."""
    for target, (_, n_seeds) in TARGETS.items():
        methods, classifiers = [*METHODS, *["mcgrad"] * HAS_MCGRAD], list(CLASSIFIERS)
        if target == "occupation":
            methods = ["none", *(name for name in METHODS if "temperature" in name)]
            classifiers.remove("boosting")
        for classifier, seed in product(classifiers, range(n_seeds)):
            for size, method in product([2000, N_CALIBRATION], methods):
                yield target, classifier, size, seed, method


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    args = parser.parse_args()
    path = args.folder / "multicalibration.csv"
    logging.disable(logging.WARNING)  # those of mcgrad
    warnings.simplefilter("ignore", UserWarning)
    with threadpool_limits(1):
        add_missing(path, [*KEYS, *MEASURES], tasks(), measure)
    results = pd.read_csv(path)
    keys = ["target", "classifier", "size", "method"]
    means = results.groupby(keys, sort=False)[MEASURES].mean()
    print(means.round(4).to_string())


if __name__ == "__main__":
    main()
