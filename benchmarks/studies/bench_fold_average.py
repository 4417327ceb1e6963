"""Averages of classifiers that are trained on folds, calibrated in several ways.

    python benchmarks/studies/bench_fold_average.py FOLDER choose
    python benchmarks/studies/bench_fold_average.py FOLDER confirm

"choose" compares candidates on four data sets. The predictions of the classifiers are
kept in `FOLDER/predictions`. In the names of candidates, "5 x 1" means five folds drawn
once, and "7 x .57" seven random parts of 57 % of the rows. All but "5 x 2" train as
many rows as the first. "confirm" compares "3 x 2", chosen by the first stage, with what
it replaced, on four other data sets, with more classifiers and calibrators. Data
are tables of bench_trees.py, with at most ten classes, digits with normal noise, and a
synthetic problem with 15 % wrong labels. 300 and 1,000 rows are for training, at most
4,000 others are the test set.

Each result is written as a row to `FOLDER/fold_average_choose.csv` (or confirm);
existing rows are not computed again. Then prints the means of accuracy, log loss, ECE
and confidence - accuracy over all problems, the mean of the absolute value of the
last over (data, classifier, rows), and the standard errors of the differences to the
second candidate. Uses one thread.
"""

import argparse
import warnings
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from bench_trees import read_tables
from helpers.resumable import open_results
from scipy.optimize import minimize
from scipy.special import log_softmax, logsumexp, softmax
from sklearn.datasets import load_digits, make_classification
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.metrics import log_loss
from sklearn.model_selection import (
    StratifiedKFold,
    StratifiedShuffleSplit,
    train_test_split,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from sklearn_calib import CalibratedClassifier
from sklearn_calib._expressions.rows import log_of_tiny, pool
from sklearn_calib._state.whole_file import whole_file
from sklearn_calib.calibrators import TemperatureScaling, get_calibrator
from sklearn_calib.estimators._calibrated.average import fit_pool
from sklearn_calib.metrics import expected_calibration_error

DATA = {
    "choose": ["noisy digits", "label noise", "satimage", "adult"],
    "confirm": ["letter", "spambase", "krkopt", "german_credit"],
}
MODELS = {
    "network": lambda seed: make_pipeline(
        StandardScaler(), MLPClassifier(max_iter=60, random_state=seed)
    ),
    "boosting": lambda seed: HistGradientBoostingClassifier(
        max_iter=60, random_state=seed
    ),
    "forest": lambda seed: RandomForestClassifier(random_state=seed),
    "naive Bayes": lambda _: GaussianNB(),
    "SVM": lambda seed: make_pipeline(StandardScaler(), LinearSVC(random_state=seed)),
}
CASES = {
    "choose": [*product(list(MODELS)[:3], ["temperature", "auto"])],
    "confirm": [
        *product(list(MODELS)[:4], ["temperature", "auto", "isotonic", "beta"]),
        *product(["SVM"], ["auto", "isotonic"]),
    ],
}
SIZES = [300, 1000]
SCHEMES = {
    "5 x 1": lambda seed: StratifiedKFold(5, shuffle=True, random_state=seed),
    "2 x 1": lambda seed: StratifiedKFold(2, shuffle=True, random_state=seed),
    "3 x 2": lambda seed: StratifiedKFold(3, shuffle=True, random_state=seed),
    "5 x 2": lambda seed: StratifiedKFold(5, shuffle=True, random_state=seed),
    "7 x .57": lambda seed: StratifiedShuffleSplit(
        7, train_size=4 / 7, random_state=seed
    ),
}
MEASURES = ["accuracy", "log loss", "ECE", "gap"]
FIELDS = ["data", "model", "rows", "seed", "calibrator", "candidate", *MEASURES]


def read(name, seed, tables):
    """Return features and encoded labels; noise depends on the seed."""
    if name == "noisy digits":
        X, y = load_digits(return_X_y=True)
        return X + np.random.default_rng(seed).normal(scale=8, size=X.shape), y
    if name == "label noise":
        sizes = {"n_samples": 6000, "n_features": 20, "n_informative": 6}
        return make_classification(**sizes, n_classes=4, flip_y=0.15, random_state=seed)
    X, y = tables[name]
    return X[y < 10], y[y < 10]


def split(X, y, rows, seed):
    """Return the training and the test part."""
    rows = min(rows, len(y) // 2)
    rest = min(4000, len(y) - rows)
    return train_test_split(
        X, y, train_size=rows, test_size=rest, stratify=y, random_state=seed
    )


def predict(make, seed, X, y, X_test):
    """Return held-out and test probabilities of the classifiers of each scheme."""

    def proba(classifier, part):
        filled = np.zeros((len(part), y.max() + 1))
        filled[:, classifier.classes_] = classifier.predict_proba(part)
        return filled

    found = {"all": proba(make(seed).fit(X, y), X_test)}
    for scheme, splitter in SCHEMES.items():
        held_out, rows, tests = [], [], []
        for repeat in range(1 + scheme.endswith("x 2")):
            for train, test in splitter(10 * seed + repeat).split(X, y):
                classifier = make(seed).fit(X[train], y[train])
                held_out.append(proba(classifier, X[test]))
                rows.append(test)
                tests.append(proba(classifier, X_test))
        found[f"{scheme} sizes"] = np.array([len(part) for part in rows])
        found[f"{scheme} rows"] = np.concatenate(rows)
        found[f"{scheme} held out"] = np.concatenate(held_out)
        found[f"{scheme} test"] = np.array(tests)
    return found


class Folds:
    """The classifiers of one scheme, calibrated; `shared` by the folds of a repeat."""

    def __init__(self, found, scheme, calibrator, y, shared):
        self.y, self.rows = y, found[f"{scheme} rows"]
        self.classes = np.arange(found["all"].shape[1])
        ends = np.cumsum(found[f"{scheme} sizes"])
        n_folds = int(scheme[0]) if shared else 1
        self.held_out = found[f"{scheme} held out"].copy()
        self.tests = found[f"{scheme} test"].copy()
        starts = np.append(0, ends)
        for k in range(0, len(ends), n_folds):
            own = slice(starts[k], starts[k + n_folds])
            self.fitted = get_calibrator(calibrator)()
            self.fitted.fit(self.held_out[own], y[self.rows[own]], labels=self.classes)
            self.held_out[own] = self.fitted.predict_proba(self.held_out[own])
            for member in range(k, k + n_folds):
                self.tests[member] = self.fitted.predict_proba(self.tests[member])
        self.n_members = len(ends)
        # The part of the way from one member to all that two members go, inverted.
        self.factor = 2 * (1 - 1 / self.n_members)

    def pairs(self, values=None):
        """Return the held-out probabilities of each row in two repeats."""
        values = self.held_out if values is None else values
        order = np.argsort(self.rows, kind="stable")
        return values[order].reshape(len(self.y), 2, -1).transpose(1, 0, 2)

    def mean(self):
        """Return the average."""
        return self.tests.mean(axis=0)

    def sharpened(self):
        """Return the average with the temperature of the package."""
        about = self.y, None, self.classes, self.n_members
        return pool(self.tests, *fit_pool(self.held_out, self.rows, *about))

    def power_mean(self, power):
        """Return a power mean, 0 for the geometric, with a temperature."""

        def pooled(members):
            logs = np.log(np.maximum(members, 1e-12))
            if power == 0:
                return logs.mean(axis=0)
            return logsumexp(power * logs, axis=0) / power

        one = temperature(np.log(self.held_out), self.y[self.rows])
        two = temperature(pooled(self.pairs()), self.y)
        ratio = 1 - self.factor * (1 - max(two / one, 0.5))
        return softmax(pooled(self.tests) / ratio, axis=1)

    def extrapolated(self, calibrator):
        """Return the average, changed by the map of averages of two, extrapolated."""
        second = get_calibrator(calibrator)()
        second.fit(self.pairs().mean(axis=0), self.y, labels=self.classes)
        before = self.mean()
        change = np.log(second.predict_proba(before)) - np.log(before)
        return softmax(np.log(before) + self.factor * change, axis=1)

    def raw(self, found, scheme):
        """Return the average before calibration; log(1 / T) is extrapolated."""
        held_out = np.maximum(found[f"{scheme} held out"], 1e-6)
        tests = np.maximum(found[f"{scheme} test"], 1e-6)
        one = temperature(np.log(held_out), self.y[self.rows])
        two = temperature(np.log(self.pairs(held_out).mean(axis=0)), self.y)
        log_inverse = -np.log(one) + self.factor * np.log(one / two)
        return softmax(np.log(tests.mean(axis=0)) * np.exp(log_inverse), axis=1)

    def jucal(self, found, scheme):
        """Return the average with scaled members and spread, fitted to pairs."""
        held_out = np.log(np.maximum(found[f"{scheme} held out"], 1e-6))
        tests = np.log(np.maximum(found[f"{scheme} test"], 1e-6))

        def pooled(logits, constants):
            scale, spread = np.exp(constants)
            centre = scale * logits.mean(axis=0)
            members = centre + spread * (scale * logits - centre)
            logs = log_softmax(members, axis=2)
            return logsumexp(logs, axis=0) - np.log(len(logits))

        pairs, each = self.pairs(held_out), np.arange(len(self.y))
        best = minimize(
            lambda constants: -pooled(pairs, constants)[each, self.y].mean(),
            np.zeros(2),
            method="Nelder-Mead",
        )
        return np.exp(pooled(tests, best.x))


def temperature(logits, y):
    """Return the temperature with the smallest log loss."""
    scaling = TemperatureScaling(from_logits=True)
    return scaling.fit(logits, y, labels=np.arange(logits.shape[1])).temperature_


def candidates(found, calibrator, y):
    """Yield the name and the test probabilities of each candidate."""
    before = Folds(found, "5 x 1", calibrator, y, shared=False)
    yield "ensemble=True, 5 x 1, a map for each fold", before.mean()
    joint = Folds(found, "5 x 1", calibrator, y, shared=True)
    final = joint.fitted.predict_proba(found["all"])
    yield "ensemble=False, 5 folds", final
    # Temperatures are linear in 1 / rows: 2 for halves, 1.25 for four fifths.
    halves = joint.fitted.predict_proba(found["2 x 1 held out"])
    half = temperature(np.log(halves), y[found["2 x 1 rows"]])
    corrected = max(1 - (half - 1) / 3, 0.1)
    logits = log_of_tiny(final) / corrected
    yield "the same, temperature extrapolated to all rows", softmax(logits, axis=1)
    yield "5 x 1, one map, mean", joint.mean()
    folds = Folds(found, "3 x 2", calibrator, y, shared=True)
    yield "3 x 2, mean", folds.mean()
    yield "3 x 2, square roots, temperature", folds.sharpened()
    yield "3 x 2, geometric mean, temperature", folds.power_mean(0)
    yield "3 x 2, mean, temperature", folds.power_mean(1)
    yield "3 x 2, mean, second map extrapolated", folds.extrapolated(calibrator)
    yield "3 x 2, beta map extrapolated", folds.extrapolated("beta")
    each = Folds(found, "3 x 2", calibrator, y, shared=False)
    yield "3 x 2, a map for each fold, temperature", each.sharpened()
    parts = Folds(found, "7 x .57", calibrator, y, shared=False)
    yield "7 x .57, square roots, temperature", parts.sharpened()
    more = Folds(found, "5 x 2", calibrator, y, shared=True)
    yield "5 x 2, square roots, temperature", more.sharpened()
    if calibrator == "temperature":
        yield "3 x 2, raw mean, extrapolated", folds.raw(found, "3 x 2")
        yield "3 x 2, JUCAL on pairs", folds.jucal(found, "3 x 2")


def classifiers(make, calibrator, seed, folder):
    """Yield the name and the classifier of each candidate to confirm."""
    shared = {"memory": folder / "memory", "calibrator": calibrator}
    folds = StratifiedKFold(5)
    for name, options in [
        ("ensemble=True, 5 x 1, a map for each fold", {"cv": folds}),
        ("ensemble=False, 5 folds", {"cv": folds, "ensemble": False}),
        ("3 x 2, square roots, temperature", {"cv": 3}),
        ("5 x 2, square roots, temperature", {"cv": 5}),
    ]:
        yield name, CalibratedClassifier(make(seed), **shared, **options)


def measured(proba, y):
    """Return accuracy, log loss, ECE and confidence - accuracy."""
    proba = proba / proba.sum(axis=1, keepdims=True)
    accuracy = np.mean(proba.argmax(axis=1) == y)
    loss = log_loss(y, proba, labels=np.arange(proba.shape[1]))
    error = expected_calibration_error(y, proba)
    return accuracy, loss, error, proba.max(axis=1).mean() - accuracy


def outcomes(stage, model, calibrator, seed, data, path):
    """Yield the name and the measures of each candidate."""
    X, X_test, y, y_test = data
    make = MODELS[model]
    if stage == "confirm":
        for name, classifier in classifiers(make, calibrator, seed, path.parents[1]):
            proba = classifier.fit(X, y).predict_proba(X_test)
            yield name, measured(proba, y_test)
        return
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as part, part.open("wb") as file:
            np.savez(file, **predict(make, seed, X, y, X_test))
    for name, proba in candidates(dict(np.load(path)), calibrator, y):
        yield name, measured(proba, y_test)


def run_all(folder, stage, n_seeds):
    """Compute the missing rows."""
    tables = {name: (X, y) for name, X, y in read_tables()}
    path = folder / f"fold_average_{stage}.csv"
    with open_results(path, FIELDS, n_keys=5) as (done, append):
        problems = product(range(n_seeds), SIZES, DATA[stage])
        for seed, rows, name in problems:
            data = split(*read(name, seed, tables), rows, seed)
            for model, calibrator in CASES[stage]:
                key = name, model, str(rows), str(seed), calibrator
                if key in done:
                    continue
                file = folder / "predictions" / f"{name} {model} {rows} {seed}.npz"
                results = [*outcomes(stage, model, calibrator, seed, data, file)]
                for candidate, values in results:
                    append([*key, candidate, *values])
    return pd.read_csv(path)


def print_table(part):
    """Print the measures of each candidate."""
    problem = ["data", "model", "rows"]
    names = part["candidate"].unique()
    table = part.groupby("candidate")[MEASURES].mean()
    cells = part.groupby(["candidate", *problem])["gap"].mean().abs()
    table["mean |gap|"] = cells.groupby("candidate").mean()
    for measure in ["log loss", "ECE"]:
        wide = part.pivot_table(measure, [*problem, "seed"], "candidate")
        differences = wide.sub(wide[names[1]], axis=0)
        table[f"se of {measure}"] = differences.sem()
    print(table.loc[names].round(4).to_string(), "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("stage", choices=DATA)
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        results = run_all(options.folder, options.stage, options.seeds)
    for calibrator, part in results.groupby("calibrator"):
        print(f"{calibrator}, {len(part) // part['candidate'].nunique()} trainings")
        print_table(part)
